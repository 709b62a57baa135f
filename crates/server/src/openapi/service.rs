//! Operations that belong to no dialect: health, metrics, this document, and pages for people.

use serde_json::{Value, json};

use super::{Answer, Operation, Schema, Tag};
use crate::faces::{dashboard, docs, sign_on};
use crate::http::Code;
use crate::metrics::{CLASSIC_TYPE, OPENMETRICS_TYPE};

pub(super) fn health() -> Operation {
    new("health", "Show that the process lives")
        .offhand()
        .answers(200, Answer::json("It does.", Schema::named("Health"), &json!({"status": "ok"})))
}

pub(super) fn readiness() -> Operation {
    new("readiness", "Show that it can commit")
        .says("Makes the smallest of changes durable, and answers once it is.")
        .answers(200, Answer::json("It can.", Schema::named("Readiness"), &json!({"status": "ready"})))
}

pub(super) fn metrics() -> Operation {
    let answer = Answer::text("Every metric there is.", OPENMETRICS_TYPE).or_text(CLASSIC_TYPE);
    new("metrics", "Metrics for Prometheus")
        .says("OpenMetrics when `Accept` asks for it, else the older text format.")
        .offhand()
        .answers(200, answer)
}

pub(super) fn sign_on(action: sign_on::Action) -> Operation {
    let no_login = || {
        Answer::error(
            "The dashboard has no login here.",
            "there is no login here: auth.oidc.client_id is not configured",
        )
        .coded(Code::NoLogin)
    };
    let elsewhere = |says| Answer::empty(says).header("Location").header("Set-Cookie");
    match action {
        sign_on::Action::Whoami => whoami(),
        sign_on::Action::Login => new("login", "Log in to the dashboard")
            .says("Sends a browser to the sign-on provider (authorization code with PKCE).")
            .offhand()
            .query("return", "The path to come back to.", Schema::string().example("/"))
            .answers(303, elsewhere("To the provider."))
            .answers(404, no_login())
            .answers(503, unreachable_provider()),
        sign_on::Action::Callback => new("callback", "Come back from the provider")
            .offhand()
            .query("state", "Of the login under way.", Schema::string())
            .query("code", "The value that the provider gave out.", Schema::string())
            .query("error", "Why it did not.", Schema::string())
            .answers(303, elsewhere("Logged in, and back to where the login began."))
            .answers(404, no_login())
            .answers(503, unreachable_provider()),
        sign_on::Action::Logout => new("logout", "Log out of the dashboard")
            .says("Only from a page of the dashboard itself.")
            .offhand()
            .answers(
                200,
                Answer::json("The cookie is forgotten.", Schema::named("SignedOut"), &json!({"signed_out": true}))
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
        .answers(200, Answer::json("You.", Schema::named("Whoami"), &example))
}

pub(super) fn dashboard(action: dashboard::Action) -> Operation {
    match action {
        dashboard::Action::Page => page("dashboard", "The dashboard"),
        dashboard::Action::Asset => file("dashboardFile", "A file of the dashboard"),
    }
}

pub(super) fn docs(action: docs::Action) -> Operation {
    match action {
        docs::Action::Document => new("openapi", "This document")
            .says("The endpoints of this listener, under its settings.")
            .offhand()
            .answers(200, Answer::json("OpenAPI 3.1.", Schema::object(), &json!({"openapi": "3.1.0"})).header("ETag"))
            .answers(304, kept()),
        docs::Action::Page => page("docs", "The page about the API"),
        docs::Action::Asset => file("docsFile", "A file of that page"),
    }
}

fn page(id: &'static str, summary: &'static str) -> Operation {
    new(id, summary)
        .offhand()
        .answers(200, found("A page for people.", "text/html; charset=utf-8"))
        .answers(304, kept())
}

fn file(id: &'static str, summary: &'static str) -> Operation {
    new(id, summary)
        .offhand()
        .path("file", "Its name.", Schema::string().example("index.html"))
        .answers(200, found("The file.", "*/*"))
        .answers(304, kept())
        .answers(404, Answer::error("There is no such file.", "no such path"))
}

fn found(says: &'static str, content_type: &str) -> Answer {
    Answer::text(says, content_type).header("ETag").header("Cache-Control").header("Content-Security-Policy")
}

fn kept() -> Answer {
    Answer::empty("The caller has it already (`If-None-Match`).").header("ETag").header("Cache-Control")
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::Service, id, summary)
}

pub(super) fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        (
            "Whoami",
            Schema::object()
                .member(
                    "sign_on",
                    Schema::boolean().says("True if callers sign on at all. If not, every caller may do everything."),
                )
                .maybe("name", Schema::either([Schema::string(), Schema::constant(Value::Null)]))
                .maybe("source", Schema::either([Schema::string(), Schema::constant(Value::Null)]))
                .maybe("groups", Schema::array(Schema::string()))
                .maybe("actions", Schema::array(Schema::string()))
                .maybe("login", Schema::boolean().says("True if the dashboard has a login of its own."))
                .member(
                    "api_url",
                    Schema::string().says(
                        "The beginning of the addresses of calls; not this address where operators have their own.",
                    ),
                ),
        ),
        ("SignedOut", Schema::object().member("signed_out", Schema::constant(true))),
        ("Health", Schema::object().member("status", Schema::constant("ok"))),
        ("Readiness", Schema::object().member("status", Schema::constant("ready"))),
    ]
}
