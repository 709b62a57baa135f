//! A held lease as a state machine without IO: it is told the time and the outcome of each renewal, and returns the
//! next action. The worker carries that out (`worker/keep.rs`); a test can do the same with times of its own.

use std::time::Duration;

use crate::clock::Moment;
use crate::loss::Cause;
use crate::terms::Terms;

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send one renewal, and report its outcome.
    Send,
    /// Tell the holder that the lease is at risk. Said once until it is renewed.
    AtRisk,
    /// Tell the holder that the lease is lost. Said once.
    Lose,
    /// Nothing until then, unless a renewal in flight ends.
    Wait(Moment),
    /// Nothing any more.
    End,
}

/// The life of one lease from its grant on.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Watch {
    terms: Terms,
    /// `D`. A renewal of the same length can only move it ahead.
    deadline: Moment,
    /// When the next renewal is due.
    renew_at: Moment,
    /// Failed attempts since the last answered one.
    failures: u32,
    /// One renewal at a time.
    in_flight: bool,
    /// The holder was told that the lease is at risk, and it was not renewed since.
    is_warned: bool,
    /// Why it is lost. Final, unless `persists`.
    loss: Option<Cause>,
    /// The loss was told by `Step::Lose`.
    is_told: bool,
    /// From then on it is no longer renewed.
    hold_until: Option<Moment>,
    /// Renewed on after its deadline, for a holder that the token guards.
    persists: bool,
    /// Why the last attempt failed.
    last_error: Option<String>,
}

impl Watch {
    /// A lease that was just granted. `factor` from 0 to 1 spreads renewals.
    pub fn new(terms: Terms, factor: f64) -> Watch {
        Watch {
            terms,
            deadline: terms.deadline(),
            renew_at: terms.renew_at(factor),
            failures: 0,
            in_flight: false,
            is_warned: false,
            loss: None,
            is_told: false,
            hold_until: None,
            persists: false,
            last_error: None,
        }
    }

    /// Ends renewal at a moment, so that a holder that hangs does not hold for ever.
    #[must_use]
    pub fn holding_until(mut self, until: Option<Moment>) -> Watch {
        self.hold_until = until;
        self
    }

    /// Goes on renewing after the deadline, with the same token, until the service says that the lease ended.
    #[must_use]
    pub fn persisting(mut self, persists: bool) -> Watch {
        self.persists = persists;
        self
    }

    /// The terms of the last answered request.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// When it is lost unless it is renewed.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Why the last attempt failed; nothing once one was answered.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Why it is not held at this moment. Computed, so that a process that was stopped sees it before any timer runs.
    pub fn loss(&self, now: Moment) -> Option<Cause> {
        match &self.loss {
            Some(cause) => Some(cause.clone()),
            None if now >= self.deadline => Some(self.deadline_cause()),
            None => None,
        }
    }

    /// Returns the next action. Call again at the moment it names, and whenever a renewal ended.
    pub fn poll(&mut self, now: Moment) -> Step {
        if self.loss.is_none() && now >= self.deadline {
            self.loss = Some(self.deadline_cause());
        }
        if self.loss.is_some() && !self.is_told {
            self.is_told = true;
            return Step::Lose;
        }
        let goes_on = match &self.loss {
            None => true,
            Some(cause) => self.persists && !cause.is_told_by_service(),
        };
        if !goes_on {
            return Step::End;
        }
        let at_risk = self.terms.at_risk();
        if !self.is_warned && now >= at_risk && self.loss.is_none() {
            self.is_warned = true;
            return Step::AtRisk;
        }
        let is_renewed = self.hold_until.is_none_or(|until| now < until);
        if !self.in_flight && is_renewed && now >= self.renew_at {
            self.in_flight = true;
            return Step::Send;
        }
        let renewal = (!self.in_flight && is_renewed).then_some(self.renew_at);
        let warning = (!self.is_warned).then_some(at_risk);
        let end = self.loss.is_none().then_some(self.deadline);
        let next = [renewal, warning, end].into_iter().flatten().min();
        Step::Wait(next.unwrap_or(now + Duration::from_secs(1)))
    }

    /// A renewal that was sent at `terms.sent_at` was answered. False when that came too late: the lease stays lost.
    /// A lease that persists is held again.
    pub fn handle_renewed(&mut self, now: Moment, terms: Terms, factor: f64) -> bool {
        self.in_flight = false;
        let is_late = self.loss(now).is_some();
        if is_late && !(self.persists && self.loss(now).is_some_and(|cause| !cause.is_told_by_service())) {
            return false;
        }
        if is_late {
            self.loss = None;
            self.is_told = false;
            self.deadline = terms.deadline();
        } else if terms.length < self.terms.length {
            // The service gives less than before: trusting the old deadline would be a guess.
            self.deadline = terms.deadline();
        } else {
            self.deadline = self.deadline.max(terms.deadline());
        }
        self.terms = terms;
        self.renew_at = terms.renew_at(factor);
        self.failures = 0;
        self.is_warned = false;
        self.last_error = None;
        true
    }

    /// A renewal failed, or was not answered in time. `asked_pause` is the value of `Retry-After`.
    pub fn handle_failed(&mut self, now: Moment, error: String, asked_pause: Option<Duration>, factor: f64) {
        self.in_flight = false;
        self.failures = self.failures.saturating_add(1);
        let pause = match asked_pause {
            Some(asked) => asked.min(self.terms.longest_obedience(now)),
            None => self.terms.retry_pause(self.failures, factor),
        };
        // After the deadline nothing is urgent any more.
        let pause = if self.loss(now).is_some() { pause.max(self.terms.attempt_timeout()) } else { pause };
        self.renew_at = now + pause;
        self.last_error = Some(error);
    }

    /// The service said that the lease ended, or it was ended here. A loss that is known already stays what it was: the
    /// release that follows it is not why it was lost. Only the service knows better than our clock.
    pub fn handle_ended(&mut self, cause: Cause) {
        self.in_flight = false;
        let knows_better = |loss: &Cause| cause != Cause::Released && !loss.is_told_by_service();
        if self.loss.as_ref().is_none_or(knows_better) {
            self.loss = Some(cause);
        }
    }

    fn deadline_cause(&self) -> Cause {
        match self.hold_until {
            Some(until) if until <= self.deadline => Cause::MaxHold,
            _ => Cause::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: Duration = Duration::from_secs(30);

    fn at(millis: u64) -> Moment {
        Moment::from_start(Duration::from_millis(millis))
    }

    fn fresh() -> Watch {
        Watch::new(Terms::new(at(0), L), 1.0)
    }

    #[test]
    fn a_release_after_a_loss_is_not_its_cause() {
        let mut watch = fresh();
        let late = at(40_000);
        assert_eq!(watch.loss(late), Some(Cause::Deadline));
        watch.poll(late);
        watch.handle_ended(Cause::Released);
        assert_eq!(watch.loss(late), Some(Cause::Deadline));
    }

    #[test]
    fn a_lease_that_nobody_answers_for_is_at_risk_and_then_lost() {
        let mut watch = fresh();
        assert_eq!(watch.poll(at(0)), Step::Wait(at(10_000)));
        assert_eq!(watch.poll(at(10_000)), Step::Send);
        assert_eq!(watch.poll(at(10_000)), Step::Wait(at(19_400)), "one renewal in flight");
        watch.handle_failed(at(13_000), "no answer".into(), None, 1.0);
        assert_eq!(watch.poll(at(13_000)), Step::Wait(at(13_100)));
        assert_eq!(watch.poll(at(13_100)), Step::Send);
        assert_eq!(watch.poll(at(19_399)), Step::Wait(at(19_400)));
        assert_eq!(watch.poll(at(19_400)), Step::AtRisk);
        assert_eq!(watch.poll(at(19_400)), Step::Wait(at(29_400)), "said once");
        assert_eq!(watch.loss(at(29_399)), None);
        assert_eq!(watch.loss(at(29_400)), Some(Cause::Deadline), "seen before it is polled");
        assert_eq!(watch.poll(at(29_400)), Step::Lose);
        assert_eq!(watch.poll(at(29_400)), Step::End);
        assert!(!watch.handle_renewed(at(29_401), Terms::new(at(13_100), L), 1.0), "lost is final");
        assert_eq!(watch.loss(at(29_401)), Some(Cause::Deadline));
    }

    #[test]
    fn a_renewal_counts_from_its_own_sending_and_is_told_to_be_well_again() {
        let mut watch = fresh();
        assert_eq!(watch.poll(at(10_000)), Step::Send);
        assert_eq!(watch.poll(at(20_000)), Step::AtRisk);
        assert!(watch.handle_renewed(at(25_000), Terms::new(at(10_000), L), 1.0));
        assert_eq!(watch.deadline(), at(39_400));
        assert_eq!(watch.poll(at(25_000)), Step::Send, "a third has passed since the sending");
        assert_eq!(watch.poll(at(29_400)), Step::AtRisk, "the next time it is said again");
    }

    #[test]
    fn the_deadline_moves_back_only_when_the_service_gives_less() {
        let mut watch = fresh();
        watch.poll(at(10_000));
        assert!(watch.handle_renewed(at(10_001), Terms::new(at(0), L), 1.0));
        assert_eq!(watch.deadline(), at(29_400));
        assert!(watch.handle_renewed(at(10_002), Terms::new(at(10_000), L / 3), 1.0));
        assert_eq!(watch.deadline(), at(19_800));
    }

    #[test]
    fn a_pause_that_the_service_asks_for_leaves_time_for_more() {
        let mut watch = fresh();
        watch.poll(at(10_000));
        watch.handle_failed(at(10_000), "429".into(), Some(Duration::from_mins(1)), 1.0);
        assert_eq!(watch.poll(at(10_000)), Step::Wait(at(14_850)));
        assert_eq!(watch.last_error(), Some("429"));
    }

    #[test]
    fn a_lease_whose_end_is_told_is_lost_at_once() {
        let mut watch = fresh();
        watch.poll(at(10_000));
        watch.handle_ended(Cause::Revoked);
        assert_eq!(watch.loss(at(10_001)), Some(Cause::Revoked));
        assert_eq!(watch.poll(at(10_001)), Step::Lose);
        assert_eq!(watch.poll(at(10_001)), Step::End);
        assert!(!watch.handle_renewed(at(10_002), Terms::new(at(10_000), L), 1.0));
    }

    #[test]
    fn a_clock_that_jumps_past_the_deadline_lets_no_renewal_leave() {
        let mut watch = fresh();
        assert_eq!(watch.poll(at(3_600_000)), Step::Lose);
        assert_eq!(watch.poll(at(3_600_000)), Step::End);
    }

    #[test]
    fn renewal_ends_when_it_was_held_long_enough() {
        let mut watch = fresh().holding_until(Some(at(10_000)));
        assert_eq!(watch.poll(at(9_999)), Step::Wait(at(10_000)));
        assert_eq!(watch.poll(at(10_000)), Step::Wait(at(19_400)));
        assert_eq!(watch.poll(at(19_400)), Step::AtRisk);
        assert_eq!(watch.poll(at(29_400)), Step::Lose);
        assert_eq!(watch.loss(at(29_400)), Some(Cause::MaxHold));
    }

    #[test]
    fn a_lease_that_persists_is_renewed_on_and_can_be_held_again() {
        let mut watch = fresh().persisting(true);
        watch.poll(at(10_000));
        watch.handle_failed(at(29_000), "no answer".into(), None, 1.0);
        assert_eq!(watch.poll(at(29_500)), Step::Lose);
        assert_eq!(watch.poll(at(29_500)), Step::Send);
        assert!(watch.handle_renewed(at(29_600), Terms::new(at(29_500), L), 1.0));
        assert_eq!(watch.loss(at(29_600)), None);
        watch.handle_ended(Cause::Expired);
        assert_eq!(watch.poll(at(30_000)), Step::Lose);
        assert_eq!(watch.poll(at(30_000)), Step::End, "the service has the last word");
    }
}
