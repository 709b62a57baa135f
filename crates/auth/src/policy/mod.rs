//! Policies: rules that allow, and nothing else. An action that no rule allows is denied, so the order of rules matters
//! only for which of them is named as the one that decided.

mod explain;
mod rule;
mod sight;
#[cfg(test)]
mod tests;

use std::fmt;

use leasehold_engine::{Kind, ResourceKey};

pub use explain::Explanation;
pub use rule::{Resources, Rule, Subject};
pub use sight::Sight;

use crate::Identity;

/// The actions that permissions are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Read claims, resources, locks.
    Inspect,
    /// Ask for a slot.
    Acquire,
    /// Renew, change and end one's own claims.
    UpdateOwn,
    /// Change and end the claims of others.
    RevokeAny,
    /// Give resources a capacity, and take it away.
    Configure,
    /// Dashboard and events; of the whole service also its curves and metrics.
    Observe,
    /// Administration of the service itself.
    Admin,
}

impl Action {
    pub const ALL: [Action; 7] = [
        Action::Inspect,
        Action::Acquire,
        Action::UpdateOwn,
        Action::RevokeAny,
        Action::Configure,
        Action::Observe,
        Action::Admin,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Action::Inspect => "inspect",
            Action::Acquire => "acquire",
            Action::UpdateOwn => "update-own",
            Action::RevokeAny => "revoke-any",
            Action::Configure => "configure",
            Action::Observe => "observe",
            Action::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Action::ALL.into_iter().find(|action| action.as_str() == text)
    }

    /// About the service as a whole: granted only by rules that are not limited to some resources.
    pub fn is_service_wide(self) -> bool {
        match self {
            Action::Admin => true,
            Action::Inspect
            | Action::Acquire
            | Action::UpdateOwn
            | Action::RevokeAny
            | Action::Configure
            | Action::Observe => false,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The target of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The service as a whole.
    Service,
    /// Some pool. Its id is a credential, so no rule tells pools apart.
    Pool,
    /// A resource by name.
    Named(Kind, &'a str),
}

impl<'a> Target<'a> {
    pub fn of(resource: &'a ResourceKey) -> Self {
        match resource {
            ResourceKey::Pool(_) => Target::Pool,
            ResourceKey::Claim(name) | ResourceKey::Lock(name) => Target::Named(resource.kind(), name),
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Service => f.write_str("the service"),
            Target::Pool => f.write_str("a pool"),
            Target::Named(kind, name) => write!(f, "{} '{name}'", kind.as_str()),
        }
    }
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// A decision, and the rule that made it. No rule: denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Counted from 1, as in the file.
    pub rule: Option<(usize, &'a Rule)>,
}

impl Decision<'_> {
    pub fn is_allowed(&self) -> bool {
        self.rule.is_some()
    }
}

/// How far a permission reaches among the resources of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Nothing,
    /// Some of them: ask for each.
    Partly,
    Everything,
}

impl Policy {
    pub fn new(rules: Vec<Rule>) -> Self {
        Policy { rules }
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The first rule that allows it decides.
    pub fn decide(&self, who: &Identity, action: Action, target: Target<'_>) -> Decision<'_> {
        let mut rules = self.rules.iter().enumerate();
        let rule = rules.find(|(_, rule)| rule.mismatch(who, action, target).is_none());
        Decision { rule: rule.map(|(index, rule)| (index + 1, rule)) }
    }

    pub fn allows(&self, who: &Identity, action: Action, target: Target<'_>) -> bool {
        self.decide(who, action, target).is_allowed()
    }

    /// Returns whether a list of resources of this kind is shown to this caller in full, in part or not at all.
    pub fn reach(&self, who: &Identity, action: Action, kind: Kind) -> Reach {
        let mut reach = Reach::Nothing;
        for rule in self.rules.iter().filter(|rule| rule.is_for(who) && rule.gives(action) && rule.covers(kind)) {
            match rule.resources {
                Resources::All => return Reach::Everything,
                Resources::Matching(_) => reach = Reach::Partly,
            }
        }
        reach
    }

    /// Every action this caller has on something.
    pub fn actions_of(&self, who: &Identity) -> Vec<Action> {
        let has = |action: Action| {
            self.rules.iter().any(|rule| {
                rule.is_for(who) && rule.gives(action) && (!action.is_service_wide() || rule.is_unlimited())
            })
        };
        Action::ALL.into_iter().filter(|&action| has(action)).collect()
    }
}
