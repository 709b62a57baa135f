//! `leasehold cluster`: looks at a cluster in its shared store, and tells it to empty a node. It speaks to the store,
//! so that it works whatever nodes are up.

use std::sync::Arc;

use leasehold_cluster::format::FORMAT;
use leasehold_cluster::{Birth, Map, NodeId, SharedError, SharedStore, restored};

use crate::cli::{ClusterCommand, ClusterNodeArgs, ClusterStatusArgs, ClusterStoreArgs};
use crate::commands::Table;
use crate::config::{self, ServeArgs, Store};
use crate::driving::open_shared;
use crate::exit::{Exit, Failure};
use crate::shared::{LOOK_FOR, block_on, now, random};

pub(crate) fn run(command: &ClusterCommand) -> Exit {
    let outcome = block_on(async {
        match command {
            ClusterCommand::Status(args) => status(args).await,
            ClusterCommand::Drain(args) => drain(args, true).await,
            ClusterCommand::Undrain(args) => drain(args, false).await,
            ClusterCommand::Restored(args) => tell_restored(args).await,
        }
    });
    outcome.map_or_else(|failure| failure.told(), |()| Exit::Done)
}

/// The store that is named, or the one that `serve` would use.
fn open(named: Option<&String>) -> Result<Arc<dyn SharedStore>, Failure> {
    let mut args = ServeArgs::default();
    if let Some(named) = named {
        args.flags = config::Flags::one("store", named);
    }
    let loaded = config::load(&args, std::env::vars_os(), |path| std::fs::read_to_string(path));
    match loaded.map_err(|error| Failure::usage(error.to_string()))?.config.store {
        Store::Shared(address) => open_shared(&address).map_err(|error| Failure::usage(format!("{error:#}"))),
        Store::Directory(_) | Store::Memory => {
            Err(Failure::usage("--store is needed: by its configuration the server is no node of a cluster"))
        }
    }
}

async fn map_of(store: &dyn SharedStore) -> Result<Map, Failure> {
    store.map().await.map_err(|error| failed(&error))
}

fn failed(error: &SharedError) -> Failure {
    Failure::failed(error.to_string())
}

async fn status(args: &ClusterStatusArgs) -> Result<(), Failure> {
    let store = open(args.store.as_ref())?;
    let before = map_of(store.as_ref()).await?;
    // A node that lives beats once a second: one that does not in that time is silent.
    tokio::time::sleep(LOOK_FOR).await;
    let map = map_of(store.as_ref()).await?;
    if args.json {
        out!("{}\n", json(&before, &map));
        return Ok(());
    }
    let mut nodes = Table::new(&["NODE", "ADDRESS", "STATE", "PARTITIONS", "CANNOT REACH"]);
    for seen in &map.nodes {
        let record = &seen.value;
        let cut: Vec<String> = record.unreachable.iter().map(|node| address_of(&map, *node)).collect();
        nodes.row(vec![
            record.node.to_string(),
            record.address.clone(),
            state(&before, &map, record.node).to_owned(),
            owned(&map, record.node).iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
            cut.join(" "),
        ]);
    }
    nodes.print();
    let mut partitions = Table::new(&["PARTITION", "OWNER", "EPOCH"]);
    for (seen, number) in map.owners.iter().zip(0..) {
        let owner = seen.value.node.map_or_else(|| "none".to_owned(), |node| address_of(&map, node));
        partitions.row(vec![u32::to_string(&number), owner, seen.value.epoch.to_string()]);
    }
    partitions.print();
    for warning in warnings(&before, &map) {
        eprintln!("leasehold: {warning}");
    }
    Ok(())
}

fn json(before: &Map, map: &Map) -> serde_json::Value {
    let nodes = map.nodes.iter().map(|seen| {
        let record = &seen.value;
        serde_json::json!({
            "node": format!("{:032x}", record.node.0),
            "address": record.address,
            "state": state(before, map, record.node),
            "partitions": owned(map, record.node),
            "unreachable": record.unreachable.iter().map(|node| format!("{:032x}", node.0)).collect::<Vec<_>>(),
        })
    });
    let partitions = map.owners.iter().zip(0..).map(|(seen, number)| {
        let owner = seen.value.node.map(|node| format!("{:032x}", node.0));
        serde_json::json!({"partition": u32::clone(&number), "owner": owner, "epoch": seen.value.epoch.0})
    });
    serde_json::json!({"nodes": nodes.collect::<Vec<_>>(), "partitions": partitions.collect::<Vec<_>>()})
}

fn state(before: &Map, map: &Map, node: NodeId) -> &'static str {
    let Some(now) = map.node(node).map(|seen| &seen.value) else { return "gone" };
    let beats = before.node(node).is_none_or(|seen| seen.value.beat != now.beat);
    match (now.is_buried, now.is_draining || map.drained.contains(&node), beats) {
        (true, _, _) => "dead",
        (false, true, _) => "draining",
        (false, false, true) => "alive",
        (false, false, false) => "silent",
    }
}

fn owned(map: &Map, node: NodeId) -> Vec<u32> {
    let owners = map.owners.iter().zip(0..).filter(|(seen, _)| seen.value.node == Some(node));
    owners.map(|(_, number)| number).collect()
}

fn address_of(map: &Map, node: NodeId) -> String {
    map.node(node).map_or_else(|| node.to_string(), |seen| seen.value.address.clone())
}

/// Things that an operator has to look at.
fn warnings(before: &Map, map: &Map) -> Vec<String> {
    let mut warnings = Vec::new();
    let living: Vec<_> = map.living().collect();
    for record in &living {
        let others = living.iter().filter(|other| other.node != record.node);
        let cut = others.clone().filter(|other| other.unreachable.contains(&record.node)).count();
        if cut > 0 {
            let (address, all) = (&record.address, others.clone().count());
            warnings.push(format!("{cut} of {all} other nodes cannot reach {address}: check its --advertise"));
        }
        if others.clone().any(|other| other.address == record.address && other.node < record.node) {
            let is_old = state(before, map, record.node) == "silent";
            if !is_old {
                warnings.push(format!("two nodes advertise {}: every node needs its own address", record.address));
            }
        }
    }
    let unowned = map.owners.iter().filter(|seen| seen.value.node.is_none_or(|node| !map.is_alive(node))).count();
    if unowned > 0 {
        warnings.push(format!("{unowned} partitions have no owner at this moment"));
    }
    warnings
}

async fn drain(args: &ClusterNodeArgs, is_draining: bool) -> Result<(), Failure> {
    let store = open(args.store.as_ref())?;
    let map = map_of(store.as_ref()).await?;
    let is_it = |seen: &&leasehold_cluster::Seen<leasehold_cluster::NodeRecord>| {
        let (name, record) = (args.node.as_str(), &seen.value);
        !record.is_buried && (record.address == name || format!("{:032x}", record.node.0).starts_with(name))
    };
    let found: Vec<_> = map.nodes.iter().filter(is_it).collect();
    let node = match found.as_slice() {
        [one] => one.value.node,
        [] => return Err(Failure::usage(format!("no living node has the address or id {:?}", args.node))),
        _ => return Err(Failure::usage(format!("several nodes have ids that begin with {:?}", args.node))),
    };
    store.drain(node, is_draining).await.map_err(|error| failed(&error))?;
    let address = address_of(&map, node);
    if is_draining {
        out!("{address} gives its partitions to other nodes, and goes on to take requests\n");
    } else {
        out!("{address} may have partitions again\n");
    }
    Ok(())
}

/// Joins with a record that says so, and buries it at once: nodes that start later read it.
async fn tell_restored(args: &ClusterStoreArgs) -> Result<(), Failure> {
    let store = open(args.store.as_ref())?;
    let map = map_of(store.as_ref()).await?;
    let record = restored(&map, NodeId(random()), now());
    let (node, floor) = (record.node, record.epoch_floor);
    let birth = Birth { partitions: None, format: FORMAT, secret: map.meta.secret };
    let map = store.join(record, birth).await.map_err(|error| failed(&error))?;
    let Some(seen) = map.node(node) else { return Err(Failure::failed("the record was not written")) };
    store.bury(seen.clone()).await.map_err(|error| failed(&error))?;
    out!("every partition goes on in epoch {floor} or later, and its tokens above all that were given out before\n");
    let living: Vec<&str> = map.living().filter(|record| record.node != node).map(|record| &*record.address).collect();
    if !living.is_empty() {
        eprintln!("leasehold: nodes that may be running are told, too: {}", living.join(", "));
    }
    Ok(())
}
