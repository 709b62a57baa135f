//! A face: one API of the service, in a folder of its own. Everything that the server needs to know of a face is in
//! this trait; the list of faces is in `list`, and adding one touches its folder and one line there.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};

use super::class::Class;
use super::recent::{Queueing, Readiness};
use crate::auth::{Admission, AskedChange, Caller, From, Guard, Need};
use crate::driver::Handle;
use crate::http::router::Params;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::proofs::ProofKeys;
use crate::settings::Settings;
use crate::watch::Observer;

/// Everything that a face may use to answer a call.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) driver: Handle,
    pub(crate) observer: Arc<Observer>,
    pub(crate) guard: Arc<Guard>,
    /// The keys by which proofs are signed.
    pub(crate) proof_keys: Arc<ProofKeys>,
    /// The OpenAPI document of this listener, as it is sent.
    pub(crate) document: Bytes,
    pub(crate) readiness: Readiness,
    pub(crate) queueing: Queueing,
}

/// A request as it was received: the head, the path's segments, the whole body, and where it comes from.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) parts: &'a Parts,
    pub(crate) params: Params<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) from: From<'a>,
}

/// The rows of a face in the table of endpoints.
pub(crate) type Rows<E> = Vec<(Method, &'static str, E)>;

/// An answer under way, on the heap, each as large as it is: an `async fn` would be as large as the largest, hold the
/// call twice, and be copied and kept for every parked caller. 600 bytes each.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response<Body>, Problem>> + Send + 'a>>;

pub(crate) trait Face {
    /// The endpoints of this face, one variant each.
    type Endpoint: Copy + Debug + PartialEq + Eq;

    /// A request that made sense.
    type Call: Debug + Send;

    /// The labels that its requests are counted under. Faces that lend nothing share theirs.
    const LABELS: FaceLabels = FaceLabels::OTHER;

    /// It tells how the service itself is, and so is served also when there are too many callers.
    const IS_ABOUT_THE_SERVICE: bool = false;

    /// Where each endpoint is served.
    fn endpoints() -> Rows<Self::Endpoint>;

    /// Said to callers that come with a method which is not served at the path of this endpoint.
    fn hint(_endpoint: Self::Endpoint) -> Option<&'static str> {
        None
    }

    /// The callers that an endpoint is for, and so the listener that serves it.
    fn class(endpoint: Self::Endpoint) -> Class;

    /// Says whether its callers are identified.
    fn admission(endpoint: Self::Endpoint) -> Admission;

    /// Before anything but the head is read. Refuses a caller that comes too often.
    fn approach(_endpoint: Self::Endpoint, _from: From<'_>, _service: &Service) -> Result<(), Problem> {
        Ok(())
    }

    /// From bytes to a call that makes sense.
    fn parse(endpoint: Self::Endpoint, received: &Received<'_>, service: &Service) -> Result<Self::Call, Problem>;

    /// The action that a call needs, and on which resource.
    fn need(call: &Self::Call) -> Need<'_>;

    /// The change that a call asks for, as the audit log names it; `None` when it changes nothing.
    fn change(_call: &Self::Call) -> Option<AskedChange<'_>> {
        None
    }

    /// Puts the name of an identified caller where it belongs.
    fn sign(_call: &mut Self::Call, _caller: Caller) -> Result<(), Problem> {
        Ok(())
    }

    /// From a call to the durable answer. A question to the engine is put at once, before the first poll.
    fn answer<'a>(
        service: &'a Service,
        call: Self::Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a;

    /// An endpoint in the OpenAPI document.
    fn operation(endpoint: Self::Endpoint, settings: &Settings) -> Operation;

    /// The schemas that its operations name.
    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        Vec::new()
    }
}
