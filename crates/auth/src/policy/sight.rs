//! The part of a service that a caller may watch: everything, or the resources that some rules name. Lists and streams
//! leave out the rest, and count nothing of it.

use std::sync::Arc;

use leasehold_engine::ResourceKey;

use super::{Action, Policy, Rule, Target};
use crate::Identity;

/// The resources that are shown to a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight(Option<Arc<[Rule]>>);

impl Sight {
    /// Every resource, and the service as a whole.
    pub const EVERYTHING: Sight = Sight(None);

    /// Returns whether no resource at all can be shown.
    pub fn is_blind(&self) -> bool {
        self.0.as_ref().is_some_and(|rules| rules.is_empty())
    }

    pub fn shows(&self, resource: &ResourceKey) -> bool {
        self.0.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.is_about(Target::of(resource))))
    }
}

impl Policy {
    /// The resources on which this caller has the action.
    pub fn sight(&self, who: &Identity, action: Action) -> Sight {
        let giving = || self.rules.iter().filter(|rule| rule.is_for(who) && rule.gives(action));
        if giving().any(Rule::is_unlimited) { Sight::EVERYTHING } else { Sight(Some(giving().cloned().collect())) }
    }
}
