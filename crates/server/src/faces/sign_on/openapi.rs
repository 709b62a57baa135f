//! Sign-on in the OpenAPI document.

use serde_json::json;

use super::by_token::LoggedIn;
use super::login::SignedOut;
use super::routes::Endpoint;
use super::whoami::Whoami;
use crate::code::Code;
use crate::faces::page;
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    let no_login = || {
        AnswerDoc::error(
            "The dashboard has no login here.",
            "there is no login here: auth.oidc.client_id is not configured",
        )
        .coded(Code::NoLogin)
    };
    let elsewhere = |says| AnswerDoc::empty(says).header("Location").header("Set-Cookie");
    match endpoint {
        Endpoint::Whoami => whoami(),
        Endpoint::Login => new("login", "Log in to the dashboard")
            .says("Sends a browser to the sign-on provider (authorization code with PKCE).")
            .offhand()
            .query("return", "The path to come back to.", Schema::string().example("/"))
            .answers(303, elsewhere("To the provider."))
            .answers(404, no_login())
            .answers(503, unreachable_provider()),
        Endpoint::TokenLogin => new("tokenLogin", "Log in to the dashboard with a token")
            .says(
                "Only from a page of the service itself: a browser that is not let in gets one. The answer's cookie is good \
                 for eight hours, and no longer than the token.",
            )
            .offhand()
            .body("TokenLogin", &json!({"token": "lh_0123456789abcdef"}))
            .answers(
                200,
                AnswerDoc::shape::<LoggedIn<'_>>("Logged in.", &json!({"name": "olga"})).header("Set-Cookie"),
            )
            .answers(
                404,
                AnswerDoc::error(
                    "No API token is configured.",
                    "there is no login with a token here: no [[auth.token]] is configured",
                )
                .coded(Code::NoLogin),
            ),
        Endpoint::Asset => page::file("loginFile", "A file of the page for people who are not let in"),
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
                AnswerDoc::shape::<SignedOut>("The cookie is forgotten.", &json!({"signed_out": true}))
                    .header("Set-Cookie"),
            )
            .answers(404, no_login()),
    }
}

fn unreachable_provider() -> AnswerDoc {
    AnswerDoc::error("The provider is away.", "the sign-on provider cannot be reached at the moment")
        .header("Retry-After")
}

fn whoami() -> Operation {
    let example = json!({
        "sign_on": true, "name": "ci", "source": "token", "groups": ["builders"], "actions": ["inspect", "acquire"],
        "login": false, "token_login": true, "api_url": "http://127.0.0.1:8080"
    });
    new("whoami", "Show the caller's name and rights")
        .says("`actions` are those you have on something; a policy may limit them to some resources.")
        .offhand()
        .answers(200, AnswerDoc::shape::<Whoami<'_>>("You.", &example))
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::SERVICE, id, summary)
}

pub(super) fn schemas() -> Vec<NamedSchema> {
    let token = Schema::string().says("An API token (`leasehold token new`).");
    vec![
        Schema::shape::<Whoami<'_>>(),
        ("TokenLogin".into(), Schema::object().member("token", token).and_no_other()),
        Schema::shape::<LoggedIn<'_>>(),
        Schema::shape::<SignedOut>(),
    ]
}
