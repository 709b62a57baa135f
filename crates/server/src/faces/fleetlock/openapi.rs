//! `FleetLock` for the OpenAPI document.

use serde_json::json;

use super::routes::{Endpoint, HEADER};
use super::wire::{FleetLockError, FleetLockSlot};
use crate::code::Code;
use crate::http::ErrorBody;
use crate::limits::{FLEETLOCK_GROUP_MAX, IDEMPOTENCY_KEY_MAX};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};

const TAG: Tag = Tag {
    name: "FleetLock",
    description: "The protocol by which machines ask for leave to reboot (Zincati, Flatcar), over the claimed \
                  resource `fleetlock/GROUP`.",
};

pub(crate) fn operation(action: Endpoint) -> Operation {
    match action {
        Endpoint::PreReboot => pre_reboot("preReboot"),
        Endpoint::PreRebootBelow => pre_reboot("preRebootBelow"),
        Endpoint::SteadyState => steady_state("steadyState"),
        Endpoint::SteadyStateBelow => steady_state("steadyStateBelow"),
    }
}

fn pre_reboot(id: &'static str) -> Operation {
    new(id, "Ask for leave to reboot")
        .says(
            "The same machine may ask again, and has its slot. A group has one slot unless its resource is configured.",
        )
        .answers(
            200,
            AnswerDoc::json("It may reboot.", Schema::to::<FleetLockSlot>(), &json!({"held": true, "token": 7})),
        )
        .answers(
            409,
            AnswerDoc::json(
                "A claim that no machine made has the machine's id as its key.",
                Schema::to::<FleetLockError<'_>>(),
                &json!({
                    "kind": "failed_lock_id_in_use",
                    "value": "a claim that no machine made has this id as its Idempotency-Key",
                }),
            ),
        )
        .answers(
            423,
            AnswerDoc::json(
                "Every slot is taken.",
                Schema::to::<FleetLockError<'_>>(),
                &json!({
                    "kind": "failed_lock_semaphore_full",
                    "value": "1 of 1 reboot slots taken, by node-7 for 12 min",
                }),
            ),
        )
}

fn steady_state(id: &'static str) -> Operation {
    new(id, "Say that the machine is back")
        .says("Gives the slot back. A machine that has none gets the same answer.")
        .answers(200, AnswerDoc::json("It has no slot.", Schema::to::<FleetLockSlot>(), &json!({"held": false})))
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(TAG, id, summary)
        .required_header(HEADER, "Marks the protocol.", Schema::one_of(&["true"]))
        .body("FleetLockRequest", &json!({"client_params": {"id": "node-7", "group": "default"}}))
        .answers(
            400,
            AnswerDoc::json(
                "The header or the body makes no sense.",
                Schema::either([Schema::to::<FleetLockError<'_>>(), Schema::to::<ErrorBody<'_, Code>>()]),
                &json!({"kind": "bad_body", "value": "group is missing, it must be a string of 1 to 1000 bytes"}),
            ),
        )
}

pub(crate) fn schemas() -> Vec<NamedSchema> {
    let params = Schema::object()
        .member("id", Schema::string().length(1, IDEMPOTENCY_KEY_MAX).pattern("^[!-~]+$").says("The machine."))
        .member(
            "group",
            Schema::string()
                .length(1, FLEETLOCK_GROUP_MAX)
                .pattern("^[a-zA-Z0-9.-]+$")
                .says("The machines that take turns. Its slots are those of the claimed resource `fleetlock/GROUP`."),
        );
    vec![
        ("FleetLockRequest".into(), Schema::object().member("client_params", params)),
        Schema::shape::<FleetLockSlot>(),
        Schema::shape::<FleetLockError<'_>>(),
    ]
}
