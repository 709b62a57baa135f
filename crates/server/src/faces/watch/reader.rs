//! One reader of events: its cursor, its filter, and the next piece to send.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use leasehold_engine::Effect;
use leasehold_journal::Position;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::subscription::{Filter, OneResource, Subscription};
use super::wire;
use crate::auth::Standing;
use crate::code::Code;
use crate::driver::{Handle, Stamp};
use crate::http::{Body, Problem, RequestId, Share};
use crate::limits::{HEARTBEAT, PIECE_MAX, READERS_MAX};
use crate::response;
use crate::watch::bookmark::{Bookmark, EventPlace};
use crate::watch::key::PublicKey;
use crate::watch::ring::{FellBehind, Resume};
use crate::watch::{Observer, Placed, SCAN_MAX, in_time};

/// Tells a proxy in front that the stream is not to be gathered up.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Between two looks at whether a reader would still be let in.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Between two looks of a reader that has caught up: the events of that time go out in one piece. The first event after
/// a silence goes out at once.
const PACE: Duration = Duration::from_millis(10);

/// Events in one piece of a stream.
const FRAME_EVENTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct EventReader {
    observer: Arc<Observer>,
    filter: Filter,
    /// Its place in each ring that it reads.
    cursors: Vec<Cursor>,
    stage: Stage,
    heartbeat_at: Instant,
    /// The right by which it reads, where callers sign on.
    standing: Option<Box<Standing>>,
    /// When to look at that again.
    check_at: Instant,
    /// When it last looked and found nothing more.
    idle_since: Option<Instant>,
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

/// A reader's place in the ring of one partition.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    partition: usize,
    /// Everything up to here was sent, or was not wanted.
    seen: Position,
    /// The place that the caller would resume from: that of the last event that was sent.
    sent: EventPlace,
}

#[derive(Debug)]
enum Stage {
    Greeting(Bytes),
    Reading,
    Over,
}

/// Begins to send events, and goes on until the reader leaves.
pub(crate) fn answer(
    observer: &Arc<Observer>,
    driver: &Handle,
    subscription: Subscription,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let resource = match &subscription.filter.resource {
        Some(OneResource::Key(PublicKey::Named(resource))) => Some(resource),
        _ => None,
    };
    let heads: Vec<Stamp> = driver.heads_of(resource).collect();
    let Some(reader) = EventReader::new(observer, subscription, &heads) else {
        let reason = format!("the limit of {READERS_MAX} readers of events is reached");
        return Err(Problem::unavailable(reason, 1).coded(Code::Overloaded));
    };
    let mut response = response::empty(StatusCode::OK, id);
    *response.body_mut() = Body::stream(reader, EventReader::next);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

impl EventReader {
    /// A reader that goes on where it was, or begins now. `heads` are the last durable positions of the partitions it
    /// reads. `None` when there are too many.
    pub(crate) fn new(observer: &Arc<Observer>, subscription: Subscription, heads: &[Stamp]) -> Option<EventReader> {
        let events = &observer.events;
        let permit = Arc::clone(&events.readers).try_acquire_owned().ok()?;
        let Subscription { filter, last_seen, standing, ip } = subscription;
        let share = match ip {
            Some(ip) => Some(events.shares.take(ip)?),
            None => None,
        };
        let kept = events.kept();
        let mut gap = None;
        let (mut newest, mut oldest, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for head in heads {
            let partition = head.partition as usize;
            let (ring, name) = (&kept.rings[partition], kept.name(partition));
            let mark = |id| EventPlace { partition: name, id };
            newest.push(mark(ring.newest_id()));
            oldest.push(mark(ring.oldest_id()));
            sent.push(match &last_seen {
                None => mark(ring.newest_id()),
                Some(bookmark) => match bookmark.in_partition(name).map(|id| (id, ring.resume(id, head.position))) {
                    Some((id, Resume::After(_))) => mark(id),
                    other => {
                        let reason = "of other partitions, or of a service with another number of them";
                        gap = gap.or(Some(match other {
                            Some((_, Resume::Gap { reason, .. })) => reason,
                            _ => reason,
                        }));
                        mark(ring.oldest_id())
                    }
                },
            });
        }
        drop(kept);
        let cursors = heads.iter().zip(&sent).map(|(head, &sent)| {
            let partition = head.partition as usize;
            Cursor { partition, seen: sent.id.position, sent }
        });
        let cursors = cursors.collect();
        let oldest = Bookmark(oldest);
        let mut greeting = wire::hello(&Bookmark(sent), &Bookmark(newest), &oldest);
        if let Some(reason) = gap {
            wire::gap(&mut greeting, reason, &oldest);
        }
        Some(EventReader {
            observer: Arc::clone(observer),
            filter,
            cursors,
            stage: Stage::Greeting(greeting.into()),
            heartbeat_at: Instant::now() + HEARTBEAT,
            check_at: Instant::now() + CHECK_EVERY,
            standing,
            idle_since: None,
            _permit: permit,
            _share: share,
        })
    }

    /// The next piece, once there is one; `None` at the end.
    pub(crate) async fn next(mut self) -> Option<(Bytes, EventReader)> {
        match std::mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Greeting(greeting) => return Some((greeting, self)),
            Stage::Over => return None,
            Stage::Reading => {}
        }
        let observer = Arc::clone(&self.observer);
        let events = &observer.events;
        while !events.is_closed() {
            if let Err(reason) = self.check().await {
                self.stage = Stage::Over;
                return Some((wire::signed_out(&reason).into(), self));
            }
            if let Some(idle_since) = self.idle_since {
                sleep_until(idle_since + PACE).await;
            }
            // It listens before it looks, so that no event in between goes unheard.
            let mut rung = std::pin::pin!(events.bell.notified());
            rung.as_mut().enable();
            if events.is_closed() {
                break;
            }
            match self.look() {
                Err(FellBehind) => {
                    self.observer.metrics.events.readers_cut.inc();
                    self.stage = Stage::Over;
                    return Some((wire::lagging(&self.bookmark()).into(), self));
                }
                Ok(Some(frame)) => return Some((frame, self)),
                // Nothing for this reader among these, but there are more: others get their turn first.
                Ok(None) if self.idle_since.is_none() => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(None) => {}
            }
            tokio::select! {
                () = rung => {}
                () = sleep_until(self.heartbeat_at) => return Some((self.heartbeat(), self)),
                () = sleep_until(self.check_at), if self.standing.is_some() => {}
            }
        }
        self.stage = Stage::Over;
        Some((Bytes::from_static(wire::GOODBYE), self))
    }

    /// Now and then, whether it may go on, and with which resources.
    async fn check(&mut self) -> Result<(), String> {
        let Some(standing) = self.standing.as_ref().filter(|_| self.check_at <= Instant::now()) else { return Ok(()) };
        // On the heap: seldom, and large.
        self.filter.sight = Box::pin(standing.check()).await?;
        self.check_at = Instant::now() + CHECK_EVERY;
        Ok(())
    }

    /// The next events for this reader, if there are any among those it looks at.
    fn look(&mut self) -> Result<Option<Bytes>, FellBehind> {
        let digester = self.observer.digester();
        let before: Vec<Position> = self.cursors.iter().map(|cursor| cursor.seen).collect();
        let found = {
            let kept = self.observer.events.kept();
            let mut found = Vec::with_capacity(self.cursors.len());
            let mut is_at_end = true;
            for Cursor { partition, seen, .. } in &mut self.cursors {
                let (ring, partition) = (&kept.rings[*partition], kept.name(*partition));
                let wants = |effect: &Effect| self.filter.wants(effect, digester);
                let events = ring.read(seen, SCAN_MAX, FRAME_EVENTS_MAX, wants)?;
                found.push(events.into_iter().map(|happened| Placed { partition, happened }).collect());
                is_at_end &= ring.is_at_end(*seen);
            }
            self.idle_since = is_at_end.then(Instant::now);
            in_time(found)
        };
        if found.is_empty() {
            return Ok(None);
        }
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        let mut frame = Vec::with_capacity(found.len() * 384);
        for (index, event) in found.iter().enumerate() {
            let from = event.mark();
            let nth = self.cursors.iter().position(|cursor| cursor.sent.partition == from.partition);
            self.cursors[nth.expect("it was read from one of them")].sent = from;
            wire::event(&mut frame, event, &self.bookmark(), digester);
            if frame.len() >= PIECE_MAX && index + 1 < found.len() {
                // Long names: the rest goes into the next piece, once this one was taken.
                for (cursor, before) in self.cursors.iter_mut().zip(before) {
                    cursor.seen = cursor.sent.id.position.max(before);
                }
                self.idle_since = None;
                break;
            }
        }
        Ok(Some(frame.into()))
    }

    /// A sign of life. It carries the id of the events passed over, so that a reader with a narrow filter does not fall
    /// behind.
    fn heartbeat(&mut self) -> Bytes {
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        let kept = self.observer.events.kept();
        for cursor in &mut self.cursors {
            let newest = kept.rings[cursor.partition].newest_id();
            if newest.position == cursor.seen {
                cursor.sent.id = newest;
            }
        }
        drop(kept);
        wire::heartbeat(&self.bookmark()).into()
    }

    /// Where the caller would resume.
    fn bookmark(&self) -> Bookmark {
        Bookmark(self.cursors.iter().map(|cursor| cursor.sent).collect())
    }
}
