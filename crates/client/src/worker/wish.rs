//! The wish of a caller for a lease, and how the caller is told of its wait.

use std::sync::Arc;
use std::time::Duration;

use super::held::OnNotice;
use crate::dialect::{Ask, Target};

/// The wish of a caller.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) target: Target,
    /// The first part of a lock's client.
    pub(crate) who: String,
    pub(crate) ttl: Duration,
    /// In all; none is for ever, zero asks once.
    pub(crate) timeout: Option<Duration>,
    /// How long one call waits.
    pub(crate) round: Duration,
    /// Gives up when the service was not reached at all for so long.
    pub(crate) unreachable_after: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) persists: bool,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) on_notice: Option<OnNotice>,
    /// Renewals are told, too.
    pub(crate) tells_renewals: bool,
}

impl Wish {
    pub(super) fn asks_once(&self) -> bool {
        self.timeout == Some(Duration::ZERO)
    }

    pub(super) fn ask(&self) -> Ask {
        Ask {
            target: self.target.clone(),
            name: format!("{:032x}", rand::random::<u128>()),
            who: self.who.clone(),
            ttl: self.ttl,
            // The same in every call of this acquisition, as it is part of what the key stands for.
            wait: self.timeout.map_or(self.round, |timeout| timeout.min(self.round)),
        }
    }
}

/// How the wait goes. Parts that the service does not tell are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since the call.
    pub elapsed: Duration,
    /// How often the place in the queue was lost, so that the caller stands at its end again.
    pub places_lost: u32,
    /// 1 is next.
    pub queue_position: Option<u64>,
    /// The holders.
    pub holders: Vec<String>,
    /// How many wait.
    pub waiting: Option<u64>,
    /// When it may be free, by the service's guess.
    pub eta: Option<Duration>,
}

pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;
