//! Claims and their resources for the OpenAPI document: what each call takes and answers. It describes what `routes`,
//! `filter`, `wire` and `refusal` do.

use std::ops::RangeInclusive;

use leasehold_engine::limits::DURATION_MAX_US;
use serde_json::{Value, json};

use super::routes::Endpoint;
use super::wire::{Claim, ClaimConflict, ClaimHolder, ClaimListed, Resource, STATUSES, StatusChange};
use crate::code::Code;
use crate::faces::deleted::Deleted;
use crate::faces::ended::key_spent;
use crate::faces::fittings::{self, Resumed};
use crate::faces::header::document_key;
use crate::faces::label;
use crate::faces::proving::{AUDIENCE_SAYS, audience_schema, proof_answer};
use crate::limits::{CLAIMS_LIMIT_DEFAULT, CLAIMS_LIMIT_MAX, CLAIMS_OFFSET_MAX, CONFIRM_S, NAME_MAX, WAIT_TTL_S};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};
use crate::settings::Settings;

const TAG: Tag = Tag {
    name: "Claims",
    description: "Named resources with a queue of standing claims. A claim waits its turn, is active until it is \
                  released or its ttl runs out, and can be read for a while after.",
};

const RESOURCES: Tag = Tag {
    name: "Resources",
    description: "Named resources that claims queue for, and how many claims may be active at once.",
};

const CLAIM: &str = "0b9a8c1e-6f2d-4b57-9e3a-c5d1f0a7b842";

pub(crate) fn operation(action: Endpoint, settings: &Settings) -> Operation {
    match action {
        Endpoint::Create => document_key(listening(new("createClaim", "Claim a resource"), settings))
            .says(
                "The claim is active at once if the resource is free, and stands in line if not: first come, first served. Once \
                 active it has `timeout` seconds, unless its `ttl` is set anew. `ttl` and `user_data` are other names for \
                 `timeout` and `metadata`; give one of each pair.",
            )
            .body("ClaimRequest", &json!({"resource": "db/migrations", "timeout": 30.0, "metadata": {"job": 4711}}))
            .answers(201, claim_answer("It is active.", &active()).header("Location").links_to_claim())
            .answers(202, claim_answer("It waits.", &waiting()).header("Location").links_to_claim())
            .answers(410, key_spent("That key's claim has ended.", "the claim of this Idempotency-Key has ended"))
            .answers(
                422,
                AnswerDoc::error(
                    "That key was used for something else.",
                    "this Idempotency-Key was used with another body on this resource",
                ),
            ),
        Endpoint::List => filters(new("listClaims", "List claims, oldest first")).answers(
            200,
            AnswerDoc::json("A page of them.", Schema::array(Schema::to::<ClaimListed<'_>>()), &json!([waiting()])).header("Link"),
        ),
        Endpoint::Show => listening(one("showClaim", "See a claim"), settings)
            .says("With `wait`, the answer comes when its status changes, or after that long.")
            .query("while", "With `wait`: `waiting` answers at once unless the claim waits.", Schema::one_of(&["waiting"]))
            .answers(200, claim_answer("The claim.", &active()))
            .answers(404, no_claim()),
        Endpoint::Update => listening(one("updateClaim", "Renew, release or take up a claim"), settings)
            .says(
                "Any of `ttl`, `timeout` and `status`, as one step or not at all. `status: active` takes up a claim whose turn \
                 it is; with `wait` it stands by until then.",
            )
            .body("ClaimUpdate", &json!({"ttl": 30.0}))
            .answers(200, claim_answer("The claim as it is now.", &active()))
            .answers(204, AnswerDoc::empty("It was released or revoked."))
            .answers(404, no_claim())
            .answers(
                409,
                AnswerDoc::shape::<ClaimConflict<'_>>("The claim is not in a status in which this can be done.", &json!({
                        "error": "the claim is expired, it can no longer be changed", "code": "ended", "status": "expired",
                        "ended": "expired",
                    }),
                ),
            ),
        Endpoint::Prove => one("proveClaim", "Prove that a claim is held")
            .says(
                "A JWT for a guard that cannot ask, signed with a key of `/.well-known/leasehold/jwks.json`. It ends no later \
                 than the lease, and after 5 minutes at the latest; it cannot know of a release before that. For the claim's \
                 owner alone.",
            )
            .required_query("aud", AUDIENCE_SAYS, audience_schema())
            .answers(200, proof_answer())
            .answers(404, no_claim())
            .answers(
                409,
                AnswerDoc::shape::<ClaimConflict<'_>>("The claim is not active.", &json!({
                        "error": "the claim is expired, there is nothing to prove", "code": "ended", "status": "expired",
                        "ended": "expired",
                    }),
                ),
            ),
        Endpoint::ListResources => after(
            paged(Operation::new(RESOURCES, "listResources", "List resources by name")),
            Schema::string().says("The last name of the page before."),
        )
        .answers(
            200,
            AnswerDoc::json("A page of them.", Schema::array(Schema::to::<Resource<'_>>()), &json!([resource()])).header("Link"),
        ),
        Endpoint::ShowResource => resource_in_path("showResource", "See who holds a resource and who waits")
            .answers(200, AnswerDoc::shape::<Resource<'_>>("The resource.", &resource()))
            .answers(404, no_resource()),
        Endpoint::PutResource => resource_in_path("putResource", "Say how many claims may be active at once")
            .says("Raising activates waiting claims at once, in order. Lowering recalls no lease.")
            .body("ResourceSettings", &json!({"capacity": 4}))
            .answers(200, AnswerDoc::shape::<Resource<'_>>("The resource.", &resource()))
            .answers(
                409,
                AnswerDoc::error(
                    "A slot that is held would lose its name, or the slots have names and the capacity is another.",
                    "slot 0, \"bench-1\", is held: it keeps its name and its place until it is given back",
                )
                .coded(Code::SlotHeld),
            ),
        Endpoint::DeleteResource => resource_in_path("deleteResource", "Put the capacity back to one")
            .says("Claims are left as they are.")
            .answers(200, AnswerDoc::shape::<Deleted>("`deleted` is true if it had been set.", &json!({"deleted": true}))),
        Endpoint::PauseResource => resource_in_path("pauseResource", "Grant nothing for a while")
            .says(
                "No claim becomes active until it is resumed, or `for` seconds of service time have passed. Active claims, renewals, \
                 releases and the queue go on. Claims that wait show the reason.",
            )
            .body("PauseRequest", &json!({"reason": "new disks", "for": 600}))
            .answers(200, AnswerDoc::shape::<Resource<'_>>("The resource.", &resource())),
        Endpoint::ResumeResource => resource_in_path("resumeResource", "Grant again")
            .answers(200, AnswerDoc::shape::<Resumed>("`resumed` is true if it was paused.", &json!({"resumed": true}))),
        Endpoint::ServeSlot => resource_in_path("serveResourceSlot", "Take a slot out of service, or back")
            .says("Its holder keeps it; after that it is not granted until it is back in service.")
            .path("slot", "The number of the slot, from 0.", Schema::count().example(0))
            .body("SlotService", &json!({"out_of_service": true, "reason": "broken"}))
            .answers(200, AnswerDoc::shape::<Resource<'_>>("The resource.", &resource()))
            .answers(404, AnswerDoc::error("There is no such slot.", "no such slot: they have the numbers 0 to 3").coded(Code::NoSuchSlot)),
    }
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(TAG, id, summary)
}

/// On one claim.
fn one(id: &'static str, summary: &'static str) -> Operation {
    let says = "The claim's id. One that names no claim, of whatever shape, is 404.";
    new(id, summary).path("id", says, Schema::string().example(CLAIM))
}

fn resource_in_path(id: &'static str, summary: &'static str) -> Operation {
    let says = "The resource's name, percent-encoded.";
    Operation::new(RESOURCES, id, summary).path("name", says, name().example("db"))
}

/// The name of a resource.
fn name() -> Schema {
    Schema::string().length(1, NAME_MAX).says(format!("1 to {NAME_MAX} bytes."))
}

/// Calls that hold their answer back.
fn listening(operation: Operation, settings: &Settings) -> Operation {
    let says = format!(
        "Seconds to wait for the status to change. Cut to {} s. `Prefer: wait=N` means the same.",
        settings.wait_max_us / 1_000_000
    );
    operation.query("wait", &says, Schema::seconds().or_duration()).header(
        "Prefer",
        "`wait=N`, in seconds. Other preferences are ignored.",
        Schema::string().example("wait=10"),
    )
}

/// One or more statuses.
fn statuses() -> Schema {
    let one = STATUSES.join("|");
    Schema::string().pattern(&format!("^({one})(,({one}))*$")).example("waiting")
}

fn filters(operation: Operation) -> Operation {
    // Below zero, too: such a minimum matches every claim, such a maximum none.
    let seconds = || {
        Schema::either([Schema::number(), Schema::duration(0, None), Schema::string().pattern("^-[1-9][0-9]{0,5}s$")])
    };
    let time = || Schema::either([Schema::time(), Schema::seconds()]);
    let operation = operation
        .query("resource", "Only claims for this one.", name())
        .query("owner", "Only claims of this owner.", name())
        .query("status", "Only claims in this status, or in one of several with commas between them.", statuses())
        .query("minimum_ttl", "Seconds left, at least. Leaves out claims that have no ttl.", seconds())
        .query("maximum_ttl", "Seconds left, at most.", seconds())
        .query(
            "ttl",
            "`a..b`, short for a pair; either side may be empty.",
            Schema::string().pattern("^[0-9]{0,9}\\.\\.[0-9]{0,9}$").example("0..60"),
        )
        .query("minimum_created", "Made then or later: RFC 3339, or seconds since 1970.", time())
        .query("maximum_created", "Made then or earlier.", time())
        .query(
            "created",
            "`a..b`, short for a pair.",
            Schema::string().pattern("^[0-9]{0,12}\\.\\.[0-9]{0,12}$").example("1705314600.."),
        )
        .query("minimum_active_duration", "Seconds it was active, at least.", seconds())
        .query("maximum_active_duration", "Seconds it was active, at most.", seconds())
        .query("minimum_waiting_duration", "Seconds it waited, at least.", seconds())
        .query("maximum_waiting_duration", "Seconds it waited, at most.", seconds());
    // A place for each partition; a service in one process has one.
    after(paged(operation), Schema::string().pattern("^[0-9]{1,19}$"))
}

fn paged(operation: Operation) -> Operation {
    let limit = Schema::count().minimum(1).maximum(CLAIMS_LIMIT_MAX as u64).default(CLAIMS_LIMIT_DEFAULT);
    operation.query("limit", "How many at most.", limit).query(
        "offset",
        "How many to leave out.",
        Schema::count().maximum(CLAIMS_OFFSET_MAX as u64).default(0),
    )
}

/// The place after which a page begins.
fn after(operation: Operation, place: Schema) -> Operation {
    operation.query("after", "The place after which the page begins, as the link to it says.", place)
}

fn claim_answer(description: &'static str, example: &Value) -> AnswerDoc {
    AnswerDoc::shape::<Claim<'_>>(description, example)
}

fn no_claim() -> AnswerDoc {
    AnswerDoc::error("There is no such claim, or it ended long ago.", "no such claim").coded(Code::NoSuchClaim)
}

fn no_resource() -> AnswerDoc {
    AnswerDoc::error(
        "It is not held, waited for or configured.",
        "no such resource: nobody holds, wants or configured it",
    )
    .coded(Code::NoSuchResource)
}

impl AnswerDoc {
    fn links_to_claim(self) -> Self {
        let claim = &json!({"id": "$response.body#/id"});
        self.link("showClaim", claim, None).link("updateClaimByPatch", claim, None)
    }
}

fn active() -> Value {
    json!({
        "id": CLAIM, "url": format!("http://localhost:8080/v1/claims/{CLAIM}/"), "resource": "db/migrations",
        "status": "active", "created": "2024-01-15T10:30:00Z", "timeout": 30.0, "ttl": 30.0, "metadata": {"job": 4711},
        "user_data": {"job": 4711}, "waiting_duration": 0.0, "active_duration": 0.0,
        "status_history": [
            {"status": "waiting", "timestamp": "2024-01-15T10:30:00Z"},
            {"status": "active", "timestamp": "2024-01-15T10:30:00Z"}
        ], "token": 7,
        "expires_in": 30, "renew_after": 10, "clamped": false, "waited_s": 0,
    })
}

fn waiting() -> Value {
    json!({
        "id": CLAIM, "url": format!("http://localhost:8080/v1/claims/{CLAIM}/"), "resource": "db/migrations",
        "status": "waiting", "created": "2024-01-15T10:30:00Z", "timeout": 30.0, "metadata": null, "user_data": null,
        "waiting_duration": 0.0, "status_history": [{"status": "waiting", "timestamp": "2024-01-15T10:30:00Z"}],
        "queue_position": 1,
        "holders": [{"id": "7d1e5f90-3c2b-4a68-8f47-b9e06d3a15c2", "since": "2024-01-15T10:29:48Z"}],
    })
}

fn resource() -> Value {
    json!({
        "name": "db", "capacity": 1, "in_use": 1, "waiting": 0,
        "holders": [{"id": CLAIM, "since": "2024-01-15T10:30:00Z"}], "queue": [],
    })
}

pub(crate) fn schemas(settings: &Settings) -> Vec<NamedSchema> {
    let duration = || Schema::seconds().maximum(DURATION_MAX_US / 1_000_000).or_duration();
    let within = |allowed: &RangeInclusive<u64>| {
        Schema::number().minimum(*allowed.start()).maximum(*allowed.end()).or_duration()
    };
    let metadata = || Schema::any().says(format!("Any JSON, at most {} KiB.", settings.metadata_max / 1024));
    vec![
        (
            "ClaimRequest".into(),
            Schema::object()
                .member("resource", name())
                .maybe(
                    "timeout",
                    duration().says("Seconds it has once it is active. Required, under one of its names."),
                )
                .maybe("ttl", duration().says("Another name for `timeout`."))
                .maybe("metadata", metadata())
                .maybe("user_data", Schema::any().says("Another name for `metadata`."))
                .maybe(
                    "wait_ttl",
                    within(&WAIT_TTL_S).says(
                        "Seconds without a question about it after which it is withdrawn while it waits, at most a quarter more. GET, \
                         PATCH and the same key are questions.",
                    ),
                )
                .maybe(
                    "confirm",
                    within(&CONFIRM_S).says(
                        "Seconds that a grant lasts that was made while no call waited for it, until the first question about it: then \
                         `timeout` begins.",
                    ),
                )
                .with("oneOf", json!([{"required": ["timeout"]}, {"required": ["ttl"]}]))
                .with("not", json!({"required": ["metadata", "user_data"]}))
                .and_no_other(),
        ),
        (
            "ClaimUpdate".into(),
            Schema::object()
                .maybe(
                    "ttl",
                    duration().says("Seconds left from now on. Only for an active claim, or one made active."),
                )
                .maybe("timeout", duration().says("Seconds it gets at its next activation."))
                .maybe("status", Schema::one_of(&["active", "released", "revoked", "aborted", "withdrawn"]))
                .with("minProperties", 1)
                .and_no_other(),
        ),
        Schema::shape::<Claim<'_>>(),
        Schema::shape::<ClaimListed<'_>>(),
        Schema::shape::<StatusChange>(),
        Schema::shape::<ClaimHolder>(),
        Schema::shape::<ClaimConflict<'_>>(),
        Schema::shape::<Resource<'_>>(),
        (
            "ResourceSettings".into(),
            Schema::object()
                .maybe("capacity", Schema::count().maximum(settings.count_max))
                .maybe("slots", fittings::slots_schema())
                .maybe("label", label::schema("A note for people"))
                .with("anyOf", json!([{"required": ["capacity"]}, {"required": ["slots"]}]))
                .and_no_other(),
        ),
    ]
    .into_iter()
    .chain(fittings::schemas())
    .collect()
}
