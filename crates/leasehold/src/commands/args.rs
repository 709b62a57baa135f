//! The command lines of everything that looks at a service or changes it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::client::{ConnectArgs, duration};

pub(crate) const AFTER_HELP: &str = "\
Data goes to standard output, everything else to standard error; colours only on a terminal, and never with NO_COLOR.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 75 held by others, 69 no answer from the service.";

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people
    Table,
    /// JSON for programs
    Json,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// How to print data
    #[arg(long, value_enum, default_value_t = Output::Table, value_name = "FORM")]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LsArgs {
    /// Only names, digests and holders with this in them
    pub(crate) part: Option<String>,

    /// Only pool, claim or lock
    #[arg(long)]
    pub(crate) kind: Option<String>,

    /// Only free, held, contended, grace or lapsed
    #[arg(long)]
    pub(crate) state: Option<String>,

    /// name, waiting or expiry
    #[arg(long, default_value = "name")]
    pub(crate) sort: String,

    /// How many at most, all pages together
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// lock:NAME, claim:NAME or pool:DIGEST, as `leasehold ls` prints it; a plain NAME is a lock's, else a claim's
    pub(crate) key: String,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HistoryArgs {
    /// lock:NAME, claim:NAME or pool:DIGEST, as `leasehold ls` prints it; a plain NAME is a lock's, else a claim's
    pub(crate) key: String,

    /// Only the last so many events
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// Only this resource: a key or a name
    pub(crate) resource: Option<String>,

    /// Only pool, claim or lock
    #[arg(long)]
    pub(crate) kind: Option<String>,

    /// Begin after the event with this id
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,

    /// End after so many events
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AcquireArgs {
    /// The lock of this name
    #[arg(long, value_name = "NAME", required_unless_present_any = ["claim", "pool"], conflicts_with_all = ["claim", "pool"])]
    pub(crate) lock: Option<String>,

    /// The resource of this name
    #[arg(long, value_name = "RESOURCE", conflicts_with = "pool")]
    pub(crate) claim: Option<String>,

    /// A slot of the pool with this id
    #[arg(long, value_name = "UUID")]
    pub(crate) pool: Option<String>,

    /// How long it lasts without `leasehold renew`
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) ttl: Duration,

    /// How long to wait for it
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub(crate) wait: Duration,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HandleArgs {
    /// The handle that `leasehold acquire` printed; - reads it from standard input
    #[arg(env = "LEASEHOLD_HANDLE", hide_env_values = true)]
    pub(crate) handle: String,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool, and print its id, which is the only credential
    Create(PoolCreateArgs),
    /// Change how many slots a pool has
    Resize(PoolResizeArgs),
    /// Show how many slots are in use
    Show(PoolArgs),
    /// Delete a pool; its leases end
    Delete(PoolArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PoolCreateArgs {
    /// How many slots
    #[arg(long)]
    pub(crate) count: u32,

    /// The id [default: a random one]
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PoolResizeArgs {
    /// The pool's id
    pub(crate) id: String,

    /// How many slots; those above that are in use are not taken away
    #[arg(long)]
    pub(crate) count: u32,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PoolArgs {
    /// The pool's id
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RevokeArgs {
    /// lock:NAME, claim:NAME or pool:DIGEST
    pub(crate) key: String,

    /// The token of the grant to end, as `leasehold show` prints it
    #[arg(value_name = "FENCING_TOKEN")]
    pub(crate) grant: u64,

    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProofKeyCommand {
    /// Sign with a new key from now on; the public one before it stays at /.well-known/leasehold/jwks.json for a day
    Rotate(ProofKeyRotateArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ProofKeyRotateArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Address to listen on [default: a free port on this machine]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub(crate) listen: String,

    /// End after so long [default: when interrupted]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: Shell,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this directory [default: print the page of leasehold]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}
