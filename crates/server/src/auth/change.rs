//! The audit line of a caller's change: the caller, its address, the action, the resource, and the outcome. A pool is
//! called by its digest, and no lease is named: both are credentials.

use std::net::IpAddr;
use std::sync::Arc;

use leasehold_auth::Identity;
use leasehold_engine::{ClaimId, Command, Kind, ResourceKey, Wall};
use serde::Serialize;

use crate::audit_log::AuditLog;
use crate::driver::Handle;
use crate::http::json::to_bytes;
use crate::http::json::value::Rfc3339;
use crate::http::{Problem, RequestId};
use crate::watch::digest::Digester;
use crate::watch::key::{PublicKey, public_name};

/// Seconds after which to try again when the audit log cannot be written.
const RETRY_S: u64 = 5;

/// The audit line of a change, but for its outcome.
#[derive(Debug)]
struct Entry {
    identity: Identity,
    client: IpAddr,
    request: RequestId,
    action: &'static str,
    resource: Option<String>,
    /// For a lock: the name under which it is held.
    lock_client: Option<Arc<str>>,
}

/// A change under way. Its line is written when it is over, also when its caller leaves before that.
#[derive(Debug)]
pub(crate) struct Audited {
    log: Arc<AuditLog>,
    driver: Handle,
    entry: Option<Entry>,
}

impl Audited {
    /// `None` for a call that changes nothing. Where the log is required the change is in it before it is made, or is
    /// refused.
    pub(crate) async fn begin(
        log: &Arc<AuditLog>,
        change: Option<AskedChange<'_>>,
        identity: Identity,
        client: IpAddr,
        request: &RequestId,
        (driver, digester): (&Handle, &Digester),
    ) -> Result<Option<Box<Audited>>, Problem> {
        let Some(AskedChange { action, on, lock_client }) = change else { return Ok(None) };
        let resource = match on {
            On::Resource(resource) | On::Key(PublicKey::Named(resource)) => Some(shown(resource, digester)),
            On::Key(PublicKey::Pool(digest)) => Some(format!("pool:{digest}")),
            On::Service => None,
            On::Claim(claim) => {
                let known = driver.owner_of(claim).await.ok().flatten();
                known.map(|(resource, _)| format!("claim:{resource}"))
            }
        };
        let entry = Entry { identity, client, request: request.clone(), action, resource, lock_client };
        if log.is_required() {
            log.begin(&entry.line(driver.wall(), "begun", None, None)).map_err(|why| {
                let reason =
                    format!("the audit log cannot be written ({why}), and nothing is changed that is not in it");
                Problem::unavailable(reason, RETRY_S)
            })?;
        }
        Ok(Some(Box::new(Audited { log: Arc::clone(log), driver: driver.clone(), entry: Some(entry) })))
    }

    /// The outcome, by the answer.
    pub(crate) fn answered(mut self, status: u16, position: Option<&str>) {
        let outcome = match status {
            202 => "waiting",
            200..=299 => "done",
            401 | 403 => "denied",
            502 => "unknown",
            _ => "refused",
        };
        self.end(outcome, Some(status), position);
    }

    fn end(&mut self, outcome: &str, status: Option<u16>, position: Option<&str>) {
        if let Some(entry) = self.entry.take() {
            self.log.end(entry.line(self.driver.wall(), outcome, status, position));
        }
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        // The caller left before it was answered: the change may have been made.
        self.end("left", None, None);
    }
}

impl Entry {
    fn line(&self, wall: Wall, outcome: &str, status: Option<u16>, position: Option<&str>) -> Vec<u8> {
        let principal = self.identity.principal();
        to_bytes(&Line {
            time: Rfc3339(wall.0),
            request: self.request.as_str(),
            principal: principal.map(|principal| &*principal.name),
            source: principal.map(|principal| principal.source.as_str()),
            address: self.client.to_string(),
            action: self.action,
            resource: self.resource.as_deref(),
            client: self.lock_client.as_deref(),
            outcome,
            status,
            position,
        })
    }
}

/// A line of the audit log.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: Rfc3339,
    request: &'a str,
    principal: Option<&'a str>,
    source: Option<&'static str>,
    address: String,
    action: &'static str,
    resource: Option<&'a str>,
    client: Option<&'a str>,
    outcome: &'a str,
    status: Option<u16>,
    position: Option<&'a str>,
}

fn shown(resource: &ResourceKey, digester: &Digester) -> String {
    format!("{}:{}", resource.kind().as_str(), public_name(resource, digester))
}

/// The change that a call asks for.
#[derive(Debug)]
pub(crate) struct AskedChange<'a> {
    action: &'static str,
    on: On<'a>,
    /// For a lock: the name under which it is held.
    lock_client: Option<Arc<str>>,
}

impl<'a> AskedChange<'a> {
    pub(crate) fn new(action: &'static str, on: On<'a>) -> Self {
        AskedChange { action, on, lock_client: None }
    }
}

/// The subject of a change.
#[derive(Debug)]
pub(crate) enum On<'a> {
    Resource(&'a ResourceKey),
    Key(&'a PublicKey),
    Claim(ClaimId),
    Service,
}

/// The change that a command makes, if it makes one.
pub(crate) fn change_by(command: &Command) -> Option<AskedChange<'_>> {
    let (action, on) = action_of(command)?;
    Some(AskedChange { action, on, lock_client: lock_client(command) })
}

fn action_of(command: &Command) -> Option<(&'static str, On<'_>)> {
    match command {
        Command::Configure { resource, .. } => Some(("configure", On::Resource(resource))),
        Command::Unconfigure { resource } => Some(("unconfigure", On::Resource(resource))),
        Command::NameSlots(naming) => Some(("configure", On::Resource(&naming.resource))),
        Command::Pause { resource, .. } => Some(("pause", On::Resource(resource))),
        Command::Resume { resource } => Some(("resume", On::Resource(resource))),
        Command::ServeSlot { resource, .. } => Some(("serve", On::Resource(resource))),
        Command::Acquire(acquire) => Some(("acquire", On::Resource(&acquire.resource))),
        Command::Renew { resource, .. } => Some(("renew", On::Resource(resource))),
        Command::Return { resource, .. } => Some(("return", On::Resource(resource))),
        Command::Unlock { resource, .. } => Some(("unlock", On::Resource(resource))),
        Command::Spend(spend) => Some(("spend", On::Resource(&spend.resource))),
        Command::Update { claim, .. } => Some(("update", On::Claim(*claim))),
        Command::Revoke { resource, .. } => Some(("revoke", On::Resource(resource))),
        // The service does these itself, or they change nothing.
        Command::Withdraw { .. }
        | Command::Attend { .. }
        | Command::Mark
        | Command::HandBack { .. }
        | Command::ViewResource { .. }
        | Command::ViewPlace { .. }
        | Command::ViewHolding { .. }
        | Command::ViewLease { .. }
        | Command::ViewClaim { .. }
        | Command::ListClaims(_)
        | Command::ListResources { .. }
        | Command::ViewFence { .. }
        | Command::Survey { .. }
        | Command::Inspect { .. } => None,
    }
}

fn lock_client(command: &Command) -> Option<Arc<str>> {
    match command {
        Command::Acquire(acquire) if acquire.resource.kind() == Kind::Lock => acquire.client.clone(),
        Command::Unlock { client, .. } => Some(Arc::clone(client)),
        Command::Spend(spend) if spend.resource.kind() == Kind::Lock => spend.client.clone(),
        _ => None,
    }
}
