//! The client: the addresses of one service, our identity there, and the thread that renews.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use crate::clock::LeaseClock;
use crate::dialect::{Call, Grant, Target};
use crate::error::Error;
use crate::handover::Handover;
use crate::lease::Lease;
use crate::reply::{Heard, Reply};
use crate::request::Request;
use crate::table::Released;
use crate::transport::{Address, EventStream, Manner, TlsFiles, TokenSource, Transport, refusal};
use crate::worker::{Offer, Worker, give_back, hold, renew_once};

/// Where a service is when nothing says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";
const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// How long a release may take.
const RELEASE: Duration = Duration::from_secs(5);
const DEFAULT_ROUND: Duration = Duration::from_secs(50);

/// A client of one service. Clones are one client. The thread ends when the last clone and the last lease are gone;
/// [`close`](Client::close) releases the held leases first.
#[derive(Clone)]
pub struct Client {
    worker: Arc<Worker>,
    who: String,
    ttl: Duration,
    round: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("transport", &self.worker.core.transport).finish_non_exhaustive()
    }
}

/// A pool of numbered slots. Its id is a credential.
#[derive(Clone)]
pub struct Pool {
    client: Client,
    target: Target,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

/// How to make a client.
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    urls: Vec<String>,
    token: TokenSource,
    tls: TlsFiles,
    name: Option<String>,
    ttl: Option<Duration>,
    round: Option<Duration>,
    clock: LeaseClock,
}

impl Client {
    /// From the environment: `LEASEHOLD_URL` (several with commas between them; `http://127.0.0.1:8080` without it),
    /// `LEASEHOLD_TOKEN_FILE` or `LEASEHOLD_TOKEN`, `LEASEHOLD_CA_FILE`, `LEASEHOLD_CERT_FILE` and
    /// `LEASEHOLD_KEY_FILE`.
    pub fn from_env() -> Result<Client, Error> {
        ClientBuilder::from_env()?.build()
    }

    /// With settings of one's own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A lock, by name.
    pub fn lock(&self, job: &str) -> Request {
        self.request(Target::lock(job))
    }

    /// A place in the queue of a named resource.
    pub fn claim(&self, resource: &str) -> Request {
        self.request(Target::claim(resource, None))
    }

    /// A pool, by its id.
    pub fn pool(&self, id: &str) -> Result<Pool, Error> {
        Ok(Pool { client: self.clone(), target: Target::pool(id)? })
    }

    fn request(&self, target: Target) -> Request {
        Request::new(Arc::clone(&self.worker), target, self.who.clone(), self.ttl, self.round)
    }

    /// Holds a lease that another process of this machine has handed over. Of `request` it uses the callbacks, how long
    /// the lease may be held, and whether it is renewed after a loss.
    pub async fn take_over(&self, handover: Handover, request: &Request) -> Result<Lease, Error> {
        let Handover { id, token, slot, named, terms, ttl } = handover;
        let grant = Grant { id, token, slot, named: named.map(Arc::new), length: terms.length, waited: None };
        let (on_notice, persists) = (request.notices(), request.persists());
        let (max_hold, tells_renewals) = (request.longest(), request.tells_renewals());
        let offer = Offer { grant, terms, ttl, max_hold, persists, on_notice, tells_renewals };
        let core = Arc::clone(&self.worker.core);
        let held = self.worker.spawn(async move { hold(&core, offer) })?.await;
        Ok(Lease::new(held.map_err(|_| Error::Closed)?, Arc::clone(&self.worker)))
    }

    /// Renews a lease once, for programs that hold it over several processes. It may be late: the service says whether
    /// it was.
    pub async fn renew(&self, handover: &Handover) -> Result<Handover, Error> {
        let (core, mut renewed) = (Arc::clone(&self.worker.core), handover.clone());
        let task = self.worker.spawn(async move {
            renewed.terms = renew_once(&core, &renewed.id, renewed.token, renewed.ttl).await?;
            Ok(renewed)
        });
        task?.await.map_err(|_| Error::Closed)?
    }

    /// Gives back a lease that is held nowhere any more: the process that had it has ended, or has handed it over.
    pub async fn release(&self, handover: Handover) -> Result<Released, Error> {
        let core = Arc::clone(&self.worker.core);
        let released =
            self.worker.spawn(async move { give_back(&core, &handover.id, handover.token, RELEASE).await })?;
        Ok(released.await.unwrap_or(Released::Unknown))
    }

    /// Any call of the API, made once on a new connection and never repeated, as not every call may be. It returns
    /// every answer of the service, with any status.
    pub async fn call(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Reply, Error> {
        let method =
            Method::from_bytes(method.as_bytes()).map_err(|_| Error::Setting(format!("{method:?} is no method")))?;
        let mut call = Call::new(method, target.to_owned());
        call.body = body.map(ToString::to_string);
        let core = Arc::clone(&self.worker.core);
        let manner = Manner { is_fresh: true, ..Manner::PLAIN };
        let heard = self.worker.spawn(async move { core.transport.call(&call, manner).await })?.await;
        match heard.map_err(|_| Error::Closed)? {
            Heard::Reply(reply) => Ok(reply),
            other => Err(refusal(&other)),
        }
    }

    /// The stream of events, from after the event with this id, or from now on: `resource` is a key or a name, `kind`
    /// is `pool`, `claim` or `lock`.
    pub async fn watch(
        &self,
        resource: Option<&str>,
        kind: Option<&str>,
        after: Option<&str>,
    ) -> Result<EventStream, Error> {
        let encode =
            |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let fields = [("resource", resource), ("kind", kind), ("last_event_id", after)];
        let query: Vec<String> =
            fields.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode((*value)?)))).collect();
        let call = Call::new(Method::GET, format!("/v1/events?{}", query.join("&")));
        let core = Arc::clone(&self.worker.core);
        self.worker.spawn(async move { core.transport.events(&call).await })?.await.map_err(|_| Error::Closed)?
    }

    /// Releases every lease, in parallel within two seconds, and waits until acquisitions that were given up are
    /// undone, five seconds at most. The client cannot be used afterwards.
    pub async fn close(&self) {
        self.worker.close().await;
    }

    /// The addresses it was given.
    pub fn urls(&self) -> Vec<String> {
        self.worker.core.transport.addresses().iter().map(ToString::to_string).collect()
    }

    /// The clock that decides.
    pub fn clock(&self) -> &LeaseClock {
        &self.worker.core.clock
    }
}

impl Pool {
    /// A slot of it.
    pub fn borrow(&self) -> Request {
        self.client.request(self.target.clone())
    }
}

impl ClientBuilder {
    /// A builder with the settings of the environment; see [`Client::from_env`].
    pub fn from_env() -> Result<ClientBuilder, Error> {
        let text = |name: &str| match std::env::var(name) {
            Ok(value) if !value.is_empty() => Ok(Some(value)),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(Error::Setting(format!("{name}: {error}"))),
        };
        let mut builder = ClientBuilder::default();
        if let Some(urls) = text("LEASEHOLD_URL")? {
            builder = builder.urls(&urls);
        }
        match (text("LEASEHOLD_TOKEN_FILE")?, text("LEASEHOLD_TOKEN")?) {
            (Some(file), _) => builder = builder.token_file(file),
            (None, Some(token)) => builder = builder.token(&token),
            (None, None) => {}
        }
        if let Some(ca) = text("LEASEHOLD_CA_FILE")? {
            builder = builder.ca_file(ca);
        }
        if let (Some(cert), Some(key)) = (text("LEASEHOLD_CERT_FILE")?, text("LEASEHOLD_KEY_FILE")?) {
            builder = builder.client_certificate(cert, key);
        }
        Ok(builder)
    }

    /// The addresses of one service, with commas between them, in the order in which they are tried.
    #[must_use]
    pub fn urls(mut self, urls: &str) -> ClientBuilder {
        self.urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
        self
    }

    /// Signs on with this token.
    #[must_use]
    pub fn token(mut self, token: &str) -> ClientBuilder {
        self.token = TokenSource::Given(token.trim().into());
        self
    }

    /// Signs on with the token in this file, which is read again when the service refuses it.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> ClientBuilder {
        self.token = TokenSource::File(path.into());
        self
    }

    /// Signs on with the token that this returns; it is called again when the service refuses the token.
    #[must_use]
    pub fn token_from(mut self, callback: impl Fn() -> String + Send + Sync + 'static) -> ClientBuilder {
        self.token = TokenSource::Callback(Arc::new(callback));
        self
    }

    /// Trusts the certificates in this PEM file, and not those that the system trusts.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> ClientBuilder {
        self.tls.ca = Some(path.into());
        self
    }

    /// Shows this certificate (PEM, with its chain), which has this key.
    #[must_use]
    pub fn client_certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> ClientBuilder {
        self.tls.cert = Some(cert.into());
        self.tls.key = Some(key.into());
        self
    }

    /// The first part of the name that locks are held under, `user@host` unless set. Where the service binds lock
    /// clients, the name that the caller signs on with.
    #[must_use]
    pub fn name(mut self, name: &str) -> ClientBuilder {
        self.name = Some(name.to_owned());
        self
    }

    /// The ttl of requests that name none: 30 s unless set.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> ClientBuilder {
        self.ttl = Some(ttl);
        self
    }

    /// How long one call waits before the next one takes over its place: 5 to 290 s, 50 s unless set, as proxies cut
    /// calls off at a minute.
    #[must_use]
    pub fn round(mut self, round: Duration) -> ClientBuilder {
        self.round = Some(round);
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: LeaseClock) -> ClientBuilder {
        self.clock = clock;
        self
    }

    /// Starts the client's thread. Nothing is sent yet.
    pub fn build(self) -> Result<Client, Error> {
        let urls = if self.urls.is_empty() { vec![DEFAULT_URL.to_owned()] } else { self.urls };
        let addresses: Vec<Address> = urls.iter().map(|url| Address::parse(url)).collect::<Result<_, _>>()?;
        let round = self.round.unwrap_or(DEFAULT_ROUND);
        if !(Duration::from_secs(5)..=Duration::from_secs(290)).contains(&round) {
            return Err(Error::Setting(format!("a round is 5s to 290s, got {round:?}")));
        }
        let who = self.name.unwrap_or_else(user_at_host);
        if who.is_empty() || who.len() > 200 || who.chars().any(char::is_control) {
            return Err(Error::Setting("a name has 1 to 200 bytes and no control characters".into()));
        }
        let transport = Transport::new(addresses, self.tls, self.token, self.clock.clone())?;
        let worker = Arc::new(Worker::start(transport, self.clock)?);
        Ok(Client { worker, who, ttl: self.ttl.unwrap_or(DEFAULT_TTL), round })
    }
}

fn user_at_host() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "somebody".to_owned());
    let name: String = format!("{user}@{}", host()).chars().filter(|c| !c.is_control()).collect();
    name.chars().take(60).collect()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}
