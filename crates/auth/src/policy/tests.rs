//! Rules in, decisions out.

use leasehold_engine::Kind;

use super::*;
use crate::identity::{Principal, Source};

fn who(name: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|group| (*group).into()).collect();
    Principal { name: name.into(), groups, source: Source::Token }.into()
}

fn rule(subjects: &[&str], groups: &[&str], actions: &[Action]) -> Rule {
    Rule {
        name: None,
        subjects: subjects.iter().map(|subject| Subject::parse(subject)).collect(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        actions: actions.to_vec(),
        kinds: Kind::ALL.to_vec(),
        resources: Resources::All,
    }
}

fn on(mut rule: Rule, kinds: &[Kind], patterns: &[&str]) -> Rule {
    rule.kinds = kinds.to_vec();
    if !patterns.is_empty() {
        rule.resources = Resources::Matching(patterns.iter().map(|pattern| (*pattern).into()).collect());
    }
    rule
}

fn policy() -> Policy {
    Policy::new(vec![
        rule(&["root"], &["operators"], &Action::ALL),
        on(rule(&["ci-*"], &[], &[Action::Acquire, Action::UpdateOwn]), &[Kind::Claim, Kind::Lock], &["build/*", "x"]),
        on(rule(&[], &["staff"], &[Action::Acquire]), &[Kind::Pool, Kind::Claim], &[]),
        rule(&["authenticated"], &[], &[Action::Inspect]),
        on(rule(&["anonymous"], &[], &[Action::Inspect]), &[Kind::Lock], &["status"]),
        rule(&["watcher"], &[], &[Action::Observe]),
        on(rule(&["half-watcher"], &[], &[Action::Observe]), &[Kind::Lock], &[]),
    ])
}

#[test]
fn the_first_rule_that_allows_decides_and_nothing_else_is_allowed() {
    use Action::{Acquire, Admin, Configure, Inspect, Observe, RevokeAny, UpdateOwn};
    let anonymous = Identity::ANONYMOUS;
    let claim = |name| Target::Named(Kind::Claim, name);
    let lock = |name| Target::Named(Kind::Lock, name);
    let policy = policy();
    for (who, action, target, expected) in [
        (who("root", &[]), Admin, Target::Service, Some(1)),
        (who("x", &["operators"]), RevokeAny, claim("a"), Some(1)),
        (who("x", &["Operators"]), RevokeAny, claim("a"), None),
        (who("ci-7", &[]), Acquire, claim("build/a"), Some(2)),
        (who("ci-7", &[]), Acquire, lock("x"), Some(2)),
        (who("ci-7", &[]), Acquire, claim("deploy"), None),
        (who("ci-7", &[]), RevokeAny, claim("build/a"), None),
        (who("ci-7", &[]), Acquire, Target::Pool, None),
        (who("ci-7", &["staff"]), Acquire, Target::Pool, Some(3)),
        (who("a", &["staff"]), Acquire, lock("x"), None),
        (who("a", &["staff"]), UpdateOwn, claim("a"), None),
        (who("a", &[]), Inspect, claim("a"), Some(4)),
        (anonymous.clone(), Inspect, claim("a"), None),
        (anonymous.clone(), Inspect, lock("status"), Some(5)),
        // A principal of this name is not the subject of this name.
        (who("anonymous", &[]), Inspect, lock("status"), Some(4)),
        (who("*", &["*"]), Configure, claim("a"), None),
        (anonymous, Observe, Target::Service, None),
        (who("watcher", &[]), Observe, Target::Service, Some(6)),
        (who("half-watcher", &[]), Observe, Target::Service, None),
        (who("half-watcher", &[]), Observe, lock("x"), Some(7)),
        (who("half-watcher", &[]), Observe, claim("x"), None),
    ] {
        let decided = policy.decide(&who, action, target).rule.map(|(number, _)| number);
        assert_eq!(decided, expected, "{:?} {action} {target}", who.name());
    }
}

#[test]
fn nothing_is_allowed_by_no_rules() {
    let policy = Policy::default();
    for action in Action::ALL {
        for target in [Target::Service, Target::Pool, Target::Named(Kind::Claim, "x")] {
            assert!(!policy.allows(&who("root", &["operators"]), action, target));
        }
    }
}

#[test]
fn how_far_a_list_reaches() {
    let policy = policy();
    for (who, action, kind, expected) in [
        (who("a", &[]), Action::Inspect, Kind::Claim, Reach::Everything),
        (Identity::ANONYMOUS, Action::Inspect, Kind::Claim, Reach::Nothing),
        (Identity::ANONYMOUS, Action::Inspect, Kind::Lock, Reach::Partly),
        (who("ci-1", &[]), Action::Acquire, Kind::Claim, Reach::Partly),
        (who("ci-1", &["staff"]), Action::Acquire, Kind::Claim, Reach::Everything),
        (who("ci-1", &[]), Action::Acquire, Kind::Pool, Reach::Nothing),
    ] {
        assert_eq!(policy.reach(&who, action, kind), expected, "{:?} {action} {kind:?}", who.name());
    }
}

#[test]
fn an_observer_sees_the_resources_of_its_rules() {
    let (pool, claim, lock) = (ResourceKey::Pool(1), ResourceKey::Claim("a/x".into()), ResourceKey::Lock("a/x".into()));
    let observe = |kinds: &[Kind], patterns: &[&str]| on(rule(&["x"], &[], &[Action::Observe]), kinds, patterns);
    for (rules, shown) in [
        (vec![], [false, false, false]),
        (vec![observe(&Kind::ALL, &[])], [true, true, true]),
        (vec![observe(&[Kind::Pool], &[])], [true, false, false]),
        (vec![observe(&Kind::ALL, &["a/*"])], [false, true, true]),
        (vec![observe(&[Kind::Lock], &["a/*"])], [false, false, true]),
        (vec![observe(&Kind::ALL, &["b/*"])], [false, false, false]),
        (vec![observe(&[Kind::Pool], &[]), observe(&[Kind::Claim], &["b", "a/?"])], [true, true, false]),
        (vec![rule(&["y"], &[], &Action::ALL), rule(&["x"], &[], &[Action::Inspect])], [false, false, false]),
    ] {
        let sight = Policy::new(rules.clone()).sight(&who("x", &[]), Action::Observe);
        assert_eq!([&pool, &claim, &lock].map(|resource| sight.shows(resource)), shown, "{rules:?}");
        let gives = rules.iter().any(|rule| rule.is_for(&who("x", &[])) && rule.gives(Action::Observe));
        assert_eq!(sight.is_blind(), !gives, "{rules:?}");
    }
}

#[test]
fn what_somebody_may_do_at_all() {
    let policy = policy();
    let names = |who| policy.actions_of(&who).iter().map(|action| action.as_str()).collect::<Vec<_>>().join(" ");
    assert_eq!(names(who("root", &[])), "inspect acquire update-own revoke-any configure observe admin");
    assert_eq!(names(who("ci-1", &[])), "inspect acquire update-own");
    assert_eq!(names(who("half-watcher", &[])), "inspect observe");
    assert_eq!(names(Identity::ANONYMOUS), "inspect");
}

#[test]
fn explanations_name_the_rule_and_what_kept_the_others() {
    let mut builders = on(rule(&[], &["builders"], &[Action::Acquire]), &[Kind::Claim], &["build/*"]);
    builders.name = Some("builders".to_owned());
    let policy = Policy::new(vec![rule(&["root"], &[], &[Action::Admin]), builders]);
    let ci = who("ci", &["builders"]);
    let allowed = policy.explain(&ci, Action::Acquire, Target::Named(Kind::Claim, "build/x"));
    assert!(allowed.is_allowed());
    assert_eq!(
        allowed.to_string(),
        "allowed: ci may acquire on claim 'build/x', by policy 2 (builders)\n  \
         policy 1: root may admin: is for others\n  \
         policy 2 (builders): group builders may acquire on claim build/*: allows it\n"
    );
    let denied = policy.explain(&ci, Action::Acquire, Target::Named(Kind::Claim, "deploy"));
    assert!(!denied.is_allowed());
    assert!(denied.to_string().starts_with("denied: no policy lets ci acquire on claim 'deploy'\n"));
    assert!(denied.to_string().ends_with("group builders may acquire on claim build/*: is about other resources\n"));
}
