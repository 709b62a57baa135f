//! The ring by hand: resuming exactly, gaps, bounds; and readers without sockets, with time that jumps.

use std::sync::Arc;
use std::time::Duration;

use leasehold_engine::{Effect, Ending, Grant, Kind, ResourceKey, Token, Wall, What};
use leasehold_journal::{Epoch, Happened, Position, Retold};
use proptest::prelude::*;

use super::reader::EventReader;
use super::subscription::{Filter, Subscription};
use super::wire;
use crate::driver::{Beginning, Stamp, Witness as _};
use crate::limits::HEARTBEAT;
use crate::watch::bookmark::Bookmark;
use crate::watch::digest::Digester;
use crate::watch::ring::{EventId, FellBehind, Resume, Ring};
use crate::watch::{Observer, Placed};

fn happened(epoch: u64, position: u64) -> Happened {
    let resource = ResourceKey::Lock(Arc::from(if position.is_multiple_of(2) { "even" } else { "odd" }));
    let grant = Some(Grant { slot: 0, token: Token(position) });
    let what = What::Ended { how: Ending::Released, held_us: Some(1), late_us: 0 };
    let effect = Effect { resource, claim: None, client: Some(Arc::from("ann")), names: None, grant, what, nth: 1 };
    Happened { epoch: Epoch(epoch), position: Position(position), wall: Wall(position * 1_000_000), effect }
}

/// The only partition, in which nothing is durable yet.
const HEAD: [Stamp; 1] = [Stamp { partition: 0, epoch: Epoch(1), position: Position(0) }];

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap()
}

/// Two lives before this one, epochs 2 and 5, with ids that were not used in between; this one is epoch 7.
fn ring_with_history(events_max: usize) -> Ring {
    let mut ring = Ring::new(events_max);
    let history = Retold {
        events: [happened(2, 12), happened(2, 15), happened(5, 21)].into(),
        complete_after: Position(10),
        reigns: vec![(Epoch(2), Position(9)), (Epoch(5), Position(18))],
    };
    ring.begin(Epoch(7), Position(25), history, Wall(0));
    ring.push(happened(7, 30));
    ring
}

fn positions(ring: &Ring, after: u64) -> Vec<u64> {
    let mut cursor = Position(after);
    let found = ring.read(&mut cursor, usize::MAX, usize::MAX, |_| true).unwrap();
    found.iter().map(|happened| happened.position.0).collect()
}

#[test]
fn ids_are_read_as_they_are_written() {
    assert_eq!(id("3.42").to_string(), "3.42");
    for text in ["", "3", "3.", ".4", "3.4.5", "+3.4", "3.-4", "a.b", "3.99999999999999999999"] {
        assert_eq!(EventId::parse(text), None, "{text}");
    }
}

#[test]
fn whoever_was_here_before_goes_on_exactly_where_it_was() {
    let ring = ring_with_history(100);
    for (last_seen, expected) in [
        ("2.10", vec![12, 15, 21, 30]),
        ("2.12", vec![15, 21, 30]),
        // Between two events, as a greeting or a sign of life says it.
        ("2.13", vec![15, 21, 30]),
        ("2.15", vec![21, 30]),
        ("2.18", vec![21, 30]),
        ("5.18", vec![21, 30]),
        ("5.21", vec![30]),
        ("5.25", vec![30]),
        // An epoch that came and went without a word.
        ("6.25", vec![30]),
        ("4.18", vec![21, 30]),
        ("7.25", vec![30]),
        ("7.30", vec![]),
        ("7.33", vec![]),
    ] {
        let Resume::After(position) = ring.resume(id(last_seen), Position(33)) else { panic!("{last_seen} is a gap") };
        assert_eq!(positions(&ring, position.0), expected, "{last_seen}");
    }
}

#[test]
fn whoever_cannot_be_told_everything_is_told_so() {
    let ring = ring_with_history(100);
    let (too_old, another) = ("older than what is kept", "of another history");
    for (last_seen, expected) in [
        ("2.9", too_old),
        ("1.3", too_old),
        ("7.9", too_old),
        // Positions that other epochs reached, or none.
        ("1.12", another),
        ("2.19", another),
        ("5.17", another),
        ("6.24", another),
        ("7.24", another),
        ("7.34", another),
        ("8.25", another),
    ] {
        let Resume::Gap { reason, after } = ring.resume(id(last_seen), Position(33)) else { panic!("{last_seen}") };
        assert_eq!((reason, after), (expected, Position(10)), "{last_seen}");
    }
}

#[test]
fn the_oldest_make_room_and_whoever_wanted_them_is_told() {
    let mut ring = ring_with_history(3);
    assert_eq!(ring.oldest_id(), id("2.12"), "the oldest of four had to go");
    assert_eq!(positions(&ring, 12), [15, 21, 30]);
    let mut cursor = Position(11);
    assert_eq!(ring.read(&mut cursor, 10, 10, |_| true), Err(FellBehind));
    assert_eq!(ring.push(happened(7, 31)) + ring.push(happened(7, 32)), 2);
    assert_eq!(ring.oldest_id(), id("5.21"), "the epoch goes with its last event");
    assert_eq!(
        ring.resume(id("2.15"), Position(32)),
        Resume::Gap { reason: "older than what is kept", after: Position(21) }
    );
    assert_eq!(ring.complete_since(), Wall(21_000_000));
}

#[test]
fn a_full_ring_takes_up_no_more_than_was_set_aside() {
    let mut ring = Ring::new(1_000);
    ring.begin(Epoch(1), Position(0), Retold::default(), Wall(0));
    let set_aside = ring.capacity();
    for position in 1..=5_000 {
        ring.push(happened(1, position));
    }
    assert_eq!((ring.measures().0, ring.capacity()), (1_000, set_aside));
}

#[test]
fn long_names_make_the_ring_shorter_and_not_larger() {
    let mut ring = Ring::new(1_000);
    ring.begin(Epoch(1), Position(0), Retold::default(), Wall(0));
    for position in 1..=5_000 {
        let mut long = happened(1, position);
        long.effect.resource = ResourceKey::Lock(Arc::from("x".repeat(1_024)));
        long.effect.client = Some(Arc::from("y".repeat(1_024)));
        ring.push(long);
    }
    let (events, bytes) = ring.measures();
    assert!(bytes <= 1_000 * 512, "{bytes} bytes");
    assert!((200..1_000).contains(&events), "{events} events");
}

proptest! {
    /// Any cut of the reading into looks, scans and reconnects, with events pushed in between, gives the wanted events,
    /// once each and in order, or tells the reader that it fell behind.
    #[test]
    fn no_hole_and_no_duplicate(steps in proptest::collection::vec((0..4u64, 1..4usize, 1..3usize, any::<bool>()), 1..60)) {
        let mut ring = Ring::new(8);
        ring.begin(Epoch(1), Position(0), Retold::default(), Wall(0));
        let (mut position, mut cursor) = (0, Position(0));
        let mut seen: Vec<u64> = Vec::new();
        let mut skipped = 0;
        for (pushed, scan_max, limit, reconnects) in steps {
            for _ in 0..pushed {
                position += 1 + position % 2;
                ring.push(happened(1, position));
            }
            if reconnects {
                let last_seen = EventId { epoch: Epoch(1), position: cursor };
                cursor = match ring.resume(last_seen, Position(position)) {
                    Resume::After(position) => position,
                    Resume::Gap { after, .. } => { skipped = after.0; after }
                };
            }
            if let Ok(found) = ring.read(&mut cursor, scan_max, limit, |_| true) {
                seen.extend(found.iter().map(|happened| happened.position.0));
            } else {
                cursor = ring.oldest_id().position;
                skipped = cursor.0;
            }
        }
        seen.extend(positions(&ring, cursor.0));
        let mut all = Vec::new();
        let mut next = 0;
        while next < position {
            next += 1 + next % 2;
            all.push(next);
        }
        prop_assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        let expected: Vec<u64> = all.iter().copied().filter(|&one| one > skipped).collect();
        let after_gap: Vec<u64> = seen.iter().copied().filter(|&one| one > skipped).collect();
        prop_assert_eq!(after_gap, expected);
    }
}

fn observer(events_kept: usize) -> Arc<Observer> {
    let observer = Observer::new(events_kept);
    let history = Retold::default();
    observer.begin(Beginning {
        partition: 0,
        epoch: Epoch(1),
        head: Position(0),
        history,
        secret: Some([1; 32]),
        wall: Wall(0),
    });
    Arc::new(observer)
}

fn reader(observer: &Arc<Observer>, last_seen: Option<&str>) -> EventReader {
    let subscription = Subscription {
        filter: Filter::default(),
        last_seen: last_seen.and_then(Bookmark::parse),
        standing: None,
        ip: None,
    };
    EventReader::new(observer, subscription, &HEAD).unwrap()
}

/// The lines of the next piece that begin with `field`.
async fn next(reader: EventReader, field: &str) -> (Vec<String>, EventReader) {
    let (frame, reader) = reader.next().await.expect("it goes on");
    let text = String::from_utf8(frame.to_vec()).unwrap();
    (text.lines().filter_map(|line| line.strip_prefix(field)).map(|rest| rest.trim().to_owned()).collect(), reader)
}

fn push(observer: &Observer, positions: std::ops::RangeInclusive<u64>) {
    let all: Vec<_> = positions.map(|position| happened(1, position)).collect();
    observer.record(0, &all, &leasehold_engine::Totals::default());
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_greeted_told_and_kept_alive() {
    let observer = observer(100);
    push(&observer, 1..=3);
    let (greeting, reader) = next(reader(&observer, Some("1.1")), "").await;
    assert_eq!(
        greeting[..4],
        ["retry: 1000", "id: 1.1", "event: hello", r#"data: {"position":"1.3","oldest_id":"1.0","heartbeat_s":10}"#]
    );
    let (ids, reader) = next(reader, "id: ").await;
    assert_eq!(ids, ["1.2", "1.3"]);
    let began = tokio::time::Instant::now();
    let (lines, reader) = next(reader, "").await;
    assert_eq!(began.elapsed().as_secs(), HEARTBEAT.as_secs(), "nothing happened for so long");
    assert_eq!(lines[..2], [": still here", "id: 1.3"]);
    push(&observer, 4..=4);
    let began = tokio::time::Instant::now();
    let (ids, _) = next(reader, "id: ").await;
    assert_eq!((ids, began.elapsed()), (vec!["1.4".to_owned()], Duration::ZERO), "told at once");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_is_cut_and_told_where_it_was() {
    let observer = observer(100);
    let (_, slow) = next(reader(&observer, None), "").await;
    push(&observer, 1..=2);
    let (ids, slow) = next(slow, "id: ").await;
    assert_eq!(ids, ["1.1", "1.2"]);
    push(&observer, 3..=200);
    let (lines, slow) = next(slow, "").await;
    assert_eq!(
        lines[..2],
        [
            "event: lagging",
            r#"data: {"error":"too slow: events were dropped that had not been read yet","resume_from":"1.2"}"#
        ]
    );
    assert!(slow.next().await.is_none(), "that was the last of it");
    // A reader that comes back is told of the gap, and goes on with the events that are left.
    let (lines, back) = next(reader(&observer, Some("1.2")), "").await;
    assert!(
        lines.contains(&r#"data: {"reason":"older than what is kept","oldest_id":"1.100"}"#.to_owned()),
        "{lines:?}"
    );
    let (ids, _) = next(back, "id: ").await;
    assert_eq!(ids[0], "1.101");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_wants_little_passes_over_the_rest() {
    let observer = observer(10);
    let filter = Filter { kind: Some(Kind::Pool), ..Filter::default() };
    let picky =
        EventReader::new(&observer, Subscription { filter, last_seen: None, standing: None, ip: None }, &HEAD).unwrap();
    let (_, mut picky) = next(picky, "").await;
    for round in 1..=10 {
        push(&observer, round * 5 - 4..=round * 5);
        // It would fall behind if only events sent to it moved it on, and it could not resume if it was not told the
        // id.
        let ids;
        (ids, picky) = next(picky, "id: ").await;
        assert_eq!(ids, [format!("1.{}", round * 5)]);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_reader_at_once() {
    let observer = observer(100);
    let (_, reader) = next(reader(&observer, None), "").await;
    let waiting = tokio::spawn(reader.next());
    tokio::task::yield_now().await;
    observer.close();
    let began = tokio::time::Instant::now();
    let (goodbye, reader) = waiting.await.unwrap().unwrap();
    assert_eq!((&*goodbye, began.elapsed()), (wire::GOODBYE, Duration::ZERO));
    assert!(reader.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn readers_are_limited_and_make_room_when_they_leave() {
    let observer = observer(100);
    let mut all: Vec<_> = (0..crate::limits::READERS_MAX).map(|_| reader(&observer, None)).collect();
    assert_eq!(observer.events.readers(), crate::limits::READERS_MAX);
    let subscription = || Subscription { filter: Filter::default(), last_seen: None, standing: None, ip: None };
    assert!(EventReader::new(&observer, subscription(), &HEAD).is_none());
    all.pop();
    assert!(EventReader::new(&observer, subscription(), &HEAD).is_some());
}

#[test]
fn an_event_has_all_its_members() {
    let mut frame = Vec::new();
    let event = Placed { partition: None, happened: happened(1, 7) };
    wire::event(&mut frame, &event, &Bookmark(vec![event.mark()]), &Digester::new([1; 32]));
    assert_eq!(
        String::from_utf8(frame).unwrap(),
        "id: 1.7\nevent: released\ndata: {\"id\":\"1.7\",\"at_unix\":7.0,\"event\":\"released\",\"key\":\"lock:odd\",\
         \"kind\":\"lock\",\"name\":\"odd\",\"client\":\"ann\",\"holder\":null,\"owner\":null,\"label\":null,\"claim\":null,\"slot\":0,\"token\":7,\"waited_s\":null,\
         \"held_s\":0.000001,\"capacity\":null,\"from\":null,\"ttl_s\":null}\n\n"
    );
}

#[test]
fn the_past_is_told_from_the_newest_back() {
    let observer = observer(100);
    push(&observer, 1..=50);
    let is_odd = |happened: &Happened| *happened.effect.resource.name().unwrap() == Arc::from("odd");
    let past = observer.events.past(0..1, Wall(0), 1_000, is_odd);
    assert_eq!(
        past.events.iter().map(|one| one.happened.position.0).collect::<Vec<_>>(),
        (1..=50).step_by(2).collect::<Vec<_>>()
    );
    assert_eq!(past.complete_since, Wall(0), "nothing was ever dropped");
    let past = observer.events.past(0..1, Wall(0), 3, is_odd);
    assert_eq!(past.events.iter().map(|one| one.happened.position.0).collect::<Vec<_>>(), [45, 47, 49]);
    assert_eq!(past.complete_since, Wall(45_000_000), "older ones were left out");
    let past = observer.events.past(0..1, Wall(47_000_000), 3, is_odd);
    assert_eq!(past.events.iter().map(|one| one.happened.position.0).collect::<Vec<_>>(), [47, 49]);
    assert_eq!(past.complete_since, Wall(47_000_000));
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_several_partitions_has_a_place_in_each() {
    let observer = Observer::of_many(100, 2);
    let heads: Vec<Stamp> =
        (0..2).map(|partition| Stamp { partition, epoch: Epoch(1), position: Position(0) }).collect();
    for &Stamp { partition, epoch, position: head } in &heads {
        let (history, secret) = (Retold::default(), Some([1; 32]));
        observer.begin(Beginning { partition, epoch, head, history, secret, wall: Wall(0) });
    }
    let observer = Arc::new(observer);
    let push = |partition, positions: &[u64]| {
        let all: Vec<_> = positions.iter().map(|&position| happened(1, position)).collect();
        observer.record(partition, &all, &leasehold_engine::Totals::default());
    };
    let open = |last_seen: Option<&str>, heads: &[Stamp]| {
        let last_seen = last_seen.map(|text| Bookmark::parse(text).unwrap());
        let subscription = Subscription { filter: Filter::default(), last_seen, standing: None, ip: None };
        EventReader::new(&observer, subscription, heads).unwrap()
    };
    let (_, all) = next(open(None, &heads), "").await;
    push(0, &[1, 4]);
    push(1, &[2, 3]);
    // By the time at which they happened, and by their order within a partition.
    let (ids, all) = next(all, "id: ").await;
    assert_eq!(ids, ["0:1.1,1:1.0", "0:1.1,1:1.2", "0:1.1,1:1.3", "0:1.4,1:1.3"]);
    drop(all);
    // It goes on exactly where it was in each.
    let (lines, all) = next(open(Some("0:1.1,1:1.2"), &heads), "").await;
    assert_eq!(lines[1], "id: 0:1.1,1:1.2");
    let (ids, _) = next(all, "id: ").await;
    assert_eq!(ids, ["0:1.1,1:1.3", "0:1.4,1:1.3"]);
    // A reader of one resource has a place in its partition only.
    let (_, one) = next(open(Some("1:1.2"), &heads[1..]), "").await;
    assert_eq!(next(one, "id: ").await.0, ["1:1.3"]);
    // A place in one of them does not say where a reader was in the other.
    for elsewhere in ["0:1.4", "1.4", "2:1.4"] {
        let (lines, _) = next(open(Some(elsewhere), &heads), "").await;
        assert!(lines.contains(&"event: gap".to_owned()), "{elsewhere}: {lines:?}");
    }
}
