//! Calls to a service that has one or more addresses. It reports the answer and leaves its meaning to `table`.
//! HTTP/1.1, so that no renewal shares a connection with a call that waits; no redirects; tokens go to the configured
//! hosts only.

mod address;
mod connection;
mod secret;
mod stream;
mod tls;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LINK, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::Full;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::timeout;

pub(crate) use address::Address;
pub(crate) use secret::{Token, TokenSource};
pub(crate) use stream::refusal;
pub use stream::{Event, EventStream};
pub(crate) use tls::TlsFiles;

use crate::clock::{LeaseClock, Moment};
use crate::dialect::Call;
use crate::error::Error;
use crate::reply::{Heard, Position, Reply, Trouble};
use connection::{Connection, NoAnswer, NoConnection, Raw};

/// A connection that was not used for so long is closed; the service and proxies close theirs later.
const IDLE: Duration = Duration::from_secs(20);
/// How long an address that has not answered yet gets to show that it does, where there are others.
const PROBE: Duration = Duration::from_secs(2);
/// More idle connections than this are closed at once.
const IDLE_MAX: usize = 8;

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Until the whole answer is there, connecting included.
    pub(crate) patience: Duration,
    /// On a new connection.
    pub(crate) is_fresh: bool,
    /// A renewal, whose time is counted: no probe, and one patience for all addresses.
    pub(crate) is_timed: bool,
}

impl Manner {
    /// Above the time that the service gives its store, so that a 502 is heard.
    pub(crate) const PLAIN: Manner = Manner { patience: Duration::from_secs(15), is_fresh: false, is_timed: false };

    /// A call that the service answers after `wait` at the latest.
    pub(crate) fn poll(wait: Duration) -> Manner {
        Manner { patience: wait + Duration::from_secs(15), is_fresh: false, is_timed: false }
    }

    pub(crate) fn renewal(patience: Duration, is_fresh: bool) -> Manner {
        Manner { patience, is_fresh, is_timed: true }
    }
}

/// The addresses of one service, its idle connections, and our identity there.
pub(crate) struct Transport {
    addresses: Vec<Address>,
    /// Has it answered since it last failed?
    proven: Vec<AtomicBool>,
    /// The one that is asked first: the last that answered.
    preferred: AtomicUsize,
    tls_files: TlsFiles,
    tls: OnceLock<Arc<ClientConfig>>,
    token: Token,
    idle: Mutex<Vec<Idle>>,
    clock: LeaseClock,
    /// The highest epoch heard of.
    epoch: AtomicU64,
    /// `Leasehold-Service`, once it was heard.
    service: OnceLock<String>,
}

#[derive(Debug)]
struct Idle {
    address: usize,
    connection: Connection,
    since: Moment,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("addresses", &self.addresses)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl Transport {
    pub(crate) fn new(
        addresses: Vec<Address>,
        tls_files: TlsFiles,
        token: TokenSource,
        clock: LeaseClock,
    ) -> Result<Transport, Error> {
        if addresses.is_empty() {
            return Err(Error::Setting("no address of a service is given".into()));
        }
        let tls = OnceLock::new();
        if addresses.iter().any(|address| address.is_tls) {
            // Mistakes in files are told at once, not at the first call.
            let _ = tls.set(tls_files.load()?);
        }
        let proven = addresses.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Transport {
            addresses,
            proven,
            preferred: AtomicUsize::new(0),
            tls_files,
            tls,
            token: Token::new(token)?,
            idle: Mutex::default(),
            clock,
            epoch: AtomicU64::new(0),
            service: OnceLock::new(),
        })
    }

    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Makes a call; an address that cannot be reached is passed over for the next one.
    pub(crate) async fn call(&self, call: &Call, manner: Manner) -> Heard {
        let request_id = format!("{:016x}", rand::random::<u64>());
        let mut last = None;
        let begun = tokio::time::Instant::now();
        for _ in 0..self.addresses.len() {
            let at = self.preferred.load(Ordering::Relaxed);
            let mut manner = manner;
            if manner.is_timed {
                // All addresses together; one that refuses takes no time.
                manner.patience = manner.patience.saturating_sub(begun.elapsed());
                if manner.patience.is_zero() {
                    break;
                }
            }
            let heard = self.call_at(at, call, manner, &request_id).await;
            let goes_on = match &heard {
                Heard::Reply(_) => {
                    self.proven[at].store(true, Ordering::Relaxed);
                    false
                }
                Heard::NotSent(_) | Heard::WrongHost(_) | Heard::Tls(_) => true,
                Heard::Unknown { .. } | Heard::OtherService(_) => {
                    self.pass_over(at);
                    false
                }
            };
            if !goes_on {
                return heard;
            }
            self.pass_over(at);
            // The result is the most telling of the obstacles.
            let rank = |heard: &Heard| match heard {
                Heard::Tls(_) => 2,
                Heard::NotSent(_) => 1,
                _ => 0,
            };
            if last.as_ref().is_none_or(|last| rank(&heard) >= rank(last)) {
                last = Some(heard);
            }
        }
        last.expect("there is at least one address")
    }

    /// The next call goes to the next address; open connections to this one are closed.
    fn pass_over(&self, at: usize) {
        self.proven[at].store(false, Ordering::Relaxed);
        let next = (at + 1) % self.addresses.len();
        let _ = self.preferred.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).retain(|idle| idle.address != at);
    }

    async fn call_at(&self, at: usize, call: &Call, manner: Manner, request_id: &str) -> Heard {
        if !manner.is_timed && self.addresses.len() > 1 && !self.proven[at].load(Ordering::Relaxed) {
            // With other addresses to turn to, one that hangs is found out before a call is left with it.
            let probe = Call::new(http::Method::GET, "/healthz".to_owned());
            let heard = self.attempt(at, &probe, PROBE, false, request_id).await;
            match heard {
                Heard::Reply(_) => {}
                Heard::Unknown { trouble, .. } => return Heard::NotSent(trouble),
                other => return other,
            }
        }
        let heard = self.attempt(at, call, manner.patience, manner.is_fresh, request_id).await;
        match &heard {
            Heard::Reply(reply) if reply.status == 401 && self.token.can_change() => {
                self.token.read_again();
                self.attempt(at, call, manner.patience, manner.is_fresh, request_id).await
            }
            _ => heard,
        }
    }

    async fn attempt(&self, at: usize, call: &Call, patience: Duration, is_fresh: bool, request_id: &str) -> Heard {
        let trouble = |message: String| Trouble {
            message,
            url: self.addresses[at].to_string(),
            request_id: request_id.to_owned(),
        };
        // `true` once the call has left, so that a timeout is told apart from a connection that was never established.
        let is_sent = AtomicBool::new(false);
        let heard = match timeout(patience, self.exchange(at, call, is_fresh, request_id, &is_sent)).await {
            Ok(Ok(raw)) => self.understand(at, &raw, request_id),
            Ok(Err(failed)) => match failed {
                Failed::Connect(NoConnection::Unreachable(reason)) => Heard::NotSent(trouble(reason)),
                Failed::Connect(NoConnection::Tls(reason)) | Failed::Answer(NoAnswer::Tls(reason)) => {
                    Heard::Tls(trouble(reason))
                }
                Failed::Answer(NoAnswer::Before(reason) | NoAnswer::Within(reason)) => {
                    Heard::Unknown { trouble: trouble(reason), retry_after: None }
                }
            },
            Err(_) => {
                let trouble = trouble(format!("no answer within {patience:?}"));
                if is_sent.load(Ordering::Relaxed) {
                    Heard::Unknown { trouble, retry_after: None }
                } else {
                    Heard::NotSent(trouble)
                }
            }
        };
        Transport::log(call, &heard);
        heard
    }

    /// On an idle connection if there is one. If that fails before the answer begins, the other side had closed it:
    /// once more, on a new one.
    async fn exchange(
        &self,
        at: usize,
        call: &Call,
        is_fresh: bool,
        request_id: &str,
        is_sent: &AtomicBool,
    ) -> Result<Raw, Failed> {
        if !is_fresh && let Some(mut connection) = self.take_idle(at) {
            is_sent.store(true, Ordering::Relaxed);
            match connection.exchange(self.request(at, call, request_id)).await {
                Ok(raw) => {
                    self.put_idle(at, connection);
                    return Ok(raw);
                }
                Err(NoAnswer::Before(_)) => {}
                Err(other) => return Err(Failed::Answer(other)),
            }
        }
        let mut connection = self.connect(at).await.map_err(Failed::Connect)?;
        is_sent.store(true, Ordering::Relaxed);
        let raw = connection.exchange(self.request(at, call, request_id)).await.map_err(Failed::Answer)?;
        self.put_idle(at, connection);
        Ok(raw)
    }

    async fn connect(&self, at: usize) -> Result<Connection, NoConnection> {
        let address = &self.addresses[at];
        let tls = match (address.is_tls, self.tls.get()) {
            (true, None) => {
                let loaded = self.tls_files.load().map_err(|error| NoConnection::Tls(error.to_string()))?;
                Some(self.tls.get_or_init(|| loaded))
            }
            (_, tls) => tls,
        };
        Connection::open(address, tls).await
    }

    fn request(&self, at: usize, call: &Call, request_id: &str) -> Request<Full<Bytes>> {
        let address = &self.addresses[at];
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", address.prefix, call.target))
            .header(HOST, &address.authority)
            .header(USER_AGENT, concat!("leasehold-client/", env!("CARGO_PKG_VERSION")))
            .header("x-request-id", request_id);
        if let Some(key) = &call.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(token) = self.token.current() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = call.body.clone().unwrap_or_default();
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request = request.header(ACCEPT, "application/json");
        request.body(Full::new(Bytes::from(body))).expect("its parts were made for a request")
    }

    /// An answer counts with a position and whole JSON only.
    fn understand(&self, at: usize, raw: &Raw, request_id: &str) -> Heard {
        let url = self.addresses[at].to_string();
        let text = |name: &str| raw.headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = text("x-request-id").unwrap_or(request_id).to_owned();
        let trouble = |message: String| Trouble { message, url: url.clone(), request_id: request_id.clone() };
        let retry_after = retry_after(&raw.headers);
        if raw.status == 421 {
            return Heard::WrongHost(trouble("421: it does not serve this name".into()));
        }
        let strange = |why: &str| Heard::Unknown {
            trouble: trouble(format!("{} {why}", raw.status)),
            retry_after: retry_after.filter(|_| matches!(raw.status, 429 | 503)),
        };
        let Some(position) = text("leasehold-position").and_then(Position::parse) else {
            return strange("without a Leasehold-Position: something in between answered");
        };
        let body: &[u8] = if raw.body.is_empty() { b"null" } else { &raw.body };
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return strange("with something that is not JSON");
        };
        if json.is_null() && raw.status != 204 {
            return strange("with nothing in it");
        }
        if let Some(service) = text("leasehold-service") {
            let known = self.service.get_or_init(|| service.to_owned());
            if known != service {
                let others = self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Heard::OtherService(trouble(format!("{others} do not all belong to one service")));
            }
        }
        let link = text(LINK.as_str()).map(str::to_owned);
        Heard::Reply(Reply { status: raw.status, position, retry_after, link, json, url, request_id })
    }

    /// Returns whether an answer is of an older reign than one heard before: of a service that does not know yet that
    /// it was replaced. Its address then goes last.
    pub(crate) fn is_of_the_past(&self, reply: &Reply) -> bool {
        let highest = self.epoch.fetch_max(reply.position.epoch, Ordering::Relaxed);
        let is_old = reply.position.epoch < highest;
        if is_old && let Some(at) = self.addresses.iter().position(|address| address.to_string() == reply.url) {
            self.pass_over(at);
        }
        is_old
    }

    fn take_idle(&self, at: usize) -> Option<Connection> {
        self.close_idle();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle.iter().rposition(|idle| idle.address == at)?;
        Some(idle.swap_remove(found).connection)
    }

    fn put_idle(&self, at: usize, connection: Connection) {
        let since = self.clock.now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.is_open() && idle.len() < IDLE_MAX {
            idle.push(Idle { address: at, connection, since });
        }
    }

    /// Closes connections that were idle for too long. Called now and then by the worker.
    pub(crate) fn close_idle(&self) {
        let now = self.clock.now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| now.since(idle.since) < IDLE && idle.connection.is_open());
    }

    fn log(call: &Call, heard: &Heard) {
        match heard {
            Heard::Reply(reply) => tracing::debug!(
                method = %call.method,
                status = reply.status,
                position = %reply.position,
                request = reply.request_id,
                "answered"
            ),
            Heard::NotSent(trouble)
            | Heard::WrongHost(trouble)
            | Heard::Tls(trouble)
            | Heard::OtherService(trouble)
            | Heard::Unknown { trouble, .. } => tracing::debug!(method = %call.method, %trouble, "not answered"),
        }
    }
}

enum Failed {
    Connect(NoConnection),
    Answer(NoAnswer),
}

/// In seconds; a date is as good as none. At most five minutes, even if it asks for more.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(300)))
}
