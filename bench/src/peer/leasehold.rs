//! Our own two servers: the service, and the one that answers a constant.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use super::process::Process;
use super::{Workspace, text};
use crate::machine::resident_bytes;
use crate::wire::http;

/// Starts the service with `args` and waits until it is ready.
pub(super) fn start(program: &Path, dir: &Path, args: &[&str]) -> Result<(Process, SocketAddr, String)> {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
    let mut process = Process::start("leasehold", command, dir, Signal::TERM)?;
    let addr = process.announced()?;
    process.wait_for("readiness", |_| matches!(http::call(addr, "GET", "/readyz", ""), Ok((200, _))).then_some(()))?;
    Ok((process, addr, env!("CARGO_PKG_VERSION").to_owned()))
}

/// Three nodes on this store.
pub(super) fn start_cluster(
    program: &Path,
    dir: &Path,
    store: &str,
) -> Result<(Vec<Process>, Vec<SocketAddr>, String)> {
    let (mut nodes, mut addrs) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let dir = dir.join(format!("node{number}"));
        std::fs::create_dir_all(&dir)?;
        let (process, addr, _) = start(program, &dir, &["--store", store, "--peer-listen", "127.0.0.1:0"])?;
        nodes.push(process);
        addrs.push(addr);
    }
    // Partitions are divided among the nodes some seconds after the last has joined.
    let deadline = Instant::now() + Duration::from_secs(30);
    for addr in &addrs {
        while Metrics::read(*addr)?.number("leasehold_cluster_partitions_owned")? < 2 {
            if Instant::now() > deadline {
                bail!("the partitions were not divided among the nodes");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok((nodes, addrs, env!("CARGO_PKG_VERSION").to_owned()))
}

pub(super) fn start_ceiling(place: &Workspace, dir: &Path) -> Result<(Process, SocketAddr, String)> {
    let command = Command::new(place.binary("leasehold-bench-ceiling"));
    let mut process = Process::start("ceiling", command, dir, Signal::TERM)?;
    let addr = process.announced()?;
    Ok((process, addr, env!("CARGO_PKG_VERSION").to_owned()))
}

/// A service of one workload's own, durable, that can be looked into and killed.
#[derive(Debug)]
pub(crate) struct Leasehold {
    place: Workspace,
    dir: PathBuf,
    args: Vec<String>,
    pub(crate) process: Process,
    pub(crate) addr: SocketAddr,
}

impl Leasehold {
    pub(crate) fn start(place: &Workspace, name: &str, args: &[&str]) -> Result<Self> {
        let dir = place.fresh(name)?;
        let mut all = vec!["--data".to_owned(), text(&dir.join("data"))];
        all.extend(args.iter().map(ToString::to_string));
        let (process, addr, _) = start(&place.leasehold(), &dir, &all.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(Leasehold { place: place.clone(), dir, args: all, process, addr })
    }

    /// Kills it and starts it on the data it left behind. Returns the time until it was ready.
    pub(crate) fn restart(&mut self) -> Result<Duration> {
        self.process.kill()?;
        let began_at = Instant::now();
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let (process, addr, _) = start(&self.place.leasehold(), &self.dir, &args)?;
        let took = began_at.elapsed();
        (self.process, self.addr) = (process, addr);
        Ok(took)
    }

    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(self.process.pid())
    }

    pub(crate) fn metrics(&self) -> Result<Metrics> {
        Metrics::read(self.addr)
    }
}

/// The service's own figures.
#[derive(Debug)]
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) fn read(addr: SocketAddr) -> Result<Self> {
        Ok(Metrics(http::expect_ok(addr, "GET", "/metrics", "")?))
    }

    /// A gauge or counter, by its full name; by its name without labels, the sum over them.
    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        let values = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.strip_prefix(' ').or_else(|| rest.strip_prefix('{')?.split_once("} ").map(|(_, value)| value))
        });
        let mut sum = None;
        for text in values {
            let value: u64 = text.trim().parse().with_context(|| format!("{name} is {text}"))?;
            sum = Some(sum.unwrap_or(0) + value);
        }
        sum.with_context(|| format!("no metric {name}"))
    }

    /// The buckets of a histogram without labels: upper bounds and cumulative counts.
    pub(crate) fn buckets(&self, name: &str) -> Result<Buckets> {
        let prefix = format!("{name}_bucket{{le=\"");
        let mut buckets = Vec::new();
        for line in self.0.lines() {
            let Some((bound, count)) = line.strip_prefix(&prefix).and_then(|rest| rest.split_once("\"} ")) else {
                continue;
            };
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse()? };
            buckets.push((bound, count.trim().parse()?));
        }
        if buckets.is_empty() {
            bail!("no histogram {name}");
        }
        Ok(Buckets(buckets))
    }
}

/// A Prometheus histogram.
#[derive(Clone, Debug)]
pub(crate) struct Buckets(Vec<(f64, u64)>);

impl Buckets {
    /// The observations since `earlier`.
    pub(crate) fn since(&self, earlier: &Buckets) -> Buckets {
        Buckets(self.0.iter().zip(&earlier.0).map(|(now, then)| (now.0, now.1 - then.1)).collect())
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.last().map_or(0, |(_, count)| *count)
    }

    /// Within a bucket taken to be spread evenly, as Prometheus does. `None` without observations.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<f64> {
        use crate::figures::float;
        let rank = quantile * float(self.count());
        let mut below = (0.0, 0);
        for &(bound, count) in &self.0 {
            if count > 0 && float(count) >= rank {
                if bound.is_infinite() {
                    return Some(below.0);
                }
                let part = (rank - float(below.1)) / float(count - below.1);
                return Some(below.0 + (bound - below.0) * part);
            }
            below = (bound, count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let text = "late_bucket{le=\"0.1\"} 90\nlate_bucket{le=\"0.2\"} 100\nlate_bucket{le=\"+Inf\"} 100\nholders 7\n\
                    waiters{kind=\"lock\"} 1\nwaiters{kind=\"pool\"} 2\n";
        Metrics(text.to_owned())
    }

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        assert_eq!(metrics().number("holders").unwrap(), 7);
        assert!(metrics().number("holder").is_err());
        assert_eq!(metrics().number("waiters").unwrap(), 3);
        assert_eq!(metrics().number("waiters{kind=\"pool\"}").unwrap(), 2);
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let buckets = metrics().buckets("late").unwrap();
        assert_eq!(buckets.count(), 100);
        assert!((buckets.quantile(0.45).unwrap() - 0.05).abs() < 1e-9);
        assert!((buckets.quantile(0.95).unwrap() - 0.15).abs() < 1e-9);
        assert_eq!(buckets.since(&buckets).quantile(0.5), None);
    }
}
