//! A list over all partitions as one. Each partition gives its items in its own order, slice by slice as they are
//! needed, and the first of all of them comes next. With one partition this is its list.

use std::collections::VecDeque;
use std::ops::Range;

use leasehold_engine::{Command, Reply};
use leasehold_journal::Denial;

use crate::driver::{Handle, Stamp};
use crate::faces::ask_in;
use crate::limits::PAGE_BYTES_MAX;

/// Items looked at under the lock in one go.
pub(super) const SCAN_MAX: usize = 2_000;

/// A list that can be asked of a partition.
pub(super) trait Mergeable: Sync {
    type Item: Send;
    /// A place in the order of one partition, after which its list goes on.
    type After: Clone + Send + Sync;
    type Order: Ord;

    /// Asks for the next items of a partition.
    fn slice(&self, after: Self::After, limit: usize) -> Command;

    /// The items of the answer that the caller may see, and where to go on.
    fn items(&self, answer: Reply) -> (Vec<Self::Item>, Option<Self::After>);

    /// The order of items of different partitions.
    fn order(item: &Self::Item) -> Self::Order;

    /// The place of an item in the order of its own partition.
    fn place(item: &Self::Item) -> Self::After;

    /// About how long it is.
    fn len(&self, item: &Self::Item) -> usize;
}

/// A page, and how to go on.
#[derive(Debug)]
pub(super) struct Merged<T, A> {
    pub(super) shown: Shown<T>,
    /// The places of the answers that the page was put together from.
    pub(super) stamps: Vec<Stamp>,
    /// The place in each partition after which the next page begins.
    pub(super) places: Vec<A>,
}

/// The items of a page.
#[derive(Debug)]
pub(super) struct Shown<T> {
    pub(super) items: Vec<T>,
    /// About how long they are.
    pub(super) bytes: usize,
    pub(super) has_more: bool,
}

impl<T> Shown<T> {
    pub(super) fn new() -> Self {
        Shown { items: Vec::new(), bytes: 0, has_more: false }
    }

    /// Returns whether one of this length still fits. There is always room for one.
    pub(super) fn has_room(&self, len: usize, limit: usize) -> bool {
        self.items.len() < limit && (self.items.is_empty() || self.bytes + len <= PAGE_BYTES_MAX)
    }

    pub(super) fn add(&mut self, item: T, len: usize) {
        self.bytes += len;
        self.items.push(item);
    }
}

/// The list of one partition, as far as it was asked for.
struct Source<L: Mergeable> {
    partition: u32,
    items: VecDeque<L::Item>,
    /// The last item that was shown or passed over.
    passed: L::After,
    /// Where the next slice begins; `None` after the last one.
    next: Option<L::After>,
    stamp: Option<Stamp>,
}

impl<L: Mergeable> Source<L> {
    /// Asks until there is an item, or no more.
    async fn fill(&mut self, driver: &Handle, list: &L, limit: usize) -> Result<(), (Stamp, Denial)> {
        while self.items.is_empty()
            && let Some(after) = self.next.take()
        {
            let (stamp, answer) = ask_in(driver, self.partition, list.slice(after, limit)).await;
            let (items, next) = list.items(answer.map_err(|denial| (stamp, denial))?);
            (self.items, self.next, self.stamp) = (items.into(), next, Some(stamp));
        }
        Ok(())
    }
}

/// Passes over `offset` items and shows up to `limit`, as far as they fit on a page.
pub(super) async fn merge<L: Mergeable>(
    driver: &Handle,
    list: &L,
    from: (Range<u32>, Vec<L::After>),
    (offset, limit): (usize, usize),
) -> Result<Merged<L::Item, L::After>, (Stamp, Denial)> {
    let (partitions, after) = from;
    let mut sources: Vec<Source<L>> = partitions
        .zip(after)
        .map(|(partition, after)| {
            let (passed, next) = (after.clone(), Some(after));
            Source { partition, items: VecDeque::new(), passed, next, stamp: None }
        })
        .collect();
    let mut shown = Shown::new();
    let mut to_skip = offset;
    loop {
        // One more than wanted tells whether there is a next page.
        let wanted = (to_skip + limit + 1 - shown.items.len()).min(SCAN_MAX);
        for source in &mut sources {
            source.fill(driver, list, wanted).await?;
        }
        let next = sources.iter_mut().filter(|source| !source.items.is_empty());
        let Some(source) = next.min_by_key(|source| L::order(&source.items[0])) else { break };
        let len = list.len(&source.items[0]);
        if to_skip == 0 && !shown.has_room(len, limit) {
            shown.has_more = true;
            break;
        }
        let item = source.items.pop_front().expect("one was found there");
        source.passed = L::place(&item);
        if to_skip > 0 {
            to_skip -= 1;
        } else {
            shown.add(item, len);
        }
    }
    let stamps = sources.iter().filter_map(|source| source.stamp).collect();
    Ok(Merged { shown, stamps, places: sources.into_iter().map(|source| source.passed).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_and_at_its_bytes_and_has_room_for_one() {
        for (lens, limit, taken) in [
            (vec![1, 1, 1], 3, 3),
            (vec![1, 1, 1, 1], 3, 3),
            (vec![PAGE_BYTES_MAX - 1, 1], 3, 2),
            (vec![PAGE_BYTES_MAX - 1, 2], 3, 1),
            (vec![PAGE_BYTES_MAX + 1], 3, 1),
            (vec![PAGE_BYTES_MAX + 1, 1], 3, 1),
            (vec![PAGE_BYTES_MAX, 1, 1], 3, 1),
        ] {
            let mut shown = Shown::new();
            for &len in &lens {
                if !shown.has_room(len, limit) {
                    break;
                }
                shown.add((), len);
            }
            assert_eq!(shown.items.len(), taken, "{lens:?}");
        }
    }
}
