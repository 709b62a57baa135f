//! The log line of a request. Its path is there as a pattern only: the real one may hold a pool id, which is a
//! credential.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};

use crate::http::RequestId;

/// The route of a request, as far as it may be shown.
#[derive(Debug)]
pub(crate) struct Route {
    /// The place of its face in the list of faces. `None` while nothing is known to serve it.
    pub(crate) face: Option<usize>,
    method: Method,
    /// `None` in the same case.
    pub(crate) pattern: Option<&'static str>,
    /// The name that the caller signed on with, where there is an access log to show it.
    pub(crate) caller: Option<Arc<str>>,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The other end of the connection.
    pub(crate) peer: SocketAddr,
    /// The address of the caller: the peer's, or the one that a trusted proxy names.
    pub(crate) client: IpAddr,
}

impl Route {
    pub(crate) fn unknown(method: &Method) -> Self {
        Route { face: None, method: method.clone(), pattern: None, caller: None }
    }

    /// A method can be made up by the caller and be as long as a head may be, so it is cut.
    pub(crate) fn method(&self) -> &str {
        let method = self.method.as_str();
        method.get(..method.len().min(16)).unwrap_or("?")
    }

    pub(crate) fn pattern(&self) -> &'static str {
        self.pattern.unwrap_or("(none)")
    }

    /// One line for an answer: always where the operator wants an access log, else only for errors, at a level that an
    /// operator turns on to look for them.
    pub(crate) fn log(
        &self,
        id: &RequestId,
        Origin { peer, client }: Origin,
        status: StatusCode,
        took: Duration,
        is_access_logged: bool,
    ) {
        if !is_access_logged && status.as_u16() < 400 && !tracing::enabled!(tracing::Level::TRACE) {
            // The usual case: the line would be filtered out, so its words are not made.
            return;
        }
        let (request, method, status) = (id.as_str(), self.method(), status.as_u16());
        let route = self.pattern();
        // To the microsecond: more digits than that are noise.
        let took_ms = f64::from(u32::try_from(took.as_micros()).unwrap_or(u32::MAX)) / 1e3;
        if is_access_logged {
            let caller = self.caller.as_deref();
            tracing::info!(target: "leasehold::access", request, %client, %peer, caller, method, route, status, took_ms, "answered");
        } else if status >= 400 {
            tracing::debug!(target: "leasehold::refused", request, %client, %peer, method, route, status, took_ms, "refused");
        } else {
            tracing::trace!(target: "leasehold::answered", request, %client, method, route, status, took_ms, "answered");
        }
    }
}
