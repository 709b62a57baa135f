//! The command: found before anything is requested, started by way of a hidden subcommand that prepares itself and
//! becomes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use nix::unistd::Pid;

/// This very program, also when its file was replaced since.
pub(super) fn ourselves() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("leasehold"))
}

/// Why a command cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotRunnable {
    NotFound,
    NotExecutable,
}

/// As a shell finds it.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, NotRunnable> {
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(name)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        std::env::split_paths(&path).map(|directory| directory.join(name)).collect()
    };
    let mut problem = NotRunnable::NotFound;
    for candidate in candidates {
        match kind_of(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(NotRunnable::NotExecutable) => problem = NotRunnable::NotExecutable,
            Err(NotRunnable::NotFound) => {}
        }
    }
    Err(problem)
}

fn kind_of(path: &Path) -> Result<(), NotRunnable> {
    let meta = std::fs::metadata(path).map_err(|_| NotRunnable::NotFound)?;
    if meta.is_file() && meta.permissions().mode() & 0o111 != 0 { Ok(()) } else { Err(NotRunnable::NotExecutable) }
}

/// A child that waits for the order to begin. Dropped, it ends without having begun.
pub(super) struct Prepared {
    pub(super) pid: Pid,
    go: File,
}

impl Prepared {
    pub(super) fn go(mut self) -> io::Result<()> {
        self.go.write_all(b"g")
    }
}

/// Starts the child, which gets its own process group. From the main thread: the signal of a parent's death follows the thread.
pub(super) fn prepare(program: &Path, command: &[OsString], environment: &[(&str, String)]) -> io::Result<Prepared> {
    // Not closed on exec: the child finds its end by the number.
    let (wait, go) = rustix::pipe::pipe()?;
    close_on_exec(&go)?;
    let mut start = Command::new(ourselves());
    start.arg("__exec").arg("--go").arg(wait.as_raw_fd().to_string());
    start.arg("--parent").arg(std::process::id().to_string()).arg("--program").arg(program).arg("--").args(command);
    start.envs(environment.iter().map(|(name, value)| (name, value))).process_group(0);
    let child = start.spawn()?;
    drop(wait);
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok(Prepared { pid: Pid::from_raw(pid), go: File::from(go) })
}

fn close_on_exec(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?)
}

/// The hidden subcommand that becomes the command.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecArgs {
    #[arg(long)]
    go: i32,
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    program: PathBuf,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Returns only when it fails, with an exit code.
pub(crate) fn exec(args: &ExecArgs) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    if std::os::unix::process::parent_id() != args.parent {
        return 125;
    }
    // Nothing begins before the keeper knows the group: front writes a byte then, and nothing if it dies before.
    let mut word = [0; 1];
    let is_told = File::open(format!("/dev/fd/{}", args.go)).is_ok_and(|mut go| {
        let _ = nix::unistd::close(args.go);
        go.read(&mut word).is_ok_and(|read| read == 1)
    });
    if !is_told {
        return 125;
    }
    // Front's mask came along.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let error = Command::new(&args.program).arg0(&args.command[0]).args(&args.command[1..]).exec();
    eprintln!("leasehold: {} cannot be executed: {error}", args.command[0].to_string_lossy());
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_shell_finds_them() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        assert_eq!(find(OsStr::new("/bin/sh")), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(find(OsStr::new("no-such-command-here")), Err(NotRunnable::NotFound));
        assert_eq!(find(OsStr::new("./no/such")), Err(NotRunnable::NotFound));
        assert_eq!(find(OsStr::new("/etc/passwd")), Err(NotRunnable::NotExecutable));
        assert_eq!(find(OsStr::new("/")), Err(NotRunnable::NotExecutable));
    }
}
