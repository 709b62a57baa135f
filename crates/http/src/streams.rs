//! The streams of one HTTP/2 connection: each is a task of its own, which ends when its peer has taken nothing of its
//! answer for too long. Ending the task resets the stream, and the others go on.
//!
//! hyper makes the task of a stream and hands it to an executor right after it has called the service, which is how a
//! task gets the tally of its answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep_until};

use super::activity::Activity;
use super::outgoing::Tally;

#[derive(Clone, Debug)]
pub(super) struct Streams {
    activity: Arc<Activity>,
    stall_timeout: Duration,
    state: Arc<Mutex<Tallies>>,
}

#[derive(Debug, Default)]
struct Tallies {
    /// The tally of the call whose task is about to be made.
    newest: Option<Arc<Tally>>,
    /// Answers of tasks that have ended, with something left that waits for its window.
    lingering: Vec<Arc<Tally>>,
}

impl Streams {
    pub(super) fn new(activity: &Arc<Activity>, stall_timeout: Duration) -> Self {
        Streams { activity: Arc::clone(activity), stall_timeout, state: Arc::default() }
    }

    /// A call came.
    pub(super) fn begin(&self) -> Arc<Tally> {
        let tally = Tally::new(&self.activity);
        self.state().newest = Some(Arc::clone(&tally));
        tally
    }

    /// When the connection has to be closed, because a short answer waits for its window and its task is gone. A peer
    /// whose window is smaller than such an answer, and stays so, is not worth a connection.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let mut state = self.state();
        state.lingering.retain(|tally| !tally.is_sent());
        state.lingering.iter().filter_map(|tally| tally.deadline(self.stall_timeout)).min()
    }

    fn state(&self) -> MutexGuard<'_, Tallies> {
        // Every step under this lock is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let tally = self.state().newest.take();
        tokio::spawn(StreamTask { future: Some(future), tally, streams: self.clone(), stall: None });
    }
}

pin_project! {
    struct StreamTask<F> {
        // `None` once it has ended.
        #[pin]
        future: Option<F>,
        tally: Option<Arc<Tally>>,
        streams: Streams,
        // Only while something waits to be taken.
        stall: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        if future.poll(cx).is_ready() {
            // Drops the part of its answer that hyper kept; the rest is with HTTP/2 and waits for a window.
            this.future.set(None);
            if let Some(tally) = this.tally.take().filter(|tally| !tally.is_sent()) {
                this.streams.state().lingering.push(tally);
            }
            return Poll::Ready(());
        }
        let Some(tally) = this.tally else { return Poll::Pending };
        while let Some(deadline) = tally.deadline(this.streams.stall_timeout) {
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            let stall = this.stall.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
            if stall.deadline() != deadline.into() {
                stall.as_mut().reset(deadline.into());
            }
            ready!(stall.as_mut().poll(cx));
        }
        *this.stall = None;
        Poll::Pending
    }
}
