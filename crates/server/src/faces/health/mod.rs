//! Health, readiness and metrics: the face of probes and scrapers. It is served everywhere and first of all.

mod openapi;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::watch::survey;
use crate::auth::{Admission, Need};
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::{self, Queues};
use crate::openapi::{NamedSchema, Operation};
use crate::response;
use crate::settings::Settings;
use routes::{Call, Endpoint};
use wire::{Living, Ready};

/// How long the store is believed to confirm writes since it last did.
const READY_EVERY_US: u64 = 1_000_000;

/// How long the queues are believed to be as a survey found them.
const QUEUES_EVERY_US: u64 = 5_000_000;

pub(crate) struct Health;

impl Face for Health {
    type Endpoint = Endpoint;
    type Call = Call;

    const IS_ABOUT_THE_SERVICE: bool = true;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::Health | Endpoint::Readiness => Class::Health,
            Endpoint::Metrics => Class::Observe,
        }
    }

    fn admission(endpoint: Endpoint) -> Admission {
        match endpoint {
            Endpoint::Health | Endpoint::Readiness => Admission::Open,
            Endpoint::Metrics => Admission::Named,
        }
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        Ok(routes::parse(endpoint, received))
    }

    fn need(call: &Call) -> Need<'_> {
        match call {
            Call::Health | Call::Readiness => Need::Nothing,
            Call::Metrics { .. } => Need::One(Action::Observe, Target::Service),
        }
    }

    async fn answer<'a>(service: &'a Service, call: Call, id: &'a RequestId) -> Result<Response<Body>, Problem> {
        match call {
            Call::Health => Ok(response::json(StatusCode::OK, id, to_bytes(&Living { status: "ok" }))),
            Call::Readiness => readiness(service, id).await,
            Call::Metrics { as_openmetrics } => exposition(service, as_openmetrics, id).await,
        }
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}

async fn readiness(service: &Service, id: &RequestId) -> Result<Response<Body>, Problem> {
    if is_ready(service).await {
        Ok(response::json(StatusCode::OK, id, to_bytes(&Ready { status: "ready" })))
    } else {
        let reason = "not ready: the store does not confirm writes, or we are shutting down";
        Err(Problem::unavailable(reason, 1))
    }
}

/// However often it is asked, it writes to the store once a second. While the write takes its time, all callers
/// wait for the same answer.
async fn is_ready(service: &Service) -> bool {
    let mut looked = service.readiness.0.lock().await;
    let (now_us, is_ending) = (service.driver.now().mono_us, service.observer.events.is_closed());
    if let Some((at_us, is_ready)) = *looked
        && now_us.saturating_sub(at_us) < READY_EVERY_US
    {
        return is_ready && !is_ending;
    }
    let is_ready = service.driver.is_ready().await;
    *looked = Some((service.driver.now().mono_us, is_ready));
    is_ready
}

async fn exposition(service: &Service, as_openmetrics: bool, id: &RequestId) -> Result<Response<Body>, Problem> {
    service.observer.count_events();
    let readings = service.driver.readings();
    // Without waiters there is nothing to look for.
    let queues = if readings.totals.waiting > 0 { queues(service, id).await? } else { Queues::default() };
    let mut text = service.observer.metrics.expose(readings, queues, &service.settings.http.unsent);
    if let (Some(status), Some(counts)) = (service.driver.cluster(), service.driver.cluster_counts()) {
        text.insert_str(0, &metrics::cluster_lines(&status, counts));
    }
    Ok(if as_openmetrics {
        response::text(StatusCode::OK, id, metrics::OPENMETRICS_TYPE, text)
    } else {
        response::text(StatusCode::OK, id, metrics::CLASSIC_TYPE, metrics::classic(&text))
    })
}

/// However often it is scraped, all resources are looked over at most once in a few seconds.
async fn queues(service: &Service, id: &RequestId) -> Result<Queues, Problem> {
    let mut looked = service.queueing.0.lock().await;
    let now_us = service.driver.now().mono_us;
    if let Some((at_us, queues)) = *looked
        && now_us.saturating_sub(at_us) < QUEUES_EVERY_US
    {
        return Ok(queues);
    }
    let mut queues = Queues::default();
    survey(&service.observer.surveys, &service.driver, false, id, |page| {
        for line in page.lines.iter().filter(|line| line.waiting > 0) {
            queues.add(line.resource.kind(), line.waiting, line.longest_wait_us);
        }
        true
    })
    .await?;
    *looked = Some((now_us, queues));
    Ok(queues)
}
