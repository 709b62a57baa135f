//! Two builds of the service beside each other, in slices so short that other load on the machine hits both alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::throughput::Spent;
use crate::drive::Plan;
use crate::figures::{median, quantile};
use crate::peer::{Running, Store, Workspace};
use crate::progress::Progress;

const WARM_UP: Duration = Duration::from_millis(50);
const SLICE: Duration = Duration::from_millis(250);

/// The two builds, and the length of the match.
#[derive(Debug)]
pub(crate) struct Match<'a> {
    pub(crate) other: &'a Path,
    pub(crate) connections: &'a [u64],
    pub(crate) rounds: usize,
}

/// Prints requests a second and CPU a request of this build as a multiple of the other's.
pub(crate) fn against(place: &Workspace, progress: &Progress, what: &Match<'_>) -> Result<()> {
    let other: PathBuf = what.other.canonicalize().with_context(|| format!("no build {}", what.other.display()))?;
    for store in [Store::Disk, Store::Memory] {
        let this = Running::start_build(&place.leasehold(), store, &place.fresh("this")?)?;
        let other = Running::start_build(&other, store, &place.fresh("other")?)?;
        for &connections in what.connections {
            let mut rates = Vec::new();
            let mut spent = [Spent::default(), Spent::default()];
            let mut heard = [0, 0];
            for round in 0..what.rounds {
                let mut rate = [0.0, 0.0];
                let pair = [&this, &other];
                // Each comes first in turn.
                for index in [round % 2, (round + 1) % 2] {
                    let running = pair[index];
                    let lines = (0..connections).map(|number| running.cycle(number)).collect::<Result<Vec<_>>>()?;
                    let before = Spent::so_far(running)?;
                    let outcome = running.drive(lines, &Plan::closed(WARM_UP, SLICE))?;
                    spent[index] = spent[index].plus(&Spent::so_far(running)?.minus(&before));
                    heard[index] += outcome.heard;
                    rate[index] = outcome.rate_per_s();
                }
                rates.push(rate[0] / rate[1]);
            }
            let [this_us, other_us] = [0, 1].map(|index| spent[index].over(heard[index]).peer_us);
            let at = |part| quantile(&rates, part).unwrap_or(0.0);
            progress.step(&format!(
                "{store:?}, {connections} connections: {:.3} × the other's requests/s (half of {} rounds from {:.3} to {:.3}), \
                 CPU a request {this_us:.2} against {other_us:.2} µs, {:.3} ×",
                median(&rates).unwrap_or(0.0),
                rates.len(),
                at(0.25),
                at(0.75),
                this_us / other_us,
            ));
        }
    }
    Ok(())
}
