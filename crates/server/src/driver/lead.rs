//! One thread for everything: it takes requests, runs the engine, appends and answers, and wakes no other thread on the
//! way. That thread is the committer. Between appends it drives a runtime of one thread, which it leaves to append, so
//! nothing prevents another thread from driving it while an append takes long: callers are still heard then, and told
//! that the store is late.
//!
//! With two processors and callers on the same machine, this is a quarter to a third more requests a second at 64
//! connections than two threads which take tasks from each other (`docs/performance.md`).

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::runtime::{Builder, Runtime};

/// The default number of threads that serve. Threads that take tasks from each other do less each, so they pay where
/// there is work for all of them: one of two processors belongs to callers, disk and network.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1))
}

/// A runtime and the thread that drives it: the lead, or its stand-in.
#[derive(Debug)]
pub struct Lead {
    runtime: Runtime,
    standing_in: Mutex<StandIn>,
    /// The stand-in waits here until it is called.
    bell: Condvar,
    /// As in `standing_in`, for a look without the lock.
    is_called: AtomicBool,
}

#[derive(Debug)]
struct StandIn {
    /// The lead is away, or takes long.
    is_called: bool,
    /// The service is over.
    is_over: bool,
    /// How to tell the stand-in, while it drives, that one of these changed.
    waker: Option<Waker>,
}

impl Lead {
    pub fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Lead {
            runtime: Builder::new_current_thread().enable_all().build()?,
            // There is no lead yet.
            standing_in: Mutex::new(StandIn { is_called: true, is_over: false, waker: None }),
            bell: Condvar::new(),
            is_called: AtomicBool::new(true),
        }))
    }

    /// Runs a service to its end. The calling thread stands in for the lead, which is started with the driver.
    pub fn run<T: Send + 'static>(self: &Arc<Self>, service: impl Future<Output = T> + Send + 'static) -> T {
        let end = End(Arc::clone(self));
        let outcome = self.runtime.spawn(async move {
            let _end = end;
            service.await
        });
        while self.wait_for_call() {
            self.runtime.block_on(self.while_called());
        }
        match self.runtime.block_on(outcome) {
            Ok(outcome) => outcome,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// For the lead: drives the runtime until the future is ready.
    pub(super) fn inside<T>(&self, future: impl Future<Output = T>) -> T {
        if self.is_called.load(Ordering::Relaxed) {
            self.change(|standing_in| standing_in.is_called = false);
        }
        // Waits for the stand-in to leave, if it is there.
        self.runtime.block_on(future)
    }

    /// The lead is busy: the stand-in is to drive.
    pub(super) fn call_stand_in(&self) {
        self.change(|standing_in| standing_in.is_called = true);
    }

    fn change(&self, change: impl FnOnce(&mut StandIn)) {
        let mut standing_in = self.lock();
        change(&mut standing_in);
        self.is_called.store(standing_in.is_called, Ordering::Relaxed);
        let waker = standing_in.waker.take();
        drop(standing_in);
        self.bell.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether there is still something to stand in for.
    fn wait_for_call(&self) -> bool {
        let is_idle = |standing_in: &mut StandIn| !standing_in.is_called && !standing_in.is_over;
        let standing_in = self.bell.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        !standing_in.is_over
    }

    async fn while_called(&self) {
        poll_fn(|cx| {
            let mut standing_in = self.lock();
            if !standing_in.is_called || standing_in.is_over {
                return Poll::Ready(());
            }
            standing_in.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Every step under this lock is whole, so one that panicked has left nothing half done.
    fn lock(&self) -> MutexGuard<'_, StandIn> {
        self.standing_in.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the service is over, also when it panics.
struct End(Arc<Lead>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.change(|standing_in| standing_in.is_over = true);
    }
}
