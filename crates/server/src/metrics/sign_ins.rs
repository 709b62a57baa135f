//! Who was let in and who was not, by source; and what was refused, by the action that was missing.

use leasehold_auth::{Action, Source};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::grid::Grid;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignInLabels {
    source: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

const OUTCOMES: [&str; 3] = ["accepted", "refused", "unavailable"];

/// Sources, and one row more for requests that name none.
const SOURCES: usize = Source::ALL.len() + 1;

#[derive(Debug)]
pub(crate) struct SignIns {
    requests: Grid<SignInLabels, SOURCES, { OUTCOMES.len() }>,
    denials: Grid<ActionLabels, 1, { Action::ALL.len() }>,
}

impl SignIns {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register("sign_ins", "Requests by how their caller signed on, and how that went", requests.clone());
        let denials = Family::default();
        registry.register("denials", "Requests denied, by the action that was missing", denials.clone());
        SignIns { requests: Grid::new(requests), denials: Grid::new(denials) }
    }

    pub(crate) fn accepted(&self, source: Option<Source>) {
        self.count(source, 0);
    }

    pub(crate) fn refused(&self, source: Option<Source>, is_unavailable: bool) {
        self.count(source, if is_unavailable { 2 } else { 1 });
    }

    pub(crate) fn denied(&self, action: Action) {
        let column = Action::ALL.iter().position(|known| *known == action).expect("all are listed");
        self.denials.at(0, column, || ActionLabels { action: action.as_str() }).inc();
    }

    fn count(&self, source: Option<Source>, outcome: usize) {
        let row = source.map_or(SOURCES - 1, |source| {
            Source::ALL.iter().position(|known| *known == source).expect("all are listed")
        });
        let labels = || SignInLabels { source: source.map_or("none", Source::as_str), outcome: OUTCOMES[outcome] };
        self.requests.at(row, outcome, labels).inc();
    }
}
