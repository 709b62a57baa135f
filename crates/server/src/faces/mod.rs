//! The faces: every API of the service, one folder each, with the same files in each:
//!
//! * `mod.rs`: the face in one `impl Face`, and its answers put together
//! * `routes.rs`: its endpoints, and a request parsed into a call
//! * `openapi.rs`: the same for the OpenAPI document
//! * `wire.rs`, where it shows state: views as JSON
//! * `refusal.rs`, where the engine can refuse: one exhaustive match from its refusals to the caller's answers
//!
//! `face` has the trait, `list` the list of those who implement it. A face translates. Only the engine decides which
//! claim gets a slot.

mod claims;
mod class;
mod dashboard;
mod deleted;
mod denial;
mod docs;
pub(crate) mod ended;
mod face;
mod header;
mod health;
mod list;
mod lock;
mod page;
mod pools;
mod sign_on;
mod terms;
mod watch;

use http::Response;
use leasehold_engine::{ClaimId, Time};
use leasehold_journal::{Denial, Epoch, Position, Request};

pub use class::{Audience, Class};
use denial::unserved;
use face::Rows;
pub(crate) use face::{Received, Service};
use header::{fingerprint, key_name, plain_seconds_us};
pub(crate) use header::{idempotency_key, listening};
pub(crate) use health::Readiness;
pub(crate) use list::{Answering, Call, Endpoint, endpoints, schemas};

use crate::driver::{Answered, Handle};
use crate::http::response::{self, FilledIn, fill_in, is_open};
use crate::http::{Body, Problem, Receipt, RequestId};

/// The part of a call that every dialect needs again for its answer.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) id: &'a RequestId,
    pub(crate) epoch: Epoch,
    pub(crate) position: Position,
    /// Service time when the call came.
    pub(crate) asked_at: Time,
    /// Hands the claim back that the answer tells of, unless the answer leaves.
    receipt: Option<Receipt>,
}

/// Asks the engine, at once, and waits for the durable answer.
pub(crate) fn ask<'a, 'd>(
    driver: &'d Handle,
    request: Request,
    id: &'a RequestId,
) -> impl Future<Output = (Reply<'a>, Result<leasehold_engine::Reply, Denial>)> + use<'a, 'd> {
    let listening = driver.call(request);
    let asked_at = listening.asked_at;
    async move {
        let Answered { answer, epoch, position, untold } = listening.await;
        let receipt = untold.map(|claim| {
            let driver = driver.clone();
            Receipt::or_else(move || driver.hand_back(claim))
        });
        (Reply { id, epoch, position, asked_at, receipt }, answer)
    }
}

/// The same, and lets the dialect word the answer, which may need the subject of the call.
pub(crate) fn ask_about<'a, 'd, S>(
    driver: &'d Handle,
    request: Request,
    id: &'a RequestId,
    subject: S,
    show: impl FnOnce(&S, &Reply<'a>, Result<leasehold_engine::Reply, Denial>) -> Result<Response<Body>, Problem>,
) -> impl Future<Output = Result<Response<Body>, Problem>> {
    let asking = ask(driver, request, id);
    async move {
        let (reply, answer) = asking.await;
        reply.word(|reply| show(&subject, reply, answer))
    }
}

impl<'a> Reply<'a> {
    /// Words the answer, and has its claim handed back if it never leaves.
    pub(crate) fn word(
        mut self,
        show: impl FnOnce(&Reply<'a>) -> Result<Response<Body>, Problem>,
    ) -> Result<Response<Body>, Problem> {
        let receipt = self.receipt.take();
        let mut response = show(&self)?;
        response.body_mut().set_receipt(receipt);
        Ok(response)
    }

    /// Its place in the order of things, as the header has it.
    pub(crate) fn to_position(&self) -> String {
        format!("{}.{}", self.epoch, self.position)
    }

    pub(crate) fn positioned(&self, mut response: Response<Body>) -> Response<Body> {
        set_position(&mut response, self.epoch, self.position);
        response
    }
}

/// Sets the place of an answer in the order of things.
fn set_position(response: &mut Response<Body>, epoch: Epoch, position: Position) {
    let (mut reign, mut place) = (itoa::Buffer::new(), itoa::Buffer::new());
    let value = response::joined([reign.format(epoch.0), ".", place.format(position.0)]);
    fill_in(response.headers_mut(), FilledIn::Position, value);
}

/// An answer that did not involve the engine, such as one to a malformed call, still has the position it could have
/// seen.
pub(crate) fn ensure_position(response: &mut Response<Body>, driver: &Handle) {
    if is_open(response.headers(), FilledIn::Position) {
        let (epoch, position) = driver.durable();
        set_position(response, epoch, position);
    }
}

/// A fresh id for a claim, looking like any random UUID. Unguessable: for a pool it is the lease's secret.
pub(crate) fn fresh_claim_id() -> ClaimId {
    ClaimId(uuid::Builder::from_random_bytes(rand::random()).into_uuid().as_u128())
}

/// A UUID written the usual way, in either case.
pub(crate) fn parse_uuid(text: &str) -> Option<u128> {
    const HYPHENATED: usize = 36;
    if text.len() != HYPHENATED {
        return None;
    }
    uuid::Uuid::try_parse(text).ok().map(|uuid| uuid.as_u128())
}
