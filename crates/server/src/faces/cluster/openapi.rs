//! The cluster in the OpenAPI document.

use serde_json::json;

use super::routes::Endpoint;
use super::wire::{ClusterBody, MoveBody, MoveWhy, NodeBody, NodeState, PartitionBody, StoreBody};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Show => show(),
    }
}

fn show() -> Operation {
    let node = "5f0c2e7a5b3d4c8ea1f06d2b9c4e7a01";
    let example = json!({
        "node": node, "address": "10.0.0.1:8081", "beat_age_s": 0.412, "format": 1,
        "nodes": [{
            "node": node, "address": "10.0.0.1:8081", "state": "alive", "silent_s": 0.2, "linked": true,
            "unreachable": [], "partitions": [0], "speaks": 1
        }],
        "partitions": [{"partition": 0, "owner": node, "epoch": 3, "position": 41, "here": true, "behind_s": 0}],
        "store": {"kind": "etcd", "error": null, "low": false, "round_trip_s": 0.002, "went_back": 0},
        "moves": [{
            "partition": 0, "from": "9a41c6d02e7f4b6f8d35e0a7c1b2f403", "to": node, "epoch": 3, "why": "died",
            "at_unix": 1_790_000_000.25, "pause_s": 2.104
        }]
    });
    Operation::new(Tag::SERVICE, "cluster", "Show the cluster as this node sees it")
        .says("Nodes, partitions and their owners, and the shared store. Without a cluster it is 404.")
        .offhand()
        .answers(200, AnswerDoc::shape::<ClusterBody>("The cluster.", &example))
        .answers(
            404,
            AnswerDoc::error("This service is no cluster.", "this service is no cluster: it runs in one process"),
        )
}

pub(super) fn schemas() -> Vec<NamedSchema> {
    vec![
        Schema::shape::<ClusterBody>(),
        Schema::shape::<MoveBody>(),
        Schema::shape::<MoveWhy>(),
        Schema::shape::<NodeBody>(),
        Schema::shape::<NodeState>(),
        Schema::shape::<PartitionBody>(),
        Schema::shape::<StoreBody>(),
    ]
}
