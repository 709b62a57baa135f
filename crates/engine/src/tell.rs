//! The effect of a change, made from the change and the state before it. New changes and changes read back from the
//! journal both come through here, so that a retelling of the past equals what was told then.

use std::sync::Arc;

use crate::change::{Change, Ending};
use crate::effect::{Effect, Grant, Names, What};
use crate::ids::{ClaimId, ResourceKey};
use crate::state::Cix;
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

impl Engine {
    /// Tells, applies and writes down a change. No other function does all three.
    pub(crate) fn commit(&mut self, now: Moment, change: Change, out: &mut Outbox) {
        self.commit_after(now, change, None, out);
    }

    /// The same for a grant that follows a client that let the lock lapse.
    pub(crate) fn commit_after(&mut self, now: Moment, change: Change, from: Option<Arc<str>>, out: &mut Outbox) {
        let effect = self.effect_of(now, &change, from);
        self.state.apply(now, &change);
        out.changes.push(change);
        if let Some(effect) = effect {
            out.tell(effect);
        }
    }

    /// Tells that a new claim was not granted at once.
    pub(crate) fn tell_queued(&self, cix: Cix, out: &mut Outbox) {
        out.tell(self.effect_on(cix, None, What::Queued));
    }

    /// The effect of a change that is about to be applied. A new claim has an effect only if it has to wait, which the
    /// next change shows.
    fn effect_of(&self, now: Moment, change: &Change, from: Option<Arc<str>>) -> Option<Effect> {
        let held_us = |cix: Cix| now.at.since(self.state.claims[cix].granted_at);
        Some(match change {
            Change::Configured { resource, capacity } => {
                self.on_resource(resource, What::Configured { capacity: *capacity })
            }
            Change::Unconfigured { resource } => self.on_resource(resource, What::Unconfigured),
            Change::Paused { resource, reason, until } => {
                let for_us = (*until != Time::NEVER).then(|| until.since(now.at));
                self.on_resource(resource, What::Paused { reason: Arc::clone(reason), for_us })
            }
            Change::Resumed { resource } => {
                let rix = self.state.resource(resource).expect("only a known resource is resumed");
                let pause = self.state.resources[rix].fittings().and_then(|fittings| fittings.pause.as_ref());
                let paused_us = pause.map_or(0, |pause| now.at.since(pause.since.at));
                self.on_resource(resource, What::Resumed { paused_us })
            }
            Change::SlotServed { resource, slot, out } => {
                self.on_resource(resource, What::SlotServed { slot: *slot, out: out.clone() })
            }
            // Names and data are for holders: observers learn only that something was set.
            Change::SlotsNamed { resource, .. } => {
                let capacity = self.state.resource(resource).map_or(0, |rix| self.state.resources[rix].capacity);
                self.on_resource(resource, What::Configured { capacity })
            }
            Change::Labeled { resource, label } => {
                let capacity = self.state.resource(resource).map_or(0, |rix| self.state.resources[rix].capacity);
                let names = Names::of(None, None, label.as_ref());
                Effect { names, ..self.on_resource(resource, What::Configured { capacity }) }
            }
            Change::Granted { claim, slot, token, lease } => {
                let cix = self.state.expect_claim(*claim);
                let waited_us = now.at.since(self.state.claims[cix].created_at);
                let what = What::Granted { waited_us, ttl_us: lease.deadline.since(now.at), from };
                self.effect_on(cix, Some(Grant { slot: *slot, token: *token }), what)
            }
            Change::Renewed { claim, lease } => {
                let cix = self.state.expect_claim(*claim);
                let what = What::Renewed { held_us: held_us(cix), ttl_us: lease.deadline.since(now.at) };
                self.effect_on(cix, self.grant_of(cix), what)
            }
            Change::GraceBegan { claim } => {
                let cix = self.state.expect_claim(*claim);
                self.effect_on(cix, self.grant_of(cix), What::GraceBegan { held_us: held_us(cix) })
            }
            Change::GraceOver { claim } => {
                let cix = self.state.expect_claim(*claim);
                self.effect_on(cix, self.grant_of(cix), What::GraceOver)
            }
            Change::Ended { claim, how } => {
                let cix = self.state.expect_claim(*claim);
                let claim = &self.state.claims[cix];
                let late_us = if *how == Ending::Expired { now.at.since(claim.deadline) } else { 0 };
                let held_us = claim.is_granted().then(|| held_us(cix));
                self.effect_on(cix, self.grant_of(cix), What::Ended { how: *how, held_us, late_us })
            }
            Change::Marked
            | Change::Jumped { .. }
            | Change::Claimed(_)
            | Change::Joined { .. }
            | Change::Kept { .. }
            | Change::Confirmed { .. }
            | Change::Retimed { .. }
            | Change::Forgotten { .. } => return None,
        })
    }

    fn grant_of(&self, cix: Cix) -> Option<Grant> {
        let claim = &self.state.claims[cix];
        claim.is_granted().then_some(Grant { slot: claim.slot, token: claim.token })
    }

    fn effect_on(&self, cix: Cix, grant: Option<Grant>, what: What) -> Effect {
        let claim = &self.state.claims[cix];
        Effect {
            resource: self.state.resources[claim.resource].key.clone(),
            claim: Some(claim.id),
            client: claim.client().cloned(),
            names: Names::of(claim.holder(), claim.principal(), self.state.resources[claim.resource].label()),
            grant,
            what,
            nth: 0,
        }
    }

    fn on_resource(&self, resource: &ResourceKey, what: What) -> Effect {
        let label = self.state.resource(resource).and_then(|rix| self.state.resources[rix].label());
        let names = Names::of(None, None, label);
        Effect { resource: resource.clone(), claim: None, client: None, names, grant: None, what, nth: 0 }
    }
}

impl Outbox {
    /// Pushes the effect of the change that was made last.
    fn tell(&mut self, mut effect: Effect) {
        effect.nth = u32::try_from(self.changes.len()).expect("a step makes far fewer changes");
        self.effects.push(effect);
    }
}

/// Makes effects again from changes that are read back one after the other. `T` is where a change came from.
#[derive(Debug)]
pub struct Retelling<T> {
    /// A claim that the previous change made. Unless this change grants it, it waits.
    made: Option<(ClaimId, T)>,
    /// The client that let a lock lapse before another client took it: the next grant of the lock follows this client.
    superseded: Option<(ResourceKey, Arc<str>)>,
}

impl<T> Default for Retelling<T> {
    fn default() -> Self {
        Retelling { made: None, superseded: None }
    }
}

impl<T> Retelling<T> {
    /// Gives out the effects of `change`, which is about to be applied to `engine`, and those that the change before it
    /// left open.
    pub fn hear(&mut self, engine: &Engine, now: Moment, change: &Change, source: T, mut told: impl FnMut(T, Effect)) {
        if let Some((claim, made_by)) = self.made.take()
            && !matches!(change, Change::Granted { claim: granted, .. } if *granted == claim)
        {
            told(made_by, queued(engine, claim));
        }
        if let Change::Claimed(claimed) = change {
            self.made = Some((claimed.claim, source));
            return;
        }
        let from = match change {
            Change::Granted { claim, .. } => {
                let rix = engine.state.claims[engine.state.expect_claim(*claim)].resource;
                let key = &engine.state.resources[rix].key;
                self.superseded.take().filter(|(of, _)| of == key).map(|(_, client)| client)
            }
            _ => None,
        };
        let Some(effect) = engine.effect_of(now, change, from) else { return };
        if let (What::Ended { how: Ending::Superseded, .. }, Some(client)) = (&effect.what, &effect.client) {
            self.superseded = Some((effect.resource.clone(), Arc::clone(client)));
        }
        told(source, effect);
    }

    /// Ends the retelling: there are no more changes, and all of them were applied.
    pub fn finish(self, engine: &Engine, mut told: impl FnMut(T, Effect)) {
        if let Some((claim, source)) = self.made {
            told(source, queued(engine, claim));
        }
    }
}

fn queued(engine: &Engine, claim: ClaimId) -> Effect {
    engine.effect_on(engine.state.expect_claim(claim), None, What::Queued)
}
