//! Checks whether a caller that was let in would still be let in. Most answers are over before that can change; a
//! stream is not, and must not outlive the token, the login or the policy that opened it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use leasehold_auth::policy::Sight;
use leasehold_auth::sign_on::Looked;
use leasehold_auth::{Action, Refused};

use super::{From, Guard};
use crate::driver::Handle;
use crate::http::Peer;

/// The credentials of a caller, to be checked again.
pub(crate) struct Standing {
    guard: Arc<Guard>,
    driver: Handle,
    headers: HeaderMap,
    peer: Peer,
    client: IpAddr,
    is_encrypted: bool,
}

impl Standing {
    pub(crate) fn new(
        guard: &Arc<Guard>,
        driver: &Handle,
        headers: &HeaderMap,
        from: From<'_>,
        is_encrypted: bool,
    ) -> Self {
        let (guard, driver, headers) = (Arc::clone(guard), driver.clone(), headers.clone());
        Standing { guard, driver, headers, peer: from.peer.clone(), client: from.client, is_encrypted }
    }

    /// Returns what the caller would be let in to watch now, by the rules in force now; if nothing, the reason. A
    /// credential that cannot be checked is refused here as everywhere.
    pub(crate) async fn check(&self) -> Result<Sight, String> {
        let Some(sign_on) = self.guard.current() else { return Ok(Sight::EVERYTHING) };
        let from = From { peer: &self.peer, client: self.client };
        let evidence = from.evidence(&self.headers, self.is_encrypted, self.driver.now());
        let looked = match sign_on.look(&evidence) {
            Ok(Looked::Known(identity)) => Ok(identity),
            Ok(Looked::Ask(question)) => sign_on.ask(question).await,
            Err(refused) => Err(refused),
        };
        match looked {
            Ok(identity) => {
                let sight = sign_on.policy().sight(&identity, Action::Observe);
                if sight.is_blind() {
                    let who = super::shown(&identity);
                    return Err(format!("{who} needs the action 'observe' on the service, and has it no longer"));
                }
                Ok(sight)
            }
            Err(Refused::Invalid { reason, .. } | Refused::Unavailable { reason, .. }) => Err(reason.into_owned()),
            Err(Refused::TooMany { .. }) => Err("too many failed attempts to sign on from this address".to_owned()),
        }
    }
}

/// Without the headers: there is a credential in them.
impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("client", &self.client).finish_non_exhaustive()
    }
}
