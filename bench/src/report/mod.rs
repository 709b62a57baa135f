//! The findings of a run, in three shapes: tables for people, JSON for machines, a chart.

mod aims;
mod chart;
mod table;

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::machine::Machine;
use crate::workload::{ClaimsRow, HandOverRow, Http2Row, LoadPoint, LockRow, MassExpiry, Scale, Throughput, Waiters};
use aims::Aim;

/// Parts that were not asked for are empty.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) quick: bool,
    pub(crate) took_s: u64,
    pub(crate) machine: Machine,
    pub(crate) throughput: Vec<Throughput>,
    /// A cluster beside the store that it uses.
    pub(crate) clusters: Vec<Throughput>,
    pub(crate) http2: Vec<Http2Row>,
    pub(crate) latency: Vec<LoadPoint>,
    pub(crate) hand_over: Vec<HandOverRow>,
    pub(crate) claims: Vec<ClaimsRow>,
    pub(crate) lock: Vec<LockRow>,
    pub(crate) scale: Option<Scale>,
    pub(crate) waiters: Option<Waiters>,
    pub(crate) mass_expiry: Option<MassExpiry>,
}

/// As it is written.
#[derive(Serialize)]
struct Written<'a> {
    aims: &'a [Aim],
    #[serde(flatten)]
    report: &'a Report,
}

impl Report {
    /// Markdown: ratios first, absolutes second.
    pub(crate) fn tables(&self) -> String {
        table::render(self, &aims::judge(self))
    }

    /// Writes `latest.json`, `latest.md` and `latest.svg`.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        let aims = aims::judge(self);
        let json = serde_json::to_string_pretty(&Written { aims: &aims, report: self })?;
        let files =
            [("latest.json", json), ("latest.md", table::render(self, &aims)), ("latest.svg", chart::render(self))];
        for (name, text) in files {
            std::fs::write(dir.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(())
    }
}
