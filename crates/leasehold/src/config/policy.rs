//! `[[policy]]` and `[limits]`: rules and limits of principals, from the file.

use std::sync::Arc;

use leasehold_auth::Action;
use leasehold_auth::identity::check_name;
use leasehold_auth::limits::{CallerLimits, RequestRate};
use leasehold_auth::policy::{Resources, Rule, Subject};
use leasehold_engine::Kind;

use super::ConfigError;
use super::section::Section;

pub(super) fn rule(section: &Section<'_>) -> Result<Rule, ConfigError> {
    let actions = actions(section)?;
    let names_service_wide = section
        .texts("actions", "")?
        .unwrap_or_default()
        .iter()
        .any(|name| Action::parse(name).is_some_and(Action::is_service_wide));
    let subjects = section.list("subjects", "a list of names, *, authenticated or anonymous", |text| {
        read_name(text).map(|name| Subject::parse(&name))
    })?;
    let groups = names(section, "groups")?;
    let kinds_rule = "a list of pool, claim, lock";
    let kinds = section.list("kinds", kinds_rule, |text| {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or("is none of these")
    })?;
    let resources = section.list("resources", "a list of resource names, with * and ? for any characters", |text| {
        if text.is_empty() { Err("is empty") } else { Ok(Arc::<str>::from(text)) }
    })?;
    let rule = Rule {
        name: section.text("name", "text")?,
        subjects: subjects.unwrap_or_default(),
        groups,
        actions,
        kinds: kinds.clone().unwrap_or_else(|| Kind::ALL.to_vec()),
        resources: match resources {
            None => Resources::All,
            Some(patterns) if patterns.iter().any(|pattern| &**pattern == "*") => Resources::All,
            Some(patterns) => Resources::Matching(patterns),
        },
    };
    section.finish()?;
    if rule.subjects.is_empty() && rule.groups.is_empty() {
        return Err(section.about("applies to no caller, give subjects or groups"));
    }
    if names_service_wide && (kinds.is_some() || rule.resources != Resources::All) {
        return Err(
            section.about("gives admin, which is about the whole service, so kinds and resources must be left out")
        );
    }
    if rule.kinds == [Kind::Pool] && rule.resources != Resources::All {
        return Err(section.about("names resources of pools, which have no names: their ids are credentials"));
    }
    Ok(rule)
}

fn actions(section: &Section<'_>) -> Result<Vec<Action>, ConfigError> {
    let known = Action::ALL.map(Action::as_str).join(", ");
    let rule = format!("a list of {known}, or * for all of them");
    let named = section.list("actions", &rule, |text| match text {
        "*" => Ok(Action::ALL.to_vec()),
        text => Action::parse(text).map(|action| vec![action]).ok_or("is none of these"),
    })?;
    let mut actions: Vec<Action> = named.ok_or_else(|| section.missing("actions", &rule))?.concat();
    if actions.is_empty() {
        return Err(section.wrong("actions", &rule, "is empty"));
    }
    actions.sort_unstable();
    actions.dedup();
    Ok(actions)
}

pub(super) fn limits(section: &Section<'_>) -> Result<CallerLimits, ConfigError> {
    let count = |key, range| -> Result<Option<u32>, ConfigError> {
        Ok(section.integer(key, range)?.map(|value| u32::try_from(value).expect("its range fits")))
    };
    let per_second = count("requests_per_second", 1..=1_000_000)?;
    let burst = count("burst", 1..=1_000_000)?;
    let limits = CallerLimits {
        live_claims: count("live_claims", 1..=10_000_000)?,
        waiters: count("waiters", 0..=10_000_000)?,
        requests: per_second.map(|per_second| RequestRate { per_second, burst: burst.unwrap_or(per_second) }),
    };
    section.finish()?;
    if burst.is_some() && per_second.is_none() {
        return Err(section.missing("requests_per_second", "as it has burst"));
    }
    Ok(limits)
}

/// The names of principals or groups.
pub(super) fn names(section: &Section<'_>, key: &'static str) -> Result<Vec<Arc<str>>, ConfigError> {
    Ok(section.list(key, "a list of names", read_name)?.unwrap_or_default())
}

pub(super) fn read_name(text: &str) -> Result<Arc<str>, &'static str> {
    check_name(text).map(|()| text.into())
}
