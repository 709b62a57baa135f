//! Batches: appended by compare, read in pages.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_cluster::record::{decode_linked, encode_linked};
use leasehold_cluster::{Append, CheckpointId, Cursor, Landing, Owner, Page, Piece, Seen, SharedError, Sum};
use leasehold_journal::{Epoch, Position};
use tokio_postgres::Row;

use super::{CONTRADICTIONS_MAX, Inner, contradicted, number, signed, unsigned};
use crate::client::{Client, Params};
use crate::sql;

/// Batches of one statement, and their bytes: a bound on what PostgreSQL has to keep in memory.
const GROUP_BATCHES_MAX: usize = 512;
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Batches of a page, and the bytes after which no further batch begins.
const PAGE_BATCHES: i64 = 640;
const PAGE_BYTES: i64 = 4 << 20;

/// An append as it goes to PostgreSQL.
#[derive(Debug)]
struct Ready {
    /// Its place among the appends of the caller.
    at: usize,
    append: Append,
    record: Vec<u8>,
}

impl Inner {
    pub(super) async fn append(&self, appends: Vec<Append>) -> Result<Vec<Landing>, SharedError> {
        Append::refuse_twice(&appends)?;
        let mut landings = vec![None; appends.len()];
        let mut groups: Vec<Vec<Ready>> = Vec::new();
        let mut bytes = 0;
        for (at, append) in appends.into_iter().enumerate() {
            self.check_partition(append.reign.partition)?;
            let record = encode_linked(append.before, &append.batch.record);
            bytes += record.len();
            let length = record.len();
            let ready = Ready { at, append, record };
            match groups.last_mut() {
                Some(group) if group.len() < GROUP_BATCHES_MAX && bytes <= GROUP_BYTES_MAX => group.push(ready),
                _ => {
                    bytes = length;
                    groups.push(vec![ready]);
                }
            }
        }
        for mut group in groups {
            // In one order, so that two statements that wait for each other's rows are rare.
            group.sort_unstable_by_key(|ready| ready.append.reign.partition);
            let client = self.appender();
            for _ in 0..CONTRADICTIONS_MAX {
                for (at, landing) in self.append_group(client, &group).await? {
                    landings[at] = Some(landing);
                }
                group.retain(|ready| landings[ready.at].is_none());
            }
            if !group.is_empty() {
                return contradicted();
            }
        }
        Ok(landings.into_iter().map(|landing| landing.expect("each append is in a group, and told")).collect())
    }

    /// Sends a group. Those that come back without a word may be sent again.
    async fn append_group(&self, client: &Client, group: &[Ready]) -> Result<Vec<(usize, Landing)>, SharedError> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let params = Params::new()
            .with(column(group, |ready| number(ready.append.reign.partition)))
            .with(column(group, |ready| signed(ready.append.reign.version)))
            .with(column(group, |ready| signed(ready.append.reign.epoch().0)))
            .with(column(group, |ready| signed(ready.append.before.first.0)))
            .with(column(group, |ready| i64::from(ready.append.before.sum.0)))
            .with(column(group, |ready| signed(ready.append.batch.first.0)))
            .with(column(group, |ready| signed(ready.append.batch.last.0)))
            .with(column(group, |ready| i64::from(Sum::of(&ready.append.batch.record).0)))
            .with(column(group, |ready| ready.record.clone()));
        let (landed, is_full) = match self.write(client, sql::APPEND, params).await {
            Ok(rows) => (rows.iter().map(|row| row.get::<_, i32>(0)).collect(), false),
            // None of them is in by this statement; an earlier sending may have landed.
            Err(SharedError::Full(_)) => (BTreeSet::new(), true),
            Err(error) => return Err(error),
        };
        self.noticed(is_full);
        let (mut told, mut rest) = (Vec::new(), Vec::new());
        for ready in group {
            if landed.contains(&number(ready.append.reign.partition)) {
                told.push((ready.at, Landing::Durable));
            } else {
                rest.push(ready);
            }
        }
        if !rest.is_empty() {
            told.extend(self.verdicts(client, &rest, is_full).await?);
        }
        Ok(told)
    }

    /// Finds out the landing of batches that their statement did not append.
    async fn verdicts(
        &self,
        client: &Client,
        rest: &[&Ready],
        is_full: bool,
    ) -> Result<Vec<(usize, Landing)>, SharedError> {
        let params = Params::new()
            .with(rest.iter().map(|ready| number(ready.append.reign.partition)).collect::<Vec<_>>())
            .with(rest.iter().map(|ready| signed(ready.append.batch.last.0)).collect::<Vec<_>>())
            .with(rest.iter().map(|ready| ready.record.clone()).collect::<Vec<_>>());
        let rows = self.write(client, sql::QUESTIONS, params).await?;
        let answers: BTreeMap<i32, &Row> = rows.iter().map(|row| (row.get(0), row)).collect();
        let mut told = Vec::new();
        for ready in rest {
            let partition = ready.append.reign.partition;
            let Some(row) = answers.get(&number(partition)) else {
                return Err(self.damaged("stream", format!("the row of partition {partition} is missing")));
            };
            let first = ready.append.batch.first;
            let is_swept = || {
                let oldest = row.get::<_, Option<i64>>(6).map_or(Position::START, |oldest| Position(unsigned(oldest)));
                first <= Position(unsigned(row.get(3))) && oldest > first
            };
            let landing = match (row.get(2), unsigned(row.get(1)) == ready.append.reign.version) {
                (true, _) => Landing::Durable,
                (false, true) if is_full => Landing::Full,
                // It would fit: the server that said no was another one.
                (false, true) if Inner::fits(&ready.append, row) => continue,
                (false, true) => Landing::Behind,
                (false, false) if is_swept() => Landing::Lost,
                (false, false) => Landing::Moved,
            };
            told.push((ready.at, landing));
        }
        Ok(told)
    }

    /// Returns whether the stream ends where the batch begins.
    fn fits(append: &Append, row: &Row) -> bool {
        let (head, first, sum): (i64, i64, i64) = (row.get(3), row.get(4), row.get(5));
        let end = (signed(append.batch.first.0) - 1, signed(append.before.first.0), i64::from(append.before.sum.0));
        (head, first, sum) == end
    }

    pub(super) async fn read(&self, partition: u32, from: Cursor) -> Result<Page, SharedError> {
        self.check_partition(partition)?;
        match from {
            Cursor::Chunk(of, number) => self.read_chunks(partition, of, number).await,
            Cursor::After(after) => self.read_after(partition, after).await,
        }
    }

    async fn read_after(&self, partition: u32, after: Position) -> Result<Page, SharedError> {
        let params = Params::new().with(number(partition)).with(signed(after.0)).with(PAGE_BATCHES).with(PAGE_BYTES);
        let rows = self.carry(sql::PAGE, params).await?;
        let State { owner, head, checkpoint } = self.state(partition, &rows)?;
        // The row of the stream comes with no batch when there is none.
        let batches: Vec<&Row> = rows.iter().filter(|row| row.get::<_, Option<i64>>(10).is_some()).collect();
        let first = batches.first().map(|row| Position(unsigned(row.get(9))));
        let is_swept = match first {
            Some(first) => first > after.next(),
            None => after < head,
        };
        match checkpoint {
            Some((of, _)) if after < of.upto && (is_swept || after == Position::START) => {
                return self.read_chunks(partition, of, 0).await;
            }
            None if is_swept => return Err(self.damaged("batch", "batches are missing, and there is no checkpoint")),
            _ => {}
        }
        self.seal_page(&rows, batches.len()).await?;
        let last = batches.last().map(|row| Position(unsigned(row.get(10))));
        let next = last.filter(|last| *last < head).map(Cursor::After);
        let mut pieces = Vec::new();
        for row in batches {
            let (before, record) = decode_linked(row.get(11)).map_err(|error| self.damaged("batch", error))?;
            pieces.push(Piece::Batch { before, record: record.to_vec() });
        }
        Ok(Page { owner, pieces, next })
    }

    /// The columns of a stream at the front of a page.
    pub(super) fn state(&self, partition: u32, rows: &[Row]) -> Result<State, SharedError> {
        let Some(row) = rows.first() else {
            return Err(self.damaged("stream", format!("the row of partition {partition} is missing")));
        };
        let checkpoint =
            match (row.get::<_, Option<i64>>(5), row.get::<_, Option<i64>>(6), row.get::<_, Option<i32>>(7)) {
                (Some(upto), Some(epoch), Some(chunks)) => {
                    let id = CheckpointId { epoch: Epoch(unsigned(epoch)), upto: Position(unsigned(upto)) };
                    Some((
                        id,
                        u32::try_from(chunks).map_err(|_| self.damaged("stream", "a checkpoint has below 0 chunks"))?,
                    ))
                }
                _ => None,
            };
        Ok(State { owner: self.owner(row, partition)?, head: Position(unsigned(row.get(4))), checkpoint })
    }

    /// A page with something on it is handed out when that is replicated: a follower must not apply a batch that a
    /// promoted standby does not have.
    pub(super) async fn seal_page(&self, rows: &[Row], pieces: usize) -> Result<(), SharedError> {
        let has_standbys = rows.first().is_some_and(|row| row.get(8));
        if has_standbys && pieces > 0 {
            self.carry(sql::SEAL, Params::new()).await?;
        }
        Ok(())
    }
}

/// One value of each append.
fn column<T>(group: &[Ready], value: impl Fn(&Ready) -> T) -> Vec<T> {
    group.iter().map(value).collect()
}

/// A stream as a page shows it.
pub(super) struct State {
    pub(super) owner: Seen<Owner>,
    pub(super) head: Position,
    pub(super) checkpoint: Option<(CheckpointId, u32)>,
}
