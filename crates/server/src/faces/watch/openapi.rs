//! Watching and running the service, for the OpenAPI document: what each call takes and answers. It describes what
//! `routes`, `list`, `detail`, `series` and `events` do.

use leasehold_engine::limits::{INSPECTED_QUEUE_MAX, SURVEYED_HOLDERS_MAX, TOKEN_MAX};
use leasehold_engine::{Kind, ResourceState};
use serde_json::{Value, json};

use super::detail::ObservedResource;
use super::list::ObservedResources;
use super::routes::{Endpoint, Fence, PoolKey, Revoked};
use super::series::Series;
use super::service::ObservedService;
use super::wire::{
    Event, GAP, HELLO, History, ID_PATTERN, LAGGING, SIGNED_OUT, StreamGap, StreamHello, StreamLagging,
    StreamSignedOut, event_names,
};
use crate::code::Code;
use crate::limits::{
    HISTORY_DEFAULT, HISTORY_MAX, KEY_MAX, NAME_MAX, SEARCH_MAX, WATCH_LIMIT_DEFAULT, WATCH_LIMIT_MAX, WATCH_OFFSET_MAX,
};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};
use crate::watch::key::KEY_PATTERN;

const TAG: Tag = Tag {
    name: "Observe",
    description: "For observers and operators: everything that is held, waited for and happening, whatever the \
                  dialect. Pools appear under a digest, leases not at all.",
};

pub(crate) fn operation(action: Endpoint) -> Operation {
    match action {
        Endpoint::ListResources => new("observeResources", "List everything that is held or waited for")
            .says("Resources of every kind, pools under a digest. Counts are of all resources, whatever the filter.")
            .query("kind", "Only these.", kind())
            .query("state", "Only these.", Schema::one_of(&ResourceState::ALL.map(ResourceState::as_str)))
            .query("q", "Part of a name, a digest or a holder's name, in whatever case.", Schema::string().length(0, SEARCH_MAX))
            .query("sort", "By name, contended ones first, by the longest queue, by the longest wait, or by the next to expire.", sort())
            .query("limit", "How many.", Schema::count().minimum(1).maximum(WATCH_LIMIT_MAX as u64).default(WATCH_LIMIT_DEFAULT))
            .query("offset", "How many to pass over, for a leap; after `after`, where that is given, too.", Schema::count().maximum(WATCH_OFFSET_MAX as u64).default(0))
            .query("after", "The `next` of the page before, with the same `kind`, `state`, `q` and `sort`.", Schema::string().pattern(r"^[0-9a-f]{1,16}(\.(pool|claim|lock):|-[0-9]{1,6}$)").example("0.lock:deploy"))
            .answers(200, AnswerDoc::shape::<ObservedResources<'_>>("A page of them.", &page()))
            .answers(
                410,
                AnswerDoc::error(
                    "By waiters or by expiry: the order is not kept any more.",
                    "the list that after goes on with is not kept any more, begin again without after",
                )
                .coded(Code::ListExpired),
            ),
        Endpoint::ShowResource => new("observeResource", "See one resource in full")
            .says(format!("Its holders by slot, at most {SURVEYED_HOLDERS_MAX}, and the first {INSPECTED_QUEUE_MAX} of its queue."))
            .path("key", KEY_SAYS, key())
            .answers(200, AnswerDoc::shape::<ObservedResource<'_>>("The resource.", &resource()))
            .answers(404, unknown()),
        Endpoint::History => new("observeHistory", "See what happened to a resource")
            .says("As far back as events are kept, also of what is no longer there. Of more than `limit`, the newest.")
            .path("key", KEY_SAYS, key())
            .query("since_unix", "Not before this, in seconds since 1970.", Schema::seconds())
            .query("limit", "How many.", Schema::count().minimum(1).maximum(HISTORY_MAX as u64).default(HISTORY_DEFAULT))
            .answers(200, AnswerDoc::shape::<History<'_>>("Oldest first.", &json!({"events": [event()], "complete_since_unix": 1_705_314_600.0})))
            .answers(404, unknown()),
        Endpoint::Series => new("observeSeries", "The last ten minutes, second by second")
            .offhand()
            .answers(200, AnswerDoc::shape::<Series>("600 values each, oldest first.", &series())),
        Endpoint::Service => new("observeService", "The service itself")
            .says("Which version runs, since when, and where it keeps its data.")
            .offhand()
            .answers(200, AnswerDoc::shape::<ObservedService<'_>>("The service.", &about())),
        Endpoint::FindPool => new("observePool", "Find a pool by its id")
            .says("The id is a credential, so it is sent in the body and stays out of URLs.")
            .body("PoolId", &json!({"id": "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"}))
            .answers(200, AnswerDoc::shape::<PoolKey>("Its name here.", &json!({"key": "pool:6c371b0f4fd9cfd51bf3e38d384c14af"})))
            .answers(404, AnswerDoc::error("There is no such pool.", "no such pool").coded(Code::NoSuchPool)),
        Endpoint::Events => new("events", "Follow what happens")
            .says(
                "Server-sent events: `hello` first, then everything as it becomes durable, with ids to resume from; `gap` when \
                 something was missed; `lagging`, the last one, for a reader that is too slow; `signed-out`, likewise, for one \
                 whose token, login or right to watch has ended.",
            )
            .offhand()
            .query("resource", "Only of this key, or of this name.", Schema::string().length(1, NAME_MAX).example("lock:deploy"))
            .query("kind", "Only of this kind.", kind())
            .query("last_event_id", "Where to go on from, for callers that cannot set the header.", id())
            .header("Last-Event-ID", "Where to go on from.", id())
            .answers(200, AnswerDoc::events("A stream that does not end by itself.", stream()))
            .answers(503, AnswerDoc::error("There are too many readers.", "the limit of 1024 readers of events is reached").coded(Code::Overloaded)),
        Endpoint::Revoke => new("revoke", "Take a grant away from its holder, or a waiter out of its queue")
            .says(
                "Whatever the dialect. The next in line has the grant in the same step. A waiter is named by its `order`; its \
                 call is answered 409 `revoked`.",
            )
            .body("Revocation", &json!({"key": "lock:deploy", "token": 7}))
            .answers(200, AnswerDoc::shape::<Revoked>("True if it was still held.", &json!({"revoked": true}))),
        Endpoint::Fence => new("fence", "Ask whether a token is the one to heed")
            .says(
                "For a resource that guards itself against late holders: heed the caller only while its token is `current`. A \
                 pool is named by its digest.",
            )
            .required_query("kind", "The kind of the resource.", kind())
            .required_query("resource", "Its name; a pool's digest.", name().example("db"))
            .required_query("token", "The token the caller came with.", token())
            .answers(200, AnswerDoc::shape::<Fence>("How the token stands.", &json!({"current": false, "latest": 8}))),
    }
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(TAG, id, summary)
}

const KEY_SAYS: &str = "`claim:NAME`, `lock:JOB` or `pool:DIGEST`, percent-encoded.";

fn unknown() -> AnswerDoc {
    AnswerDoc::error("There is no such resource.", "no such resource; a key is claim:NAME, lock:JOB or pool:DIGEST")
        .coded(Code::NoSuchResource)
}

fn key() -> Schema {
    Schema::string().pattern(KEY_PATTERN).length(1, KEY_MAX).example("lock:deploy")
}

fn kind() -> Schema {
    Schema::one_of(&Kind::ALL.map(Kind::as_str))
}

fn sort() -> Schema {
    Schema::one_of(&["name", "contended", "waiting", "wait", "expiry"]).default("name")
}

fn name() -> Schema {
    Schema::string().length(1, NAME_MAX).says(format!("1 to {NAME_MAX} bytes."))
}

fn token() -> Schema {
    Schema::token().maximum(TOKEN_MAX)
}

fn id() -> Schema {
    Schema::string().pattern(ID_PATTERN).example("1.42")
}

fn line() -> Value {
    json!({
        "key": "lock:deploy", "kind": "lock", "name": "deploy", "capacity": 1, "in_use": 1, "waiting": 1,
        "state": "contended", "longest_wait_s": 2.0, "next_expiry_s": 8.0, "next_expiry_ttl_s": 30.0, "holder": "ann",
        "label": null,
    })
}

fn about() -> Value {
    json!({
        "service": "6c371b0f4fd9cfd51bf3e38d384c14af", "version": "0.1.0", "started_unix": 1_705_314_600.0,
        "uptime_s": 86_400.0, "store": "sqlite",
    })
}

fn page() -> Value {
    let counts =
        json!({"pool": 0, "claim": 0, "lock": 1, "free": 0, "held": 0, "contended": 1, "grace": 0, "lapsed": 0});
    json!({"position": "1.42", "total": 1, "matched": 1, "counts": counts, "resources": [line()], "next": null})
}

fn resource() -> Value {
    json!({
        "position": "1.42", "key": "lock:deploy", "kind": "lock", "name": "deploy", "capacity": 1, "configured": false,
        "in_use": 1, "waiting": 1, "state": "contended", "latest_token": 7, "label": null,
        "holders": [{
            "slot": 0, "token": 7, "client": "ann", "holder": null, "owner": null, "claim": null, "since_unix": 1_705_314_600.0, "held_s": 2.0, "ttl_s": 10.0,
            "remaining_s": 8.0, "metadata": null, "state": "active", "grace_remaining_s": null,
        }],
        "queue": [{
            "place": 1, "order": 9, "client": "bob", "holder": null, "owner": null, "claim": null, "waiting_s": 2.0,
            "eta_s": null, "metadata": null,
        }],
        "truncated": false, "history_from_unix": 1_705_314_600.0,
    })
}

fn event() -> Value {
    json!({
        "id": "1.42", "at_unix": 1_705_314_600.0, "event": "granted", "key": "lock:deploy", "kind": "lock", "name": "deploy",
        "client": "ann", "holder": null, "owner": null, "label": null, "claim": null, "slot": 0, "token": 7, "waited_s": 0.0, "held_s": null, "capacity": null,
        "from": null, "ttl_s": 10.0,
    })
}

fn series() -> Value {
    json!({
        "step_s": 1, "from_unix": 1_705_314_001, "grants": [1], "waits": [0], "renewals": [0], "expiries": [0], "ended": [0],
        "wait_p50_s": [0.0], "wait_p99_s": [0.0], "holders": [1], "waiters": [0],
    })
}

/// The data of each event of the stream.
fn stream() -> impl Iterator<Item = (&'static str, Schema)> {
    let about_itself = [
        (HELLO, Schema::to::<StreamHello>()),
        (GAP, Schema::to::<StreamGap<'_>>()),
        (LAGGING, Schema::to::<StreamLagging>()),
        (SIGNED_OUT, Schema::to::<StreamSignedOut<'_>>()),
    ];
    about_itself.into_iter().chain(event_names().into_iter().map(|name| (name, Schema::to::<Event<'_>>())))
}

pub(crate) fn schemas() -> Vec<NamedSchema> {
    vec![
        Schema::shape::<StreamHello>(),
        Schema::shape::<StreamGap<'_>>(),
        Schema::shape::<StreamLagging>(),
        Schema::shape::<StreamSignedOut<'_>>(),
        Schema::shape::<ObservedResources<'_>>(),
        Schema::shape::<ObservedResource<'_>>(),
        Schema::shape::<Event<'_>>(),
        Schema::shape::<History<'_>>(),
        Schema::shape::<Series>(),
        Schema::shape::<ObservedService<'_>>(),
        ("PoolId".into(), Schema::object().member("id", Schema::uuid()).and_no_other()),
        Schema::shape::<PoolKey>(),
        (
            "Revocation".into(),
            Schema::object()
                .member("key", key())
                .maybe("token", token())
                .maybe("order", Schema::count().minimum(1).maximum(TOKEN_MAX).says("Of a waiter, as it is observed."))
                .with("oneOf", json!([{"required": ["token"]}, {"required": ["order"]}]))
                .and_no_other(),
        ),
        Schema::shape::<Revoked>(),
        Schema::shape::<Fence>(),
    ]
}
