//! The lock for the OpenAPI document: what each call takes and answers. It describes what `routes`, `wire` and
//! `refusal` do.

use leasehold_engine::limits::TOKEN_MAX;
use serde_json::{Value, json};

use super::routes::{DEFAULT_JOB, Endpoint};
use super::wire::{LockHeld, LockReleased, LockSeen, LockState, LockTaken, NotTheHolder};
use crate::duration::format_us;
use crate::faces::ended::{EndedError, key_spent};
use crate::faces::fittings::Resumed;
use crate::faces::header::document_key;
use crate::faces::proving::{AUDIENCE_SAYS, audience_schema, proof_answer};
use crate::limits::{KEEP_MAX_US, NAME_MAX};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};
use crate::settings::Settings;

const TAG: Tag = Tag {
    name: "Lock",
    description: "One holder, who keeps the lock by renewing and gets a grace period to come back in. Everything \
                  is in the query, so that a line of curl is enough.",
};

pub(crate) fn operation(action: Endpoint, settings: &Settings) -> Operation {
    match action {
        Endpoint::Acquire => document_key(new("acquireLock", "Take the lock, or keep it"))
            .says(format!(
                "Taking it again is renewing, and is the last holder's right until another client has it. After it expired, only \
                 the last holder may come back for {}. With `wait`, stands in line that long before the 409.",
                format_us(settings.grace_us)
            ))
            .required_query("client", "The name of the caller's run.", name().example("laptop-a"))
            .query(
                "ttl",
                "How long, as a Go duration: `30s`, `1m30s`, `500ms`.",
                Schema::string().pattern(&format!("^(?=.*[1-9]){DURATION}$")).default(format_us(settings.default_ttl_us)).example("30s"),
            )
            .query(
                "wait",
                "How long to stand in line, as a duration or a number of seconds.",
                Schema::seconds().or_duration(),
            )
            .query(
                "keep",
                "How long the place in line outlives the last call that waits there, as a duration or a number of \
                 seconds, at most 300.",
                Schema::seconds().maximum(KEEP_MAX_US / 1_000_000).or_duration(),
            )
            .query("renew", "`no`: refused also when this client holds it.", Schema::one_of(&["yes", "no"]).default("yes"))
            .query("token", "Renew the grant of this token, and take no other.", token())
            .answers(200, AnswerDoc::shape::<LockTaken<'_>>("It is yours.", &taken()))
            .answers(
                409,
                AnswerDoc::json(
                    "It is another's, or in its grace, and `Retry-After` says for how long; or not held under the token that was given.",
                    Schema::either([Schema::to::<LockHeld<'_>>(), Schema::to::<EndedError<'_>>()]),
                    &held(),
                ),
            )
            .answers(410, key_spent("The lease of that key has ended.", "the lock of this Idempotency-Key has ended"))
            .answers(
                422,
                AnswerDoc::error(
                    "That key was used for something else.",
                    "this Idempotency-Key was used with another client or ttl on this lock",
                ),
            ),
        Endpoint::Release => document_key(new("releaseLock", "Let go of the lock, or leave its queue"))
            .says(
                "A client that waits leaves the queue. With `token`, only that grant is let go. With the `Idempotency-Key` of an \
                 acquisition, what it got is let go and the key is spent: a copy that arrives later gets 410.",
            )
            .query("token", "Only the grant of this token.", token())
            .required_query("client", "The name of the caller's run.", name().example("laptop-a"))
            .answers(
                200,
                AnswerDoc::shape::<LockReleased<'_>>("It is free, or the next in line has it.", &json!({"message": "lock released", "success": true, "job": "default"}),
                ),
            )
            .answers(
                403,
                AnswerDoc::shape::<NotTheHolder<'_>>("It was not this client's to release.", &json!({
                        "error": "client does not hold the lock", "code": "not_the_holder", "success": false, "job": "default",
                    }),
                ),
            ),
        Endpoint::Prove => new("proveLock", "Prove that the lock is held")
            .says(
                "A JWT for a guard that cannot ask, signed with a key of `/.well-known/leasehold/jwks.json`. It ends no later \
                 than the lease, and after 5 minutes at the latest; it cannot know of a release before that.",
            )
            .required_query("client", "The name of the caller's run.", name().example("laptop-a"))
            .required_query("aud", AUDIENCE_SAYS, audience_schema())
            .query("token", "Only the grant of this token.", token())
            .answers(200, proof_answer())
            .answers(
                403,
                AnswerDoc::shape::<NotTheHolder<'_>>("This client does not hold it now.", &json!({
                        "error": "client does not hold the lock", "code": "not_the_holder", "success": false, "job": "default",
                    }),
                ),
            )
            .answers(
                409,
                AnswerDoc::shape::<EndedError<'_>>("It is held, but under another token.", &json!({
                        "error": "the lock is not held under this token", "code": "not_held",
                    }),
                ),
            ),
        Endpoint::Show => new("showLock", "See who holds the lock")
            .says("The last holder stays visible after the lock expired, until another client takes it or it is released.")
            .query("client", "Whose place in line to show.", Schema::string())
            .query(
                "wait",
                "Look out for a change for so long, as a duration or a number of seconds: the answer comes as soon as the \
                 holder or the state differ, or then with the lock as it is.",
                Schema::seconds().or_duration(),
            )
            .query(
                "after",
                "With `wait`: the `token` that the caller saw last, 0 for a lock without one. A lock that is not held \
                 under it is shown at once. Without it, a change is one of what the call finds.",
                Schema::count().maximum(TOKEN_MAX),
            )
            .query(
                "while",
                "With `after`: the `message` that the caller saw last, to wait on in a grace or after it.",
                Schema::one_of(&LockState::ALL.map(LockState::as_str)).default(LockState::Held.as_str()),
            )
            .answers(200, AnswerDoc::shape::<LockSeen<'_>>("The lock.", &seen())),
        Endpoint::Pause => new("pauseLock", "Grant the lock to no other client for a while")
            .says(
                "No client gets it until it is resumed, or `for` seconds of service time have passed. Its holder renews and releases \
                 it as ever, and its queue stays.",
            )
            .body("PauseRequest", &json!({"reason": "freeze", "for": 600}))
            .answers(200, AnswerDoc::shape::<LockSeen<'_>>("The lock.", &seen())),
        Endpoint::Resume => new("resumeLock", "Grant the lock again")
            .answers(200, AnswerDoc::shape::<Resumed>("`resumed` is true if it was paused.", &json!({"resumed": true}))),
    }
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    let says = "Which lock. Locks of different jobs are independent.";
    Operation::new(TAG, id, summary).query("job", says, name().default(DEFAULT_JOB))
}

fn token() -> Schema {
    Schema::token().maximum(TOKEN_MAX)
}

fn name() -> Schema {
    Schema::string().length(1, NAME_MAX).says(format!("1 to {NAME_MAX} bytes."))
}

/// Durations as people write them. Go knows more: signs, `ns`, `µs`, more digits.
const DURATION: &str = r"([0-9]{1,6}us|[0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h)){1,2}";

fn taken() -> Value {
    json!({
        "holder": "laptop-a", "expires_at": "2024-01-15T10:30:30Z", "grace_until": "2024-01-15T10:30:35Z", "success": true,
        "job": "default", "message": "acquired", "token": 7, "expires_in": 30, "renew_after": 10, "clamped": false,
        "waited_s": 0,
    })
}

fn seen() -> Value {
    json!({
        "holder": "laptop-a", "expires_at": "2024-01-15T10:30:30Z", "is_expired": false,
        "grace_until": "2024-01-15T10:30:35Z", "success": true, "job": "default", "message": "held", "token": 7,
        "expires_in": 30, "renew_after": 10,
    })
}

fn held() -> Value {
    json!({
        "error": "lock held by another client", "code": "locked", "holder": "laptop-a", "expires_at": "2024-01-15T10:30:30Z",
        "grace_until": "2024-01-15T10:30:35Z", "success": false, "job": "default", "message": "lock held by another client", "eta_s": null,
    })
}

pub(crate) fn schemas() -> Vec<NamedSchema> {
    vec![
        Schema::shape::<LockTaken<'_>>(),
        Schema::shape::<LockHeld<'_>>(),
        Schema::shape::<LockReleased<'_>>(),
        Schema::shape::<NotTheHolder<'_>>(),
        Schema::shape::<LockSeen<'_>>(),
    ]
}
