//! The memory that the process may use: the least of the machine's memory, the limit of its control group and the limit
//! of its address space. The state gets half of it unless the operator says otherwise; the rest is for connections,
//! answers on their way and the store.

use std::path::{Path, PathBuf};

use crate::size;

/// The bytes that the state may take up when nothing is configured.
pub(crate) fn default_state_max() -> u64 {
    state_max_of(allowed())
}

/// The assumption where the system does not tell: little.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// A server needs at least this.
const LEAST_BYTES: u64 = 16 << 20;

fn state_max_of(allowed: Option<u64>) -> u64 {
    (allowed.unwrap_or(UNKNOWN_BYTES) / 2).max(LEAST_BYTES)
}

/// The least of all limits that are there.
fn allowed() -> Option<u64> {
    let limits = [ram(), address_space(), control_group(Path::new("/"))];
    limits.into_iter().flatten().min()
}

fn ram() -> Option<u64> {
    parse_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Address space that threads take as they come: the C library sets 64 MiB aside for each of the store's.
const THREADS_BYTES: u64 = 256 << 20;

/// The rest of the address space: the program, its threads and the allocator's reserve are mapped already.
#[cfg(unix)]
fn address_space() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let limit = [Resource::As, Resource::Data].into_iter().filter_map(|resource| getrlimit(resource).current).min()?;
    let mapped = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| parse_mapped(&text)).unwrap_or(0);
    Some(limit.saturating_sub(mapped).saturating_sub(THREADS_BYTES))
}

fn parse_mapped(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(not(unix))]
fn address_space() -> Option<u64> {
    None
}

/// The least limit of the control groups that this process is in, theirs above included; `root` is where `/proc` and
/// `/sys` are.
fn control_group(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounted = root.join("sys/fs/cgroup");
    let mut least = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (top, file) = if controllers.is_empty() {
            (mounted.clone(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (mounted.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // In a container the path may be that of the host; then the top is all there is to see.
        let group = top.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|group| group.starts_with(&top)).map(PathBuf::from);
        for group in groups {
            let limit = std::fs::read_to_string(group.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok());
            least = [least, limit].into_iter().flatten().min();
        }
    }
    least
}

/// One sentence about a state that is larger than it may be.
pub(crate) fn too_large(used: u64, max: u64) -> String {
    format!(
        "the state takes up {}, more than state_max = {}: nothing new is taken on until enough of it has ended; raise \
         state_max, or stop the server and use leasehold prune",
        size::rounded(used),
        size::format(max),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_least_limit_is_for_the_state() {
        assert_eq!(state_max_of(Some(8 << 30)), 4 << 30);
        assert_eq!(state_max_of(None), UNKNOWN_BYTES / 2);
        assert_eq!(state_max_of(Some(0)), LEAST_BYTES);
        assert_eq!(parse_meminfo("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), Some(16_384_000 * 1024));
        assert_eq!(parse_meminfo("MemFree: 1 kB\n"), None);
        assert_eq!(parse_mapped("VmPeak:\t 9 kB\nVmSize:\t  350000 kB\n"), Some(350_000 * 1024));
        assert!(default_state_max() > 0);
    }

    #[test]
    fn the_limits_of_all_groups_above_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(control_group(root.path()), None, "no control groups");
        write("proc/self/cgroup", "0::/system.slice/leasehold.service\n");
        assert_eq!(control_group(root.path()), None, "no limits");
        write("sys/fs/cgroup/system.slice/leasehold.service/memory.max", "max\n");
        assert_eq!(control_group(root.path()), None, "none of its own");
        write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        assert_eq!(control_group(root.path()), Some(1 << 30), "that of the slice");
        write("sys/fs/cgroup/system.slice/leasehold.service/memory.max", "536870912\n");
        assert_eq!(control_group(root.path()), Some(512 << 20), "its own, which is less");
        // A container sees its own group at the top, and the path of the host.
        write("proc/self/cgroup", "0::/kubepods/pod1/c1\n");
        write("sys/fs/cgroup/memory.max", "268435456\n");
        assert_eq!(control_group(root.path()), Some(256 << 20));
        // Version 1: a controller of its own.
        write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/1\n");
        write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "134217728\n");
        assert_eq!(control_group(root.path()), Some(128 << 20));
    }
}
