//! The arguments of `leasehold run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::client::{ConnectArgs, duration};

pub(crate) const AFTER_HELP: &str = "\
The command gets LEASEHOLD_FENCING_TOKEN, LEASEHOLD_SLOT, LEASEHOLD_LEASE, LEASEHOLD_KIND and LEASEHOLD_RESOURCE, and \
LEASEHOLD_SLOT_NAME and LEASEHOLD_SLOT_DATA where slots have names.
Durations are written as 500ms, 30s, 1m30s, 24h or 7d.
Exit codes: the command's own (128+n when signal n ended it); 75 (--on-conflict-exit) not acquired in time, 0 with --skip; 122 \
(--on-loss-exit) the lease was lost or nearly, the command was ended; 125 run itself failed before the start; 126 the command \
cannot be executed; 127 it was not found; 128+n a signal came while waiting. A command may use the same numbers: --result-file tells.";

#[derive(Args, Clone, Debug)]
#[expect(clippy::doc_markdown, reason = "this is the help text")]
pub(crate) struct RunArgs {
    /// Hold the lock of this name
    #[arg(long, value_name = "NAME", required_unless_present_any = ["claim", "pool"], conflicts_with_all = ["claim", "pool"])]
    pub(crate) lock: Option<String>,

    /// Hold the resource of this name, after those that asked before
    #[arg(long, value_name = "RESOURCE", conflicts_with = "pool")]
    pub(crate) claim: Option<String>,

    /// Hold a slot of the pool with this id
    #[arg(long, value_name = "UUID")]
    pub(crate) pool: Option<String>,

    /// Name of the pool in LEASEHOLD_RESOURCE, as its id is a secret
    #[arg(long, value_name = "TEXT", default_value = "pool", hide_default_value = true)]
    pub(crate) label: String,

    /// How long to wait for it [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: the same as --wait 0s
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// How long the lease lasts when it cannot be renewed, 3s or more [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s", hide_default_value = true)]
    pub(crate) ttl: Duration,

    /// End renewal, and with it the command, after so long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,

    /// The exit code when it was not acquired in time
    #[arg(long, value_name = "CODE", default_value_t = 75)]
    pub(crate) on_conflict_exit: u8,

    /// End quietly with 0 when it was not acquired in time
    #[arg(long, conflicts_with = "on_conflict_exit")]
    pub(crate) skip: bool,

    /// Fate of the command when the lease is lost
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLoss::Kill)]
    pub(crate) on_loss: OnLoss,

    /// The exit code when the command was ended because of that
    #[arg(long, value_name = "CODE", default_value_t = 122)]
    pub(crate) on_loss_exit: u8,

    /// Write the outcome to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) result_file: Option<PathBuf>,

    /// Say nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Form of messages on standard error
    #[arg(long, value_name = "FORM", value_enum, default_value_t = SayForm::Text)]
    pub(crate) output: SayForm,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// It is ended before another can have the lease
    Kill,
    /// It goes on, for work that the fencing token guards
    Warn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SayForm {
    /// Lines for people
    Text,
    /// A JSON object a line
    Json,
}
