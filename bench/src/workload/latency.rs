//! Latency against load: requests fall due at a fixed rate independent of the peer, and are timed from when they were
//! due.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Context;
use crate::drive::{Pace, Plan};
use crate::figures::{Spread, float};
use crate::peer::Contender;

const CONNECTIONS: u64 = 64;
/// With fewer answers than this part of the due requests, the peer did not keep up, and higher rates say nothing.
const KEEPS_UP: f64 = 0.98;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadPoint {
    pub(crate) peer: Contender,
    pub(crate) offered_per_s: f64,
    pub(crate) answered_per_s: f64,
    pub(crate) kept_up: bool,
    pub(crate) latency: Spread,
}

pub(crate) fn latency(context: &Context<'_>) -> Result<Vec<LoadPoint>> {
    let mut points: Vec<LoadPoint> = Vec::new();
    for &rate_per_s in &context.sizes.rates_per_s {
        for running in context.peers {
            let label = running.peer.label();
            if points.iter().any(|point| point.peer == running.peer && !point.kept_up) {
                context.progress.step(&format!("{rate_per_s:.0}/s offered: {label} left out, it was full before"));
                continue;
            }
            let lines = (0..CONNECTIONS).map(|number| running.cycle(number)).collect::<Result<Vec<_>>>()?;
            let plan = Plan { pace: Pace::Open { rate_per_s }, ..context.plan() };
            let outcome = running.drive(lines, &plan).context(label)?;
            running.check_nothing_held(CONNECTIONS)?;
            let kept_up = float(outcome.answered) >= KEEPS_UP * float(outcome.offered);
            let latency = Spread::of(&outcome.latency);
            context.progress.step(&format!(
                "{rate_per_s:.0}/s offered: {label} p50 {:.0} µs, p99 {:.0} µs{}",
                latency.p50_us,
                latency.p99_us,
                if kept_up { "" } else { ", does not keep up" }
            ));
            let (offered_per_s, answered_per_s) = (rate_per_s, outcome.rate_per_s());
            points.push(LoadPoint { peer: running.peer, offered_per_s, answered_per_s, kept_up, latency });
        }
    }
    Ok(points)
}
