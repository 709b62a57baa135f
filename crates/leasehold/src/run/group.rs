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
        if killpg(self.0, None) == Err(Errno::ESRCH) {
            return false;
        }
        match Proc::look() {
            Proc::Own => processes().any(|pid| getpgid(Some(pid)) == Ok(self.0) && runs_in(pid, self.0)),
            Proc::Above { depth, namespace } => processes().any(|pid| runs_below(pid, self.0, depth, &namespace)),
            Proc::Foreign => {
                // Nothing tells an ended leader from a process that runs. Every one gets the signal that none survives.
                self.signal(Signal::SIGKILL);
                false
            }
        }
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

/// Returns whether this process has a child, made or adopted, except some. The system keeps the list complete while
/// none of them is reaped, and may not have one at all.
#[cfg(target_os = "linux")]
pub(super) fn has_children_except(except: &[Pid]) -> bool {
    // Without lists there are no children in them either, not even those that are known.
    let children = children();
    !except.iter().all(|known| children.contains(known)) || children.iter().any(|child| !except.contains(child))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_children_except(_: &[Pid]) -> bool {
    true
}

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

/// The namespace whose processes `/proc` shows. In a container it may be the host's, with other numbers than the kernel
/// tells us.
#[cfg(target_os = "linux")]
enum Proc {
    Own,
    /// That of an ancestor. Our numbers are at this depth of the lists in `status`; others of our namespace have the
    /// same link to it.
    Above {
        depth: usize,
        namespace: std::path::PathBuf,
    },
    /// We are not in it, or there is none.
    Foreign,
}

#[cfg(target_os = "linux")]
impl Proc {
    fn look() -> Proc {
        let Ok(own) = std::fs::read_link("/proc/self") else { return Proc::Foreign };
        if own.to_str() == Some(&nix::unistd::getpid().to_string()) {
            return Proc::Own;
        }
        let status = std::fs::read_to_string("/proc/self/status").ok();
        let depth = status.as_deref().and_then(|status| numbers(status, "NSpid:")).map(Iterator::count);
        match (depth, std::fs::read_link("/proc/self/ns/pid")) {
            (Some(depth @ 2..), Ok(namespace)) => Proc::Above { depth, namespace },
            _ => Proc::Foreign,
        }
    }
}

/// The numbers of a line of `status`, from the namespace of `/proc` down to that of the process.
#[cfg(target_os = "linux")]
fn numbers<'a>(status: &'a str, name: &str) -> Option<impl Iterator<Item = &'a str>> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::split_whitespace)
}

#[cfg(target_os = "linux")]
fn runs_in(pid: Pid, group: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name is in parentheses and may hold anything. Then: state, parent, group.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let is_of_group = fields.split(' ').nth(2).is_some_and(|field| field == group.to_string());
    is_of_group && !fields.starts_with(['Z', 'X'])
}

/// The same in the `/proc` of an ancestor, where `pid` is a number of the ancestor's and `group` one of ours.
#[cfg(target_os = "linux")]
fn runs_below(pid: Pid, group: Pid, depth: usize, namespace: &std::path::Path) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let is_of_group = numbers(&status, "NSpgid:")
        .is_some_and(|mut groups| groups.nth(depth - 1).is_some_and(|field| field == group.to_string()));
    let has_ended = numbers(&status, "State:").is_some_and(|mut state| matches!(state.next(), Some("Z" | "X")));
    // Another container may have a group of the same number.
    let is_ours = || std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|link| link == namespace);
    is_of_group && !has_ended && is_ours()
}
