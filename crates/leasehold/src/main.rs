//! The one binary. The library crates do the work; this reads the command line and ends with the right code.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command, PolicyCommand, TokenCommand};
use crate::commands::{Talk, talk};
use crate::exit::Exit;

#[macro_use]
mod out;

mod backup;
mod check;
mod cli;
mod client;
mod commands;
mod config;
mod data;
mod exit;
mod files;
mod healthcheck;
mod logging;
mod memory;
mod notify;
#[cfg(feature = "otlp")]
mod otlp;
mod policy;
mod prune;
mod restore;
#[cfg(unix)]
mod run;
#[cfg(any(not(unix), test))]
mod run_refused;
mod serve;
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
        Command::Serve(args) => serve::run(&args).into(),
        Command::Check(args) => check::run(&args).into(),
        Command::Backup(args) => backup::run(&args).into(),
        Command::Restore(args) => restore::run(&args).into(),
        Command::Prune(args) => prune::run(&args).into(),
        Command::Healthcheck(args) => healthcheck::run(&args).into(),
        Command::Token(TokenCommand::New(args)) => token::new(&args).into(),
        Command::Policy(PolicyCommand::Explain(args)) => policy::explain(&args).into(),
        Command::Status(args) => talk(&Talk::Status(&args)),
        Command::Ls(args) => talk(&Talk::Ls(&args)),
        Command::Show(args) => talk(&Talk::Show(&args)),
        Command::Watch(args) => talk(&Talk::Watch(&args)),
        Command::History(args) => talk(&Talk::History(&args)),
        Command::Acquire(args) => talk(&Talk::Acquire(&args)),
        Command::Renew(args) => talk(&Talk::Renew(&args)),
        Command::Release(args) => talk(&Talk::Release(&args)),
        Command::Pool(command) => talk(&Talk::Pool(&command)),
        Command::Revoke(args) => talk(&Talk::Revoke(&args)),
        Command::Doctor(args) => talk(&Talk::Doctor(&args)),
        Command::Demo(args) => commands::demo(&args),
        Command::Completions(args) => commands::completions(&args, Cli::command()),
        Command::Man(args) => commands::man(&args, Cli::command()),
        #[cfg(unix)]
        Command::Run(args) => run::run(&args),
        #[cfg(not(unix))]
        Command::Run(_) => run_refused::refuse(),
    }
}
