//! A caller's request, put together step by step, and then acquired.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::clock::Moment;
use crate::dialect::Target;
use crate::error::Error;
use crate::lease::Lease;
use crate::loss::Loss;
use crate::terms::Terms;
use crate::worker::{Notice, Progress, Wish, Worker, acquire};

/// The least ttl: below it an outage of a moment ends a lease.
const TTL_MIN: Duration = Duration::from_secs(1);

/// A lease that is at risk: not renewed for so long that little time is left.
#[derive(Clone, Debug)]
pub struct AtRisk {
    /// The resource, in words.
    pub resource: String,
    /// Its fencing token.
    pub token: u64,
    /// When it is lost, if it is not renewed.
    pub deadline: Moment,
    /// Why the last renewal failed.
    pub cause: Option<String>,
}

type Callback<T> = Arc<dyn Fn(T) + Send + Sync>;

/// An acquisition to be made: [`acquire`](Request::acquire) makes it. Each call makes one of its own.
#[derive(Clone)]
#[must_use = "nothing is asked for until `acquire` is awaited"]
pub struct Request {
    worker: Arc<Worker>,
    wish: Wish,
    on_lost: Option<Callback<Loss>>,
    on_at_risk: Option<Callback<AtRisk>>,
    on_renewed: Option<Callback<Terms>>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.wish.target)
    }
}

impl Request {
    pub(crate) fn new(worker: Arc<Worker>, target: Target, who: String, ttl: Duration, round: Duration) -> Request {
        let wish = Wish {
            target,
            who,
            ttl,
            timeout: None,
            round,
            unreachable_after: None,
            max_hold: None,
            persists: false,
            on_progress: None,
            on_notice: None,
            tells_renewals: false,
        };
        Request { worker, wish, on_lost: None, on_at_risk: None, on_renewed: None }
    }

    /// How long the lease lasts without a renewal: 1 s or more, 30 s unless set.
    pub fn ttl(mut self, ttl: Duration) -> Request {
        self.wish.ttl = ttl;
        self
    }

    /// How long to wait in all, until the lease is confirmed; for ever unless set. Zero asks once.
    pub fn wait(mut self, wait: Duration) -> Request {
        self.wish.timeout = Some(wait);
        self
    }

    /// Gives up with [`Error::Unavailable`] when no address answered at all for so long. Unless set, a service that is
    /// away is waited for like a lease that is held.
    pub fn unreachable_after(mut self, limit: Duration) -> Request {
        self.wish.unreachable_after = Some(limit);
        self
    }

    /// Ends renewal after so long, so that a holder that hangs does not hold for ever.
    pub fn max_hold(mut self, limit: Duration) -> Request {
        self.wish.max_hold = Some(limit);
        self
    }

    /// Goes on renewing the same token after the deadline, until the service says that the lease ended. For work that
    /// is guarded by the token; the lease counts as lost in the meantime.
    pub fn renew_after_loss(mut self) -> Request {
        self.wish.persists = true;
        self
    }

    /// The metadata of a claim, such as the name of its maker. Locks and pools have none.
    pub fn metadata(mut self, metadata: Value) -> Request {
        if let Target::Claim { metadata: known, .. } = &mut self.wish.target {
            *known = Some(metadata);
        }
        self
    }

    /// Called while waiting, on change and at most once a second, on a thread of its own.
    pub fn on_progress(mut self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Request {
        self.wish.on_progress = Some(Arc::new(callback));
        self
    }

    /// Called once when the lease is lost, on a thread of its own.
    pub fn on_lost(mut self, callback: impl Fn(Loss) + Send + Sync + 'static) -> Request {
        self.on_lost = Some(Arc::new(callback));
        self
    }

    /// Called when the lease was not renewed for so long that it may be lost soon.
    pub fn on_at_risk(mut self, callback: impl Fn(AtRisk) + Send + Sync + 'static) -> Request {
        self.on_at_risk = Some(Arc::new(callback));
        self
    }

    /// Called after each renewal.
    pub fn on_renewed(mut self, callback: impl Fn(Terms) + Send + Sync + 'static) -> Request {
        self.wish.tells_renewals = true;
        self.on_renewed = Some(Arc::new(callback));
        self
    }

    /// Waits for the lease. When the future is dropped, the client's thread undoes the acquisition, in any state.
    pub async fn acquire(&self) -> Result<Lease, Error> {
        if self.wish.ttl < TTL_MIN {
            return Err(Error::Setting(format!("a ttl is 1s or more, got {:?}", self.wish.ttl)));
        }
        let mut wish = self.wish.clone();
        wish.on_notice = self.notices();
        let (worker, core) = (Arc::clone(&self.worker), Arc::clone(&self.worker.core));
        // Dropped with this future.
        let (_caller, given_up) = oneshot::channel();
        let (sender, receiver) = oneshot::channel();
        self.worker.spawn(async move {
            let acquired = acquire(core, wish, given_up).await.map(|held| Lease::new(held, worker));
            // A caller that left in this moment drops the lease, which gives it back.
            let _ = sender.send(acquired);
        })?;
        receiver.await.unwrap_or(Err(Error::Closed))
    }

    /// Asks once: nothing when others hold it.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        match self.clone().wait(Duration::ZERO).acquire().await {
            Ok(lease) => Ok(Some(lease)),
            Err(Error::Conflict(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One callback of the worker for those of the user.
    pub(crate) fn notices(&self) -> Option<Callback<Notice>> {
        let (on_lost, on_at_risk, on_renewed) =
            (self.on_lost.clone(), self.on_at_risk.clone(), self.on_renewed.clone());
        if on_lost.is_none() && on_at_risk.is_none() && on_renewed.is_none() {
            return None;
        }
        Some(Arc::new(move |notice| match notice {
            Notice::Lost(loss) => tell(on_lost.as_ref(), loss),
            Notice::Renewed(terms) => tell(on_renewed.as_ref(), terms),
            Notice::AtRisk { resource, token, deadline, cause } => {
                tell(on_at_risk.as_ref(), AtRisk { resource, token, deadline, cause });
            }
        }))
    }

    pub(crate) fn longest(&self) -> Option<Duration> {
        self.wish.max_hold
    }

    pub(crate) fn tells_renewals(&self) -> bool {
        self.wish.tells_renewals
    }

    pub(crate) fn persists(&self) -> bool {
        self.wish.persists
    }
}

fn tell<T>(callback: Option<&Callback<T>>, news: T) {
    if let Some(callback) = callback {
        callback(news);
    }
}
