//! The filters of a list of claims, from the query.

use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;
use leasehold_engine::{ClaimFilter, Ending, StatusFilter, Wall};

use crate::faces::header::{plain_seconds_us, seconds_us};
use crate::http::Problem;
use crate::http::json::shown;
use crate::http::query::Query;
use crate::limits::NAME_MAX;

/// Every name a list's query may use.
pub(super) const NAMES: [&str; 16] = [
    "owner",
    "resource",
    "status",
    "ttl",
    "minimum_ttl",
    "maximum_ttl",
    "created",
    "minimum_created",
    "maximum_created",
    "minimum_active_duration",
    "maximum_active_duration",
    "minimum_waiting_duration",
    "maximum_waiting_duration",
    "limit",
    "offset",
    "after",
];

pub(super) fn parse(query: &Query<'_>) -> Result<ClaimFilter, Problem> {
    query.refuse_unknown(&NAMES)?;
    Ok(ClaimFilter {
        resource: query.get("resource").map(|name| named("resource", name)).transpose()?,
        owner: query.get("owner").map(|name| named("owner", name)).transpose()?,
        statuses: query.get("status").map(statuses).transpose()?.unwrap_or_default(),
        ttl_us: range(query, "ttl", true, duration)?,
        created: range(query, "created", true, time)?.map(|range| Wall(*range.start())..=Wall(*range.end())),
        active_us: range(query, "active_duration", false, duration)?,
        waiting_us: range(query, "waiting_duration", false, duration)?,
    })
}

fn named(parameter: &'static str, name: &str) -> Result<Arc<str>, Problem> {
    if (1..=NAME_MAX).contains(&name.len()) {
        Ok(Arc::from(name))
    } else {
        let reason = format!("{parameter} must have 1 to {NAME_MAX} bytes, got {}", name.len());
        Err(Problem::about(parameter, reason))
    }
}

/// One status, or several with commas between them.
fn statuses(names: &str) -> Result<Vec<StatusFilter>, Problem> {
    let mut statuses = Vec::new();
    for name in names.split(',') {
        let status = status(name)?;
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    Ok(statuses)
}

fn status(name: &str) -> Result<StatusFilter, Problem> {
    Ok(match name {
        "waiting" => StatusFilter::Waiting,
        "active" => StatusFilter::Active,
        "expired" => StatusFilter::Ended(Ending::Expired),
        "released" => StatusFilter::Ended(Ending::Released),
        "revoked" => StatusFilter::Ended(Ending::Revoked),
        "aborted" => StatusFilter::Ended(Ending::Aborted),
        "withdrawn" => StatusFilter::Ended(Ending::Withdrawn),
        other => {
            return Err(Problem::about(
                "status",
                format!(
                    "status must be one of waiting, active, expired, released, revoked, aborted, withdrawn, got {}",
                    shown(other)
                ),
            ));
        }
    })
}

/// `minimum_x` and `maximum_x`, or `x=a..b` for both where `short` allows it.
fn range(
    query: &Query<'_>,
    name: &str,
    has_short: bool,
    read: fn(&str, &str) -> Result<Bound, Problem>,
) -> Result<Option<RangeInclusive<u64>>, Problem> {
    let (minimum, maximum) = (format!("minimum_{name}"), format!("maximum_{name}"));
    let short = if has_short { query.get(name) } else { None };
    let (low, high) = match (short, query.get(&minimum), query.get(&maximum)) {
        (None, low, high) => (low, high),
        (Some(short), None, None) => {
            let (low, high) = short.split_once("..").ok_or_else(|| {
                about(name, format!("{name} must be a range a..b, either side may be empty, got {}", shown(short)))
            })?;
            (Some(low).filter(|low| !low.is_empty()), Some(high).filter(|high| !high.is_empty()))
        }
        (Some(_), _, _) => {
            let reason = format!("{name}=a..b is short for {minimum} and {maximum}, give one or the others");
            return Err(about(name, reason));
        }
    };
    if short.is_none() && low.is_none() && high.is_none() {
        return Ok(None);
    }
    let low = low.map_or(Ok(Bound::BelowZero), |text| read(&minimum, text))?;
    let high = high.map_or(Ok(Bound::At(u64::MAX)), |text| read(&maximum, text))?;
    Ok(Some(match (low, high) {
        (_, Bound::BelowZero) => NOTHING,
        (Bound::BelowZero, Bound::At(high)) => 0..=high,
        (Bound::At(low), Bound::At(high)) => low..=high,
    }))
}

/// 400 about a parameter of this list.
fn about(name: &str, reason: String) -> Problem {
    Problem::about(name.to_owned(), reason)
}

/// One end of a range. Nothing is below zero, so such a maximum matches nothing and such a minimum everything.
enum Bound {
    BelowZero,
    At(u64),
}

#[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
const NOTHING: RangeInclusive<u64> = 1..=0;

fn duration(name: &str, text: &str) -> Result<Bound, Problem> {
    let negative = text.strip_prefix('-').and_then(seconds_us);
    match (seconds_us(text), negative) {
        (Some(duration_us), _) => Ok(Bound::At(duration_us)),
        (None, Some(_)) => Ok(Bound::BelowZero),
        (None, None) => Err(about(name, format!("{name} must be a number of seconds, got {}", shown(text)))),
    }
}

/// RFC 3339, or seconds since 1970.
fn time(name: &str, text: &str) -> Result<Bound, Problem> {
    let parsed = text.parse::<Timestamp>().ok().and_then(|time| u64::try_from(time.as_microsecond()).ok());
    parsed.or_else(|| plain_seconds_us(text)).map(Bound::At).ok_or_else(|| {
        about(name, format!("{name} must be an RFC 3339 time or seconds since 1970, got {}", shown(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query of a list of claims.
    fn read(bytes: &[u8]) -> u64 {
        let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
        let Ok(query) = Query::parse(Some(text)) else { return 1 };
        match parse(&query) {
            Ok(filter) => {
                let given = [filter.ttl_us.is_some(), filter.active_us.is_some(), filter.waiting_us.is_some()];
                leasehold_fuzz::outcome(&(given, filter.created.is_some(), filter.statuses, filter.resource.is_some()))
            }
            Err(problem) => {
                assert_eq!(problem.status, 400);
                assert!(problem.reason.len() < 600 && !problem.reason.chars().any(char::is_control), "{problem}");
                // The sentence, without its quoted value.
                let words = problem.reason.split_whitespace().filter(|word| !word.contains(['"', '…', '\u{fffd}']));
                leasehold_fuzz::outcome(&words.take(4).collect::<Vec<_>>())
            }
        }
    }

    #[test]
    fn no_query_is_too_strange() {
        let words = [
            "resource=",
            "status=",
            "active",
            "ttl=",
            "..",
            "minimum_",
            "maximum_",
            "ttl",
            "created",
            "active_duration=",
            "waiting_duration=",
            "&",
            "2024-01-15T10:30:00Z",
            "-262143-01-01T00:00:00Z",
            "1e300",
            "limit=",
            "offset=",
        ];
        leasehold_fuzz::run("filter", &words, read);
    }
}
