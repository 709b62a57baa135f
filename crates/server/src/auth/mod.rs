//! Sign-on, as the server sees it: the caller of a request, the action it needs, and the words of a refusal. Without
//! `[auth]` in the configuration nothing of this happens.
//!
//! ```text
//! head ─ admit ─▶ Caller ─ (body, dialect) ─▶ Asked ─ need ─▶ authorize ─▶ the command, with its owner
//!          │ 401, 429, 503                                       │ 401, 403, 404
//! ```
//!
//! `leasehold-auth` identifies callers and applies the policy; the engine knows the holders.

pub(crate) mod audit;
mod authorize;
mod caller;
mod change;
mod flows;
mod need;
mod origin;
mod standing;
mod words;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use http::request::Parts;
use leasehold_auth::login::by_token::TokenSession;
use leasehold_auth::sign_on::Looked;
use leasehold_auth::{ClientCert, Evidence, Identity, Now, Refused, SignOn, Source};

pub(crate) use audit::Audit;
pub use audit::reloaded;
pub(crate) use authorize::{authorize, check_client, sign_command, sign_key};
pub(crate) use caller::Caller;
pub(crate) use change::{AskedChange, Audited, On, change_by};
pub(crate) use need::{Guarded, Need, need_of, public_target};
pub(crate) use origin::{cross_site, is_same_origin};
pub(crate) use standing::Standing;
pub(crate) use words::no_such_claim;

use crate::http::{Peer, Problem, boxed_pin};
use crate::links;
use crate::metrics::SignIns;
use crate::settings::Settings;

/// Says whether the callers of an endpoint are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// No: it is about the health of the process, documents the API, or is a step of signing on.
    Open,
    /// They are counted, but the id in the path is credential enough unless `pools_require_sign_on`.
    ById,
    Named,
}

/// The sign-on in force. It can be replaced while requests are under way; each goes by the one it came in with.
#[derive(Debug, Default)]
pub struct Guard {
    current: ArcSwapOption<SignOn>,
    flows: flows::Flows,
}

impl Guard {
    /// Every caller may do everything.
    pub fn open() -> Self {
        Guard::default()
    }

    pub fn new(sign_on: SignOn) -> Self {
        Guard { current: ArcSwapOption::from_pointee(sign_on), flows: flows::Flows::default() }
    }

    /// The sign-on in force.
    pub fn current(&self) -> Option<Arc<SignOn>> {
        self.current.load_full()
    }

    /// From the next request on.
    pub fn replace(&self, sign_on: Option<SignOn>) {
        self.current.store(sign_on.map(Arc::new));
    }

    /// A step of a login: 429 for an address that takes too many.
    pub(crate) fn count_step(&self, client: IpAddr, now: Now) -> Result<(), Problem> {
        self.flows.step(client, now)
    }

    /// Returns whether the login of this name is finished for the first time.
    pub(crate) fn is_first_finish(&self, name: &str, now: Now) -> bool {
        self.flows.is_first(name, now)
    }

    /// Begins the session of a person who typed an API token.
    pub(crate) fn begin_session(
        sign_on: &SignOn,
        token: &str,
        headers: &HeaderMap,
        from: From<'_>,
        settings: &Settings,
        now: Now,
        counted: &SignIns,
    ) -> Result<TokenSession, Problem> {
        let begun = sign_on.begin_session(token, &from.evidence(headers, settings.is_encrypted(), now));
        begun.map_err(|refused| {
            counted.refused(source_of(&refused), false);
            words::refused(&refused)
        })
    }

    /// Identifies the caller. `None` where the endpoint needs no identity.
    pub(crate) async fn admit(
        &self,
        admission: Admission,
        parts: &Parts,
        from: From<'_>,
        settings: &Settings,
        now: impl Fn() -> Now,
        counted: &SignIns,
    ) -> Result<Option<Caller>, Problem> {
        let sign_on = match &*self.current.load() {
            Some(sign_on) if admission != Admission::Open => Arc::clone(sign_on),
            _ => return Ok(None),
        };
        // On the heap, so that calls without sign-on have no room for it.
        boxed_pin(|| identify(sign_on, admission, parts, from, settings, now(), counted)).await
    }
}

async fn identify(
    sign_on: Arc<SignOn>,
    admission: Admission,
    parts: &Parts,
    from: From<'_>,
    settings: &Settings,
    now: Now,
    counted: &SignIns,
) -> Result<Option<Caller>, Problem> {
    let evidence = from.evidence(&parts.headers, settings.is_encrypted(), now);
    let looked = match sign_on.look(&evidence) {
        Ok(Looked::Known(identity)) => Ok(identity),
        // On the heap: seldom, and large.
        Ok(Looked::Ask(question)) => Box::pin(sign_on.ask(question)).await,
        Err(refused) => Err(refused),
    };
    let identity = match looked {
        Ok(identity) => identity,
        Err(refused) => {
            counted.refused(source_of(&refused), matches!(refused, Refused::Unavailable { .. }));
            return Err(words::refused(&refused));
        }
    };
    let source = identity.principal().map(|principal| principal.source);
    counted.accepted(source);
    if source == Some(Source::Session) && !parts.method.is_safe() {
        let base_url = links::base_url(settings, parts);
        if !is_same_origin(&parts.headers, &base_url) {
            return Err(cross_site());
        }
    }
    sign_on.count(&identity, now).map_err(|retry_after_s| words::too_fast(&identity, retry_after_s))?;
    // An open pool's id is credential enough: the caller was identified only to be counted.
    let is_let_in_by_id = admission == Admission::ById && !sign_on.settings().pools_require_sign_on;
    Ok((!is_let_in_by_id).then_some(Caller { identity, sign_on }))
}

/// The origin of a request: the other end of its connection, and the address that a trusted proxy there names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) client: IpAddr,
}

impl<'a> From<'a> {
    fn evidence(self, headers: &'a HeaderMap, is_encrypted: bool, now: Now) -> Evidence<'a> {
        let From { peer, client } = self;
        let certificate = peer.certificate.as_deref().map(|certificate| ClientCert {
            common_name: certificate.common_name.as_deref(),
            subject: &certificate.subject,
            sans: &certificate.sans,
            not_after_s: certificate.not_after_s,
        });
        Evidence { headers, peer: peer.addr.ip(), client, is_encrypted, certificate, now }
    }
}

fn source_of(refused: &Refused) -> Option<Source> {
    match refused {
        Refused::Invalid { source, .. } => *source,
        Refused::Unavailable { source, .. } => Some(*source),
        Refused::TooMany { .. } => None,
    }
}

/// The name of a caller in a sentence.
fn shown(identity: &Identity) -> &str {
    identity.name().map_or("an anonymous caller", |name| name)
}
