//! The ceiling: Leasehold's own HTTP stack with nothing behind it. It reads a request's body and answers a constant of
//! the size and with the headers of a borrow, so that the cost of the HTTP stack can be told from the cost of the
//! service on top of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use leasehold_server::http::{Body, BodyRoom, HttpLimits, Peer, Unsent, bind, request, serve};
use tokio::runtime::Builder;

// As in the service itself.
#[global_allocator]
static ALLOCATOR: leasehold_allocator::Allocator = leasehold_allocator::Allocator;

const ANSWER: &str = concat!(
    r#"{"lease":"49c7b202-6120-4bb0-88af-94759de40f33","position":0,"expires_at_unix":1794774753,"#,
    r#""expires_in":30,"token":1234567,"renew_after":10}"#
);

fn main() -> std::io::Result<()> {
    // As many threads as serve in the service itself.
    let runtime = match leasehold_server::default_threads() {
        1 => Builder::new_current_thread().enable_all().build()?,
        threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build()?,
    };
    runtime.block_on(async {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        eprintln!("ceiling listening on http://{}", listener.local_addr()?);
        serve(listener, Arc::new(answer), HttpLimits::default(), std::future::pending()).await;
        Ok(())
    })
}

/// The number of answered requests, which GET returns: the load generator's own count is checked against it.
static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// As much as the service itself allows; bodies here are far below it.
static ROOM: LazyLock<Unsent> = LazyLock::new(|| Unsent::at_most(64 << 20));

async fn answer(request: Request<Incoming>, peer: Peer) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if parts.method == Method::GET {
        return Response::new(Body::from(ANSWERED.load(Ordering::Relaxed).to_string()));
    }
    ANSWERED.fetch_add(1, Ordering::Relaxed);
    // If the body cannot be read, no client waits for the answer.
    let room = BodyRoom { unsent: &ROOM, ip: peer.addr.ip() };
    let _ = request::read_body(request::BodyForm::default(), body, Duration::from_secs(10), room).await;
    let mut response = Response::new(Body::from(ANSWER));
    let headers = response.headers_mut();
    headers.reserve(8);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-request-id"), HeaderValue::from_static("796ea34f-0123456"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HeaderName::from_static("leasehold-position"), HeaderValue::from_static("1.1234567"));
    response
}
