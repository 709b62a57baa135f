//! The three dialects of the service for a client: which call acquires, renews, releases, withdraws and looks, and what
//! a lease is in the answer. One file a dialect, the same functions in each.

mod claim;
mod lock;
mod pool;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::reply::Reply;

/// The kind of a lease: a lock, a place in a queue, a numbered slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A sticky lock, by name.
    Lock,
    /// A claim of a named resource.
    Claim,
    /// A slot of a pool.
    Pool,
}

impl Kind {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Lock => "lock",
            Kind::Claim => "claim",
            Kind::Pool => "pool",
        }
    }
}

/// The resource that a client asks for. Its text names no pool id.
#[derive(Clone, PartialEq)]
pub(crate) enum Target {
    Lock { job: String },
    Claim { resource: String, metadata: Option<Value> },
    Pool { id: String },
}

/// One call, the same bytes each time it is sent.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Option<String>,
    /// `Idempotency-Key`.
    pub(crate) key: Option<String>,
}

/// One acquisition: its name is drawn once and never used again.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) target: Target,
    /// The `Idempotency-Key`, or the second part of a lock's client.
    pub(crate) name: String,
    /// The first part of a lock's client.
    pub(crate) who: String,
    pub(crate) ttl: Duration,
    /// How long one call waits, the same in each call.
    pub(crate) wait: Duration,
}

/// So long the service keeps the place of a pool or a lock when none of its calls is there: longer than a restart and
/// the pause before the next call, and no longer than a dead waiter may hold up those behind it.
pub(crate) const KEEP: Duration = Duration::from_secs(15);

/// The name of a lease at the service. It is a credential: its text shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Id {
    Lock { job: String, client: String },
    Claim { id: String, resource: String },
    Pool { pool: String, lease: String },
}

/// A slot that the operator has given a name, and data that travel with its lease: a test bench, a licence key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedSlot {
    /// Its name, which no other slot of the pool or resource has.
    pub name: String,
    /// The data; null when there are none.
    #[serde(default)]
    pub data: Value,
}

/// The `slot` of a lease whose slots have names: its number, and what is known of it.
pub(crate) fn read_named(reply: &Reply) -> (Option<u32>, Option<Arc<NamedSlot>>) {
    let Some(slot) = reply.json.get("slot").filter(|slot| slot.is_object()) else { return (None, None) };
    let number = slot.get("number").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    (number, NamedSlot::deserialize(slot).ok().map(Arc::new))
}

/// A lease as an answer shows it.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) id: Id,
    pub(crate) token: u64,
    pub(crate) slot: Option<u32>,
    pub(crate) named: Option<Arc<NamedSlot>>,
    /// `L`.
    pub(crate) length: Duration,
    /// How long it was waited for in service time, where the service tells.
    pub(crate) waited: Option<Duration>,
}

/// The queue as a plain look shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Look {
    pub(crate) queue_position: Option<u64>,
    pub(crate) holders: Vec<String>,
    pub(crate) waiting: Option<u64>,
    pub(crate) eta: Option<Duration>,
}

/// Says whether the ids and the token of a renewal's answer are ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// With the length that was given.
    Ours(Duration),
    /// The lock was granted anew, by accident, under a token of its own.
    Anew(u64),
    /// Not an answer to this call.
    Foreign,
}

impl Target {
    pub(crate) fn lock(job: &str) -> Target {
        Target::Lock { job: job.to_owned() }
    }

    pub(crate) fn claim(resource: &str, metadata: Option<Value>) -> Target {
        Target::Claim { resource: resource.to_owned(), metadata }
    }

    pub(crate) fn pool(id: &str) -> Result<Target, Error> {
        let hex = id.chars().filter(char::is_ascii_hexdigit).count();
        let hyphens = id.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
        if id.len() != 36 || hex != 32 || !hyphens.eq([8, 13, 18, 23]) {
            // Not repeated: it may be an id that was cut or pasted badly.
            let reason = format!("a pool's id is a UUID of 36 characters with hyphens, got {} characters", id.len());
            return Err(Error::Setting(reason));
        }
        Ok(Target::Pool { id: id.to_ascii_lowercase() })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Target::Lock { .. } => Kind::Lock,
            Target::Claim { .. } => Kind::Claim,
            Target::Pool { .. } => Kind::Pool,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Lock { job } => write!(f, "lock {job}"),
            Target::Claim { resource, .. } => write!(f, "claim {resource}"),
            Target::Pool { .. } => f.write_str("the pool"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Lock { job, .. } => write!(f, "lock {job}"),
            Id::Claim { resource, .. } => write!(f, "claim {resource}"),
            Id::Pool { .. } => f.write_str("the pool"),
        }
    }
}

impl fmt::Debug for Call {
    /// Without its path and its body, which may hold ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({})", self.method)
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({}, ttl {:?}, wait {:?})", self.target, self.ttl, self.wait)
    }
}

impl Call {
    pub(crate) fn new(method: Method, target: String) -> Call {
        Call { method, target, body: None, key: None }
    }

    fn json(mut self, body: &Value) -> Call {
        self.body = Some(body.to_string());
        self
    }
}

impl Ask {
    /// The call that acquires, or joins what it acquired before.
    pub(crate) fn acquire(&self) -> Call {
        match &self.target {
            Target::Lock { job } => lock::acquire(self, job),
            Target::Claim { resource, metadata } => claim::acquire(self, resource, metadata.as_ref()),
            Target::Pool { id } => pool::acquire(self, id),
        }
    }

    /// The call that ends the lease or the wait of this acquisition, by its name alone; a claim has to be known for
    /// that.
    pub(crate) fn withdraw(&self, claim: Option<&str>) -> Option<Call> {
        match &self.target {
            Target::Lock { job } => Some(lock::withdraw(self, job)),
            Target::Claim { .. } => Some(claim::withdraw(claim?)),
            Target::Pool { id } => Some(pool::withdraw(self, id)),
        }
    }

    /// A look at the queue, which changes nothing.
    pub(crate) fn look(&self, claim: Option<&str>) -> Option<Call> {
        match &self.target {
            Target::Lock { job } => Some(lock::look(job, &self.lock_client())),
            Target::Claim { .. } => Some(claim::look(claim?)),
            Target::Pool { id } => Some(pool::look(self, id)),
        }
    }

    pub(crate) fn read_look(&self, reply: &Reply) -> Look {
        match &self.target {
            Target::Lock { .. } => lock::read_look(reply),
            Target::Claim { .. } => claim::read_look(reply),
            Target::Pool { .. } => pool::read_look(reply),
        }
    }

    /// The lease in an answer, if it is one of this acquisition.
    pub(crate) fn read_grant(&self, reply: &Reply) -> Option<Grant> {
        match &self.target {
            Target::Lock { job } => lock::read_grant(self, job, reply),
            Target::Claim { resource, .. } => claim::read_grant(resource, reply),
            Target::Pool { id } => pool::read_grant(id, reply),
        }
    }

    fn lock_client(&self) -> String {
        format!("{}/{}", self.who, self.name)
    }
}

/// The round of a claim that waits: granted and just renewed, or still waiting.
pub(crate) fn claim_round(id: &str, wait: Duration, ttl: Duration) -> Call {
    claim::round(id, wait, ttl)
}

impl Id {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Id::Lock { .. } => Kind::Lock,
            Id::Claim { .. } => Kind::Claim,
            Id::Pool { .. } => Kind::Pool,
        }
    }

    pub(crate) fn renew(&self, token: u64, ttl: Duration) -> Call {
        match self {
            Id::Lock { job, client } => lock::renew(job, client, token, ttl),
            Id::Claim { id, .. } => claim::renew(id, ttl),
            Id::Pool { pool, lease } => pool::renew(pool, lease, ttl),
        }
    }

    pub(crate) fn read_renewal(&self, token: u64, ttl: Duration, reply: &Reply) -> Match {
        match self {
            Id::Lock { client, .. } => lock::read_renewal(client, token, ttl, reply),
            Id::Claim { id, .. } => claim::read_renewal(id, token, reply),
            Id::Pool { lease, .. } => pool::read_renewal(lease, token, reply),
        }
    }

    pub(crate) fn release(&self, token: u64) -> Call {
        match self {
            Id::Lock { job, client } => lock::release(job, client, Some(token)),
            Id::Claim { id, .. } => claim::release(id),
            Id::Pool { pool, lease } => pool::give_back(pool, lease),
        }
    }

    /// For a claim that turned out to wait.
    pub(crate) fn withdraw(&self, token: u64) -> Call {
        match self {
            Id::Claim { id, .. } => claim::withdraw(id),
            Id::Lock { .. } | Id::Pool { .. } => self.release(token),
        }
    }
}

/// In a query, everything but letters and digits is encoded.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn encode(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// As the service reads durations of a lock.
fn go_duration(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::samples::reply;

    const POOL: &str = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01";
    const LEASE: &str = "11111111-2222-4333-8444-555555555555";

    fn ask(target: Target) -> Ask {
        let [ttl, wait] = [Duration::from_secs(30), Duration::from_secs(50)];
        Ask { target, name: "f00d".into(), who: "ann@host".into(), ttl, wait }
    }

    fn line(call: &Call) -> String {
        format!(
            "{} {} {} {}",
            call.method,
            call.target,
            call.body.as_deref().unwrap_or("-"),
            call.key.as_deref().unwrap_or("-")
        )
    }

    #[test]
    fn the_calls_of_each_dialect() {
        let lock = ask(Target::lock("back up"));
        assert_eq!(
            line(&lock.acquire()),
            "POST /lock?job=back%20up&client=ann%40host%2Ff00d&ttl=30000ms&wait=50000ms&keep=15000ms - f00d"
        );
        let claim = ask(Target::claim("gpu", Some(Value::from("ann"))));
        assert_eq!(
            line(&claim.acquire()),
            r#"POST /v1/claims/ {"resource":"gpu","timeout":30.0,"metadata":"ann"} f00d"#
        );
        assert!(claim.withdraw(None).is_none(), "a claim that is not known cannot be withdrawn");
        let pool = ask(Target::pool(&POOL.to_uppercase()).unwrap());
        let borrow = |ask: &Ask| {
            let Call { method, target, body, key } = ask.acquire();
            let body: Value = serde_json::from_str(&body.unwrap()).unwrap();
            (format!("{method} {target} {}", key.unwrap()), body)
        };
        let call = format!("POST /l/{POOL}/borrow f00d");
        assert_eq!(borrow(&pool), (call.clone(), serde_json::json!({"ttl": 30.0, "wait": 50.0, "keep": 15.0})));
        let once = Ask { wait: Duration::ZERO, ..pool.clone() };
        assert_eq!(borrow(&once), (call, serde_json::json!({"ttl": 30.0, "wait": 0.0})), "no place to keep");
        assert_eq!(line(&pool.withdraw(None).unwrap()), format!("DELETE /l/{POOL}/borrow - f00d"));
        let id = Id::Lock { job: "backup".into(), client: "ann/1".into() };
        assert_eq!(
            line(&id.renew(7, Duration::from_secs(3))),
            "POST /lock?job=backup&client=ann%2F1&ttl=3000ms&token=7 - -"
        );
        assert_eq!(line(&id.release(7)), "DELETE /lock?job=backup&client=ann%2F1&token=7 - -");
    }

    #[test]
    fn a_lease_is_read_only_where_everything_is_there() {
        let pool = ask(Target::pool(POOL).unwrap());
        let whole = format!(r#"{{"lease":"{LEASE}","position":3,"expires_in":29.5,"token":8}}"#);
        let grant = pool.read_grant(&reply(200, &whole)).unwrap();
        assert_eq!((grant.token, grant.slot, grant.length), (8, Some(3), Duration::from_millis(29_500)));
        assert!(pool.read_grant(&reply(200, r#"{"lease":"x","position":3}"#)).is_none());
        let lock = ask(Target::lock("backup"));
        assert!(lock.read_grant(&reply(200, r#"{"holder":"bob","token":1}"#)).is_none(), "of another");
        let grant = lock.read_grant(&reply(200, r#"{"holder":"ann@host/f00d","token":1}"#)).unwrap();
        assert_eq!(grant.length, Duration::from_secs(30), "as asked for, until the answer tells");
        let told = r#"{"holder":"ann@host/f00d","token":1,"expires_in":9.5}"#;
        assert_eq!(lock.read_grant(&reply(200, told)).unwrap().length, Duration::from_millis(9_500));
        let claim = ask(Target::claim("gpu", None));
        let active = r#"{"id":"c1","status":"active","ttl":30.0,"token":4}"#;
        assert_eq!(claim.read_grant(&reply(201, active)).unwrap().length, Duration::from_secs(30));
        assert!(claim.read_grant(&reply(202, r#"{"id":"c1","status":"waiting"}"#)).is_none());
    }

    #[test]
    fn a_renewal_is_believed_only_with_our_ids_and_our_token() {
        let ttl = Duration::from_secs(30);
        let pool = Id::Pool { pool: POOL.into(), lease: LEASE.into() };
        let answer =
            |lease: &str, token: u64| reply(200, &format!(r#"{{"lease":"{lease}","expires_in":30,"token":{token}}}"#));
        assert_eq!(pool.read_renewal(8, ttl, &answer(LEASE, 8)), Match::Ours(ttl));
        assert_eq!(pool.read_renewal(8, ttl, &answer(POOL, 8)), Match::Foreign);
        assert_eq!(pool.read_renewal(8, ttl, &answer(LEASE, 9)), Match::Foreign);
        let lock = Id::Lock { job: "b".into(), client: "ann/1".into() };
        let answer = |holder: &str, token: u64| reply(200, &format!(r#"{{"holder":"{holder}","token":{token}}}"#));
        assert_eq!(lock.read_renewal(8, ttl, &answer("ann/1", 8)), Match::Ours(ttl));
        assert_eq!(lock.read_renewal(8, ttl, &answer("ann/1", 9)), Match::Anew(9));
        assert_eq!(lock.read_renewal(8, ttl, &answer("bob/1", 8)), Match::Foreign);
    }

    #[test]
    fn ids_are_in_no_text() {
        let pool = Target::pool(POOL).unwrap();
        let id = Id::Pool { pool: POOL.into(), lease: LEASE.into() };
        let texts = [
            pool.to_string(),
            format!("{pool:?} {id:?} {id} {:?} {:?}", ask(pool.clone()), ask(pool.clone()).acquire()),
        ];
        for text in texts {
            assert!(!text.contains(&POOL[..8]) && !text.contains(&LEASE[..8]), "{text}");
        }
        for wrong in ["", "9f1c2e7a", &POOL[1..], &format!("{POOL}0"), "9f1c2e7a05b3d-4c8e-a1f0-6d2b9c4e7a01"] {
            let error = Target::pool(wrong).unwrap_err().to_string();
            assert!(error.contains("UUID") && !error.contains("9f1c"), "{error}");
        }
    }
}
