//! The life of a claim, 64 callers in pairs at one resource each: how many claims become active in a second.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::Context;
use crate::drive::Line;
use crate::figures::{Figures, Rounds, float, median};
use crate::peer::{Contender, Running};
use crate::script::{Activations, Claims};

const CONNECTIONS: usize = 64;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClaimsRow {
    pub(crate) peer: Contender,
    pub(crate) activations_per_s: f64,
    /// The share of active claims that had waited.
    pub(crate) waited_share: f64,
    #[serde(flatten)]
    pub(crate) requests: Figures,
}

/// The measurements of one row.
struct Seen {
    rounds: Rounds,
    activations_per_s: Vec<f64>,
    active: u64,
    after_waiting: u64,
}

pub(crate) fn claims(context: &Context<'_>) -> Result<Vec<ClaimsRow>> {
    let fresh = || Seen { rounds: Rounds::new(), activations_per_s: Vec::new(), active: 0, after_waiting: 0 };
    let mut all: Vec<(&Running, Seen)> = context.ours().map(|running| (running, fresh())).collect();
    for round in 0..context.sizes.rounds {
        for (running, seen) in &mut all {
            turn(context, running, seen)?;
            context.progress.step(&format!(
                "claims, round {}: {} {:.0} activations/s",
                round + 1,
                running.peer.label(),
                seen.activations_per_s[round]
            ));
        }
    }
    Ok(all
        .into_iter()
        .map(|(running, seen)| ClaimsRow {
            peer: running.peer,
            activations_per_s: median(&seen.activations_per_s).unwrap_or(0.0),
            waited_share: float(seen.after_waiting) / float(seen.active),
            requests: seen.rounds.figures(),
        })
        .collect())
}

fn turn(context: &Context<'_>, running: &Running, seen: &mut Seen) -> Result<()> {
    let shared = Rc::new(RefCell::new(Activations::default()));
    let lines = (0..CONNECTIONS).map(|number| Line::open(running.addr, Claims::new(&shared, number)));
    let outcome = context.drive(lines.collect::<Result<_>>()?)?;
    let activations = shared.borrow();
    let all_released = activations.active > 0 && activations.active == activations.released;
    ensure!(all_released, "{} claims were active, {} released", activations.active, activations.released);
    // The whole run counts here; the end of it adds at most one claim a caller.
    let elapsed_s = (context.sizes.warm_up + outcome.elapsed).as_secs_f64();
    seen.activations_per_s.push(float(activations.active) / elapsed_s);
    seen.active += activations.active;
    seen.after_waiting += activations.after_waiting;
    seen.rounds.add(&outcome);
    Ok(())
}
