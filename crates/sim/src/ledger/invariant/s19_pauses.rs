//! S19: nothing is granted while a resource is paused, and a pause ends at its time or when a caller asks.

use leasehold_engine::{Moment, ResourceKey};

use super::{Check, ensure};
use crate::ledger::{Asks, Row};

pub(crate) fn on_grant(row: &Row) -> Check {
    let until = row.fit.paused_until;
    ensure(until.is_none(), "S19", || format!("a grant while the resource is paused until {until:?}"))
}

pub(crate) fn on_resumed(key: &ResourceKey, row: &Row, moment: Moment, asks: &Asks) -> Check {
    let until = row.fit.paused_until;
    let is_right = until.is_some_and(|until| until <= moment.at || asks.resumptions.contains(key));
    ensure(is_right, "S19", || format!("{key:?} was resumed at {:?}, it was paused until {until:?}", moment.at))
}
