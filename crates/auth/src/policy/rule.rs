//! One rule: its subjects, its actions, its resources.

use std::sync::Arc;

use leasehold_engine::Kind;

use super::{Action, Target};
use crate::glob;
use crate::identity::Identity;

/// One `[[policy]]`. A caller among the subjects or in one of the groups may do the actions on the resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For people.
    pub name: Option<String>,
    pub subjects: Vec<Subject>,
    /// Patterns of group names.
    pub groups: Vec<Arc<str>>,
    pub actions: Vec<Action>,
    pub kinds: Vec<Kind>,
    pub resources: Resources,
}

/// The subject of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `*`: every caller, signed on or not.
    Everybody,
    /// `authenticated`: every caller that signed on.
    Authenticated,
    /// `anonymous`: every caller that did not.
    Anonymous,
    /// A pattern of names.
    Named(Arc<str>),
}

/// Which resources a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resources {
    All,
    /// Any of these patterns. Pools are not among them: they have no names.
    Matching(Vec<Arc<str>>),
}

/// The first reason why a rule does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Subject,
    Action,
    Kind,
    Resource,
    /// The action is about the whole service, the rule is not.
    Limited,
}

impl Subject {
    pub fn parse(text: &str) -> Self {
        match text {
            "*" => Subject::Everybody,
            "authenticated" => Subject::Authenticated,
            "anonymous" => Subject::Anonymous,
            name => Subject::Named(name.into()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Subject::Everybody => "*",
            Subject::Authenticated => "authenticated",
            Subject::Anonymous => "anonymous",
            Subject::Named(pattern) => pattern,
        }
    }

    fn is(&self, who: &Identity) -> bool {
        match self {
            Subject::Everybody => true,
            Subject::Authenticated => !who.is_anonymous(),
            Subject::Anonymous => who.is_anonymous(),
            Subject::Named(pattern) => who.name().is_some_and(|name| glob::matches(pattern, name)),
        }
    }
}

impl Rule {
    pub(crate) fn is_for(&self, who: &Identity) -> bool {
        let in_a_group = || {
            let groups = who.principal().map_or(&[][..], |principal| &principal.groups);
            groups.iter().any(|group| self.groups.iter().any(|pattern| glob::matches(pattern, group)))
        };
        self.subjects.iter().any(|subject| subject.is(who)) || in_a_group()
    }

    pub(crate) fn gives(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    pub(crate) fn covers(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind) && (kind != Kind::Pool || self.resources == Resources::All)
    }

    /// About every resource of every kind.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.resources == Resources::All && Kind::ALL.iter().all(|kind| self.kinds.contains(kind))
    }

    /// `None` if the rule allows it.
    pub(crate) fn mismatch(&self, who: &Identity, action: Action, target: Target<'_>) -> Option<Mismatch> {
        if !self.is_for(who) {
            return Some(Mismatch::Subject);
        }
        if !self.gives(action) {
            return Some(Mismatch::Action);
        }
        self.misses(target)
    }

    /// Returns whether its resources include this target.
    pub(crate) fn is_about(&self, target: Target<'_>) -> bool {
        self.misses(target).is_none()
    }

    fn misses(&self, target: Target<'_>) -> Option<Mismatch> {
        match (target, &self.resources) {
            (Target::Service, _) => (!self.is_unlimited()).then_some(Mismatch::Limited),
            (Target::Pool, _) => (!self.covers(Kind::Pool)).then_some(Mismatch::Kind),
            (Target::Named(kind, _), _) if !self.covers(kind) => Some(Mismatch::Kind),
            (Target::Named(..), Resources::All) => None,
            (Target::Named(_, name), Resources::Matching(patterns)) => {
                let is_matched = patterns.iter().any(|pattern| glob::matches(pattern, name));
                (!is_matched).then_some(Mismatch::Resource)
            }
        }
    }
}
