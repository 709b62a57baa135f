//! A decision in words, for `leasehold policy explain` and for people who wonder.

use std::fmt;

use super::rule::Mismatch;
use super::{Action, Policy, Resources, Rule, Target};
use crate::Identity;

/// Why an action is allowed or denied: which rule decided, and why each of the others did not.
#[derive(Debug)]
pub struct Explanation<'a> {
    policy: &'a Policy,
    who: &'a Identity,
    action: Action,
    target: Target<'a>,
}

impl Policy {
    pub fn explain<'a>(&'a self, who: &'a Identity, action: Action, target: Target<'a>) -> Explanation<'a> {
        Explanation { policy: self, who, action, target }
    }
}

impl Explanation<'_> {
    pub fn is_allowed(&self) -> bool {
        self.policy.allows(self.who, self.action, self.target)
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { policy, who, action, target } = self;
        let name = who.name().map_or("anonymous", |name| name);
        match policy.decide(who, *action, *target).rule {
            Some((number, rule)) => {
                writeln!(f, "allowed: {name} may {action} on {target}, by policy {number}{}", Named(rule))?;
            }
            None => writeln!(f, "denied: no policy lets {name} {action} on {target}")?,
        }
        for (index, rule) in policy.rules().iter().enumerate() {
            let number = index + 1;
            let verdict = match rule.mismatch(who, *action, *target) {
                None => "allows it",
                Some(Mismatch::Subject) => "is for others",
                Some(Mismatch::Action) => "does not give this action",
                Some(Mismatch::Kind) => "is about other kinds, or names resources, which pools have none of",
                Some(Mismatch::Resource) => "is about other resources",
                Some(Mismatch::Limited) => "is limited to some resources, and this is about the whole service",
            };
            writeln!(f, "  policy {number}{}: {}: {verdict}", Named(rule), Words(rule))?;
        }
        Ok(())
    }
}

/// ` (builders)`, or nothing.
struct Named<'a>(&'a Rule);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// A rule in one line.
struct Words<'a>(&'a Rule);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(rule) = self;
        let subjects = rule.subjects.iter().map(|subject| subject.as_str().to_owned());
        let groups = rule.groups.iter().map(|group| format!("group {group}"));
        let who: Vec<String> = subjects.chain(groups).collect();
        let actions: Vec<&str> = rule.actions.iter().map(|action| action.as_str()).collect();
        write!(f, "{} may {}", who.join(", "), actions.join(", "))?;
        if !rule.is_unlimited() {
            let kinds = rule.kinds.iter().filter(|kind| rule.covers(**kind));
            let kinds: Vec<&str> = kinds.map(|kind| kind.as_str()).collect();
            write!(f, " on {}", kinds.join(", "))?;
            if let Resources::Matching(patterns) = &rule.resources {
                write!(f, " {}", patterns.join(", "))?;
            }
        }
        Ok(())
    }
}
