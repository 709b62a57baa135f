//! What each request needs, in one exhaustive match: a new command does not compile until somebody has thought about who
//! may send it.

use leasehold_auth::{Action, Target};
use leasehold_engine::{ClaimId, Command, ResourceKey};

use crate::app::Asked;
use crate::dialect::claims;

/// What a request needs to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need<'a> {
    /// Anybody may.
    Nothing,
    One(Action, Target<'a>),
    /// To look at a claim that is known by its id alone.
    ClaimShown(ClaimId),
    /// To change a claim that is known by its id alone.
    ClaimChanged(ClaimId),
    /// A list, of which only what the caller may inspect is shown.
    List,
}

pub(super) fn need(asked: &Asked) -> Need<'_> {
    match asked {
        Asked::Pools(asked) => need_of(&asked.request.command),
        Asked::Lock(asked) => need_of(&asked.request.command),
        Asked::Claims(claims::Asked::One { request, .. }) => need_of(&request.command),
        Asked::Claims(claims::Asked::Mistaken { claim, .. }) => Need::ClaimShown(*claim),
        Asked::Claims(claims::Asked::Claims(_) | claims::Asked::Resources(_)) => Need::List,
        Asked::Page(_) | Asked::Metrics { .. } => Need::One(Action::Observe, Target::Service),
        Asked::Health | Asked::Readiness | Asked::SignOn(_) => Need::Nothing,
    }
}

fn need_of(command: &Command) -> Need<'_> {
    match command {
        Command::Configure { resource, .. } | Command::Unconfigure { resource } => {
            Need::One(Action::Configure, target(resource))
        }
        Command::Acquire(acquire) => Need::One(Action::Acquire, target(&acquire.resource)),
        // A lease is a secret that only its holder was told, and a lock's holder is named by the caller.
        Command::Renew { resource, .. } | Command::Return { resource, .. } | Command::Unlock { resource, .. } => {
            Need::One(Action::UpdateOwn, target(resource))
        }
        Command::Update { claim, .. } => Need::ClaimChanged(*claim),
        Command::ViewResource { resource } | Command::ViewLease { resource, .. } => {
            Need::One(Action::Inspect, target(resource))
        }
        Command::ViewClaim { claim } => Need::ClaimShown(*claim),
        Command::ListClaims(_) | Command::ListResources { .. } => Need::List,
        // The service sends these to itself.
        Command::Withdraw { .. } | Command::HandBack { .. } | Command::Mark => {
            Need::One(Action::Admin, Target::Service)
        }
    }
}

pub(super) fn target(resource: &ResourceKey) -> Target<'_> {
    match resource {
        ResourceKey::Pool(_) => Target::Pool,
        ResourceKey::Claim(name) | ResourceKey::Lock(name) => Target::Named(resource.kind(), name),
    }
}
