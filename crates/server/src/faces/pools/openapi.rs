//! Pools for the OpenAPI document: what each call takes and answers. It describes what `routes`, `wire` and `refusal`
//! do.

use serde_json::{Value, json};

use super::routes::Endpoint;
use crate::faces::ended::key_spent;
use crate::faces::header::{document_key, document_required_key};
use crate::faces::terms;
use crate::http::Code;
use crate::limits::KEEP_MAX_US;
use crate::openapi::{Answer, Operation, Schema, Tag};
use crate::settings::Settings;

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
            .answers(200, Answer::json("The pool.", Schema::named("Pool"), &pool(0)).links_to_borrow()),
        Endpoint::Show => document_key(new("showPool", "See how much of a pool is in use"))
            .says("With the `Idempotency-Key` of a borrow that waits, also its place in line, and who holds the pool.")
            .answers(200, Answer::json("The pool. Never a lease.", Schema::named("PoolSeen"), &pool_seen()))
            .answers(404, no_pool()),
        Endpoint::Delete => new("deletePool", "Delete a pool")
            .says("All its leases end, and its waiters get 404 at once.")
            .answers(200, Answer::json("`deleted` is true if there was one.", Schema::named("Deleted"), &json!({"deleted": true}))),
        Endpoint::Borrow => document_key(new("borrow", "Borrow a slot"))
            .says(format!(
                "The lowest free slot is lent for `ttl` seconds. Without one, the call waits in line for up to `wait` seconds: \
                 first come, first served. A caller that hangs up leaves the line. `ttl` is cut to {} s and `wait` to {} s.",
                settings.max_ttl_us / 1_000_000,
                settings.max_wait_us / 1_000_000
            ))
            .body("BorrowRequest", &json!({"ttl": 30, "wait": 10}))
            .answers(200, Answer::json("The lease.", Schema::named("Lease"), &lease()).links_to_lease())
            .answers(404, no_pool())
            .answers(
                409,
                Answer::json(
                    "No slot became free in time.",
                    Schema::named("NoneFree"),
                    &json!({"error": "no resource available", "code": "none_free", "waiting": 2}),
                )
                .header("Retry-After"),
            )
            .answers(410, key_spent("That key's lease has ended.", "the lease of this Idempotency-Key has ended"))
            .answers(
                422,
                Answer::error(
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
                Answer::json(
                    "The lease or place that was given up.",
                    Schema::named("GivenUp"),
                    &json!({"returned": true, "withdrawn": false}),
                ),
            )
            .answers(404, no_pool()),
        Endpoint::Return => new("returnLease", "Give a slot back")
            .says("Returning twice, or too late, is no mistake: the answer says whether the lease was still held.")
            .body("ReturnRequest", &json!({"lease": LEASE}))
            .answers(
                200,
                Answer::json("True if it was still held.", Schema::named("Returned"), &json!({"returned": true})),
            ),
        Endpoint::Renew => new("renewLease", "Keep a slot for longer")
            .says("The lease runs for `ttl` seconds from now. Its position and its token stay.")
            .body("RenewRequest", &json!({"lease": LEASE, "ttl": 30}))
            .answers(200, Answer::json("The lease.", Schema::named("Lease"), &lease()))
            .answers(404, no_pool())
            .answers(
                409,
                Answer::json(
                    "It is no longer held.",
                    Schema::named("EndedError"),
                    &json!({"error": "the lease is no longer held", "code": "not_held", "ended": "expired"}),
                ),
            ),
        Endpoint::ShowLease => new("showLease", "See a lease")
            .path("lease", "The lease, as it was lent.", Schema::uuid().example(LEASE))
            .answers(200, Answer::json("The lease.", Schema::named("LeaseSeen"), &lease_seen()))
            .answers(
                404,
                Answer::error("No such pool, or the lease is not held.", "no such lease").coded(Code::NoSuchLease),
            ),
    }
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    let says = "A UUID of your choice, and the only credential: every caller that knows it may use the pool.";
    Operation::new(Tag::Pools, id, summary).path("id", says, Schema::uuid().example(POOL))
}

fn no_pool() -> Answer {
    Answer::error("There is no such pool.", "no such pool").coded(Code::NoSuchPool)
}

impl Answer {
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

pub(crate) fn schemas(settings: &Settings) -> Vec<(&'static str, Schema)> {
    let ttl = || Schema::seconds().above_zero().says("Seconds. Longer than the maximum is cut to it.");
    vec![
        (
            "PoolSettings",
            Schema::object()
                .member("count", Schema::count().maximum(settings.max_count).says("How many slots it has.")),
        ),
        ("Pool", pool_schema()),
        (
            "PoolSeen",
            pool_schema()
                .member("waiting", Schema::count().says("Callers in line."))
                .maybe("queue_position", place_schema())
                .maybe("holder", holder_schema()),
        ),
        (
            "GivenUp",
            Schema::object()
                .member("returned", Schema::boolean().says("A lease was held, and is given back."))
                .member("withdrawn", Schema::boolean().says("A place in line was left.")),
        ),
        ("Deleted", Schema::object().member("deleted", Schema::boolean().says("False when there was none."))),
        (
            "BorrowRequest",
            Schema::object()
                .member("ttl", ttl())
                .maybe("wait", Schema::seconds().default(0).says("How long to stand in line. Cut to the maximum."))
                .maybe(
                    "keep",
                    Schema::seconds().maximum(KEEP_MAX_US / 1_000_000).default(0).says(
                        "How long the place in line outlives the last call that waits there, and a restart of the service. Needs an \
                         `Idempotency-Key`.",
                    ),
                ),
        ),
        ("Lease", terms::document(lease_schema(), Schema::member)),
        ("LeaseSeen", terms::document_rest(lease_schema(), Schema::member)),
        (
            "NoneFree",
            Schema::object()
                .member("error", Schema::string())
                .member("code", Schema::constant(Code::NoneFree.as_str()))
                .member("waiting", Schema::count().says("Callers in line now.")),
        ),
        ("ReturnRequest", Schema::object().member("lease", lease_id())),
        (
            "Returned",
            Schema::object().member(
                "returned",
                Schema::boolean().says("False for a lease that expired, was returned before, or never was."),
            ),
        ),
        ("RenewRequest", Schema::object().member("lease", lease_id()).member("ttl", ttl())),
    ]
}

fn place_schema() -> Schema {
    Schema::count()
        .minimum(1)
        .or_null()
        .says("The place in line of the key's borrow; 1 is next, null when it does not wait.")
}

fn holder_schema() -> Schema {
    Schema::string().or_null().says("The holder of a slot, or the first of them, where callers sign on; else null.")
}

fn lease_id() -> Schema {
    Schema::uuid().says("The lease, a secret of its borrower.")
}

fn lease_schema() -> Schema {
    Schema::object()
        .member("lease", lease_id())
        .member("position", Schema::count().says("The slot, from 0. No other live lease has it."))
        .member("expires_at_unix", Schema::count().says("When it ends, no later than it really does."))
        .member("token", Schema::token())
}

fn pool_schema() -> Schema {
    Schema::object()
        .member("id", Schema::uuid())
        .member("count", Schema::count().says("How many slots it has."))
        .member("in_use", Schema::count().says("Live leases. More than `count` after it was lowered."))
        .member("available", Schema::count().says("`count` less `in_use`, at least 0."))
}
