//! One connection to one server, looked at before its first statement.
//!
//! A statement that writes ends with the server's word that it is committed. That word counts for nothing if a warning
//! came with it: the wait for a synchronous standby was cancelled, and the change is in the primary alone. No other
//! warning is expected, and the words may be in any language, so each of them makes the outcome unknown.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row, SimpleQueryMessage, Socket, Statement};

use super::params::Params;
use super::password;
use super::tls::MakeTls;
use super::verdict::{self, Verdict, plain, pooler};
use crate::address::{Address, Host};
use crate::error::PostgresRefusal;

/// The oldest release that knows every setting we make.
const VERSION_MIN: u32 = 14;
/// Statements that were sent and not answered.
const UNANSWERED_MAX: usize = 4;
/// A statement that waits for a row of another one gives up after this. It does not end a wait for a standby.
const LOCK_TIMEOUT_MS: u32 = 4000;
/// A peer that is gone without a word is noticed by both sides, so that nothing waits for its locks.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEPALIVES: u32 = 3;

/// A server as it was found at the connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Drawn by initdb: a copy made by dump and restore has another.
    pub(crate) system: String,
    /// It rises when a standby is promoted.
    pub(crate) timeline: u32,
    /// Sentences for the operator about settings that cost durability.
    pub(crate) warnings: Vec<String>,
}

pub(super) struct Connection {
    client: Client,
    _driver: Driver,
    /// Warnings so far.
    doubts: Arc<AtomicU64>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    /// Permits for statements that may still be sent before an earlier one is answered.
    pub(super) unanswered: Arc<Semaphore>,
    /// Its name in `pg_stat_activity`.
    pub(super) name: String,
    pub(super) host: Host,
    pub(super) server: Server,
}

/// The task that drives the socket; it ends with the connection, so that a hanging server holds nothing of ours.
#[derive(Debug)]
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Connects, and refuses a server that must not be used.
    pub(super) async fn open(
        address: &Address,
        host: &Host,
        tls: Option<&MakeTls>,
        lane: &str,
    ) -> Result<Connection, Verdict> {
        let drawn = RandomState::new().build_hasher().finish();
        let name = format!("leasehold {lane} {drawn:016x}");
        let config = config(address, host, &name, tls.is_some())?;
        let doubts = Arc::new(AtomicU64::new(0));
        let (client, driver, version) = match tls {
            None => speak(&config, NoTls, Arc::clone(&doubts)).await?,
            Some(tls) => speak(&config, tls.clone(), Arc::clone(&doubts)).await?,
        };
        check_version(host, version.as_deref())?;
        let server = look_at(&client, address, host).await?;
        Ok(Connection {
            client,
            _driver: driver,
            doubts,
            statements: Mutex::default(),
            unanswered: Arc::new(Semaphore::new(UNANSWERED_MAX)),
            name,
            host: host.clone(),
            server,
        })
    }

    /// Returns whether the other side has left it open, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Runs a statement, prepared once, to its commit.
    pub(super) async fn run(&self, sql: &'static str, params: &Params) -> Result<Vec<Row>, Verdict> {
        let doubts = self.doubts.load(Ordering::Relaxed);
        let statement = self.prepared(sql).await?;
        let params: Vec<&(dyn ToSql + Sync)> = params.0.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
        let rows = self.client.query(&statement, &params).await.map_err(|error| verdict::of(&error))?;
        // The warning comes before the end of its statement.
        if self.doubts.load(Ordering::Relaxed) == doubts {
            return Ok(rows);
        }
        Err(Verdict::Again("the wait for a synchronous standby was cancelled, so the outcome is unknown".to_owned()))
    }

    /// Runs statements in one message, and so in one transaction.
    pub(super) async fn run_script(&self, script: &str) -> Result<(), Verdict> {
        let doubts = self.doubts.load(Ordering::Relaxed);
        self.client.batch_execute(script).await.map_err(|error| verdict::of(&error))?;
        if self.doubts.load(Ordering::Relaxed) == doubts {
            return Ok(());
        }
        Err(Verdict::Again("a warning came with the tables, so the outcome is unknown".to_owned()))
    }

    async fn prepared(&self, sql: &'static str) -> Result<Statement, Verdict> {
        if let Some(statement) = lock(&self.statements).get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(|error| verdict::of(&error))?;
        lock(&self.statements).insert(sql, statement.clone());
        Ok(statement)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config(address: &Address, host: &Host, name: &str, is_tls: bool) -> Result<Config, Verdict> {
    let mut config = Config::new();
    match host {
        Host::Tcp(host, port) => config.host(host).port(*port),
        Host::Unix(directory, port) => config.host_path(directory).port(*port),
    };
    config
        .user(&address.user)
        .dbname(&address.database)
        .application_name(name)
        .ssl_mode(if is_tls { SslMode::Require } else { SslMode::Disable })
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_EVERY)
        .keepalives_retries(KEEPALIVES)
        // A pooler between does not know these, or loses them, and is noticed by that.
        .options(format!(
            "-c lock_timeout={LOCK_TIMEOUT_MS} -c statement_timeout=0 -c default_transaction_read_only=off"
        ));
    if let Some(password) = password::of(address, host).map_err(Verdict::Refused)? {
        config.password(password);
    }
    Ok(config)
}

async fn speak<T>(config: &Config, tls: T, doubts: Arc<AtomicU64>) -> Result<(Client, Driver, Option<String>), Verdict>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect(tls).await.map_err(|error| refused_connect(&error))?;
    let version = connection.parameter("server_version").map(str::to_owned);
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && notice.parsed_severity() == Some(Severity::Warning)
            {
                doubts.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(detail = notice.detail(), "PostgreSQL warns: {}", notice.message());
            }
        }
    });
    Ok((client, Driver(driver.abort_handle()), version))
}

fn refused_connect(error: &tokio_postgres::Error) -> Verdict {
    if error.as_db_error().is_none() && plain(error).contains("password missing") {
        return Verdict::Refused(PostgresRefusal::Denied("it wants a password; add ?password-file=FILE".to_owned()));
    }
    verdict::of(error)
}

/// `15.3 (Debian 15.3-0)` and the like.
fn check_version(host: &Host, version: Option<&str>) -> Result<(), Verdict> {
    let version = version.unwrap_or_default();
    let major = version.split(|c: char| !c.is_ascii_digit()).next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major >= VERSION_MIN => Ok(()),
        Some(_) => Err(Verdict::Refused(PostgresRefusal::Unfit(format!(
            "the server {host} is PostgreSQL {version}; use {VERSION_MIN} or later"
        )))),
        None => Err(Verdict::Refused(PostgresRefusal::Unfit(format!("the server {host} has no version: {version:?}")))),
    }
}

const LOOK: &str = "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync'), \
     current_setting('full_page_writes'), current_setting('synchronous_standby_names'), \
     (SELECT count(*) FROM pg_stat_replication), pg_backend_pid(), current_setting('lock_timeout'), \
     (SELECT system_identifier FROM pg_control_system())";

/// Looks at the server, and makes the settings of the session.
async fn look_at(client: &Client, address: &Address, host: &Host) -> Result<Server, Verdict> {
    let seen = texts(client, LOOK).await?;
    let [recovery, commit, fsync, pages, standbys, replicas, pid, lock_timeout, system] = &seen[..] else {
        return Err(Verdict::Again("the look at the server has no row".to_owned()));
    };
    if recovery == "t" {
        return Err(Verdict::Standby(format!("{host} is a standby, which takes no writes; name the primary")));
    }
    if *lock_timeout != format!("{}s", LOCK_TIMEOUT_MS / 1000) {
        return Err(Verdict::Refused(pooler(&format!("lock_timeout is {lock_timeout}"))));
    }
    let mut warnings = Vec::new();
    for (setting, value) in [("fsync", fsync), ("full_page_writes", pages)] {
        if value == "off" {
            warnings.push(format!("{setting} of {host} is off: a crash of its machine can lose acknowledged changes"));
        }
    }
    if replicas != "0" && standbys.is_empty() {
        warnings.push(format!(
            "{host} has standbys and no synchronous_standby_names: a standby that is promoted can lack acknowledged changes"
        ));
    }
    let weak = matches!(&**commit, "off" | "local" | "remote_write");
    if weak {
        warnings.push(format!(
            "synchronous_commit of {host} is {commit} for this user: the store sets it to on for its own sessions"
        ));
    }
    // Read committed, as each statement has to see what was committed before it began.
    let settings = format!(
        "SET synchronous_commit = {}; SET search_path = {}; SET idle_session_timeout = 0; \
         SET idle_in_transaction_session_timeout = 0; SET default_transaction_isolation = 'read committed'; \
         SET tcp_keepalives_idle = {}; SET tcp_keepalives_interval = {}; SET tcp_keepalives_count = {KEEPALIVES}; \
         SET client_min_messages = warning",
        if weak { "on" } else { commit },
        address.schema,
        KEEPALIVE_IDLE.as_secs(),
        KEEPALIVE_EVERY.as_secs(),
    );
    client.batch_execute(&settings).await.map_err(|error| verdict::of(&error))?;
    // In a second message: a pooler may have answered it from another session.
    let again = texts(
        client,
        "SELECT pg_backend_pid(), current_setting('search_path'), \
         ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int",
    )
    .await?;
    let [same, path, timeline] = &again[..] else {
        return Err(Verdict::Again("the second look at the server has no row".to_owned()));
    };
    if same != pid || *path != address.schema {
        return Err(Verdict::Refused(pooler(&format!("process {pid} became {same}, search_path is {path:?}"))));
    }
    Ok(Server { system: system.clone(), timeline: timeline.parse().unwrap_or_default(), warnings })
}

/// The columns of the first row.
async fn texts(client: &Client, sql: &str) -> Result<Vec<String>, Verdict> {
    let messages = client.simple_query(sql).await.map_err(|error| verdict::of(&error))?;
    let row = messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Ok(Vec::new()) };
    Ok((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("host", &self.host).field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_before_14_are_refused() {
        let host = Host::Tcp("h".to_owned(), 1);
        for (version, words) in [
            (Some("14.0"), ""),
            (Some("15.13 (Debian 15.13-0+deb12u1)"), ""),
            (Some("19beta1"), ""),
            (Some("13.22"), "is PostgreSQL 13.22; use 14 or later"),
            (Some("9.6.24"), "is PostgreSQL 9.6.24"),
            (Some("banana"), "has no version"),
            (None, "has no version"),
        ] {
            match check_version(&host, version) {
                Ok(()) => assert_eq!(words, "", "{version:?}"),
                Err(Verdict::Refused(refusal)) => {
                    assert!(!words.is_empty() && refusal.to_string().contains(words), "{refusal}");
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
