//! The kind of an error, in one word for programs: all that the service has, those of HTTP itself among them. The
//! sentence beside it is for people and may change; the word stays.

use std::borrow::Cow;

use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::http::ErrorCode;

macro_rules! codes {
    ($($code:ident $name:literal $says:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $says] $code),+
        }

        impl Code {
            /// Every one, in the order of the contract.
            pub const ALL: &[Code] = &[$(Code::$code),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$code => $name),+ }
            }

            /// Its meaning, in a sentence.
            pub fn says(self) -> &'static str {
                match self { $(Code::$code => $says),+ }
            }
        }
    };
}

codes! {
    BadRequest "bad_request" "The call makes no sense as it is; the sentence names the field.",
    LogIn "log_in" "A browser is sent to log in first.",
    Unauthenticated "unauthenticated" "The caller has not signed on, or with something that is wrong.",
    Forbidden "forbidden" "The caller may not do that.",
    ForeignClient "foreign_client" "The lock's `client` is not the caller's own name.",
    NotTheHolder "not_the_holder" "The client does not hold the lock.",
    NoSuchPath "no_such_path" "Nothing is served there.",
    NoSuchPool "no_such_pool" "The pool was never registered, or was deleted.",
    NoSuchLease "no_such_lease" "The lease is not held.",
    NoSuchClaim "no_such_claim" "The claim never was, or ended long ago.",
    NoSuchResource "no_such_resource" "The resource is not held, waited for or configured.",
    NoSuchSlot "no_such_slot" "The resource has no slot of this number.",
    NoLogin "no_login" "The service has no login for browsers.",
    WrongMethod "wrong_method" "Another method works here.",
    BodyLate "body_late" "The body did not arrive in time.",
    NoneFree "none_free" "No slot became free in time.",
    SlotHeld "slot_held" "A slot that is held keeps its name and its place.",
    SlotsNamed "slots_named" "The slots have names, and the capacity is their number.",
    NotHeld "not_held" "The lease is no longer held.",
    Locked "locked" "Another client holds the lock.",
    Grace "grace" "The lock has expired, and only its last holder may come back.",
    Waiting "waiting" "The claim waits, so this cannot be done yet.",
    Revoked "revoked" "An operator took the caller out of the queue.",
    Ended "ended" "The claim has ended, so nothing of it changes any more.",
    ListExpired "list_expired" "The order that a page was to be cut from is not kept any more.",
    KeySpent "key_spent" "The lease or claim of this Idempotency-Key has ended.",
    BodyTooLarge "body_too_large" "The body is too large.",
    UriTooLong "uri_too_long" "The URI is too long.",
    BodyEncoded "body_encoded" "The body is encoded.",
    WrongHost "wrong_host" "The service does not answer to this host name.",
    KeyReused "key_reused" "This Idempotency-Key was used with another body.",
    TooManyRequests "too_many_requests" "The caller sends more than it may.",
    OverQuota "over_quota" "The caller has as many claims as it may.",
    HeadersTooLarge "headers_too_large" "The headers are too long.",
    StoreLate "store_late" "The store did not confirm the write in time; nothing was promised.",
    StoreFull "store_full" "The store is nearly full, and nothing new is taken on.",
    Overloaded "overloaded" "A limit of the service is reached.",
    ShuttingDown "shutting_down" "The service is about to end.",
    Unavailable "unavailable" "The service cannot do this now.",
}

impl Code {
    /// The usual meaning of a status. Where a status has several, the error says which.
    pub(crate) fn of(status: StatusCode) -> Code {
        match status.as_u16() {
            303 => Code::LogIn,
            410 => Code::KeySpent,
            422 => Code::KeyReused,
            502 => Code::StoreLate,
            _ => {
                let usual = ErrorCode::of(status);
                let found = Code::ALL.iter().find(|code| ErrorCode::from(**code) == usual);
                *found.expect("a code of HTTP is one of ours, a test sees to it")
            }
        }
    }
}

impl From<Code> for ErrorCode {
    fn from(code: Code) -> Self {
        ErrorCode::new(code.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl JsonSchema for Code {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        let meanings: Vec<String> =
            Code::ALL.iter().map(|code| format!("`{}`: {}", code.as_str(), code.says())).collect();
        let says = format!("The error, for programs. {}", meanings.join(" "));
        json_schema!({"type": "string", "enum": names, "description": says})
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_code_is_a_word_of_its_own() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
    }

    #[test]
    fn the_codes_of_http_are_among_ours() {
        let ours: Vec<ErrorCode> = Code::ALL.iter().map(|code| (*code).into()).collect();
        for code in ErrorCode::ALL {
            assert!(ours.contains(code), "{code:?}");
        }
    }
}
