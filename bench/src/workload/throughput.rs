//! Borrow and return without contention, as fast as answers come, for every peer and several numbers of connections.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Context;
use crate::figures::{Figures, Rounds, paired_ratio};
use crate::peer::Peer;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Throughput {
    pub(crate) peer: Peer,
    pub(crate) connections: u64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// One a round, for pairing.
    pub(crate) p50s_us: Vec<f64>,
}

pub(crate) fn throughput(context: &Context<'_>) -> Result<Vec<Throughput>> {
    let mut rows = Vec::new();
    for &connections in &context.sizes.connections {
        let mut all: Vec<Rounds> = context.peers.iter().map(|_| Rounds::new()).collect();
        for round in 0..context.sizes.rounds {
            for running in context.rotated(round) {
                let label = running.peer.label();
                let lines = (0..connections).map(|number| running.cycle(number)).collect::<Result<Vec<_>>>()?;
                let outcome = running.drive(lines, &context.plan()).context(label)?;
                running.check_nothing_held(connections)?;
                context.progress.step(&format!(
                    "borrow + return, {connections} connections, round {}: {label} {:.0}/s",
                    round + 1,
                    outcome.rate_per_s()
                ));
                let index = context.peers.iter().position(|other| other.peer == running.peer);
                all[index.expect("it is one of them")].add(&outcome);
            }
        }
        for (running, rounds) in context.peers.iter().zip(all) {
            let (figures, p50s_us) = (rounds.figures(), rounds.p50s_us);
            rows.push(Throughput { peer: running.peer, connections, figures, p50s_us });
        }
    }
    Ok(rows)
}

fn find(rows: &[Throughput], peer: Peer, connections: u64) -> Option<&Throughput> {
    rows.iter().find(|row| row.peer == peer && row.connections == connections)
}

/// Requests a second of one as a part of those of another.
pub(crate) fn rate_ratio(rows: &[Throughput], above: Peer, below: Peer, connections: u64) -> Option<f64> {
    let (above, below) = (find(rows, above, connections)?, find(rows, below, connections)?);
    paired_ratio(&above.figures.rates_per_s, &below.figures.rates_per_s)
}

/// The median latency of one as a multiple of that of another.
pub(crate) fn p50_ratio(rows: &[Throughput], above: Peer, below: Peer, connections: u64) -> Option<f64> {
    paired_ratio(&find(rows, above, connections)?.p50s_us, &find(rows, below, connections)?.p50s_us)
}
