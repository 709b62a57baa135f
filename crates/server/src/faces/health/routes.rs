//! The endpoints of probes and scrapers.

use http::Method;

use crate::faces::{Received, Rows};
use crate::metrics;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The process lives.
    Health,
    /// It can commit.
    Readiness,
    Metrics,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::GET, "/healthz", Endpoint::Health),
        (Method::GET, "/readyz", Endpoint::Readiness),
        (Method::GET, "/metrics", Endpoint::Metrics),
    ]
}

#[derive(Debug)]
pub(crate) enum Call {
    Health,
    Readiness,
    Metrics { as_openmetrics: bool },
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Call {
    match endpoint {
        Endpoint::Health => Call::Health,
        Endpoint::Readiness => Call::Readiness,
        Endpoint::Metrics => Call::Metrics { as_openmetrics: metrics::accepts_openmetrics(&received.parts.headers) },
    }
}
