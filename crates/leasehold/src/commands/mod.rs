//! The rest of the command line: commands that look at a service or change it. Data goes to standard output, everything
//! else to standard error.

mod args;
mod demo;
mod doctor;
mod generate;
mod lease;
mod look;
mod pool;
mod table;
mod watch;

use std::process::ExitCode;

use leasehold_client::{Client, Error, Reply};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(crate) use args::*;
pub(crate) use table::Table;

use crate::client::ConnectArgs;

/// Held by others, as `run` has it.
const HELD: u8 = 75;
/// No answer, as `sysexits.h` has it.
const UNAVAILABLE: u8 = 69;

/// Why a command failed.
enum Failed {
    Usage(String),
    /// The service refused.
    Refused(String),
    Client(Error),
}

/// A command that talks to a service.
pub(crate) enum Talk<'a> {
    Status(&'a StatusArgs),
    Ls(&'a LsArgs),
    Show(&'a ShowArgs),
    History(&'a HistoryArgs),
    Watch(&'a WatchArgs),
    Acquire(&'a AcquireArgs),
    Renew(&'a HandleArgs),
    Release(&'a HandleArgs),
    Pool(&'a PoolCommand),
    Revoke(&'a RevokeArgs),
    RotateProofKey(&'a ProofKeyRotateArgs),
    Doctor(&'a DoctorArgs),
}

pub(crate) fn talk(command: &Talk<'_>) -> ExitCode {
    let connect = &command.common().connect;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return told(&Failed::Refused(error.to_string()), connect),
    };
    let outcome = runtime.block_on(async {
        let client = connect.client()?;
        let outcome = carry_out(&client, command).await;
        client.close().await;
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => told(&failed, connect),
    }
}

async fn carry_out(client: &Client, command: &Talk<'_>) -> Result<(), Failed> {
    match command {
        Talk::Status(args) => look::status(client, args).await,
        Talk::Ls(args) => look::ls(client, args).await,
        Talk::Show(args) => look::show(client, args).await,
        Talk::History(args) => look::history(client, args).await,
        Talk::Watch(args) => watch::watch(client, args).await,
        Talk::Acquire(args) => lease::acquire(client, args).await,
        Talk::Renew(args) => lease::renew(client, args).await,
        Talk::Release(args) => lease::release(client, args).await,
        Talk::Pool(args) => pool::pool(client, args).await,
        Talk::Revoke(args) => pool::revoke(client, args).await,
        Talk::RotateProofKey(args) => pool::rotate_proof_key(client, args).await,
        Talk::Doctor(args) => doctor::doctor(client, args).await,
    }
}

impl Talk<'_> {
    fn common(&self) -> &Common {
        match self {
            Talk::Status(args) => &args.common,
            Talk::Ls(args) => &args.common,
            Talk::Show(args) => &args.common,
            Talk::History(args) => &args.common,
            Talk::Watch(args) => &args.common,
            Talk::Acquire(args) => &args.common,
            Talk::Renew(args) | Talk::Release(args) => &args.common,
            Talk::Pool(args) => args.common(),
            Talk::Revoke(args) => &args.common,
            Talk::RotateProofKey(args) => &args.common,
            Talk::Doctor(args) => &args.common,
        }
    }
}

pub(crate) fn demo(args: &DemoArgs) -> ExitCode {
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(demo::demo(args)),
        Err(error) => Err(Failed::Refused(error.to_string())),
    };
    ended(outcome)
}

pub(crate) fn completions(args: &CompletionsArgs, whole: clap::Command) -> ExitCode {
    generate::completions(args, whole);
    ExitCode::SUCCESS
}

pub(crate) fn man(args: &ManArgs, whole: clap::Command) -> ExitCode {
    ended(generate::man(args, whole))
}

fn ended(outcome: Result<(), Failed>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => told(&failed, &ConnectArgs::default()),
    }
}

fn told(failed: &Failed, connect: &ConnectArgs) -> ExitCode {
    let (code, sentence) = match failed {
        Failed::Usage(sentence) | Failed::Client(Error::Setting(sentence)) => (2, sentence.clone()),
        Failed::Refused(sentence) => (1, sentence.clone()),
        Failed::Client(error) if lease::is_held_by_others(error) => (HELD, error.to_string()),
        Failed::Client(error @ (Error::Unavailable(_) | Error::Tls(_))) => (UNAVAILABLE, connect.explain(error)),
        Failed::Client(error) => (1, connect.explain(error)),
    };
    eprintln!("leasehold: {sentence}");
    ExitCode::from(code)
}

/// An answer that is a success.
/// The version of the service, from its description of itself.
async fn version(client: &Client) -> Option<String> {
    let reply = client.call("GET", "/openapi.json", None).await.ok()?;
    reply.json()["info"]["version"].as_str().map(str::to_owned)
}

async fn get(client: &Client, target: &str) -> Result<Reply, Failed> {
    let reply = client.call("GET", target, None).await?;
    if reply.is_success() { Ok(reply) } else { Err(look::refused(&reply)) }
}

fn print_json(value: &Value) -> Result<(), Failed> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failed::Refused(error.to_string()))?;
    // The reader of a pipe may have gone.
    outln!("{text}");
    Ok(())
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
