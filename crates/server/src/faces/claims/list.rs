//! Lists, page by page. A page is put together from bounded looks at the state, so that a long list holds up no other
//! caller; each claim is shown as it was when it was looked at.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use http::header::LINK;
use http::{HeaderValue, Response, StatusCode};
use leasehold_engine::{
    ClaimFilter, ClaimPage, ClaimQuery, ClaimView, Command, Reply, ResourceKey, ResourcePage, ResourceView, Wall,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::merge::{Mergeable, Merged, SCAN_MAX, Shown, merge};
use super::wire::{ClaimListed, Resource};
use super::{filter, wire};
use crate::auth::Caller;
use crate::driver::Handle;
use crate::faces::{Envelope, Stamps, unserved};
use crate::http::json::pieces::{array, array_pieces};
use crate::http::json::{append, shown};
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId};
use crate::limits::{CLAIMS_LIMIT_DEFAULT, CLAIMS_LIMIT_MAX, CLAIMS_OFFSET_MAX};
use crate::response;

/// A page of at most so many bytes is rendered at once and has a `Content-Length`; a longer one is rendered while it is
/// read.
const AT_ONCE_MAX: usize = 64 * 1024;

/// Which part of a list is wanted, and how to ask for the next.
#[derive(Debug)]
pub(crate) struct Paging {
    limit: usize,
    offset: usize,
    /// … or after which place, as the link to it said.
    after: Option<String>,
    /// The path and query of this page, without limit, offset and after.
    target: String,
    base_url: String,
    /// Where callers sign on and this one may not see all of it.
    caller: Option<Caller>,
}

#[derive(Debug)]
pub(crate) struct ClaimList {
    filter: ClaimFilter,
    page: Paging,
}

#[derive(Debug)]
pub(crate) struct ResourceList(Paging);

impl ClaimList {
    pub(super) fn parse(query: &Query<'_>, base_url: String) -> Result<Self, Problem> {
        Ok(ClaimList { filter: filter::parse(query)?, page: Paging::parse(query, "/v1/claims/", base_url)? })
    }
}

impl ClaimList {
    /// Only items that this caller may see.
    pub(crate) fn shown_to(&mut self, caller: Caller) {
        self.page.caller = Some(caller);
    }
}

impl ResourceList {
    /// Only items that this caller may see.
    pub(crate) fn shown_to(&mut self, caller: Caller) {
        self.0.caller = Some(caller);
    }

    pub(super) fn parse(query: &Query<'_>, base_url: String) -> Result<Self, Problem> {
        query.refuse_unknown(&["limit", "offset", "after"])?;
        Paging::parse(query, "/v1/resources/", base_url).map(ResourceList)
    }
}

impl Paging {
    fn parse(query: &Query<'_>, path: &str, base_url: String) -> Result<Self, Problem> {
        let mut target = format!("{path}?");
        for (name, value) in query.iter().filter(|(name, _)| !matches!(*name, "limit" | "offset" | "after")) {
            let _ = write!(target, "{name}={}&", utf8_percent_encode(value, NON_ALPHANUMERIC));
        }
        Ok(Paging {
            limit: number(query, "limit", 1..=CLAIMS_LIMIT_MAX)?.unwrap_or(CLAIMS_LIMIT_DEFAULT),
            offset: number(query, "offset", 0..=CLAIMS_OFFSET_MAX)?.unwrap_or(0),
            after: query.get("after").map(str::to_owned),
            target,
            base_url,
            caller: None,
        })
    }

    /// The places in this many partitions after which the page begins.
    fn places(&self, partitions: usize) -> Result<Vec<u64>, Problem> {
        let Some(after) = &self.after else { return Ok(vec![0; partitions]) };
        let places: Option<Vec<u64>> = after.split('.').map(|place| place.parse().ok()).collect();
        places.filter(|places| places.len() == partitions).ok_or_else(|| {
            Problem::about("after", format!("after must be what the link to the next page had, got {}", shown(after)))
        })
    }

    /// The link to the rest, if there is more. With several partitions it names the place in each, so that following
    /// it costs a page.
    fn next<T>(&self, driver: &Handle, page: &Shown<T>, after: &str) -> Option<HeaderValue> {
        let Paging { limit, offset, target, base_url, .. } = self;
        let link = if driver.has_many() {
            format!("<{base_url}{target}limit={limit}&after={after}>; rel=\"next\"")
        } else {
            format!("<{base_url}{target}limit={limit}&offset={}>; rel=\"next\"", offset + page.items.len())
        };
        page.has_more
            .then(|| HeaderValue::try_from(link).expect("a host header and an encoded query make a header value"))
    }
}

/// Short pages are written at once, long ones as they are read.
fn answer<T: Send + 'static>(
    envelope: &Envelope<'_>,
    Shown { items, bytes, .. }: Shown<T>,
    next: Option<HeaderValue>,
    write: impl Fn(&mut Vec<u8>, &T) + Send + 'static,
) -> Response<Body> {
    let mut response = if bytes <= AT_ONCE_MAX {
        response::json(StatusCode::OK, envelope.id, array(&items, write))
    } else {
        response::json_whole(StatusCode::OK, envelope.id, Body::made(bytes, array_pieces(items, write)))
    };
    if let Some(next) = next {
        response.headers_mut().insert(LINK, next);
    }
    envelope.positioned(response)
}

fn number(
    query: &Query<'_>,
    name: &'static str,
    allowed: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, Problem> {
    let Some(text) = query.get(name) else { return Ok(None) };
    if let Some(number) = text.parse().ok().filter(|number| allowed.contains(number)) {
        Ok(Some(number))
    } else {
        let (low, high) = (allowed.start(), allowed.end());
        let reason = format!("{name} must be a whole number from {low} to {high}, got {}", shown(text));
        Err(Problem::about(name, reason))
    }
}

impl Mergeable for ClaimList {
    type Item = ClaimView;
    type After = u64;
    type Order = Wall;

    fn slice(&self, after: u64, limit: usize) -> Command {
        let query = ClaimQuery { filter: self.filter.clone(), after, limit, scan_max: SCAN_MAX };
        Command::ListClaims(Box::new(query))
    }

    fn items(&self, answer: Reply) -> (Vec<ClaimView>, Option<u64>) {
        let Reply::Claims(ClaimPage { mut claims, next }) = answer else {
            unreachable!("a list is answered with a list, not {answer:?}")
        };
        if let Some(caller) = &self.page.caller {
            claims.retain(|view| caller.sees(&view.resource, view.owner.as_ref()));
        }
        (claims, next)
    }

    /// Oldest first, as far as the clocks of the partitions agree.
    fn order(view: &ClaimView) -> Wall {
        view.history.created
    }

    fn place(view: &ClaimView) -> u64 {
        view.order
    }

    fn len(&self, view: &ClaimView) -> usize {
        self.page.base_url.len() + wire::claim_len(view)
    }
}

impl Mergeable for ResourceList {
    type Item = ResourceView;
    type After = Option<Arc<str>>;
    type Order = Option<Arc<str>>;

    fn slice(&self, after: Option<Arc<str>>, limit: usize) -> Command {
        Command::ListResources { after, limit, scan_max: SCAN_MAX }
    }

    fn items(&self, answer: Reply) -> (Vec<ResourceView>, Option<Option<Arc<str>>>) {
        let Reply::Resources(ResourcePage { mut resources, next }) = answer else {
            unreachable!("a list is answered with a list, not {answer:?}")
        };
        if let Some(caller) = &self.0.caller {
            resources.retain(|view| view.resource.name().is_some_and(|name| caller.sees_resource(name)));
        }
        (resources, next.map(Some))
    }

    fn order(view: &ResourceView) -> Option<Arc<str>> {
        view.resource.name().cloned()
    }

    fn place(view: &ResourceView) -> Option<Arc<str>> {
        view.resource.name().cloned()
    }

    fn len(&self, view: &ResourceView) -> usize {
        wire::resource_len(view)
    }
}

pub(super) async fn claims(driver: &Handle, list: ClaimList, id: &RequestId) -> Result<Response<Body>, Problem> {
    let resource = list.filter.resource.clone().map(ResourceKey::Claim);
    let partitions = driver.partitions_of(resource.as_ref());
    let after = list.page.places(partitions.len())?;
    let (envelope, Merged { shown, places, .. }) =
        match gather(driver, &list, (partitions, after), &list.page, id).await? {
            Ok(gathered) => gathered,
            Err(refused) => return Ok(refused),
        };
    let places: Vec<String> = places.iter().map(u64::to_string).collect();
    let (next, base_url) = (list.page.next(driver, &shown, &places.join(".")), list.page.base_url);
    Ok(answer(&envelope, shown, next, move |bytes, view| append(bytes, &ClaimListed::of(&base_url, view))))
}

pub(super) async fn resources(driver: &Handle, list: ResourceList, id: &RequestId) -> Result<Response<Body>, Problem> {
    let partitions = driver.partitions_of(None);
    let after = vec![list.0.after.as_deref().map(Arc::from); partitions.len()];
    let (envelope, Merged { shown, .. }) = match gather(driver, &list, (partitions, after), &list.0, id).await? {
        Ok(gathered) => gathered,
        Err(refused) => return Ok(refused),
    };
    let final_name = shown.items.last().and_then(|view| view.resource.name()).map_or("", |name| name);
    let next = list.0.next(driver, &shown, &utf8_percent_encode(final_name, NON_ALPHANUMERIC).to_string());
    Ok(answer(&envelope, shown, next, |bytes, view| append(bytes, &Resource::of(view))))
}

type Gathered<'a, L> = (Envelope<'a>, Merged<<L as Mergeable>::Item, <L as Mergeable>::After>);

/// A page of a list, or the refusal of one of its partitions: never a part of the list.
async fn gather<'a, L: Mergeable>(
    driver: &Handle,
    list: &L,
    from: (Range<u32>, Vec<L::After>),
    page: &Paging,
    id: &'a RequestId,
) -> Result<Result<Gathered<'a, L>, Response<Body>>, Problem> {
    match merge(driver, list, from, (page.offset, page.limit)).await {
        Ok(mut merged) => {
            let envelope = Envelope::gathered(id, Stamps::all(driver, std::mem::take(&mut merged.stamps)));
            Ok(Ok((envelope, merged)))
        }
        Err((stamp, denial)) => {
            let envelope = Envelope::gathered(id, Stamps::all(driver, vec![stamp]));
            super::refusal::word(&unserved(denial)?, &envelope).map(Err)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_same_array() {
        for count in [0, 1, 2, 1_000, 50_000] {
            let items: Vec<u64> = (0..count).collect();
            let write = |bytes: &mut Vec<u8>, item: &u64| append(bytes, item);
            let whole = [array(&items, write), b"\n".to_vec()].concat();
            let pieces: Vec<bytes::Bytes> = array_pieces(items, write).collect();
            assert!(
                pieces.len() <= whole.len() / (16 * 1024) + 1 && pieces.iter().all(|piece| piece.len() < 17 * 1024)
            );
            assert_eq!(pieces.concat(), whole, "{count}");
        }
    }
}
