//! Pools for the OpenAPI document: what each call takes and answers. It describes what `routes`, `wire` and `refusal`
//! do.

use serde_json::{Value, json};

use super::routes::Endpoint;
use super::wire::{GivenUp, Lease, LeaseSeen, NoneFree, Pool, PoolSeen, Returned};
use crate::code::Code;
use crate::faces::deleted::Deleted;
use crate::faces::ended::{EndedError, key_spent};
use crate::faces::fittings::{self, Resumed};
use crate::faces::header::{document_key, document_required_key};
use crate::faces::label;
use crate::faces::proving::{audience_schema, proof_answer};
use crate::limits::{HOLDER_MAX, KEEP_MAX_US};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};
use crate::settings::Settings;

const TAG: Tag = Tag {
    name: "Pools",
    description: "A pool of numbered slots under a secret UUID, borrowed for a bounded time. You choose the UUID, \
                  and it is the only credential: it appears in no log, metric, event or error.",
};

const POOL: &str = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01";
const LEASE: &str = "5e0d7c42-8a16-4b9f-92d3-c47f10b8e602";

pub(crate) fn operation(action: Endpoint, settings: &Settings) -> Operation {
    match action {
        Endpoint::Put => new("putPool", "Create a pool, or change how many slots it has")
            .says(
                "Raising wakes waiters at once, in order. Lowering recalls no lease and blocks new borrows until `in_use` is \
                 below `count`.",
            )
            .body("PoolSettings", &json!({"count": 3}))
            .answers(200, AnswerDoc::shape::<Pool<'_>>("The pool.", &pool(0)).links_to_borrow())
            .answers(409, slot_held()),
        Endpoint::Show => document_key(new("showPool", "See how much of a pool is in use"))
            .says("With the `Idempotency-Key` of a borrow that waits, also its place in line, and who holds the pool.")
            .answers(200, AnswerDoc::shape::<PoolSeen<'_>>("The pool. Never a lease.", &pool_seen()))
            .answers(404, no_pool()),
        Endpoint::Delete => new("deletePool", "Delete a pool")
            .says("All its leases end, and its waiters get 404 at once.")
            .answers(200, AnswerDoc::shape::<Deleted>("`deleted` is true if there was one.", &json!({"deleted": true}))),
        Endpoint::Borrow => document_key(new("borrow", "Borrow a slot"))
            .says(format!(
                "The lowest free slot is lent for `ttl` seconds. Without one, the call waits in line for up to `wait` seconds: \
                 first come, first served. A caller that hangs up leaves the line. `ttl` is cut to {} s and `wait` to {} s.",
                settings.ttl_max_us / 1_000_000,
                settings.wait_max_us / 1_000_000
            ))
            .body("BorrowRequest", &json!({"ttl": 30, "wait": 10}))
            .answers(200, AnswerDoc::shape::<Lease<'_>>("The lease.", &lease()).links_to_lease())
            .answers(404, no_pool())
            .answers(
                409,
                AnswerDoc::json(
                    "No slot became free in time, or an operator took the call out of the queue.",
                    Schema::either([Schema::to::<NoneFree<'_>>(), Schema::to::<EndedError<'_>>()]),
                    &json!({"error": "no resource available", "code": "none_free", "waiting": 2, "eta_s": null}),
                )
                .header("Retry-After"),
            )
            .answers(410, key_spent("That key's lease has ended.", "the lease of this Idempotency-Key has ended"))
            .answers(
                422,
                AnswerDoc::error(
                    "That key was used for something else.",
                    "this Idempotency-Key was used with another body on this pool",
                ),
            ),
        Endpoint::GiveUp => document_required_key(new("giveUpBorrow", "Give up a borrow, whatever became of it"))
            .says(
                "The `Idempotency-Key` is required. Its lease is given back, its place in line is left, and the key is spent: a \
                 copy of the borrow that arrives later gets 410 and holds nothing. For callers that do not know whether their \
                 borrow arrived.",
            )
            .answers(
                200,
                AnswerDoc::shape::<GivenUp>("The lease or place that was given up.", &json!({"returned": true, "withdrawn": false}),
                ),
            )
            .answers(404, no_pool()),
        Endpoint::Return => new("returnLease", "Give a slot back")
            .says("Returning twice, or too late, is no mistake: the answer says whether the lease was still held.")
            .body("ReturnRequest", &json!({"lease": LEASE}))
            .answers(
                200,
                AnswerDoc::shape::<Returned>("True if it was still held.", &json!({"returned": true})),
            ),
        Endpoint::Renew => new("renewLease", "Keep a slot for longer")
            .says("The lease runs for `ttl` seconds from now. Its position and its token stay.")
            .body("RenewRequest", &json!({"lease": LEASE, "ttl": 30}))
            .answers(200, AnswerDoc::shape::<Lease<'_>>("The lease.", &lease()))
            .answers(404, no_pool())
            .answers(
                409,
                AnswerDoc::shape::<EndedError<'_>>("It is no longer held.", &json!({"error": "the lease is no longer held", "code": "not_held", "ended": "expired"}),
                ),
            ),
        Endpoint::Prove => new("proveLease", "Prove that a slot is held")
            .says(
                "A JWT for a guard that cannot ask, signed with a key of `/.well-known/leasehold/jwks.json`. It ends no later \
                 than the lease, and after 5 minutes at the latest; it cannot know of a return before that. It names the pool \
                 by its digest, and has neither the pool's id nor the lease in it.",
            )
            .body("ProofRequest", &json!({"lease": LEASE, "aud": "db.example.org"}))
            .answers(200, proof_answer())
            .answers(
                404,
                AnswerDoc::error("No such pool, or the lease is not held.", "no such lease").coded(Code::NoSuchLease),
            ),
        Endpoint::ShowLease => new("showLease", "See a lease")
            .path("lease", "The lease, as it was lent.", Schema::uuid().example(LEASE))
            .answers(200, AnswerDoc::shape::<LeaseSeen<'_>>("The lease.", &lease_seen()))
            .answers(
                404,
                AnswerDoc::error("No such pool, or the lease is not held.", "no such lease").coded(Code::NoSuchLease),
            ),
        Endpoint::Pause => new("pausePool", "Lend nothing for a while")
            .says(
                "Nothing is lent until it is resumed, or `for` seconds of service time have passed. Leases, renewals, returns and \
                 the queue go on. Callers that wait or are refused see the reason.",
            )
            .body("PauseRequest", &json!({"reason": "new disks", "for": 600}))
            .answers(200, AnswerDoc::shape::<Pool<'_>>("The pool.", &paused()))
            .answers(404, no_pool()),
        Endpoint::Resume => new("resumePool", "Lend again")
            .answers(200, AnswerDoc::shape::<Resumed>("`resumed` is true if it was paused.", &json!({"resumed": true})))
            .answers(404, no_pool()),
        Endpoint::ServeSlot => new("servePoolSlot", "Take a slot out of service, or back")
            .says("Its holder keeps it; after that it is not lent until it is back in service.")
            .path("slot", "The number of the slot, from 0.", Schema::count().example(0))
            .body("SlotService", &json!({"out_of_service": true, "reason": "broken"}))
            .answers(200, AnswerDoc::shape::<Pool<'_>>("The pool.", &pool(0)))
            .answers(404, AnswerDoc::error("There is no such pool, or no such slot.", "no such slot: they have the numbers 0 to 2").coded(Code::NoSuchSlot)),
    }
}

fn slot_held() -> AnswerDoc {
    let error = "slot 0, \"bench-1\", is held: it keeps its name and its place until it is given back";
    AnswerDoc::error(
        "A slot that is held would lose its name, or the slots have names and the count is another.",
        error,
    )
    .coded(Code::SlotHeld)
}

fn paused() -> Value {
    let paused = json!({"reason": "new disks", "since": "2024-01-15T10:30:00Z", "resumes_in_s": 600.0});
    json!({"id": POOL, "count": 3, "in_use": 0, "available": 3, "paused": paused})
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    let says = "A UUID of your choice, and the only credential: every caller that knows it may use the pool.";
    Operation::new(TAG, id, summary).path("id", says, Schema::uuid().example(POOL))
}

fn no_pool() -> AnswerDoc {
    AnswerDoc::error("There is no such pool.", "no such pool").coded(Code::NoSuchPool)
}

impl AnswerDoc {
    fn links_to_borrow(self) -> Self {
        let pool = &json!({"id": "$request.path.id"});
        self.link("showPool", pool, None).link("borrow", pool, None)
    }

    fn links_to_lease(self) -> Self {
        let (pool, lease) = (&json!({"id": "$request.path.id"}), "$response.body#/lease");
        self.link("renewLease", pool, Some(json!({"lease": lease, "ttl": 30})))
            .link("returnLease", pool, Some(json!({"lease": lease})))
            .link("showLease", &json!({"id": "$request.path.id", "lease": lease}), None)
    }
}

fn pool(in_use: u32) -> Value {
    json!({"id": POOL, "count": 3, "in_use": in_use, "available": 3 - in_use})
}

fn pool_seen() -> Value {
    json!({"id": POOL, "count": 3, "in_use": 1, "available": 2, "waiting": 0})
}

fn lease() -> Value {
    json!({
        "lease": LEASE, "position": 0, "expires_at_unix": 1_705_314_630, "token": 7, "expires_in": 30, "renew_after": 10,
        "clamped": false, "waited_s": 0,
    })
}

fn lease_seen() -> Value {
    json!({
        "lease": LEASE, "position": 0, "expires_at_unix": 1_705_314_630, "token": 7, "expires_in": 30, "renew_after": 10,
    })
}

pub(crate) fn schemas(settings: &Settings) -> Vec<NamedSchema> {
    let ttl = || Schema::seconds().above_zero().or_duration().says("Seconds. Longer than the maximum is cut to it.");
    vec![
        (
            "PoolSettings".into(),
            Schema::object()
                .maybe("count", Schema::count().maximum(settings.count_max).says("How many slots it has."))
                .maybe("slots", fittings::slots_schema())
                .maybe("label", label::schema("The name that people see in place of the id"))
                .with("anyOf", json!([{"required": ["count"]}, {"required": ["slots"]}])),
        ),
        Schema::shape::<Pool<'_>>(),
        Schema::shape::<PoolSeen<'_>>(),
        Schema::shape::<GivenUp>(),
        Schema::shape::<Deleted>(),
        (
            "BorrowRequest".into(),
            Schema::object()
                .member("ttl", ttl())
                .maybe(
                    "wait",
                    Schema::seconds().or_duration().default(0).says("How long to stand in line. Cut to the maximum."),
                )
                .maybe(
                    "holder",
                    Schema::string()
                        .length(1, HOLDER_MAX)
                        .says(format!("A name for people who look at the pool, at most {HOLDER_MAX} bytes.")),
                )
                .maybe(
                    "metadata",
                    Schema::any().says(format!(
                        "Any JSON for people who look at the pool, at most {} KiB.",
                        settings.metadata_max / 1024
                    )),
                )
                .maybe(
                    "keep",
                    Schema::seconds().maximum(KEEP_MAX_US / 1_000_000).or_duration().default(0).says(
                        "How long the place in line outlives the last call that waits there, and a restart of the service. Needs an \
                         `Idempotency-Key`.",
                    ),
                ),
        ),
        Schema::shape::<Lease<'_>>(),
        Schema::shape::<LeaseSeen<'_>>(),
        Schema::shape::<NoneFree<'_>>(),
        ("ReturnRequest".into(), Schema::object().member("lease", lease_id())),
        Schema::shape::<Returned>(),
        ("ProofRequest".into(), Schema::object().member("lease", lease_id()).member("aud", audience_schema())),
        ("RenewRequest".into(), Schema::object().member("lease", lease_id()).member("ttl", ttl())),
    ]
}

fn lease_id() -> Schema {
    Schema::uuid().says("The lease, a secret of its borrower.")
}
