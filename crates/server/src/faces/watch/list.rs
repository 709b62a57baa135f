//! `GET /v1/observe/resources`: all resources, filtered, sorted and counted. The engine is surveyed slice by slice, so
//! that a list of a hundred thousand holds up no other caller, and only the lines of the page are kept.
//!
//! Names do not change, so a page by name begins after the last name of the page before, even if resources came or
//! went. Other orders do not hold still; the pages after the first are cut from the order as it was then (`frozen`).

use std::borrow::Cow;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use leasehold_auth::policy::Sight;
use leasehold_engine::{Command, Kind, Reply, ResourceKey, ResourceLine, ResourceState, SurveyPage};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::subscription::known_kind;
use crate::code::Code;
use crate::driver::Handle;
use crate::faces::fittings::Paused;
use crate::faces::{Envelope, Stamps, ask_in, unserved};
use crate::http::json::value::{FloatSeconds, May};
use crate::http::json::{shown, to_bytes};
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId};
use crate::limits::{
    ORDER_LENGTH_MAX, PAGE_BYTES_MAX, SEARCH_MAX, WATCH_LIMIT_DEFAULT, WATCH_LIMIT_MAX, WATCH_OFFSET_MAX,
};
use crate::planted::{Bug, is_armed};
use crate::response;
use crate::watch::Observer;
use crate::watch::digest::PoolDigest;
use crate::watch::frozen::Lost;
use crate::watch::key::{Keyed, public_name};
use crate::watch::label::label_of;
use crate::watch::survey::{Counted, Found, ListPlace, Listed, Sort, Wanted};

/// Resources and holders looked at under the engine's lock in one go: about a fifth of a millisecond.
const SCAN_MAX: usize = 1_000;

/// Which part of a list is to be shown.
#[derive(Debug)]
pub(crate) struct List {
    pub(super) wanted: Wanted,
    limit: usize,
    after: Option<After>,
    /// … and past so many more, as of the moment of the call: for a caller that leaps far ahead.
    offset: usize,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    /// Right after this name, even if resources came or went meanwhile.
    Name(ListPlace),
    /// At this place of an order that was kept.
    Frozen { id: u64, index: usize },
}

impl After {
    fn parse(text: &str, sort: Sort) -> Option<After> {
        if sort == Sort::Name {
            return ListPlace::parse(text).map(After::Name);
        }
        let (id, index) = text.split_once('-')?;
        let index = index.parse().ok().filter(|&index| index <= ORDER_LENGTH_MAX)?;
        Some(After::Frozen { id: u64::from_str_radix(id, 16).ok()?, index })
    }

    fn to_cursor(&self) -> String {
        match self {
            After::Name(place) => place.to_cursor(),
            After::Frozen { id, index } => format!("{id:x}-{index}"),
        }
    }
}

impl List {
    pub(super) fn parse(query: &Query<'_>) -> Result<Self, Problem> {
        query.refuse_unknown(&["kind", "state", "q", "sort", "limit", "offset", "after"])?;
        let state = |text: &str| {
            ResourceState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
                let allowed = ResourceState::ALL.map(ResourceState::as_str).join(", ");
                Problem::about("state", format!("state must be one of {allowed}, got {}", shown(text)))
            })
        };
        let sort = |text: &str| match text {
            "name" => Ok(Sort::Name),
            "contended" => Ok(Sort::Contended),
            "waiting" => Ok(Sort::Waiting),
            "wait" => Ok(Sort::Wait),
            "expiry" => Ok(Sort::Expiry),
            _ => Err(Problem::about(
                "sort",
                format!("sort must be one of name, contended, waiting, wait, expiry, got {}", shown(text)),
            )),
        };
        let limit = |text: &str| {
            text.parse().ok().filter(|limit| (1..=WATCH_LIMIT_MAX).contains(limit)).ok_or_else(|| {
                Problem::about(
                    "limit",
                    format!("limit must be a whole number from 1 to {WATCH_LIMIT_MAX}, got {}", shown(text)),
                )
            })
        };
        let offset = |text: &str| {
            text.parse().ok().filter(|offset| *offset <= WATCH_OFFSET_MAX).ok_or_else(|| {
                Problem::about(
                    "offset",
                    format!("offset must be a whole number from 0 to {WATCH_OFFSET_MAX}, got {}", shown(text)),
                )
            })
        };
        let sort = query.get("sort").map_or(Ok(Sort::Name), sort)?;
        let after = |text: &str| {
            After::parse(text, sort)
                .ok_or_else(|| Problem::about("after", format!("after must be what next was, got {}", shown(text))))
        };
        let search = query.get("q").filter(|text| !text.is_empty());
        if let Some(text) = search.filter(|text| text.len() > SEARCH_MAX) {
            return Err(Problem::about("q", format!("q must have at most {SEARCH_MAX} bytes, got {}", text.len())));
        }
        Ok(List {
            wanted: Wanted {
                kind: query.get("kind").map(known_kind).transpose()?,
                state: query.get("state").map(state).transpose()?,
                search: search.map(str::to_lowercase),
                sort,
                sight: Sight::EVERYTHING,
            },
            limit: query.get("limit").map_or(Ok(WATCH_LIMIT_DEFAULT), limit)?,
            after: query.get("after").map(after).transpose()?,
            offset: query.get("offset").map_or(Ok(0), offset)?,
        })
    }
}

/// A page to be written.
struct Page {
    lines: Vec<(Arc<str>, ResourceLine)>,
    next: Option<After>,
    counted: Counted,
}

pub(super) async fn answer(
    observer: &Observer,
    driver: &Handle,
    list: List,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let (envelope, page) = match (&list.after, list.wanted.sort) {
        (Some(After::Frozen { id: order, index }), _) => {
            let mut order = order;
            let now;
            if is_armed(Bug::OrderMoves)
                && let Some(After::Frozen { id, .. }) = first_in_order(observer, driver, &list, id).await?.1.next
            {
                now = id;
                order = &now;
            }
            let keys = observer.frozen.find(*order, &list.wanted, driver.now().mono_us).map_err(lost)?;
            cut(observer, driver, &list, *order, &keys, index.saturating_add(list.offset), id).await?
        }
        (None, Sort::Contended | Sort::Waiting | Sort::Wait | Sort::Expiry) => {
            first_in_order(observer, driver, &list, id).await?
        }
        (after, _) => {
            let after = match after {
                Some(After::Name(place)) => Some(place),
                Some(After::Frozen { .. }) | None => None,
            };
            by_name(observer, driver, &list, after, id).await?
        }
    };
    Ok(envelope.positioned(response::json(StatusCode::OK, id, write(page, &envelope, observer))))
}

fn lost(why: Lost) -> Problem {
    match why {
        Lost::Expired => Problem::new(
            StatusCode::GONE,
            "the list that after goes on with is not kept any more, begin again without after",
        )
        .coded(Code::ListExpired),
        Lost::OfAnother => {
            Problem::about("after", "after must come with the kind, state, q and sort of the list that it goes on with")
        }
    }
}

async fn by_name<'a>(
    observer: &Observer,
    driver: &Handle,
    list: &List,
    after: Option<&ListPlace>,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Page), Problem> {
    let leapt = if list.offset > 0 { place_before(observer, driver, list, after, id).await? } else { None };
    let after = leapt.as_ref().or(after);
    let mut found = Found::default();
    let envelope = survey(&observer.surveys, driver, list.wanted.search.is_some(), id, |page| {
        for line in &page.lines {
            found.take((&list.wanted, list.limit), after, page, line, observer);
        }
        true
    })
    .await?;
    let Found { page, counted } = found;
    let mut lines = page.into_sorted_vec();
    let fit = fitting(lines.iter().map(|listed| line_len(&listed.line)), list.limit);
    let has_more = lines.len() > fit;
    lines.truncate(fit);
    let next = lines.last().filter(|_| has_more).map(|last| After::Name(last.place.clone()));
    let lines = lines.into_iter().map(|Listed { place, line }| (place.name, line)).collect();
    Ok((envelope, Page { lines, next, counted }))
}

/// The first page in an order that does not hold still. If there are more, the order is kept for them.
async fn first_in_order<'a>(
    observer: &Observer,
    driver: &Handle,
    list: &List,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Page), Problem> {
    let mut found = Found::default();
    let mut order = BinaryHeap::new();
    let envelope = survey(&observer.surveys, driver, list.wanted.search.is_some(), id, |page| {
        for line in &page.lines {
            let Some(place) = found.take((&list.wanted, list.limit), None, page, line, observer) else { continue };
            if order.len() == ORDER_LENGTH_MAX {
                if order.peek().is_some_and(|(last, _)| *last <= place) {
                    continue;
                }
                order.pop();
            }
            order.push((place, line.resource.clone()));
        }
        true
    })
    .await?;
    let keep = |order: BinaryHeap<(ListPlace, ResourceKey)>| {
        let keys = order.into_sorted_vec().into_iter().map(|(_, key)| key).collect();
        observer.frozen.keep(list.wanted.clone(), keys, driver.now().mono_us)
    };
    if list.offset > 0 {
        let (order, keys) = keep(order);
        return cut(observer, driver, list, order, &keys, list.offset, id).await;
    }
    let Found { page, counted } = found;
    let mut lines = page.into_sorted_vec();
    let fit = fitting(lines.iter().map(|listed| line_len(&listed.line)), list.limit);
    let has_more = lines.len() > fit;
    lines.truncate(fit);
    let next = has_more.then(|| After::Frozen { id: keep(order).0, index: fit });
    let lines = lines.into_iter().map(|Listed { place, line }| (place.name, line)).collect();
    Ok((envelope, Page { lines, next, counted }))
}

/// A page of an order that was kept: the resources that are there still, as they are now.
async fn cut<'a>(
    observer: &Observer,
    driver: &Handle,
    list: &List,
    order: u64,
    keys: &[ResourceKey],
    from: usize,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Page), Problem> {
    let upto = from.saturating_add(list.limit).min(keys.len());
    let shown = keys.get(from..upto).unwrap_or(&[]);
    let mut lines: Vec<Option<ResourceLine>> = vec![None; shown.len()];
    let places: HashMap<&ResourceKey, usize> = shown.iter().zip(0..).collect();
    let mut counted = Counted::default();
    let envelope = survey(&observer.surveys, driver, list.wanted.search.is_some(), id, |page| {
        for line in &page.lines {
            counted.count(&list.wanted, line);
            counted.matched += u64::from(list.wanted.place_of(page, line, observer).is_some());
            if let Some(&at) = places.get(&line.resource) {
                lines[at] = Some(ResourceLine { texts: Vec::new(), ..line.clone() });
            }
        }
        true
    })
    .await?;
    // One that is gone takes no room, but its place in the order.
    let fit = fitting(lines.iter().map(|line| line.as_ref().map_or(0, line_len)), list.limit);
    lines.truncate(fit);
    let named = |line: ResourceLine| (public_name(&line.resource, observer.digester()), line);
    let lines = lines.into_iter().flatten().map(named).collect();
    let next = (from + fit < keys.len()).then_some(After::Frozen { id: order, index: from + fit });
    Ok((envelope, Page { lines, next, counted }))
}

/// The last of those to be passed over, after which a page begins; `None` when there are none. Only places are kept,
/// and they are not sorted.
async fn place_before(
    observer: &Observer,
    driver: &Handle,
    list: &List,
    after: Option<&ListPlace>,
    id: &RequestId,
) -> Result<Option<ListPlace>, Problem> {
    let mut places = Vec::new();
    survey(&observer.surveys, driver, list.wanted.search.is_some(), id, |page| {
        let wanted = page.lines.iter().filter_map(|line| list.wanted.place_of(page, line, observer));
        places.extend(wanted.filter(|place| after.is_none_or(|after| place > after)));
        true
    })
    .await?;
    let nth = list.offset.min(places.len()).checked_sub(1);
    Ok(nth.map(|nth| places.select_nth_unstable(nth).1.clone()))
}

/// The pool with this digest, looked for among all pools.
pub(super) async fn find_pool(
    observer: &Observer,
    driver: &Handle,
    digest: PoolDigest,
) -> Result<Option<ResourceKey>, Problem> {
    let digester = observer.digester();
    let mut found = None;
    let id = RequestId::of(&HeaderMap::new());
    survey(&observer.surveys, driver, false, &id, |page| {
        found = found.or_else(|| {
            page.lines.iter().find_map(|line| match line.resource {
                ResourceKey::Pool(pool) => (digester.of(pool) == digest).then_some(pool),
                ResourceKey::Claim(_) | ResourceKey::Lock(_) => None,
            })
        });
        // Pools come first of all kinds.
        found.is_none() && page.lines.iter().all(|line| line.resource.kind() == Kind::Pool)
    })
    .await?;
    Ok(found.map(|pool| {
        digester.remember(pool);
        ResourceKey::Pool(pool)
    }))
}

/// Goes over all resources, partition by partition. In each it ends as soon as `take` wants no more.
pub(crate) async fn survey<'a>(
    surveys: &Semaphore,
    driver: &Handle,
    with_texts: bool,
    id: &'a RequestId,
    mut take: impl FnMut(&SurveyPage) -> bool,
) -> Result<Envelope<'a>, Problem> {
    let _turn = surveys.acquire().await.expect("it is never closed");
    let mut stamps = Vec::new();
    for partition in driver.partitions_of(None) {
        let mut after = None;
        loop {
            let command = Command::Survey { after, scan_max: SCAN_MAX, with_texts };
            let (stamp, answer) = ask_in(driver, partition, command).await;
            let page = match answer {
                Ok(Reply::Survey(page)) => page,
                Ok(other) => unreachable!("a survey is answered as one, not {other:?}"),
                Err(denial) => match unserved(denial) {
                    Ok(refusal) => unreachable!("nothing about a survey is refused: {refusal:?}"),
                    Err(problem) => return Err(problem),
                },
            };
            if !take(&page) || page.next.is_none() {
                stamps.push(stamp);
                break;
            }
            after = page.next;
        }
    }
    Ok(Envelope::gathered(id, Stamps::all(driver, stamps)))
}

fn write(page: Page, envelope: &Envelope<'_>, observer: &Observer) -> Vec<u8> {
    let Page { lines, next, counted: Counted { total, matched, by_kind, by_state } } = page;
    let [pool, claim, lock] = by_kind;
    let [free, held, contended, grace, lapsed] = by_state;
    for (_, line) in &lines {
        if let ResourceKey::Pool(pool) = line.resource {
            // The caller that sees it may look at it next.
            observer.digester().remember(pool);
        }
    }
    to_bytes(&ObservedResources {
        position: envelope.to_position(),
        total,
        matched,
        counts: Counts { pool, claim, lock, free, held, contended, grace, lapsed },
        resources: lines.iter().map(|(name, line)| Line::of(line, name)).collect(),
        next: next.map(|next| next.to_cursor()),
    })
}

/// Resources of every kind.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ObservedResources<'a> {
    position: String,
    total: u64,
    matched: u64,
    counts: Counts,
    resources: Vec<Line<'a>>,
    next: Option<String>,
}

/// All resources, by kind and by state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Counts {
    pool: u64,
    claim: u64,
    lock: u64,
    free: u64,
    held: u64,
    contended: u64,
    grace: u64,
    lapsed: u64,
}

/// A resource in a line.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Line<'a> {
    #[serde(flatten)]
    resource: Keyed<'a>,
    capacity: u32,
    in_use: u32,
    waiting: u32,
    #[schemars(extend("enum" = ResourceState::ALL.map(ResourceState::as_str)))]
    state: &'static str,
    longest_wait_s: Option<FloatSeconds>,
    /// Until a lease or a grace ends by itself.
    next_expiry_s: Option<FloatSeconds>,
    /// The ttl of that lease, to compare `next_expiry_s` with; null for a grace.
    next_expiry_ttl_s: Option<FloatSeconds>,
    /// The name of its holder, or of the first of them: a lock's client or last client, the name a caller signed on
    /// with, or the name in a claim's metadata (`client`, `owner`, `user`, `name`, `who`, `job`, `host` or `by`).
    holder: Option<Cow<'a, str>>,
    /// The name that a pool was given in place of its id.
    label: Option<&'a str>,
    /// While nothing is granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
    /// Slots that are out of service, where there are some.
    #[serde(skip_serializing_if = "May::is_missing")]
    slots_out_of_service: May<u32>,
}

impl<'a> Line<'a> {
    fn of(line: &'a ResourceLine, name: &'a str) -> Self {
        Line {
            resource: Keyed::of(line.resource.kind(), name),
            capacity: line.capacity,
            in_use: line.in_use,
            waiting: line.waiting,
            state: line.state.as_str(),
            longest_wait_s: line.longest_wait_us.map(FloatSeconds),
            next_expiry_s: line.next_expiry_us.map(FloatSeconds),
            next_expiry_ttl_s: line.next_expiry_ttl_us.map(FloatSeconds),
            holder: holder(line),
            label: line.label.as_deref(),
            paused: May(line.pause.as_deref().map(Paused::of)),
            slots_out_of_service: May(Some(line.out_of_service).filter(|&out| out > 0)),
        }
    }
}

/// About how long a line is.
fn line_len(line: &ResourceLine) -> usize {
    let name_len = line.resource.name().map_or(32, |name| name.len());
    // In a key and a name; a label of the holder is cut to the length of a line.
    272 + 2 * name_len
        + line.label.as_ref().map_or(0, |label| label.len())
        + line.pause.as_ref().map_or(0, |pause| 128 + pause.reason.len())
        + line.holder.as_ref().map_or(128, |holder| holder.len())
}

/// How many of these fit on a page of so many, one at least.
pub(super) fn fitting(lens: impl Iterator<Item = usize>, limit: usize) -> usize {
    let mut bytes = 0;
    let fit = lens.take(limit).take_while(|len| {
        bytes += len;
        bytes <= PAGE_BYTES_MAX
    });
    fit.count().max(1)
}

fn holder(line: &ResourceLine) -> Option<Cow<'_, str>> {
    let named = line.holder.as_deref().map(Cow::Borrowed);
    named.or_else(|| line.metadata.as_deref().and_then(label_of).map(Cow::Owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for (rank, name, kind) in [(0, "deploy", Kind::Lock), (u64::MAX, "a.b:c", Kind::Claim), (17, "0f", Kind::Pool)]
        {
            let place = ListPlace { rank, name: Arc::from(name), kind };
            assert_eq!(ListPlace::parse(&place.to_cursor()), Some(place));
        }
        for text in ["", "0", "0.lock", "x.lock:a", "0.door:a"] {
            assert_eq!(ListPlace::parse(text), None, "{text}");
        }
        let frozen = After::Frozen { id: u64::MAX, index: ORDER_LENGTH_MAX };
        assert_eq!(After::parse(&frozen.to_cursor(), Sort::Expiry), Some(frozen.clone()));
        assert_eq!(After::parse(&frozen.to_cursor(), Sort::Name), None, "each order has its own");
        for text in ["", "0", "-", "0-", "-0", "x-0", "0-100001", "0.lock:a"] {
            assert_eq!(After::parse(text, Sort::Waiting), None, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (query, expected) in [
            ("kind=door", r#"kind must be one of pool, claim, lock, got "door""#),
            ("state=gone", r#"state must be one of free, held, contended, grace, lapsed, got "gone""#),
            ("sort=age", r#"sort must be one of name, contended, waiting, wait, expiry, got "age""#),
            ("limit=0", r#"limit must be a whole number from 1 to 500, got "0""#),
            ("limit=501", r#"limit must be a whole number from 1 to 500, got "501""#),
            ("offset=-1", r#"offset must be a whole number from 0 to 100000000, got "-1""#),
            ("after=x", r#"after must be what next was, got "x""#),
            ("page=2", r#"unknown query parameter "page", allowed are kind, state, q, sort, limit, offset, after"#),
        ] {
            assert_eq!(List::parse(&Query::parse(Some(query)).unwrap()).unwrap_err().reason, expected, "{query}");
        }
        assert!(List::parse(&Query::parse(Some("q=")).unwrap()).unwrap().wanted.search.is_none());
    }
}
