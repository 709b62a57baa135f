//! Logins under way, as far as they have to be bounded: how often an address may begin or finish one, and that one is
//! finished once. `leasehold_auth::login` has the checks of a login.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_auth::Now;
use leasehold_auth::attempts::who;
use leasehold_auth::limits::FLOW_S;

use crate::http::Problem;
use crate::limits::{LOGIN_ADDRESSES_MAX, LOGIN_STEP_EVERY_US, LOGIN_STEPS_AT_ONCE, LOGINS_FINISHED_MAX};

#[derive(Debug, Default)]
pub(super) struct Flows {
    state: Mutex<Steps>,
}

#[derive(Debug, Default)]
struct Steps {
    /// Until when an address has used up what it may, on the monotonic clock.
    spent_until_us: HashMap<IpAddr, u64>,
    finished: HashSet<String>,
    /// The same, by when they may be forgotten.
    finished_until_s: VecDeque<(u64, String)>,
}

impl Flows {
    /// Counts a step of a login, or 429.
    pub(super) fn step(&self, ip: IpAddr, now: Now) -> Result<(), Problem> {
        let ip = who(ip);
        let mut state = self.state();
        if state.spent_until_us.len() >= LOGIN_ADDRESSES_MAX && !state.spent_until_us.contains_key(&ip) {
            state.spent_until_us.retain(|_, until_us| *until_us > now.mono_us);
            if state.spent_until_us.len() >= LOGIN_ADDRESSES_MAX {
                return Err(Problem::too_many("too many logins are under way", 1));
            }
        }
        let until_us = state.spent_until_us.entry(ip).or_insert(0);
        let spent_us = until_us.saturating_sub(now.mono_us);
        if spent_us + LOGIN_STEP_EVERY_US > LOGIN_STEPS_AT_ONCE * LOGIN_STEP_EVERY_US {
            let retry_after_s =
                (spent_us + LOGIN_STEP_EVERY_US - LOGIN_STEPS_AT_ONCE * LOGIN_STEP_EVERY_US).div_ceil(1_000_000).max(1);
            let reason = "too many logins from this address, try again in a moment";
            return Err(Problem::too_many(reason, retry_after_s));
        }
        *until_us = now.mono_us + spent_us + LOGIN_STEP_EVERY_US;
        Ok(())
    }

    /// Returns whether a login is finished for the first time. `state` names the login.
    pub(super) fn is_first(&self, name: &str, now: Now) -> bool {
        let mut state = self.state();
        while state.finished_until_s.front().is_some_and(|(until_s, _)| *until_s <= now.unix_s)
            || state.finished_until_s.len() >= LOGINS_FINISHED_MAX
        {
            let Some((_, name)) = state.finished_until_s.pop_front() else { break };
            state.finished.remove(&name);
        }
        if !state.finished.insert(name.to_owned()) {
            return false;
        }
        state.finished_until_s.push_back((now.unix_s + FLOW_S, name.to_owned()));
        true
    }

    fn state(&self) -> MutexGuard<'_, Steps> {
        // Every step under this lock is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Now {
        Now { unix_s: 1_000 + s, mono_us: s * 1_000_000 }
    }

    #[test]
    fn an_address_takes_so_many_steps_at_once_and_then_one_a_second() {
        let (flows, ip) = (Flows::default(), "10.0.0.1".parse().unwrap());
        for _ in 0..LOGIN_STEPS_AT_ONCE {
            flows.step(ip, at(0)).unwrap();
        }
        assert_eq!(flows.step(ip, at(0)).unwrap_err().status.as_u16(), 429);
        flows.step("10.0.0.2".parse().unwrap(), at(0)).unwrap();
        flows.step(ip, at(1)).unwrap();
        assert!(flows.step(ip, at(1)).is_err());
        assert!((0..LOGIN_STEPS_AT_ONCE).all(|_| flows.step(ip, at(61)).is_ok()));
    }

    /// A caller with IPv6 has a whole /64 to call from.
    #[test]
    fn addresses_of_one_network_share_their_steps() {
        let flows = Flows::default();
        let of =
            |network: u128, n: u64| IpAddr::from(((0x2001_0db8 << 96) | (network << 64) | u128::from(n)).to_be_bytes());
        for n in 0..LOGIN_STEPS_AT_ONCE {
            flows.step(of(1, n), at(0)).unwrap();
        }
        assert!(flows.step(of(1, LOGIN_STEPS_AT_ONCE), at(0)).is_err());
        flows.step(of(2, 0), at(0)).unwrap();
    }

    #[test]
    fn a_login_is_finished_once_for_as_long_as_its_cookie_is_good() {
        let flows = Flows::default();
        assert!(flows.is_first("a", at(0)) && !flows.is_first("a", at(1)) && flows.is_first("b", at(1)));
        assert!(!flows.is_first("a", at(FLOW_S - 1)));
        assert!(flows.is_first("a", at(FLOW_S)), "the cookie has ended by then");
    }
}
