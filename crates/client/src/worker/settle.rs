//! An acquisition that was given up leaves nothing behind: a claim is withdrawn, and a grant that a pool or a lock may
//! have made, or may still make, is ended by its name. At most five seconds, without the caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::release::give_back;
use super::seek::Seek;
use super::{Core, SETTLE, factor};
use crate::dialect::{Ask, Call, Kind};
use crate::reply::{Heard, Reply};
use crate::terms::backoff;
use crate::transport::Manner;

/// For the same request again, where the service cannot end things by their name.
const ONCE_MORE: Duration = Duration::from_secs(1);
const ATTEMPT: Duration = Duration::from_millis(1500);

pub(super) fn begin(core: &Arc<Core>, seek: &Arc<Seek>) {
    if !seek.is_open() {
        return;
    }
    let (core, ask, claim) = (Arc::clone(core), seek.ask(), seek.claim());
    let busy = core.busy();
    tokio::spawn(async move {
        if timeout(SETTLE, settle(&core, &ask, claim)).await.is_err() {
            tracing::warn!(target = %ask.target, "an acquisition that was given up could not be undone; it ends with its ttl");
        }
        drop(busy);
    });
}

async fn settle(core: &Core, ask: &Ask, claim: Option<String>) {
    let claim = match (ask.target.kind(), claim) {
        (Kind::Claim, None) => match find(core, &ask.acquire()).await {
            Some(reply) => reply.text("id").map(str::to_owned),
            None => return,
        },
        (_, claim) => claim,
    };
    let Some(call) = ask.withdraw(claim.as_deref()) else { return };
    let Some(reply) = find(core, &call).await else { return };
    // An older service cannot end a borrow by its key.
    let is_unknown_call =
        reply.status == 405 || (reply.status == 404 && matches!(reply.code(), None | Some("no_such_path")));
    if ask.target.kind() == Kind::Pool && is_unknown_call {
        let again = timeout(ONCE_MORE, core.transport.call(&ask.acquire(), Manner::PLAIN)).await;
        if let Ok(Heard::Reply(reply)) = again
            && let Some(grant) = ask.read_grant(&reply)
        {
            give_back(core, &grant.id, grant.token, SETTLE).await;
        }
    }
}

/// The same bytes until the service answered.
async fn find(core: &Core, call: &Call) -> Option<Reply> {
    let over = Instant::now() + SETTLE;
    for failures in 1.. {
        let manner = Manner { patience: ATTEMPT, is_fresh: failures > 1, is_timed: false };
        match core.transport.call(call, manner).await {
            Heard::Reply(reply) if !matches!(reply.status, 429 | 500..) => return Some(reply),
            Heard::Tls(_) | Heard::OtherService(_) => return None,
            _ => sleep(backoff(failures, factor())).await,
        }
        if Instant::now() >= over {
            return None;
        }
    }
    None
}
