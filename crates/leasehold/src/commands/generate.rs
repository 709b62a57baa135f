//! `completions` and `man`: made from the command line itself, so that they cannot differ from it.

use std::io::Write as _;

use clap::Command;

use super::Failed;
use super::args::{CompletionsArgs, ManArgs};

pub(super) fn completions(args: &CompletionsArgs, mut whole: Command) {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "leasehold", &mut text);
    write(&text);
}

pub(super) fn man(args: &ManArgs, whole: Command) -> Result<(), Failed> {
    let failed = |error: std::io::Error| Failed::Refused(format!("a page cannot be written: {error}"));
    if let Some(directory) = &args.to {
        std::fs::create_dir_all(directory).map_err(failed)?;
        return clap_mangen::generate_to(whole, directory).map_err(failed);
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(whole).render(&mut text).map_err(failed)?;
    write(&text);
    Ok(())
}

fn write(text: &[u8]) {
    // The reader of a pipe may have gone.
    let _ = std::io::stdout().write_all(text);
}
