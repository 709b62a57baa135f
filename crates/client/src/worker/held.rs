//! A lease that is held: its name at the service, its watch, and the callbacks that are told of its events.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::JoinHandle;

use super::Core;
use crate::clock::Moment;
use crate::dialect::{Grant, Id, NamedSlot};
use crate::loss::{Cause, Loss};
use crate::table::Released;
use crate::terms::Terms;
use crate::watch::Watch;

/// News for the holder.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    AtRisk { resource: String, token: u64, deadline: Moment, cause: Option<String> },
    Renewed(Terms),
    Lost(Loss),
}

/// The receiver of notices.
pub(crate) type OnNotice = Arc<dyn Fn(Notice) + Send + Sync>;

/// A lease to be held from now on.
#[derive(Clone)]
pub(crate) struct Offer {
    pub(crate) grant: Grant,
    pub(crate) terms: Terms,
    pub(crate) ttl: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) persists: bool,
    pub(crate) on_notice: Option<OnNotice>,
    /// Renewals are told, too.
    pub(crate) tells_renewals: bool,
}

pub(crate) struct Held {
    pub(crate) id: Id,
    pub(crate) token: u64,
    pub(crate) slot: Option<u32>,
    pub(crate) named: Option<Arc<NamedSlot>>,
    /// The ttl of each renewal.
    pub(crate) ttl: Duration,
    watch: Mutex<Watch>,
    /// The loss, once there is one.
    lost: watch::Sender<Option<Loss>>,
    /// Renewed on after a loss, and so not given back by it.
    pub(super) persists: bool,
    /// To the task that calls the user's callbacks, apart from renewal.
    notices: Option<mpsc::UnboundedSender<Notice>>,
    tells_renewals: bool,
    renewer: Mutex<Option<JoinHandle<()>>>,
    /// How its release ended. One release is sent, however often it is asked for.
    pub(super) released: OnceCell<Released>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({}, token {}, slot {:?})", self.id, self.token, self.slot)
    }
}

impl Held {
    /// A lease that is not renewed yet. On the worker's thread.
    pub(super) fn new(offer: Offer) -> Held {
        let Offer { grant, terms, ttl, max_hold, persists, on_notice, tells_renewals } = offer;
        let hold_until = max_hold.map(|span| terms.sent_at + span);
        let watch = Watch::new(terms, super::factor()).holding_until(hold_until).persisting(persists);
        let notices = on_notice.map(|on_notice| {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                while let Some(notice) = receiver.recv().await {
                    let on_notice = Arc::clone(&on_notice);
                    // On a thread of its own: one that panics or blocks delays no lease.
                    let _ = tokio::task::spawn_blocking(move || on_notice(notice)).await;
                }
            });
            sender
        });
        Held {
            id: grant.id,
            token: grant.token,
            slot: grant.slot,
            named: grant.named,
            ttl,
            watch: Mutex::new(watch),
            lost: watch::Sender::new(None),
            persists,
            notices,
            tells_renewals,
            renewer: Mutex::new(None),
            released: OnceCell::new(),
        }
    }

    /// Its renewal ends with it.
    pub(super) fn set_renewer(&self, renewer: JoinHandle<()>) {
        *self.renewer.lock().unwrap_or_else(PoisonError::into_inner) = Some(renewer);
    }

    pub(crate) fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it is not held right now, by the lease clock.
    pub(crate) fn loss(&self, core: &Core) -> Option<Loss> {
        let is_fork = core.pid != std::process::id();
        let cause = if is_fork { Cause::Forked } else { self.watch().loss(core.clock.now())? };
        Some(self.loss_of(cause))
    }

    fn loss_of(&self, cause: Cause) -> Loss {
        let last_error = self.watch().last_error().map(str::to_owned);
        Loss { resource: self.id.to_string(), token: self.token, cause, last_error }
    }

    /// Resolves when it is lost; also when it is released.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Loss>> {
        self.lost.subscribe()
    }

    pub(super) fn tell_lost(&self, core: &Core) {
        let Some(loss) = self.loss(core) else { return };
        tracing::warn!(%loss, "lease lost");
        self.lost.send_replace(Some(loss.clone()));
        self.tell(Notice::Lost(loss));
    }

    pub(super) fn tell_at_risk(&self) {
        let (deadline, cause) = {
            let watch = self.watch();
            (watch.deadline(), watch.last_error().map(str::to_owned))
        };
        tracing::warn!(lease = %self.id, token = self.token, cause = cause.as_deref(), "lease at risk");
        self.tell(Notice::AtRisk { resource: self.id.to_string(), token: self.token, deadline, cause });
    }

    /// Held again, if it was lost and persists.
    pub(super) fn tell_renewed(&self, terms: Terms) {
        self.lost.send_if_modified(|lost| lost.take().is_some());
        if self.tells_renewals {
            self.tell(Notice::Renewed(terms));
        }
    }

    fn tell(&self, notice: Notice) {
        if let Some(notices) = &self.notices {
            let _ = notices.send(notice);
        }
    }

    /// Ends renewal: no attempt outlives this.
    pub(crate) async fn stop(&self) {
        let renewer = self.renewer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(renewer) = renewer {
            renewer.abort();
            let _ = renewer.await;
        }
    }

    /// How its release ended, if it has.
    pub(crate) fn released(&self) -> Option<Released> {
        self.released.get().copied()
    }

    /// The lease is over, and no callback is told of a loss.
    pub(super) fn end_locally(&self) {
        self.watch().handle_ended(Cause::Released);
        let loss = self.loss_of(Cause::Released);
        self.lost.send_if_modified(|lost| lost.replace(loss).is_none());
    }
}
