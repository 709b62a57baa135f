//! Looking over all resources: which of them are wanted, in which order, and how many there are of each kind. The walk
//! itself asks the engine slice by slice and is up to the face; only the lines of a page are kept here.

use std::collections::BinaryHeap;
use std::sync::Arc;

use leasehold_auth::policy::Sight;
use leasehold_engine::{Kind, ResourceLine, ResourceState, SurveyPage};

use super::Observer;
use super::key::{parse_kind, public_name};
use super::label::{label_of, may_have};
use crate::limits::SEARCHED_MAX;

/// The filter and order of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) kind: Option<Kind>,
    pub(crate) state: Option<ResourceState>,
    /// In lower case.
    pub(crate) search: Option<String>,
    pub(crate) sort: Sort,
    /// Those that the caller may observe. A list that goes on must be the same caller's, or that of one who sees the
    /// same.
    pub(crate) sight: Sight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Name,
    /// Those in which claims wait first, then those in grace, then the rest, each by name.
    Contended,
    /// The longest queue first.
    Waiting,
    /// The longest wait first.
    Wait,
    /// The next to expire first.
    Expiry,
}

/// The place of a resource in a list: by its sort key, then by name, then by kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPlace {
    pub(crate) rank: u64,
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
}

impl ListPlace {
    pub(crate) fn parse(text: &str) -> Option<ListPlace> {
        let (rank, rest) = text.split_once('.')?;
        let (kind, name) = rest.split_once(':')?;
        Some(ListPlace { rank: u64::from_str_radix(rank, 16).ok()?, name: Arc::from(name), kind: parse_kind(kind)? })
    }

    pub(crate) fn to_cursor(&self) -> String {
        format!("{:x}.{}:{}", self.rank, self.kind.as_str(), self.name)
    }
}

impl Wanted {
    pub(crate) fn wants(&self, line: &ResourceLine, name: &str) -> bool {
        self.sight.shows(&line.resource)
            && self.kind.is_none_or(|kind| kind == line.resource.kind())
            && self.state.is_none_or(|state| state == line.state)
            && self.search.as_ref().is_none_or(|search| {
                let has = |text: &str| text.to_lowercase().contains(&**search);
                let named =
                    || line.metadata.as_deref().filter(|metadata| may_have(metadata, search)).and_then(label_of);
                let begins = |text: &Arc<str>| has(&text[..text.floor_char_boundary(SEARCHED_MAX)]);
                has(name)
                    || line.label.as_deref().is_some_and(has)
                    || line.holder.as_deref().is_some_and(has)
                    || named().is_some_and(|label| has(&label))
                    || line.texts.iter().any(begins)
            })
    }

    /// The place of a resource, if it is wanted.
    pub(crate) fn place_of(&self, page: &SurveyPage, line: &ResourceLine, observer: &Observer) -> Option<ListPlace> {
        let name = public_name(&line.resource, observer.digester());
        self.wants(line, &name).then(|| self.place(page, line, name))
    }

    pub(crate) fn place(&self, page: &SurveyPage, line: &ResourceLine, name: Arc<str>) -> ListPlace {
        let rank = match self.sort {
            Sort::Name => 0,
            Sort::Contended => match line.state {
                _ if line.waiting > 0 => 0,
                ResourceState::Contended => 0,
                ResourceState::Grace => 1,
                ResourceState::Held => 2,
                ResourceState::Free | ResourceState::Lapsed => 3,
            },
            // A point in time, too: the first to come has waited longest.
            Sort::Wait => line.longest_wait_us.map_or(u64::MAX, |waited_us| page.now.at.0.saturating_sub(waited_us)),
            Sort::Waiting => u64::MAX - u64::from(line.waiting),
            // A point in time, so that it stays the same while time goes on.
            Sort::Expiry => line.next_expiry_us.map_or(u64::MAX, |left_us| page.now.at.plus(left_us).0),
        };
        ListPlace { rank, name, kind: line.resource.kind() }
    }
}

/// A line of the page, ordered by its place.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) place: ListPlace,
    pub(crate) line: ResourceLine,
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}
impl Eq for Listed {}
impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Listed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// The result of a survey.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The first ones after the cursor, the last of them on top; one more than the page has, if there are more.
    pub(crate) page: BinaryHeap<Listed>,
    pub(crate) counted: Counted,
}

/// All resources that the caller may observe, by kind and by state, and how many were wanted.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) total: u64,
    pub(crate) matched: u64,
    pub(crate) by_kind: [u64; Kind::ALL.len()],
    pub(crate) by_state: [u64; ResourceState::ALL.len()],
}

impl Counted {
    pub(crate) fn count(&mut self, wanted: &Wanted, line: &ResourceLine) {
        if !wanted.sight.shows(&line.resource) {
            return;
        }
        self.total += 1;
        self.by_kind[line.resource.kind() as usize] += 1;
        self.by_state[line.state as usize] += 1;
    }
}

impl Found {
    /// Takes a line in. Returns its place if it is wanted.
    pub(crate) fn take(
        &mut self,
        (wanted, limit): (&Wanted, usize),
        after: Option<&ListPlace>,
        page: &SurveyPage,
        line: &ResourceLine,
        observer: &Observer,
    ) -> Option<ListPlace> {
        self.counted.count(wanted, line);
        let place = wanted.place_of(page, line, observer)?;
        self.counted.matched += 1;
        if after.is_some_and(|after| place <= *after) {
            return Some(place);
        }
        if self.page.len() > limit {
            if self.page.peek().is_some_and(|last| last.place <= place) {
                return Some(place);
            }
            self.page.pop();
        }
        // The texts were for the search alone.
        let line = ResourceLine { texts: Vec::new(), ..line.clone() };
        self.page.push(Listed { place: place.clone(), line });
        Some(place)
    }
}
