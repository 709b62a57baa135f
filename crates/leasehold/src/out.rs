//! Standard output of commands that show something. A reader that has seen enough closes the pipe early, such as
//! `head -1` behind `leasehold ls`: the rest is not written then, and the command ends as it would have. Any other
//! failure, such as a full disk, ends it at once.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};

use crate::exit::Exit;

/// `print!`, which would panic when the reader is gone.
macro_rules! out {
    ($($text:tt)*) => { crate::out::write(format_args!($($text)*)) };
}

/// `println!`, which would panic when the reader is gone.
macro_rules! outln {
    () => { crate::out::write(format_args!("\n")) };
    ($($text:tt)*) => { crate::out::write(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) fn write(text: Arguments<'_>) {
    match std::io::stdout().write_fmt(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("leasehold: standard output: {error}");
            std::process::exit(Exit::Failed.code().into());
        }
        _ => {}
    }
}
