//! The guard: it is renewed in the background for as long as it lives, and says at any time whether it is still held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::dialect::{Kind, NamedSlot};
use crate::error::Error;
use crate::handover::Handover;
use crate::loss::Loss;
use crate::table::Released;
use crate::terms::Terms;
use crate::worker::{Held, Worker};

/// How long a release may take.
const RELEASE: Duration = Duration::from_secs(5);

/// A lease that is held. The client's own thread renews it.
///
/// A lease alone cannot stop a holder that was paused from acting too late: call [`check`](Lease::check) before each
/// effect, and where that matters have the resource compare the [`token`](Lease::token).
///
/// Dropped, it is given back by the client's thread, and a warning is logged: [`release`](Lease::release) says how that
/// went.
pub struct Lease {
    held: Arc<Held>,
    worker: Arc<Worker>,
    /// It was released or handed over: dropping it does nothing.
    is_done: std::sync::atomic::AtomicBool,
}

impl Lease {
    pub(crate) fn new(held: Arc<Held>, worker: Arc<Worker>) -> Lease {
        Lease { held, worker, is_done: false.into() }
    }

    /// The fencing token, for the protected resource to compare; an error when the lease is lost.
    pub fn token(&self) -> Result<u64, Error> {
        self.check().map(|()| self.held.token)
    }

    /// The slot: of a pool its number, of a lock 0, of a claim its number where slots have names, else nothing.
    pub fn slot(&self) -> Option<u32> {
        self.held.slot
    }

    /// The name and the data of the slot, where the operator has given slots names. As they were at the grant.
    pub fn named_slot(&self) -> Option<&NamedSlot> {
        self.held.named.as_deref()
    }

    /// The kind of the lease.
    pub fn kind(&self) -> Kind {
        self.held.id.kind()
    }

    /// Returns whether it is held right now. Computed from the lease clock at each call.
    pub fn held(&self) -> bool {
        self.held.loss(&self.worker.core).is_none()
    }

    /// An error when it is lost. Call it before each effect.
    pub fn check(&self) -> Result<(), Error> {
        match self.held.loss(&self.worker.core) {
            None => Ok(()),
            Some(loss) => Err(Error::Lost(loss)),
        }
    }

    /// The time until it is lost, if it is not renewed.
    pub fn remaining(&self) -> Duration {
        if self.held() { self.deadline().since(self.worker.core.clock.now()) } else { Duration::ZERO }
    }

    /// When it is lost, if it is not renewed, on the lease clock.
    pub fn deadline(&self) -> Moment {
        self.held.watch().deadline()
    }

    /// When it was last renewed, and for how long.
    pub fn terms(&self) -> Terms {
        self.held.watch().terms()
    }

    /// Resolves when it is lost; also when it is released.
    pub async fn lost(&self) -> Loss {
        let mut lost = self.held.subscribe();
        loop {
            if let Some(loss) = self.held.loss(&self.worker.core) {
                return loss;
            }
            if lost.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Runs something while it is held: dropped when the lease is lost, and an error when it was lost in the meantime.
    /// The lease is not released.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        self.check()?;
        tokio::select! {
            biased;
            loss = self.lost() => Err(Error::Lost(loss)),
            output = work => self.check().map(|()| output),
        }
    }

    /// Gives it back: renewal ends, then the release is sent for up to five seconds. Asked again, the answer is the
    /// same; a future that is dropped does not undo it. An error only where nothing could be done: in a fork.
    pub async fn release(&self) -> Result<Released, Error> {
        self.is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        if let Some(loss) = self.held.loss(&self.worker.core)
            && loss.cause == crate::loss::Cause::Forked
        {
            return Err(Error::Lost(loss));
        }
        let (held, core) = (Arc::clone(&self.held), Arc::clone(&self.worker.core));
        match self.worker.spawn(async move { held.release(&core, RELEASE).await }) {
            Ok(released) => Ok(released.await.unwrap_or(Released::Unknown)),
            // Closing has released it.
            Err(Error::Closed) => Ok(self.held.released().unwrap_or(Released::Unknown)),
            Err(error) => Err(error),
        }
    }

    /// Ends renewal here and gives the lease to another process of this machine, which has to
    /// [take it over](crate::Client::take_over) before its deadline.
    pub async fn hand_over(self) -> Result<Handover, Error> {
        self.is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        let held = Arc::clone(&self.held);
        let stopped = self.worker.spawn(async move { held.stop().await })?;
        let _ = stopped.await;
        self.check()?;
        Ok(Handover {
            id: self.held.id.clone(),
            token: self.held.token,
            slot: self.held.slot,
            named: self.held.named.as_deref().cloned(),
            terms: self.terms(),
            ttl: self.held.ttl,
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_done.load(std::sync::atomic::Ordering::SeqCst) || self.worker.core.pid != std::process::id() {
            return;
        }
        let (held, core) = (Arc::clone(&self.held), Arc::clone(&self.worker.core));
        if self.worker.spawn(async move { held.release(&core, RELEASE).await }).is_ok() {
            tracing::warn!(lease = %self.held.id, token = self.held.token, "dropped without a release; it is given back");
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("of", &self.held).field("held", &self.held()).finish_non_exhaustive()
    }
}
