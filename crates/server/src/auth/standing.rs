//! Whether somebody who was let in would be let in still. Most answers are over before that can change; a stream is not, and
//! must not outlive the token, the login or the policy that opened it.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use leasehold_auth::sign_on::Looked;
use leasehold_auth::{Action, Evidence, Refused, Target};

use super::Guard;
use crate::driver::Handle;
use crate::http::Peer;

/// What somebody came with, to be looked at again.
pub(crate) struct Standing {
    guard: Arc<Guard>,
    driver: Handle,
    headers: HeaderMap,
    peer: Peer,
}

impl Standing {
    pub(crate) fn new(guard: &Arc<Guard>, driver: &Handle, headers: &HeaderMap, peer: &Peer) -> Self {
        Standing { guard: Arc::clone(guard), driver: driver.clone(), headers: headers.clone(), peer: peer.clone() }
    }

    /// Whether its owner would be let in to watch now, by the rules in force now; if not, why. What cannot be checked is
    /// refused here as everywhere.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let Some(sign_on) = self.guard.current() else { return Ok(()) };
        let evidence = Evidence {
            headers: &self.headers,
            peer: self.peer.addr.ip(),
            certificate: self.peer.certificate.as_deref(),
            now: self.driver.now(),
        };
        let looked = match sign_on.look(&evidence) {
            Ok(Looked::Known(identity)) => Ok(identity),
            Ok(Looked::Ask(question)) => sign_on.ask(question).await,
            Err(refused) => Err(refused),
        };
        match looked {
            Ok(identity) if sign_on.policy().allows(&identity, Action::Observe, Target::Service) => Ok(()),
            Ok(identity) => Err(format!(
                "{} needs the action 'observe' on the service, and has it no longer",
                super::shown(&identity)
            )),
            Err(Refused::Invalid { reason, .. } | Refused::Unavailable { reason, .. }) => Err(reason.into_owned()),
            Err(Refused::TooMany { .. }) => Err("too many failed attempts to sign on from this address".to_owned()),
        }
    }
}

/// Without the headers: there is a credential in them.
impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("peer", &self.peer.addr).finish_non_exhaustive()
    }
}
