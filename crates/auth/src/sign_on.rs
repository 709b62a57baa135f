//! Everything put together: from the evidence a request brings to an identity. The first source that has evidence
//! decides; a wrong credential is refused, not passed over, so that no caller is taken for anonymous by mistake.
//!
//! [`SignOn::look`] handles evidence that needs no waiting (tokens, proxy headers, tokens checked a moment ago); only
//! the rest needs [`SignOn::ask`], which may talk to the provider.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};
use tokio::sync::Semaphore;

use crate::attempts::Attempts;
use crate::basic;
use crate::bearer::cache::Cache;
use crate::bearer::{self, Unverified};
use crate::certificate::ClientCert;
use crate::fetch::Fetch;
use crate::identity::{Identity, Principal, Source};
use crate::introspect::{IntrospectError, Introspection};
use crate::jwks::{Jwks, KeyError};
use crate::limits::BEARER_TOKEN_MAX;
use crate::login::Login;
use crate::login::by_token::{TokenSession, TokenSessions};
use crate::meter::Meter;
use crate::proxy::Said;
use crate::secret::Digest;
use crate::settings::{OidcSettings, SignOnSettings};
use crate::token::{self, Found, Tokens};
use crate::{Now, Policy};

/// The answer to a person who types a token that only the provider can check.
const NO_API_TOKEN: &str = "only an API token begins a session: it begins with lh_";

/// The evidence of a request about its sender.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub headers: &'a HeaderMap,
    /// The other end of the connection.
    pub peer: IpAddr,
    /// The address that failures count against: the peer's, or the one that a trusted proxy names.
    pub client: IpAddr,
    /// `true` if the browser of a session speaks https, to us or to the proxy in front.
    pub is_encrypted: bool,
    pub certificate: Option<ClientCert<'a>>,
    pub now: Now,
}

/// Why a caller could not be identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The credential is wrong.
    Invalid { source: Option<Source>, reason: Cow<'static, str> },
    /// This address has failed too often.
    TooMany { retry_after_s: u32 },
    /// The credential cannot be checked at the moment; the caller is not at fault.
    Unavailable { source: Source, reason: Cow<'static, str> },
}

/// The result of [`SignOn::look`].
#[derive(Debug)]
pub enum Looked {
    Known(Identity),
    /// This token has to be checked with [`SignOn::ask`].
    Ask(Question),
}

/// A token to check.
#[derive(Debug)]
pub struct Question {
    token: String,
    way: Way,
    attempt: Attempt,
}

/// An attempt to sign on, and the address that its failure counts against.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    client: IpAddr,
    /// Comes through the proxy that signs callers on: failures are not held against an address.
    is_relayed: bool,
    now: Now,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Jwt,
    Introspection,
}

/// All sources, the policy and the limits, as one configuration has them.
#[derive(Debug)]
pub struct SignOn {
    settings: SignOnSettings,
    tokens: Tokens,
    oidc: Option<Oidc>,
    introspection: Option<Introspection>,
    login: Option<Arc<Login>>,
    token_sessions: Arc<TokenSessions>,
    meter: Meter,
    failures: Arc<Failures>,
}

/// Failed attempts by address. They outlive a reload.
#[derive(Debug, Default)]
struct Failures {
    /// All of them: an address with too many is told so instead of the reason. Valid credentials are never refused for
    /// it.
    all: Attempts,
    /// Failures of tokens that the provider was asked about. The provider is not asked about tokens of such an address
    /// for a while.
    asked: Attempts,
}

#[derive(Debug)]
struct Oidc {
    settings: OidcSettings,
    jwks: Arc<Jwks>,
    checked: Cache,
    /// Signatures that may be checked at once: half of the processors, so that forged tokens do not take all of them.
    signatures: Semaphore,
}

impl SignOn {
    /// `before` is the configuration this one replaces: its keys of the provider are taken over, so that a reload does
    /// not depend on the provider. With a secret, sessions hold wherever it is known.
    pub fn new(
        settings: SignOnSettings,
        fetch: &Arc<dyn Fetch>,
        before: Option<&SignOn>,
        secret: Option<&[u8; 32]>,
    ) -> Self {
        let oidc = settings.oidc.as_ref().map(|oidc| {
            let known = before.and_then(|before| before.oidc.as_ref());
            let known = known.filter(|known| known.settings.keys == oidc.keys && known.settings.ring == oidc.ring);
            let jwks = known.map_or_else(
                || Arc::new(Jwks::new(oidc.keys.clone(), oidc.ring, Arc::clone(fetch))),
                |known| Arc::clone(&known.jwks),
            );
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let signatures = Semaphore::new((processors / 2).max(1));
            Oidc { settings: oidc.clone(), jwks, checked: Cache::default(), signatures }
        });
        let login = settings.oidc.as_ref().zip(oidc.as_ref()).and_then(|(settings, oidc)| {
            let known = before.and_then(|before| before.login.as_ref()).filter(|known| known.is_for(settings));
            let fresh = || Login::new(settings, &oidc.jwks, fetch, secret).map(Arc::new);
            known.cloned().or_else(fresh)
        });
        let introspection =
            settings.introspection.as_ref().map(|known| Introspection::new(known.clone(), Arc::clone(fetch)));
        SignOn {
            tokens: Tokens::new(&settings.tokens),
            oidc,
            introspection,
            login,
            token_sessions: before
                .map_or_else(|| Arc::new(TokenSessions::new(secret)), |before| Arc::clone(&before.token_sessions)),
            meter: Meter::new(settings.limits.requests),
            failures: before.map_or_else(Arc::default, |before| Arc::clone(&before.failures)),
            settings,
        }
    }

    pub fn settings(&self) -> &SignOnSettings {
        &self.settings
    }

    pub fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// The dashboard's own login, where it has one.
    pub fn login(&self) -> Option<&Arc<Login>> {
        self.login.as_ref()
    }

    /// Returns whether people can sign on to the dashboard with a token.
    pub fn has_token_login(&self) -> bool {
        !self.settings.tokens.is_empty()
    }

    /// Begins a session of a person who typed an API token. A wrong one counts as a failed attempt of the address.
    pub fn begin_session(&self, token: &str, evidence: &Evidence<'_>) -> Result<TokenSession, Refused> {
        let &Evidence { headers, peer, client, now, .. } = evidence;
        let is_relayed =
            matches!(self.settings.proxy.as_ref().map(|proxy| proxy.read(headers, peer)), Some(Ok(Said::Nobody)));
        let attempt = Attempt { client, is_relayed, now };
        if !token.starts_with(token::PREFIX) {
            return Err(self.failed(attempt, None, NO_API_TOKEN));
        }
        match self.look_at_token(token, attempt)? {
            Looked::Known(identity) => {
                let principal = identity.principal().expect("a token that was found has a principal");
                Ok(self.token_sessions.begin(token, Arc::clone(principal), now))
            }
            Looked::Ask(_) => unreachable!("an API token is looked up, not asked about"),
        }
    }

    /// Ends all sessions of the name that this cookie is of. Returns the name.
    pub fn end_session(&self, sealed: &str, now: Now) -> Option<Arc<str>> {
        let by_provider = self.login.as_ref().and_then(|login| login.end(sealed, now));
        by_provider.or_else(|| self.token_sessions.end(sealed, &self.tokens, now))
    }

    /// The principal of a session, by the provider or by a token.
    fn session(&self, sealed: &str, now: Now) -> Option<Principal> {
        let by_provider = self.login.as_ref().and_then(|login| login.session(sealed, now));
        by_provider.or_else(|| self.token_sessions.session(sealed, &self.tokens, now))
    }

    /// Counts a request of this caller, or returns in how many seconds to come back.
    pub fn count(&self, identity: &Identity, now: Now) -> Result<(), u32> {
        self.meter.count(identity, now)
    }

    /// Identifies the caller, as far as that is possible at once.
    pub fn look(&self, evidence: &Evidence<'_>) -> Result<Looked, Refused> {
        let &Evidence { headers, peer, client, now, .. } = evidence;
        let mut attempt = Attempt { client, is_relayed: false, now };
        if let Some(proxy) = &self.settings.proxy {
            match proxy.read(headers, peer) {
                Ok(Said::Somebody(principal)) => return Ok(Looked::Known(principal.into())),
                Ok(Said::Nobody) => attempt.is_relayed = true,
                Ok(Said::Nothing) => {}
                Err(error) => return Err(self.failed(attempt, Some(Source::Proxy), error.to_string())),
            }
        }
        let mut authorizations = headers.get_all(AUTHORIZATION).iter();
        match (authorizations.next(), authorizations.next()) {
            (None, _) => {}
            (Some(authorization), None) => {
                return match Credential::read(authorization.as_bytes()) {
                    Ok(Credential::Bearer(token)) => self.look_at_token(token, attempt),
                    Ok(Credential::Basic(pair)) => self.look_at_api_token(&pair.token, Some(&pair.user), attempt),
                    Err(reason) => Err(self.failed(attempt, None, reason)),
                };
            }
            (Some(_), Some(_)) => {
                return Err(self.failed(attempt, None, "the Authorization header is there more than once"));
            }
        }
        if let Some(session) = SESSION_COOKIE.sent(headers, evidence.is_encrypted)
            && let Some(principal) = self.session(session, now)
        {
            return Ok(Looked::Known(principal.into()));
        }
        // A request that the proxy relays without a name has no principal: the certificate of the connection is the
        // proxy's own.
        if let (Some(settings), Some(certificate), false) =
            (&self.settings.certificates, evidence.certificate, attempt.is_relayed)
        {
            return match settings.principal(certificate, now) {
                Ok(principal) => Ok(Looked::Known(principal.into())),
                Err(reason) => Err(self.failed(attempt, Some(Source::Certificate), reason)),
            };
        }
        Ok(Looked::Known(Identity::ANONYMOUS))
    }

    fn look_at_token(&self, token: &str, attempt: Attempt) -> Result<Looked, Refused> {
        let now = attempt.now;
        if token.starts_with(token::PREFIX) {
            return self.look_at_api_token(token, None, attempt);
        }
        let digest = Digest::of(token.as_bytes());
        // The usual case, before another look at every byte of it.
        if let Some(principal) = self.oidc.as_ref().and_then(|oidc| oidc.checked.get(&digest, now)) {
            return Ok(Looked::Known(principal.into()));
        }
        let way = match (&self.oidc, &self.introspection) {
            (Some(_), _) if bearer::looks_like_jwt(token) => Way::Jwt,
            (_, Some(introspection)) => {
                match introspection.known(&digest, now) {
                    Some(Ok(principal)) => return Ok(Looked::Known(principal.into())),
                    Some(Err(error)) => return Err(self.not_introspected(attempt, &error)),
                    None => {}
                }
                // A question costs the provider something, so an address that failed too often has to wait. A signature
                // is checked here and costs little: callers that share an address with a forger are served.
                if !attempt.is_relayed
                    && let Err(retry_after_s) = self.failures.asked.check(attempt.client, now)
                {
                    return Err(Refused::TooMany { retry_after_s });
                }
                Way::Introspection
            }
            (_, None) => {
                return Err(self.failed(attempt, None, "the token is of a kind that is not accepted here"));
            }
        };
        if token.len() > BEARER_TOKEN_MAX {
            return Err(self.failed(attempt, None, bearer::BearerError::TooLong.to_string()));
        }
        Ok(Looked::Ask(Question { token: token.to_owned(), way, attempt }))
    }

    /// A token of the configuration. A `user`, which Basic authentication brings along, has to be the token's name.
    fn look_at_api_token(&self, token: &str, user: Option<&str>, attempt: Attempt) -> Result<Looked, Refused> {
        let reason = match self.tokens.find(token.as_bytes(), attempt.now.unix_s) {
            Found::Principal(principal) if basic::fits(user, &principal.name) => {
                return Ok(Looked::Known(principal.into()));
            }
            Found::Principal(_) => "the user must be the name of the API token that is the password, or -",
            Found::Expired => "the API token has expired",
            Found::Unknown => "the API token is unknown or was revoked",
        };
        Err(self.failed(attempt, Some(Source::Token), reason))
    }

    /// Checks a token, with the provider's help if need be.
    pub async fn ask(&self, question: Question) -> Result<Identity, Refused> {
        let Question { token, way, attempt } = question;
        let now = attempt.now;
        match (way, &self.oidc, &self.introspection) {
            (Way::Jwt, Some(oidc), _) => match oidc.check(&token, now).await {
                Ok(identity) => Ok(identity),
                Err(KeyError::Token(error)) => Err(self.failed(attempt, Some(Source::Oidc), error.to_string())),
                Err(error @ KeyError::Unavailable) => {
                    Err(Refused::Unavailable { source: Source::Oidc, reason: error.to_string().into() })
                }
            },
            (Way::Introspection, _, Some(introspection)) => match introspection.ask(&token, now).await {
                Ok(principal) => Ok(principal.into()),
                Err(error) => {
                    if !attempt.is_relayed && error != IntrospectError::Unavailable {
                        self.failures.asked.failed(attempt.client, now);
                    }
                    Err(self.not_introspected(attempt, &error))
                }
            },
            (Way::Jwt, None, _) | (Way::Introspection, _, None) => {
                unreachable!("a question is put only where there is a provider")
            }
        }
    }

    fn not_introspected(&self, attempt: Attempt, error: &IntrospectError) -> Refused {
        let source = Source::Introspection;
        match error {
            IntrospectError::Unavailable => Refused::Unavailable { source, reason: error.to_string().into() },
            IntrospectError::Inactive | IntrospectError::Token(_) => {
                self.failed(attempt, Some(source), error.to_string())
            }
        }
    }

    /// Remembers a failed attempt. An address with too many of them is told so instead.
    fn failed(&self, attempt: Attempt, source: Option<Source>, reason: impl Into<Cow<'static, str>>) -> Refused {
        let Attempt { client, is_relayed, now } = attempt;
        if is_relayed {
            return Refused::Invalid { source, reason: reason.into() };
        }
        if let Err(retry_after_s) = self.failures.all.check(client, now) {
            return Refused::TooMany { retry_after_s };
        }
        self.failures.all.failed(client, now);
        Refused::Invalid { source, reason: reason.into() }
    }
}

/// A cookie, which has another name over https: `__Host-` makes browsers ensure that no other site and no plain
/// connection set it. The scheme alone says which of the two counts, so that the other cannot stand in for it.
#[derive(Clone, Copy, Debug)]
pub struct Cookie {
    secure: &'static str,
    plain: &'static str,
}

/// The cookie of a session.
pub const SESSION_COOKIE: Cookie = Cookie::new("__Host-leasehold-session", "leasehold-session");

impl Cookie {
    pub const fn new(secure: &'static str, plain: &'static str) -> Self {
        Cookie { secure, plain }
    }

    pub fn name(self, is_encrypted: bool) -> &'static str {
        if is_encrypted { self.secure } else { self.plain }
    }

    /// Its value, if it was sent. The first one, should there be several.
    pub fn sent(self, headers: &HeaderMap, is_encrypted: bool) -> Option<&str> {
        let name = self.name(is_encrypted);
        let sent =
            headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
        let mut pairs = sent.filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl Oidc {
    async fn check(&self, token: &str, now: Now) -> Result<Identity, KeyError> {
        let unverified = Unverified::parse(token)?;
        let key = self.jwks.key_for(&unverified, now).await?;
        let _turn = self.signatures.acquire().await.map_err(|_| KeyError::Unavailable)?;
        let verified = unverified.verify(&key, &self.settings.expected, now)?;
        Ok(self.checked.put(Digest::of(token.as_bytes()), verified, now).into())
    }
}

/// The credential of an `Authorization` header.
enum Credential<'a> {
    Bearer(&'a str),
    Basic(basic::Pair),
}

impl<'a> Credential<'a> {
    /// Reads the header. The scheme's case does not matter.
    fn read(authorization: &'a [u8]) -> Result<Self, &'static str> {
        const WRONG: &str =
            "the Authorization header must be Bearer and a token, or Basic and a user with an API token";
        let text = std::str::from_utf8(authorization).map_err(|_| WRONG)?;
        let (scheme, token) = text.split_once(' ').ok_or(WRONG)?;
        let token = token.trim();
        // Without a way out in the middle this takes many bytes at once: tokens are long, and come with every request.
        let is_graphic = token.bytes().fold(true, |is_graphic, byte| is_graphic & byte.is_ascii_graphic());
        if token.is_empty() || !is_graphic {
            Err(WRONG)
        } else if scheme.eq_ignore_ascii_case("bearer") {
            Ok(Credential::Bearer(token))
        } else if scheme.eq_ignore_ascii_case("basic") {
            basic::Pair::decode(token).map(Credential::Basic)
        } else {
            Err(WRONG)
        }
    }
}

#[cfg(test)]
mod tests;
