//! Sign-ins by source and outcome, and denials by the missing action.

use leasehold_auth::{Action, Source};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
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
const ACCEPTED: usize = 0;
const REFUSED: usize = 1;
const UNAVAILABLE: usize = 2;

/// Sources, and one row more for requests that name none.
const SOURCES: usize = Source::ALL.len() + 1;

#[derive(Debug)]
pub(crate) struct SignIns {
    requests: Grid<SignInLabels, { OUTCOMES.len() }>,
    denials: Grid<ActionLabels, { Action::ALL.len() }>,
}

impl SignIns {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register("sign_ins", "Requests by how their caller signed on, and how that went", requests.clone());
        let denials = Family::default();
        registry.register("denials", "Requests denied, by the action that was missing", denials.clone());
        let shown = SignIns { requests: Grid::new(requests, SOURCES), denials: Grid::new(denials, 1) };
        // From the start: an operator who watches for refusals would not see them grow from nothing.
        for source in Source::ALL.into_iter().map(Some).chain([None]) {
            shown.counter(source, REFUSED);
        }
        for action in Action::ALL {
            shown.denial(action);
        }
        shown
    }

    pub(crate) fn accepted(&self, source: Option<Source>) {
        self.counter(source, ACCEPTED).inc();
    }

    pub(crate) fn refused(&self, source: Option<Source>, is_unavailable: bool) {
        self.counter(source, if is_unavailable { UNAVAILABLE } else { REFUSED }).inc();
    }

    pub(crate) fn denied(&self, action: Action) {
        self.denial(action).inc();
    }

    fn denial(&self, action: Action) -> &Counter {
        let column = Action::ALL.iter().position(|known| *known == action).expect("all are listed");
        self.denials.at(0, column, || ActionLabels { action: action.as_str() })
    }

    fn counter(&self, source: Option<Source>, outcome: usize) -> &Counter {
        let row = source.map_or(SOURCES - 1, |source| {
            Source::ALL.iter().position(|known| *known == source).expect("all are listed")
        });
        let labels = || SignInLabels { source: source.map_or("none", Source::as_str), outcome: OUTCOMES[outcome] };
        self.requests.at(row, outcome, labels)
    }
}
