//! The latest events, in the order of the journal. Bounded in number and in bytes: the oldest make room. Its readers
//! have a cursor each, the position up to which they have seen; it knows nothing of them.

use std::collections::VecDeque;
use std::fmt;

use leasehold_engine::{Effect, Names, Wall, What};
use leasehold_journal::{Epoch, Happened, Position, Retold};

/// Room for an event and its names, on average. Names of a kilobyte each make the ring hold fewer events, not more
/// bytes.
const BYTES_PER_EVENT: usize = 512;

/// Room set aside at once, so that growing never copies events on the committer's thread. Untouched, it costs nothing.
const RESERVED_MAX: usize = 1 << 20;

/// A place in the history of this data: the value of `Last-Event-ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) epoch: Epoch,
    pub(crate) position: Position,
}

impl EventId {
    pub(crate) fn of(happened: &Happened) -> EventId {
        EventId { epoch: happened.epoch, position: happened.position }
    }

    /// `<epoch>.<position>`
    pub(crate) fn parse(text: &str) -> Option<EventId> {
        let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let (epoch, position) = text.split_once('.')?;
        Some(EventId { epoch: Epoch(number(epoch)?), position: Position(number(position)?) })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.position)
    }
}

#[derive(Debug)]
pub(crate) struct Ring {
    /// Positions rise.
    events: VecDeque<Happened>,
    events_max: usize,
    bytes: usize,
    /// Every event after this position is here.
    complete_after: Position,
    /// … which is since then.
    complete_since: Wall,
    /// The reigns: each epoch and the position after which it began. The last one is the present.
    reigns: VecDeque<(Epoch, Position)>,
    /// Events may come later here than at another node, and a reader may come from there.
    is_following: bool,
}

/// Where a reader goes on that has been here before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// Exactly where it left.
    After(Position),
    /// Not where it left, but from the oldest event that is kept.
    Gap { reason: &'static str, after: Position },
}

/// A reader's cursor has fallen out of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FellBehind;

impl Ring {
    pub(crate) fn new(events_max: usize) -> Self {
        Ring {
            events: VecDeque::new(),
            events_max,
            bytes: 0,
            complete_after: Position::START,
            complete_since: Wall(0),
            reigns: VecDeque::new(),
            is_following: false,
        }
    }

    /// For a partition of a cluster, as one of its nodes sees it.
    pub(crate) fn following(events_max: usize) -> Self {
        Ring { is_following: true, ..Ring::new(events_max) }
    }

    /// The partition starts: with the past events of the journal, under a new epoch.
    pub(crate) fn begin(&mut self, epoch: Epoch, head: Position, history: Retold, now: Wall) {
        let Retold { events, complete_after, reigns } = history;
        self.complete_after = complete_after;
        self.complete_since = events.front().map_or(now, |oldest| oldest.wall);
        self.reigns = reigns.into_iter().chain([(epoch, head)]).collect();
        self.events.reserve(self.events_max.min(RESERVED_MAX));
        for happened in events {
            self.push(happened);
        }
    }

    /// Changes up to here are not known: those that are kept no longer join on to what comes.
    pub(crate) fn skip(&mut self, upto: Position, now: Wall) {
        self.events.clear();
        self.bytes = 0;
        self.complete_after = upto;
        self.complete_since = now;
    }

    /// Returns how many of the oldest had to make room.
    pub(crate) fn push(&mut self, happened: Happened) -> u64 {
        assert!(self.last().is_none_or(|last| last < happened.position), "events come in the order of the journal");
        if self.reigns.back().is_none_or(|&(epoch, _)| epoch < happened.epoch) {
            // Of a partition that this node follows: its owners change while it is served here.
            let after = Position(happened.position.0 - 1).max(self.last().unwrap_or(self.complete_after));
            self.reigns.push_back((happened.epoch, after));
        }
        self.bytes += bytes_of(&happened);
        let bytes_max = self.events_max.saturating_mul(BYTES_PER_EVENT);
        let mut dropped = 0;
        // Room first, so that the room set aside at the beginning is enough for ever.
        while (self.events.len() >= self.events_max || self.bytes > bytes_max)
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= bytes_of(&oldest);
            self.complete_after = oldest.position;
            self.complete_since = oldest.wall;
            dropped += 1;
        }
        self.events.push_back(happened);
        while self.reigns.get(1).is_some_and(|&(_, after)| after <= self.complete_after) {
            self.reigns.pop_front();
        }
        dropped
    }

    pub(crate) fn last(&self) -> Option<Position> {
        self.events.back().map(|happened| happened.position)
    }

    /// The id from which on everything is here. Resuming there leaves nothing out that is still known.
    pub(crate) fn oldest_id(&self) -> EventId {
        let epoch = self.reigns.front().map_or(Epoch::default(), |&(epoch, _)| epoch);
        EventId { epoch, position: self.complete_after }
    }

    /// The id of the latest event, or the place it would have.
    pub(crate) fn newest_id(&self) -> EventId {
        self.events.back().map_or_else(|| self.oldest_id(), EventId::of)
    }

    pub(crate) fn complete_since(&self) -> Wall {
        self.complete_since
    }

    /// Where a reader goes on that last saw `id`. `head` is the last durable position.
    ///
    /// Positions alone would do, but for data that was put back to an earlier state: there the same positions were used
    /// twice, and only the epoch tells which history an id is from.
    pub(crate) fn resume(&self, id: EventId, head: Position) -> Resume {
        let EventId { epoch, position } = id;
        let gap = |reason| Resume::Gap { reason, after: self.complete_after };
        if position < self.complete_after {
            return gap("older than what is kept");
        }
        let is_ahead = self.last().unwrap_or(self.complete_after) <= position
            && self.reigns.back().is_none_or(|&(newest, _)| newest <= epoch);
        if self.is_following && is_ahead {
            // The reader heard of it from another node first: it arrives here in a moment.
            return Resume::After(position);
        }
        let began_after = |nth: usize| self.reigns.get(nth).map(|&(_, after)| after);
        let is_ours = match self.reigns.iter().rposition(|&(known, _)| known <= epoch) {
            // An epoch before the oldest known one: the same place only where knowledge begins.
            None => began_after(0) == Some(position),
            Some(nth) => {
                let is_itself = self.reigns[nth].0 == epoch;
                let from = if nth == 0 { self.complete_after } else { self.reigns[nth].1 };
                match began_after(nth + 1) {
                    // An epoch that appended nothing stood where the next one began.
                    Some(upto) if !is_itself => position == upto,
                    Some(upto) => (from..=upto).contains(&position),
                    None => is_itself && (from..=self.last().map_or(head, |last| last.max(head))).contains(&position),
                }
            }
        };
        if is_ours { Resume::After(position) } else { gap("of another history") }
    }

    /// Looks at no more than `scan_max` events after the cursor, takes up to `limit` of those that are `wanted`, and
    /// moves the cursor on.
    pub(crate) fn read(
        &self,
        cursor: &mut Position,
        scan_max: usize,
        limit: usize,
        mut wanted: impl FnMut(&Effect) -> bool,
    ) -> Result<Vec<Happened>, FellBehind> {
        if *cursor < self.complete_after {
            return Err(FellBehind);
        }
        let from = self.events.partition_point(|happened| happened.position <= *cursor);
        let mut taken = Vec::new();
        for happened in self.events.range(from..).take(scan_max) {
            *cursor = happened.position;
            if wanted(&happened.effect) {
                taken.push(happened.clone());
                if taken.len() == limit {
                    break;
                }
            }
        }
        Ok(taken)
    }

    /// The same backwards, from the newest before the cursor. `None` when there are no older ones.
    pub(crate) fn read_back(&self, before: Position, scan_max: usize) -> Option<impl Iterator<Item = &Happened>> {
        let upto = self.events.partition_point(|happened| happened.position < before);
        (upto > 0).then(|| self.events.range(..upto).rev().take(scan_max))
    }

    pub(crate) fn is_at_end(&self, cursor: Position) -> bool {
        self.last().is_none_or(|last| last <= cursor)
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.events.capacity()
    }

    #[cfg(test)]
    pub(crate) fn measures(&self) -> (usize, usize) {
        (self.events.len(), self.bytes)
    }
}

/// The bytes of an event, with names counted as if they were not shared.
fn bytes_of(happened: &Happened) -> usize {
    let effect = &happened.effect;
    let from = match &effect.what {
        What::Granted { from, .. } => from.as_ref(),
        _ => None,
    };
    let rare = effect.names.as_deref();
    let names = [effect.resource.name(), effect.client.as_ref(), from];
    let rare_names = rare.into_iter().flat_map(|names| [&names.holder, &names.principal, &names.label]);
    let names = names.into_iter().chain(rare_names.map(Option::as_ref));
    let rare_bytes = rare.map_or(0, |_| size_of::<Names>());
    size_of::<Happened>() + rare_bytes + names.flatten().map(|name| name.len()).sum::<usize>()
}
