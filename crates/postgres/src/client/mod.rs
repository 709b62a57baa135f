//! Statements are sent until they are answered, or the caller's patience ends.
//!
//! ```text
//! call ─▶ connection of the lane ─▶ statement ─┬─ answered
//!            ▲                                 ├─ error: refused, or again
//!            │                                 └─ silence: ask the server, on a connection of its own, about this one
//!            └────── gone or idle ◀──────────────────┴─▶ at work on it: wait on
//! ```
//!
//! A statement that waits for a synchronous standby is not sent again on a new connection: each of them would wait as
//! well, and hold a connection of the server until the standby is back. It is never cancelled either, since that
//! would leave the change in the primary alone.

mod connection;
mod params;
mod password;
mod tls;
mod verdict;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use leasehold_dial::tls_config;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;

use self::connection::Connection;
pub(crate) use self::connection::Server;
pub(crate) use self::params::Params;
use self::tls::MakeTls;
use self::verdict::Verdict;
use crate::address::Address;
use crate::error::{CallError, PostgresRefusal};

/// Without an answer for so long, the server is asked about the connection.
const ATTEMPT: Duration = Duration::from_secs(1);
/// For the connect to a host, with the look at it.
const CONNECT: Duration = Duration::from_secs(2);
/// For an answer that is on its way.
const GRACE: Duration = Duration::from_millis(50);
/// Between attempts that failed at once.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A server is at work on our statement in these states; `disabled` means that it does not tell.
const ACTIVITY: &str = "SELECT state IN ('active', 'disabled'), coalesce(wait_event, 'nothing') FROM pg_stat_activity \
     WHERE application_name = $1";

type Exchange = Pin<Box<dyn Future<Output = Result<Vec<Row>, Verdict>> + Send>>;

/// One lane: a connection of its own, so that one kind of statement does not wait for another.
#[derive(Clone)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
}

struct Lane {
    name: &'static str,
    connection: Mutex<Option<Arc<Connection>>>,
}

struct Shared {
    address: Address,
    tls: Option<MakeTls>,
    /// The host that was last the primary.
    current: AtomicUsize,
    resent: AtomicU64,
    connects: AtomicU64,
    said: Lock<BTreeSet<String>>,
    /// The highest timeline that a primary had; 0 before the first connect.
    timeline: AtomicU32,
}

impl Client {
    /// Reads the files that the address names, and connects to nothing.
    pub(crate) fn new(address: &Address) -> Result<Client, PostgresRefusal> {
        let setting = |error: leasehold_dial::FileError| PostgresRefusal::Setting(error.to_string());
        let tls = address.tls.as_ref().map(tls_config).transpose().map_err(setting)?;
        for host in &address.hosts {
            password::of(address, host)?;
        }
        let shared = Shared {
            address: address.clone(),
            tls: tls.map(|config| MakeTls(Arc::new(config))),
            current: AtomicUsize::new(0),
            resent: AtomicU64::new(0),
            connects: AtomicU64::new(0),
            said: Lock::default(),
            timeline: AtomicU32::new(0),
        };
        Ok(Client { shared: Arc::new(shared), lane: Lane::new("main") })
    }

    /// The same server by a connection of its own.
    pub(crate) fn lane(&self, name: &'static str) -> Client {
        Client { shared: Arc::clone(&self.shared), lane: Lane::new(name) }
    }

    /// Statements that were sent again.
    pub(crate) fn resent(&self) -> u64 {
        self.shared.resent.load(Ordering::Relaxed)
    }

    /// Connections that were made.
    pub(crate) fn connects(&self) -> u64 {
        self.shared.connects.load(Ordering::Relaxed)
    }

    /// Everything that was said about settings that cost durability.
    pub(crate) fn warnings(&self) -> Vec<String> {
        lock(&self.shared.said).iter().cloned().collect()
    }

    /// Connects to the primary, once. A server that must not be used is refused, and so are hosts that are all
    /// standbys: an address that leads to no primary is a mistake, before a node relies on it.
    pub(crate) async fn find(&self, patience: Duration) -> Result<Server, CallError> {
        let until = Instant::now() + patience;
        let mut pause = PAUSE;
        loop {
            let reason = match self.connection().await {
                Ok(connection) => return Ok(connection.server.clone()),
                Err(Verdict::Refused(refusal)) => return Err(refusal.into()),
                Err(Verdict::Standby(sentence)) => return Err(PostgresRefusal::Unfit(sentence).into()),
                Err(Verdict::Again(reason)) => reason,
            };
            if Instant::now() >= until {
                return Err(CallError::Away(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Runs a script in one transaction, once: what it leaves is looked at afterwards.
    pub(crate) async fn script(&self, script: &str) -> Result<(), CallError> {
        let run = async { self.connection().await?.run_script(script).await };
        match run.await {
            Ok(()) => Ok(()),
            Err(Verdict::Again(reason) | Verdict::Standby(reason)) => Err(CallError::Away(reason)),
            Err(Verdict::Refused(refusal)) => Err(refusal.into()),
        }
    }

    /// Runs a statement until it is committed. It may be executed more than once, and late.
    pub(crate) async fn call(
        &self,
        sql: &'static str,
        params: Params,
        patience: Duration,
    ) -> Result<Vec<Row>, CallError> {
        let until = Instant::now() + patience;
        let mut pause = PAUSE;
        loop {
            let reason = match self.attempt(sql, &params, until).await {
                Ok(rows) => return Ok(rows),
                Err(Verdict::Refused(refusal)) => return Err(refusal.into()),
                Err(Verdict::Again(reason) | Verdict::Standby(reason)) => reason,
            };
            if Instant::now() + pause >= until {
                return Err(CallError::Away(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            self.shared.resent.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn attempt(&self, sql: &'static str, params: &Params, until: Instant) -> Result<Vec<Row>, Verdict> {
        let connection = match timeout(left(until), self.connection()).await {
            Ok(connection) => connection?,
            Err(_) => return Err(Verdict::Again("no connection in time".to_owned())),
        };
        let mut exchange = exchange(Arc::clone(&connection), sql, params.clone());
        let mut reason = format!("{}: no answer", connection.host);
        loop {
            if let Ok(ended) = timeout(ATTEMPT.min(left(until)), &mut exchange).await {
                return self.settled(&connection, ended).await;
            }
            let Ok(fate) = timeout(left(until), self.fate_of(&connection)).await else {
                // It goes on by itself, so that its place among the unanswered is free only once it has ended.
                tokio::spawn(exchange);
                return Err(Verdict::Again(reason));
            };
            reason = match fate {
                Fate::Ended => {
                    // Its answer may have come while the server was asked.
                    if let Ok(ended) = timeout(GRACE, &mut exchange).await {
                        return self.settled(&connection, ended).await;
                    }
                    self.leave(&connection).await;
                    return Err(Verdict::Again("the connection was lost without a word".to_owned()));
                }
                Fate::AtWork(wait) => format!("{} is at work on it and waits for {wait}", connection.host),
                Fate::Unknown(why) => format!("{}: no answer, and {why}", connection.host),
            };
        }
    }

    /// An error may say that the connection is of no more use.
    async fn settled(
        &self,
        connection: &Arc<Connection>,
        ended: Result<Vec<Row>, Verdict>,
    ) -> Result<Vec<Row>, Verdict> {
        if let Err(Verdict::Standby(_) | Verdict::Refused(PostgresRefusal::Absent(_) | PostgresRefusal::Other(_))) =
            &ended
        {
            self.leave(connection).await;
        }
        ended
    }

    /// Finds out how the statement of this connection ended.
    async fn fate_of(&self, connection: &Connection) -> Fate {
        let fate = match timeout(CONNECT, self.fate_by_host(connection)).await {
            Ok(fate) => fate,
            Err(_) => Fate::Unknown(format!("no connection within {} s", CONNECT.as_secs())),
        };
        if self.is_overtaken(connection, &fate).await { Fate::Ended } else { fate }
    }

    /// Asks the server whether it still works on that statement.
    async fn fate_by_host(&self, connection: &Connection) -> Fate {
        let Shared { address, tls, .. } = &*self.shared;
        let asked = match Connection::open(address, &connection.host, tls.as_ref(), "probe").await {
            Ok(probe) => probe.run(ACTIVITY, &Params::new().with(connection.name.clone())).await,
            Err(verdict) => Err(verdict),
        };
        match asked {
            Ok(rows) => match rows.first() {
                Some(row) if row.get::<_, Option<bool>>(0) != Some(false) => Fate::AtWork(row.get(1)),
                _ => Fate::Ended,
            },
            // The server is no longer the primary, so it cannot complete the statement any more.
            Err(Verdict::Standby(_)) => Fate::Ended,
            Err(Verdict::Again(why)) => Fate::Unknown(why),
            Err(Verdict::Refused(refusal)) => Fate::Unknown(refusal.to_string()),
        }
    }

    /// Looks for another host that is a primary: one of a later timeline, as a standby was promoted and the server
    /// that works on our statement does not know it yet; or any, where our server is silent.
    async fn is_overtaken(&self, connection: &Connection, fate: &Fate) -> bool {
        let Shared { address, tls, current, .. } = &*self.shared;
        for (at, host) in address.hosts.iter().enumerate().filter(|(_, host)| **host != connection.host) {
            let opened = timeout(CONNECT, Connection::open(address, host, tls.as_ref(), "probe")).await;
            let timeline = connection.server.timeline + u32::from(matches!(fate, Fate::AtWork(_)));
            if opened.is_ok_and(|opened| opened.is_ok_and(|other| other.server.timeline >= timeline)) {
                current.store(at, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Forgets a connection, unless another call did already.
    async fn leave(&self, connection: &Arc<Connection>) {
        let mut slot = self.lane.connection.lock().await;
        if slot.as_ref().is_some_and(|now| Arc::ptr_eq(now, connection)) {
            *slot = None;
        }
    }

    async fn connection(&self) -> Result<Arc<Connection>, Verdict> {
        let mut slot = self.lane.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Ok(Arc::clone(connection));
        }
        *slot = None;
        let connection = Arc::new(self.connect().await?);
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Tries each host once, beginning with the one that was last the primary.
    async fn connect(&self) -> Result<Connection, Verdict> {
        let Shared { address, tls, current, .. } = &*self.shared;
        let (begin, count) = (current.load(Ordering::Relaxed), address.hosts.len());
        let (mut reasons, mut standbys, mut refused) = (Vec::new(), Vec::new(), None);
        for at in (begin..begin + count).map(|at| at % count) {
            let host = &address.hosts[at];
            match timeout(CONNECT, Connection::open(address, host, tls.as_ref(), self.lane.name)).await {
                Ok(Ok(connection)) => {
                    current.store(at, Ordering::Relaxed);
                    self.shared.connects.fetch_add(1, Ordering::Relaxed);
                    self.say(&connection.server.warnings);
                    self.compare_timeline(&connection);
                    return Ok(connection);
                }
                Ok(Err(Verdict::Standby(sentence))) => standbys.push(sentence),
                Ok(Err(Verdict::Refused(refusal))) => refused = Some(refusal),
                Ok(Err(Verdict::Again(reason))) => reasons.push(format!("{host}: {reason}")),
                Err(_) => reasons.push(format!("{host}: no connection within {} s", CONNECT.as_secs())),
            }
        }
        match refused {
            Some(refusal) => Err(Verdict::Refused(refusal)),
            None if reasons.is_empty() => Err(Verdict::Standby(standbys.join("; "))),
            None => Err(Verdict::Again([reasons, standbys].concat().join("; "))),
        }
    }

    /// A promoted standby begins a timeline. With synchronous replication nothing is lost by that; the server does not
    /// tell which it was.
    fn compare_timeline(&self, connection: &Connection) {
        let now = connection.server.timeline;
        let before = self.shared.timeline.fetch_max(now, Ordering::Relaxed);
        if before != 0 && before != now {
            let host = &connection.host;
            self.say(&[format!(
                "{host} has timeline {now}, and the primary before it had {before}: a standby was promoted, or a backup put \
                 back; unless it was a synchronous standby, acknowledged changes can be gone"
            )]);
        }
    }

    /// Each warning once.
    pub(crate) fn say(&self, warnings: &[String]) {
        let mut said = lock(&self.shared.said);
        for warning in warnings {
            if said.insert(warning.clone()) {
                tracing::warn!("{warning}");
            }
        }
    }
}

impl Lane {
    fn new(name: &'static str) -> Arc<Lane> {
        Arc::new(Lane { name, connection: Mutex::new(None) })
    }
}

/// The fate of a statement that was not answered.
enum Fate {
    /// The server has the connection and works; it waits for this.
    AtWork(String),
    /// The server has no such connection, or it does nothing on it.
    Ended,
    /// The server does not answer.
    Unknown(String),
}

/// Sends a statement when its turn comes.
fn exchange(connection: Arc<Connection>, sql: &'static str, params: Params) -> Exchange {
    Box::pin(async move {
        let _place = Arc::clone(&connection.unanswered).acquire_owned().await;
        connection.run(sql, &params).await
    })
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// A panic elsewhere leaves nothing half done behind these locks.
fn lock<T>(mutex: &Lock<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("hosts", &self.shared.address.hosts).field("lane", &self.lane.name).finish()
    }
}
