//! Claims, `/v1/claims/`: named resources with a queue of standing claims. A claim is made, waits its turn, is active
//! until it is released or its ttl runs out, and can be read for a while after.

mod filter;
mod list;
mod merge;
mod openapi;
mod refusal;
mod routes;
mod wire;

use std::sync::Arc;

use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};
use leasehold_engine::{ClaimId, ClaimStatus, Command, Kind, Reply, ResourceKey, Token};
use leasehold_journal::Denial;
use uuid::Uuid;

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::{Envelope, ask, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need, no_such_claim};
use crate::driver::Handle;
use crate::faces::deleted::Deleted;
use crate::faces::fittings::Resumed;
use crate::faces::proving::{self, Held};
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::limits::PROOF_MAX_US;
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::planted::{Bug, is_armed};
use crate::response;
use crate::settings::Settings;
use routes::{Call, Endpoint, Topic};
use wire::{Claim, Resource};

pub(crate) struct Claims;

impl Face for Claims {
    type Endpoint = Endpoint;
    type Call = Call;

    const LABELS: FaceLabels = FaceLabels::lending("claims", Kind::Claim);

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::List | Endpoint::Show | Endpoint::Update => Class::Tend,
            Endpoint::Create
            | Endpoint::Prove
            | Endpoint::ListResources
            | Endpoint::ShowResource
            | Endpoint::PutResource
            | Endpoint::DeleteResource
            | Endpoint::PauseResource
            | Endpoint::ResumeResource
            | Endpoint::ServeSlot => Class::Api,
        }
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received)
    }

    fn need(call: &Call) -> Need<'_> {
        match call {
            Call::One { request, .. } => auth::need_of(&request.command),
            Call::Mistaken { claim, .. } => Need::ClaimShown(*claim),
            Call::Prove { claim, .. } => Need::ClaimProved(*claim),
            Call::Claims(_) | Call::Resources(_) => Need::List,
        }
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        match call {
            Call::One { request, .. } => auth::change_by(&request.command),
            Call::Mistaken { .. } | Call::Claims(_) | Call::Resources(_) | Call::Prove { .. } => None,
        }
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        match call {
            Call::One { request, .. } => return auth::sign_command(&mut request.command, &caller),
            Call::Claims(list) => list.shown_to(caller),
            Call::Resources(page) => page.shown_to(caller),
            Call::Mistaken { .. } | Call::Prove { .. } => {}
        }
        Ok(())
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        answer(service, call, id)
    }

    fn operation(endpoint: Endpoint, settings: &Settings) -> Operation {
        openapi::operation(endpoint, settings)
    }

    fn schemas(settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas(settings)
    }
}

async fn answer(service: &Service, call: Call, id: &RequestId) -> Result<Response<Body>, Problem> {
    let driver = &service.driver;
    match call {
        Call::One { topic, request } => {
            let (envelope, answer) = ask(driver, request, id).await;
            envelope.word(|envelope| show(&topic, envelope, answer))
        }
        // On the heap: lists are seldom and large, and every parked caller would have room for one.
        Call::Claims(list) => Box::pin(list::claims(driver, *list, id)).await,
        Call::Resources(page) => Box::pin(list::resources(driver, page, id)).await,
        Call::Prove { claim, audience } => Box::pin(prove(service, claim, &audience, id)).await,
        Call::Mistaken { claim, problem } => {
            // A call about a claim that does not exist gets 404, whatever else is wrong with it.
            let (_, answer) = ask(driver, Command::ViewClaim { claim }.into(), id).await;
            Err(if answer.is_ok() { problem } else { no_such_claim() })
        }
    }
}

async fn prove(service: &Service, claim: ClaimId, audience: &str, id: &RequestId) -> Result<Response<Body>, Problem> {
    let (driver, asked_at) = (&service.driver, service.driver.wall());
    let keys = proving::keys(service).await?;
    // Once more for a claim that was active and lost its slot between the two questions.
    for _ in 0..2 {
        let (envelope, answer) = ask(driver, Command::ViewClaim { claim }.into(), id).await;
        let view = match answer {
            Ok(Reply::Claim(view)) => view,
            Ok(other) => unreachable!("a claim is not shown as {other:?}"),
            Err(denial) => return envelope.word(|envelope| refusal::word(&unserved(denial)?, envelope)),
        };
        let left_us = match view.status {
            ClaimStatus::Active => view.ttl_us,
            ClaimStatus::Ended(_) if is_armed(Bug::ProofOfEnded) => Some(PROOF_MAX_US),
            ClaimStatus::Waiting | ClaimStatus::Ended(_) => None,
        };
        let Some((left_us, token)) = left_us.zip(view.token) else {
            return envelope.word(|envelope| Ok(refusal::nothing_to_prove(view.status, envelope)));
        };
        let resource = ResourceKey::Claim(Arc::clone(&view.resource));
        let slot =
            if view.status == ClaimStatus::Active { slot_of(driver, &resource, token, id).await? } else { Some(0) };
        let Some(slot) = slot else { continue };
        let named = || format!("claim:{}", Uuid::from_u128(view.id.0));
        let subject = view.owner.as_deref().map_or_else(named, str::to_owned);
        let held = Held { resource: &resource, subject: &subject, slot, token, left_us };
        return envelope.word(|envelope| Ok(proving::answer(service, &keys, &held, (audience, asked_at), envelope)));
    }
    Err(Problem::unavailable("the slot of this claim changes hands, ask again", 1))
}

/// The slot of this grant; `None` when it is over. A claim does not show its slot, and nodes of earlier versions are to
/// understand each other, so the resource is asked for it.
async fn slot_of(
    driver: &Handle,
    resource: &ResourceKey,
    token: Token,
    id: &RequestId,
) -> Result<Option<u32>, Problem> {
    let (_, answer) = ask(driver, Command::Inspect { resource: resource.clone() }.into(), id).await;
    match answer {
        Ok(Reply::Inspection(seen)) => {
            Ok(seen.holders.iter().find(|holder| holder.token == token).map(|holder| holder.slot))
        }
        Ok(other) => unreachable!("a resource is not inspected as {other:?}"),
        Err(denial) => unserved(denial).map(|_| None),
    }
}

fn show(topic: &Topic, envelope: &Envelope<'_>, answer: Result<Reply, Denial>) -> Result<Response<Body>, Problem> {
    let response = match answer {
        Ok(Reply::Claim(view)) => {
            let status = match (topic.endpoint, view.status) {
                (Endpoint::Create, ClaimStatus::Waiting) => StatusCode::ACCEPTED,
                (Endpoint::Create, ClaimStatus::Active | ClaimStatus::Ended(_)) => StatusCode::CREATED,
                _ => StatusCode::OK,
            };
            let mut response = response::json(
                status,
                envelope.id,
                to_bytes(&Claim::of(&topic.base_url, &view, envelope.asked_at, topic.clamped)),
            );
            if topic.endpoint == Endpoint::Create {
                let url = wire::claim_url(&topic.base_url, view.id);
                let location = HeaderValue::try_from(url).expect("a host header and a UUID make a header value");
                response.headers_mut().insert(LOCATION, location);
            }
            response
        }
        Ok(Reply::ClaimEnded(_)) => response::empty(StatusCode::NO_CONTENT, envelope.id),
        Ok(Reply::Resource(view)) => response::json(StatusCode::OK, envelope.id, to_bytes(&Resource::of(&view))),
        Ok(Reply::Unconfigured(deleted)) => response::json(StatusCode::OK, envelope.id, to_bytes(&Deleted { deleted })),
        Ok(Reply::Resumed(resumed)) => response::json(StatusCode::OK, envelope.id, to_bytes(&Resumed { resumed })),
        Ok(other) => unreachable!("no call to a claim is answered with {other:?}"),
        Err(denial) => return refusal::word(&unserved(denial)?, envelope),
    };
    Ok(envelope.positioned(response))
}
