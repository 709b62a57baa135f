//! Everything that is measured side by side, and how each is started, asked and checked. All of them listen on
//! 127.0.0.1 and keep their data in one directory, so that they share the disk.

mod leasehold;
mod others;
mod process;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::drive::{Line, Outcome, Plan, connect, drive};
use crate::machine::processor_time;
use crate::script::{Constant, EtcdLock, PoolCycle, PostgresSlot, RedisLock, pool_id};
use crate::wire::{http, postgres, resp};
pub(crate) use leasehold::Leasehold;
use leasehold::Metrics;
use process::Process;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Contender {
    Leasehold,
    LeaseholdMemory,
    Ceiling,
    RedisAlways,
    RedisMemory,
    Postgres,
    Etcd,
    /// Three nodes of the service on three members of etcd.
    Cluster,
    /// Three members of etcd.
    EtcdThree,
    /// Three nodes of the service on one PostgreSQL.
    ClusterPostgres,
}

impl Contender {
    /// Those that share a row of their own: a service over several processes, beside the store that it uses.
    pub(crate) const CLUSTERS: [Contender; 4] =
        [Contender::Cluster, Contender::EtcdThree, Contender::ClusterPostgres, Contender::Postgres];

    pub(crate) const ALL: [Contender; 7] = [
        Contender::Leasehold,
        Contender::LeaseholdMemory,
        Contender::Ceiling,
        Contender::RedisAlways,
        Contender::RedisMemory,
        Contender::Postgres,
        Contender::Etcd,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Contender::Leasehold => "Leasehold",
            Contender::LeaseholdMemory => "Leasehold --memory",
            Contender::Ceiling => "constant answer",
            Contender::RedisAlways => "Redis, fsync always",
            Contender::RedisMemory => "Redis, no persistence",
            Contender::Postgres => "PostgreSQL",
            Contender::Etcd => "etcd",
            Contender::Cluster => "Leasehold, three nodes on three etcd members",
            Contender::EtcdThree => "etcd, three members",
            Contender::ClusterPostgres => "Leasehold, three nodes on PostgreSQL",
        }
    }

    /// As many as it is asked over at a time. A process for each of PostgreSQL's connections, or etcd's calls for each
    /// of its, would measure this machine.
    pub(crate) fn connections_max(self) -> u64 {
        match self {
            Contender::Postgres | Contender::Etcd | Contender::EtcdThree => 256,
            Contender::Leasehold
            | Contender::LeaseholdMemory
            | Contender::Cluster
            | Contender::ClusterPostgres
            | Contender::Ceiling
            | Contender::RedisAlways
            | Contender::RedisMemory => u64::MAX,
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Contender::Leasehold => "leasehold",
            Contender::LeaseholdMemory => "leasehold-memory",
            Contender::Ceiling => "ceiling",
            Contender::RedisAlways => "redis-always",
            Contender::RedisMemory => "redis-memory",
            Contender::Postgres => "postgres",
            Contender::Etcd => "etcd",
            Contender::Cluster => "cluster",
            Contender::EtcdThree => "etcd-three",
            Contender::ClusterPostgres => "cluster-postgres",
        }
    }
}

/// Where the service keeps its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Disk,
    Memory,
}

/// Where data goes and our own binaries are.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) dir: PathBuf,
    pub(crate) binaries: PathBuf,
}

impl Workspace {
    /// A fresh directory in it.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    pub(crate) fn leasehold(&self) -> PathBuf {
        self.binary("leasehold")
    }
}

/// A peer that takes requests.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) peer: Contender,
    pub(crate) addr: SocketAddr,
    pub(crate) version: String,
    process: Process,
    /// The others of a peer that is several processes.
    more: Vec<Process>,
    /// Where they are asked, in turn.
    addrs: Vec<SocketAddr>,
}

impl Running {
    pub(crate) fn start(peer: Contender, place: &Workspace) -> Result<Self> {
        let dir = place.fresh(peer.file_name())?;
        let started = match peer {
            Contender::Leasehold => return Running::start_build(&place.leasehold(), Store::Disk, &dir),
            Contender::LeaseholdMemory => return Running::start_build(&place.leasehold(), Store::Memory, &dir),
            Contender::Ceiling => leasehold::start_ceiling(place, &dir)?,
            Contender::RedisAlways => others::start_redis(&dir, true)?,
            Contender::RedisMemory => others::start_redis(&dir, false)?,
            Contender::Postgres => others::start_postgres(&dir)?,
            Contender::Etcd => others::start_etcd(&dir)?,
            Contender::EtcdThree => {
                let (mut members, addrs, version) = others::start_etcd_three(&dir)?;
                let process = members.remove(0);
                return Ok(Running { peer, addr: addrs[0], version, process, more: members, addrs });
            }
            Contender::Cluster => {
                let (members, etcd, _) = others::start_etcd_three(&dir)?;
                let hosts: Vec<String> = etcd.iter().map(SocketAddr::to_string).collect();
                let store = format!("etcd://{}/bench", hosts.join(","));
                return Running::start_nodes(peer, place, &dir, &store, members);
            }
            Contender::ClusterPostgres => {
                let (server, addr, _) = others::start_postgres(&dir)?;
                let store = format!("postgres://postgres@{addr}/postgres");
                return Running::start_nodes(peer, place, &dir, &store, vec![server]);
            }
        };
        let (process, addr, version) = started;
        Ok(Running { peer, addr, version, process, more: Vec::new(), addrs: vec![addr] })
    }

    /// Three nodes on a store, whose processes are counted in.
    fn start_nodes(peer: Contender, place: &Workspace, dir: &Path, store: &str, behind: Vec<Process>) -> Result<Self> {
        let (mut nodes, addrs, version) = leasehold::start_cluster(&place.leasehold(), dir, store)?;
        let process = nodes.remove(0);
        let more = nodes.into_iter().chain(behind).collect();
        Ok(Running { peer, addr: addrs[0], version, process, more, addrs })
    }

    /// Any build of the service.
    pub(crate) fn start_build(program: &Path, store: Store, dir: &Path) -> Result<Self> {
        let (peer, (process, addr, version)) = match store {
            Store::Disk => {
                (Contender::Leasehold, leasehold::start(program, dir, &["--data", &text(&dir.join("data"))])?)
            }
            Store::Memory => (Contender::LeaseholdMemory, leasehold::start(program, dir, &["--memory"])?),
        };
        Ok(Running { peer, addr, version, process, more: Vec::new(), addrs: vec![addr] })
    }

    /// A connection that borrows and returns a thing of its own.
    pub(crate) fn cycle(&self, number: u64) -> Result<Line> {
        let count = u64::try_from(self.addrs.len()).expect("a few");
        let addr = self.addrs[usize::try_from(number % count).expect("a few")];
        match self.peer {
            Contender::Leasehold | Contender::LeaseholdMemory | Contender::Cluster | Contender::ClusterPostgres => {
                Line::open(addr, PoolCycle::new(addr, number)?)
            }
            Contender::Ceiling => Line::open(self.addr, Constant::new(number)),
            Contender::RedisAlways | Contender::RedisMemory => RedisLock::line(self.addr, number),
            Contender::Postgres => PostgresSlot::line(self.addr, number),
            Contender::Etcd | Contender::EtcdThree => EtcdLock::line(addr, number),
        }
    }

    /// The peer's own count of answers, where it has one: the generator's figures are checked against it.
    pub(crate) fn served(&self) -> Result<Option<u64>> {
        Ok(match self.peer {
            Contender::Leasehold | Contender::LeaseholdMemory | Contender::Cluster | Contender::ClusterPostgres => {
                let mut served = 0;
                for addr in &self.addrs {
                    let metrics = Metrics::read(*addr)?;
                    // A build that is compared with may have no label `kind` yet.
                    let names = ["dialect=\"pools\",kind=\"pool\"", "dialect=\"pools\""];
                    let read = |labels: &&str| {
                        metrics.number(&format!("leasehold_requests_total{{{labels},status=\"200\"}}")).ok()
                    };
                    served += names.iter().find_map(read).unwrap_or(0);
                }
                Some(served)
            }
            Contender::Ceiling => Some(http::expect_ok(self.addr, "GET", "/", "")?.parse()?),
            Contender::RedisAlways | Contender::RedisMemory => {
                let stats = resp::call(&mut connect(self.addr)?, &[b"INFO", b"commandstats"])?;
                let calls = |name: &str| -> Option<u64> {
                    let rest = stats.split(&format!("cmdstat_{name}:calls=")).nth(1)?;
                    rest.split(',').next()?.parse().ok()
                };
                Some(calls("set").unwrap_or(0) + calls("evalsha").unwrap_or(0))
            }
            Contender::Postgres | Contender::Etcd | Contender::EtcdThree => None,
        })
    }

    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let all = self.more.iter().chain([&self.process]);
        all.map(|process| processor_time(process.pid())).sum()
    }

    /// Drives lines that were made for this peer, and compares the generator's count with the peer's own.
    pub(crate) fn drive(&self, lines: Vec<Line>, plan: &Plan<'_>) -> Result<Outcome> {
        let before = self.served()?;
        let outcome = drive(lines, plan)?;
        if let (Some(before), Some(after)) = (before, self.served()?) {
            let served = after - before;
            ensure!(served == outcome.heard, "{} answers were heard, the peer counts {served}", outcome.heard);
        }
        Ok(outcome)
    }

    /// After a run no lease is held: every borrow was followed by a return that took effect.
    pub(crate) fn check_nothing_held(&self, connections: u64) -> Result<()> {
        let held = match self.peer {
            Contender::Leasehold | Contender::LeaseholdMemory | Contender::Cluster | Contender::ClusterPostgres => {
                let mut stream = connect(self.addr)?;
                let mut held = 0;
                for number in 0..connections {
                    let (_, body) = http::call_on(&mut stream, "GET", &format!("/l/{}", pool_id(1, number)), "")?;
                    held += http::integer(body.as_bytes(), b"\"in_use\":").unwrap_or(1);
                }
                held
            }
            Contender::RedisAlways | Contender::RedisMemory => {
                let size = resp::call(&mut connect(self.addr)?, &[b"DBSIZE"])?;
                size.trim_start_matches(':').parse()?
            }
            Contender::Postgres => {
                let mut stream = connect(self.addr)?;
                postgres::start(&mut stream, "postgres", "postgres")?;
                postgres::query(&mut stream, "SELECT pool FROM slots WHERE lease IS NOT NULL")?.rows.into()
            }
            // etcd checked itself: a key that is still there makes the next `Lock` wait for ever.
            Contender::Ceiling | Contender::Etcd | Contender::EtcdThree => 0,
        };
        if held > 0 {
            bail!("{} still holds {held} after everything was returned", self.peer.label());
        }
        Ok(())
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
