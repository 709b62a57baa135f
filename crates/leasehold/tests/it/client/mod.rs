//! The Rust client against the real server: leases of each kind, waiting, giving up, servers that die, stop and come
//! back. Scenarios with a network that misbehaves are those of `clients/conformance`, which every client has to pass.

mod holding;
mod tls;
mod waiting;

use std::time::Duration;

use leasehold_client::{Client, ClientBuilder};
use serde_json::Value;

use crate::support::{Server, random_uuid};

/// Short enough for a test to see a lease end.
const TTL: Duration = Duration::from_secs(3);

fn to(server: &Server) -> ClientBuilder {
    Client::builder().urls(&format!("http://{}", server.addr)).name("tester")
}

/// Runs on a runtime of the test's own, as a user's would.
fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A pool with so many slots.
fn pool_of(server: &Server, count: u32) -> String {
    let id = random_uuid();
    server.client().call("PUT", &format!("/l/{id}"), &format!("{{\"count\": {count}}}")).unwrap().expect(200);
    id
}

fn look(server: &Server, target: &str) -> Value {
    server.client().call("GET", target, "").unwrap().expect(200).json()
}

/// The holder of the lock; an empty name if it has none.
fn holder(server: &Server, job: &str) -> String {
    let lock = look(server, &format!("/lock?job={job}"));
    if lock["is_expired"] == true { String::new() } else { lock["holder"].as_str().unwrap().to_owned() }
}
