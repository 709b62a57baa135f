//! The one binary. What it does is in the library crates; this reads the command line and ends with the right code.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command, PolicyCommand, TokenCommand};
use crate::exit::Exit;

mod backup;
mod check;
mod cli;
mod config;
mod data;
mod exit;
mod files;
mod healthcheck;
mod logging;
mod notify;
#[cfg(feature = "otlp")]
mod otlp;
mod policy;
mod restore;
mod serve;
mod sign_on;
mod tls;
mod token;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Also how clap says that help was asked for.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done.into(),
                _ => Exit::Usage.into(),
            };
        }
    };
    match cli.command {
        Command::Serve(args) => serve::run(&args).into(),
        Command::Check(args) => check::run(&args).into(),
        Command::Backup(args) => backup::run(&args).into(),
        Command::Restore(args) => restore::run(&args).into(),
        Command::Healthcheck(args) => healthcheck::run(&args).into(),
        Command::Token(TokenCommand::New(args)) => token::new(&args).into(),
        Command::Policy(PolicyCommand::Explain(args)) => policy::explain(&args).into(),
    }
}
