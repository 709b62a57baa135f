//! The aims, always as a ratio within one run or an absolute that users feel, and whether this run met them.

use serde::Serialize;

use super::Report;
use crate::peer::Contender;
use crate::workload::{HandOverRow, http2_ratio, p50_ratio, rate_ratio};

#[derive(Clone, Debug, Serialize)]
pub(super) struct Aim {
    pub(super) what: String,
    /// `None` when the part was not run.
    pub(super) measured: Option<f64>,
    pub(super) bound: Bound,
    pub(super) unit: &'static str,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    pub(super) fn met(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(match self.bound {
            Bound::AtLeast(least) => measured >= least,
            Bound::AtMost(most) => measured <= most,
        })
    }
}

/// Connections at which throughput is judged.
const CONNECTIONS: u64 = 64;

pub(super) fn judge(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    let mut aim = |what: &str, measured: Option<f64>, bound: Bound, unit: &'static str| {
        aims.push(Aim { what: what.to_owned(), measured, bound, unit });
    };
    let rows = &report.throughput;
    let rate = |above, below| rate_ratio(rows, above, below, CONNECTIONS);
    let durable = Contender::Leasehold;
    aim("durable / constant answer, 64 connections", rate(durable, Contender::Ceiling), Bound::AtLeast(0.75), "×");
    aim(
        "memory / constant answer, 64 connections",
        rate(Contender::LeaseholdMemory, Contender::Ceiling),
        Bound::AtLeast(0.9),
        "×",
    );
    for connections in [1, 16, 64, 256, 1024] {
        let ratio = rate_ratio(rows, durable, Contender::RedisAlways, connections);
        let are = if connections == 1 { "connection" } else { "connections" };
        aim(&format!("durable / Redis fsync always, {connections} {are}"), ratio, Bound::AtLeast(1.1), "×");
    }
    aim(
        "durable over HTTP/2, 256 callers on 4 connections / Redis fsync always, 256 connections",
        http2_ratio(&report.http2),
        Bound::AtLeast(1.5),
        "×",
    );
    aim("durable / PostgreSQL, 64 connections", rate(durable, Contender::Postgres), Bound::AtLeast(8.0), "×");
    aim("durable / etcd, 64 connections", rate(durable, Contender::Etcd), Bound::AtLeast(10.0), "×");
    for connections in [64, 256] {
        let ratio = rate_ratio(&report.clusters, Contender::Cluster, Contender::EtcdThree, connections);
        let what = format!("cluster on three etcd members / etcd, three members, {connections} connections");
        aim(&what, ratio, Bound::AtLeast(5.0), "×");
    }
    for (connections, least) in [(64, 2.0), (256, 3.0)] {
        let ratio = rate_ratio(&report.clusters, Contender::ClusterPostgres, Contender::Postgres, connections);
        let what = format!("cluster on PostgreSQL / PostgreSQL itself, {connections} connections");
        aim(&what, ratio, Bound::AtLeast(least), "×");
    }
    let p50 = p50_ratio(rows, durable, Contender::RedisAlways, 1);
    aim("p50 of durable / Redis fsync always, 1 connection", p50, Bound::AtMost(1.5), "×");

    let back_to_back = report.hand_over.iter().find(|row| row.peer == durable && row.hold_ms == 0);
    let hand_over = back_to_back.and_then(HandOverRow::in_fdatasyncs);
    aim("p99 of a hand-over / p99 of fdatasync", hand_over, Bound::AtMost(3.0), "×");
    let claims = report.claims.iter().find(|row| row.peer == durable);
    aim("claims that become active", claims.map(|row| row.activations_per_s), Bound::AtLeast(100.0), "/s");

    let scale = report.scale.as_ref();
    let largest = scale.and_then(|scale| scale.sizes.last());
    let leases = largest.map_or("the most".to_owned(), |row| row.leases.to_string());
    let ratio = scale.and_then(|scale| scale.renewals_ratio);
    aim(&format!("renewals with {leases} leases / with the fewest"), ratio, Bound::AtLeast(0.9), "×");
    let bytes = largest.map(|row| row.resident_bytes_per_lease);
    aim("memory a live lease", bytes, Bound::AtMost(300.0), " bytes");
    let waiter = report.waiters.as_ref().map(|waiters| waiters.resident_bytes_per_waiter);
    aim("memory a parked waiter", waiter, Bound::AtMost(12.0 * 1024.0), " bytes");
    let late = scale.map(|scale| scale.lateness.p999_ms);
    aim(&format!("lateness of expiry with {leases} leases, p99.9"), late, Bound::AtMost(50.0), " ms");
    let (last, expiring) = match &report.mass_expiry {
        Some(expiry) => (Some(expiry.last_late_ms), expiry.leases.to_string()),
        None => (None, "many".to_owned()),
    };
    aim(&format!("the last of {expiring} leases on one deadline, late"), last, Bound::AtMost(500.0), " ms");
    let restart = scale.map(|scale| scale.restart_ms / 1e3);
    aim(&format!("restart with {leases} leases until ready"), restart, Bound::AtMost(3.0), " s");
    let pause = scale.and_then(|scale| scale.checkpoint.as_ref()).map(|checkpoint| checkpoint.longest_gap_ms);
    aim(&format!("longest pause during a checkpoint of {leases} leases"), pause, Bound::AtMost(50.0), " ms");
    aims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_include_themselves() {
        let aim = |measured, bound| Aim { what: String::new(), measured, bound, unit: "" }.met();
        assert_eq!(aim(Some(0.75), Bound::AtLeast(0.75)), Some(true));
        assert_eq!(aim(Some(0.74), Bound::AtLeast(0.75)), Some(false));
        assert_eq!(aim(Some(3.0), Bound::AtMost(3.0)), Some(true));
        assert_eq!(aim(Some(3.1), Bound::AtMost(3.0)), Some(false));
        assert_eq!(aim(None, Bound::AtMost(3.0)), None);
    }
}
