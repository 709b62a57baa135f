//! etcd's own lock service over gRPC: `Lock` under a lease that the connection has from the start, `Unlock`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::drive::{Ask, Heard, Line, Script, connect};
use crate::wire::grpc::{self, Channel, GrpcFrame, Value};
use crate::wire::read_until;

const LEASE_TTL_S: u64 = 3600;

#[derive(Debug)]
pub(crate) struct EtcdLock {
    channel: Channel,
    lock: Vec<u8>,
    /// The key of the lock that is held.
    key: Vec<u8>,
    holds: bool,
    locking: bool,
}

impl EtcdLock {
    pub(crate) fn line(addr: SocketAddr, number: u64) -> Result<Line> {
        let mut stream = connect(addr)?;
        let mut out = Vec::new();
        let mut channel = Channel::open(&mut out);
        let mut grant = Vec::new();
        grpc::put_integer(&mut grant, 1, LEASE_TTL_S);
        channel.call(&mut out, "/etcdserverpb.Lease/LeaseGrant", &grant);
        stream.write_all(&out)?;
        out.clear();
        let mut taken = 0;
        read_until(&mut stream, |input| {
            loop {
                match channel.hear(&input[taken..], &mut out)? {
                    GrpcFrame::Partial => return Ok(None),
                    GrpcFrame::Aside(len) => taken += len,
                    GrpcFrame::End(_) => return Ok(Some(())),
                }
            }
        })?;
        stream.write_all(&out)?;
        let Some(Value::Integer(lease)) = grpc::field(channel.message(), 2) else {
            anyhow::bail!("etcd granted a lease without an id");
        };
        let mut lock = Vec::new();
        grpc::put_bytes(&mut lock, 1, format!("lock-{number:012}").as_bytes());
        grpc::put_integer(&mut lock, 2, lease);
        Line::new(stream, EtcdLock { channel, lock, key: Vec::new(), holds: false, locking: false })
    }
}

impl Script for EtcdLock {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        if over && !self.holds {
            return Ask::Done;
        }
        self.locking = !self.holds;
        if self.locking {
            self.channel.call(out, "/v3lockpb.Lock/Lock", &self.lock);
        } else {
            let mut unlock = Vec::with_capacity(64);
            grpc::put_bytes(&mut unlock, 1, &self.key);
            self.channel.call(out, "/v3lockpb.Lock/Unlock", &unlock);
        }
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], out: &mut Vec<u8>) -> Result<Heard> {
        let len = match self.channel.hear(input, out)? {
            GrpcFrame::Partial => return Ok(Heard::Partial),
            GrpcFrame::Aside(len) => return Ok(Heard::Aside(len)),
            GrpcFrame::End(len) => len,
        };
        if self.locking {
            let Value::Bytes(key) = grpc::field(self.channel.message(), 2).context("a lock without a key")? else {
                anyhow::bail!("a lock whose key is a number");
            };
            self.key = key.to_vec();
        }
        self.holds = self.locking;
        Ok(Heard::Answer(len))
    }
}
