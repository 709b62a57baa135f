//! The wait for the lease: acquired on a thread of its own, while the main thread hears signals and shows how it goes.

use std::sync::mpsc::Sender;
use std::time::Duration;

use leasehold_client::{Client, Error, Handover, Progress, Request};
use tokio::sync::oneshot;

use super::Event;
use super::args::RunArgs;

/// A service that does not answer at all is no reason to wait for ever.
const UNREACHABLE: Duration = Duration::from_secs(2);

/// An acquisition under way. Dropped, it is given up.
pub(super) struct Acquisition {
    give_up: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        drop(self.give_up.take());
        // From here on the client knows that it has something to undo.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The request for the lease.
pub(super) fn request(client: &Client, args: &RunArgs) -> Result<Request, Error> {
    let request = match (&args.lock, &args.claim, &args.pool) {
        (Some(lock), _, _) => client.lock(lock),
        (_, Some(resource), _) => client.claim(resource),
        (_, _, Some(pool)) => client.pool(pool)?.borrow(),
        (None, None, None) => return Err(Error::Setting("one of --lock, --claim and --pool is needed".into())),
    };
    let request = request.ttl(args.ttl).unreachable_after(UNREACHABLE);
    let wait = if args.no_wait { Some(Duration::ZERO) } else { args.wait };
    Ok(match wait {
        Some(wait) => request.wait(wait),
        None => request,
    })
}

/// In words, without a pool's id.
pub(super) fn described(args: &RunArgs) -> String {
    match (&args.lock, &args.claim) {
        (Some(lock), _) => format!("lock {lock}"),
        (_, Some(resource)) => format!("claim {resource}"),
        (None, None) => format!("a slot of {}", args.label),
    }
}

/// Begins to acquire; the outcome is an event.
pub(super) fn begin(request: Request, events: &Sender<Event>) -> std::io::Result<Acquisition> {
    let (give_up, mut left) = oneshot::channel();
    let (events, progress_events) = (events.clone(), events.clone());
    let request = request.on_progress(move |progress: Progress| {
        let _ = progress_events.send(Event::Progress(progress));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    {
        // Where SIGCHLD was ignored, the end of the command would not be told. A handler that does nothing changes
        // that.
        let _context = runtime.enter();
        drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child()));
    }
    let acquire = move || {
        let outcome: Option<Result<Handover, Error>> = runtime.block_on(async {
            let acquire = async { request.acquire().await?.hand_over().await };
            tokio::select! {
                outcome = acquire => Some(outcome),
                _ = &mut left => None,
            }
        });
        if let Some(outcome) = outcome {
            let _ = events.send(Event::Acquired(outcome.map(Box::new)));
        }
    };
    let thread = std::thread::Builder::new().name("acquire".into()).spawn(acquire)?;
    Ok(Acquisition { give_up: Some(give_up), thread: Some(thread) })
}

/// Runs a future of the client to its end on this thread.
pub(super) fn finish<F: Future>(work: F) -> Option<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    Some(runtime.block_on(work))
}
