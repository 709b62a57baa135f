//! A line in the log for everything that needed more than ordinary rights: who, what, on what, and how it went.

use leasehold_auth::{Action, Identity, Target};

use crate::http::RequestId;

/// What the lines of the log are filtered by.
const TARGET: &str = "leasehold::audit";

/// A privileged action under way. Said once it is over.
#[derive(Debug)]
pub(crate) struct Audit {
    who: String,
    source: &'static str,
    action: Action,
    on: String,
    request: RequestId,
}

impl Audit {
    /// `None` for what everybody does all day.
    pub(super) fn of(identity: &Identity, action: Action, target: Target<'_>, id: &RequestId) -> Option<Box<Audit>> {
        is_privileged(action).then(|| Box::new(Audit::new(identity, action, target, id)))
    }

    /// Somebody tried.
    pub(super) fn refused(identity: &Identity, action: Action, target: Target<'_>, id: &RequestId) {
        if let Some(audit) = Audit::of(identity, action, target, id) {
            audit.say("denied");
        }
    }

    fn new(identity: &Identity, action: Action, target: Target<'_>, id: &RequestId) -> Self {
        Audit {
            who: identity.name().map_or("anonymous", |name| name).to_owned(),
            source: identity.principal().map_or("none", |principal| principal.source.as_str()),
            action,
            // A pool is called "a pool" here: its id is a credential.
            on: target.to_string(),
            request: id.clone(),
        }
    }

    /// How it went, by the status of the answer.
    pub(crate) fn answered(&self, status: u16) {
        self.say(match status {
            200..=299 => "done",
            _ => "failed",
        });
    }

    fn say(&self, outcome: &str) {
        let Audit { who, source, action, on, request } = self;
        let (action, request) = (action.as_str(), request.as_str());
        tracing::info!(target: TARGET, who, source, action, on, outcome, request, "audit");
    }
}

/// Somebody logged in to the dashboard.
pub(super) fn logged_in(who: &str, id: &RequestId) {
    let request = id.as_str();
    tracing::info!(target: TARGET, who, source = "oidc", action = "login", on = "the dashboard", outcome = "done", request, "audit");
}

/// Somebody logged out, and all of their sessions ended.
pub(super) fn logged_out(who: &str, id: &RequestId) {
    let request = id.as_str();
    tracing::info!(target: TARGET, who, source = "session", action = "logout", on = "the dashboard", outcome = "done", request, "audit");
}

/// The sign-on settings were read again.
pub fn reloaded(outcome: &str) {
    tracing::info!(target: TARGET, who = "the operator", source = "signal", action = "reload", on = "sign-on", outcome, "audit");
}

fn is_privileged(action: Action) -> bool {
    match action {
        Action::RevokeAny | Action::Configure | Action::Admin => true,
        Action::Inspect | Action::Acquire | Action::UpdateOwn | Action::Observe => false,
    }
}
