//! The bounds of the HTTP side that an operator can set; tests set them to milliseconds. Those that are part of the
//! contract are in `crate::limits`.

use std::time::Duration;

use super::unsent::Unsent;

/// The times and counts of the HTTP side that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections open at once. The next one gets a short 503 and is closed.
    pub connections_max: u32,
    /// The part of them that one address may have. `None`: three quarters, for every address but this machine's own.
    pub connections_max_per_address: Option<u32>,
    /// From the first byte of a request (or from connecting) until its head is complete.
    pub head_timeout: Duration,
    /// Between requests of a kept connection.
    pub idle_timeout: Duration,
    /// From the end of a head until the end of its body.
    pub body_timeout: Duration,
    /// An HTTP/2 peer that has said nothing for this long is asked for a sign of life …
    pub ping_interval: Duration,
    /// … and is given up after this long without one.
    pub ping_timeout: Duration,
    /// A client that has taken nothing of an answer for this long has stopped reading it.
    pub stall_timeout: Duration,
    /// Bytes of answers that may wait for their clients, in the whole process. Past it a long answer becomes a 503.
    pub unsent: Unsent,
    /// Bytes of bodies that have begun to come and have not ended, in the whole process. Past it the next one is a 503. A
    /// body that comes in one piece is not among them.
    pub unended: Unsent,
    /// After the signal to stop: how long answers under way may take.
    pub drain_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections_max: 16_384,
            connections_max_per_address: None,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(30),
            unsent: Unsent::at_most(64 * 1024 * 1024),
            unended: Unsent::at_most(256 * 1024 * 1024),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
