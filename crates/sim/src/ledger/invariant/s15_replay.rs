//! S15: replay(journal) == live state == checkpoint + tail; and the model, which shares no code with them, agrees.

use leasehold_engine::{Fact, Status};

use super::{Check, ensure};
use crate::ledger::{EntryState, Ledger};

pub(crate) fn same(what: &str, found: &[Fact], replayed: &[Fact]) -> Check {
    ensure(found == replayed, "S15", || {
        let odd = found.iter().find(|fact| !replayed.contains(fact));
        let missing = replayed.iter().find(|fact| !found.contains(fact));
        format!("{what} differs from the replayed journal: has {odd:?}, should have {missing:?}")
    })
}

/// The account of bytes is part of the state.
pub(crate) fn account(found: u64, replayed: u64) -> Check {
    ensure(found == replayed, "S15", || format!("{found} bytes are accounted, {replayed} after a replay"))
}

/// The model and the replayed engine tell the same story.
pub(crate) fn model(ledger: &Ledger, facts: &[Fact]) -> Check {
    let mut live = 0;
    for fact in facts {
        let Fact::Claim(fact) = fact else { continue };
        let Some(entry) = ledger.claims.get(&fact.claim) else {
            return ensure(false, "S15", || format!("{:?} is not in the journal", fact.claim));
        };
        let state = match fact.status {
            Status::Waiting => EntryState::Waiting,
            Status::Active => EntryState::Active,
            Status::Grace => EntryState::Grace,
            Status::Lapsed => EntryState::Lapsed,
            Status::Ended(how) => EntryState::Ended(how),
        };
        ensure(state == entry.state, "S15", || {
            format!("{:?} is {state:?}, the journal says {:?}", fact.claim, entry.state)
        })?;
        if state.holds() {
            let (deadline, token) = (entry.deadline(), entry.granted.map_or(0, |held| held.token));
            let same = fact.lease.deadline == deadline && fact.token.0 == token;
            ensure(same, "S15", || format!("{:?} ends {:?}, the journal says {deadline:?}", fact.claim, fact.lease))?;
        }
        if state == EntryState::Waiting {
            let until = entry.wait_until;
            ensure(fact.wait_until == until, "S15", || format!("waits until {:?}, not {until:?}", fact.wait_until))?;
            let keep_us = entry.keep_us;
            ensure(fact.keep_us == keep_us, "S15", || format!("kept for {} us, not {keep_us}", fact.keep_us))?;
        }
        live += usize::from(!matches!(state, EntryState::Ended(_)));
    }
    let expected = ledger.live.len();
    ensure(live == expected, "S15", || format!("{live} claims are alive, the journal says {expected}"))
}
