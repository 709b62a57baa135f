//! Agreement on the format of the cluster: a command that some living node does not know is refused, and the first one
//! that all of them know raises the format before it is asked. Then no node of an earlier version can join any more.
//!
//! Until that first command the cluster can go back to the version before.

use leasehold_journal::{Clocks, Denial, Request};

use super::Node;
use crate::map::Map;
use crate::message::{Op, Out};
use crate::relay::denied;

/// Calls that wait for the format to be raised.
const HELD_MAX: usize = 1_024;
/// So long they wait at most.
const HELD_MAX_US: u64 = 5_000_000;
/// A node of an earlier build joins in two steps: it reads the format, and writes its record this much later at most.
/// The map is looked at again after that. A node that is slower follows nothing, and serves nothing.
const JOINING_US: u64 = 1_000_000;

/// A call that needs a later format than the cluster uses.
#[derive(Debug)]
struct Held {
    caller: u64,
    partition: u32,
    request: Request,
    needed: u16,
    since_us: u64,
}

/// How far the nodes agree.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// Commands of formats up to this one may be asked.
    agreed: u16,
    /// Since when the facts of the cluster have named a later format than `agreed`.
    raised_at_us: Option<u64>,
    is_raising: bool,
    held: Vec<Held>,
}

impl Agreement {
    pub(super) fn raised(&mut self) {
        self.is_raising = false;
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

impl Node {
    /// The format that the nodes agree on, as far as this node knows.
    pub fn agreed_format(&self) -> u16 {
        self.agreement.agreed
    }

    /// Takes a call that needs a later format. It is asked when the nodes have agreed, and refused while they cannot.
    pub(super) fn hold(&mut self, clocks: Clocks, caller: u64, partition: u32, request: Request, needed: u16) {
        if self.agreement.held.len() >= HELD_MAX {
            self.out.push_back(Out::Answer(caller, denied(Denial::Overloaded)));
            return;
        }
        let since_us = clocks.mono_us;
        self.agreement.held.push(Held { caller, partition, request, needed, since_us });
        self.look_due_us = 0;
    }

    /// A caller left. Returns whether its call was held.
    pub(super) fn release_held(&mut self, caller: u64) -> bool {
        let before = self.agreement.held.len();
        self.agreement.held.retain(|held| held.caller != caller);
        self.agreement.held.len() < before
    }

    /// After a look at the map.
    pub(super) fn agree(&mut self, clocks: Clocks, is_first: bool) {
        let Some(map) = &self.map else { return };
        let format = map.meta.format;
        let known = known_by_all(map);
        let agreement = &mut self.agreement;
        if format > agreement.agreed {
            let raised_at_us = *agreement.raised_at_us.get_or_insert(clocks.mono_us);
            // At a node's first look the raising may be long past, and is taken for that.
            if known >= format && (is_first || clocks.mono_us >= raised_at_us + JOINING_US) {
                (agreement.agreed, agreement.raised_at_us) = (format, None);
            }
        }
        if agreement.held.is_empty() {
            return;
        }
        let wanted = agreement.held.iter().map(|held| held.needed).filter(|needed| *needed <= known).max();
        let (agreed, held) = (agreement.agreed, std::mem::take(&mut agreement.held));
        if let Some(wanted) = wanted.filter(|wanted| *wanted > format && !agreement.is_raising) {
            agreement.is_raising = true;
            self.ask_store(Op::RaiseFormat(wanted));
        }
        for held in held {
            if held.needed <= agreed {
                self.relay_call(clocks, held.caller, held.partition, held.request);
            } else if held.needed > known || clocks.mono_us >= held.since_us + HELD_MAX_US {
                self.out.push_back(Out::Answer(held.caller, denied(Denial::EarlierVersion)));
            } else {
                self.agreement.held.push(held);
            }
        }
    }
}

/// The highest format that every living node understands.
fn known_by_all(map: &Map) -> u16 {
    map.living().map(|record| record.speaks.1).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use leasehold_engine::{Command, Limits};
    use leasehold_journal::PartitionLimits;

    use super::*;
    use crate::hash::Partitions;
    use crate::message::Done;
    use crate::node::{Config, Draw};
    use crate::store::{Birth, Fut, MemoryStore, SharedError, SharedStore as _};

    const S_US: u64 = 1_000_000;

    fn now<T>(future: Fut<'_, T>) -> Result<T, SharedError> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => unreachable!("a store in memory answers at once"),
        }
    }

    struct Machine {
        node: Node,
        store: MemoryStore,
        answers: Vec<(u64, Denial)>,
    }

    impl Machine {
        fn start(store: &MemoryStore, number: u128, format: u16) -> Machine {
            let birth = Birth { partitions: Partitions::new(1), format, secret: [0; 32] };
            let config = Config {
                address: format!("n{number}:1").into(),
                birth,
                limits: Limits::default(),
                partition_limits: PartitionLimits {
                    callers_max: 1_000,
                    store_timeout_us: 5 * S_US,
                    backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
                },
                node_ttl_us: 3 * S_US,
                settle_us: 0,
                beat_us: S_US,
                look_us: S_US / 5,
                checkpoint_every: 100,
                forget_us: 3_600 * S_US,
            };
            let mut next = number << 64;
            let draw = Draw(Box::new(move || {
                next += 1;
                next
            }));
            Machine { node: Node::new(config, draw), store: store.connect(), answers: Vec::new() }
        }

        /// Time passes, and the store does what the node asks for. Its partitions are of no interest here.
        fn step(&mut self, mono_us: u64) {
            let clocks = Clocks { mono_us, ..Clocks::default() };
            self.node.tick(clocks);
            while let Some(out) = self.node.poll() {
                match out {
                    Out::Store(number, op) => {
                        let yes = |()| Done::Yes;
                        let result = match op {
                            Op::Join(me, birth) => now(self.store.join(me, birth)).map(Done::Map),
                            Op::Beat(me) => now(self.store.beat(me)).map(yes),
                            Op::Map => now(self.store.map()).map(Done::Map),
                            Op::Bury(seen) => now(self.store.bury(seen)).map(yes),
                            Op::RaiseFormat(format) => now(self.store.raise_format(format)).map(yes),
                            _ => Err(SharedError::Away("of no interest".to_owned())),
                        };
                        self.node.handle_store(clocks, number, result);
                    }
                    Out::Answer(caller, answered) => {
                        self.answers.extend(answered.answer.err().map(|denial| (caller, denial)));
                    }
                    _ => {}
                }
            }
        }

        /// A caller's command that needs this format.
        fn call(&mut self, mono_us: u64, caller: u64, needed: u16) {
            let clocks = Clocks { mono_us, ..Clocks::default() };
            self.node.hold(clocks, caller, 0, Command::Mark.into(), needed);
        }

        fn format(&self) -> u16 {
            now(self.store.map()).unwrap().meta.format
        }
    }

    fn run(machines: &mut [Machine], from_us: u64, to_us: u64) {
        for at_us in (from_us..to_us).step_by(20_000) {
            for machine in &mut *machines {
                machine.step(at_us);
            }
        }
    }

    #[test]
    fn a_command_of_a_later_format_is_refused_while_a_living_node_does_not_know_it() {
        let store = MemoryStore::new();
        let mut machines = [Machine::start(&store, 1, 1), Machine::start(&store, 2, 2)];
        run(&mut machines, 0, S_US);
        machines[1].call(S_US, 7, 2);
        run(&mut machines, S_US, 2 * S_US);
        assert_eq!(machines[1].answers, [(7, Denial::EarlierVersion)]);
        assert_eq!(
            (machines[1].format(), machines[1].node.agreed_format()),
            (1, 1),
            "so the version before can come back"
        );
    }

    #[test]
    fn the_first_command_that_all_know_raises_the_format_and_shuts_earlier_versions_out() {
        let store = MemoryStore::new();
        let mut first = [Machine::start(&store, 1, 1)];
        run(&mut first, 0, S_US);
        let mut machines = [Machine::start(&store, 2, 2), Machine::start(&store, 3, 2)];
        // The node of the earlier version dies, is silent, and is buried.
        run(&mut machines, S_US, 8 * S_US);
        assert_eq!(machines[0].format(), 1, "nothing needed more");
        machines[0].call(8 * S_US, 7, 2);
        machines[0].call(8 * S_US, 8, 3);
        assert!(machines[0].node.release_held(7), "a caller that leaves takes its call with it");
        machines[0].call(8 * S_US, 9, 2);
        run(&mut machines, 8 * S_US, 9 * S_US);
        assert_eq!(machines[0].answers, [(8, Denial::EarlierVersion)], "no node knows format 3");
        assert_eq!((machines[0].format(), machines[0].node.open_calls()), (2, 1), "raised, and not used at once");
        run(&mut machines, 9 * S_US, 11 * S_US);
        assert_eq!(machines.each_ref().map(|machine| machine.node.agreed_format()), [2, 2]);
        let mut late = Machine::start(&store, 4, 1);
        late.step(11 * S_US);
        assert!(late.node.life().is_none(), "a node that does not understand the format cannot join");
    }

    #[test]
    fn a_call_does_not_wait_for_ever_and_not_too_many_do() {
        let store = MemoryStore::new();
        let mut machines = [Machine::start(&store, 1, 2)];
        run(&mut machines, 0, S_US);
        machines[0].node.agreement.agreed = 1;
        machines[0].node.map.as_mut().unwrap().meta.format = 1;
        for caller in 0..=HELD_MAX as u64 {
            machines[0].call(S_US, caller, 2);
        }
        machines[0].step(S_US);
        assert_eq!(machines[0].answers.first(), Some(&(HELD_MAX as u64, Denial::Overloaded)));
    }
}
