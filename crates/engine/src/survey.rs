//! The views for an observer of the whole service: one line per resource, or one resource with all of its holders and
//! waiters. Views of a pool show no lease id, because lease ids are secrets.
//!
//! A survey may go over millions of resources, so it is taken in slices of bounded work; each line is true for the
//! moment it was written.

use std::ops::Bound;
use std::sync::Arc;

use crate::fact::Status;
use crate::fittings::{OutOfServiceView, PauseView};
use crate::ids::{ClaimId, Kind, ResourceKey, Token};
use crate::limits::{INSPECTED_QUEUE_MAX, SURVEYED_HOLDERS_MAX, SURVEYED_WAITERS_MAX};
use crate::state::{Cix, Claim, Rix, State};
use crate::time::{Moment, Wall};

/// How a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ResourceState {
    /// No claim holds it.
    Free,
    /// A claim holds it and none waits.
    Held,
    /// At least one claim waits.
    Contended,
    /// A lock whose holder may come back.
    Grace,
    /// A lock that any client may take, its last holder still visible.
    Lapsed,
}

impl ResourceState {
    /// All states, in the order of their counts.
    pub const ALL: [ResourceState; 5] = [
        ResourceState::Free,
        ResourceState::Held,
        ResourceState::Contended,
        ResourceState::Grace,
        ResourceState::Lapsed,
    ];

    /// The word that callers filter by.
    pub fn as_str(self) -> &'static str {
        match self {
            ResourceState::Free => "free",
            ResourceState::Held => "held",
            ResourceState::Contended => "contended",
            ResourceState::Grace => "grace",
            ResourceState::Lapsed => "lapsed",
        }
    }
}

/// A resource in one line.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ResourceLine {
    /// Its key.
    pub resource: ResourceKey,
    /// Its number of slots.
    pub capacity: u32,
    /// Slots that are held; zero for a lapsed lock.
    pub in_use: u32,
    /// Claims in its queue.
    pub waiting: u32,
    /// Its state.
    pub state: ResourceState,
    /// How long the first claim in the queue has waited.
    pub longest_wait_us: Option<u64>,
    /// Time until the clock alone changes the first of its holders: it expires, or its grace ends.
    pub next_expiry_us: Option<u64>,
    /// The ttl that holder's lease was granted or last renewed with, to compare that time with; `None` for a grace.
    pub next_expiry_ttl_us: Option<u64>,
    /// The name of the client in its lowest used slot: a lock's holder or last holder, the name that a pool's borrower
    /// gave itself, elsewhere the name it signed on with.
    pub holder: Option<Arc<str>>,
    /// The metadata of that claim, which may contain a name, too.
    pub metadata: Option<Arc<str>>,
    /// The name that people see in place of a pool's id.
    pub label: Option<Arc<str>>,
    /// Why nothing is granted, however many slots are free.
    pub pause: Option<Box<PauseView>>,
    /// The number of slots that are out of service.
    #[cfg_attr(feature = "serde", serde(default))]
    pub out_of_service: u32,
    /// The names, owners and metadata of its first holders and waiters, where a search asked for them.
    pub texts: Vec<Arc<str>>,
}

/// A slice of a survey.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SurveyPage {
    /// One line per resource, in the order of keys.
    pub lines: Vec<ResourceLine>,
    /// When the resources were looked at.
    pub now: Moment,
    /// Where to go on; `None` at the end.
    pub next: Option<ResourceKey>,
}

/// One resource in full.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Inspection {
    /// Its line in a survey.
    pub line: ResourceLine,
    /// `true` if a caller gave it its capacity, `false` if it is the default.
    pub configured: bool,
    /// The last token granted on it; zero before the first.
    pub latest_token: Token,
    /// By slot, the first of them.
    pub holders: Vec<HolderLine>,
    /// In order, the first of them.
    pub queue: Vec<WaiterLine>,
    /// Its slots that are out of service, by number.
    #[cfg_attr(feature = "serde", serde(default))]
    pub out_of_service: Vec<OutOfServiceView>,
}

/// One holder of an inspected resource.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HolderLine {
    /// Its slot, counted from 0.
    pub slot: u32,
    /// The name of the slot, where slots have names. Its data is for the holder alone.
    pub slot_name: Option<Arc<str>>,
    /// The fencing token of its grant, by which an operator can revoke it.
    pub token: Token,
    /// The lock's client, or the owner of the claim.
    pub client: Option<Arc<str>>,
    /// The name that a pool's borrower gave itself.
    pub holder: Option<Arc<str>>,
    /// The name that its caller signed on with.
    pub owner: Option<Arc<str>>,
    /// Its id, for the claims dialect, whose ids are no secrets.
    pub claim: Option<ClaimId>,
    /// When it was granted, by the wall clock.
    pub since: Wall,
    /// How long it has held the slot.
    pub held_us: u64,
    /// As requested, or the remaining time where a renewal made it longer.
    pub ttl_us: u64,
    /// The rest of the lease; zero once it has ended.
    pub remaining_us: u64,
    /// The caller's JSON.
    pub metadata: Option<Arc<str>>,
    /// Its state.
    pub state: HolderState,
}

/// How a holder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HolderState {
    /// Its lease runs.
    Active,
    /// A lock whose lease ended: its holder may come back for this long.
    Grace {
        /// The rest of the grace.
        remaining_us: u64,
    },
    /// A lock past its grace: any client may take it.
    Lapsed,
}

/// One waiter of an inspected resource.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaiterLine {
    /// The lock's client, or the owner of the claim.
    pub client: Option<Arc<str>>,
    /// The name that a pool's borrower gave itself.
    pub holder: Option<Arc<str>>,
    /// The name that its caller signed on with.
    pub owner: Option<Arc<str>>,
    /// Its id, for the claims dialect, whose ids are no secrets.
    pub claim: Option<ClaimId>,
    /// Its place in the order of creation, by which an operator can take it out of the queue.
    pub order: u64,
    /// How long it has waited.
    pub waiting_us: u64,
    /// When it may expect a slot, as far as the past tells.
    pub eta_us: Option<u64>,
    /// The caller's JSON.
    pub metadata: Option<Arc<str>>,
}

/// The answer to a resource that guards itself and asks about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FenceView {
    /// `true` if the grant of this token holds a slot right now.
    pub is_current: bool,
    /// The last token granted; zero when the engine remembers nothing of the resource.
    pub latest: Token,
}

impl ResourceLine {
    pub(crate) fn let_pass(&mut self, elapsed_us: u64) {
        self.next_expiry_us = self.next_expiry_us.map(|left_us| left_us.saturating_sub(elapsed_us));
        self.pause.iter_mut().for_each(|pause| pause.let_pass(elapsed_us));
    }
}

impl Inspection {
    pub(crate) fn let_pass(&mut self, elapsed_us: u64) {
        self.line.let_pass(elapsed_us);
        for waiter in &mut self.queue {
            waiter.eta_us = waiter.eta_us.map(|eta_us| eta_us.saturating_sub(elapsed_us));
        }
        for holder in &mut self.holders {
            holder.remaining_us = holder.remaining_us.saturating_sub(elapsed_us);
            if let HolderState::Grace { remaining_us } = &mut holder.state {
                *remaining_us = remaining_us.saturating_sub(elapsed_us);
            }
        }
    }
}

impl State {
    pub(crate) fn view_fence(&self, now: Moment, resource: &ResourceKey, token: Token) -> FenceView {
        let Some(rix) = self.resource(resource) else { return FenceView { is_current: false, latest: Token(0) } };
        let holder = self.holder_by(rix, token).map(|cix| &self.claims[cix]);
        let is_current = holder.is_some_and(|claim| claim.status == Status::Active && claim.deadline > now.at);
        FenceView { is_current, latest: self.resources[rix].last_token }
    }

    pub(crate) fn view_survey(
        &self,
        now: Moment,
        after: Option<&ResourceKey>,
        scan_max: usize,
        with_texts: bool,
    ) -> SurveyPage {
        let mut lines = Vec::new();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked_at = 0;
        for (key, &rix) in self.by_key.range((start, Bound::Unbounded)) {
            if self.is_shown(rix) {
                let mut line = self.line(now, rix);
                if with_texts {
                    line.texts = self.texts(rix);
                    looked_at += (self.resources[rix].waiting as usize).min(SURVEYED_WAITERS_MAX);
                }
                lines.push(line);
            }
            looked_at += 1 + (self.resources[rix].slots.used() as usize).min(SURVEYED_HOLDERS_MAX);
            if looked_at >= scan_max {
                return SurveyPage { lines, now, next: Some(key.clone()) };
            }
        }
        SurveyPage { lines, now, next: None }
    }

    pub(crate) fn view_inspection(&self, now: Moment, rix: Rix) -> Inspection {
        let resource = &self.resources[rix];
        Inspection {
            line: self.line(now, rix),
            configured: resource.configured,
            latest_token: resource.last_token,
            holders: resource
                .slots
                .iter()
                .take(SURVEYED_HOLDERS_MAX)
                .map(|(_, cix)| self.holder_line(now, cix))
                .collect(),
            queue: self.waiter_lines(now, rix),
            out_of_service: resource.fittings().map_or(Vec::new(), |fittings| fittings.view(now.at).out_of_service),
        }
    }

    fn line(&self, now: Moment, rix: Rix) -> ResourceLine {
        let resource = &self.resources[rix];
        let first_holder = resource.slots.iter().next().map(|(_, cix)| &self.claims[cix]);
        // Only locks have these, and a single slot.
        let state = match first_holder.map(|claim| claim.status) {
            Some(Status::Grace) => ResourceState::Grace,
            Some(Status::Lapsed) => ResourceState::Lapsed,
            _ if resource.waiting > 0 => ResourceState::Contended,
            _ if resource.slots.used() > 0 => ResourceState::Held,
            _ => ResourceState::Free,
        };
        let holders = resource.slots.iter().take(SURVEYED_HOLDERS_MAX).map(|(_, cix)| (self.claims[cix].due_at(), cix));
        let first_due = holders.min_by_key(|&(due_at, _)| due_at).filter(|&(due_at, _)| due_at != crate::Time::NEVER);
        ResourceLine {
            resource: resource.key.clone(),
            capacity: resource.capacity,
            // A lapsed lock is held by no client.
            in_use: if state == ResourceState::Lapsed { 0 } else { resource.slots.used() },
            waiting: resource.waiting,
            state,
            longest_wait_us: resource.queue_head.some().map(|cix| now.at.since(self.claims[cix].created_at)),
            next_expiry_us: first_due.map(|(due_at, _)| due_at.since(now.at)),
            next_expiry_ttl_us: first_due
                .map(|(_, cix)| &self.claims[cix])
                .filter(|c| c.status == Status::Active)
                .map(|c| c.ttl_us.max(c.deadline.since(now.at))),
            holder: first_holder.and_then(|claim| claim.holder().or(claim.client()).cloned()),
            metadata: first_holder.and_then(|claim| self.shown_of(claim).1),
            label: resource.label().cloned(),
            pause: self.standstill(now, rix).map(Box::new),
            out_of_service: resource.capacity - resource.in_service(),
            texts: Vec::new(),
        }
    }

    fn holder_line(&self, now: Moment, cix: Cix) -> HolderLine {
        let claim = &self.claims[cix];
        let (id, metadata) = self.shown_of(claim);
        let granted_wall = claim.extra.as_deref().map(|extra| extra.granted_wall).filter(|&wall| wall != Wall(0));
        let remaining_us = claim.deadline.since(now.at);
        HolderLine {
            slot: claim.slot,
            slot_name: self.named_slot(claim).map(|named| Arc::clone(&named.name)),
            token: claim.token,
            client: claim.client().cloned(),
            holder: claim.holder().cloned(),
            owner: self.owner(cix).cloned(),
            claim: id,
            since: granted_wall.unwrap_or_else(|| now.wall_at(claim.granted_at)),
            held_us: now.at.since(claim.granted_at),
            ttl_us: claim.ttl_us.max(remaining_us),
            remaining_us,
            metadata,
            state: match claim.status {
                Status::Grace => HolderState::Grace { remaining_us: claim.due_at().since(now.at) },
                Status::Lapsed => HolderState::Lapsed,
                Status::Active | Status::Waiting | Status::Ended(_) => HolderState::Active,
            },
        }
    }

    fn waiter_lines(&self, now: Moment, rix: Rix) -> Vec<WaiterLine> {
        let outlook = self.outlook(now, rix);
        let waiters = (1..).zip(self.queue(rix).take(INSPECTED_QUEUE_MAX));
        let line = |(position, cix): (u32, Cix)| {
            let claim = &self.claims[cix];
            let (id, metadata) = self.shown_of(claim);
            WaiterLine {
                client: claim.client().cloned(),
                holder: claim.holder().cloned(),
                owner: self.owner(cix).cloned(),
                claim: id,
                order: claim.order,
                waiting_us: now.at.since(claim.created_at),
                eta_us: outlook.as_ref().map(|outlook| outlook.eta_us(position)),
                metadata,
            }
        };
        waiters.map(line).collect()
    }

    /// The texts that a search looks into. Only references to them are taken while the engine serves no other caller.
    fn texts(&self, rix: Rix) -> Vec<Arc<str>> {
        let holders = self.resources[rix].slots.iter().take(SURVEYED_HOLDERS_MAX).map(|(_, cix)| cix);
        let claims = holders.chain(self.queue(rix).take(SURVEYED_WAITERS_MAX)).map(|cix| &self.claims[cix]);
        let metadata = |claim: &Claim| claim.extra.as_deref().and_then(|extra| extra.metadata.clone());
        let of = |claim| {
            [Claim::client(claim).cloned(), claim.holder().cloned(), claim.principal().cloned(), metadata(claim)]
        };
        claims.flat_map(of).flatten().collect()
    }

    /// The id of a claim, for the kind where it is public, and its metadata.
    fn shown_of(&self, claim: &Claim) -> (Option<ClaimId>, Option<Arc<str>>) {
        let is_public = self.kind(claim.resource) == Kind::Claim;
        (is_public.then_some(claim.id), claim.extra.as_deref().and_then(|extra| extra.metadata.clone()))
    }
}
