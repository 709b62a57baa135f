//! Slots as rows in PostgreSQL: a borrow takes the first free row that no other connection is taking, a return frees
//! it. Each is one prepared statement and one commit.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::drive::{Ask, Heard, Line, Script, connect};
use crate::wire::postgres;

/// Rows are updated in place: no index has the columns that change, and pages have room.
pub(crate) const SCHEMA: &str = "CREATE TABLE slots (pool int, position int, lease text, expires_at timestamptz, \
     PRIMARY KEY (pool, position)) WITH (fillfactor = 50); \
     INSERT INTO slots SELECT pool, 0, NULL, NULL FROM generate_series(0, 1023) AS pool";

const BORROW: &str = "UPDATE slots SET lease = $2, expires_at = now() + interval '30 s' \
     WHERE (pool, position) = (SELECT pool, position FROM slots WHERE pool = $1 \
     AND (lease IS NULL OR expires_at < now()) ORDER BY position LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING position";

const RETURN: &str = "UPDATE slots SET lease = NULL WHERE pool = $1 AND lease = $2";

#[derive(Debug)]
pub(crate) struct PostgresSlot {
    pool: String,
    borrowed: u64,
    holds: bool,
    borrowing: bool,
}

impl PostgresSlot {
    pub(crate) fn line(addr: SocketAddr, number: u64) -> Result<Line> {
        let mut stream = connect(addr)?;
        postgres::start(&mut stream, "postgres", "postgres")?;
        postgres::prepare(&mut stream, "borrow", BORROW)?;
        postgres::prepare(&mut stream, "return", RETURN)?;
        Line::new(stream, PostgresSlot { pool: number.to_string(), borrowed: 0, holds: false, borrowing: false })
    }
}

impl Script for PostgresSlot {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        if over && !self.holds {
            return Ask::Done;
        }
        self.borrowing = !self.holds;
        if self.borrowing {
            self.borrowed += 1;
        }
        let lease = format!("{:0>12}-{:023}", self.pool, self.borrowed);
        postgres::execute(out, if self.borrowing { "borrow" } else { "return" }, &[&self.pool, &lease]);
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(executed) = postgres::parse(input)? else { return Ok(Heard::Partial) };
        if executed.changed != 1 {
            bail!("postgres changed {} rows instead of one", executed.changed);
        }
        self.holds = self.borrowing;
        Ok(Heard::Answer(executed.len))
    }
}
