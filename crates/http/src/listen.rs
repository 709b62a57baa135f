//! The accept loop: which sockets are opened, how many connections there may be, and how they are brought to an end.
//! `connection` serves each of them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Shared, drive};
use super::door::{Door, Plain};
use super::farewell::{self, TOO_MANY};
use super::handler::{ConnectionNews, Handler, Peer};
use super::limits::HttpLimits;
use super::repoll::Repoll;
use super::share::Shares;
use super::tls::{Encrypted, Tls};
use crate::limits::{RESERVE_PATIENCE, RESERVED_MAX, RESERVED_PER_ADDRESS, beyond_max};

/// Connections the kernel holds for us until they are accepted. A fleet that reconnects at once should fit.
const BACKLOG: u32 = 4096;

/// A peer that vanished without a word (power, network) is noticed after about this and three retries, so that a dead
/// waiter on HTTP/1.1 leaves its queue. HTTP/2 has its own pings.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// After an accept that failed for want of something (file descriptors, memory), wait this long before the next.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// … and say so this often, however often it fails: a log that fills the disk would be the worse of the two troubles.
const COMPLAIN_EVERY: Duration = Duration::from_secs(5);

/// Opens a listening socket whose connections are probed while they are silent.
pub fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted service must not wait for its old connections to time out. On Windows the option means something
    // else.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit both.
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL);
    socket2::SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Accepts and serves connections until `shutdown` resolves; then accepts no more, lets answers under way finish for at
/// most `limits.drain_timeout`, and returns.
pub async fn serve<H: Handler>(
    listener: TcpListener,
    handler: Arc<H>,
    limits: HttpLimits,
    shutdown: impl Future<Output = ()>,
) {
    accept(listener, Plain, handler, limits, shutdown).await;
}

/// The same over TLS, and nothing else.
pub async fn serve_tls<H: Handler>(
    listener: TcpListener,
    tls: Arc<Tls>,
    handler: Arc<H>,
    limits: HttpLimits,
    shutdown: impl Future<Output = ()>,
) {
    accept(listener, Encrypted(tls), handler, limits, shutdown).await;
}

async fn accept<H: Handler, D: Door>(
    listener: TcpListener,
    door: D,
    handler: Arc<H>,
    limits: HttpLimits,
    shutdown: impl Future<Output = ()>,
) {
    let connections_max = limits.connections_max;
    let drain_timeout = limits.drain_timeout;
    let shared = Arc::new(Shared::new(handler, limits));
    // One permit a connection. Having all of them back means that all connections are gone.
    let connections = Arc::new(Semaphore::new(connections_max as usize));
    let refusals_max = beyond_max(connections_max) / 5;
    let looks_max = beyond_max(connections_max) - refusals_max;
    let refusals = Arc::new(Semaphore::new(refusals_max as usize));
    let looks = Arc::new(Semaphore::new(looks_max as usize));
    let looks_by_address = Shares::exactly(looks_max - looks_max / 4);
    let by_address = match shared.limits.connections_max_per_address {
        Some(max) => Shares::exactly(max),
        None => Shares::of(connections_max),
    };
    let reserved = Arc::new(Reserved::new(&shared.handler.reserved_paths()));
    let reserve = Arc::new(Semaphore::new(RESERVED_MAX as usize));
    let reserved_by_address = Shares::exactly(RESERVED_PER_ADDRESS);

    let mut shutdown = pin!(shutdown);
    let mut complaints = Complaints::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, addr) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !concerns_one_connection(&error) {
                    if let Some(times) = complaints.failed(Instant::now()) {
                        tracing::warn!(%error, times, "could not accept a connection, trying again");
                    }
                    tokio::select! {
                        () = &mut shutdown => break,
                        () = sleep(ACCEPT_RETRY) => {}
                    }
                }
                continue;
            }
        };
        let share = by_address.take(addr.ip());
        if let Some(share) = share
            && let Ok(permit) = Arc::clone(&connections).try_acquire_owned()
        {
            // Answers are small and written whole: waiting to merge them only adds latency. Failing means it is gone.
            let _ = stream.set_nodelay(true);
            let (shared, door) = (Arc::clone(&shared), door.clone());
            shared.handler.connection(ConnectionNews::Opened);
            tokio::spawn(async move {
                let peer = Peer { addr, certificate: None, is_reserved: false };
                Repoll::new(drive(Arc::clone(&shared), door, stream, peer)).await;
                shared.handler.connection(ConnectionNews::Closed);
                drop((permit, share));
            });
            continue;
        }
        if D::SPEAKS_PLAINLY
            && let Some(share) = looks_by_address.take(addr.ip())
            && let Ok(look) = Arc::clone(&looks).try_acquire_owned()
        {
            let (shared, door, reserve) = (Arc::clone(&shared), door.clone(), Arc::clone(&reserve));
            let (reserved, reserved_by_address) = (Arc::clone(&reserved), reserved_by_address.clone());
            let refusals = Arc::clone(&refusals);
            tokio::spawn(async move {
                let is_asked_for = reserved.is_asked_for(&stream).await;
                drop((look, share));
                if is_asked_for
                    && let Ok(_place) = reserve.try_acquire_owned()
                    && let Some(_share) = reserved_by_address.take(addr.ip())
                {
                    let peer = Peer { addr, certificate: None, is_reserved: true };
                    Repoll::new(drive(shared, door, stream, peer)).await;
                    return;
                }
                shared.handler.connection(ConnectionNews::Refused);
                if let Ok(_permit) = refusals.try_acquire_owned() {
                    farewell::tell(stream, TOO_MANY).await;
                }
            });
        } else {
            shared.handler.connection(ConnectionNews::Refused);
        }
    }

    drop(listener);
    shared.stopping.begin();
    // Connections cut themselves off at `drain_timeout`; the second on top is for the runtime to get round to it.
    let all_gone = connections.acquire_many(connections_max);
    if timeout(drain_timeout + Duration::from_secs(1), all_gone).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

/// The beginnings of requests that are let in also when there are too many connections. Operators must get through
/// then, else a full service looks like a dead one and is killed.
#[derive(Debug)]
struct Reserved {
    beginnings: Vec<String>,
    longest: usize,
}

impl Reserved {
    fn new(paths: &[&str]) -> Self {
        let beginnings: Vec<String> = paths.iter().map(|path| format!("GET {path}")).collect();
        let longest = beginnings.iter().map(String::len).max().unwrap_or(0);
        Reserved { beginnings, longest }
    }

    /// Returns whether the first request of a peer is one of them.
    async fn is_asked_for(&self, stream: &TcpStream) -> bool {
        if self.beginnings.is_empty() {
            return false;
        }
        let mut first = vec![0; self.longest];
        // All of it comes in one packet, or it is none of them.
        let read = timeout(RESERVE_PATIENCE, stream.peek(&mut first)).await;
        matches!(read, Ok(Ok(len)) if self.beginnings.iter().any(|begin| first[..len].starts_with(begin.as_bytes())))
    }
}

/// When to say that connections cannot be accepted.
#[derive(Debug, Default)]
struct Complaints {
    /// Failures not spoken of yet.
    unsaid: u64,
    said_at: Option<Instant>,
}

impl Complaints {
    /// An accept failed once more: returns the number of failures since the last report, if it is time for one.
    fn failed(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.said_at.is_some_and(|said_at| now - said_at < COMPLAIN_EVERY) {
            return None;
        }
        self.said_at = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// An accept can fail because the connection it was about failed already. That says nothing about the next one.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_spoken_of_now_and_then_and_counted() {
        let began = Instant::now();
        let mut complaints = Complaints::default();
        let said: Vec<Option<u64>> = (0..=210).map(|n| complaints.failed(began + n * ACCEPT_RETRY)).collect();
        let said: Vec<(usize, u64)> = said.into_iter().enumerate().filter_map(|(n, times)| Some((n, times?))).collect();
        assert_eq!(said, [(0, 1), (100, 100), (200, 100)]);
    }
}
