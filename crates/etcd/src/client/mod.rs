//! Calls to etcd that do not give up easily: several endpoints, a second for each attempt, sent again until the
//! caller's patience ends. Each request of the store may therefore be executed more than once, and late; their compares
//! make every execution but the first one fail.

mod connection;
mod tls;
mod token;
mod verdict;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Status, Streaming};

use self::connection::Connection;
use self::token::Tokens;
use self::verdict::Verdict;
use crate::address::{Address, Endpoint};
use crate::error::{CallError, EtcdRefusal};
use crate::version::Version;
use crate::wire::{Call, StatusRequest, StatusResponse, WatchCreateRequest, WatchRequest, WatchResponse};

/// For one endpoint to answer, connecting included. An election of etcd takes as long. Doubled after each of them
/// failed in turn.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The same where megabytes are sent or read.
const BULK_ATTEMPT: Duration = Duration::from_secs(5);
/// After each endpoint failed in turn.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(320);
/// Tokens that are refused at once, one after the other, in one call.
const TOKENS_MAX: u32 = 3;

/// One lane to etcd. Clones share its connections; lanes of one store share what is known about etcd.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    lane: Arc<Vec<Slot>>,
    attempt: Duration,
}

struct Shared {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
    tokens: Option<Tokens>,
    /// The endpoint that answered last, on whichever lane: they find a member that hangs once, not each by itself.
    current: AtomicUsize,
    /// The id of the etcd cluster, once it is known; 0 before.
    cluster: AtomicU64,
    resent: AtomicU64,
}

/// The connection to an endpoint, if there is one.
type Slot = Mutex<Option<Connection>>;

impl Client {
    /// Reads the files that the address names. Connects to nothing.
    pub fn new(address: &Address) -> Result<Client, EtcdRefusal> {
        let shared = Arc::new(Shared {
            endpoints: address.endpoints.clone(),
            tls: address.tls.as_ref().map(tls::load).transpose()?,
            tokens: address.user.as_ref().map(Tokens::new).transpose()?,
            current: AtomicUsize::new(0),
            cluster: AtomicU64::new(0),
            resent: AtomicU64::new(0),
        });
        Ok(Client::lane_of(shared, ATTEMPT))
    }

    /// Another lane, with connections of its own: requests on it do not wait behind bulk on this one.
    #[must_use]
    pub fn lane(&self) -> Client {
        Client::lane_of(Arc::clone(&self.shared), ATTEMPT)
    }

    /// Another lane, for requests and answers that are large.
    #[must_use]
    pub fn bulk_lane(&self) -> Client {
        Client::lane_of(Arc::clone(&self.shared), BULK_ATTEMPT)
    }

    fn lane_of(shared: Arc<Shared>, attempt: Duration) -> Client {
        let lane = shared.endpoints.iter().map(|_| Slot::default()).collect();
        Client { shared, lane: Arc::new(lane), attempt }
    }

    /// The id of the etcd cluster, once a member has answered.
    pub fn cluster_id(&self) -> u64 {
        self.shared.cluster.load(Ordering::Relaxed)
    }

    /// How often a request was sent again, on all lanes.
    pub fn resent(&self) -> u64 {
        self.shared.resent.load(Ordering::Relaxed)
    }

    /// Sends a request until an endpoint answers it. It may be executed several times.
    pub async fn call<C: Call>(&self, request: &C, patience: Duration) -> Result<C::Answer, CallError> {
        self.persist(patience, &Unary(request)).await
    }

    /// Watches keys from `from` up to `to`. The stream ends with its connection.
    pub(crate) async fn watch(
        &self,
        create: WatchCreateRequest,
        patience: Duration,
    ) -> Result<Streaming<WatchResponse>, CallError> {
        self.persist(patience, &Watching(WatchRequest { create: Some(create) })).await
    }

    /// The status of each endpoint, asked once; what went wrong otherwise.
    pub async fn statuses(&self) -> Vec<(Endpoint, Result<StatusResponse, CallError>)> {
        let mut statuses = Vec::new();
        for (at, endpoint) in self.shared.endpoints.iter().enumerate() {
            let status = match timeout(self.attempt, self.attempt_at(at, &Unary(&StatusRequest {}))).await {
                Ok(Ok(status)) => Ok(status),
                Ok(Err(Verdict::Refused(refusal))) => Err(refusal.into()),
                Ok(Err(Verdict::Again(reason) | Verdict::Authenticate(reason))) => Err(CallError::Away(reason)),
                Err(_) => Err(CallError::Away(silence(self.attempt))),
            };
            statuses.push((endpoint.clone(), status));
        }
        statuses
    }

    /// Asks the member that leads from now on, if it answers: what another one is asked, it passes on to the leader,
    /// which costs a transaction a round trip and both of them time. `status` is what the present one says.
    pub(crate) async fn go_to_leader(&self, status: &StatusResponse) {
        let says_it_leads = |status: &StatusResponse, leader: u64| {
            status.leader == leader && status.header.is_some_and(|header| header.member_id == leader)
        };
        let leader = status.leader;
        if leader == 0 || says_it_leads(status, leader) {
            return;
        }
        let present = self.shared.current.load(Ordering::Relaxed);
        for at in (0..self.shared.endpoints.len()).filter(|at| *at != present) {
            let status = timeout(self.attempt, self.attempt_at(at, &Unary(&StatusRequest {}))).await;
            if let Ok(Ok(status)) = status
                && says_it_leads(&status, leader)
            {
                let _ = self.shared.current.compare_exchange(present, at, Ordering::Relaxed, Ordering::Relaxed);
                return;
            }
        }
    }

    /// The number of the endpoint that is asked, in the order of the address.
    pub fn asks_endpoint(&self) -> usize {
        self.shared.current.load(Ordering::Relaxed)
    }

    async fn persist<E: Exchange>(&self, patience: Duration, exchange: &E) -> Result<E::Answer, CallError> {
        let until = Instant::now() + patience;
        let mut reasons = vec![None; self.shared.endpoints.len()];
        let (mut failures, mut tokens_refused, mut pause) = (0, 0, PAUSE_MIN);
        let (mut unfit, mut attempt) = (None, self.attempt);
        loop {
            let at = self.shared.current.load(Ordering::Relaxed);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CallError::Away(self.reasons(&reasons)));
            }
            let patience = attempt.min(left);
            let verdict = match timeout(patience, self.attempt_at(at, exchange)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(verdict)) => verdict,
                Err(_) => Verdict::Again(silence(patience)),
            };
            let verdict = match verdict {
                // The others are asked first: a member that is added or replaced must not stop a service that runs.
                Verdict::Refused(EtcdRefusal::Unfit(sentence)) => {
                    unfit = Some(sentence.clone());
                    Verdict::Again(sentence)
                }
                verdict => verdict,
            };
            match verdict {
                Verdict::Refused(refusal) => return Err(refusal.into()),
                Verdict::Authenticate(reason) if tokens_refused == TOKENS_MAX => {
                    return Err(EtcdRefusal::Denied(reason).into());
                }
                Verdict::Authenticate(_) => tokens_refused += 1,
                Verdict::Again(reason) => {
                    reasons[at] = Some(reason);
                    failures += 1;
                    self.leave(at);
                    if failures % self.shared.endpoints.len() == 0 {
                        if let Some(sentence) = unfit.take() {
                            return Err(EtcdRefusal::Unfit(sentence).into());
                        }
                        // An etcd that is slow for all of them answers in the end, if it is given the time.
                        attempt *= 2;
                        sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
            }
            self.shared.resent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Goes on to the next endpoint, unless another call did already, and forgets the connection: a request that was
    /// not answered says that the next one may not be either.
    fn leave(&self, at: usize) {
        let next = (at + 1) % self.lane.len();
        let _ = self.shared.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        // A task that is connecting has the lock and makes a connection of its own.
        if let Ok(mut slot) = self.lane[at].try_lock() {
            *slot = None;
        }
    }

    async fn attempt_at<E: Exchange>(&self, at: usize, exchange: &E) -> Result<E::Answer, Verdict> {
        let connection = self.connection(at).await?;
        let token = match &self.shared.tokens {
            None => None,
            Some(tokens) => tokens.current(&connection).await.map_err(|status| verdict::of(&status))?,
        };
        match exchange.on(&connection, token.as_ref()).await {
            Ok(answer) => Ok(answer),
            Err(status) => {
                let verdict = verdict::of(&status);
                if let (Verdict::Authenticate(_), Some(tokens)) = (&verdict, &self.shared.tokens) {
                    tokens.forget(token.as_ref()).await;
                }
                Err(verdict)
            }
        }
    }

    async fn connection(&self, at: usize) -> Result<Connection, Verdict> {
        let mut slot = self.lane[at].lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        *slot = None;
        let endpoint = &self.shared.endpoints[at];
        let connection = Connection::open(endpoint, self.shared.tls.as_ref()).await.map_err(Verdict::Again)?;
        self.look_at(endpoint, &connection).await?;
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// Every member is looked at before its first request: members are upgraded one by one, and an address may lead
    /// to another etcd from one day to the next.
    async fn look_at(&self, endpoint: &Endpoint, connection: &Connection) -> Result<(), Verdict> {
        let token = match &self.shared.tokens {
            None => None,
            Some(tokens) => tokens.current(connection).await.map_err(|status| verdict::of(&status))?,
        };
        let status = connection.call(StatusRequest {}, token.as_ref()).await.map_err(|status| verdict::of(&status))?;
        let unfit = |sentence: String| Verdict::Refused(EtcdRefusal::Unfit(sentence));
        match Version::parse(&status.version) {
            Some(version) if version.is_sound() => {}
            Some(version) => {
                return Err(unfit(format!(
                    "the member {endpoint} is etcd {version}, which can lose acknowledged writes; use 3.4.22 or later of \
                     3.4, 3.5.6 or later of 3.5, or a later release"
                )));
            }
            None => return Err(unfit(format!("the member {endpoint} has no version: {:?}", status.version))),
        }
        if status.is_learner {
            return Err(Verdict::Again("it is a learner".to_owned()));
        }
        let id = status.header.unwrap_or_default().cluster_id;
        let known = self.shared.cluster.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
        match known {
            Err(known) if known != id => Err(unfit(format!(
                "the member {endpoint} belongs to another etcd cluster (id {id:016x}) than those before it ({known:016x})"
            ))),
            _ => Ok(()),
        }
    }

    fn reasons(&self, reasons: &[Option<String>]) -> String {
        let named = self.shared.endpoints.iter().zip(reasons);
        let said: Vec<_> =
            named.filter_map(|(endpoint, reason)| Some(format!("{endpoint}: {}", reason.as_ref()?))).collect();
        if said.is_empty() { "no endpoint was tried in time".to_owned() } else { said.join("; ") }
    }
}

fn silence(attempt: Duration) -> String {
    format!("no answer within {:.1} s", attempt.as_secs_f32())
}

/// A request that can be sent more than once.
trait Exchange: Sync {
    type Answer: Send;

    fn on(
        &self,
        connection: &Connection,
        token: Option<&MetadataValue<Ascii>>,
    ) -> impl Future<Output = Result<Self::Answer, Status>> + Send;
}

struct Unary<'a, C>(&'a C);

impl<C: Call> Exchange for Unary<'_, C> {
    type Answer = C::Answer;

    async fn on(&self, connection: &Connection, token: Option<&MetadataValue<Ascii>>) -> Result<C::Answer, Status> {
        connection.call(self.0.clone(), token).await
    }
}

struct Watching(WatchRequest);

impl Exchange for Watching {
    type Answer = Streaming<WatchResponse>;

    async fn on(
        &self,
        connection: &Connection,
        token: Option<&MetadataValue<Ascii>>,
    ) -> Result<Streaming<WatchResponse>, Status> {
        connection.watch(self.0.clone(), token).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.shared.endpoints).finish_non_exhaustive()
    }
}
