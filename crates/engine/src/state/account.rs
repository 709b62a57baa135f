//! The account of bytes, kept as entities come and go. `bytes` defines what each entity costs; `check` counts all of it
//! again.

use std::sync::Arc;

use super::bytes::{self, SLOT, SPARE_CLAIM, SPARE_RESOURCE, Texts};
use super::{Cix, Rix, State};
use crate::fittings::Fittings;
use crate::time::Time;

/// The bytes that the state uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Everything, ended claims included.
    pub(crate) total: u64,
    /// The part of it that ended claims and lapsed locks take.
    pub(crate) retained: u64,
}

impl State {
    /// The account, and the bytes in holes that nothing else can use.
    pub(crate) fn bytes_used(&self) -> u64 {
        self.account.total + self.claims.holes() as u64 * SPARE_CLAIM + self.resources.holes() as u64 * SPARE_RESOURCE
    }

    pub(crate) fn bytes_of_claim(&self, cix: Cix) -> u64 {
        let claim = &self.claims[cix];
        let kind = self.kind(claim.resource);
        match claim.extra.as_deref() {
            None => bytes::of_claim(kind, &Texts::default()),
            Some(extra) => bytes::of_claim(
                kind,
                &Texts {
                    client: extra.client.as_deref(),
                    principal: claim.principal().map(|principal| &**principal),
                    holder: claim.holder().map(|holder| &**holder),
                    key: extra.key.as_ref().map(|key| &*key.name),
                    metadata: extra.metadata.as_deref(),
                    is_rare: extra.rare.is_some(),
                },
            ),
        }
    }

    pub(crate) fn bytes_of_resource(&self, rix: Rix) -> u64 {
        let resource = &self.resources[rix];
        bytes::of_resource(&resource.key, resource.label().map(|label| &**label))
            + bytes::of_fittings(resource.fittings())
            + resource.slots.highest() * SLOT
    }

    /// Gives a resource a label, or takes it away.
    pub(crate) fn set_label(&mut self, rix: Rix, label: Option<&Arc<str>>) {
        if self.resources[rix].label() == label {
            return;
        }
        self.account.total -= self.bytes_of_resource(rix);
        self.resource_mut(rix).extra_mut().label = label.map(Arc::clone);
        self.account.total += self.bytes_of_resource(rix);
    }

    /// Changes the fittings of a resource, with everything that follows from them.
    pub(crate) fn refit(&mut self, rix: Rix, change: impl FnOnce(&mut Fittings)) {
        self.account.total -= self.bytes_of_resource(rix);
        self.count_fittings(rix, false);
        let extra = self.resource_mut(rix).extra_mut();
        let mut fittings = extra.fittings.take().unwrap_or_default();
        change(&mut fittings);
        extra.fittings = Some(fittings).filter(|fittings| !fittings.is_empty());
        self.count_fittings(rix, true);
        self.account.total += self.bytes_of_resource(rix);
    }

    /// Counts the fittings of a resource, or no longer, and keeps the end of its pause in the order of time.
    fn count_fittings(&mut self, rix: Rix, more: bool) {
        let Some(fittings) = self.resources[rix].fittings() else { return };
        let until = fittings.pause.as_ref().map(|pause| pause.until);
        let (paused, out) = (usize::from(until.is_some()), fittings.out_of_service.len());
        let counted = self.count(rix);
        if more {
            counted.paused += paused;
            counted.out_of_service += out;
        } else {
            counted.paused -= paused;
            counted.out_of_service -= out;
        }
        if let Some(until) = until.filter(|&until| until != Time::NEVER && !planted!(PauseOutlivesItsEnd)) {
            if more {
                self.pauses.insert((until, rix));
            } else {
                self.pauses.remove(&(until, rix));
            }
        }
    }

    pub(crate) fn take_slot(&mut self, rix: Rix, slot: u32, cix: Cix) {
        let before = self.resources[rix].slots.highest();
        self.resources[rix].slots.take(slot, cix);
        self.account.total += (self.resources[rix].slots.highest() - before) * SLOT;
    }

    pub(crate) fn free_slot(&mut self, rix: Rix, slot: u32, cix: Cix) {
        let before = self.resources[rix].slots.highest();
        self.resources[rix].slots.free(slot, cix);
        self.account.total -= (before - self.resources[rix].slots.highest()) * SLOT;
    }

    /// Puts a claim that ended, or a lock that lapsed, into the order of retention.
    pub(crate) fn retain(&mut self, cix: Cix) {
        let claim = &self.claims[cix];
        let ended = claim.ended().expect("a retained claim says when it ended");
        let (entry, is_keyed) = ((ended.at, claim.order, cix), claim.key().is_some());
        self.retained.insert(entry, is_keyed);
        self.account.retained += self.bytes_of_claim(cix);
    }

    /// Takes it out again; does nothing for all other claims.
    pub(crate) fn unretain(&mut self, cix: Cix) {
        let claim = &self.claims[cix];
        if !claim.is_retained() {
            return;
        }
        let ended = claim.ended().expect("a retained claim says when it ended");
        let (entry, is_keyed) = ((ended.at, claim.order, cix), claim.key().is_some());
        let was_there = self.retained.remove(&entry, is_keyed);
        assert!(was_there, "a retained claim is in the order of retention");
        self.account.retained -= self.bytes_of_claim(cix);
    }

    /// A claim that was handed back no longer stands for its idempotency key.
    pub(crate) fn drop_key(&mut self, cix: Cix) {
        self.forget_name(cix);
        let before = self.bytes_of_claim(cix);
        self.claim_mut(cix).extra_mut().key = None;
        if !planted!(AccountDrifts) {
            self.account.total -= before - self.bytes_of_claim(cix);
        }
    }
}
