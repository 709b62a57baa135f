//! The worker of a client: one OS thread with a runtime of its own, so that a user's runtime that is blocked or has
//! ended does not matter to the leases. Everything that talks to the service runs here.
//!
//! ```text
//! caller ── spawn ─▶ acquire ── grant ─▶ keep (renews until lost or released) ── release
//!    └─ gives up ──▶ settle (leaves nothing behind)
//! ```

mod acquire;
mod held;
mod keep;
mod progress;
mod release;
mod seek;
mod settle;
mod wish;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

pub(crate) use acquire::acquire;
pub(crate) use held::{Held, Notice, Offer};
pub(crate) use keep::{hold, renew_once};
pub(crate) use release::give_back;
pub use wish::Progress;
pub(crate) use wish::Wish;

use crate::clock::LeaseClock;
use crate::error::Error;
use crate::transport::Transport;

/// How long settling and the last releases may take.
const SETTLE: Duration = Duration::from_secs(5);
/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(5);

/// State that every task of a client shares.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) transport: Transport,
    pub(crate) clock: LeaseClock,
    /// The process that the thread belongs to. In a fork of it there is no thread.
    pub(crate) pid: u32,
    /// Tasks that must not be cut off: releases and settlements.
    busy: AtomicUsize,
    became_idle: Notify,
    /// Leases that were handed out.
    leases: Mutex<Vec<Weak<Held>>>,
    is_closed: AtomicBool,
    closing: Notify,
}

/// The thread. It ends when this is dropped, after at most five seconds for tasks under way.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) core: Arc<Core>,
    handle: Handle,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Worker {
    pub(crate) fn start(transport: Transport, clock: LeaseClock) -> Result<Worker, Error> {
        let cannot = |error: std::io::Error| Error::Setting(format!("the client's thread cannot be started: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // Threads of callbacks are gone soon after them: a client is one thread.
            .thread_keep_alive(Duration::from_millis(100))
            .build()
            .map_err(cannot)?;
        let core = Arc::new(Core {
            transport,
            clock,
            pid: std::process::id(),
            busy: AtomicUsize::new(0),
            became_idle: Notify::new(),
            leases: Mutex::default(),
            is_closed: AtomicBool::new(false),
            closing: Notify::new(),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let shared = Arc::clone(&core);
        let body = move || {
            runtime.block_on(async {
                let sweep = async {
                    loop {
                        tokio::time::sleep(SWEEP).await;
                        shared.transport.close_idle();
                    }
                };
                tokio::select! {
                    _ = stopped => {}
                    () = sweep => {}
                }
                shared.idle(SETTLE).await;
            });
            // A user's callback that blocks must not keep the thread.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("leasehold-client".into()).spawn(body).map_err(cannot)?;
        Ok(Worker { core, handle, _stop: stop })
    }

    /// Runs a task on the thread. Nothing runs in a fork: its thread is not there.
    pub(crate) fn spawn<F>(&self, task: F) -> Result<tokio::task::JoinHandle<F::Output>, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.core.check_usable()?;
        Ok(self.handle.spawn(task))
    }

    /// Releases every lease, in parallel, and waits for tasks under way.
    pub(crate) async fn close(&self) {
        self.core.is_closed.store(true, Ordering::SeqCst);
        self.core.closing.notify_waiters();
        if self.core.pid != std::process::id() {
            return;
        }
        let core = Arc::clone(&self.core);
        let closing = self.handle.spawn(async move {
            for held in core.take_leases() {
                let core = Arc::clone(&core);
                tokio::spawn(async move { held.release(&core, Duration::from_secs(2)).await });
            }
            // The releases count as busy once they ran for the first time.
            tokio::task::yield_now().await;
            core.idle(SETTLE).await;
        });
        let _ = closing.await;
    }
}

impl Core {
    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        if self.pid != std::process::id() {
            let reason =
                "this process is a fork of the one that made the client, which cannot be used here: make another one";
            return Err(Error::Setting(reason.into()));
        }
        Ok(())
    }

    /// Resolves when the client is being closed.
    async fn closed(&self) {
        let closing = self.closing.notified();
        if !self.is_closed.load(Ordering::SeqCst) {
            closing.await;
        }
    }

    /// Counts as under way until it is dropped.
    fn busy(self: &Arc<Core>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    /// Waits until nothing is under way any more.
    async fn idle(&self, at_most: Duration) {
        let all_done = async {
            loop {
                let became_idle = self.became_idle.notified();
                if self.busy.load(Ordering::SeqCst) == 0 {
                    return;
                }
                became_idle.await;
            }
        };
        let _ = timeout(at_most, all_done).await;
    }

    fn remember(&self, held: &Arc<Held>) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|known| known.strong_count() > 0);
        leases.push(Arc::downgrade(held));
    }

    fn take_leases(&self) -> Vec<Arc<Held>> {
        let leases = std::mem::take(&mut *self.leases.lock().unwrap_or_else(PoisonError::into_inner));
        leases.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A task under way that must not be cut off.
struct Busy(Arc<Core>);

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.became_idle.notify_waiters();
        }
    }
}

/// A factor from 0 to 1.
fn factor() -> f64 {
    rand::random()
}
