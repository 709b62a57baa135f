//! The inhabitants of the world: nodes with their processes, clients with their beliefs, calls between them.

use std::sync::Arc;

use leasehold_engine::{ClaimId, Command, Kind, Patience, Reply, ResourceKey, Token};
use leasehold_journal::{Batch, CheckpointStart, ChunkWriter, Denial, Partition, StoreError, Ticket};

use super::Event;
use crate::history::Stamp;
use crate::ledger::When;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallId(pub(super) usize);

#[derive(Debug)]
pub(super) struct Node {
    pub(super) process: Option<Process>,
    /// Counts processes; events meant for another one are void.
    pub(super) incarnation: u64,
    pub(super) is_stopped: bool,
    pub(super) stopped_at_us: u64,
    pub(super) stop_seq: u64,
    /// The events that came while it was stopped, in order.
    pub(super) inbox: Vec<Event>,
    /// Millionths by which its clock is fast.
    pub(super) ppm: i64,
    pub(super) wall_offset_us: i64,
    /// Cut off from the store until then.
    pub(super) cut_until_us: u64,
    pub(super) is_starting: bool,
}

impl Node {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Node {
            process: None,
            incarnation: 0,
            is_stopped: false,
            stopped_at_us: 0,
            stop_seq: 0,
            inbox: Vec::new(),
            ppm: drift(rng),
            wall_offset_us: 1_700_000_000_000_000,
            cut_until_us: 0,
            is_starting: false,
        }
    }
}

/// Up to 200 millionths either way.
fn drift(rng: &mut Rng) -> i64 {
    i64::try_from(rng.below(401)).expect("small") - 200
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true by itself")]
pub(super) struct Process {
    pub(super) partition: Partition<CallId>,
    pub(super) store: usize,
    pub(super) started_us: u64,
    pub(super) tick_at_us: u64,
    pub(super) tick_seq: u64,
    /// It overslept.
    pub(super) is_pulse_late: bool,
    /// Until when it did.
    pub(super) overslept_us: u64,
    pub(super) in_flight: Option<InFlight>,
    pub(super) requests: u64,
    /// Ownership is certain until then, on its own clock (a cluster).
    pub(super) certain_until_us: u64,
    pub(super) is_closing: bool,
    /// Service time and when it was that, oldest first, since the last batch was taken.
    pub(super) log: Vec<(u64, When)>,
    /// Something that happened waits to become durable.
    pub(super) is_pending: bool,
    /// When its clock was last read, by the world's.
    pub(super) read_us: u64,
    pub(super) is_low: bool,
    /// The committer waits for the store, though nothing is appended.
    pub(super) is_keeping_up: bool,
    /// The pulse in this second: since when, how often it ran, and how often the partition was called otherwise.
    pub(super) pulse: Pulse,
    pub(super) appended: u64,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Claims whose callers were told 502 by this process.
    pub(super) given_up: Vec<ClaimId>,
    /// The position of its last answer.
    pub(super) told_at: u64,
    /// While something waits to become durable, or of being stopped: how much may still count as service.
    pub(super) append_allowance_us: u64,
    pub(super) stop_allowance_us: u64,
}

/// How often the pulse ran since a second began, and how often there was a reason to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    pub(super) since_us: u64,
    pub(super) ticks: u64,
    pub(super) asked: u64,
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) request: u64,
    pub(super) batch: Batch,
    pub(super) whens: Vec<When>,
    pub(super) since_us: u64,
    pub(super) attempts: u32,
    pub(super) checkpoint: Option<CheckpointStart>,
}

#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) chunk: ChunkWriter,
    pub(super) chunks: u32,
    pub(super) changed: bool,
}

/// Between a node and the store far away.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) node: usize,
    pub(super) incarnation: u64,
    pub(super) store: usize,
    pub(super) epoch: u64,
    /// The sender's own clock when it sent this.
    pub(super) sent_mono_us: u64,
    pub(super) what: Said,
    pub(super) is_stray: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Said {
    KeepAlive,
    Append { request: u64, batch: Arc<Batch>, whens: Arc<[When]>, attempt: u32 },
    Kept(bool),
    Appended { request: u64, result: Result<(), Arc<StoreError>> },
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: Arc<str>,
    pub(super) rng: Rng,
    pub(super) ppm: i64,
    pub(super) holdings: Vec<Holding>,
    /// Claims of the claims dialect that it knows of and that wait.
    pub(super) standing: Vec<ClaimId>,
    pub(super) retries: Vec<Retry>,
    pub(super) pending: usize,
    pub(super) keys: u64,
    pub(super) paused_until_us: u64,
    /// Keys it got something for: resource, key, claim.
    pub(super) got: Vec<(ResourceKey, Arc<str>, ClaimId)>,
    /// How often it asked, in calm weather, whether the service answers.
    pub(super) probes: usize,
}

impl Client {
    pub(super) fn new(n: usize, seed: u64, rng: &mut Rng) -> Self {
        Client {
            name: format!("c{n}").into(),
            rng: Rng::new(seed, 100 + n as u64),
            ppm: drift(rng),
            holdings: Vec::new(),
            standing: Vec::new(),
            retries: Vec::new(),
            pending: 0,
            keys: 0,
            paused_until_us: 0,
            got: Vec::new(),
            probes: 0,
        }
    }
}

/// A lease that a client believes it holds.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) resource: ResourceKey,
    pub(super) claim: ClaimId,
    pub(super) token: Token,
    pub(super) ttl_us: u64,
    /// Until then, its clock read by the world's.
    pub(super) until_us: u64,
    pub(super) told_us: u64,
    /// The position of the answer that told it.
    pub(super) position: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Retry {
    pub(super) command: Command,
    pub(super) listen_us: u64,
    pub(super) left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    Flying,
    AtServer(Option<Ticket>),
    /// Decided, and still inside the process.
    InChannel {
        untold: Option<ClaimId>,
    },
    OnWire,
    Over,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true by itself")]
pub(super) struct Call {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) incarnation: u64,
    pub(super) command: Command,
    pub(super) listen_us: u64,
    pub(super) sent_us: u64,
    pub(super) arrived: Option<When>,
    pub(super) state: CallState,
    /// The client no longer listens.
    pub(super) is_left: bool,
    /// … and the node knows.
    pub(super) is_hung_up: bool,
    /// Its silence proves nothing: its process ended with it, or before the changes that followed from its leaving were
    /// durable.
    pub(super) is_excused: bool,
    /// Its answer is taken in the instant it is sent, or not at all.
    pub(super) hangs_up_at_answer: bool,
    pub(super) answer: Option<(Result<Reply, Denial>, Stamp)>,
    /// When its client heard the answer.
    pub(super) heard_us: Option<u64>,
    pub(super) retries_left: u32,
}

impl Call {
    /// The id a new claim would get.
    pub(super) fn fresh(&self) -> Option<ClaimId> {
        match &self.command {
            Command::Acquire(acquire) => Some(acquire.id),
            _ => None,
        }
    }

    /// Inside a node, and not known to be gone.
    pub(super) fn is_inside(&self) -> bool {
        let is_inside = matches!(self.state, CallState::AtServer(_) | CallState::InChannel { .. });
        is_inside && !self.is_hung_up
    }

    /// How long it is ready to be parked.
    pub(super) fn waits_us(&self) -> u64 {
        match &self.command {
            Command::Acquire(acquire) => match acquire.patience {
                Patience::For { wait_us } => wait_us,
                Patience::Standing => self.listen_us,
            },
            _ => self.listen_us,
        }
    }

    /// The claim that its answer tells its caller of, if it asked for one.
    pub(super) fn told_of(&self) -> Option<ClaimId> {
        let (Command::Acquire(acquire), Some((Ok(reply), _))) = (&self.command, &self.answer) else { return None };
        match reply {
            Reply::Lease(view) => Some(view.claim),
            Reply::Claim(view) => Some(view.id),
            Reply::Lock(view, _) => {
                let holder = view.holder.as_ref()?;
                (Some(&holder.client) == acquire.client.as_ref()).then_some(holder.claim)
            }
            _ => None,
        }
    }

    /// Waits at a node that has no news for it.
    pub(super) fn is_parked(&self) -> bool {
        matches!(self.state, CallState::AtServer(Some(_))) && !self.is_hung_up
    }

    /// Returns whether its own wait is over by then, as far as the world's clock can tell: a node's may run a little
    /// faster.
    pub(super) fn has_waited(&self, until: When) -> bool {
        let Command::Acquire(acquire) = &self.command else { return false };
        let wait_us = match acquire.patience {
            Patience::For { wait_us } => wait_us,
            Patience::Standing => self.listen_us,
        };
        let waited_us = self.arrived.map_or(0, |arrived| until.world_us.saturating_sub(arrived.world_us));
        waited_us + waited_us / 1_000 >= wait_us
    }

    /// Returns whether this incarnation of this node answered it 502.
    pub(super) fn is_given_up_by(&self, node: usize, incarnation: u64) -> bool {
        let is_late = matches!(self.answer, Some((Err(Denial::StoreLate), _)));
        is_late && self.node == node && self.incarnation == incarnation
    }

    /// Returns whether this call may stand behind a claim of this resource, key and client.
    pub(super) fn may_stand_for(&self, claim: ClaimId, entry: &crate::ledger::Entry) -> bool {
        let Command::Acquire(acquire) = &self.command else { return false };
        let same_key = acquire.key.is_some() && acquire.key == entry.key;
        let same_client = acquire.resource.kind() == Kind::Lock && acquire.client == entry.client;
        acquire.resource == entry.resource && (acquire.id == claim || same_key || same_client)
    }
}
