//! Locks as JSON: the shapes of answers, from which their bytes and their schemas come.

use std::borrow::Cow;
use std::sync::Arc;

use leasehold_engine::{LockHolder, LockNews, LockView, Moment, PlaceView, Reply, Time};
use schemars::JsonSchema;
use serde::Serialize;

use crate::code::Code;
use crate::faces::fittings::Paused;
use crate::faces::terms::{Rest, Terms};
use crate::http::json::to_bytes;
use crate::http::json::value::{FencingToken, Fixed, FloatSeconds, May, Rfc3339};

const ERRORS: [&str; 3] = ["lock held by another client", "grace period active", "the lock is paused"];

/// The parts of the call that the answer needs.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) job: Arc<str>,
    /// It asked for more time than it may have.
    pub(super) clamped: bool,
}

/// The holder and its time.
#[derive(Debug, Serialize, JsonSchema)]
struct Held<'a> {
    holder: &'a str,
    /// When it expires, no later than it really does.
    expires_at: Rfc3339,
    /// Until then only the last holder may come back.
    grace_until: Rfc3339,
}

impl<'a> Held<'a> {
    fn of(holder: &'a LockHolder, now: Moment) -> Self {
        Held { holder: &holder.client, expires_at: expires_at(holder, now), grace_until: grace_until(holder, now) }
    }
}

/// The lock was taken or renewed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LockTaken<'a> {
    #[serde(flatten)]
    held: Held<'a>,
    success: Fixed<true>,
    job: &'a str,
    /// `acquired`, `acquired from <previous>` or `renewed`.
    message: Cow<'static, str>,
    token: FencingToken,
    #[serde(flatten)]
    terms: Terms,
}

/// The lock as it is. Of one that no client has had there is little to say.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LockSeen<'a> {
    /// Empty when no client has had it.
    holder: &'a str,
    /// When it expires, no later than it really does.
    #[serde(skip_serializing_if = "May::is_missing")]
    expires_at: May<Rfc3339>,
    /// True when no client holds it now.
    is_expired: bool,
    /// Until then only the last holder may come back.
    #[serde(skip_serializing_if = "May::is_missing")]
    grace_until: May<Rfc3339>,
    #[serde(skip_serializing_if = "May::is_missing")]
    success: May<Fixed<true>>,
    job: &'a str,
    #[serde(skip_serializing_if = "May::is_missing")]
    #[schemars(extend("enum" = LockState::ALL.map(LockState::as_str)))]
    message: May<&'static str>,
    #[serde(skip_serializing_if = "May::is_missing")]
    token: May<FencingToken>,
    #[serde(flatten)]
    rest: Option<Rest>,
    /// Clients in line, where one is asked for.
    #[serde(skip_serializing_if = "May::is_missing")]
    waiting: May<u32>,
    /// Its place; 1 is next, null when it does not wait.
    #[serde(skip_serializing_if = "May::is_missing")]
    #[schemars(range(min = 1))]
    queue_position: May<Option<u32>>,
    /// While it waits: seconds until it may expect the lock. An estimate, not a promise; null while too few clients
    /// have let go of it to tell.
    #[serde(skip_serializing_if = "May::is_missing")]
    eta_s: May<Option<FloatSeconds>>,
    /// While it is not granted, held or not.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
}

/// The lock is another's, in its grace, or paused.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LockHeld<'a> {
    #[schemars(extend("enum" = ERRORS))]
    error: &'static str,
    #[schemars(extend("enum" = [Code::Locked.as_str(), Code::Grace.as_str()]))]
    code: &'static str,
    /// Missing only where the lock became free just as the wait for it ended, or is paused and no client has had it.
    #[serde(flatten)]
    held: Option<Held<'a>>,
    success: Fixed<false>,
    job: &'a str,
    #[schemars(extend("enum" = ERRORS))]
    message: &'static str,
    /// Seconds until a client that waits from now on may expect the lock. An estimate, not a promise; null while too
    /// few clients have let go of it to tell.
    eta_s: Option<FloatSeconds>,
    /// While it is not granted, held or not.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
}

/// The lock was let go, or a place in its queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LockReleased<'a> {
    #[schemars(extend("enum" = ["lock released", "wait withdrawn"]))]
    message: &'static str,
    success: Fixed<true>,
    job: &'a str,
}

pub(super) fn released(job: &str, message: &'static str) -> Vec<u8> {
    to_bytes(&LockReleased { message, success: Fixed, job })
}

/// The lock was not this client's to release.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NotTheHolder<'a> {
    #[schemars(extend("const" = "client does not hold the lock"))]
    error: &'static str,
    #[schemars(extend("const" = Code::NotTheHolder.as_str()))]
    code: &'static str,
    success: Fixed<false>,
    job: &'a str,
}

impl<'a> NotTheHolder<'a> {
    pub(super) fn of(job: &'a str) -> Self {
        NotTheHolder { error: "client does not hold the lock", code: Code::NotTheHolder.as_str(), success: Fixed, job }
    }
}

impl<'a> LockSeen<'a> {
    fn of(view: &'a LockView) -> Self {
        let paused = May(view.pause.as_deref().map(Paused::of));
        let Some(holder) = &view.holder else { return LockSeen { paused, ..LockSeen::unheld(&view.job) } };
        LockSeen {
            holder: &holder.client,
            expires_at: May(Some(expires_at(holder, view.now))),
            is_expired: holder.deadline <= view.now.at,
            grace_until: May(Some(grace_until(holder, view.now))),
            success: May(Some(Fixed)),
            message: May(Some(LockState::of(holder, view.now).as_str())),
            token: May(Some(FencingToken(holder.token.0))),
            rest: Some(Rest::of(holder.deadline.since(view.now.at))),
            paused,
            ..LockSeen::unheld(&view.job)
        }
    }

    /// A lock that no client has had: the two members that the published design has, and the job that its suite asks
    /// for.
    fn unheld(job: &'a str) -> Self {
        LockSeen {
            holder: "",
            expires_at: May(None),
            is_expired: true,
            grace_until: May(None),
            success: May(None),
            job,
            message: May(None),
            token: May(None),
            rest: None,
            waiting: May(None),
            queue_position: May(None),
            eta_s: May(None),
            paused: May(None),
        }
    }
}

impl<'a> LockHeld<'a> {
    pub(super) fn of(lock: &'a LockView, in_grace: bool, eta_us: Option<u64>) -> Self {
        let [held, grace, paused] = ERRORS;
        let is_open = is_open(lock);
        let (error, code) = match lock.pause {
            Some(_) if is_open => (paused, Code::Locked),
            _ if in_grace => (grace, Code::Grace),
            _ => (held, Code::Locked),
        };
        LockHeld {
            error,
            code: code.as_str(),
            held: lock.holder.as_ref().map(|holder| Held::of(holder, lock.now)),
            success: Fixed,
            job: &lock.job,
            message: error,
            eta_s: eta_us.map(FloatSeconds),
            paused: May(lock.pause.as_deref().map(Paused::of)),
        }
    }
}

/// Any client could take it, if it were not paused.
pub(super) fn is_open(lock: &LockView) -> bool {
    lock.holder.as_ref().is_none_or(|holder| holder.grace_until <= lock.now.at)
}

pub(super) fn lock(view: &LockView, news: &LockNews, asked_at: Time, clamped: bool) -> Vec<u8> {
    let (Some(holder), Some(message)) = (&view.holder, message(news)) else { return to_bytes(&LockSeen::of(view)) };
    to_bytes(&LockTaken {
        held: Held::of(holder, view.now),
        success: Fixed,
        job: &view.job,
        message,
        token: FencingToken(holder.token.0),
        terms: Terms::new(asked_at, view.now.at, holder.deadline, clamped),
    })
}

fn message(news: &LockNews) -> Option<Cow<'static, str>> {
    match news {
        LockNews::Seen => None,
        LockNews::Renewed => Some("renewed".into()),
        LockNews::Acquired { from: None } => Some("acquired".into()),
        LockNews::Acquired { from: Some(previous) } => Some(format!("acquired from {previous}").into()),
    }
}

/// A lock as one of its clients sees it.
pub(super) fn place(view: &PlaceView) -> Vec<u8> {
    let Reply::Lock(lock, _) = &view.seen else { unreachable!("a place in a lock's queue is shown with the lock") };
    let mut seen = LockSeen::of(lock);
    if lock.holder.is_some() {
        seen.waiting = May(Some(view.waiting));
        seen.queue_position = May(Some(view.queue_position));
        seen.eta_s = May(view.queue_position.map(|_| view.eta_us.map(FloatSeconds)));
    }
    to_bytes(&seen)
}

fn expires_at(holder: &LockHolder, now: Moment) -> Rfc3339 {
    Rfc3339::to_ms(now.wall_at(holder.deadline).0)
}

fn grace_until(holder: &LockHolder, now: Moment) -> Rfc3339 {
    Rfc3339::to_ms(now.wall_at(holder.grace_until).0)
}

/// A lock that a client has, or had last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    Held,
    Grace,
    Expired,
}

impl LockState {
    pub(super) const ALL: [LockState; 3] = [LockState::Held, LockState::Grace, LockState::Expired];

    pub(super) fn of(holder: &LockHolder, now: Moment) -> Self {
        if now.at < holder.deadline {
            LockState::Held
        } else if now.at < holder.grace_until {
            LockState::Grace
        } else {
            LockState::Expired
        }
    }

    /// The message of a lock that is only looked at.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            LockState::Held => "held",
            LockState::Grace => "in grace",
            LockState::Expired => "expired",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        LockState::ALL.into_iter().find(|state| state.as_str() == text)
    }
}
