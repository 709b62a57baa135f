//! The command: found before anything is requested, started by way of this program again, which prepares itself and
//! becomes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::Pid;

/// The first argument that makes this program become the command.
pub(super) const WORD: &str = "__exec";

/// This very program, also when its file was replaced since.
pub(super) fn ourselves() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("leasehold"))
}

/// Small pages for the processes of `run` that are started from now on: the allocator asks for huge ones, and its first
/// touch of one clears two megabytes, a tenth of what a process of ours costs. Returns whether this changed anything,
/// so that the command gets the setting that `run` had.
pub(super) fn small_pages(is_wanted: bool) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
        transparent_huge_pages_are_disabled().is_ok_and(|disabled| disabled != is_wanted)
            && disable_transparent_huge_pages(is_wanted).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = is_wanted;
        false
    }
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

/// Starts the child, which gets its own process group. From the main thread: the signal of a parent's death follows the
/// thread.
pub(super) fn prepare(
    program: &Path,
    command: &[OsString],
    environment: &[(&str, String)],
    has_small_pages: bool,
) -> io::Result<Prepared> {
    // Not closed on exec: the child finds its end by the number.
    let (wait, go) = rustix::pipe::pipe()?;
    close_on_exec(&go)?;
    let mut start = Command::new(ourselves());
    start.arg(WORD).arg(wait.as_raw_fd().to_string()).arg(std::process::id().to_string());
    start.arg(if has_small_pages { "1" } else { "0" });
    start.arg(program).args(command);
    start.envs(environment.iter().map(|(name, value)| (name, value))).process_group(0);
    let child = start.spawn()?;
    drop(wait);
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok(Prepared { pid: Pid::from_raw(pid), go: File::from(go) })
}

fn close_on_exec(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?)
}

/// The process that becomes the command, with the arguments that `prepare` gives it. Returns only when it fails, with
/// an exit code.
pub(super) fn exec(mut args: impl Iterator<Item = OsString>) -> u8 {
    let mut number = || args.next()?.to_str()?.parse::<i32>().ok();
    let (Some(go), Some(parent), Some(pages)) = (number(), number(), number()) else { return 125 };
    let (Some(program), Some(name)) = (args.next(), args.next()) else { return 125 };
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    if nix::unistd::getppid() != Pid::from_raw(parent) {
        return 125;
    }
    // Nothing begins before the keeper knows the group: front writes a byte then, and nothing if it dies before.
    let mut word = [0; 1];
    let is_told = File::open(format!("/dev/fd/{go}")).is_ok_and(|mut line| {
        let _ = nix::unistd::close(go);
        line.read(&mut word).is_ok_and(|read| read == 1)
    });
    if !is_told {
        return 125;
    }
    if pages == 1 {
        small_pages(false);
    }
    // Front's mask came along.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let error = Command::new(program).arg0(&name).args(args).exec();
    eprintln!("leasehold: {} cannot be executed: {error}", name.to_string_lossy());
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
