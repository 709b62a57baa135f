//! The figures of a node of a cluster. They are made when they are asked for: the node counts, and nothing of it is on
//! the way of a request. Sums over all nodes are those of the cluster.

use std::time::Duration;

use leasehold_node::{ClusterStatus, NodeCounts};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Peer {
    peer: String,
}

/// The lines of a node's metrics, without an end.
pub(crate) fn cluster_lines(status: &ClusterStatus, counts: &NodeCounts) -> String {
    let mut registry = Registry::with_prefix("leasehold_cluster");
    let r = &mut registry;
    let owned = status.partitions.iter().filter(|partition| partition.is_served_here).count();
    let unowned = status.partitions.iter().filter(|partition| partition.owner.is_none()).count();
    let living = status.nodes.iter().filter(|node| !node.is_buried);
    gauge(r, "nodes", "Nodes that are not dead, as this node sees them", living.clone().count());
    gauge(r, "partitions", "Partitions of the cluster", status.partitions.len());
    gauge(r, "partitions_owned", "Partitions that this node serves; the sum over nodes is all of them", owned);
    gauge(r, "partitions_unowned", "Partitions without an owner, as this node sees them", unowned);
    let beat_age_s = status.beat_age_us.map_or(f64::INFINITY, |age_us| Duration::from_micros(age_us).as_secs_f64());
    r.register_with_unit(
        "beat_age",
        "Since the last beat of this node succeeded; at node_ttl others take its partitions over",
        Unit::Seconds,
        ConstGauge::new(beat_age_s),
    );
    gauge(r, "store_away", "1 while calls to the shared store fail", usize::from(status.store_error.is_some()));
    gauge(r, "store_low", "1 while the shared store has little room left", usize::from(status.is_store_low));
    // A partition that was never read to its end counts as one that is behind without end.
    let behind = status.partitions.iter().map(|partition| partition.behind_us.unwrap_or(u64::MAX)).max();
    let behind_s =
        behind.map_or(0.0, |us| if us == u64::MAX { f64::INFINITY } else { Duration::from_micros(us).as_secs_f64() });
    r.register_with_unit(
        "follower_behind",
        "How long ago the partition that this node is furthest behind with was followed to its end",
        Unit::Seconds,
        ConstGauge::new(behind_s),
    );
    let took_s = Duration::from_micros(status.store_took_us).as_secs_f64();
    let help = "How long the last beat of this node took: a write to the shared store and back";
    r.register_with_unit("store_round_trip", help, Unit::Seconds, ConstGauge::new(took_s));
    let links: Family<Peer, Gauge> = Family::default();
    for node in living.filter(|node| Some(node.node) != status.me) {
        links.get_or_create(&Peer { peer: node.address.clone() }).set(i64::from(node.is_linked));
    }
    r.register("link_up", "1 while there is a link to this node", links);
    counter(r, "joins", "Lives of this node: more than one means that others took it for dead", counts.joined.get());
    counter(r, "burials", "Nodes that this node took for dead", counts.buried.get());
    counter(r, "takeovers", "Partitions taken over from dead nodes", counts.taken_from_dead.get());
    counter(r, "takings", "Partitions taken that were free", counts.taken_free.get());
    counter(r, "let_goes", "Partitions given away in an orderly way", counts.let_go.get());
    counter(
        r,
        "proofs",
        "Proofs of ownership by a call of their own; under load appends prove it",
        counts.proofs.get(),
    );
    counter(r, "appends", "Transactions of appends", counts.appends.get());
    counter(r, "asks", "Calls sent to another node that owns their partition", counts.asked.get());
    counter(r, "asks_again", "Calls sent again, as their owner moved or was lost", counts.asked_again.get());
    counter(r, "links_lost", "Links to other nodes that were lost", counts.links_lost.get());
    counter(r, "store_failures", "Calls to the shared store without an answer", counts.store_away.get());
    counter(r, "store_went_back", "How often the store showed less than before", counts.went_back.get());
    let mut text = String::new();
    encode_registry(&mut text, &registry).expect("a string takes all text");
    text
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: usize) {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    registry.register(name, help, ConstGauge::new(value));
}

fn counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    registry.register(name, help, ConstCounter::new(value));
}
