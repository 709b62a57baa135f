//! Messages between nodes over links, and what a node wants of the world around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_engine::{ClaimId, Reply, Time};
use leasehold_journal::{Denial, Epoch, Happened, Position, Request};
use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::map::{Map, NodeRecord, Reign, Seen};
use crate::store::{Append, Birth, CheckpointId, Cursor, Landing, Life, Page, SharedError, Shelf, Taking};

/// Where a node is reached: its name for the others from its start to its end, through all its lives.
pub type PeerAddress = Arc<str>;

/// A message over a link. Messages of one link arrive in order or not at all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// A command for the owner of a partition. The node that gets it owns the partition in that epoch, or says `Moved`.
    Ask {
        /// The relay's number of the call.
        ask: u64,
        /// How often the relay has sent it: only the answer to the latest sending is heard.
        sending: u64,
        /// The partition.
        partition: u32,
        /// The epoch of the owner that it is for.
        epoch: Epoch,
        /// The command.
        request: Request,
    },
    /// The caller of an ask is gone.
    Leave {
        /// The relay's number of the call.
        ask: u64,
    },
    /// The answer to an ask.
    Answer {
        /// The relay's number of the call.
        ask: u64,
        /// The sending that it answers.
        sending: u64,
        /// The answer.
        answer: AskAnswer,
    },
    /// Every call for this partition that the sender stands for has been sent to this owner.
    Asked {
        /// The partition.
        partition: u32,
        /// The epoch of its owner.
        epoch: Epoch,
        /// The sender's life.
        node: NodeId,
    },
    /// The map has changed: read it.
    Look,
}

/// An answer, with its place in the order of things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskAnswer {
    /// The reply, or why there is none.
    pub answer: Result<Reply, Denial>,
    /// The epoch in which it was decided.
    pub epoch: Epoch,
    /// The last change that it saw.
    pub position: Position,
    /// Service time when it left its owner.
    pub at: Time,
    /// The claim that it tells its caller of: to be handed back if the caller cannot be told.
    pub untold: Option<ClaimId>,
}

/// A call to the store.
#[derive(Clone, Debug)]
pub enum Op {
    /// `SharedStore::join`.
    Join(NodeRecord, Birth),
    /// `SharedStore::beat`.
    Beat(NodeRecord),
    /// `SharedStore::confirm`.
    Confirm,
    /// `SharedStore::map`.
    Map,
    /// `SharedStore::bury`.
    Bury(Seen<NodeRecord>),
    /// `SharedStore::forget`.
    Forget(Seen<NodeRecord>),
    /// `SharedStore::take`.
    Take(Taking),
    /// `SharedStore::let_go`.
    LetGo(Reign, Time),
    /// `SharedStore::append`.
    Append(Vec<Append>),
    /// `SharedStore::read`.
    Read(u32, Cursor),
    /// `SharedStore::put_chunk`.
    PutChunk(Reign, CheckpointId, u32, Vec<u8>),
    /// `SharedStore::finish_checkpoint`.
    FinishCheckpoint(Reign, CheckpointId, u32),
    /// `SharedStore::sweep`.
    Sweep(Reign),
    /// `SharedStore::raise_format`.
    RaiseFormat(u16),
}

impl Op {
    /// Carries it out on a shelf, for the node that has this life. Lives that begin are added to those of all nodes.
    pub fn apply(
        &self,
        on: &mut Shelf,
        lives: &mut BTreeMap<NodeId, Life>,
        node: Option<NodeId>,
    ) -> Result<Done, SharedError> {
        let life = |node: Option<NodeId>| {
            node.and_then(|node| lives.get(&node)).ok_or_else(|| SharedError::Fenced("it never joined".to_owned()))
        };
        let yes = |()| Done::Yes;
        match self {
            Op::Join(record, birth) => {
                let (life, map) = on.join(record, birth)?;
                lives.entry(life.node).or_insert(life);
                Ok(Done::Map(map))
            }
            Op::Beat(record) => on.beat(*life(Some(record.node))?, record.clone()).map(yes),
            Op::Confirm => on.confirm(*life(node)?).map(yes),
            Op::Map => on.map().map(Done::Map),
            Op::Bury(seen) => on.bury(seen).map(yes),
            Op::Forget(seen) => on.forget(seen).map(yes),
            Op::Take(taking) => on.take(taking).map(Done::Reign),
            Op::LetGo(reign, at) => on.let_go(reign, *at).map(yes),
            Op::Append(appends) => {
                appends.iter().map(|append| on.append(append)).collect::<Result<_, _>>().map(Done::Landings)
            }
            Op::Read(partition, cursor) => on.read(*partition, *cursor).map(Done::Page),
            Op::PutChunk(reign, id, number, chunk) => on.put_chunk(reign, *id, *number, chunk.clone()).map(yes),
            Op::FinishCheckpoint(reign, id, chunks) => on.finish_checkpoint(reign, *id, *chunks).map(yes),
            Op::Sweep(reign) => on.sweep(reign).map(Done::More),
            Op::RaiseFormat(format) => on.raise_format(*format).map(yes),
        }
    }
}

/// The result of a call to the store.
#[derive(Clone, Debug)]
pub enum Done {
    /// Of a join, or a look at the map.
    Map(Map),
    /// Of calls that only succeed.
    Yes,
    /// Of a take.
    Reign(Reign),
    /// Of an append.
    Landings(Vec<Landing>),
    /// Of a read.
    Page(Page),
    /// Of a sweep: there is more.
    More(bool),
}

/// A wish of a node to the world around it.
#[derive(Clone, Debug)]
pub enum Out {
    /// Call the store, and hand the result back with this number.
    Store(u64, Op),
    /// Send a message. Without a link it is lost.
    Send(PeerAddress, Message),
    /// The answer to a call.
    Answer(u64, AskAnswer),
    /// Durable changes of a partition, for observers, in the order of its stream.
    Happened(Bulletin),
    /// The node has given everything away and may end.
    Ended,
    /// The store shows less than it did: a snapshot was restored, or an asynchronous standby was promoted. Writes that
    /// it had confirmed are gone. Tell the operator: an error in the log, and a metric. The node goes on by itself:
    /// every partition jumps to this epoch or a later one, and its tokens jump, before it serves.
    WentBack {
        /// A sentence about what the store showed.
        what: String,
        /// The epoch.
        epoch: Epoch,
    },
}

/// Durable changes of a partition. Every node hears of all of them: of its own from its engine, of others by following.
#[derive(Clone, Debug)]
pub struct Bulletin {
    /// The partition.
    pub partition: u32,
    /// Changes up to here are missing, as the stream no longer has them: what is known of the partition begins anew.
    pub gap: Option<Position>,
    /// In order, and later than all that came before.
    pub happened: Vec<Happened>,
    /// This node decided them.
    pub is_owner: bool,
}
