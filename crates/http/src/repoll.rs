//! A connection that wakes itself while it runs is run again at once, on the spot. hyper wakes its own task whenever a
//! request's body is read; to the runtime that is one more task that is ready, worth waking another thread for, which
//! finds nothing to do. On two cores that is a wake-up for every request.
//!
//! The last piece of a body wakes it as well, though hyper has nothing left to do for that body: [`unheard`] takes it
//! without a run that would find nothing.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use atomic_waker::AtomicWaker;
use pin_project_lite::pin_project;

/// After so many turns in a row others get theirs.
const TURNS_MAX: u32 = 4;

const RESTING: u8 = 0;
const RUNNING: u8 = 1;
/// It runs, and was woken since it began to.
const WOKEN: u8 = 2;

pin_project! {
    /// Runs a future again at once if it wakes itself.
    #[derive(Debug)]
    pub(super) struct Repoll<F> {
        #[pin]
        future: F,
        bell: Arc<Bell>,
        waker: Waker,
    }
}

/// The waker that the future gets in place of the task's.
#[derive(Debug)]
struct Bell {
    task: AtomicWaker,
    state: AtomicU8,
}

impl<F: Future> Repoll<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Arc::new(Bell { task: AtomicWaker::new(), state: AtomicU8::new(RESTING) });
        Repoll { future, waker: Waker::from(Arc::clone(&bell)), bell }
    }
}

impl<F: Future> Future for Repoll<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        this.bell.task.register(cx.waker());
        for _ in 0..TURNS_MAX {
            this.bell.state.store(RUNNING, Ordering::SeqCst);
            let polled = this.future.as_mut().poll(&mut Context::from_waker(this.waker));
            let before = this.bell.state.swap(RESTING, Ordering::SeqCst);
            if polled.is_ready() || before != WOKEN {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

thread_local! {
    static HEARING: Cell<Hearing> = const { Cell::new(Hearing::Every) };
}

/// Which wakes by this thread are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hearing {
    Every,
    None,
    /// None, and there was one.
    Missed,
}

/// Runs `step`, which wakes no connection by itself. Returns also whether it would have woken one. Wakes by other
/// threads are heard as ever.
pub(super) fn unheard<T>(step: impl FnOnce() -> T) -> (T, bool) {
    /// Also after a panic.
    struct HearAgain;
    impl Drop for HearAgain {
        fn drop(&mut self) {
            HEARING.set(Hearing::Every);
        }
    }
    HEARING.set(Hearing::None);
    let _hear_again = HearAgain;
    let output = step();
    (output, HEARING.get() == Hearing::Missed)
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if HEARING.get() != Hearing::Every {
            HEARING.set(Hearing::Missed);
            return;
        }
        // The runner looks at the state afterwards, and runs it again.
        let noted = self.state.compare_exchange(RUNNING, WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if matches!(noted, Err(RESTING)) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Debug, Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Wakes itself so many times, and is done when it is woken no more. Returns how often it ran and how often its
    /// task was woken meanwhile.
    fn run(times: u32) -> (u32, u32) {
        let (task, runs) = (Arc::new(Task::default()), AtomicU32::new(0));
        let mut future = std::pin::pin!(Repoll::new(poll_fn(|cx| {
            if runs.fetch_add(1, Ordering::SeqCst) < times {
                cx.waker().wake_by_ref();
                return Poll::<()>::Pending;
            }
            Poll::Ready(())
        })));
        let outer = Waker::from(Arc::clone(&task));
        let _ = future.as_mut().poll(&mut Context::from_waker(&outer));
        (runs.load(Ordering::SeqCst), task.0.load(Ordering::SeqCst))
    }

    #[test]
    fn waking_itself_is_its_own_affair_up_to_a_point() {
        assert_eq!(run(0), (1, 0));
        assert_eq!(run(1), (2, 0));
        assert_eq!(run(TURNS_MAX - 1), (TURNS_MAX, 0));
        assert_eq!(run(TURNS_MAX), (TURNS_MAX, 1), "others get their turn");
    }

    #[test]
    fn an_unheard_step_wakes_nothing_and_the_next_one_does() {
        let task = Arc::new(Task::default());
        let outer = Waker::from(Arc::clone(&task));
        let runs = AtomicU32::new(0);
        let kept = std::cell::OnceCell::new();
        let mut future = std::pin::pin!(Repoll::new(poll_fn(|cx| {
            runs.fetch_add(1, Ordering::SeqCst);
            assert_eq!(unheard(|| cx.waker().wake_by_ref()), ((), true));
            let _ = kept.set(cx.waker().clone());
            Poll::<()>::Pending
        })));
        assert!(future.as_mut().poll(&mut Context::from_waker(&outer)).is_pending());
        assert_eq!((runs.load(Ordering::SeqCst), task.0.load(Ordering::SeqCst)), (1, 0), "not run again");
        let bell = kept.get().expect("it ran");
        // Another thread knows nothing of this.
        let ((), is_missed) = unheard(|| std::thread::scope(|scope| _ = scope.spawn(|| bell.wake_by_ref())));
        assert!(!is_missed);
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
        let panicked = std::panic::catch_unwind(|| unheard(|| panic!("in between")));
        assert!(panicked.is_err());
        bell.wake_by_ref();
        assert_eq!(task.0.load(Ordering::SeqCst), 1, "the task has been woken and has not run since");
        assert!(future.as_mut().poll(&mut Context::from_waker(&outer)).is_pending());
        bell.wake_by_ref();
        assert_eq!(task.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn whoever_else_wakes_it_wakes_the_task() {
        let task = Arc::new(Task::default());
        let mut kept = None;
        let mut future = std::pin::pin!(Repoll::new(poll_fn(|cx| {
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        })));
        let outer = Waker::from(Arc::clone(&task));
        assert!(future.as_mut().poll(&mut Context::from_waker(&outer)).is_pending());
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
        kept.expect("it ran").wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }
}
