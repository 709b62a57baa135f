//! A lock in Redis as its documentation has it: `SET key token NX PX ttl`, and a script that deletes the key only if
//! the token is still one's own.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::drive::{Ask, Heard, Line, Script, connect};
use crate::wire::resp;

const COMPARE_AND_DELETE: &[u8] =
    b"if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[derive(Debug)]
pub(crate) struct RedisLock {
    key: String,
    digest: String,
    acquired: u64,
    holds: bool,
    acquiring: bool,
}

impl RedisLock {
    pub(crate) fn line(addr: SocketAddr, number: u64) -> Result<Line> {
        let mut stream = connect(addr)?;
        let digest = resp::call(&mut stream, &[b"SCRIPT", b"LOAD", COMPARE_AND_DELETE])?;
        let key = format!("lock:{number:012}");
        Line::new(stream, RedisLock { key, digest, acquired: 0, holds: false, acquiring: false })
    }

    /// Unique for every acquisition, and as long as a UUID.
    fn token(&self) -> String {
        format!("{}-{:019}", &self.key[5..], self.acquired)
    }
}

impl Script for RedisLock {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        if over && !self.holds {
            return Ask::Done;
        }
        self.acquiring = !self.holds;
        let key = self.key.as_bytes();
        if self.acquiring {
            self.acquired += 1;
            resp::command(out, &[b"SET", key, self.token().as_bytes(), b"NX", b"PX", b"30000"]);
        } else {
            resp::command(out, &[b"EVALSHA", self.digest.as_bytes(), b"1", key, self.token().as_bytes()]);
        }
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some((reply, len)) = resp::parse(input)? else { return Ok(Heard::Partial) };
        let wanted: &[u8] = if self.acquiring { b"+OK" } else { b":1" };
        if reply != wanted {
            bail!("redis answered {}", String::from_utf8_lossy(reply));
        }
        self.holds = self.acquiring;
        Ok(Heard::Answer(len))
    }
}
