//! A caller that was let in, and what it may see.

use std::sync::Arc;

use leasehold_auth::policy::{Reach, Sight};
use leasehold_auth::{Action, Identity, SignOn, Target};
use leasehold_engine::Kind;

/// A caller, and the rules in force when it came.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    pub(crate) sign_on: Arc<SignOn>,
}

impl Caller {
    pub(crate) fn may(&self, action: Action, target: Target<'_>) -> bool {
        self.sign_on.policy().allows(&self.identity, action, target)
    }

    /// Returns whether a claim of this owner is the caller's own. Callers without a name own nothing, and a claim
    /// without an owner, made before callers signed on, belongs to no caller.
    pub(crate) fn owns(&self, owner: Option<&Arc<str>>) -> bool {
        self.identity.name().is_some_and(|name| owner == Some(name))
    }

    /// Returns whether a claim is shown to this caller: its own, or one on a resource it may inspect.
    pub(crate) fn sees(&self, resource: &str, owner: Option<&Arc<str>>) -> bool {
        self.owns(owner) || self.sees_resource(resource)
    }

    pub(crate) fn sees_resource(&self, resource: &str) -> bool {
        self.may(Action::Inspect, Target::Named(Kind::Claim, resource))
    }

    /// The resources that this caller may observe.
    pub(crate) fn sight(&self) -> Sight {
        self.sign_on.policy().sight(&self.identity, Action::Observe)
    }

    /// How much of a list of claims or resources is shown.
    pub(crate) fn reach(&self) -> Reach {
        self.sign_on.policy().reach(&self.identity, Action::Inspect, Kind::Claim)
    }
}
