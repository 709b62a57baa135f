//! The benchmark: Leasehold beside a constant answer, Redis, PostgreSQL and etcd, in one run on one machine.
//!
//! ```text
//! peer ── starts and stops what is measured        script ── what is said on a connection, and checks the answers
//! drive ── the load generator, one thread          wire ── just enough of five protocols
//! workload ── the questions                        report ── ratios, tables, JSON, chart
//! ```

mod drive;
mod figures;
mod machine;
mod peer;
mod progress;
mod report;
mod script;
mod wire;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum, value_parser};

use crate::machine::Machine;
use crate::peer::{Contender, Running, Workspace};
use crate::progress::Progress;
use crate::report::Report;
use crate::workload::{Context, Match, Sizes};

/// Measures Leasehold beside its peers.
#[derive(Debug, Parser)]
#[command(name = "leasehold-bench", version)]
struct Args {
    /// Little of everything: shows that all of it works, in two minutes
    #[arg(long)]
    quick: bool,

    /// Directory for the data of all peers, on the disk to measure
    #[arg(long, value_name = "DIR", default_value = "target/bench-data")]
    dir: PathBuf,

    /// Directory for latest.json, latest.md and latest.svg
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,

    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,

    /// Only these peers
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    peers: Vec<Contender>,

    /// Throughput with these numbers of connections [default: 1,16,64,256,1024]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = value_parser!(u64).range(1..=4096))]
    connections: Vec<u64>,

    /// Another build of the service: compares it with this one, in memory and on disk, and nothing else
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,

    /// How often everything is repeated [default: 3, quick: 1, against: 20]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Throughput,
    Http2,
    Cluster,
    Latency,
    HandOver,
    Claims,
    Lock,
    Scale,
    Waiters,
    Expiry,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The peers that the wanted parts need.
    fn wanted_peers(&self) -> impl Iterator<Item = Contender> {
        let all: &[Contender] = if self.wants(Part::Throughput) || self.wants(Part::Latency) {
            &Contender::ALL
        } else if self.wants(Part::Http2) {
            &[Contender::Leasehold, Contender::LeaseholdMemory, Contender::RedisAlways]
        } else if self.wants(Part::HandOver) || self.wants(Part::Claims) || self.wants(Part::Lock) {
            &[Contender::Leasehold, Contender::LeaseholdMemory]
        } else {
            &[]
        };
        all.iter().copied().filter(|peer| self.peers.is_empty() || self.peers.contains(peer))
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leasehold-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A cluster beside the store that it uses, and nothing else on the machine.
fn clusters(args: &Args, context: &Context<'_>) -> Result<Vec<workload::Throughput>> {
    let mut peers = Vec::new();
    for peer in Contender::CLUSTERS.into_iter().filter(|peer| args.peers.is_empty() || args.peers.contains(peer)) {
        peers.push(Running::start(peer, context.place)?);
        context.progress.step(&format!("{} is up", peer.label()));
    }
    let mut sizes = context.sizes.clone();
    sizes.connections.retain(|connections| [64, 256].contains(connections));
    workload::throughput(&Context { peers: &peers, sizes: &sizes, ..*context })
}

fn run(args: &Args) -> Result<()> {
    let progress = Progress::new();
    let mut sizes = if args.quick { Sizes::quick() } else { Sizes::full() };
    sizes.rounds = args.rounds.unwrap_or(sizes.rounds).max(1);
    if !args.connections.is_empty() {
        sizes.connections.clone_from(&args.connections);
    }
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let binaries = std::env::current_exe()?.parent().context("a program is in a directory")?.to_owned();
    let place = Workspace { dir: args.dir.canonicalize()?, binaries };
    if let Some(other) = &args.against {
        let connections = if args.connections.is_empty() { &[64][..] } else { &args.connections };
        let rounds = args.rounds.unwrap_or(20).max(1);
        workload::against(&place, &progress, &Match { other, connections, rounds })?;
        std::fs::remove_dir_all(&place.dir)?;
        return Ok(());
    }
    let mut report = Report {
        quick: args.quick,
        took_s: 0,
        machine: Machine::look(&place.dir, sizes.syncs)?,
        throughput: Vec::new(),
        clusters: Vec::new(),
        http2: Vec::new(),
        latency: Vec::new(),
        hand_over: Vec::new(),
        claims: Vec::new(),
        lock: Vec::new(),
        scale: None,
        waiters: None,
        mass_expiry: None,
    };

    if report.machine.is_busy() {
        progress.step("this machine is busy with other things: the figures will not be worth comparing");
    }
    let mut peers = Vec::new();
    for peer in args.wanted_peers() {
        let running = Running::start(peer, &place)?;
        progress.step(&format!("{} listens on {}", peer.label(), running.addr));
        report.machine.peers.push((peer.label().to_owned(), running.version.clone()));
        peers.push(running);
    }
    let context = Context { sizes: &sizes, place: &place, peers: &peers, progress: &progress };
    if args.wants(Part::Throughput) {
        report.throughput = workload::throughput(&context)?;
    }
    if args.wants(Part::Http2) {
        report.http2 = workload::http2(&context)?;
    }
    if args.wants(Part::Latency) {
        report.latency = workload::latency(&context)?;
    }
    if args.wants(Part::HandOver) {
        report.hand_over = workload::hand_over(&context)?;
    }
    if args.wants(Part::Claims) {
        report.claims = workload::claims(&context)?;
    }
    if args.wants(Part::Lock) {
        report.lock = workload::lock(&context)?;
    }
    // The rest has services of its own, and the machine to itself.
    drop(peers);
    let context = Context { peers: &[], sizes: &sizes, place: &place, progress: &progress };
    // Nine processes beside each other are too much for a machine that is quick about everything else.
    if args.only.contains(&Part::Cluster) || (args.wants(Part::Cluster) && !args.quick) {
        report.clusters = clusters(args, &context)?;
    }
    if args.wants(Part::Scale) {
        report.scale = Some(workload::scale(&context)?);
    }
    if args.wants(Part::Waiters) {
        report.waiters = Some(workload::waiters(&context, report.machine.open_files_max)?);
    }
    if args.wants(Part::Expiry) {
        report.mass_expiry = Some(workload::mass_expiry(&context)?);
    }
    report.machine.fdatasync_after = Some(machine::fdatasync(&place.dir, sizes.syncs)?);
    std::fs::remove_dir_all(&place.dir)?;

    report.took_s = progress.elapsed_s();
    report.write(&args.out)?;
    println!("{}", report.tables());
    println!("written: {}", args.out.join("latest.{json,md,svg}").display());
    Ok(())
}
