//! The changes that time alone makes: leases run out, waiters give up, grace ends, ended claims are forgotten. The next
//! deadline drives them; there is no periodic sweep.

use super::attention::kept_us;
use crate::change::{Change, Ending};
use crate::command::Command;
use crate::fact::Status;
use crate::ids::Kind;
use crate::state::{Cix, Rix};
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

impl Engine {
    /// Handles the deadlines that are due, earliest first, at most `due_per_step` claims. Stops early only when none is
    /// left.
    pub(crate) fn expire_due(&mut self, now: Moment, out: &mut Outbox) {
        for _ in 0..self.limits.due_per_step {
            let resumed = self.state.pauses.first().filter(|&&(until, _)| until <= now.at).copied();
            match self.state.deadlines.first() {
                // A claim that is due when a pause ends goes first: it ends as it would have under the pause.
                Some(&(looked_at, cix)) if looked_at <= resumed.map_or(now.at, |(until, _)| until) => {
                    let due_at = self.state.claims[cix].due_at();
                    if due_at == looked_at || planted!(ExpiryWithoutRecheck) {
                        self.expire(now, cix, out);
                    } else {
                        // The claim was renewed, or went into grace, after it entered the index. Its turn comes later,
                        // even if the new deadline is due as well: otherwise a waiter could be granted a slot that an
                        // earlier deadline takes away.
                        self.state.set_index(cix, due_at);
                    }
                }
                _ => match (resumed, self.next_to_forget(now)) {
                    (Some((_, rix)), _) => self.end_pause(now, rix, out),
                    (None, Some(cix)) => self.forget(now, cix, out),
                    (None, None) => return,
                },
            }
        }
    }

    /// The next time at which something may be due. May be early (a renewal does not move it), never late.
    pub fn next_deadline(&self) -> Option<Time> {
        let claims = self.state.deadlines.first().map(|&(when, _)| when);
        let [old, too_much] = self.to_forget();
        let pauses = self.state.pauses.first().map(|&(until, _)| until);
        [claims, pauses, old.map(|(when, _)| when), too_much.map(|(when, _)| when)].into_iter().flatten().min()
    }

    /// A due deadline of the claim that a command is about is handled before the command, however many claims are ahead
    /// in line. The command then finds the claim as it is.
    pub(crate) fn touch(&mut self, now: Moment, command: &Command, out: &mut Outbox) {
        while self.state.pauses.first().is_some_and(|&(until, _)| until <= now.at)
            && let Some(rix) = self.paused_subject(now, command)
        {
            self.end_pause(now, rix, out);
        }
        while let Some(cix) = self.subject(command)
            && self.state.claims[cix].due_at() <= now.at
        {
            self.expire(now, cix, out);
        }
    }

    /// The claim whose deadline decides what a command does.
    fn subject(&self, command: &Command) -> Option<Cix> {
        match command {
            Command::Acquire(acquire) => match acquire.resource.kind() {
                Kind::Lock => self.state.lock_holder(self.state.resource(&acquire.resource)?),
                // A lease that ran out has spent its key, a wait that ran out has freed it.
                Kind::Pool | Kind::Claim => {
                    let key = acquire.key.as_ref()?;
                    self.state.named(self.state.resource(&acquire.resource)?, &key.name)
                }
            },
            Command::Spend(spend) => self.state.named(self.state.resource(&spend.resource)?, &spend.key),
            Command::ViewHolding { resource, key } => {
                let rix = self.state.resource(resource)?;
                key.as_ref().map_or_else(|| self.state.lowest_holder(rix), |key| self.state.named(rix, key))
            }
            Command::Unlock { resource, .. } => self.state.lock_holder(self.state.resource(resource)?),
            Command::Revoke { resource, which } => self.revocable(resource, *which),
            Command::Renew { claim, .. }
            | Command::Return { claim, .. }
            | Command::ViewLease { claim, .. }
            | Command::Update { claim, .. }
            | Command::ViewClaim { claim } => self.state.claim(*claim),
            // Leaving ends a claim whether or not its deadline is due; the other commands are about no single claim.
            Command::Withdraw { .. }
            | Command::Attend { .. }
            | Command::HandBack { .. }
            | Command::Configure { .. }
            | Command::Unconfigure { .. }
            | Command::NameSlots(_)
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::ServeSlot { .. }
            | Command::Mark
            | Command::ViewResource { .. }
            | Command::ViewPlace { .. }
            | Command::ListClaims(_)
            | Command::ListResources { .. }
            | Command::ViewFence { .. }
            | Command::Survey { .. }
            | Command::Inspect { .. } => None,
        }
    }

    /// The resource of a command that asks for a slot or is about a pause, if its pause should be over.
    fn paused_subject(&self, now: Moment, command: &Command) -> Option<Rix> {
        let key = match command {
            Command::Acquire(acquire) => &acquire.resource,
            Command::Pause { resource, .. } | Command::Resume { resource } | Command::ViewResource { resource } => {
                resource
            }
            _ => return None,
        };
        let rix = self.state.resource(key)?;
        let pause = self.state.resources[rix].fittings()?.pause.as_ref()?;
        (pause.until <= now.at).then_some(rix)
    }

    /// Time is handled before a command, in a step of its own, so a claim that a command looks at is not due.
    pub(crate) fn assert_touched(&self, now: Moment, cix: Cix) {
        assert!(
            self.state.claims[cix].due_at() > now.at,
            "a due deadline of a claim is handled before a command about it"
        );
    }

    fn expire(&mut self, now: Moment, cix: Cix, out: &mut Outbox) {
        let claim = &self.state.claims[cix];
        let (id, rix) = (claim.id, claim.resource);
        match (claim.status, self.state.kind(rix)) {
            (Status::Waiting, _) if claim.wait_ttl_us() > 0 && claim.is_attended() => {
                // A caller is parked on it, which is a question that lasts.
                let wait_until = now.at.plus(kept_us(claim.wait_ttl_us()));
                self.commit(now, Change::Kept { claim: id, wait_until }, out);
            }
            (Status::Waiting, _) if claim.wait_ttl_us() > 0 => self.end(now, cix, Ending::Withdrawn, out),
            (Status::Waiting, _) => self.end(now, cix, Ending::TimedOut, out),
            (Status::Active, Kind::Pool | Kind::Claim) if planted!(LostWakeUpOnExpiry) => {
                self.end_only(now, cix, Ending::Expired, out);
            }
            (Status::Active, Kind::Pool | Kind::Claim) => self.end(now, cix, Ending::Expired, out),
            (Status::Active, Kind::Lock) => self.commit(now, Change::GraceBegan { claim: id }, out),
            (Status::Grace, _) => {
                self.commit(now, Change::GraceOver { claim: id }, out);
                self.settle(now, rix, out);
            }
            (Status::Lapsed | Status::Ended(_), _) => unreachable!("nothing is due for {:?}", claim.status),
        }
    }

    /// The ended claim or lapsed lock that may be forgotten now.
    fn next_to_forget(&self, now: Moment) -> Option<Cix> {
        self.to_forget().into_iter().flatten().find(|&(when, _)| when <= now.at).map(|(_, cix)| cix)
    }

    /// The oldest retained claim, and the claim to drop first while too much is retained; each with the time from which
    /// it may be forgotten. That is never the time at which it ended: the callers who wait for a claim are told how it
    /// ended, so the claim must still be there.
    fn to_forget(&self) -> [Option<(Time, Cix)>; 2] {
        let retained = &self.state.retained;
        let old = retained.oldest().map(|&(ended_at, _, cix)| (ended_at.plus(self.limits.retain_us.max(1)), cix));
        let least_missed = retained.least_missed().filter(|_| self.is_too_much_retained());
        [old, least_missed.map(|&(ended_at, _, cix)| (ended_at.plus(1), cix))]
    }

    /// Too many by number or by bytes. After an operator lowers a limit, the excess is too much until it is gone.
    fn is_too_much_retained(&self) -> bool {
        self.state.retained.len() > self.limits.retained_max
            || self.state.account.retained > self.limits.retained_bytes_max()
            || self.state.bytes_used() > self.limits.state_bytes_max
    }

    pub(crate) fn forget(&mut self, now: Moment, cix: Cix, out: &mut Outbox) {
        let claim = self.state.claims[cix].id;
        self.commit(now, Change::Forgotten { claim }, out);
    }
}
