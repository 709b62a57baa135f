//! The right that each request needs, in one exhaustive match: a new command does not compile until its author has
//! decided who may send it.

use leasehold_auth::{Action, Target};
use leasehold_engine::{ClaimId, Command};

use super::Caller;
use crate::http::Problem;
use crate::watch::key::PublicKey;

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// Every caller may.
    Nothing,
    One(Action, Target<'a>),
    /// To see a page: the right to observe something. A browser without it is sent to log in.
    Page,
    /// To look at a claim that is known by its id alone.
    ClaimShown(ClaimId),
    /// To change a claim that is known by its id alone.
    ClaimChanged(ClaimId),
    /// To prove that a claim that is known by its id alone is held: its owner may.
    ClaimProved(ClaimId),
    /// A list, which shows only the items that the caller may inspect.
    List,
    /// A list or stream for observers, which shows only the resources that the caller may observe.
    Sight,
}

/// A call, as sign-on sees it.
pub(crate) trait Guarded {
    fn need(&self) -> Need<'_>;

    /// Puts the caller's name where it belongs.
    fn sign(&mut self, caller: Caller) -> Result<(), Problem>;
}

/// The right that a command needs.
pub(crate) fn need_of(command: &Command) -> Need<'_> {
    match command {
        Command::Configure { resource, .. }
        | Command::Unconfigure { resource }
        | Command::Pause { resource, .. }
        | Command::Resume { resource }
        | Command::ServeSlot { resource, .. } => Need::One(Action::Configure, Target::of(resource)),
        Command::NameSlots(naming) => Need::One(Action::Configure, Target::of(&naming.resource)),
        Command::Acquire(acquire) => Need::One(Action::Acquire, Target::of(&acquire.resource)),
        // A lease is a secret that only its holder knows, and the caller names a lock's holder.
        Command::Renew { resource, .. } | Command::Return { resource, .. } | Command::Unlock { resource, .. } => {
            Need::One(Action::UpdateOwn, Target::of(resource))
        }
        Command::Spend(spend) => Need::One(Action::UpdateOwn, Target::of(&spend.resource)),
        Command::Update { claim, .. } => Need::ClaimChanged(*claim),
        Command::ViewResource { resource }
        | Command::ViewPlace { resource, .. }
        | Command::ViewHolding { resource, .. }
        | Command::ViewLease { resource, .. }
        | Command::ViewFence { resource, .. } => Need::One(Action::Inspect, Target::of(resource)),
        Command::ViewClaim { claim } => Need::ClaimShown(*claim),
        Command::ListClaims(_) | Command::ListResources { .. } => Need::List,
        Command::Revoke { resource, .. } => Need::One(Action::RevokeAny, Target::of(resource)),
        Command::Survey { .. } => Need::Sight,
        Command::Inspect { resource } => Need::One(Action::Observe, Target::of(resource)),
        // The service sends these to itself.
        Command::Withdraw { .. } | Command::Attend { .. } | Command::HandBack { .. } | Command::Mark => {
            Need::One(Action::Admin, Target::Service)
        }
    }
}

pub(crate) fn public_target(key: &PublicKey) -> Target<'_> {
    match key {
        PublicKey::Named(resource) => Target::of(resource),
        PublicKey::Pool(_) => Target::Pool,
    }
}
