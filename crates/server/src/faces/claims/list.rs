//! Lists, page by page. A page is put together from bounded looks at the state, so that a long list holds up no other
//! caller; each claim is shown as it was when it was looked at.

use std::fmt::Write as _;
use std::sync::Arc;

use http::header::LINK;
use http::{HeaderValue, Response, StatusCode};
use leasehold_engine::{
    ClaimFilter, ClaimQuery, ClaimView, Command, Reply as Engine, ResourcePage as ResourceSlice, ResourceView,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::wire::{ClaimListed, Resource};
use super::{filter, wire};
use crate::auth::Caller;
use crate::driver::Handle;
use crate::faces::{Reply, ask, unserved};
use crate::http::json::pieces::{array, array_pieces};
use crate::http::json::{append, shown};
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId, response};
use crate::limits::PAGE_BYTES_MAX;
use crate::limits::{CLAIMS_LIMIT_DEFAULT, CLAIMS_LIMIT_MAX, CLAIMS_OFFSET_MAX};

/// A page up to so long, in bytes, has a length in its head and is put into words at once.
const AT_ONCE_MAX: usize = 64 * 1024;
/// Claims looked at under the lock in one go.
const SCAN_MAX: usize = 2_000;

/// Which part of a list is wanted, and how to ask for the next.
#[derive(Debug)]
pub(crate) struct Page {
    limit: usize,
    offset: usize,
    /// The path and query of this page, without limit and offset.
    target: String,
    base_url: String,
    /// Where callers sign on and this one may not see all of it.
    caller: Option<Caller>,
}

#[derive(Debug)]
pub(crate) struct ClaimList {
    filter: ClaimFilter,
    page: Page,
}

#[derive(Debug)]
pub(crate) struct ResourcePage(Page);

impl ClaimList {
    pub(super) fn parse(query: &Query<'_>, base_url: String) -> Result<Self, Problem> {
        Ok(ClaimList { filter: filter::parse(query)?, page: Page::parse(query, "/v1/claims/", base_url)? })
    }
}

impl ClaimList {
    /// Only items that this caller may see.
    pub(crate) fn shown_to(&mut self, caller: Caller) {
        self.page.caller = Some(caller);
    }
}

impl ResourcePage {
    /// Only items that this caller may see.
    pub(crate) fn shown_to(&mut self, caller: Caller) {
        self.0.caller = Some(caller);
    }

    pub(super) fn parse(query: &Query<'_>, base_url: String) -> Result<Self, Problem> {
        query.refuse_unknown(&["limit", "offset"])?;
        Page::parse(query, "/v1/resources/", base_url).map(ResourcePage)
    }
}

impl Page {
    fn parse(query: &Query<'_>, path: &str, base_url: String) -> Result<Self, Problem> {
        let mut target = format!("{path}?");
        for (name, value) in query.iter().filter(|(name, _)| !matches!(*name, "limit" | "offset")) {
            let _ = write!(target, "{name}={}&", utf8_percent_encode(value, NON_ALPHANUMERIC));
        }
        Ok(Page {
            limit: number(query, "limit", 1..=CLAIMS_LIMIT_MAX)?.unwrap_or(CLAIMS_LIMIT_DEFAULT),
            offset: number(query, "offset", 0..=CLAIMS_OFFSET_MAX)?.unwrap_or(0),
            target,
            base_url,
            caller: None,
        })
    }

    /// The link to the rest.
    fn next_link(&self, shown: usize) -> HeaderValue {
        let Page { limit, offset, target, base_url, .. } = self;
        let link = format!("<{base_url}{target}limit={limit}&offset={}>; rel=\"next\"", offset + shown);
        HeaderValue::try_from(link).expect("a host header and an encoded query make a header value")
    }

    /// Short pages are written at once, long ones as they are read.
    fn answer<T: Send + 'static>(
        &self,
        reply: &Reply<'_>,
        shown: Shown<T>,
        write: impl Fn(&mut Vec<u8>, &T) + Send + 'static,
    ) -> Response<Body> {
        let Shown { items, bytes, has_more } = shown;
        let link = has_more.then(|| self.next_link(items.len()));
        let body = if bytes <= AT_ONCE_MAX {
            Body::from(array(&items, write))
        } else {
            Body::made(bytes, array_pieces(items, write))
        };
        let mut response = response::json(StatusCode::OK, reply.id, body);
        if let Some(link) = link {
            response.headers_mut().insert(LINK, link);
        }
        reply.positioned(response)
    }
}

/// The items of a page.
#[derive(Debug)]
struct Shown<T> {
    items: Vec<T>,
    /// About how long they are.
    bytes: usize,
    has_more: bool,
}

impl<T> Shown<T> {
    fn new() -> Self {
        Shown { items: Vec::new(), bytes: 0, has_more: false }
    }

    /// Adds one of this length, or notes that the page is full. There is always room for one.
    fn add(&mut self, item: T, len: usize, limit: usize) {
        let fits = self.items.is_empty() || self.bytes + len <= PAGE_BYTES_MAX;
        if self.has_more || self.items.len() >= limit || !fits {
            self.has_more = true;
            return;
        }
        self.bytes += len;
        self.items.push(item);
    }
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

pub(super) async fn claims(driver: &Handle, list: ClaimList, id: &RequestId) -> Result<Response<Body>, Problem> {
    let ClaimList { filter, page } = list;
    let mut shown: Shown<ClaimView> = Shown::new();
    let mut to_skip = page.offset;
    let mut after = 0;
    loop {
        // One more than wanted tells whether there is a next page.
        let limit = (to_skip + page.limit + 1 - shown.items.len()).min(SCAN_MAX);
        let query = ClaimQuery { filter: filter.clone(), after, limit, scan_max: SCAN_MAX };
        let (reply, answer) = ask(driver, Command::ListClaims(Box::new(query)).into(), id).await;
        let mut found = match answer {
            Ok(Engine::Claims(found)) => found,
            Ok(other) => unreachable!("a list is answered with a list, not {other:?}"),
            Err(denial) => return super::refusal::word(&unserved(denial)?, &reply),
        };
        if let Some(caller) = &page.caller {
            found.claims.retain(|view| caller.sees(&view.resource, view.owner.as_ref()));
        }
        let skipped = to_skip.min(found.claims.len());
        to_skip -= skipped;
        for view in found.claims.into_iter().skip(skipped) {
            let len = page.base_url.len() + wire::claim_len(&view);
            shown.add(view, len, page.limit);
        }
        match found.next {
            Some(next) if !shown.has_more => after = next,
            _ => {
                let base_url = page.base_url.clone();
                return Ok(
                    page.answer(&reply, shown, move |bytes, view| append(bytes, &ClaimListed::of(&base_url, view)))
                );
            }
        }
    }
}

pub(super) async fn resources(driver: &Handle, page: ResourcePage, id: &RequestId) -> Result<Response<Body>, Problem> {
    let ResourcePage(page) = page;
    let mut shown: Shown<ResourceView> = Shown::new();
    let mut to_skip = page.offset;
    let mut after: Option<Arc<str>> = None;
    loop {
        let limit = (to_skip + page.limit + 1 - shown.items.len()).min(SCAN_MAX);
        let command = Command::ListResources { after, limit, scan_max: SCAN_MAX };
        let (reply, answer) = ask(driver, command.into(), id).await;
        let ResourceSlice { resources: mut found, next } = match answer {
            Ok(Engine::Resources(found)) => found,
            Ok(other) => unreachable!("a list is answered with a list, not {other:?}"),
            Err(denial) => return super::refusal::word(&unserved(denial)?, &reply),
        };
        if let Some(caller) = &page.caller {
            found.retain(|view| view.resource.name().is_some_and(|name| caller.sees_resource(name)));
        }
        let skipped = to_skip.min(found.len());
        to_skip -= skipped;
        for view in found.into_iter().skip(skipped) {
            let len = wire::resource_len(&view);
            shown.add(view, len, page.limit);
        }
        if next.is_none() || shown.has_more {
            return Ok(page.answer(&reply, shown, |bytes, view| append(bytes, &Resource::of(view))));
        }
        after = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_and_at_its_bytes_and_has_room_for_one() {
        for (lens, limit, taken, has_more) in [
            (vec![1, 1, 1], 3, 3, false),
            (vec![1, 1, 1, 1], 3, 3, true),
            (vec![PAGE_BYTES_MAX - 1, 1], 3, 2, false),
            (vec![PAGE_BYTES_MAX - 1, 2], 3, 1, true),
            (vec![PAGE_BYTES_MAX + 1], 3, 1, false),
            (vec![PAGE_BYTES_MAX + 1, 1], 3, 1, true),
            (vec![PAGE_BYTES_MAX, 1, 1], 3, 1, true),
        ] {
            let mut shown = Shown::new();
            for len in &lens {
                shown.add((), *len, limit);
            }
            assert_eq!((shown.items.len(), shown.has_more), (taken, has_more), "{lens:?}");
        }
    }

    #[test]
    fn pieces_make_the_same_array() {
        for count in [0, 1, 2, 1_000, 50_000] {
            let items: Vec<u64> = (0..count).collect();
            let write = |bytes: &mut Vec<u8>, item: &u64| append(bytes, item);
            let whole = array(&items, write);
            let pieces: Vec<bytes::Bytes> = array_pieces(items, write).collect();
            assert!(
                pieces.len() <= whole.len() / (16 * 1024) + 1 && pieces.iter().all(|piece| piece.len() < 17 * 1024)
            );
            assert_eq!(pieces.concat(), whole, "{count}");
        }
    }
}
