//! The meeting points of the driver's threads: locks, bells, threads, one-shot answers, and the time that waiting
//! takes. These are the ordinary ones of std and tokio.
//!
//! In this crate's own tests they are shuttle's, which runs everything on one thread and picks at each of these meeting
//! points which one goes next, so that `driver/seams` can try thousands of orders, each repeatable by its seed. For
//! this reason only those unit tests start a driver; the tests under `tests/` have the ordinary one.

#[cfg(not(test))]
pub(crate) use {
    std::sync::{Condvar, Mutex, MutexGuard},
    std::thread,
    std::time::Instant,
    tokio::runtime::Handle as Runtime,
    tokio::sync::oneshot,
    tokio::task::yield_now,
    tokio::time::timeout,
};

#[cfg(test)]
pub(crate) use modelled::*;

/// The same by other means. Time stands still until a test moves it.
#[cfg(test)]
mod modelled {
    use std::cell::{Cell, RefCell};
    use std::future::Future;
    use std::ops::Add;
    use std::sync::{Arc, LockResult, PoisonError};
    use std::time::Duration;

    pub(crate) use shuttle::future::yield_now;
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    pub(crate) use shuttle::thread;

    // All threads of a test are coroutines of one, so these belong to the test.
    std::thread_local! {
        static NOW_US: Cell<u64> = const { Cell::new(0) };
        static SLEEPERS: RefCell<Vec<Sleeper>> = const { RefCell::new(Vec::new()) };
    }

    #[derive(Debug)]
    struct Sleeper {
        due_us: u64,
        bell: Arc<shuttle::sync::Condvar>,
    }

    /// Back to the beginning, for the next schedule.
    pub(crate) fn reset_time() {
        NOW_US.set(0);
        SLEEPERS.take();
    }

    /// Moves time and wakes the threads that have slept long enough. To be called with the lock held that sleepers give
    /// up for their sleep, else one that is about to fall asleep would miss it.
    pub(crate) fn advance_time(by_us: u64) {
        NOW_US.set(NOW_US.get() + by_us);
        let is_due = |sleeper: &Sleeper| sleeper.due_us <= NOW_US.get();
        let due: Vec<_> = SLEEPERS.with_borrow(|all| {
            all.iter().filter(|sleeper| is_due(sleeper)).map(|sleeper| Arc::clone(&sleeper.bell)).collect()
        });
        // Other listeners of the same bell look round and go back to sleep.
        for bell in due {
            bell.notify_all();
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar {
        bell: Arc<shuttle::sync::Condvar>,
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar::default()
        }

        pub(crate) fn notify_one(&self) {
            self.bell.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.bell.notify_all();
        }

        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            self.bell.wait(guard)
        }

        /// shuttle's own never times out.
        pub(crate) fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            timeout: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, bool)> {
            let due_us = NOW_US.get() + micros(timeout);
            SLEEPERS.with_borrow_mut(|all| all.push(Sleeper { due_us, bell: Arc::clone(&self.bell) }));
            let woken = self.bell.wait(guard);
            SLEEPERS.with_borrow_mut(|all| {
                // Two that sleep alike are the same for this purpose.
                let is_ours = |sleeper: &Sleeper| sleeper.due_us == due_us && Arc::ptr_eq(&sleeper.bell, &self.bell);
                let ours = all.iter().position(is_ours).expect("only we take it out again");
                all.swap_remove(ours);
            });
            let timed_out = NOW_US.get() >= due_us;
            woken
                .map(|guard| (guard, timed_out))
                .map_err(|poisoned| PoisonError::new((poisoned.into_inner(), timed_out)))
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Instant(u64);

    impl Instant {
        pub(crate) fn now() -> Self {
            Instant(NOW_US.get())
        }

        pub(crate) fn elapsed(self) -> Duration {
            Instant::now().saturating_duration_since(self)
        }

        pub(crate) fn saturating_duration_since(self, earlier: Instant) -> Duration {
            Duration::from_micros(self.0.saturating_sub(earlier.0))
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;

        fn add(self, duration: Duration) -> Instant {
            Instant(self.0 + micros(duration))
        }
    }

    fn micros(duration: Duration) -> u64 {
        u64::try_from(duration.as_micros()).expect("no test waits for ages")
    }

    #[derive(Clone, Debug)]
    pub(crate) struct Runtime;

    impl Runtime {
        pub(crate) fn current() -> Self {
            Runtime
        }

        #[expect(clippy::unused_self, reason = "as tokio has it")]
        pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            shuttle::future::spawn(task);
        }
    }

    /// Never times out.
    pub(crate) async fn timeout<T>(_after: Duration, future: impl Future<Output = T>) -> Result<T, ()> {
        Ok(future.await)
    }

    /// tokio's, with others getting their turn before each step of it.
    pub(crate) mod oneshot {
        use std::future::Future;
        use std::pin::Pin;
        use std::task::{Context, Poll};

        use shuttle::thread::yield_now;
        use tokio::sync::oneshot as real;

        #[derive(Debug)]
        pub(crate) struct Sender<T>(real::Sender<T>);

        #[derive(Debug)]
        pub(crate) struct Receiver<T>(real::Receiver<T>);

        pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
            let (sender, receiver) = real::channel();
            (Sender(sender), Receiver(receiver))
        }

        impl<T> Sender<T> {
            pub(crate) fn send(self, value: T) -> Result<(), T> {
                yield_now();
                self.0.send(value)
            }
        }

        impl<T> Receiver<T> {
            pub(crate) fn close(&mut self) {
                yield_now();
                self.0.close();
            }

            pub(crate) fn try_recv(&mut self) -> Result<T, real::error::TryRecvError> {
                yield_now();
                self.0.try_recv()
            }
        }

        impl<T> Future for Receiver<T> {
            type Output = Result<T, real::error::RecvError>;

            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                Pin::new(&mut self.0).poll(cx)
            }
        }
    }
}
