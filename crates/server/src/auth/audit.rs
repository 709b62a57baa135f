//! A log line for every action that needed more than ordinary rights: the caller, the action, the resource, and the
//! outcome.

use leasehold_auth::{Action, Identity, Target};

use crate::http::RequestId;

/// The target of these lines, for filters of the log.
const TARGET: &str = "leasehold::audit";

/// A privileged action under way. Logged once it is over.
#[derive(Debug)]
pub(crate) struct Audit {
    who: String,
    source: &'static str,
    action: Action,
    on: String,
    request: RequestId,
}

impl Audit {
    /// `None` for an ordinary action.
    pub(super) fn of(identity: &Identity, action: Action, target: Target<'_>, id: &RequestId) -> Option<Box<Audit>> {
        is_privileged(action).then(|| Box::new(Audit::new(identity, action, target, id)))
    }

    /// A caller tried.
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

    /// The outcome, by the status of the answer.
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

/// A user logged in to the dashboard.
pub(crate) fn logged_in(who: &str, source: &str, id: &RequestId) {
    let request = id.as_str();
    tracing::info!(target: TARGET, who, source, action = "login", on = "the dashboard", outcome = "done", request, "audit");
}

/// A user logged out, and all sessions of the name ended.
pub(crate) fn logged_out(who: &str, id: &RequestId) {
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
