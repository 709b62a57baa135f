//! Claims, `/v1/claims/`: named resources with a queue of standing claims. A claim is made, waits its turn, is active
//! until it is released or its ttl runs out, and can be read for a while after.

mod filter;
mod list;
mod merge;
mod openapi;
mod refusal;
mod routes;
mod wire;

use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};
use leasehold_engine::{ClaimStatus, Command, Reply};
use leasehold_journal::Denial;

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::{Envelope, ask, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need, no_such_claim};
use crate::driver::Handle;
use crate::faces::deleted::Deleted;
use crate::faces::fittings::Resumed;
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId, response};
use crate::metrics::Dialect;
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
use routes::{Call, Endpoint, Topic};
use wire::{Claim, Resource};

pub(crate) struct Claims;

impl Face for Claims {
    type Endpoint = Endpoint;
    type Call = Call;

    const DIALECT: Dialect = Dialect::Claims;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::List | Endpoint::Show | Endpoint::Update => Class::Tend,
            Endpoint::Create
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
            Call::Claims(_) | Call::Resources(_) => Need::List,
        }
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        match call {
            Call::One { request, .. } => auth::change_by(&request.command),
            Call::Mistaken { .. } | Call::Claims(_) | Call::Resources(_) => None,
        }
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        match call {
            Call::One { request, .. } => return auth::sign_command(&mut request.command, &caller),
            Call::Claims(list) => list.shown_to(caller),
            Call::Resources(page) => page.shown_to(caller),
            Call::Mistaken { .. } => {}
        }
        Ok(())
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        answer(&service.driver, call, id)
    }

    fn operation(endpoint: Endpoint, settings: &Settings) -> Operation {
        openapi::operation(endpoint, settings)
    }

    fn schemas(settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas(settings)
    }
}

async fn answer(driver: &Handle, call: Call, id: &RequestId) -> Result<Response<Body>, Problem> {
    match call {
        Call::One { topic, request } => {
            let (envelope, answer) = ask(driver, request, id).await;
            envelope.word(|envelope| show(&topic, envelope, answer))
        }
        // On the heap: lists are seldom and large, and every parked caller would have room for one.
        Call::Claims(list) => Box::pin(list::claims(driver, *list, id)).await,
        Call::Resources(page) => Box::pin(list::resources(driver, page, id)).await,
        Call::Mistaken { claim, problem } => {
            // A call about a claim that does not exist gets 404, whatever else is wrong with it.
            let (_, answer) = ask(driver, Command::ViewClaim { claim }.into(), id).await;
            Err(if answer.is_ok() { problem } else { no_such_claim() })
        }
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
