//! Batches: appended by compare, read in pages.
//!
//! ```text
//! append, for each partition in it:
//!   If    version(o/p) = reign · b/p/<first - 1>.<sum before> exists · nothing from b/p/<first> on
//!   Then  put b/p/<last>.<sum>
//!   Else  get o/p, b/p/<last>.<sum>, the oldest batch       (who owns it, whether ours is there, what was swept)
//! ```
//!
//! If the compares of one partition fail, all fail. Those that could be told are told, and the others are sent again
//! without them.

use bytes::Bytes;
use leasehold_cluster::record::{decode_linked, encode_linked};
use leasehold_cluster::{Append, Cursor, Landing, Link, Page, Piece, SharedError, Sum};
use leasehold_journal::Position;
use leasehold_journal::record::BatchReader;

use super::{BULK_PATIENCE, Inner, fenced};
use crate::error::{CallError, EtcdRefusal};
use crate::txn::{Outcome, Txn, exists, get, get_all, get_some, is_empty, put, unsigned, version_is};
use crate::wire::{KeyValue, RangeResponse};

/// Three compares each, and three reads; etcd allows 128 of either.
const GROUP_BATCHES_MAX: usize = 40;
/// etcd takes requests up to 1.5 MiB.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// A batch above this is divided into parts of this size.
const PART_BYTES: usize = 1 << 20;
/// The first byte of a batch whose bytes are in parts; `encode_linked` begins with small numbers.
const IN_PARTS: u8 = 0xf0;
/// Batches of a page: few enough that even the largest fit into an answer.
const PAGE_BATCHES: i64 = 16;
/// Batches of a page where they seem to be small. If they turn out to be large, the page is asked for again.
const PAGE_BATCHES_SMALL: i64 = 640;
/// An average batch below this is small.
const SMALL_BATCH_BYTES: usize = 8 << 10;

/// An append as it goes to etcd.
#[derive(Debug)]
struct Ready {
    /// Its place among the appends of the caller.
    at: usize,
    append: Append,
    key: Bytes,
    value: Bytes,
}

impl Ready {
    fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

impl Inner {
    pub(super) async fn append(&self, appends: Vec<Append>) -> Result<Vec<Landing>, SharedError> {
        Append::refuse_twice(&appends)?;
        let mut landings = vec![None; appends.len()];
        let mut groups: Vec<Vec<Ready>> = Vec::new();
        let mut bytes = 0;
        for (at, append) in appends.into_iter().enumerate() {
            let ready = match self.ready(at, append).await? {
                Ok(ready) => ready,
                Err(landing) => {
                    landings[at] = Some(landing);
                    continue;
                }
            };
            bytes += ready.bytes();
            match groups.last_mut() {
                Some(group) if group.len() < GROUP_BATCHES_MAX && bytes <= GROUP_BYTES_MAX => group.push(ready),
                _ => {
                    bytes = ready.bytes();
                    groups.push(vec![ready]);
                }
            }
        }
        while let Some(group) = groups.pop() {
            let told = self.append_group(group, &mut groups).await?;
            for (at, landing) in told {
                landings[at] = Some(landing);
            }
        }
        Ok(landings.into_iter().map(|landing| landing.expect("each append is in a group until it is told")).collect())
    }

    /// Sends one group. Batches that could not be told are put back into `groups`.
    async fn append_group(
        &self,
        group: Vec<Ready>,
        groups: &mut Vec<Vec<Ready>>,
    ) -> Result<Vec<(usize, Landing)>, SharedError> {
        let mut txn = Txn::default();
        for ready in &group {
            let reign = &ready.append.reign;
            txn = txn.when(version_is(self.keys.owner(reign.partition), reign.version));
            let (before, first) = (ready.append.before, ready.append.batch.first);
            if before != Link::default() {
                txn = txn.when(exists(self.keys.batch(reign.partition, Position(first.0 - 1), before.sum)));
            }
            txn = txn.when(is_empty(self.keys.batches_from(reign.partition, first)));
            txn = txn.then(put(ready.key.clone(), ready.value.clone()));
            txn = self.questions(txn, ready);
        }
        let (mut outcome, is_full) = match self.transact(&self.main, &txn).await {
            Ok(outcome) => (outcome, false),
            // etcd says so before it executes the transaction or after, so the answer has to be read.
            Err(SharedError::Full(_)) => {
                txn.0.compare.clear();
                txn.0.success = std::mem::take(&mut txn.0.failure);
                let mut outcome = self.transact(&self.main, &txn).await?;
                outcome.succeeded = false;
                (outcome, true)
            }
            Err(error) => return Err(error),
        };
        if outcome.succeeded {
            return Ok(group.into_iter().map(|ready| (ready.at, Landing::Durable)).collect());
        }
        let (mut told, mut rest) = (Vec::new(), Vec::new());
        for ready in group {
            match self.landing(&ready, &mut outcome)? {
                Some(landing) => told.push((ready.at, landing)),
                None if is_full => told.push((ready.at, Landing::Full)),
                None => rest.push(ready),
            }
        }
        match rest.len() {
            0 => {}
            // It is ours, it is not there, and no other batch can have been the reason.
            1 if told.is_empty() => told.push((rest[0].at, Landing::Behind)),
            _ if told.is_empty() => groups.extend(rest.into_iter().map(|ready| vec![ready])),
            _ => groups.push(rest),
        }
        Ok(told)
    }

    /// Asks, for when the compares fail, who owns the partition, whether the batch is there, and what was swept.
    fn questions(&self, txn: Txn, ready: &Ready) -> Txn {
        let partition = ready.append.reign.partition;
        txn.or_else(get(self.keys.owner(partition)))
            .or_else(get(ready.key.clone()))
            .or_else(get_some(self.keys.batches_from(partition, Position::START), 1))
    }

    /// Reads the answers to the questions. `None` when it may be sent again.
    fn landing(&self, ready: &Ready, outcome: &mut Outcome) -> Result<Option<Landing>, SharedError> {
        let (owner, there, oldest) = (outcome.key(), outcome.key(), outcome.key());
        if there.is_some_and(|there| there.value == ready.value) {
            return Ok(Some(Landing::Durable));
        }
        let reign = &ready.append.reign;
        if self.owner(owner.as_ref())?.version == reign.version {
            return Ok(None);
        }
        let is_swept = match oldest {
            None => false,
            Some(kv) => self.first_of(&kv)? > ready.append.batch.first,
        };
        Ok(Some(if is_swept { Landing::Lost } else { Landing::Moved }))
    }

    /// Makes the key and the value of a batch. The parts of a large one are put first; they count for nothing until
    /// the batch names them.
    async fn ready(&self, at: usize, append: Append) -> Result<Result<Ready, Landing>, SharedError> {
        let (partition, batch) = (append.reign.partition, &append.batch);
        self.check_partition(partition)?;
        let sum = Sum::of(&batch.record);
        let key = self.keys.batch(partition, batch.last, sum);
        let linked = Bytes::from(encode_linked(append.before, &batch.record));
        if linked.len() <= PART_BYTES {
            return Ok(Ok(Ready { at, append, key, value: linked }));
        }
        let parts = linked.len().div_ceil(PART_BYTES);
        let value = stub(append.before, batch.first, parts, &linked);
        let ready = Ready { at, append, key, value };
        for number in 0..parts {
            let part = linked.slice(number * PART_BYTES..linked.len().min((number + 1) * PART_BYTES));
            let (owner, version) = (self.keys.owner(partition), ready.append.reign.version);
            let txn = Txn::default()
                .when(version_is(owner, version))
                .then(put(self.keys.part(partition, ready.append.batch.last, sum, number), part));
            let is_put = match self.transact(&self.main, &txn).await {
                Ok(outcome) => outcome.succeeded,
                Err(SharedError::Full(_)) => false,
                Err(error) => return Err(error),
            };
            // The batch itself is sent all the same where the partition is not ours any more: it may have landed
            // before, and the compare says what became of it.
            if !is_put {
                let mut outcome =
                    self.transact(&self.main, &self.questions(Txn::default().when(never(&ready.key)), &ready)).await?;
                return Ok(Err(self.landing(&ready, &mut outcome)?.unwrap_or(Landing::Full)));
            }
        }
        Ok(Ok(ready))
    }

    pub(super) async fn read(&self, partition: u32, from: Cursor) -> Result<Page, SharedError> {
        self.check_partition(partition)?;
        match from {
            Cursor::Chunk(of, number) => self.read_chunks(partition, of, number).await,
            Cursor::After(after) => self.read_after(partition, after).await,
        }
    }

    async fn read_after(&self, partition: u32, after: Position) -> Result<Page, SharedError> {
        let (mut limit, mut may_grow) = (PAGE_BATCHES, true);
        loop {
            let batches = self.keys.batches_from(partition, after.next());
            let txn = Txn::default()
                .then(get(self.keys.owner(partition)))
                .then(get(self.keys.checkpoint(partition)))
                .then(get_some(batches, limit));
            let mut outcome = match self.bulk.call(&txn.0, BULK_PATIENCE).await {
                Ok(answer) => Outcome::new(answer),
                Err(CallError::Refused(EtcdRefusal::TooLarge(_))) if limit > PAGE_BATCHES => {
                    (limit, may_grow) = (PAGE_BATCHES, false);
                    continue;
                }
                Err(error) => return Err(self.error(error)),
            };
            let (owner, checkpoint, range) = (outcome.key(), outcome.key(), outcome.range());
            let owner = self.owner(owner.as_ref())?;
            let checkpoint = checkpoint.map(|kv| self.checkpoint_of(&kv)).transpose()?;
            let first = range.kvs.first().map(|kv| self.first_of(kv)).transpose()?;
            let is_swept = first.is_some_and(|first| first > after.next());
            match checkpoint {
                Some((of, _)) if after < of.upto && (is_swept || after == Position::START) => {
                    return self.read_chunks(partition, of, 0).await;
                }
                None if is_swept => {
                    let key = self.keys.batches_from(partition, after.next()).from;
                    return Err(self.damaged(&key, "batches are missing, and there is no checkpoint"));
                }
                _ => {}
            }
            let bytes: usize = range.kvs.iter().map(|kv| kv.value.len()).sum();
            let is_small = range.more && bytes < SMALL_BATCH_BYTES * range.kvs.len();
            if is_small && may_grow {
                // As these are small, so are most likely the next ones.
                may_grow = false;
                limit = PAGE_BATCHES_SMALL;
                continue;
            }
            return self.page(partition, owner, range).await;
        }
    }

    async fn page(
        &self,
        partition: u32,
        owner: leasehold_cluster::Seen<leasehold_cluster::Owner>,
        range: RangeResponse,
    ) -> Result<Page, SharedError> {
        let next = match range.kvs.last() {
            Some(kv) if range.more => {
                let last = self.keys.last_of(partition, &kv.key);
                Some(Cursor::After(last.ok_or_else(|| self.damaged(&kv.key, "there is no position in it"))?))
            }
            _ => None,
        };
        let mut pieces = Vec::new();
        for kv in range.kvs {
            let whole = self.whole(partition, &kv).await?;
            let (before, record) = decode_linked(&whole).map_err(|error| self.damaged(&kv.key, error))?;
            pieces.push(Piece::Batch { before, record: record.to_vec() });
        }
        Ok(Page { owner, pieces, next })
    }

    /// The bytes of a batch, put together if they are in parts. Parts do not change once their batch is there.
    async fn whole(&self, partition: u32, kv: &KeyValue) -> Result<Bytes, SharedError> {
        let Some(stub) = read_stub(&kv.value) else { return Ok(kv.value.clone()) };
        let last = self.keys.last_of(partition, &kv.key);
        let last = last.ok_or_else(|| self.damaged(&kv.key, "there is no position in it"))?;
        let txn = Txn::default().then(get_all(self.keys.parts(partition, last, stub.sum)));
        let parts = self.transact_bulk(&txn).await?.range().kvs;
        let mut whole = Vec::with_capacity(parts.len() * PART_BYTES);
        for part in &parts {
            whole.extend_from_slice(&part.value);
        }
        if parts.is_empty() {
            // Swept since the page was read.
            return Err(SharedError::Gone);
        }
        if parts.len() != stub.parts || crc32fast::hash(&whole) != stub.crc {
            return Err(self.damaged(&kv.key, format!("{} of {} parts are there", parts.len(), stub.parts)));
        }
        Ok(Bytes::from(whole))
    }

    /// The first position of a batch.
    fn first_of(&self, kv: &KeyValue) -> Result<Position, SharedError> {
        if let Some(stub) = read_stub(&kv.value) {
            return Ok(stub.first);
        }
        let (_, record) = decode_linked(&kv.value).map_err(|error| self.damaged(&kv.key, error))?;
        Ok(BatchReader::open(record).map_err(|error| self.damaged(&kv.key, error))?.header().first)
    }

    /// Compares the reign, and does as `txn` says if it is still ours.
    pub(super) async fn as_owner(&self, reign: &leasehold_cluster::Reign, txn: Txn) -> Result<(), SharedError> {
        let txn = txn.when(version_is(self.keys.owner(reign.partition), reign.version));
        if self.transact_bulk(&txn).await?.succeeded { Ok(()) } else { fenced(reign) }
    }
}

/// A compare that fails, so that the questions are answered.
fn never(key: &Bytes) -> crate::wire::Compare {
    version_is(key.clone(), u64::MAX)
}

/// Stands in the place of a batch whose bytes are in parts: version, parts, checksum of all, link, first position.
#[derive(Debug, PartialEq, Eq)]
struct Stub {
    parts: usize,
    crc: u32,
    first: Position,
    /// Of the batch itself, as in its key.
    sum: Sum,
}

fn stub(before: Link, first: Position, parts: usize, linked: &[u8]) -> Bytes {
    let mut out = vec![IN_PARTS];
    out.extend_from_slice(&u32::try_from(parts).expect("a batch fits into memory").to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(linked).to_le_bytes());
    out.extend_from_slice(&first.0.to_le_bytes());
    out.extend_from_slice(&Sum::of(linked).0.to_le_bytes());
    out.extend_from_slice(&before.first.0.to_le_bytes());
    out.extend_from_slice(&before.sum.0.to_le_bytes());
    Bytes::from(out)
}

fn read_stub(value: &[u8]) -> Option<Stub> {
    let rest = value.strip_prefix(&[IN_PARTS])?;
    let (parts, rest) = rest.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (first, rest) = rest.split_first_chunk::<8>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    Some(Stub {
        parts: u32::from_le_bytes(*parts) as usize,
        crc: u32::from_le_bytes(*crc),
        first: Position(u64::from_le_bytes(*first)),
        sum: Sum(u32::from_le_bytes(*sum)),
    })
}

/// The revision of a key, 0 where there is none.
pub(super) fn version_of(kv: Option<&KeyValue>) -> u64 {
    kv.map_or(0, |kv| unsigned(kv.mod_revision))
}
