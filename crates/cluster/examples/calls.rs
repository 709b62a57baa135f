//! How long a node works for one call, with a store in memory that answers at once: nanoseconds for each borrow and each
//! return, for numbers of callers and partitions. `cargo run --release -p leasehold-cluster --example calls`

use std::time::Instant;

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{Birth, Config, Done, Draw, Landing, Node, Op, Out, Partitions, SharedError, claim_id};
use leasehold_engine::{
    Acquire, ClaimId, Command, Labeling, Limits, Options, Patience, Quota, Reply, ResourceKey, Wall,
};
use leasehold_journal::{Clocks, PartitionLimits};

const CALLS: u64 = 200_000;

fn main() {
    println!("callers  partitions  ns/call  calls/append");
    for (callers, partitions) in [(64, 8), (256, 8), (256, 64), (1_024, 64)] {
        let mut world = World::new(partitions);
        world.settle();
        let before = world.appends;
        let began = Instant::now();
        let calls = world.borrow_and_return(callers);
        let ns = began.elapsed().as_nanos() / u128::from(calls);
        println!("{callers:>7}  {partitions:>10}  {ns:>7}  {:>12}", calls / (world.appends - before).max(1));
    }
}

struct World {
    node: Node,
    shelf: Shelf,
    life: Option<Life>,
    partitions: Partitions,
    now_us: u64,
    appends: u64,
    /// Calls to the store that were not carried out yet.
    asked: Vec<(u64, Op)>,
    answers: Vec<(u64, Option<ClaimId>)>,
}

impl World {
    fn new(partitions: u32) -> Self {
        let partitions = Partitions::new(partitions).expect("a power of two");
        let config = Config {
            address: "a".into(),
            birth: Birth { partitions: Some(partitions), format: 1, secret: [1; 32] },
            limits: Limits::default(),
            partition_limits: PartitionLimits {
                callers_max: 100_000,
                store_timeout_us: 10_000_000,
                backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
            },
            node_ttl_us: 3_000_000,
            settle_us: 5_000_000,
            beat_us: 1_000_000,
            look_us: 500_000,
            checkpoint_every: 8_192,
            forget_us: 3_600_000_000,
        };
        let mut drawn = 7_u128;
        let draw = Draw(Box::new(move || {
            drawn = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c5a_1111_2223).wrapping_add(1);
            drawn
        }));
        World {
            node: Node::new(config, draw),
            shelf: Shelf::default(),
            life: None,
            partitions,
            now_us: 1_000_000,
            appends: 0,
            asked: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn clocks(&self) -> Clocks {
        Clocks { mono_us: self.now_us, wall: Wall(self.now_us) }
    }

    /// Until the node owns every partition, and has given each a pool.
    fn settle(&mut self) {
        while !self.partitions.all().all(|partition| self.node.is_serving(partition)) {
            self.now_us += 25_000;
            self.node.tick(self.clocks());
            self.carry_out();
        }
        for pool in 0..4_096 {
            let resource = ResourceKey::Pool(pool);
            let partition = self.partitions.of(&resource);
            let command = Command::Configure { resource, capacity: 4, label: Labeling::Kept };
            self.node.call(self.clocks(), u64::MAX, partition, command.into());
            self.carry_out();
        }
        self.answers.clear();
    }

    /// Every caller borrows a slot, and gives it back when it has it.
    fn borrow_and_return(&mut self, callers: u64) -> u64 {
        let mut held = vec![None; usize::try_from(callers).expect("few")];
        let (mut calls, mut drawn) = (0, 0_u128);
        self.answers.extend((0..callers).map(|caller| (caller, None)));
        while calls < CALLS {
            let answered = std::mem::take(&mut self.answers);
            for (caller, claim) in answered {
                let pool = u128::from(caller) % 4_096;
                let resource = ResourceKey::Pool(pool);
                let partition = self.partitions.of(&resource);
                let slot = &mut held[usize::try_from(caller).expect("few")];
                let command = match claim.filter(|_| slot.is_none()) {
                    Some(claim) => {
                        *slot = Some(claim);
                        Command::Return { resource, claim }
                    }
                    None => {
                        *slot = None;
                        drawn += 0x1_0001;
                        let id = claim_id(&resource, drawn << 32 | u128::from(calls));
                        acquire(resource, id)
                    }
                };
                self.now_us += 5;
                self.node.call(self.clocks(), caller, partition, command.into());
                self.poll();
                calls += 1;
            }
            self.carry_out();
            if self.now_us % 50_000 < 5 * callers {
                self.node.tick(self.clocks());
                self.carry_out();
            }
        }
        calls
    }

    fn poll(&mut self) {
        while let Some(out) = self.node.poll() {
            match out {
                Out::Store(number, op) => self.asked.push((number, op)),
                Out::Answer(caller, answer) if caller != u64::MAX => {
                    let claim = match answer.answer {
                        Ok(Reply::Lease(view)) => Some(view.claim),
                        Ok(_) => None,
                        Err(denial) => panic!("{denial:?}"),
                    };
                    self.answers.push((caller, claim));
                }
                Out::Answer(..) | Out::Send(..) | Out::Happened(_) | Out::Ended | Out::WentBack { .. } => {}
            }
        }
    }

    /// Everything that was asked of the store, and what comes of it.
    fn carry_out(&mut self) {
        self.poll();
        while !self.asked.is_empty() {
            for (number, op) in std::mem::take(&mut self.asked) {
                let result = self.apply(op);
                self.node.handle_store(self.clocks(), number, result);
                self.poll();
            }
        }
    }

    fn apply(&mut self, op: Op) -> Result<Done, SharedError> {
        let life = self.life.ok_or_else(|| SharedError::Fenced("it has not joined".to_owned()));
        Ok(match op {
            Op::Join(record, birth) => {
                let (life, map) = self.shelf.join(&record, &birth)?;
                self.life = Some(life);
                Done::Map(map)
            }
            Op::Beat(record) => self.shelf.beat(life?, record).map(|()| Done::Yes)?,
            Op::Confirm => self.shelf.confirm(life?).map(|()| Done::Yes)?,
            Op::Map => Done::Map(self.shelf.map()?),
            Op::Bury(seen) => self.shelf.bury(&seen).map(|()| Done::Yes)?,
            Op::Forget(seen) => self.shelf.forget(&seen).map(|()| Done::Yes)?,
            Op::Take(taking) => Done::Reign(self.shelf.take(&taking)?),
            Op::LetGo(reign, at) => self.shelf.let_go(&reign, at).map(|()| Done::Yes)?,
            Op::Append(appends) => {
                self.appends += 1;
                let landings: Result<Vec<Landing>, _> =
                    appends.iter().map(|append| self.shelf.append(append)).collect();
                Done::Landings(landings?)
            }
            Op::Read(partition, cursor) => Done::Page(self.shelf.read(partition, cursor)?),
            Op::PutChunk(reign, id, number, chunk) => {
                self.shelf.put_chunk(&reign, id, number, chunk).map(|()| Done::Yes)?
            }
            Op::FinishCheckpoint(reign, id, chunks) => {
                self.shelf.finish_checkpoint(&reign, id, chunks).map(|()| Done::Yes)?
            }
            Op::Sweep(reign) => Done::More(self.shelf.sweep(&reign)?),
        })
    }
}

fn acquire(resource: ResourceKey, id: ClaimId) -> Command {
    Command::Acquire(Box::new(Acquire {
        id,
        resource,
        ttl_us: 30_000_000,
        patience: Patience::For { wait_us: 1_000_000 },
        client: None,
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
}
