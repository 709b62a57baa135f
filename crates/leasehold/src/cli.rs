//! The command line, as text. `config` knows the meaning of the values and their other sources.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use leasehold_server::Partitions;

use crate::config::ServeArgs;

/// Lends locks, numbered slots and places in a queue over HTTP.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Serve until told to stop
    #[command(after_help = AFTER_HELP)]
    Serve(Box<ServeArgs>),
    /// Run a command while holding a lock, a claim or a slot of a pool
    #[cfg(unix)]
    #[command(after_help = crate::run::AFTER_HELP)]
    Run(Box<crate::run::RunArgs>),
    /// Run a command while holding something, on Linux and macOS only
    #[cfg(not(unix))]
    Run(crate::run_refused::RunArgs),
    /// Show the health of a service
    #[command(after_help = crate::commands::AFTER_HELP)]
    Status(crate::commands::StatusArgs),
    /// List resources that are held or waited for
    #[command(after_help = crate::commands::AFTER_HELP)]
    Ls(crate::commands::LsArgs),
    /// Show one resource: its holders and its queue
    #[command(after_help = crate::commands::AFTER_HELP)]
    Show(crate::commands::ShowArgs),
    /// Print events, live
    #[command(after_help = crate::commands::AFTER_HELP)]
    Watch(crate::commands::WatchArgs),
    /// Print the events of one resource
    #[command(after_help = crate::commands::AFTER_HELP)]
    History(crate::commands::HistoryArgs),
    /// Acquire a lease in a script, and print the handle that renew and release want
    #[command(after_help = crate::commands::AFTER_HELP)]
    Acquire(crate::commands::AcquireArgs),
    /// Renew a lease that acquire printed
    #[command(after_help = crate::commands::AFTER_HELP)]
    Renew(crate::commands::HandleArgs),
    /// Give back a lease that acquire printed
    #[command(after_help = crate::commands::AFTER_HELP)]
    Release(crate::commands::HandleArgs),
    /// Pools of numbered slots
    #[command(subcommand, after_help = crate::commands::AFTER_HELP)]
    Pool(crate::commands::PoolCommand),
    /// End a grant, no matter which client holds it
    #[command(after_help = crate::commands::AFTER_HELP)]
    Revoke(crate::commands::RevokeArgs),
    /// The key that signs proofs of holding
    #[command(subcommand, after_help = crate::commands::AFTER_HELP)]
    ProofKey(crate::commands::ProofKeyCommand),
    /// Check a service as a newcomer would, and say what to do
    #[command(after_help = crate::commands::AFTER_HELP)]
    Doctor(crate::commands::DoctorArgs),
    /// Start a throw-away server with callers that contend, to look at in a browser
    Demo(crate::commands::DemoArgs),
    /// Print completions for a shell
    Completions(crate::commands::CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(crate::commands::ManArgs),
    /// Verify a data directory, a backup or the shared store of a cluster, and print a summary
    Check(CheckArgs),
    /// Copy the data to one file, also while it is being served
    Backup(BackupArgs),
    /// Make a backup the data of a server again; tokens go on above all that were ever given out
    Restore(RestoreArgs),
    /// Move everything from a data directory into the shared store of a cluster, or back
    Migrate(MigrateArgs),
    /// List the claims and resources that a filter picks from the data of a stopped server, and with --yes remove them
    Prune(PruneArgs),
    /// Ask a server on this machine whether it is well (exit code 0), for containers
    Healthcheck(HealthcheckArgs),
    /// A cluster in its shared store: its nodes, and who owns what
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Explain which policy allows what
    #[command(subcommand)]
    Policy(PolicyCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show nodes and partitions, and what to look at
    Status(ClusterStatusArgs),
    /// Have a node give all its partitions to others, for example before it is taken away
    Drain(ClusterNodeArgs),
    /// Let a node have partitions again
    Undrain(ClusterNodeArgs),
    /// Say that the shared store was restored from a backup of its own while no node ran, before the first node starts:
    /// epochs and tokens jump
    Restored(ClusterStoreArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterStatusArgs {
    /// The shared store [default: as for serve, from the environment and the configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterStoreArgs {
    /// The shared store [default: as for serve, from the environment and the configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterNodeArgs {
    /// The address that the node advertises, or the beginning of its id
    pub(crate) node: String,
    /// The shared store [default: as for serve, from the environment and the configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token: prints it once, and the lines for the configuration
    New(TokenNewArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say whether a caller may do something, and which policy decides (exit code 0 allowed, 1 denied)
    Explain(PolicyExplainArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// A data directory, of a server that runs or not, or a file that `leasehold backup` wrote
    /// [default: as for serve, from the environment and the configuration]
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<PathBuf>,

    /// The shared store of a cluster, whose nodes run or not, in place of a directory
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) store: Option<String>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct BackupArgs {
    /// The data directory, of a server that runs or not [default: as for serve, from the
    /// environment and the configuration]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The shared store of a cluster, whose nodes run or not, in place of a directory
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) store: Option<String>,

    /// The file to write, or a directory to write a file into that is named after the time
    #[arg(long, value_name = "PATH")]
    pub(crate) to: PathBuf,

    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreArgs {
    /// A file that `leasehold backup` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,

    /// The data directory to restore to; its server must not be running [default: as for serve, from the
    /// environment and the configuration]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The shared store of a cluster to restore to, in place of a directory; nothing may be in it
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "force"])]
    pub(crate) store: Option<String>,

    #[arg(long, value_name = "NUMBER", requires = "store", help = format!(
        "The number of partitions of the cluster that is restored: a power of two [default: {}]",
        Partitions::DEFAULT.number(),
    ))]
    pub(crate) partitions: Option<String>,

    /// If there is data in the directory, move it aside, into a directory inside of it
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateArgs {
    /// The data directory of a server, or the shared store of a cluster (etcd://… or postgres://…); no server may use
    /// it during the move or after it
    #[arg(long, value_name = "PLACE")]
    pub(crate) from: String,

    /// The empty shared store or data directory that the data is moved to
    #[arg(long, value_name = "PLACE")]
    pub(crate) to: String,

    #[arg(long, value_name = "NUMBER", help = format!(
        "The number of partitions of the new cluster: a power of two [default: {}, or that of the source]",
        Partitions::DEFAULT.number(),
    ))]
    pub(crate) partitions: Option<String>,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PruneArgs {
    /// The data directory; only to look at it, its server may be running [default: as for serve, from the
    /// environment and the configuration]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Only resources and locks whose name begins with this; pools have no names
    #[arg(long, value_name = "PREFIX")]
    pub(crate) resource: Option<String>,

    /// pool, claim or lock
    #[arg(long)]
    pub(crate) kind: Option<String>,

    /// waiting, active, ended, or unused: registered resources that have no holder, no waiter and no recent claim
    #[arg(long)]
    pub(crate) status: Option<String>,

    /// Only claims of this client or owner
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,

    /// Only claims that ended, or if they have not ended were made, at least this long ago; downtime does not count
    #[arg(long, value_name = "DURATION")]
    pub(crate) older_than: Option<String>,

    /// Only claims with more metadata than this
    #[arg(long, value_name = "SIZE")]
    pub(crate) metadata_over: Option<String>,

    /// List all that match, not only the first of them
    #[arg(long)]
    pub(crate) all: bool,

    /// Remove them; without this nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HealthcheckArgs {
    /// The address the server was told to listen on [default: as for serve, from the environment and the configuration]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Ask whether changes become durable (/readyz), and not only whether it answers (/healthz)
    #[arg(long)]
    pub(crate) ready: bool,

    /// Speak TLS, also where neither environment nor configuration say that the server does
    #[arg(long)]
    pub(crate) tls: bool,

    /// PEM file with a certificate to show to a server that requires one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// PEM file with its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct TokenNewArgs {
    /// The name of the token's owner, which its claims are held under
    #[arg(long)]
    pub(crate) name: String,

    /// A group of the configuration's policies; may be given more than once
    #[arg(long)]
    pub(crate) role: Vec<String>,

    /// The day or time from which it is refused, such as 2027-01-31 or 2027-01-31T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyExplainArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The name of the caller; without one, an anonymous caller
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// A group the caller is in; may be given more than once [default: those of the tokens of that name in the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,

    /// inspect, acquire, update-own, revoke-any, configure, observe or admin
    #[arg(long)]
    pub(crate) action: String,

    /// pool, claim:NAME or lock:NAME; not allowed for admin; without it, observe is about the whole service
    #[arg(long)]
    pub(crate) resource: Option<String>,
}

const AFTER_HELP: &str = "\
Durations are written as 500ms, 30s, 1m30s, 24h or 7d, sizes as 16KiB, 512MiB or 2GB.
Every option but --config and --print-config can also be given in the environment (--ttl-max as LEASEHOLD_TTL_MAX) or in \
the configuration file (ttl_max = \"24h\"). Options come before the environment, the environment before the file; the \
file itself may be named by LEASEHOLD_CONFIG.
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 data directory in use, 4 journal damaged, 5 store failed.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn memory_and_data_exclude_each_other() {
        assert!(Cli::try_parse_from(["leasehold", "serve", "--memory", "--data", "x"]).is_err());
    }
}
