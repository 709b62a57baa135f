//! How much of something one address may have, so that one peer does not take all of it. Peers on this machine are
//! exempt unless the operator says otherwise: there, all peers have one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by address. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Shares {
    max: u32,
    counts_loopback: bool,
    counts: Arc<Mutex<HashMap<IpAddr, u32>>>,
}

impl Shares {
    /// Three quarters of all there is, for every address but this machine's own.
    pub fn of(all: u32) -> Self {
        Shares { max: all - all / 4, counts_loopback: false, counts: Arc::default() }
    }

    /// So many, for every address.
    pub fn exactly(max: u32) -> Self {
        Shares { max, counts_loopback: true, counts: Arc::default() }
    }

    /// One more for this address, until it is dropped; `None` when it has as many as it may.
    pub fn take(&self, ip: IpAddr) -> Option<Share> {
        self.take_upto(ip, 1)
    }

    /// So many more for this address, or as many as it may have, until they are dropped; `None` when it may have none.
    pub fn take_upto(&self, ip: IpAddr, wanted: u32) -> Option<Share> {
        let ip = neighbourhood(ip);
        if ip.is_loopback() && !self.counts_loopback {
            return Some(Share { of: None, count: wanted });
        }
        let mut counts = self.counts();
        let taken = counts.get(&ip).copied().unwrap_or(0);
        let count = wanted.min(self.max.saturating_sub(taken));
        if count == 0 {
            return None;
        }
        counts.insert(ip, taken + count);
        Some(Share { of: Some((self.clone(), ip)), count })
    }

    /// All of so many more for this address, until they are dropped; `None` when it may not have all of them.
    pub(super) fn take_all(&self, ip: IpAddr, wanted: u32) -> Option<Share> {
        self.take_upto(ip, wanted).filter(|share| share.count == wanted)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        // Every step under this lock is whole.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unit that counts as one address: for IPv6, the network that one customer usually has.
fn neighbourhood(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        other => other,
    }
}

/// Held while it is taken.
#[derive(Debug)]
pub struct Share {
    /// `None` for an address that has no limit.
    of: Option<(Shares, IpAddr)>,
    count: u32,
}

impl Share {
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some((shares, ip)) = self.of.take() else { return };
        let mut counts = shares.counts();
        if let Some(count) = counts.get_mut(&ip) {
            *count -= self.count;
            if *count == 0 {
                // An address without any is not kept.
                counts.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_share_and_others_have_theirs() {
        let shares = Shares::of(8);
        let mut taken: Vec<_> = (0..6).map(|_| shares.take(ip("10.0.0.1")).unwrap()).collect();
        assert!(shares.take(ip("10.0.0.1")).is_none() && shares.take(ip("::ffff:10.0.0.1")).is_none());
        assert!(shares.take(ip("10.0.0.2")).is_some());
        taken.pop();
        assert!(shares.take(ip("10.0.0.1")).is_some());
        drop(taken);
        assert!(shares.counts().is_empty(), "nothing is kept of those who left");
        let _kept: Vec<_> = (0..100).map(|_| shares.take(ip("127.0.0.1")).unwrap()).collect();
    }

    #[test]
    fn many_are_taken_at_once_as_far_as_they_go() {
        let shares = Shares::exactly(10);
        let first = shares.take_upto(ip("10.0.0.1"), 8).unwrap();
        let second = shares.take_upto(ip("10.0.0.1"), 8).unwrap();
        assert_eq!((first.count(), second.count()), (8, 2));
        assert!(shares.take_upto(ip("10.0.0.1"), 8).is_none());
        assert_eq!(shares.take_upto(ip("10.0.0.2"), 8).unwrap().count(), 8);
        drop(first);
        assert_eq!(shares.take_upto(ip("10.0.0.1"), 9).unwrap().count(), 8);
        drop(second);
        assert!(shares.counts().is_empty(), "nothing is kept of those who left");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_loopback_counts_when_told_to() {
        let shares = Shares::exactly(1);
        let _first = shares.take(ip("2001:db8::1")).unwrap();
        assert!(shares.take(ip("2001:db8::ffff:1")).is_none() && shares.take(ip("2001:db8:0:1::1")).is_some());
        let _local = shares.take(ip("127.0.0.1")).unwrap();
        assert!(shares.take(ip("127.0.0.1")).is_none() && shares.take(ip("127.0.0.2")).is_some());
        assert!(shares.take(ip("::1")).is_some());
    }
}
