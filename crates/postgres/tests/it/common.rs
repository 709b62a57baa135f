//! Stores on a server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_cluster::SharedStore;
pub(crate) use leasehold_cluster::kit::{Chain, birth, bury, node, persist, read_all, take};
use leasehold_postgres::{Address, PostgresStore};
use leasehold_testbed::SUPERUSER;
use tokio::runtime::Runtime;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store in a schema that no other test uses.
pub(crate) fn address(hosts: &str, query: &str) -> Address {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("postgres://{SUPERUSER}@{hosts}/postgres?schema=t{number}{query}").parse().unwrap()
}

/// The same store by other hosts.
pub(crate) fn elsewhere(address: &Address, hosts: &str) -> Address {
    let Address { schema, user, database, .. } = address;
    format!("postgres://{user}@{hosts}/{database}?schema={schema}").parse().unwrap()
}

/// Joins.
pub(crate) async fn joined(address: &Address, number: u128) -> PostgresStore {
    let store = PostgresStore::new(address).unwrap();
    store.join(node(number), birth()).await.unwrap();
    store
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
