//! Failed attempts to sign on, per address. Past the limit a question to the provider is put off; a token or a
//! signature that can be checked here is served all the same, so that one caller cannot lock out others behind the same
//! address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use crate::Now;
use crate::bucket::{Buckets, Rate, seconds_up};
use crate::limits::{ATTEMPTS_AT_ONCE, ATTEMPTS_PER_1000_S};

const RATE: Rate = Rate { per_second_milli: ATTEMPTS_PER_1000_S, burst: ATTEMPTS_AT_ONCE };
const PEERS_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Attempts(Mutex<Buckets<IpAddr>>);

impl Default for Attempts {
    fn default() -> Self {
        Attempts(Mutex::new(Buckets::new(RATE, PEERS_MAX)))
    }
}

impl Attempts {
    /// `Err` with the seconds to wait while this address has failed too often.
    pub fn check(&self, peer: IpAddr, now: Now) -> Result<(), u32> {
        match self.lock().wait_us(&who(peer), now.mono_us) {
            0 => Ok(()),
            wait_us => Err(seconds_up(wait_us)),
        }
    }

    pub fn failed(&self, peer: IpAddr, now: Now) {
        self.lock().take(&who(peer), now.mono_us);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Buckets<IpAddr>> {
        // A table of counters is whole at every point.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address that stands for a peer wherever peers are counted: the owner of one IPv6 address has its whole /64.
pub fn who(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(addr) => IpAddr::V4(addr),
        IpAddr::V6(addr) => {
            let [a, b, c, d, ..] = addr.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failures_then_patience() {
        let attempts = Attempts::default();
        let now = Now { unix_s: 0, mono_us: 5_000_000 };
        let peer: IpAddr = "2001:db8::1".parse().unwrap();
        for _ in 0..10 {
            assert_eq!(attempts.check(peer, now), Ok(()));
            attempts.failed(peer, now);
        }
        assert_eq!(attempts.check(peer, now), Err(6));
        assert_eq!(attempts.check("2001:db8::2".parse().unwrap(), now), Err(6), "the same network");
        assert_eq!(attempts.check("2001:db8:0:1::2".parse().unwrap(), now), Ok(()));
        assert_eq!(attempts.check("::ffff:192.0.2.1".parse().unwrap(), now), Ok(()));
        let later = Now { mono_us: now.mono_us + 6_000_000, ..now };
        assert_eq!(attempts.check(peer, later), Ok(()));
    }
}
