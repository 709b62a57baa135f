//! Stores on a cluster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_cluster::SharedStore;
pub(crate) use leasehold_cluster::kit::{Chain, birth, bury, node, persist, read_all, settle, take};
use leasehold_etcd::{Address, EtcdStore};
use tokio::runtime::Runtime;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store under a prefix that no other test uses.
pub(crate) fn address(hosts: &str, query: &str) -> Address {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("etcd://{hosts}/t{number}{query}").parse().unwrap()
}

/// Joins.
pub(crate) async fn joined(address: &Address, number: u128) -> EtcdStore {
    let store = EtcdStore::new(address).unwrap();
    store.join(node(number), birth()).await.unwrap();
    store
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
