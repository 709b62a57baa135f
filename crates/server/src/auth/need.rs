//! The right that each request needs, in one exhaustive match: a new command does not compile until its author has
//! decided who may send it.

use leasehold_auth::{Action, Target};
use leasehold_engine::{ClaimId, Command, ResourceKey};

use crate::app::Asked;
use crate::faces::claims;
use crate::faces::watch;
use crate::watch::key::PublicKey;

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need<'a> {
    /// Every caller may.
    Nothing,
    One(Action, Target<'a>),
    /// To look at a claim that is known by its id alone.
    ClaimShown(ClaimId),
    /// To change a claim that is known by its id alone.
    ClaimChanged(ClaimId),
    /// A list, which shows only the items that the caller may inspect.
    List,
}

pub(super) fn need(asked: &Asked) -> Need<'_> {
    match asked {
        Asked::Pools(asked) => need_of(&asked.request.command),
        Asked::Lock(asked) => need_of(&asked.request.command),
        Asked::Claims(claims::Asked::One { request, .. }) => need_of(&request.command),
        Asked::Claims(claims::Asked::Mistaken { claim, .. }) => Need::ClaimShown(*claim),
        Asked::Claims(claims::Asked::Claims(_) | claims::Asked::Resources(_)) => Need::List,
        Asked::Observe(asked) => match asked {
            watch::Asked::Revoke(key, _) => Need::One(Action::RevokeAny, public_target(key)),
            watch::Asked::Fence(key, _) => Need::One(Action::Inspect, public_target(key)),
            watch::Asked::List(_)
            | watch::Asked::Show(_)
            | watch::Asked::History(..)
            | watch::Asked::Series
            | watch::Asked::FindPool(_)
            | watch::Asked::Events(_) => Need::One(Action::Observe, Target::Service),
        },
        Asked::Page(_) | Asked::Metrics { .. } => Need::One(Action::Observe, Target::Service),
        Asked::Health | Asked::Preflight { .. } | Asked::Readiness | Asked::SignOn(_) => Need::Nothing,
    }
}

fn need_of(command: &Command) -> Need<'_> {
    match command {
        Command::Configure { resource, .. } | Command::Unconfigure { resource } => {
            Need::One(Action::Configure, target(resource))
        }
        Command::Acquire(acquire) => Need::One(Action::Acquire, target(&acquire.resource)),
        // A lease is a secret that only its holder knows, and the caller names a lock's holder.
        Command::Renew { resource, .. } | Command::Return { resource, .. } | Command::Unlock { resource, .. } => {
            Need::One(Action::UpdateOwn, target(resource))
        }
        Command::Spend(spend) => Need::One(Action::UpdateOwn, target(&spend.resource)),
        Command::Update { claim, .. } => Need::ClaimChanged(*claim),
        Command::ViewResource { resource }
        | Command::ViewPlace { resource, .. }
        | Command::ViewLease { resource, .. }
        | Command::ViewFence { resource, .. } => Need::One(Action::Inspect, target(resource)),
        Command::ViewClaim { claim } => Need::ClaimShown(*claim),
        Command::ListClaims(_) | Command::ListResources { .. } => Need::List,
        Command::Revoke { resource, .. } => Need::One(Action::RevokeAny, target(resource)),
        Command::Survey { .. } | Command::Inspect { .. } => Need::One(Action::Observe, Target::Service),
        // The service sends these to itself.
        Command::Withdraw { .. } | Command::HandBack { .. } | Command::Mark => {
            Need::One(Action::Admin, Target::Service)
        }
    }
}

fn public_target(key: &PublicKey) -> Target<'_> {
    match key {
        PublicKey::Named(resource) => target(resource),
        PublicKey::Pool(_) => Target::Pool,
    }
}

pub(super) fn target(resource: &ResourceKey) -> Target<'_> {
    match resource {
        ResourceKey::Pool(_) => Target::Pool,
        ResourceKey::Claim(name) | ResourceKey::Lock(name) => Target::Named(resource.kind(), name),
    }
}
