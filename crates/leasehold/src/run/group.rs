//! A process group: its remaining processes, and its end.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
#[cfg(target_os = "linux")]
use nix::unistd::getpgid;

/// The group of the command, named after its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub(super) Pid);

impl Group {
    pub(super) fn signal(self, signal: Signal) {
        // A group that is gone needs no signal.
        let _ = killpg(self.0, signal);
    }

    /// Returns whether a process of it still runs. One that has ended and was not waited for does nothing any more.
    #[cfg(target_os = "linux")]
    pub(super) fn is_alive(self) -> bool {
        // Cheaper than looking, if the group is empty.
        killpg(self.0, None) != Err(Errno::ESRCH)
            && processes().any(|pid| getpgid(Some(pid)) == Ok(self.0) && runs_in(pid, self.0))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn is_alive(self) -> bool {
        // EPERM means a leader that was not waited for, as it cannot be sent anything.
        matches!(killpg(self.0, None), Ok(()))
    }
}

/// Kills every descendant that this process has adopted, whatever its group, except some.
#[cfg(target_os = "linux")]
pub(super) fn kill_children_except(except: &[Pid]) {
    for child in children() {
        if !except.contains(&child) {
            let _ = kill(child, Signal::SIGKILL);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill_children_except(_: &[Pid]) {}

/// Reaps adopted processes that have ended, except some.
#[cfg(target_os = "linux")]
pub(super) fn reap_adopted_except(except: &[Pid]) {
    for child in children() {
        if !except.contains(&child)
            && let Some(pid) = rustix::process::Pid::from_raw(child.as_raw())
        {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reap_adopted_except(_: &[Pid]) {}

/// A child belongs to the thread that made or adopted it.
#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect::<Vec<_>>()
        })
        .collect()
}

/// All of the machine's. Their groups are asked of the kernel, which is much quicker than reading a file of each.
#[cfg(target_os = "linux")]
fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// The file names the group too: where `/proc` is that of other processes than ours, as in a container that was given its host's, a
/// number in it is another process than the kernel was asked about.
#[cfg(target_os = "linux")]
fn runs_in(pid: Pid, group: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name is in parentheses and may hold anything. Then: state, parent, group.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let is_of_group = fields.split(' ').nth(2).is_some_and(|field| field == group.to_string());
    is_of_group && !fields.starts_with(['Z', 'X'])
}
