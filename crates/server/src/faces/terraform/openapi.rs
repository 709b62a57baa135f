//! Terraform's lock for the OpenAPI document. Its methods are none that OpenAPI 3.1 has a place for, so that they stand
//! in an extension of the path.

use serde_json::{Value, json};

use super::routes::Endpoint;
use super::wire::{TerraformHeld, TerraformMadeUp, TerraformTaken, TerraformUnlocked};
use crate::faces::ended::{EndedError, key_spent};
use crate::limits::{IDEMPOTENCY_KEY_MAX, TERRAFORM_NAME_MAX};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};

const TAG: Tag = Tag {
    name: "Terraform",
    description: "The lock of Terraform's and OpenTofu's HTTP backend, over the claimed resource `tf/NAME`. Its \
                  methods are `LOCK` and `UNLOCK`, for which OpenAPI has no place: they are listed under \
                  `x-additionalOperations`.",
};

pub(crate) fn operation(action: Endpoint) -> Operation {
    match action {
        Endpoint::Lock => new("lockState", "Take the lock of a Terraform state")
            .says(
                "`LOCK`, as Terraform and OpenTofu send it to `lock_address`. The same ID may ask again, and gets the same \
                 lock. State is kept elsewhere.",
            )
            .body("TerraformLockInfo", &info())
            .answers(200, AnswerDoc::json("It is yours.", Schema::named("TerraformLock"), &taken()))
            .answers(409, key_spent("The lock of this ID has ended.", "the lock of this ID has ended, an ID locks once"))
            .answers(422, AnswerDoc::error("Another LockInfo had this ID.", "this ID was sent with another LockInfo"))
            .answers(423, held("It is another's, also after `wait`.").header("Retry-After")),
        Endpoint::Unlock => new("unlockState", "Give the lock of a Terraform state back")
            .says(
                "`UNLOCK`, as Terraform and OpenTofu send it to `unlock_address`, with the LockInfo of the lock. Without a \
                 body, as `force-unlock` sends it, the present holder is revoked; that needs `revoke-any`.",
            )
            .body("TerraformLockInfo", &info())
            .answers(
                200,
                AnswerDoc::shape::<TerraformUnlocked>("It is not held under this ID.", &json!({"released": true})),
            )
            .answers(409, held("It expired or was revoked, or another ID holds it.")),
    }
}

fn held(says: &'static str) -> AnswerDoc {
    AnswerDoc::json(
        says,
        Schema::either([Schema::named("TerraformLocked"), Schema::to::<EndedError<'_>>()]),
        &taken_by_another(),
    )
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    let duration = || Schema::string().pattern(r"^([0-9]{1,6}(ms|s|m|h)){1,2}$");
    Operation::new(TAG, id, summary)
        .path("name", "The name of the lock; it may have slashes.", Schema::string().length(1, TERRAFORM_NAME_MAX))
        .query("ttl", "When the lock expires, as a Go duration; never if left out.", duration().example("2h"))
        .query("wait", "How long to stand in line, as a Go duration.", duration().example("5m"))
}

fn info() -> Value {
    json!({
        "ID": "3c2f7a10-8a16-4b9f-92d3-c47f10b8e602", "Operation": "OperationTypeApply", "Info": "", "Who": "ci@runner-7",
        "Version": "1.13.0", "Created": "2024-01-15T10:30:00Z", "Path": "",
    })
}

fn with(mut value: Value, more: &[(&str, Value)]) -> Value {
    let members = value.as_object_mut().expect("a LockInfo is an object");
    members.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    value
}

fn taken() -> Value {
    with(info(), &[("token", 7.into()), ("expires_in", 7200.into())])
}

fn taken_by_another() -> Value {
    let error = "another ID holds the lock";
    with(info(), &[("error", error.into()), ("code", "locked".into()), ("token", 7.into()), ("waiting", 0.into())])
}

pub(crate) fn schemas() -> Vec<NamedSchema> {
    let lock_info = || Schema::named("TerraformLockInfo");
    vec![
        (
            "TerraformLockInfo".into(),
            // Any other member is kept and shown, so that its members are not listed as properties.
            Schema::of_any_members(&["ID"]).says(format!(
                "A LockInfo. `ID` is 1 to {IDEMPOTENCY_KEY_MAX} visible ASCII characters; the rest is kept as it is sent."
            )),
        ),
        (
            "TerraformLock".into(),
            Schema::all_of([lock_info(), Schema::to::<TerraformTaken>()])
                .says("The LockInfo of the holder as it was sent, and the terms of its lock."),
        ),
        (
            "TerraformLocked".into(),
            Schema::all_of([
                Schema::either([lock_info(), Schema::to::<TerraformMadeUp<'_>>()]),
                Schema::to::<TerraformHeld<'_>>(),
            ])
            .says("The LockInfo of the holder as it was sent, or one of ours for a holder that is not Terraform's, and more."),
        ),
        Schema::shape::<TerraformTaken>(),
        Schema::shape::<TerraformHeld<'_>>(),
        Schema::shape::<TerraformMadeUp<'_>>(),
        Schema::shape::<TerraformUnlocked>(),
    ]
}
