//! Holds the account of bytes against the memory that the process really has, shape by shape. Each is filled, thinned
//! out to a fifth in no particular order, and filled again with something else, as the worst that callers could do.
//!
//! `cargo run --release -p leasehold-engine --example bytes -- [MiB of state, 200]`

#![expect(clippy::cast_possible_truncation, reason = "ids are random, any of their bits will do")]

use std::sync::Arc;

use leasehold_engine::{
    Acquire, ClaimId, Command, Engine, IdempotencyKey, Labeling, Limits, Moment, Options, Outbox, Patience, Quota,
    ResourceKey, Time, Wall,
};

const SHAPES: [Shape; 7] = [
    Shape { name: "leases, 1000 a pool", kind: Kind::Lease { a_pool: 1000 }, key: 0, client: 0, metadata: 0 },
    Shape { name: "leases, one a pool", kind: Kind::Lease { a_pool: 1 }, key: 0, client: 0, metadata: 0 },
    Shape { name: "leases with keys and owners", kind: Kind::Lease { a_pool: 100 }, key: 36, client: 20, metadata: 0 },
    Shape { name: "locks", kind: Kind::Lock, key: 0, client: 12, metadata: 0 },
    Shape { name: "claims without metadata", kind: Kind::Claim, key: 0, client: 0, metadata: 0 },
    Shape { name: "claims with 200 bytes", kind: Kind::Claim, key: 36, client: 20, metadata: 200 },
    Shape { name: "claims with 16 KiB", kind: Kind::Claim, key: 0, client: 0, metadata: 16 * 1024 },
];

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    kind: Kind,
    key: usize,
    client: usize,
    metadata: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Lease { a_pool: u64 },
    Lock,
    Claim,
}

fn main() {
    let mib: u64 = std::env::args().nth(1).map_or(200, |text| text.parse().expect("a number of MiB"));
    // One shape per process: memory that an allocator kept from one shape would hide the needs of the next.
    if let (Some(first), Some(then)) = (std::env::args().nth(2), std::env::args().nth(3)) {
        let shape = |text: String| SHAPES[text.parse::<usize>().expect("the number of a shape")];
        measure(mib << 20, shape(first), shape(then));
        return;
    }
    println!("{:28} {:>9} {:>10} {:>10} {:>6}   then refilled with", "", "claims", "accounted", "resident", "ratio");
    let program = std::env::current_exe().expect("it runs");
    for first in 0..SHAPES.len() {
        let then = (first + SHAPES.len() - 1) % SHAPES.len();
        let args = [mib.to_string(), first.to_string(), then.to_string()];
        std::process::Command::new(&program).args(args).status().expect("it runs again");
    }
}

fn measure(max: u64, first: Shape, then: Shape) {
    let before = resident();
    let mut filling = Filling::new(max);
    filling.fill(first);
    print!("{:28} {}", first.name, filling.line(before));
    filling.thin_out();
    filling.fill(then);
    println!("   {}, {}", then.name, filling.line(before).trim_start());
}

struct Filling {
    engine: Engine,
    out: Outbox,
    made: u128,
    claims: Vec<(ResourceKey, ClaimId)>,
    now: Moment,
}

impl Filling {
    fn new(max: u64) -> Self {
        let limits = Limits { state_bytes_max: max, ..Limits::default() };
        let now = Moment { at: Time(1), wall: Wall(1) };
        Filling { engine: Engine::new(limits), out: Outbox::default(), made: 0, claims: Vec::new(), now }
    }

    /// Until there is no room.
    fn fill(&mut self, shape: Shape) {
        loop {
            self.made += 1;
            let id = scattered(self.made);
            let text = |len: usize| (len > 0).then(|| Arc::<str>::from(format!("{:0len$x}", self.made).as_str()));
            let (resource, patience) = match shape.kind {
                Kind::Lease { a_pool } => {
                    let pool = scattered(self.made / u128::from(a_pool) + (1 << 70)).0;
                    (ResourceKey::Pool(pool), Patience::For { wait_us: 0 })
                }
                Kind::Lock => (ResourceKey::Lock(format!("{:08x}", id.0 as u32).into()), Patience::For { wait_us: 0 }),
                Kind::Claim => (ResourceKey::Claim(format!("{:08x}", id.0 as u32).into()), Patience::Standing),
            };
            if matches!(shape.kind, Kind::Lease { .. }) {
                let configure =
                    Command::Configure { resource: resource.clone(), capacity: 1000, label: Labeling::Kept };
                if self.engine.handle(self.now, configure, &mut self.out).is_err() {
                    return;
                }
            }
            let acquire = Acquire {
                resource: resource.clone(),
                id,
                ttl_us: 3_600_000_000 + (id.0 as u64) % 3_600_000_000,
                patience,
                client: text(shape.client),
                principal: None,
                key: text(shape.key).map(|name| IdempotencyKey { name, fingerprint: 1 }),
                metadata: text(shape.metadata),
                quota: Quota::NONE,
                options: Options::default(),
            };
            let answer = self.engine.handle(self.now, Command::Acquire(Box::new(acquire)), &mut self.out);
            self.out.clear();
            if answer.is_err() {
                return;
            }
            self.claims.push((resource, id));
        }
    }

    /// Four of five claims end and are forgotten, in the order of their random ids.
    fn thin_out(&mut self) {
        self.claims.sort_unstable_by_key(|(_, id)| id.0);
        let claims = std::mem::take(&mut self.claims);
        for (nth, (resource, id)) in claims.into_iter().enumerate() {
            if nth % 5 == 0 {
                self.claims.push((resource, id));
                continue;
            }
            self.engine.prune_claim(self.now, id, &mut self.out);
            self.engine.prune_resource(self.now, &resource, &mut self.out);
            self.out.clear();
        }
        self.claims.shrink_to_fit();
    }

    fn line(&self, before: u64) -> String {
        let totals = self.engine.totals();
        let ours = (self.claims.capacity() * size_of::<(ResourceKey, ClaimId)>()) as u64;
        let resident = resident() - before - ours;
        let percent = resident * 100 / totals.state_bytes_used;
        let (accounted, resident) = (totals.state_bytes_used >> 10, resident >> 10);
        format!("{:>9} {accounted:>6} KiB {resident:>6} KiB {percent:>4} %", totals.claims)
    }
}

/// An id as a driver would draw it.
fn scattered(n: u128) -> ClaimId {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    x ^= x >> 61;
    ClaimId(x.wrapping_mul(0xd134_2543_de82_ef95_bf58_476d_1ce4_e5b9))
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
