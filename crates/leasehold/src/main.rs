//! The one binary. The library crates do the work; this reads the command line and ends with the right code.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, CliCommand, PolicyCommand, TokenCommand};
use crate::commands::{ProofKeyCommand, Talk, talk};
use crate::exit::Exit;

#[macro_use]
mod out;

mod backup;
mod check;
mod cli;
mod client;
mod cluster;
mod commands;
mod config;
mod data;
mod driving;
mod exit;
mod files;
mod healthcheck;
mod logging;
mod memory;
mod migrate;
mod notify;
#[cfg(feature = "otlp")]
mod otlp;
mod policy;
mod proof_keys;
mod prune;
mod restore;
#[cfg(unix)]
mod run;
#[cfg(any(not(unix), test))]
mod run_refused;
mod serve;
mod shared;
mod sign_on;
mod size;
mod tls;
mod token;

#[global_allocator]
static ALLOCATOR: leasehold_allocator::Allocator = leasehold_allocator::Allocator;

fn main() -> ExitCode {
    // The processes of `run` come first: a command waits for them, and reading the whole command line takes longer than
    // they do.
    #[cfg(unix)]
    if let Some(exit) = run::hidden(std::env::args_os()) {
        return exit.into();
    }
    // So does `run`: the words of the other commands are left alone. A line that it does not understand is read as a
    // whole, for the words of help and errors.
    #[cfg(unix)]
    if let Some(args) = run::args(std::env::args_os()) {
        return run::run(&args);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Also how clap says that help was asked for.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done.into(),
                // Its own codes must not be taken for the command's.
                _ if std::env::args_os().nth(1).is_some_and(|first| first == "run") => ExitCode::from(125),
                _ => Exit::Usage.into(),
            };
        }
    };
    match cli.command {
        CliCommand::Serve(args) => serve::run(&args).into(),
        CliCommand::Check(args) => check::run(&args).into(),
        CliCommand::Backup(args) => backup::run(&args).into(),
        CliCommand::Restore(args) => restore::run(&args).into(),
        CliCommand::Migrate(args) => migrate::run(&args).into(),
        CliCommand::Prune(args) => prune::run(&args).into(),
        CliCommand::Healthcheck(args) => healthcheck::run(&args).into(),
        CliCommand::Cluster(command) => cluster::run(&command).into(),
        CliCommand::Token(TokenCommand::New(args)) => token::new(&args).into(),
        CliCommand::Policy(PolicyCommand::Explain(args)) => policy::explain(&args).into(),
        CliCommand::Status(args) => talk(&Talk::Status(&args)),
        CliCommand::Ls(args) => talk(&Talk::Ls(&args)),
        CliCommand::Show(args) => talk(&Talk::Show(&args)),
        CliCommand::Watch(args) => talk(&Talk::Watch(&args)),
        CliCommand::History(args) => talk(&Talk::History(&args)),
        CliCommand::Acquire(args) => talk(&Talk::Acquire(&args)),
        CliCommand::Renew(args) => talk(&Talk::Renew(&args)),
        CliCommand::Release(args) => talk(&Talk::Release(&args)),
        CliCommand::Pool(command) => talk(&Talk::Pool(&command)),
        CliCommand::Revoke(args) => talk(&Talk::Revoke(&args)),
        CliCommand::ProofKey(ProofKeyCommand::Rotate(args)) => talk(&Talk::RotateProofKey(&args)),
        CliCommand::Doctor(args) => talk(&Talk::Doctor(&args)),
        CliCommand::Demo(args) => commands::demo(&args),
        CliCommand::Completions(args) => commands::completions(&args, Cli::command()),
        CliCommand::Man(args) => commands::man(&args, Cli::command()),
        #[cfg(unix)]
        CliCommand::Run(args) => run::run(&args),
        #[cfg(not(unix))]
        CliCommand::Run(_) => run_refused::refuse(),
    }
}
