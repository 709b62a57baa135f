//! Borrow and return without contention, as fast as answers come, for every peer and several numbers of connections.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Context;
use crate::figures::{Figures, Rounds, float, median, paired_ratio};
use crate::machine::processor_time_of_this_thread;
use crate::peer::{Contender, Running};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Throughput {
    pub(crate) peer: Contender,
    pub(crate) connections: u64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// One a round, for pairing.
    pub(crate) p50s_us: Vec<f64>,
    /// The processor time of a request, in microseconds: the peer's, and the generator's own.
    pub(crate) peer_cpu_us: f64,
    pub(crate) generator_cpu_us: f64,
}

pub(crate) fn throughput(context: &Context<'_>) -> Result<Vec<Throughput>> {
    let mut rows = Vec::new();
    for &connections in &context.sizes.connections {
        let mut all: Vec<Rounds> = context.peers.iter().map(|_| Rounds::new()).collect();
        let mut spents: Vec<Vec<Spent>> = context.peers.iter().map(|_| Vec::new()).collect();
        for round in 0..context.sizes.rounds {
            for running in context.rotated(round).filter(|running| connections <= running.peer.connections_max()) {
                let label = running.peer.label();
                let lines = (0..connections).map(|number| running.cycle(number)).collect::<Result<Vec<_>>>()?;
                let before = Spent::so_far(running)?;
                let outcome = running.drive(lines, &context.plan()).context(label)?;
                let spent = Spent::so_far(running)?.minus(&before).over(outcome.heard);
                running.check_nothing_held(connections)?;
                context.progress.step(&format!(
                    "borrow + return, {connections} connections, round {}: {label} {:.0}/s, CPU a request {:.1} µs and {:.1} µs of ours",
                    round + 1,
                    outcome.rate_per_s(),
                    spent.peer_us,
                    spent.generator_us,
                ));
                let index = context.peers.iter().position(|other| other.peer == running.peer);
                let index = index.expect("it is one of them");
                all[index].add(&outcome);
                spents[index].push(spent);
            }
        }
        for ((running, rounds), spents) in context.peers.iter().zip(all).zip(spents) {
            if rounds.rates_per_s.is_empty() {
                continue;
            }
            let middle = |of: fn(&Spent) -> f64| median(&spents.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
            rows.push(Throughput {
                peer: running.peer,
                connections,
                figures: rounds.figures(),
                p50s_us: rounds.p50s_us,
                peer_cpu_us: middle(|spent| spent.peer_us),
                generator_cpu_us: middle(|spent| spent.generator_us),
            });
        }
    }
    Ok(rows)
}

/// Processor time, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) peer_us: f64,
    generator_us: f64,
}

impl Spent {
    pub(super) fn so_far(running: &Running) -> Result<Self> {
        let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        Ok(Spent { peer_us: us(running.processor_time()?), generator_us: us(processor_time_of_this_thread()) })
    }

    pub(super) fn plus(&self, more: &Spent) -> Spent {
        Spent { peer_us: self.peer_us + more.peer_us, generator_us: self.generator_us + more.generator_us }
    }

    pub(super) fn minus(&self, before: &Spent) -> Spent {
        Spent { peer_us: self.peer_us - before.peer_us, generator_us: self.generator_us - before.generator_us }
    }

    /// A request's part of it.
    pub(super) fn over(&self, requests: u64) -> Spent {
        let requests = float(requests.max(1));
        Spent { peer_us: self.peer_us / requests, generator_us: self.generator_us / requests }
    }
}

fn find(rows: &[Throughput], peer: Contender, connections: u64) -> Option<&Throughput> {
    rows.iter().find(|row| row.peer == peer && row.connections == connections)
}

/// Requests a second of one as a part of those of another.
pub(crate) fn rate_ratio(rows: &[Throughput], above: Contender, below: Contender, connections: u64) -> Option<f64> {
    let (above, below) = (find(rows, above, connections)?, find(rows, below, connections)?);
    paired_ratio(&above.figures.rates_per_s, &below.figures.rates_per_s)
}

/// The median latency of one as a multiple of that of another.
pub(crate) fn p50_ratio(rows: &[Throughput], above: Contender, below: Contender, connections: u64) -> Option<f64> {
    paired_ratio(&find(rows, above, connections)?.p50s_us, &find(rows, below, connections)?.p50s_us)
}
