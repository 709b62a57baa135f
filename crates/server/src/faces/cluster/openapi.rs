//! The cluster in the OpenAPI document.

use serde_json::json;

use super::routes::Endpoint;
use super::wire::{ClusterBody, NodeBody, NodeState, PartitionBody, StoreBody};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Show => show(),
    }
}

fn show() -> Operation {
    let node = "5f0c2e7a5b3d4c8ea1f06d2b9c4e7a01";
    let example = json!({
        "node": node, "address": "10.0.0.1:8081", "beat_age_s": 0.412,
        "nodes": [{
            "node": node, "address": "10.0.0.1:8081", "state": "alive", "silent_s": 0.2, "linked": true,
            "unreachable": [], "partitions": [0]
        }],
        "partitions": [{"partition": 0, "owner": node, "epoch": 3, "position": 41, "here": true}],
        "store": {"kind": "etcd", "error": null, "low": false}
    });
    Operation::new(Tag::Service, "cluster", "Show the cluster as this node sees it")
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
        Schema::shape::<NodeBody>(),
        Schema::shape::<NodeState>(),
        Schema::shape::<PartitionBody>(),
        Schema::shape::<StoreBody>(),
    ]
}
