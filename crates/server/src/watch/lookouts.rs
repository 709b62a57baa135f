//! Callers that look out for a change of one lock: they are parked on the lock's name and rung when an event of it has
//! been put into the ring. A lookout only hears that something happened and then reads the lock anew, so it makes no
//! difference whether the ring of this node is ahead of its owner or behind.
//!
//! Bounded in number, with a share for each address. A name without lookouts is not kept, and while there are none at
//! all the committer pays for one load.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_engine::{ResourceKey, What};
use leasehold_journal::Happened;
use tokio::sync::Notify;

use crate::http::{Share, Shares};
use crate::limits::LOOKOUTS_MAX;
use crate::planted::{Bug, is_armed};

#[derive(Debug)]
pub(crate) struct Lookouts {
    /// By the name of the lock.
    posts: Mutex<HashMap<Arc<str>, Post>>,
    /// All of them.
    count: AtomicUsize,
    /// Those that sleep: they have read the lock and wait for news.
    parked: AtomicUsize,
    /// How many of them one address may have.
    shares: Shares,
}

/// A lock that is looked out for.
#[derive(Debug, Default)]
struct Post {
    lookouts: usize,
    bells: Arc<Bells>,
}

/// Rung for every lookout of a lock.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// The holder is another, or there is none, or its time is over.
    pub(crate) changed: Notify,
    /// The holder renewed. That is news only after its time was over.
    pub(crate) renewed: Notify,
}

/// One caller that looks out, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lookout<'a> {
    of: &'a Lookouts,
    job: Arc<str>,
    pub(crate) bells: Arc<Bells>,
    _share: Share,
}

/// Counted as asleep until it is dropped.
#[derive(Debug)]
pub(crate) struct Parked<'a>(&'a AtomicUsize);

impl Lookouts {
    pub(crate) fn new() -> Self {
        Lookouts {
            posts: Mutex::default(),
            count: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            shares: Shares::of(u32::try_from(LOOKOUTS_MAX).expect("some thousands fit")),
        }
    }

    /// One more for this lock, from this address; `None` when there are too many. To be called before the lock is read:
    /// a change after that read is rung.
    pub(crate) fn stand(&self, job: &Arc<str>, ip: IpAddr) -> Option<Lookout<'_>> {
        let share = self.shares.take(ip)?;
        let mut posts = self.posts();
        if self.count.load(Ordering::Relaxed) >= LOOKOUTS_MAX {
            return None;
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        let post = posts.entry(Arc::clone(job)).or_default();
        post.lookouts += 1;
        Some(Lookout { of: self, job: Arc::clone(job), bells: Arc::clone(&post.bells), _share: share })
    }

    /// Rings for the locks that these events are about.
    pub(crate) fn tell(&self, happened: &[Happened]) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let posts = self.posts();
        for Happened { effect, .. } in happened {
            let ResourceKey::Lock(job) = &effect.resource else { continue };
            let Some(Post { bells, .. }) = posts.get(job) else { continue };
            match &effect.what {
                What::GraceBegan { .. } if is_armed(Bug::GraceUnheard) => {}
                What::Granted { .. }
                | What::GraceBegan { .. }
                | What::GraceOver
                | What::Ended { held_us: Some(_), .. } => bells.changed.notify_waiters(),
                What::Renewed { .. } => bells.renewed.notify_waiters(),
                // A client that waits, or waits no more, changes nothing about the holder, and neither does a pause.
                What::Queued
                | What::Ended { held_us: None, .. }
                | What::Configured { .. }
                | What::Unconfigured
                | What::Paused { .. }
                | What::Resumed { .. }
                | What::SlotServed { .. } => {}
            }
        }
    }

    /// Rings for every lock: events were passed over, or the service is about to end.
    pub(crate) fn tell_all(&self) {
        for Post { bells, .. } in self.posts().values() {
            bells.changed.notify_waiters();
        }
    }

    /// The number of those that sleep.
    pub(crate) fn parked(&self) -> usize {
        self.parked.load(Ordering::SeqCst)
    }

    fn posts(&self) -> MutexGuard<'_, HashMap<Arc<str>, Post>> {
        // Every step under this lock is whole.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Lookout<'a> {
    pub(crate) fn park(&self) -> Parked<'a> {
        self.of.parked.fetch_add(1, Ordering::SeqCst);
        Parked(&self.of.parked)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Lookout<'_> {
    fn drop(&mut self) {
        let mut posts = self.of.posts();
        self.of.count.fetch_sub(1, Ordering::SeqCst);
        if let Some(post) = posts.get_mut(&self.job) {
            post.lookouts -= 1;
            if post.lookouts == 0 {
                posts.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn an_address_has_its_share_all_together_are_bounded_and_nothing_is_kept_of_those_that_left() {
        let (lookouts, job) = (Lookouts::new(), Arc::from("nightly"));
        let mut standing = Vec::new();
        while let Some(lookout) = lookouts.stand(&job, ELSEWHERE) {
            standing.push(lookout);
        }
        assert_eq!(standing.len(), LOOKOUTS_MAX - LOOKOUTS_MAX / 4, "three quarters for one address");
        while let Some(lookout) = lookouts.stand(&job, HERE) {
            standing.push(lookout);
        }
        assert_eq!(standing.len(), LOOKOUTS_MAX);
        standing.pop();
        assert!(lookouts.stand(&Arc::from("hourly"), HERE).is_some(), "a place that became free is given away");
        assert_eq!(lookouts.posts().len(), 1, "the other lock is not looked out for any more");
        drop(standing);
        assert!(lookouts.posts().is_empty() && lookouts.count.load(Ordering::SeqCst) == 0);
    }
}
