//! Sign-on in the OpenAPI document.

use serde_json::json;

use super::login::SignedOut;
use super::routes::Endpoint;
use super::whoami::Whoami;
use crate::http::Code;
use crate::openapi::{Answer, NamedSchema, Operation, Schema, Tag};

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    let no_login = || {
        Answer::error(
            "The dashboard has no login here.",
            "there is no login here: auth.oidc.client_id is not configured",
        )
        .coded(Code::NoLogin)
    };
    let elsewhere = |says| Answer::empty(says).header("Location").header("Set-Cookie");
    match endpoint {
        Endpoint::Whoami => whoami(),
        Endpoint::Login => new("login", "Log in to the dashboard")
            .says("Sends a browser to the sign-on provider (authorization code with PKCE).")
            .offhand()
            .query("return", "The path to come back to.", Schema::string().example("/"))
            .answers(303, elsewhere("To the provider."))
            .answers(404, no_login())
            .answers(503, unreachable_provider()),
        Endpoint::Callback => new("callback", "Come back from the provider")
            .offhand()
            .query("state", "Of the login under way.", Schema::string())
            .query("code", "The value that the provider gave out.", Schema::string())
            .query("error", "Why it did not.", Schema::string())
            .answers(303, elsewhere("Logged in, and back to where the login began."))
            .answers(404, no_login())
            .answers(503, unreachable_provider()),
        Endpoint::Logout => new("logout", "Log out of the dashboard")
            .says("Only from a page of the dashboard itself.")
            .offhand()
            .answers(
                200,
                Answer::shape::<SignedOut>("The cookie is forgotten.", &json!({"signed_out": true}))
                    .header("Set-Cookie"),
            )
            .answers(404, no_login()),
    }
}

fn unreachable_provider() -> Answer {
    Answer::error("The provider is away.", "the sign-on provider cannot be reached at the moment").header("Retry-After")
}

fn whoami() -> Operation {
    let example = json!({
        "sign_on": true, "name": "ci", "source": "token", "groups": ["builders"], "actions": ["inspect", "acquire"],
        "login": false, "api_url": "http://127.0.0.1:8080"
    });
    new("whoami", "Show the caller's name and rights")
        .says("`actions` are those you have on something; a policy may limit them to some resources.")
        .offhand()
        .answers(200, Answer::shape::<Whoami<'_>>("You.", &example))
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::Service, id, summary)
}

pub(super) fn schemas() -> Vec<NamedSchema> {
    vec![Schema::shape::<Whoami<'_>>(), Schema::shape::<SignedOut>()]
}
