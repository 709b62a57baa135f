//! `leasehold run` where there are no process groups and signals to keep its promises with: it says so, and starts
//! nothing.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

const REFUSAL: &str = "leasehold: run works on Linux and macOS only: here a command could not be ended before its lease passes to another, so nothing \
                       was started. Hold the lease in a program with one of the clients (Rust, Python, TypeScript), or in a script with \
                       leasehold acquire, renew and release";

/// All arguments after `run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _any: Vec<OsString>,
}

/// The code with which `run` fails before the start.
pub(crate) fn refuse() -> ExitCode {
    eprintln!("{REFUSAL}");
    ExitCode::from(125)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    #[test]
    fn any_line_is_refused_with_a_sentence_and_the_code_of_a_failure_before_the_start() {
        let line = Line::try_parse_from(["run", "--lock", "backup", "--ttl=60s", "--", "rsync", "-a"]).unwrap();
        assert!(format!("{:?}", line.args).contains(r#""--", "rsync", "-a""#), "{:?}", line.args);
        assert_eq!(format!("{:?}", refuse()), format!("{:?}", ExitCode::from(125)));
        assert!(REFUSAL.contains("Linux and macOS only") && !REFUSAL.contains("  "), "{REFUSAL}");
    }
}
