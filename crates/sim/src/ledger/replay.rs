//! The model's own reading of every change, with the invariants a change must keep.

use leasehold_engine::{Change, ClaimId, Claimed, Ending, Kind, Lease, Moment};

use super::{Asks, Entry, EntryState, Fit, Held, LeaseLog, Ledger, News, Row, When, is_lock};
use crate::ledger::invariant::{self, Check, ensure};
use crate::sometimes::Rare;

impl Ledger {
    pub(super) fn replay(
        &mut self,
        moment: Moment,
        change: &Change,
        when: When,
        asks: &Asks,
        news: &mut News,
    ) -> Check {
        self.check_time(moment)?;
        let position = self.head;
        match change {
            Change::Marked => self.rare.hit(Rare::TimeMarkWritten),
            Change::Jumped { last_token } => {
                invariant::s03_tokens::on_jump(self.last_token, last_token.0)?;
                self.last_token = last_token.0;
            }
            Change::Configured { resource, capacity } => {
                let row = self.row(resource);
                let held = row.holders.len();
                let was_deleted = row.shapes.len() > 1 && !row.configured && resource.kind() == Kind::Pool;
                let is_raised = !row.queue.is_empty() && (*capacity as usize) > held;
                row.reshape(position, *capacity, true);
                row.refit(position, |fit| fit.out.retain(|slot| slot < capacity));
                self.rare.hit_if(is_raised, Rare::WaiterGrantedByRaise);
                self.rare.hit_if((*capacity as usize) < held, Rare::CapacityLoweredBelowHolders);
                self.rare.hit_if(was_deleted, Rare::PoolRecreated);
            }
            Change::Unconfigured { resource } => {
                invariant::s07_holder::on_delete(resource, asks)?;
                let kind = resource.kind();
                let row = self.row(resource);
                let is_empty = row.holders.is_empty() && row.queue.is_empty();
                let is_opened = row.holders.is_empty() && !row.queue.is_empty();
                row.reshape(position, Row::default_capacity(kind), false);
                row.refit(position, |fit| {
                    let paused_until = fit.paused_until.filter(|_| kind != Kind::Pool);
                    *fit = Fit { paused_until, ..Fit::default() };
                });
                self.rare.hit_if(is_opened, Rare::WaiterGrantedByUnconfigure);
                ensure(kind != Kind::Pool || is_empty, "S1", || "a deleted pool still has claims".to_owned())?;
            }
            Change::Claimed(claimed) => {
                self.replay_claimed(claimed, moment, when, asks)?;
                news.claimed.push((claimed.claim, when));
            }
            Change::Joined { claim, wait_until } => {
                let entry = self.entry(*claim)?;
                entry.seen = true;
                let was_away = std::mem::take(&mut entry.is_away);
                if entry.state == EntryState::Waiting {
                    entry.wait_until = entry.wait_until.max(*wait_until);
                }
                let is_owned = entry.client.is_some() && !is_lock(&entry.resource);
                self.rare.hit(Rare::TwoCallersOnOneClaim);
                self.rare.hit_if(was_away, Rare::KeptPlaceRejoined);
                self.rare.hit_if(is_owned, Rare::SharedByOwner);
                self.rare.hit_if(when.is_low, Rare::JoinedWhileDiskLow);
            }
            Change::Labeled { resource, .. } => {
                let configured = self.row(resource).configured;
                ensure(configured, "S7", || format!("{resource:?} has a label and no capacity"))?;
            }
            Change::Paused { resource, until, .. } => {
                let row = self.row(resource);
                let is_contended = !row.queue.is_empty();
                row.refit(position, |fit| fit.paused_until = Some(*until));
                self.rare.hit(Rare::ResourcePaused);
                self.rare.hit_if(is_contended, Rare::PausedWhileAwaited);
            }
            Change::Resumed { resource } => {
                let row = self.row(resource);
                invariant::s19_pauses::on_resumed(resource, row, moment, asks)?;
                let (is_awaited, is_by_time) = (!row.queue.is_empty(), row.fit.paused_until <= Some(moment.at));
                row.refit(position, |fit| fit.paused_until = None);
                self.rare.hit_if(is_awaited, Rare::WaiterGrantedByResume);
                self.rare.hit_if(is_by_time, Rare::PauseEndedByTime);
            }
            Change::SlotServed { resource, slot, out } => {
                let row = self.row(resource);
                invariant::s20_service::on_served(row, *slot)?;
                let is_held = row.holders.iter().any(|(held, _)| held == slot);
                row.refit(position, |fit| _ = if out.is_some() { fit.out.insert(*slot) } else { fit.out.remove(slot) });
                self.rare.hit_if(out.is_some() && is_held, Rare::HeldSlotOutOfService);
                self.rare.hit_if(out.is_none(), Rare::SlotBackInService);
            }
            Change::SlotsNamed { resource, slots } => {
                let row = self.row(resource);
                invariant::s21_names::on_named(row, slots.as_ref())?;
                let is_held = !row.holders.is_empty();
                row.refit(position, |fit| {
                    let before = fit.clone();
                    fit.slots.clone_from(slots);
                    let after = fit.clone();
                    fit.out.retain(|slot| before.name(*slot).is_none_or(|had| after.name(*slot) == Some(had)));
                });
                self.rare.hit(Rare::SlotsNamed);
                self.rare.hit_if(is_held, Rare::SlotsNamedWhileHeld);
            }
            Change::Kept { claim, wait_until } => {
                let epoch = self.epoch;
                let entry = self.entry(*claim)?;
                let is_asked_about = entry.wait_ttl_us > 0;
                if is_asked_about {
                    invariant::s18_attention::on_kept(*claim, entry, moment, *wait_until, epoch)?;
                    entry.kept = (moment.at, epoch);
                } else {
                    invariant::l2_waiters::on_kept(*claim, entry, *wait_until, moment)?;
                    entry.is_away = true;
                    news.kept.push((*claim, when));
                }
                entry.wait_until = *wait_until;
                self.rare.hit(if is_asked_about { Rare::ClaimAskedAbout } else { Rare::PlaceKept });
            }
            Change::Confirmed { claim } => {
                let entry = self.entry(*claim)?;
                invariant::s18_attention::on_confirmed(*claim, entry, position)?;
                entry.confirmed = Some(position);
                self.rare.hit(Rare::GrantSeenByItsCaller);
            }
            Change::Granted { claim, slot, token, lease } => {
                let held = Held { position, slot: *slot, token: token.0 };
                self.replay_granted(*claim, held, *lease, moment, when, asks)?;
            }
            Change::Renewed { claim, lease } => {
                let entry = self.entry(*claim)?;
                let was = entry.state;
                ensure(was.holds(), "S7", || format!("{claim:?} was renewed while {was:?}"))?;
                invariant::s07_holder::on_renewal(*claim, entry, asks)?;
                let is_confirmed = entry.is_unconfirmed_at(position);
                if is_confirmed {
                    entry.confirmed = Some(position);
                }
                entry.state = EntryState::Active;
                entry.is_away = false;
                entry.seen = true;
                entry.grace_us = lease.grace_us;
                entry.leases.push(LeaseLog {
                    position,
                    deadline: lease.deadline,
                    ttl_us: lease.deadline.since(moment.at),
                    when,
                });
                self.rare.hit_if(is_confirmed, Rare::GrantConfirmed);
                self.rare.hit_if(when.is_low, Rare::RenewedWhileDiskLow);
                self.rare.hit_if(was == EntryState::Grace, Rare::LockRenewedInGrace);
                self.rare.hit_if(was == EntryState::Lapsed, Rare::LockRenewedAfterGrace);
            }
            Change::Retimed { claim, ttl_us } => self.entry(*claim)?.ttl_us = *ttl_us,
            Change::GraceBegan { claim } => {
                let entry = self.entry(*claim)?;
                ensure(entry.state == EntryState::Active, "S7", || format!("grace of {claim:?}, {:?}", entry.state))?;
                invariant::s08_lease::on_expiry_in_journal(*claim, entry, moment)?;
                invariant::s09_stalls::on_expiry(*claim, entry, when)?;
                entry.state = EntryState::Grace;
                news.expired.push((*claim, position, when));
            }
            Change::GraceOver { claim } => {
                let entry = self.entry(*claim)?;
                invariant::s08_lease::on_grace_over(*claim, entry, moment)?;
                entry.state = EntryState::Lapsed;
            }
            Change::Ended { claim, how } => self.replay_ended(*claim, *how, moment, when, asks, news)?,
            Change::Forgotten { claim } => {
                let entry = self.entry(*claim)?;
                let gone = matches!(entry.state, EntryState::Ended(_) | EntryState::Lapsed);
                ensure(gone, "S4", || format!("{claim:?} was forgotten while {:?}", entry.state))?;
                entry.forgotten = Some(position);
                if entry.state == EntryState::Lapsed {
                    entry.state = EntryState::Ended(Ending::Expired);
                    entry.ended = Some((position, Ending::Expired));
                    let key = entry.resource.clone();
                    self.live.remove(claim);
                    self.row(&key).holders.retain(|(_, holder)| holder != claim);
                }
                self.rare.hit(Rare::ClaimForgotten);
            }
        }
        Ok(())
    }

    fn replay_claimed(&mut self, claimed: &Claimed, moment: Moment, when: When, asks: &Asks) -> Check {
        let Claimed { claim, resource, ttl_us, wait_until, keep_us, client, key, particulars, .. } = claimed;
        invariant::s13_keys::on_claimed(self, claimed, asks)?;
        let entry = Entry {
            resource: resource.clone(),
            claimed: self.head,
            epoch: self.epoch,
            claimed_us: when.world_us,
            ttl_us: *ttl_us,
            wait_until: *wait_until,
            keep_us: *keep_us,
            is_away: false,
            wait_ttl_us: particulars.wait_ttl_us,
            confirm_us: particulars.confirm_us,
            kept: (moment.at, self.epoch),
            asked: None,
            confirmed: None,
            client: client.clone(),
            key: key.clone(),
            state: EntryState::Waiting,
            seen: false,
            granted: None,
            leases: Vec::new(),
            grace_us: 0,
            ended: None,
            forgotten: None,
        };
        if let Some(before) = self.claims.insert(*claim, entry) {
            // A relay whose clock stood still may ask again for what was granted and ended meanwhile.
            let is_over = self.is_relayed && before.ended.is_some();
            ensure(is_over, "S13", || format!("{claim:?} was claimed twice"))?;
            self.claimed_before.push((*claim, before));
        }
        self.live.insert(*claim);
        self.row(resource).queue.push(*claim);
        Ok(())
    }

    fn replay_granted(
        &mut self,
        claim: ClaimId,
        held: Held,
        lease: Lease,
        moment: Moment,
        when: When,
        asks: &Asks,
    ) -> Check {
        let key = self.entry(claim)?.resource.clone();
        let last_token = self.last_token;
        let row = self.row(&key);
        invariant::s19_pauses::on_grant(row)?;
        invariant::s20_service::on_grant(row, held.slot)?;
        invariant::s01_capacity::on_grant(row)?;
        invariant::s02_slots::on_grant(row, held.slot)?;
        invariant::s03_tokens::on_grant(row, last_token, held.token)?;
        invariant::s12_order::on_grant(row, claim)?;
        row.queue.retain(|waiting| *waiting != claim);
        row.holders.push((held.slot, claim));
        row.last_token = held.token;
        self.last_token = held.token;
        let (position, epoch) = (self.head, if self.is_relayed { 0 } else { self.epoch });
        let entry = self.entry(claim)?;
        invariant::l7_gone::on_grant(claim, entry, epoch)?;
        invariant::l7_gone::on_grant_to_kept(claim, entry, lease, moment)?;
        let is_away = entry.is_away;
        invariant::s05_releases::on_grant(claim, entry)?;
        invariant::s14_unknown::on_grant(claim, entry, asks)?;
        entry.state = EntryState::Active;
        entry.granted = Some(held);
        entry.grace_us = lease.grace_us;
        let ttl_us = lease.deadline.since(moment.at);
        entry.leases.push(LeaseLog { position, deadline: lease.deadline, ttl_us, when });
        self.rare.hit_if(is_away, Rare::KeptPlaceGranted);
        Ok(())
    }

    fn replay_ended(
        &mut self,
        claim: ClaimId,
        how: Ending,
        moment: Moment,
        when: When,
        asks: &Asks,
        news: &mut News,
    ) -> Check {
        let (position, epoch) = (self.head, self.epoch);
        let entry = self.entry(claim)?;
        let was = entry.state;
        let is_unconfirmed = how == Ending::Expired && entry.is_unconfirmed_at(position);
        let mut is_forgotten = false;
        let is_live = !matches!(was, EntryState::Ended(_));
        ensure(is_live, "S7", || format!("{claim:?} ended twice: {was:?}, then {how:?}"))?;
        match how {
            Ending::Expired => {
                invariant::s08_lease::on_expiry_in_journal(claim, entry, moment)?;
                invariant::s09_stalls::on_expiry(claim, entry, when)?;
                news.expired.push((claim, position, when));
            }
            Ending::TimedOut => invariant::l2_waiters::on_timeout(claim, entry, moment)?,
            Ending::Released | Ending::Revoked | Ending::Aborted => {
                invariant::s07_holder::on_release(claim, entry, how, asks)?;
            }
            Ending::Withdrawn if entry.wait_ttl_us > 0 && !asks.revocations.contains(&claim) => {
                invariant::s18_attention::on_withdrawal(claim, entry, moment, when, epoch)?;
                news.withdrawn.push((claim, when));
                is_forgotten = true;
            }
            Ending::Withdrawn => news.withdrawn.push((claim, when)),
            Ending::HandedBack => {
                invariant::s04_grants::on_hand_back(claim, entry, asks)?;
                if entry.keep_us > 0 && was == EntryState::Waiting {
                    news.forgotten.push(claim);
                }
            }
            Ending::Superseded => invariant::s08_lease::on_superseded(claim, entry)?,
            Ending::Deleted => invariant::s07_holder::on_delete(&entry.resource, asks)?,
        }
        entry.state = EntryState::Ended(how);
        entry.ended = Some((position, how));
        let is_shared = entry.seen;
        let key = entry.resource.clone();
        self.live.remove(&claim);
        let row = self.row(&key);
        let was_next = row.queue.first() == Some(&claim);
        let waiting = row.queue.len();
        row.holders.retain(|(_, holder)| *holder != claim);
        row.queue.retain(|waiting| *waiting != claim);
        let rare = &mut self.rare;
        rare.hit_if(how == Ending::Withdrawn && waiting > 2 && !was_next, Rare::WaiterLeftFromTheMiddle);
        rare.hit_if(how == Ending::TimedOut, Rare::WaiterTimedOut);
        rare.hit_if(is_forgotten, Rare::ClaimNotAskedAbout);
        rare.hit_if(is_unconfirmed, Rare::GrantNotConfirmed);
        let is_given_up = asks.given_up.contains(&claim);
        rare.hit_if(how == Ending::HandedBack && is_given_up, Rare::HandedBackAfterStoreLate);
        rare.hit_if(how == Ending::HandedBack && is_shared, Rare::SharedHandedBack);
        rare.hit_if(how == Ending::Superseded, Rare::LockSuperseded);
        rare.hit_if(how == Ending::Deleted && was == EntryState::Waiting, Rare::WaiterDeletedWithPool);
        rare.hit_if(how == Ending::Deleted && was == EntryState::Active, Rare::PoolDeletedWhileHeld);
        // The next waiter that fits is granted in the same step.
        let is_passed_on = was.holds() && waiting > 0;
        rare.hit_if(is_passed_on && how == Ending::Released, Rare::WaiterGrantedByRelease);
        rare.hit_if(is_passed_on && how == Ending::Expired, Rare::WaiterGrantedByExpiry);
        rare.hit_if(is_passed_on && how == Ending::HandedBack, Rare::WaiterGrantedByHandBack);
        rare.hit_if(is_passed_on && how == Ending::Superseded, Rare::WaiterGrantedAfterGrace);
        Ok(())
    }
}
