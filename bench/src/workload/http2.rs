//! Borrow and return by many callers that share few HTTP/2 connections, as a client that multiplexes has them, beside
//! Redis with a connection a caller.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Context;
use crate::figures::{Figures, Rounds, paired_ratio};
use crate::peer::Contender;
use crate::script::PoolMux;

pub(crate) const CALLERS: u64 = 256;
pub(crate) const CONNECTIONS: u64 = 4;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Http2Row {
    pub(crate) peer: Contender,
    pub(crate) callers: u64,
    pub(crate) connections: u64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

pub(crate) fn http2(context: &Context<'_>) -> Result<Vec<Http2Row>> {
    let wanted = [Contender::Leasehold, Contender::LeaseholdMemory, Contender::RedisAlways];
    let mut all: Vec<Rounds> = wanted.iter().map(|_| Rounds::new()).collect();
    for round in 0..context.sizes.rounds {
        for running in context.rotated(round) {
            let Some(index) = wanted.iter().position(|&peer| peer == running.peer) else { continue };
            let label = running.peer.label();
            let lines = if running.peer == Contender::RedisAlways {
                (0..CALLERS).map(|number| running.cycle(number)).collect::<Result<Vec<_>>>()?
            } else {
                let share = CALLERS / CONNECTIONS;
                let line = |number| PoolMux::line(running.addr, number * share, share);
                (0..CONNECTIONS).map(line).collect::<Result<Vec<_>>>()?
            };
            let connections = lines.len();
            let outcome = running.drive(lines, &context.plan()).context(label)?;
            running.check_nothing_held(CALLERS)?;
            context.progress.step(&format!(
                "borrow + return, {CALLERS} callers on {connections} connections, round {}: {label} {:.0}/s",
                round + 1,
                outcome.rate_per_s(),
            ));
            all[index].add(&outcome);
        }
    }
    let rows = wanted.into_iter().zip(all).filter(|(_, rounds)| !rounds.rates_per_s.is_empty());
    Ok(rows
        .map(|(peer, rounds)| {
            let connections = if peer == Contender::RedisAlways { CALLERS } else { CONNECTIONS };
            Http2Row { peer, callers: CALLERS, connections, figures: rounds.figures() }
        })
        .collect())
}

/// Requests a second of the durable service as a part of those of Redis.
pub(crate) fn http2_ratio(rows: &[Http2Row]) -> Option<f64> {
    let rates = |peer: Contender| rows.iter().find(|row| row.peer == peer).map(|row| &row.figures.rates_per_s[..]);
    paired_ratio(rates(Contender::Leasehold)?, rates(Contender::RedisAlways)?)
}
