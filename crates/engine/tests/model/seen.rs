//! The cases that a run came across. A test that never reaches a case does not test it, so every name here must be met.

use std::collections::BTreeMap;
use std::fmt;

use leasehold_engine::{
    Answer, Change, ClaimStatus, Command, Ending, Fact, FenceView, Kind, LockNews, Refusal, Reply, Spent, Status,
};

#[derive(Debug, Default)]
pub(crate) struct Seen {
    counts: BTreeMap<&'static str, u64>,
}

/// Every event that a full run must have met.
const WANTED: [&str; 101] = [
    "change: paused",
    "change: resumed",
    "change: slot out of service",
    "change: slot back in service",
    "change: slots named",
    "change: names taken away",
    "paused: a waiter is told",
    "paused: refused",
    "paused: a lock",
    "paused: ended by time",
    "resumed: a waiter is granted",
    "out of service: every slot",
    "answer: a named slot",
    "refused: no such slot",
    "refused: a held slot is renamed",
    "refused: the slots have names",
    "change: confirmed",
    "change: labeled",
    "answer: an estimate",
    "refused: with an estimate",
    "confirmed: by a question",
    "expired: not confirmed",
    "withdrawn: not asked about",
    "revoked: a waiter",
    "refused: store full",
    "change: kept",
    "answer: spent a lease",
    "answer: gave up a place",
    "answer: spent nothing",
    "answer: place in line",
    "answer: holding, no claim of the key",
    "answer: holding, the key waits",
    "answer: holding, the key holds",
    "answer: holding, the key has ended",
    "answer: not in line",
    "refused: no longer held",
    "answer: acquired from another",
    "answer: acquired from nobody",
    "answer: claim",
    "answer: current token",
    "answer: late token",
    "answer: nothing to revoke",
    "answer: revoked",
    "answer: claim ended",
    "answer: lease",
    "answer: locked",
    "answer: locked in grace",
    "answer: page cut short",
    "answer: renewed lock",
    "answer: returned",
    "answer: too late to return",
    "answer: unlocked",
    "answer: waiting",
    "change: claimed",
    "change: forgotten",
    "change: grace began",
    "change: grace over",
    "change: granted",
    "change: joined",
    "change: renewed",
    "change: retimed",
    "change: configured",
    "change: unconfigured",
    "ended: aborted",
    "ended: deleted",
    "ended: expired",
    "ended: handed back",
    "ended: released",
    "ended: revoked",
    "ended: superseded",
    "ended: timed out",
    "ended: withdrawn",
    "joined: while waiting",
    "joined: after the grant",
    "joined: the same client for a lock",
    "handed back: though seen, refused",
    "handed back: though seen, as nobody heard of it",
    "handed back: a lapsed lock",
    "handed back: the key is free again",
    "refused: contended",
    "refused: ended",
    "refused: key reused",
    "refused: key spent",
    "refused: no such claim",
    "refused: no such resource",
    "refused: none free",
    "refused: not held",
    "refused: not the holder",
    "refused: still waiting",
    "refused: over the quota of claims",
    "refused: over the quota of waiting",
    "refused: too many claims",
    "refused: too many resources",
    "refused: the state is full",
    "refused: too many waiting",
    "renewed: in grace",
    "renewed: lapsed",
    "snapshot: walked while things changed",
    "time: several due at one instant",
    "waited: granted from the queue",
    "capacity: below what is held",
];

impl Seen {
    pub(crate) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn assert_all(&self) {
        let missing: Vec<&&str> = WANTED.iter().filter(|name| self.of(name) == 0).collect();
        assert!(missing.is_empty(), "never met: {missing:?}");
    }

    pub(crate) fn change(&mut self, change: &Change) {
        self.count(match change {
            Change::Marked => "change: marked",
            Change::Jumped { .. } => "change: jumped",
            Change::Configured { .. } => "change: configured",
            Change::Unconfigured { .. } => "change: unconfigured",
            Change::Claimed(_) => "change: claimed",
            Change::Joined { .. } => "change: joined",
            Change::Kept { .. } => "change: kept",
            Change::Confirmed { .. } => "change: confirmed",
            Change::Labeled { .. } => "change: labeled",
            Change::Granted { .. } => "change: granted",
            Change::Renewed { .. } => "change: renewed",
            Change::Retimed { .. } => "change: retimed",
            Change::GraceBegan { .. } => "change: grace began",
            Change::GraceOver { .. } => "change: grace over",
            Change::Ended { .. } => "change: ended",
            Change::Forgotten { .. } => "change: forgotten",
            Change::Paused { .. } => "change: paused",
            Change::Resumed { .. } => "change: resumed",
            Change::SlotServed { out: Some(_), .. } => "change: slot out of service",
            Change::SlotServed { out: None, .. } => "change: slot back in service",
            Change::SlotsNamed { slots: Some(_), .. } => "change: slots named",
            Change::SlotsNamed { slots: None, .. } => "change: names taken away",
        });
        if let Change::Ended { how, .. } = change {
            self.count(match how {
                Ending::Released => "ended: released",
                Ending::Expired => "ended: expired",
                Ending::Revoked => "ended: revoked",
                Ending::Aborted => "ended: aborted",
                Ending::Withdrawn => "ended: withdrawn",
                Ending::TimedOut => "ended: timed out",
                Ending::Deleted => "ended: deleted",
                Ending::HandedBack => "ended: handed back",
                Ending::Superseded => "ended: superseded",
            });
        }
    }

    /// The cases that time makes, with the state before them.
    pub(crate) fn time(&mut self, before: &[Fact], changes: &[Change]) {
        let claims = || before.iter().filter_map(|fact| if let Fact::Claim(claim) = fact { Some(claim) } else { None });
        for change in changes {
            if matches!(change, Change::Resumed { .. }) {
                self.count("paused: ended by time");
            }
            let Change::Ended { claim, how } = change else { continue };
            let Some(row) = claims().find(|row| row.claim == *claim) else { continue };
            match (how, row.status) {
                (Ending::Withdrawn, Status::Waiting) if row.particulars.wait_ttl_us > 0 => {
                    self.count("withdrawn: not asked about");
                }
                (Ending::Expired, Status::Active) if row.particulars.confirm_us > 0 => {
                    self.count("expired: not confirmed");
                }
                _ => {}
            }
        }
    }

    /// The cases that only show when a command is seen together with the state before it and the changes it made.
    pub(crate) fn command(&mut self, command: &Command, before: &[Fact], changes: &[Change]) {
        let claims = || before.iter().filter_map(|fact| if let Fact::Claim(claim) = fact { Some(claim) } else { None });
        let claimed_now =
            |claim| changes.iter().any(|change| matches!(change, Change::Claimed(new) if new.claim == claim));
        for change in changes {
            match change {
                Change::Granted { claim, .. } if !claimed_now(*claim) => self.count("waited: granted from the queue"),
                Change::Joined { claim, .. } => {
                    let joined = claims().find(|row| row.claim == *claim);
                    self.count(match joined {
                        Some(row) if row.resource.kind() == Kind::Lock => "joined: the same client for a lock",
                        Some(row) if row.status == Status::Waiting => "joined: while waiting",
                        _ => "joined: after the grant",
                    });
                }
                Change::Renewed { claim, .. }
                    if claims().any(|row| row.claim == *claim && row.particulars.confirm_us > 0) =>
                {
                    self.count("confirmed: by a question");
                }
                Change::Ended { claim, how: Ending::Revoked }
                    if claims().any(|row| row.claim == *claim && row.status == Status::Waiting)
                        && matches!(command, Command::Revoke { .. }) =>
                {
                    self.count("revoked: a waiter");
                }
                Change::Renewed { claim, .. } => match claims().find(|row| row.claim == *claim).map(|row| row.status) {
                    Some(Status::Grace) => self.count("renewed: in grace"),
                    Some(Status::Lapsed) => self.count("renewed: lapsed"),
                    _ => {}
                },
                Change::Ended { claim, how: Ending::HandedBack }
                    if claims().any(|row| row.claim == *claim && row.key.is_some()) =>
                {
                    self.count("handed back: the key is free again");
                }
                _ => {}
            }
        }
        match command {
            Command::HandBack { claim, heard_by_nobody } => {
                let before = claims().find(|row| row.claim == *claim);
                let was_seen = before.is_some_and(|row| row.seen && row.status == Status::Active);
                if was_seen && changes.is_empty() {
                    self.count("handed back: though seen, refused");
                }
                if was_seen && *heard_by_nobody && !changes.is_empty() {
                    self.count("handed back: though seen, as nobody heard of it");
                }
                if before.is_some_and(|row| row.status == Status::Lapsed) && !changes.is_empty() {
                    self.count("handed back: a lapsed lock");
                }
            }
            Command::Resume { .. } if changes.iter().any(|change| matches!(change, Change::Granted { .. })) => {
                self.count("resumed: a waiter is granted");
            }
            Command::Configure { resource, capacity, .. } => {
                let held = claims().filter(|row| row.resource == *resource && row.status == Status::Active).count();
                if held > *capacity as usize {
                    self.count("capacity: below what is held");
                }
            }
            _ => {}
        }
    }

    pub(crate) fn answer(&mut self, answer: &Answer) {
        match answer {
            Ok(Reply::Claim(view)) if view.eta_us.is_some() => self.count("answer: an estimate"),
            Err(Refusal::NoneFree { eta_us: Some(_), .. } | Refusal::Locked { eta_us: Some(_), .. }) => {
                self.count("refused: with an estimate");
            }
            _ => {}
        }
        match answer {
            Ok(Reply::Claim(view)) if view.pause.is_some() => self.count("paused: a waiter is told"),
            Ok(Reply::Claim(view)) if view.slot.is_some() => self.count("answer: a named slot"),
            Ok(Reply::Lease(view)) if view.named.is_some() => self.count("answer: a named slot"),
            Err(Refusal::NoneFree { pause: Some(pause), .. }) if pause.is_by_slots => {
                self.count("out of service: every slot");
            }
            Err(Refusal::NoneFree { pause: Some(_), .. }) => self.count("paused: refused"),
            Err(Refusal::Locked { lock, .. }) if lock.pause.is_some() => self.count("paused: a lock"),
            _ => {}
        }
        let name = match answer {
            Ok(reply) => match reply {
                Reply::Resource(_) => "answer: resource",
                Reply::Unconfigured(true) => "answer: unconfigured",
                Reply::Unconfigured(false) => "answer: nothing to unconfigure",
                Reply::Lease(_) => "answer: lease",
                Reply::Returned(true) => "answer: returned",
                Reply::Returned(false) => "answer: too late to return",
                Reply::Lock(_, LockNews::Seen) => "answer: lock",
                Reply::Lock(_, LockNews::Acquired { from: None }) => "answer: acquired from nobody",
                Reply::Lock(_, LockNews::Acquired { from: Some(_) }) => "answer: acquired from another",
                Reply::Lock(_, LockNews::Renewed) => "answer: renewed lock",
                Reply::Unlocked => "answer: unlocked",
                Reply::Claim(_) => "answer: claim",
                Reply::ClaimEnded(_) => "answer: claim ended",
                Reply::Claims(page) if page.next.is_some() => "answer: page cut short",
                Reply::Claims(_) => "answer: claims",
                Reply::Resources(_) => "answer: resources",
                Reply::Revoked(true) => "answer: revoked",
                Reply::Revoked(false) => "answer: nothing to revoke",
                Reply::Fence(FenceView { is_current: true, .. }) => "answer: current token",
                Reply::Fence(FenceView { is_current: false, .. }) => "answer: late token",
                Reply::Survey(_) | Reply::Inspection(_) => unreachable!("stories tell of these"),
                Reply::Spent(Spent::Held) => "answer: spent a lease",
                Reply::Spent(Spent::Waited) => "answer: gave up a place",
                Reply::Spent(Spent::Nothing) => "answer: spent nothing",
                Reply::Holding(view) => match view.keyed.as_ref().map(|view| view.status) {
                    None => "answer: holding, no claim of the key",
                    Some(ClaimStatus::Waiting) => "answer: holding, the key waits",
                    Some(ClaimStatus::Active) => "answer: holding, the key holds",
                    Some(ClaimStatus::Ended(_)) => "answer: holding, the key has ended",
                },
                Reply::Place(place) if place.queue_position.is_some() => "answer: place in line",
                Reply::Place(_) => "answer: not in line",
                Reply::Waiting(_) => "answer: waiting",
                Reply::Done => "answer: done",
                Reply::Resumed(true) => "answer: resumed",
                Reply::Resumed(false) => "answer: nothing to resume",
            },
            Err(refusal) => match refusal {
                Refusal::NoSuchResource => "refused: no such resource",
                Refusal::NoSuchClaim => "refused: no such claim",
                Refusal::NoneFree { .. } => "refused: none free",
                Refusal::TakenOut => unreachable!("only a parked caller hears that"),
                Refusal::NotHeld { how: None } => "refused: not held",
                Refusal::NotHeld { how: Some(_) } => "refused: no longer held",
                Refusal::Locked { in_grace: true, .. } => "answer: locked in grace",
                Refusal::Locked { in_grace: false, .. } => "answer: locked",
                Refusal::NotTheHolder => "refused: not the holder",
                Refusal::Ended(_) => "refused: ended",
                Refusal::StillWaiting => "refused: still waiting",
                Refusal::Contended => "refused: contended",
                Refusal::KeyReused => "refused: key reused",
                Refusal::KeySpent { .. } => "refused: key spent",
                Refusal::EndedUntold { .. } => "refused: ended untold",
                Refusal::StoreFull => "refused: store full",
                Refusal::TooManyWaiting { .. } => "refused: too many waiting",
                Refusal::OverQuota { is_about_waiting: true, .. } => "refused: over the quota of waiting",
                Refusal::OverQuota { is_about_waiting: false, .. } => "refused: over the quota of claims",
                Refusal::TooManyClaims { .. } => "refused: too many claims",
                Refusal::StateFull { .. } => "refused: the state is full",
                Refusal::TooManyResources { .. } => "refused: too many resources",
                Refusal::NoSuchSlot { .. } => "refused: no such slot",
                Refusal::SlotHeld { .. } => "refused: a held slot is renamed",
                Refusal::SlotsNamed { .. } => "refused: the slots have names",
                Refusal::TooManyOutOfService { .. } => unreachable!("no script has that many slots"),
            },
        };
        self.count(name);
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = WANTED.iter().filter(|name| self.of(name) > 0).count();
        let (cases, steps) = (self.of("cases"), self.of("steps"));
        writeln!(f, "model: {cases} cases, {steps} steps, {met} of {} rare events met", WANTED.len())?;
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{count:>12}  {name}"))
    }
}
