//! How a story writes down what happened. One line a change, an effect, an answer; claims by the names the story gave
//! them. Everything that a change or an answer carries is shown, so that every difference is noticed.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_engine::{
    Answer, Change, ClaimId, ClaimStatus, ClaimView, Effect, FenceView, FittingsView, Holder, HolderLine, HolderState,
    HoldingView, Inspection, Lease, LeaseView, LockNews, LockView, NamedSlot, Names as EffectNames, OutOfServiceView,
    Particulars, PauseView, PlaceView, Refusal, Reply, ResourceKey, ResourceLine, ResourceView, Time, WaiterLine, Wall,
    What,
};

use crate::words::duration;

/// The reading of the wall clock when service time is zero; stories show times since then.
pub(crate) const WALL_START: u64 = 1_700_000_000_000_000;

pub(crate) struct Names {
    pub(crate) claims: BTreeMap<ClaimId, String>,
}

impl Names {
    pub(crate) fn claim(&self, id: ClaimId) -> &str {
        self.claims.get(&id).map_or("(unnamed)", String::as_str)
    }

    pub(crate) fn change(&self, change: &Change) -> String {
        match change {
            Change::Marked => "marked".into(),
            Change::Jumped { last_token } => format!("jumped, tokens above {}", last_token.0),
            Change::Configured { resource, capacity } => format!("configured {}, capacity {capacity}", key(resource)),
            Change::Unconfigured { resource } => format!("unconfigured {}", key(resource)),
            Change::Labeled { resource, label } => {
                format!("labeled {}, {}", key(resource), label.as_deref().unwrap_or("not any more"))
            }
            Change::Confirmed { claim } => format!("confirmed {}", self.claim(*claim)),
            Change::Claimed(claimed) => {
                let wait = match claimed.wait_until {
                    Time::NEVER => String::new(),
                    until if claimed.keep_us == 0 => format!(", waits until {}", time(until)),
                    until => format!(", waits until {}, kept {}", time(until), duration(claimed.keep_us)),
                };
                let client = claimed.client.as_ref().map_or(String::new(), |client| format!(", client {client}"));
                let principal = claimed.principal.as_ref().map_or(String::new(), |name| format!(", principal {name}"));
                let key_said = claimed.key.as_ref();
                let idempotent = key_said.map_or(String::new(), |k| format!(", key {}/{}", k.name, k.fingerprint));
                let metadata = claimed.metadata.as_ref().map_or(String::new(), |json| format!(", metadata {json}"));
                let (name, on) = (self.claim(claimed.claim), key(&claimed.resource));
                let said =
                    format!("{wait}{client}{principal}{idempotent}{metadata}{}", particulars(&claimed.particulars));
                format!("claimed {name} on {on}, ttl {}{said}", duration(claimed.ttl_us))
            }
            Change::Kept { claim, wait_until } => format!("kept {}, until {}", self.claim(*claim), time(*wait_until)),
            Change::Joined { claim, wait_until } => {
                format!("joined {}, waits until {}", self.claim(*claim), time(*wait_until))
            }
            Change::Granted { claim, slot, token, lease: l } => {
                format!("granted {}, slot {slot}, token {token}, {}", self.claim(*claim), lease(*l))
            }
            Change::Renewed { claim, lease: l } => format!("renewed {}, {}", self.claim(*claim), lease(*l)),
            Change::Retimed { claim, ttl_us } => format!("retimed {}, ttl {}", self.claim(*claim), duration(*ttl_us)),
            Change::GraceBegan { claim } => format!("grace began for {}", self.claim(*claim)),
            Change::GraceOver { claim } => format!("grace over for {}", self.claim(*claim)),
            Change::Ended { claim, how } => format!("ended {}, {how:?}", self.claim(*claim)),
            Change::Forgotten { claim } => format!("forgotten {}", self.claim(*claim)),
            Change::Paused { resource, reason, until } => {
                format!("paused {}, until {}: {reason}", key(resource), time(*until))
            }
            Change::Resumed { resource } => format!("resumed {}", key(resource)),
            Change::SlotServed { resource, slot, out } => {
                let how = out.as_ref().map_or("in service".into(), |reason| format!("out of service: {reason}"));
                format!("slot {slot} of {} {how}", key(resource))
            }
            Change::SlotsNamed { resource, slots } => {
                let slots = slots.as_ref().map_or("not any more".into(), |slots| named_slots(slots));
                format!("slots of {} named, {slots}", key(resource))
            }
        }
    }

    pub(crate) fn effect(&self, effect: &Effect) -> String {
        let who = effect.claim.map_or_else(|| key(&effect.resource), |claim| self.claim(claim).to_string());
        let mut client = effect.client.as_ref().map_or(String::new(), |client| format!(" ({client})"));
        if let Some(names) = &effect.names {
            let EffectNames { holder, principal, label } = &**names;
            let named = [("holder", holder), ("principal", principal), ("label", label)];
            let named = named.into_iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
            client = format!("{client} ({})", named.collect::<Vec<_>>().join(", "));
        }
        let grant = effect.grant.map_or(String::new(), |grant| format!(", slot {}, token {}", grant.slot, grant.token));
        let what = match &effect.what {
            What::Configured { capacity } => format!("configured, capacity {capacity}"),
            What::Unconfigured => "unconfigured".into(),
            What::Paused { reason, for_us } => {
                let how_long = for_us.map_or("until resumed".into(), |us| format!("for {}", duration(us)));
                format!("paused {how_long}: {reason}")
            }
            What::Resumed { paused_us } => format!("resumed after {}", duration(*paused_us)),
            What::SlotServed { slot, out: None } => format!("slot {slot} in service"),
            What::SlotServed { slot, out: Some(reason) } => format!("slot {slot} out of service: {reason}"),
            What::Queued => format!("queued for {}", key(&effect.resource)),
            What::Granted { waited_us, ttl_us, from } => {
                let from = from.as_ref().map_or(String::new(), |from| format!(" from {from}"));
                format!("granted{from}{grant}, ttl {}, waited {}", duration(*ttl_us), duration(*waited_us))
            }
            What::Renewed { held_us, ttl_us } => {
                format!("renewed{grant}, ttl {}, held {}", duration(*ttl_us), duration(*held_us))
            }
            What::GraceBegan { held_us } => format!("grace began{grant}, held {}", duration(*held_us)),
            What::GraceOver => format!("grace over{grant}"),
            What::Ended { how, held_us, late_us } => {
                let held = held_us.map_or("never held".into(), |held_us| format!("held {}", duration(held_us)));
                let late = if *late_us == 0 { String::new() } else { format!(", {} late", duration(*late_us)) };
                format!("ended {how:?}{grant}, {held}{late}")
            }
        };
        format!("{who}{client} {what}")
    }

    /// One line, or several for lists.
    pub(crate) fn answer(&self, answer: &Answer) -> Vec<String> {
        match answer {
            Ok(Reply::Claims(page)) => {
                let next = page.next.map_or("no more".into(), |next| format!("more after {next}"));
                let claims = page.claims.iter().map(|view| format!("= {}", self.claim_view(view)));
                claims.chain([format!("= {} claims, {next}", page.claims.len())]).collect()
            }
            Ok(Reply::Resources(page)) => {
                let views = &page.resources;
                let shown = views.iter().map(|view| format!("= {}", self.resource_view(view)));
                shown.chain([format!("= {} resources", views.len())]).collect()
            }
            Ok(Reply::Survey(page)) => {
                let next = page.next.as_ref().map_or("no more".into(), |next| format!("more after {}", key(next)));
                let lines = page.lines.iter().map(|line| format!("= {}", resource_line(line)));
                lines.chain([format!("= {} resources, {next}", page.lines.len())]).collect()
            }
            Ok(Reply::Inspection(inspection)) => self.inspection(inspection),
            Ok(reply) => vec![format!("= {}", self.reply(reply))],
            Err(refusal) => vec![format!("! {}", self.refusal(refusal))],
        }
    }

    pub(crate) fn reply(&self, reply: &Reply) -> String {
        match reply {
            Reply::Resource(view) => self.resource_view(view),
            Reply::Unconfigured(there_was) => format!("unconfigured: {there_was}"),
            Reply::Lease(view) => self.lease_view(view),
            Reply::Returned(was_held) => format!("returned: {was_held}"),
            Reply::Lock(view, news) => {
                let news = match news {
                    LockNews::Seen => "seen".into(),
                    LockNews::Acquired { from: None } => "acquired".into(),
                    LockNews::Acquired { from: Some(from) } => format!("acquired from {from}"),
                    LockNews::Renewed => "renewed".into(),
                };
                format!("{news}: {}", self.lock_view(view))
            }
            Reply::Unlocked => "unlocked".into(),
            Reply::Spent(had) => format!("spent: {had:?}"),
            Reply::Place(place) => {
                let PlaceView { seen, queue_position, waiting, holder, eta_us } = &**place;
                let at = queue_position.map_or("not in line".into(), |at| format!("number {at} in line"));
                let holder = holder.as_ref().map_or(String::new(), |holder| format!(", held by {holder}"));
                format!("{at}, {waiting} waiting{holder}{}: {}", eta(*eta_us), self.reply(seen))
            }
            Reply::Holding(view) => {
                let HoldingView { capacity, in_use, waiting, latest, holder, keyed, pause: halt } = &**view;
                let show = |view: &Option<ClaimView>| {
                    view.as_ref().map_or_else(|| "none".to_owned(), |view| self.claim_view(view))
                };
                let (holder, keyed) = (show(holder), show(keyed));
                format!(
                    "{in_use} of {capacity} held, {waiting} waiting, the latest is {latest}; held by {holder}; of the key: {keyed}{}",
                    pause(halt.as_ref())
                )
            }
            Reply::Claim(view) => self.claim_view(view),
            Reply::ClaimEnded(how) => format!("claim ended: {how:?}"),
            Reply::Waiting(claim) => format!("waiting as {}", self.claim(*claim)),
            Reply::Done => "done".into(),
            Reply::Resumed(there_was) => format!("resumed: {there_was}"),
            Reply::Revoked(was_held) => format!("revoked: {was_held}"),
            Reply::Fence(FenceView { is_current, latest }) => {
                format!("{}, the latest is {latest}", if *is_current { "current" } else { "not current" })
            }
            Reply::Claims(_) | Reply::Resources(_) | Reply::Survey(_) | Reply::Inspection(_) => {
                unreachable!("lists take several lines")
            }
        }
    }

    pub(crate) fn refusal(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::NoneFree { waiting, eta_us, pause: halt } => {
                format!("none free, {waiting} waiting{}{}", eta(*eta_us), pause(halt.as_deref()))
            }
            Refusal::NoSuchSlot { capacity } => format!("no such slot, there are {capacity}"),
            Refusal::SlotHeld { slot, name } => format!("slot {slot} ({name:?}) is held"),
            Refusal::SlotsNamed { capacity } => format!("{capacity} slots have names"),
            Refusal::TooManyOutOfService { limit } => format!("too many out of service, limit {limit}"),
            Refusal::Locked { lock, in_grace, eta_us } => {
                let what = if *in_grace { "in grace" } else { "locked" };
                format!("{what}{}: {}", eta(*eta_us), self.lock_view(lock))
            }
            Refusal::TakenOut => "taken out of the queue".into(),
            Refusal::Ended(how) => format!("ended: {how:?}"),
            Refusal::OverQuota { is_about_waiting: true, limit } => format!("over the quota of {limit} waiting"),
            Refusal::OverQuota { is_about_waiting: false, limit } => format!("over the quota of {limit} claims"),
            Refusal::StoreFull => "the store is full".into(),
            Refusal::TooManyWaiting { limit } => format!("too many waiting, limit {limit}"),
            Refusal::StateFull { limit_bytes } => format!("the state is full, limit {limit_bytes} bytes"),
            Refusal::TooManyClaims { limit } => format!("too many claims, limit {limit}"),
            Refusal::TooManyResources { limit } => format!("too many resources, limit {limit}"),
            Refusal::NoSuchResource => "no such resource".into(),
            Refusal::NoSuchClaim => "no such claim".into(),
            Refusal::NotHeld { how: None } => "not held".into(),
            Refusal::NotHeld { how: Some(how) } => format!("not held: {how:?}"),
            Refusal::NotTheHolder => "not the holder".into(),
            Refusal::StillWaiting => "still waiting".into(),
            Refusal::Contended => "contended".into(),
            Refusal::KeyReused => "key reused".into(),
            Refusal::EndedUntold { how } => format!("ended untold: {how:?}"),
            Refusal::KeySpent { how } => format!("key spent: {how:?}"),
        }
    }

    fn inspection(&self, inspection: &Inspection) -> Vec<String> {
        let Inspection { line, configured, latest_token, holders, queue, out_of_service } = inspection;
        let how = if *configured { "configured" } else { "by default" };
        let head = format!("= {}, {how}, latest token {latest_token}", resource_line(line));
        let who = |client: Option<&Arc<str>>, claim: Option<ClaimId>, metadata: Option<&Arc<str>>| {
            let claim = claim.map(|claim| self.claim(claim).to_string());
            let known =
                [Some(String::new()), client.map(ToString::to_string), claim, metadata.map(ToString::to_string)];
            known.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        let holders = holders.iter().map(|holder| {
            let HolderLine {
                slot,
                slot_name,
                token,
                client,
                holder,
                owner,
                claim,
                since,
                held_us,
                ttl_us,
                remaining_us,
                metadata,
                state,
            } = holder;
            let who = who(client.as_ref(), *claim, metadata.as_ref()) + &named(holder.as_ref(), owner.as_ref());
            let state = match state {
                HolderState::Active => String::new(),
                HolderState::Grace { remaining_us } => format!(", in grace for {}", duration(*remaining_us)),
                HolderState::Lapsed => ", lapsed".into(),
            };
            let (since, so_far) = (wall(*since), duration(*held_us));
            let (ttl, left) = (duration(*ttl_us), duration(*remaining_us));
            let slot_name = slot_name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
            format!("= slot {slot}{slot_name}:{who}, token {token}, since {since}, held {so_far}, {left} of {ttl} left{state}")
        });
        let queue = queue.iter().enumerate().map(|(nth, waiter)| {
            let WaiterLine { client, holder, owner, claim, order, waiting_us, eta_us, metadata } = waiter;
            let who = who(client.as_ref(), *claim, metadata.as_ref()) + &named(holder.as_ref(), owner.as_ref());
            let (waits, eta) = (duration(*waiting_us), eta(*eta_us));
            format!("= place {}:{who}, #{order}, waits for {waits}{eta}", nth + 1)
        });
        let out = out_of_service.iter().map(|out| format!("= {}", out_of_service_view(out)));
        [head].into_iter().chain(holders).chain(queue).chain(out).collect()
    }

    fn lease_view(&self, view: &LeaseView) -> String {
        let LeaseView { claim, slot, token, deadline, now: _, named } = view;
        let named = named.as_ref().map_or(String::new(), |named| format!(" {}", named_slot(named)));
        format!("lease {}, slot {slot}{named}, token {token}, until {}", self.claim(*claim), time(*deadline))
    }

    fn lock_view(&self, view: &LockView) -> String {
        let halt = pause(view.pause.as_deref());
        view.holder.as_ref().map_or(format!("{} held by nobody{halt}", view.job), |holder| {
            let (job, client, token) = (&view.job, &holder.client, holder.token);
            let (until, grace) = (time(holder.deadline), time(holder.grace_until));
            format!(
                "{job} held by {client} as {}, token {token}, until {until}, grace {grace}{halt}",
                self.claim(holder.claim)
            )
        })
    }

    fn resource_view(&self, view: &ResourceView) -> String {
        let how = if view.configured { "configured" } else { "by default" };
        let counts = format!("capacity {} {how}, {} in use, {} waiting", view.capacity, view.in_use, view.waiting);
        let list = |name: &str, list: &[Holder]| {
            if list.is_empty() { String::new() } else { format!(", {name} {}", self.holders(list)) }
        };
        let label = view.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
        let fittings = view.fittings.as_deref().map_or(String::new(), fittings);
        format!(
            "{}{label}: {counts}{}{}{fittings}",
            key(&view.resource),
            list("holders", &view.holders),
            list("queue", &view.queue)
        )
    }

    fn holders(&self, list: &[Holder]) -> String {
        let each: Vec<String> = list.iter().map(|h| format!("{} {}", self.claim(h.claim), wall(h.since))).collect();
        format!("[{}]", each.join(", "))
    }

    fn claim_view(&self, view: &ClaimView) -> String {
        let status = match view.status {
            ClaimStatus::Waiting => "waiting".into(),
            ClaimStatus::Active => "active".into(),
            ClaimStatus::Ended(how) => format!("{how:?}"),
        };
        let mut parts = vec![format!("#{} {} on {}, {status}", view.order, self.claim(view.id), view.resource)];
        let mut add = |name: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{name} {value}")));
        };
        add("timeout", Some(duration(view.timeout_us)));
        add("ttl", view.ttl_us.map(duration));
        add("token", view.token.map(|token| token.to_string()));
        add("place", view.queue_position.map(|place| place.to_string()));
        add("behind", (!view.holders.is_empty()).then(|| self.holders(&view.holders)));
        add("waited", Some(duration(view.waiting_us)));
        add("was active", view.active_us.map(duration));
        add("owner", view.owner.as_ref().map(ToString::to_string));
        add("expected in", view.eta_us.map(duration));
        add("to be asked about within", Some(view.wait_ttl_us).filter(|&us| us > 0).map(duration));
        add("to be confirmed within", Some(view.confirm_us).filter(|&us| us > 0).map(duration));
        add("slot", view.slot.as_ref().map(|slot| format!("{} {}", slot.number, named_slot(&slot.named))));
        add("metadata", view.metadata.as_ref().map(ToString::to_string));
        parts.extend(view.pause.as_deref().map(|halt| pause(Some(halt)).split_off(2)));
        let mut history = vec![format!("created {}", wall(view.history.created))];
        history.extend(view.history.waited.then(|| "waiting".to_string()));
        history.extend(view.history.active.map(|at| format!("active {}", wall(at))));
        history.extend(view.history.ended.map(|(how, at)| format!("{how:?} {}", wall(at))));
        format!("{}, history [{}]", parts.join(", "), history.join(", "))
    }
}

fn resource_line(line: &ResourceLine) -> String {
    let ResourceLine {
        resource,
        capacity,
        in_use,
        waiting,
        state,
        longest_wait_us,
        next_expiry_us,
        holder,
        metadata,
        label,
        texts,
        pause: halt,
        out_of_service,
        ..
    } = line;
    let label = label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
    let mut parts = vec![format!("{}{label} {}", key(resource), state.as_str())];
    parts.push(format!("{in_use} of {capacity} in use, {waiting} waiting"));
    parts.extend(longest_wait_us.map(|us| format!("longest {}", duration(us))));
    parts.extend(next_expiry_us.map(|us| format!("next expiry in {}", duration(us))));
    parts.extend(holder.as_ref().map(|client| format!("holder {client}")));
    parts.extend(metadata.as_ref().map(|metadata| format!("its metadata {metadata}")));
    parts.extend((*out_of_service > 0).then(|| format!("{out_of_service} out of service")));
    parts.extend(halt.as_deref().map(|halt| pause(Some(halt)).split_off(2)));
    parts.extend((!texts.is_empty()).then(|| format!("texts {texts:?}")));
    parts.join(", ")
}

fn particulars(of: &Particulars) -> String {
    let Particulars { holder, wait_ttl_us, confirm_us } = of;
    let holder = holder.as_ref().map_or(String::new(), |holder| format!(", holder {holder}"));
    let time = |what: &str, us: u64| if us == 0 { String::new() } else { format!(", {what} {}", duration(us)) };
    format!("{holder}{}{}", time("wait ttl", *wait_ttl_us), time("to be confirmed within", *confirm_us))
}

fn pause(view: Option<&PauseView>) -> String {
    let Some(PauseView { reason, since, rest_us, is_by_slots }) = view else { return String::new() };
    let what = if *is_by_slots { "out of service" } else { "paused" };
    let rest = rest_us.map_or(String::new(), |us| format!(" for {}", duration(us)));
    format!(", {what} since {}{rest}: {reason}", wall(*since))
}

fn fittings(view: &FittingsView) -> String {
    let FittingsView { pause: halt, out_of_service, slots } = view;
    let out = out_of_service.iter().map(|out| format!(", {}", out_of_service_view(out)));
    let slots = slots.as_ref().map_or(String::new(), |slots| format!(", slots {}", named_slots(slots)));
    format!("{}{}{slots}", pause(halt.as_ref()), out.collect::<String>())
}

fn out_of_service_view(view: &OutOfServiceView) -> String {
    let OutOfServiceView { slot, reason, since } = view;
    format!("slot {slot} out of service since {}: {reason}", wall(*since))
}

fn named_slots(slots: &[NamedSlot]) -> String {
    format!("[{}]", slots.iter().map(named_slot).collect::<Vec<_>>().join(", "))
}

fn named_slot(slot: &NamedSlot) -> String {
    format!("{}={}", slot.name, slot.data.as_deref().unwrap_or("nothing"))
}

fn eta(eta_us: Option<u64>) -> String {
    eta_us.map_or(String::new(), |us| format!(", expected in {}", duration(us)))
}

fn named(holder: Option<&Arc<str>>, owner: Option<&Arc<str>>) -> String {
    let holder = holder.map_or(String::new(), |holder| format!(" (holder {holder})"));
    holder + &owner.map_or(String::new(), |owner| format!(" (owner {owner})"))
}

/// Pools have letters for names.
pub(crate) fn key(resource: &ResourceKey) -> String {
    match resource {
        ResourceKey::Pool(id) => {
            let letter = u32::try_from(*id).ok().and_then(char::from_u32).expect("a pool's id is a letter");
            format!("pool {letter}")
        }
        ResourceKey::Claim(name) => format!("claimed {name}"),
        ResourceKey::Lock(name) => format!("lock {name}"),
    }
}

pub(crate) fn time(at: Time) -> String {
    if at == Time::NEVER { "never".into() } else { duration(at.0) }
}

fn wall(at: Wall) -> String {
    at.0.checked_sub(WALL_START)
        .map_or_else(|| format!("@-{}", duration(WALL_START - at.0)), |since| format!("@{}", duration(since)))
}

fn lease(lease: Lease) -> String {
    let grace = if lease.grace_us == 0 { String::new() } else { format!(", grace {}", duration(lease.grace_us)) };
    format!("until {}{grace}", time(lease.deadline))
}
