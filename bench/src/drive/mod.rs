//! The load generator: one thread that holds many conversations. It knows sockets, time and when to ask, but not the
//! content: a [`Script`] writes the requests and reads the answers of one connection, in any protocol, so that every
//! peer is driven at the same cost.
//!
//! ```text
//!  closed loop   answer ─▶ next request at once            latency from the moment it is sent
//!  open loop     a clock says when each request is due     latency from the moment it was due, also when no
//!                connection was free then: a peer that stalls is charged for everybody who had to wait
//! ```

mod line;
mod load;
mod timer;

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

pub(crate) use line::{Line, connect};

/// One side of the conversation on one connection. At most one request is under way, unless the script counts several
/// callers itself: it then says since when each answer was waited for.
pub(crate) trait Script {
    /// Appends the next request to `out`. When time is `over` it finishes its current cycle, and begins no other.
    fn ask(&mut self, now: Instant, over: bool, out: &mut Vec<u8>) -> Ask;

    /// Takes the bytes it understands from the front of `input`. An answer that is wrong ends the run.
    fn hear(&mut self, now: Instant, input: &[u8], out: &mut Vec<u8>) -> Result<Heard>;
}

/// The next wish of a script.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A request is in the buffer.
    Sent,
    /// Ask again then.
    At(Instant),
    /// Nothing more, ever.
    Done,
}

/// A script's reading of the bytes that came. The numbers say how many of them it has taken.
#[derive(Debug)]
pub(crate) enum Heard {
    /// More bytes are needed.
    Partial,
    /// Something that is not the answer yet.
    Aside(usize),
    /// The answer.
    Answer(usize),
    /// The answer to one of several requests under way, which was sent then.
    AnswerSince(usize, Instant),
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    Closed,
    Open { rate_per_s: f64 },
}

/// How long to drive, and how.
pub(crate) struct Plan<'a> {
    pub(crate) pace: Pace,
    /// Answers in the first part are checked and not counted.
    pub(crate) warm_up: Duration,
    /// Measured time. A run whose scripts are all done ends earlier.
    pub(crate) length: Duration,
    /// Ends the measured time early.
    pub(crate) stop_when: Option<&'a dyn Fn() -> bool>,
}

impl Plan<'_> {
    pub(crate) fn closed(warm_up: Duration, length: Duration) -> Self {
        Plan { pace: Pace::Closed, warm_up, length, stop_when: None }
    }

    /// Until every script is done, and not for ever.
    pub(crate) fn to_the_end(at_most: Duration) -> Self {
        Plan::closed(Duration::ZERO, at_most)
    }
}

/// The result of a drive.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Answers within the measured time.
    pub(crate) answered: u64,
    /// Answers in all, also before and after.
    pub(crate) heard: u64,
    /// Requests that fell due within the measured time of an open loop.
    pub(crate) offered: u64,
    pub(crate) elapsed: Duration,
    /// In nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

impl Outcome {
    pub(crate) fn rate_per_s(&self) -> f64 {
        crate::figures::float(self.answered) / self.elapsed.as_secs_f64()
    }
}

/// Has all conversations until the plan is over and every script has finished its cycle.
pub(crate) fn drive(lines: Vec<Line>, plan: &Plan<'_>) -> Result<Outcome> {
    load::Load::new(lines, plan)?.run()
}
