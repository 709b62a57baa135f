//! From a call that makes sense to one that is allowed, with the name of its caller in it.

use std::sync::Arc;

use http::HeaderValue;
use leasehold_auth::policy::Reach;
use leasehold_auth::{Action, Target};
use leasehold_engine::{Acquire, ClaimId, Command, Kind, Quota, ResourceKey};

use super::need::{Guarded, Need};
use super::{Audit, Caller, words};
use crate::code::Code;
use crate::driver::{ClaimOwner, Handle};
use crate::http::{Problem, RequestId};
use crate::metrics::SignIns;

/// Between the caller's name and its key; no key has one. Keys are stored with it, so it must never change.
const KEY_SEPARATOR: char = '\n';

/// Allows a call or refuses it. An allowed call gets its owner; a privileged one comes back with a line for the log.
pub(crate) async fn authorize(
    call: &mut impl Guarded,
    caller: Caller,
    driver: &Handle,
    id: &RequestId,
    counted: &SignIns,
) -> Result<Option<Box<Audit>>, Problem> {
    let audit = match call.need() {
        Need::Nothing => None,
        Need::One(action, target) => may(&caller, action, target, id, counted)?,
        Need::Page => {
            let is_to_log_in = caller.identity.is_anonymous() && caller.sign_on.login().is_some();
            if is_to_log_in && caller.sight().is_blind() {
                let login = HeaderValue::from_static("/login");
                return Err(Problem::see_other("log in first", login).coded(Code::LogIn));
            }
            may_observe(&caller, id, counted)?;
            None
        }
        Need::ClaimShown(claim) => {
            let known = owner_of(driver, claim).await?;
            if !known.is_some_and(|(resource, owner)| caller.sees(&resource, owner.as_ref())) {
                return Err(hidden(&caller, driver, claim).await);
            }
            None
        }
        Need::ClaimChanged(claim) => may_change(&caller, driver, claim, id, counted).await?,
        Need::ClaimProved(claim) => {
            may_prove(&caller, driver, claim, id, counted).await?;
            None
        }
        Need::Sight => {
            may_observe(&caller, id, counted)?;
            None
        }
        Need::List => match caller.reach() {
            Reach::Everything => return Ok(None),
            Reach::Partly => None,
            Reach::Nothing => {
                counted.denied(Action::Inspect);
                return Err(words::missing_everywhere(&caller.identity, Action::Inspect));
            }
        },
    };
    call.sign(caller)?;
    Ok(audit)
}

/// Checks that this caller has the right.
fn may(
    caller: &Caller,
    action: Action,
    target: Target<'_>,
    id: &RequestId,
    counted: &SignIns,
) -> Result<Option<Box<Audit>>, Problem> {
    if caller.may(action, target) {
        return Ok(Audit::of(&caller.identity, action, target, id));
    }
    counted.denied(action);
    Audit::refused(&caller.identity, action, target, id);
    Err(words::missing(&caller.identity, action, target))
}

/// Checks that this caller may observe something.
fn may_observe(caller: &Caller, id: &RequestId, counted: &SignIns) -> Result<(), Problem> {
    if caller.sight().is_blind() {
        may(caller, Action::Observe, Target::Service, id, counted)?;
    }
    Ok(())
}

/// Checks that this caller may change this claim. Owner and resource of a claim never change and ids are drawn once, so
/// nothing can come between this look and the command that follows.
async fn may_change(
    caller: &Caller,
    driver: &Handle,
    claim: ClaimId,
    id: &RequestId,
    counted: &SignIns,
) -> Result<Option<Box<Audit>>, Problem> {
    let Some((resource, owner)) = owner_of(driver, claim).await? else {
        return Err(hidden(caller, driver, claim).await);
    };
    let target = Target::Named(Kind::Claim, &resource);
    let is_own = caller.owns(owner.as_ref());
    let action = if is_own && caller.may(Action::UpdateOwn, target) { Action::UpdateOwn } else { Action::RevokeAny };
    if caller.may(action, target) {
        return Ok(Audit::of(&caller.identity, action, target, id));
    }
    if !caller.sees(&resource, owner.as_ref()) {
        return Err(hidden(caller, driver, claim).await);
    }
    let missing = if is_own { Action::UpdateOwn } else { Action::RevokeAny };
    counted.denied(missing);
    Audit::refused(&caller.identity, missing, target, id);
    // The answer may reveal that the claim exists only once its existence is durable.
    let _ = driver.call(Command::ViewClaim { claim }).await;
    Err(words::missing(&caller.identity, missing, target))
}

/// Checks that this caller may prove that it holds this claim: it is its own, and it may change it. A caller that may
/// end the claims of others does not hold them.
async fn may_prove(
    caller: &Caller,
    driver: &Handle,
    claim: ClaimId,
    id: &RequestId,
    counted: &SignIns,
) -> Result<(), Problem> {
    let known = owner_of(driver, claim).await?;
    let Some((resource, owner)) = known.filter(|(resource, owner)| caller.sees(resource, owner.as_ref())) else {
        return Err(hidden(caller, driver, claim).await);
    };
    let target = Target::Named(Kind::Claim, &resource);
    if caller.owns(owner.as_ref()) && caller.may(Action::UpdateOwn, target) {
        return Ok(());
    }
    counted.denied(Action::UpdateOwn);
    Audit::refused(&caller.identity, Action::UpdateOwn, target, id);
    // The answer may reveal that the claim exists only once its existence is durable.
    let _ = driver.call(Command::ViewClaim { claim }).await;
    Err(if caller.owns(owner.as_ref()) {
        words::missing(&caller.identity, Action::UpdateOwn, target)
    } else {
        words::not_the_owner(&caller.identity)
    })
}

/// The resource and the owner of a claim. In a cluster its partition may have no owner for a moment.
async fn owner_of(driver: &Handle, claim: ClaimId) -> Result<Option<ClaimOwner>, Problem> {
    let moving = |_| Problem::unavailable("the partition of this claim is moving", 1);
    driver.owner_of(claim).await.map_err(moving)
}

/// A claim that this caller must not know of looks like one that does not exist, and takes as long to look up.
/// A caller that could see nothing at all is asked to sign on, in either case.
async fn hidden(caller: &Caller, driver: &Handle, claim: ClaimId) -> Problem {
    let _ = driver.call(Command::ViewClaim { claim }).await;
    if caller.identity.is_anonymous() && caller.reach() == Reach::Nothing {
        words::missing_everywhere(&caller.identity, Action::Inspect)
    } else {
        words::no_such_claim()
    }
}

/// Makes an idempotency key the caller's own.
pub(crate) fn sign_key(key: &mut Arc<str>, caller: &Caller) {
    if let Some(name) = caller.identity.name() {
        *key = own_key(name, key);
    }
}

/// Puts the caller's name into a command.
pub(crate) fn sign_command(command: &mut Command, caller: &Caller) -> Result<(), Problem> {
    match command {
        Command::Acquire(acquire) => match acquire.resource.kind() {
            Kind::Lock => {
                if let Some(name) = caller.identity.name() {
                    acquire.principal = Some(Arc::clone(name));
                    acquire.quota = quota(caller);
                    if let Some(key) = &mut acquire.key {
                        key.name = own_key(name, &key.name);
                    }
                }
                let client = acquire.client.as_ref().expect("a lock is asked for by a client");
                check_client(client, caller)
            }
            Kind::Pool | Kind::Claim => {
                own(acquire, caller);
                Ok(())
            }
        },
        Command::Spend(spend) => {
            if let Some(name) = caller.identity.name() {
                spend.key = own_key(name, &spend.key);
            }
            spend.client.as_ref().map_or(Ok(()), |client| check_client(client, caller))
        }
        Command::ViewPlace { resource: ResourceKey::Pool(_), name: key } => {
            if let Some(name) = caller.identity.name() {
                *key = own_key(name, key);
            }
            Ok(())
        }
        Command::Unlock { resource, client, .. } => {
            // A caller that may end the claims of others may name another client.
            let may_name_others = caller.may(Action::RevokeAny, Target::of(resource));
            if may_name_others { Ok(()) } else { check_client(client, caller) }
        }
        _ => Ok(()),
    }
}

/// The claim is its caller's, and so is its idempotency key: another's request with the same key is another request,
/// and learns nothing about this one.
fn own(acquire: &mut Acquire, caller: &Caller) {
    let Some(name) = caller.identity.name() else { return };
    acquire.client = Some(Arc::clone(name));
    acquire.quota = quota(caller);
    if let Some(key) = &mut acquire.key {
        key.name = own_key(name, &key.name);
    }
}

/// A key as it is kept for this caller.
fn own_key(name: &str, key: &str) -> Arc<str> {
    format!("{name}{KEY_SEPARATOR}{key}").into()
}

/// The quota that the settings give every caller.
fn quota(caller: &Caller) -> Quota {
    let limits = &caller.sign_on.settings().limits;
    Quota {
        live_max: limits.live_claims.unwrap_or(u32::MAX),
        waiting_max: limits.waiters.unwrap_or(u32::MAX),
        ..Quota::NONE
    }
}

/// With `bind_lock_client`, a lock's client is the caller: its name, or its name, a slash, and a suffix that tells its
/// processes apart.
pub(crate) fn check_client(client: &str, caller: &Caller) -> Result<(), Problem> {
    if !caller.sign_on.settings().bind_lock_client {
        return Ok(());
    }
    let Some(name) = caller.identity.name() else { return Err(words::needs_a_name()) };
    let is_own = client.strip_prefix(&**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_own { Ok(()) } else { Err(words::foreign_client(name)) }
}
