//! The three published designs, one folder each, with the same files in each:
//!
//! * `mod.rs`: the dialect in a few lines, and its answers put together
//! * `routes.rs`: its endpoints, and a request parsed into a command
//! * `wire.rs`: views of state as JSON
//! * `openapi.rs`: the same for the OpenAPI document
//! * `refusal.rs`: one exhaustive match from the engine's refusals to the caller's answers
//!
//! A dialect translates. Only the engine decides which claim gets a slot.

pub(crate) mod claims;
pub(crate) mod dashboard;
mod denial;
pub(crate) mod docs;
pub(crate) mod ended;
mod header;
pub(crate) mod lock;
pub(crate) mod page;
pub(crate) mod pools;
pub(crate) mod sign_on;
pub(crate) mod terms;
pub(crate) mod watch;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response};
use leasehold_engine::{ClaimId, Time};
use leasehold_journal::{Denial, Epoch, Position, Request};

pub(crate) use denial::unserved;
pub(crate) use header::{fingerprint, idempotency_key, key_name, listening, plain_seconds_us};

use crate::driver::{Answered, Handle};
use crate::http::response::{POSITION, fill_in, is_open};
use crate::http::router::Params;
use crate::http::{Body, Problem, Receipt, RequestId};
use crate::settings::Settings;

/// Longest name of a resource, a job or a client, in bytes.
pub(crate) const NAME_MAX: usize = 1024;

/// Longest time that a place in line outlives the last call that waits there.
pub(crate) const KEEP_MAX_US: u64 = 300_000_000;

/// A request as a dialect sees it: the head, the path's segments and the whole body.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) parts: &'a Parts,
    pub(crate) params: Params<'a>,
    pub(crate) body: &'a Bytes,
}

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

    pub(crate) fn positioned(&self, mut response: Response<Body>) -> Response<Body> {
        set_position(&mut response, self.epoch, self.position);
        response
    }
}

/// Sets the place of an answer in the order of things.
fn set_position(response: &mut Response<Body>, epoch: Epoch, position: Position) {
    let mut text = itoa::Buffer::new();
    let mut value = Vec::with_capacity(24);
    value.extend_from_slice(text.format(epoch.0).as_bytes());
    value.push(b'.');
    value.extend_from_slice(text.format(position.0).as_bytes());
    let value = HeaderValue::from_maybe_shared(Bytes::from(value)).expect("digits and a dot");
    fill_in(response.headers_mut(), POSITION, value);
}

/// An answer that did not involve the engine, such as one to a malformed call, still has the position it could have
/// seen.
pub(crate) fn ensure_position(response: &mut Response<Body>, driver: &Handle) {
    if is_open(response.headers(), &POSITION) {
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
