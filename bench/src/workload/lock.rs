//! Renewals of the sticky lock, 64 clients with a job each.

use anyhow::Result;
use serde::Serialize;

use super::Context;
use crate::drive::Line;
use crate::figures::{Figures, Rounds};
use crate::peer::{Contender, Running};
use crate::script::LockRenewal;

const CONNECTIONS: u64 = 64;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockRow {
    pub(crate) peer: Contender,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

pub(crate) fn lock(context: &Context<'_>) -> Result<Vec<LockRow>> {
    let mut all: Vec<(&Running, Rounds)> = context.ours().map(|running| (running, Rounds::new())).collect();
    for round in 0..context.sizes.rounds {
        for (running, rounds) in &mut all {
            let lines = (0..CONNECTIONS).map(|number| Line::open(running.addr, LockRenewal::new(number)));
            let outcome = context.drive(lines.collect::<Result<_>>()?)?;
            rounds.add(&outcome);
            context.progress.step(&format!(
                "lock renewals, round {}: {} {:.0}/s",
                round + 1,
                running.peer.label(),
                outcome.rate_per_s()
            ));
        }
    }
    Ok(all.into_iter().map(|(running, rounds)| LockRow { peer: running.peer, figures: rounds.figures() }).collect())
}
