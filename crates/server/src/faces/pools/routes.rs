//! The endpoints of pools, and their requests as commands.

use std::sync::Arc;

use http::Method;
use leasehold_engine::{Acquire, ClaimId, Command, Options, Particulars, Patience, Quota, ResourceKey, Spend};
use leasehold_journal::Request;

use crate::faces::{Received, Rows, fingerprint, fittings, fresh_claim_id, idempotency_key, key_name, parse_uuid};
use crate::http::Problem;
use crate::http::json::{AboveMax, Least, Object, Seconds, canonical};
use crate::limits::{AUDIENCE_MAX, HOLDER_MAX, KEEP_MAX_US};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Put,
    Show,
    Delete,
    Borrow,
    GiveUp,
    Return,
    Renew,
    ShowLease,
    Pause,
    Resume,
    ServeSlot,
    Prove,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    [
        (Method::PUT, "/l/{id}", Endpoint::Put),
        (Method::GET, "/l/{id}", Endpoint::Show),
        (Method::DELETE, "/l/{id}", Endpoint::Delete),
        (Method::POST, "/l/{id}/borrow", Endpoint::Borrow),
        (Method::DELETE, "/l/{id}/borrow", Endpoint::GiveUp),
        (Method::POST, "/l/{id}/return", Endpoint::Return),
        (Method::POST, "/l/{id}/renew", Endpoint::Renew),
        (Method::GET, "/l/{id}/leases/{lease}", Endpoint::ShowLease),
        (Method::PUT, "/l/{id}/pause", Endpoint::Pause),
        (Method::DELETE, "/l/{id}/pause", Endpoint::Resume),
        (Method::PUT, "/l/{id}/slots/{slot}", Endpoint::ServeSlot),
        (Method::POST, "/l/{id}/proof", Endpoint::Prove),
    ]
    .into()
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) struct Call {
    pub(super) topic: Topic,
    pub(crate) request: Request,
    /// Present where a proof of the lease is wanted.
    pub(super) proving: Option<Box<Proving>>,
}

/// A proof that is wanted.
#[derive(Debug)]
pub(super) struct Proving {
    pub(super) audience: Box<str>,
    /// The caller, where it signed on.
    pub(super) caller: Option<Arc<str>>,
}

/// The parts of the call that the answer needs.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) endpoint: Endpoint,
    pub(super) pool: u128,
    /// It asked for more time than it may have.
    pub(super) clamped: bool,
    /// About a member of the body that is ignored.
    pub(super) warning: Option<String>,
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Result<Call, Problem> {
    let pool = parse_uuid(received.params.raw("id"))
        .ok_or_else(|| Problem::bad_request("the pool id in the path must be a UUID"))?;
    let resource = ResourceKey::Pool(pool);
    let (mut clamped, mut warning, mut proving) = (false, None, None);
    let command = match endpoint {
        Endpoint::Put => {
            let body = Object::parse(received.body)?;
            warning = body.warning(&["count", "label", "slots"]);
            fittings::configure(&body, "count", received, resource)?
        }
        Endpoint::Pause => fittings::pause(received, resource)?,
        Endpoint::Resume => Command::Resume { resource },
        Endpoint::ServeSlot => fittings::serve_slot(received, resource)?,
        Endpoint::Show => match key_name(&received.parts.headers)? {
            Some(name) => Command::ViewPlace { resource, name },
            None => Command::ViewResource { resource },
        },
        Endpoint::Delete => Command::Unconfigure { resource },
        Endpoint::Borrow => Command::Acquire(Box::new(borrow(received, resource, &mut clamped, &mut warning)?)),
        Endpoint::GiveUp => {
            let key = key_name(&received.parts.headers)?;
            let key =
                key.ok_or_else(|| Problem::bad_request("Idempotency-Key is missing, it names the borrow to end"))?;
            Command::Spend(Box::new(Spend { id: fresh_claim_id(&resource), resource, key, client: None }))
        }
        Endpoint::Return => Command::Return { resource, claim: lease_of(&Object::parse(received.body)?)? },
        Endpoint::Renew => {
            let body = Object::parse(received.body)?;
            let claim = lease_of(&body)?;
            let ttl = body.required_cut_seconds("ttl", ttl(received))?;
            warning = body.warning(&["lease", "ttl"]);
            clamped = ttl.is_cut;
            Command::Renew { resource, claim, ttl_us: ttl.us }
        }
        Endpoint::Prove => {
            let body = Object::parse(received.body)?;
            let claim = lease_of(&body)?;
            let audience = body.required_string("aud", 1..=AUDIENCE_MAX)?.into();
            proving = Some(Box::new(Proving { audience, caller: None }));
            Command::ViewLease { resource, claim }
        }
        Endpoint::ShowLease => {
            let lease = parse_uuid(received.params.raw("lease"))
                .ok_or_else(|| Problem::bad_request("the lease in the path must be a UUID"))?;
            Command::ViewLease { resource, claim: ClaimId(lease) }
        }
    };
    Ok(Call { topic: Topic { endpoint, pool, clamped, warning }, request: command.into(), proving })
}

fn borrow(
    received: &Received<'_>,
    resource: ResourceKey,
    clamped: &mut bool,
    warning: &mut Option<String>,
) -> Result<Acquire, Problem> {
    let body = Object::parse(received.body)?;
    let ttl = body.required_cut_seconds("ttl", ttl(received))?;
    let wait = Seconds { least: Least::Zero, max_us: received.settings.wait_max_us, above_max: AboveMax::Clamp };
    let wait = body.cut_seconds("wait", wait)?.unwrap_or_default();
    *clamped = ttl.is_cut || wait.is_cut;
    let (ttl_us, wait_us) = (ttl.us, wait.us);
    let keep_us = body.seconds("keep", KEEP)?.unwrap_or(0);
    let holder = body.string("holder", 1..=HOLDER_MAX)?;
    let metadata = body.json("metadata", received.settings.metadata_max)?;
    *warning = body.warning(&["ttl", "wait", "keep", "holder", "metadata"]);
    let ttl_bytes = ttl_us.to_le_bytes();
    let key = if holder.is_none() && metadata.is_none() {
        idempotency_key(&received.parts.headers, &[&ttl_bytes])?
    } else {
        // Metadata is the same when its value is, in any spelling.
        let value = metadata.map(canonical).unwrap_or_default();
        let holder = holder.as_deref().unwrap_or_default().as_bytes();
        idempotency_key(&received.parts.headers, &[&ttl_bytes, holder, &value])?
    };
    if keep_us > 0 && key.is_none() {
        return Err(Problem::about("keep", "keep needs an Idempotency-Key, by which the place is found again"));
    }
    // Earlier versions included `wait`.
    let former = key.as_ref().map(|_| fingerprint(&[&ttl_us.to_le_bytes(), &wait_us.to_le_bytes()]));
    let particulars = Particulars { holder: holder.as_deref().map(Arc::from), ..Particulars::default() };
    Ok(Acquire {
        id: fresh_claim_id(&resource),
        resource,
        ttl_us,
        patience: Patience::For { wait_us },
        client: None,
        principal: None,
        key,
        metadata: metadata.map(Arc::from),
        quota: Quota::NONE,
        options: Options { former_fingerprint: former, keep_us, particulars, ..Options::default() },
    })
}

const KEEP: Seconds = Seconds { least: Least::Zero, max_us: KEEP_MAX_US, above_max: AboveMax::Refuse };

fn ttl(received: &Received<'_>) -> Seconds {
    Seconds { least: Least::AboveZero, max_us: received.settings.ttl_max_us, above_max: AboveMax::Clamp }
}

fn lease_of(body: &Object<'_>) -> Result<ClaimId, Problem> {
    let text = body.required_secret("lease", "a UUID")?;
    parse_uuid(&text).map(ClaimId).ok_or_else(|| Problem::about("lease", "lease must be a UUID"))
}
