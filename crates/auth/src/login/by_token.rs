//! Sessions of people who sign on with an API token: a sealed cookie that names the token by its digest. The token's
//! name, groups and end come from the settings in force at each request, so a token that is revoked or expires takes
//! its sessions with it. The token itself is in no cookie.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ended::Ended;
use super::seal::Sealer;
use crate::Now;
use crate::identity::{Principal, Source};
use crate::limits::SESSION_S;
use crate::secret::Digest;
use crate::token::{Found, Tokens};

/// A cookie of a login by the provider does not open as one of these.
const PURPOSE: &str = "token session";

/// A session that has begun.
#[derive(Debug)]
pub struct TokenSession {
    /// The value of the cookie.
    pub session: String,
    pub lasts_s: u64,
    pub principal: Arc<Principal>,
}

#[derive(Debug)]
pub(crate) struct TokenSessions {
    sealer: Sealer,
    ended: Ended,
}

#[derive(Serialize, Deserialize)]
struct Session {
    digest: [u8; 32],
    /// On the clock of those who can open it.
    began_us: u64,
    expires_at_s: u64,
}

impl TokenSessions {
    pub(crate) fn new(secret: Option<&[u8; 32]>) -> Self {
        TokenSessions { sealer: Sealer::new(secret), ended: Ended::default() }
    }

    /// `principal` is the one that this token was found to be of.
    pub(crate) fn begin(&self, token: &str, principal: Arc<Principal>, now: Now) -> TokenSession {
        let digest = *Digest::of(token.as_bytes()).bytes();
        let session = Session { digest, began_us: self.sealer.instant(now), expires_at_s: now.unix_s + SESSION_S };
        let bytes = serde_json::to_vec(&session).expect("numbers can be written");
        TokenSession { session: self.sealer.seal(PURPOSE, bytes), lasts_s: SESSION_S, principal }
    }

    /// The principal of this session, as the tokens in force have it.
    pub(crate) fn session(&self, sealed: &str, tokens: &Tokens, now: Now) -> Option<Principal> {
        let session: Session = serde_json::from_slice(&self.sealer.open(PURPOSE, sealed)?).ok()?;
        if now.unix_s >= session.expires_at_s {
            return None;
        }
        let Found::Principal(principal) = tokens.find_digest(&Digest::from(session.digest), now.unix_s) else {
            return None;
        };
        let is_on = !self.ended.has(&principal.name, session.began_us);
        is_on.then(|| Principal { source: Source::Session, ..(*principal).clone() })
    }

    /// Ends all sessions of this session's name, in every browser. Returns the name.
    pub(crate) fn end(&self, sealed: &str, tokens: &Tokens, now: Now) -> Option<Arc<str>> {
        let principal = self.session(sealed, tokens, now)?;
        self.ended.end(&principal.name, self.sealer.instant(now), SESSION_S * 1_000_000);
        Some(principal.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{TokenSettings, make};

    fn at(s: u64) -> Now {
        Now { unix_s: 1_000 + s, mono_us: 1 + s * 1_000_000 }
    }

    fn world(expires_at_s: Option<u64>) -> (String, TokenSettings) {
        let (secret, digest) = make();
        let settings = TokenSettings { name: "olga".into(), digest, groups: vec!["operators".into()], expires_at_s };
        (secret.expose().to_owned(), settings)
    }

    fn begin(sessions: &TokenSessions, token: &str, tokens: &Tokens, now: Now) -> String {
        let Found::Principal(principal) = tokens.find(token.as_bytes(), now.unix_s) else { panic!("known") };
        sessions.begin(token, principal, now).session
    }

    #[test]
    fn a_session_lasts_as_long_as_its_token_and_its_time() {
        let sessions = TokenSessions::new(None);
        let (token, settings) = world(Some(1_100));
        let tokens = Tokens::new(&[settings]);
        let sealed = begin(&sessions, &token, &tokens, at(0));
        assert!(!sealed.contains(&token));
        let found = sessions.session(&sealed, &tokens, at(99)).unwrap();
        assert_eq!((&*found.name, found.source, found.groups.len()), ("olga", Source::Session, 1));
        assert_eq!(sessions.session(&sealed, &tokens, at(100)), None, "the token has expired");

        let (token, settings) = world(None);
        let tokens = Tokens::new(&[settings]);
        let sealed = begin(&sessions, &token, &tokens, at(0));
        assert!(sessions.session(&sealed, &tokens, at(SESSION_S - 1)).is_some());
        assert_eq!(sessions.session(&sealed, &tokens, at(SESSION_S)), None);
    }

    #[test]
    fn a_revoked_token_a_logout_and_another_process_end_it() {
        let sessions = TokenSessions::new(None);
        let (token, settings) = world(None);
        let tokens = Tokens::new(std::slice::from_ref(&settings));
        let sealed = begin(&sessions, &token, &tokens, at(0));
        assert_eq!(sessions.session(&sealed, &Tokens::default(), at(1)), None, "the token was revoked");
        assert_eq!(TokenSessions::new(None).session(&sealed, &tokens, at(1)), None, "sealed by another process");
        let nodes = [TokenSessions::new(Some(&[1; 32])), TokenSessions::new(Some(&[1; 32]))];
        let shared = begin(&nodes[0], &token, &tokens, at(0));
        assert!(nodes[1].session(&shared, &tokens, at(1)).is_some(), "sealed by another node of the cluster");
        let stranger = TokenSessions::new(Some(&[2; 32]));
        assert_eq!(stranger.session(&shared, &tokens, at(1)), None, "sealed by a node of another cluster");
        let promoted = TokenSettings { groups: vec!["a".into(), "b".into()], ..settings };
        let found = sessions.session(&sealed, &Tokens::new(&[promoted]), at(1)).unwrap();
        assert_eq!(found.groups.len(), 2, "groups are those of the settings in force");
        assert_eq!(sessions.end(&sealed, &tokens, at(2)).as_deref(), Some("olga"));
        assert_eq!(sessions.session(&sealed, &tokens, at(3)), None);
        assert!(sessions.session(&begin(&sessions, &token, &tokens, at(3)), &tokens, at(3)).is_some());
    }
}
