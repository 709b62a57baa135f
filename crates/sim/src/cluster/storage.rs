//! The shared store as a world sees it: a shelf with latency, lost requests and replies, duplicates that come late, and
//! outages. Every transaction is checked as it takes effect (C1, C3, C4, C5).

use leasehold_cluster::{Append, Done, Landing, NodeId, Op, Reign, Seen, SharedError};
use leasehold_engine::planted;
use leasehold_journal::Batch;
use leasehold_journal::record::decode_batch;

use super::{ClusterWorld, Event, tell};
use crate::Violation;
use crate::ledger::When;
use crate::ledger::invariant::{Check, ensure};

/// How long a node waits for the store.
const TIMEOUT_US: u64 = 1_000_000;
/// Service time may run on for so long after a standstill began: until the next beat, and a tenth of a second.
const RUN_OUT_US: u64 = 800_000;
/// After so long without a fault nothing is left of it.
pub(super) const AT_REST_US: u64 = 6_000_000;

type Stored = Result<Done, SharedError>;

impl ClusterWorld {
    pub(super) fn ask_store(&mut self, n: usize, op: u64, asked: Op) {
        let boot = self.machines[n].boot;
        let away = Err(SharedError::Away("no answer in time".to_owned()));
        let at_us = self.now_us + TIMEOUT_US;
        self.at(at_us, Event::Reply { machine: n, boot, op, result: Box::new(away) });
        let mut late_us = self.store_rng.range(150, 1_500);
        if self.now_us < self.machines[n].cut_until_us {
            self.counts.lost_requests += 1;
            return;
        }
        if !self.is_calm {
            let faults = self.plan.store_faults;
            if self.store_rng.chance(faults) {
                self.counts.lost_requests += 1;
                return;
            }
            if self.store_rng.chance(faults) {
                self.counts.late_requests += 1;
                late_us = self.store_rng.range(100_000, 4_000_000);
            }
            let is_join = matches!(asked, Op::Join(..));
            if self.store_rng.chance(if is_join { 700 } else { faults }) {
                self.counts.duplicates += 1;
                let at_us =
                    self.now_us + if is_join { self.store_rng.range(3_000_000, 12_000_000) } else { late_us * 3 };
                let asked = Box::new(asked.clone());
                self.at(at_us, Event::Arrive { machine: n, boot, op, asked, is_heard: false });
            }
        }
        let at_us = self.now_us + late_us;
        let is_heard = late_us < TIMEOUT_US;
        self.at(at_us, Event::Arrive { machine: n, boot, op, asked: Box::new(asked), is_heard });
    }

    /// An owner lets go of a partition once everything that it decided there is durable, unless the store went back:
    /// then its batches are lost, too.
    pub(super) fn check_letting_go(&self, n: usize, asked: &Op) -> Check {
        let Op::LetGo(reign, _) = asked else { return Ok(()) };
        if self.counts.went_back > 0 {
            return Ok(());
        }
        let is_its_own = |event: &Event| {
            let Event::Arrive { machine, boot, asked, is_heard: true, .. } = event else { return false };
            let Op::Append(appends) = &**asked else { return false };
            let is_of_reign = appends.iter().any(|append| append.reign == *reign);
            is_of_reign && *machine == n && *boot == self.machines[n].boot
        };
        let is_under_way = self.events.values().any(is_its_own);
        ensure(!is_under_way, "C3", || format!("partition {} is let go with a batch of it under way", reign.partition))
    }

    pub(super) fn arrive(&mut self, n: usize, boot: u64, op: u64, asked: &Op, is_heard: bool) -> Check {
        if self.now_us < self.store_away_until_us {
            return Ok(());
        }
        let life = match asked {
            Op::Beat(record) => Some(record.node),
            _ => self.machines[n].node.as_ref().and_then(leasehold_cluster::Node::life),
        };
        let result = self.apply(asked, life, is_heard)?;
        self.note_buried();
        let is_lost = !self.is_calm && self.store_rng.chance(self.plan.store_faults);
        self.counts.lost_replies += u64::from(is_lost && is_heard);
        if is_heard && !is_lost {
            let at_us = self.now_us + self.store_rng.range(150, 1_500);
            self.at(at_us, Event::Reply { machine: n, boot, op, result: Box::new(result) });
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, n: usize, boot: u64, op: u64, result: Stored) -> Check {
        if self.machines[n].boot != boot || self.machines[n].node.is_none() {
            return Ok(());
        }
        if self.now_us < self.machines[n].paused_until_us {
            let at_us = self.machines[n].paused_until_us;
            self.at(at_us, Event::Reply { machine: n, boot, op, result: Box::new(result) });
            return Ok(());
        }
        self.drive(n, |node, clocks| node.handle_store(clocks, op, result))
    }

    fn apply(&mut self, asked: &Op, life: Option<NodeId>, is_heard: bool) -> Result<Stored, Violation> {
        Ok(match asked {
            Op::Join(record, birth) => self.shelf.join(record, birth).map(|(life, map)| {
                self.lives.entry(life.node).or_insert(life);
                Done::Map(map)
            }),
            Op::Beat(record) => match self.lives.get(&record.node) {
                Some(life) => {
                    let result = self.shelf.beat(*life, record.clone());
                    self.check_dead(record.node, result.is_ok(), "beat")?;
                    result.map(|()| Done::Yes)
                }
                None => Err(SharedError::Fenced("it never joined".to_owned())),
            },
            Op::Confirm => self.confirm(life)?,
            Op::Map => self.shelf.map().map(Done::Map),
            Op::Bury(seen) => self.bury(seen)?,
            Op::Forget(seen) => {
                self.counts.forgotten += 1;
                self.shelf.forget(seen).map(|()| Done::Yes)
            }
            Op::Take(taking) => self.take(taking)?,
            Op::LetGo(reign, at) => {
                let was = self.owner(reign.partition);
                let result = self.shelf.let_go(reign, *at);
                if result.is_ok() && self.owner(reign.partition) != was {
                    self.counts.let_gos += 1;
                    Self::check_owner(reign, &was, "let go")?;
                    // An owner of what was lost has not read the stream: the taker does.
                    let is_lost = self.counts.went_back > 0;
                    let known = self.ledgers[reign.partition as usize].at;
                    let node = reign.owner.node.and_then(|node| self.shelf.map().ok()?.node(node).cloned());
                    let mark = node.and_then(|node| node.value.mark_of(reign.partition, reign.epoch()));
                    let known = if is_lost { was.value.at } else { known.max(mark.unwrap_or_default()) };
                    let least = known.max(was.value.at);
                    let is_kept = self.owner(reign.partition).value.at >= least;
                    ensure(is_kept, "C5", || format!("a letting go lost time: {least:?} was known, it says {at:?}"))?;
                    tell!(self, "partition {} is let go in epoch {}", reign.partition, reign.epoch());
                }
                result.map(|()| Done::Yes)
            }
            Op::Append(appends) => {
                let mut landings = Vec::new();
                for append in appends {
                    landings.push(self.append(append, is_heard)?);
                }
                Ok(Done::Landings(landings))
            }
            Op::Read(partition, cursor) => self.shelf.read(*partition, *cursor).map(Done::Page),
            Op::PutChunk(reign, id, number, chunk) => {
                let was = self.owner(reign.partition);
                let result = self.shelf.put_chunk(reign, *id, *number, chunk.clone());
                if result.is_ok() {
                    Self::check_owner(reign, &was, "put a chunk")?;
                }
                result.map(|()| Done::Yes)
            }
            Op::FinishCheckpoint(reign, id, chunks) => {
                let was = self.owner(reign.partition);
                let other = Reign { version: reign.version + 1, ..*reign };
                let is_fenced = self.shelf.clone().finish_checkpoint(&other, *id, *chunks).is_err();
                ensure(is_fenced, "C1", || "a checkpoint of another reign would count".to_owned())?;
                let result = self.shelf.finish_checkpoint(reign, *id, *chunks);
                if result.is_ok() {
                    self.counts.checkpoints += 1;
                    Self::check_owner(reign, &was, "finished a checkpoint")?;
                }
                result.map(|()| Done::Yes)
            }
            Op::RaiseFormat(format) => self.shelf.raise_format(*format).map(|()| Done::Yes),
            Op::Sweep(reign) => {
                let was = self.owner(reign.partition);
                let result = self.shelf.sweep(reign);
                if result.is_ok() {
                    Self::check_owner(reign, &was, "swept")?;
                }
                result.map(Done::More)
            }
        })
    }

    fn confirm(&mut self, life: Option<NodeId>) -> Result<Stored, Violation> {
        let Some(life) = life.and_then(|node| self.lives.get(&node).copied()) else {
            return Ok(Err(SharedError::Fenced("it never joined".to_owned())));
        };
        self.counts.proofs += 1;
        let result = if planted!(ConfirmBySerializableRead) {
            // A member that lags behind answers.
            self.stale.retain(|(at_us, _)| at_us + 3_000_000 >= self.now_us);
            self.stale.push((self.now_us, self.shelf.clone()));
            self.stale[0].1.confirm(life)
        } else {
            self.shelf.confirm(life)
        };
        self.counts.proofs_refused += u64::from(result.is_err());
        self.check_dead(life.node, result.is_ok(), "confirm")?;
        Ok(result.map(|()| Done::Yes))
    }

    fn bury(&mut self, seen: &Seen<leasehold_cluster::NodeRecord>) -> Result<Stored, Violation> {
        let node = seen.value.node;
        let before = self.shelf.map().ok().and_then(|map| map.node(node).cloned());
        let result = self.shelf.bury(seen);
        if let Some(before) = before.filter(|before| result.is_ok() && !before.value.is_buried) {
            self.counts.burials += 1;
            tell!(self, "{node:?} is buried");
            ensure(before.version == seen.version, "C4", || format!("{node:?} was buried, and had beaten meanwhile"))?;
            self.check_suspicion(&seen.value)?;
        }
        Ok(result.map(|()| Done::Yes))
    }

    pub(super) fn store_goes_away(&mut self, for_us: u64) {
        if self.now_us > self.store_away_until_us + AT_REST_US {
            self.store_away_since_us = self.now_us;
        }
        self.store_away_until_us = self.store_away_until_us.max(self.now_us + for_us);
    }

    /// When the store was away for all, no node is silent because of that.
    fn check_suspicion(&self, dead: &leasehold_cluster::NodeRecord) -> Check {
        let Some(machine) = self.machines.iter().find(|machine| *machine.address == *dead.address) else {
            return Ok(());
        };
        let is_this = machine.node.as_ref().and_then(leasehold_cluster::Node::life) == Some(dead.node);
        let was_away = self.store_away_until_us > 0 && self.now_us < self.store_away_until_us + 1_000_000;
        // A machine that was silent by itself before the store was away may be buried soon after it.
        let is_well = machine.paused_until_us.max(machine.cut_until_us) + AT_REST_US < self.store_away_since_us;
        // Without links and with one beat lost, a living node looks like a dead one: it pauses, and loses nothing.
        let is_at = |n: usize| self.machines[n].address == machine.address;
        let is_linked = self.pairs.iter().all(|pair| pair.is_up || !is_at(pair.ends.0) && !is_at(pair.ends.1));
        let is_expected = is_this && is_well && is_linked && !machine.is_draining && self.plan.store_faults == 2;
        let is_wronged = is_expected && was_away;
        ensure(!is_wronged, "C4", || format!("{:?} was buried for the silence of the store", dead.node))
    }

    fn take(&mut self, taking: &leasehold_cluster::Taking) -> Result<Stored, Violation> {
        let partition = taking.partition;
        let was = self.owner(partition);
        let dead = was.value.node.and_then(|node| self.shelf.map().ok()?.node(node).cloned());
        let result = self.shelf.take(taking);
        let Ok(reign) = result else { return Ok(result.map(Done::Reign)) };
        if self.owner(partition) == was {
            return Ok(Ok(Done::Reign(reign)));
        }
        self.counts.takes += 1;
        self.counts.takes_from_the_dead += u64::from(was.value.node.is_some());
        tell!(self, "partition {partition} is taken by {:?} in epoch {}", taking.node, reign.epoch());
        let is_dead = dead.as_ref().is_none_or(|dead| dead.value.is_buried);
        ensure(is_dead, "C3", || format!("partition {partition} was taken from {:?}, which lives", was.value.node))?;
        let mark = dead.and_then(|dead| dead.value.mark_of(partition, was.value.epoch)).unwrap_or_default();
        let at = was.value.at.max(mark);
        ensure(reign.owner.at == at, "C5", || format!("time goes on from {:?}, {at:?} was known", reign.owner.at))?;
        self.ledgers[partition as usize].opened(reign.epoch().0)?;
        let now_us = self.now_us;
        for (_, to_us) in self.unfair[partition as usize].iter_mut().filter(|(_, to_us)| *to_us > now_us) {
            *to_us = now_us;
        }
        Ok(Ok(Done::Reign(reign)))
    }

    fn append(&mut self, append: &Append, is_heard: bool) -> Result<Landing, Violation> {
        let partition = append.reign.partition;
        let was = self.owner(partition);
        let before = self.shelf.revision();
        let landing = match self.shelf.append(append) {
            Ok(landing) => landing,
            Err(error) => return ensure(false, "C1", || format!("{error}")).map(|()| Landing::Full),
        };
        if self.shelf.revision() != before {
            Self::check_owner(&append.reign, &was, "appended")?;
            self.check_first(partition, &append.batch)?;
            if let (true, Ok(decoded)) = (self.story.is_some(), decode_batch(&append.batch.record)) {
                tell!(self, "durable in partition {partition} from {}: {:?}", append.batch.first, decoded.changes);
            }
            let whens = self.whens(partition, &append.batch);
            self.remember_batch(partition, &append.batch, &whens);
            let ledger = &mut self.ledgers[partition as usize];
            ledger.accept(&append.batch, &whens, &self.asks)?;
            self.note(append.batch.last.0);
            self.changed_at_us = self.now_us;
        }
        if landing == Landing::Durable {
            let there = self.shelf.batches(partition).any(|batch| *batch == append.batch);
            ensure(there, "C1", || format!("a batch at {} was called durable and is not there", append.batch.first))?;
        }
        let is_behind = is_heard && landing == Landing::Behind && !self.is_lost(partition, append.reign.epoch().0);
        ensure(!is_behind, "C3", || format!("an owner went on at {}, the stream ends elsewhere", append.batch.first))?;
        Ok(landing)
    }

    /// With the first batch of an epoch no waiter goes but those whose time is up: their callers may be elsewhere.
    fn check_first(&self, partition: u32, batch: &Batch) -> Check {
        let ledger = &self.ledgers[partition as usize];
        let is_first = ledger.reigns.last().is_some_and(|(_, head)| batch.first.0 == head + 1);
        let Ok(decoded) = decode_batch(&batch.record) else { return Ok(()) };
        let withdrawn = decoded.changes.iter().any(|(_, change)| {
            matches!(change, leasehold_engine::Change::Ended { how: leasehold_engine::Ending::Withdrawn, .. })
        });
        ensure(!is_first || !withdrawn, "S12", || {
            "a new owner withdrew waiters before their nodes had asked".to_owned()
        })
    }

    /// When each change was decided: the wall clocks of this world are right.
    fn whens(&self, partition: u32, batch: &Batch) -> Vec<When> {
        let Ok(decoded) = decode_batch(&batch.record) else { return Vec::new() };
        let when = |world_us: u64| When { world_us, fair_us: self.fair_us(partition, world_us), ..When::default() };
        decoded.changes.iter().map(|(moment, _)| when(moment.wall.0)).collect()
    }

    /// Service time that may have passed by then.
    fn fair_us(&self, partition: u32, at_us: u64) -> u64 {
        let mut stretches: Vec<(u64, u64)> = self.unfair[partition as usize]
            .iter()
            .map(|&(from_us, to_us)| (from_us.saturating_add(RUN_OUT_US), to_us.min(at_us)))
            .filter(|(from_us, to_us)| from_us < to_us)
            .collect();
        stretches.sort_unstable();
        let (mut lost_us, mut until_us) = (0, 0);
        for (from_us, to_us) in stretches {
            lost_us += to_us.saturating_sub(from_us.max(until_us));
            until_us = until_us.max(to_us);
        }
        at_us - lost_us
    }

    /// A machine that goes on while the store is away finds out for itself: until then its service time runs on.
    pub(super) fn runs_out_again(&mut self, n: usize) {
        let now_us = self.now_us;
        for partition in self.owned_by(Some(n)) {
            let stretches = &mut self.unfair[partition as usize];
            for at in 0..stretches.len() {
                let (from_us, to_us) = stretches[at];
                if from_us < now_us && now_us < to_us {
                    stretches[at] = (from_us, now_us);
                    stretches.push((now_us, to_us));
                }
            }
        }
    }

    /// The partitions of this machine, or all of them.
    fn owned_by(&self, n: Option<usize>) -> Vec<u32> {
        let Ok(map) = self.shelf.map() else { return Vec::new() };
        let is_its = |partition: &u32| {
            let owner = map.owners[*partition as usize].value.node;
            let address = owner.and_then(|node| Some(map.node(node)?.value.address.as_str()));
            n.is_none_or(|n| address == Some(&*self.machines[n].address))
        };
        self.plan.partitions.all().filter(is_its).collect()
    }

    /// The partitions of this machine, or all of them, do not serve for a while.
    pub(super) fn stands_still(&mut self, n: Option<usize>, from_us: u64, to_us: u64) {
        for partition in self.owned_by(n) {
            self.unfair[partition as usize].push((from_us, to_us));
        }
    }

    pub(super) fn owner(&self, partition: u32) -> Seen<leasehold_cluster::Owner> {
        let owner = self.shelf.map().ok().and_then(|map| map.owners.get(partition as usize).cloned());
        owner.unwrap_or_default()
    }

    fn check_owner(reign: &Reign, was: &Seen<leasehold_cluster::Owner>, what: &str) -> Check {
        let is_owner = was.value == reign.owner && was.version == reign.version;
        ensure(is_owner, "C1", || format!("epoch {} {what}, partition {} is {was:?}", reign.epoch(), reign.partition))
    }

    fn check_dead(&self, node: NodeId, is_ok: bool, what: &str) -> Check {
        ensure(!is_ok || !self.buried.contains(&node), "C4", || format!("a {what} of {node:?} succeeded, it is buried"))
    }

    /// Buried is for ever.
    pub(super) fn note_buried(&mut self) {
        let Ok(map) = self.shelf.map() else { return };
        self.buried.extend(map.nodes.iter().filter(|seen| seen.value.is_buried).map(|seen| seen.value.node));
    }
}
