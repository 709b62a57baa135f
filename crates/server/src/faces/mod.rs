//! The faces: every API of the service, one folder each. Every face has the first three of these files, and the others
//! where it needs them:
//!
//! * `mod.rs`: the face in one `impl Face`, and its answers put together
//! * `routes.rs`: its endpoints, and a request parsed into a call
//! * `openapi.rs`: the same for the OpenAPI document
//! * `wire.rs`, where it shows state: views as JSON
//! * `refusal.rs`, where its dialect words the engine's refusals: one exhaustive match from them to answers
//!
//! A face with more to do has a file for each part of it, such as `claims/list.rs`, `lock/lookout.rs`,
//! `sign_on/login.rs` and `watch/series.rs`. `face` has the trait, `list` the list of those who implement it, from
//! which their modules come, too. A face translates. Only the engine decides which claim gets a slot.

#[macro_use]
mod list;

mod class;
mod deleted;
mod denial;
pub(crate) mod ended;
mod face;
mod fittings;
mod front;
mod header;
mod label;
mod page;
mod proving;
mod recent;
mod terms;

macro_rules! folders {
    ($($folder:ident: $face:ident),+ $(,)?) => {
        $(mod $folder;)+
    };
}

// One module for each line of the list.
faces!(folders);

use std::fmt;

use http::{HeaderMap, HeaderValue, Response};
use leasehold_engine::{Command, Time};
use leasehold_journal::{Denial, Request};

pub use class::{Audience, Class};
use denial::unserved;
use face::Rows;
pub(crate) use face::{Answering, Received, Service};
use header::{fingerprint, key_name, plain_seconds_us};
pub(crate) use header::{idempotency_key, listening};
pub(crate) use list::{Call, Endpoint, LABELS, endpoints, schemas};
pub(crate) use recent::{Queueing, Readiness};
pub(crate) use sign_on::person;

pub(crate) use crate::driver::fresh_claim_id;
use crate::driver::{Answered, Handle, Stamp};
use crate::http::{Body, Problem, Receipt, RequestId};
use crate::response;
use crate::response::{PARTITION, POSITIONS};
use crate::watch::bookmark::{Bookmark, EventPlace};

/// The part of a call that every dialect needs again for its answer.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: &'a RequestId,
    pub(crate) seen: Stamps,
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
) -> impl Future<Output = (Envelope<'a>, Result<leasehold_engine::Reply, Denial>)> + use<'a, 'd> {
    let listening = driver.call(request);
    async move {
        let Answered { answer, stamp, asked_at, untold } = *listening.await;
        let receipt = untold.map(|claim| {
            let driver = driver.clone();
            Receipt::or_else(move || driver.hand_back(stamp.partition, claim))
        });
        let seen = if driver.has_many() { Stamps::OneOfMany(stamp) } else { Stamps::One(stamp) };
        (Envelope { id, seen, asked_at, receipt }, answer)
    }
}

/// Asks the engine of one partition, which tells of no new claim. A list is put together from several of these.
pub(crate) async fn ask_in(
    driver: &Handle,
    partition: u32,
    command: Command,
) -> (Stamp, Result<leasehold_engine::Reply, Denial>) {
    let Answered { answer, stamp, .. } = *driver.call_in(partition, command).await;
    (stamp, answer)
}

/// The places of an answer in the orders of the partitions that it comes from.
#[derive(Clone, Debug)]
pub(crate) enum Stamps {
    /// There is one partition.
    One(Stamp),
    OneOfMany(Stamp),
    /// In the order of their numbers.
    Many(Vec<Stamp>),
}

impl Stamps {
    /// Of an answer that looked at these partitions.
    pub(crate) fn all(driver: &Handle, mut stamps: Vec<Stamp>) -> Stamps {
        match stamps.as_slice() {
            [stamp] if !driver.has_many() => Stamps::One(*stamp),
            [stamp] => Stamps::OneOfMany(*stamp),
            _ => {
                stamps.sort_by_key(|stamp| stamp.partition);
                Stamps::Many(stamps)
            }
        }
    }

    fn mark(&self, headers: &mut HeaderMap) {
        match self {
            Stamps::One(stamp) => response::set_position(headers, header_of(stamp)),
            Stamps::OneOfMany(stamp) => {
                response::set_position(headers, header_of(stamp));
                headers.insert(PARTITION, stamp.partition.into());
            }
            Stamps::Many(_) => {
                let positions = self.to_string();
                headers.insert(POSITIONS, positions.try_into().expect("digits and a few other characters"));
            }
        }
    }
}

/// `3.41`, or with several partitions `1:3.41,2:3.77`.
impl fmt::Display for Stamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stamps::One(Stamp { epoch, position, .. }) => write!(f, "{epoch}.{position}"),
            Stamps::OneOfMany(stamp) => EventPlace::from(*stamp).fmt(f),
            Stamps::Many(stamps) => Bookmark(stamps.iter().copied().map(EventPlace::from).collect()).fmt(f),
        }
    }
}

/// The same, and lets the dialect word the answer, which may need the subject of the call.
pub(crate) fn ask_about<'a, 'd, S>(
    driver: &'d Handle,
    request: Request,
    id: &'a RequestId,
    subject: S,
    show: impl FnOnce(&S, &Envelope<'a>, Result<leasehold_engine::Reply, Denial>) -> Result<Response<Body>, Problem>,
) -> impl Future<Output = Result<Response<Body>, Problem>> {
    let asking = ask(driver, request, id);
    async move {
        let (envelope, answer) = asking.await;
        envelope.word(|envelope| show(&subject, envelope, answer))
    }
}

impl<'a> Envelope<'a> {
    /// To a call that was put to several partitions and made no claim.
    pub(crate) fn gathered(id: &'a RequestId, seen: Stamps) -> Self {
        Envelope { id, seen, asked_at: Time::default(), receipt: None }
    }

    /// Words the answer, and has its claim handed back if it never leaves.
    pub(crate) fn word(
        mut self,
        show: impl FnOnce(&Envelope<'a>) -> Result<Response<Body>, Problem>,
    ) -> Result<Response<Body>, Problem> {
        let receipt = self.receipt.take();
        let mut response = show(&self)?;
        response.body_mut().set_receipt(receipt);
        Ok(response)
    }

    /// Its place in the order of things, as the header has it.
    pub(crate) fn to_position(&self) -> String {
        self.seen.to_string()
    }

    pub(crate) fn positioned(&self, mut response: Response<Body>) -> Response<Body> {
        self.seen.mark(response.headers_mut());
        response
    }
}

/// The place of an answer in the order of things, as a header.
fn header_of(Stamp { epoch, position, .. }: &Stamp) -> HeaderValue {
    let (mut reign, mut place) = (itoa::Buffer::new(), itoa::Buffer::new());
    response::joined([reign.format(epoch.0), ".", place.format(position.0)])
}

/// An answer is complete but for the service's name. One that did not involve the engine, such as one to a malformed
/// call, still gets the position it could have seen; with several partitions it has none.
pub(crate) fn complete(response: &mut Response<Body>, driver: &Handle, service: HeaderValue) {
    response::complete(response.headers_mut(), || driver.durable().as_ref().map(header_of), service);
}

/// A UUID written the usual way, in either case.
pub(crate) fn parse_uuid(text: &str) -> Option<u128> {
    const HYPHENATED: usize = 36;
    if text.len() != HYPHENATED {
        return None;
    }
    uuid::Uuid::try_parse(text).ok().map(|uuid| uuid.as_u128())
}
