//! This machine and its disk's latency: the figures that every other figure depends on.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::figures::{Spread, duration_ns, float, histogram};

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    pub(crate) memory_mib: u64,
    pub(crate) open_files_max: u64,
    /// The share of the processors that other programs took in the second before the run, from 0 to 1.
    pub(crate) busy_before: f64,
    pub(crate) peers: Vec<(String, String)>,
    pub(crate) fdatasync_before: Spread,
    pub(crate) fdatasync_after: Option<Spread>,
}

/// Above this share other programs are in the way: a thread that wakes up waits for a processor, up to a tick of the
/// scheduler, and that looks like the disk's latency.
const BUSY_MAX: f64 = 0.1;

impl Machine {
    pub(crate) fn is_busy(&self) -> bool {
        self.busy_before > BUSY_MAX
    }

    pub(crate) fn look(dir: &Path, syncs: usize) -> Result<Self> {
        Ok(Machine {
            cores: std::thread::available_parallelism()?.get(),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            memory_mib: field("/proc/meminfo", "MemTotal").and_then(|text| kibibytes(&text)).unwrap_or(0) / 1024,
            open_files_max: raise_open_files(),
            busy_before: busy_share(Duration::from_secs(1)).unwrap_or(0.0),
            peers: Vec::new(),
            fdatasync_before: fdatasync(dir, syncs)?,
            fdatasync_after: None,
        })
    }
}

/// The share of all processors that was not idle for that long.
fn busy_share(span: Duration) -> Option<f64> {
    let before = processor_ticks()?;
    std::thread::sleep(span);
    let after = processor_ticks()?;
    let (all, idle) = (after.0 - before.0, after.1 - before.1);
    Some(1.0 - float(idle) / float(all.max(1)))
}

/// Ticks of all processors since the machine started: in all, and idle.
fn processor_ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> = text.lines().next()?.split_whitespace().skip(1).map_while(|tick| tick.parse().ok()).collect();
    // user nice system idle iowait …; guest time is part of user time already.
    Some((ticks.iter().take(8).sum(), ticks.get(3)? + ticks.get(4)?))
}

/// The cost of one durable write here: a page overwritten in a file that has its length already, and `fdatasync`.
pub(crate) fn fdatasync(dir: &Path, times: usize) -> Result<Spread> {
    const PAGE: [u8; 4096] = [7; 4096];
    const PAGES: u64 = 1024;
    let path = dir.join("fdatasync");
    let mut file = File::create(&path)?;
    for _ in 0..PAGES {
        file.write_all(&PAGE)?;
    }
    file.sync_all()?;
    let mut latency = histogram();
    for time in 0..times as u64 {
        file.seek(SeekFrom::Start(time % PAGES * PAGE.len() as u64))?;
        let began_at = Instant::now();
        file.write_all(&PAGE)?;
        file.sync_data()?;
        latency.saturating_record(duration_ns(began_at.elapsed()));
    }
    fs::remove_file(&path)?;
    Ok(Spread::of(&latency))
}

/// Raises the limit on open files as far as it goes, for us and those we start. Returns where it is.
fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// The processor time of a process and its children so far, including those that ended and were waited for. It counts
/// in hundredths of a second.
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may have ended meanwhile.
        parents.extend(process_stat(pid).map(|(parent, ticks)| (pid, parent, ticks)));
    }
    let (mut all, mut sum, mut next) = (vec![pid], 0, 0);
    while let Some(&process) = all.get(next) {
        sum += parents.iter().find(|(pid, ..)| *pid == process).map_or(0, |(.., ticks)| *ticks);
        all.extend(parents.iter().filter(|(_, parent, _)| *parent == process).map(|(pid, ..)| pid));
        next += 1;
    }
    Ok(Duration::from_secs(sum) / u32::try_from(rustix::param::clock_ticks_per_second())?)
}

/// Ours, to the nanosecond.
pub(crate) fn processor_time_of_this_thread() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The parent of a process, and the ticks that it and those it waited for took.
fn process_stat(pid: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name may contain anything, and ends with the last parenthesis. Then: state, parent, …
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some((fields.get(1)?.parse().ok()?, ticks))
}

/// The resident memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let text = field(&format!("/proc/{pid}/status"), "VmRSS").context("a process without a size")?;
    Ok(kibibytes(&text).context("a size that is no number")? * 1024)
}

/// Reads it until it stays the same for a while: memory that is being returned to the system does not count.
pub(crate) fn settled_resident_bytes(read: impl Fn() -> Result<u64>) -> Result<u64> {
    const CALM: Duration = Duration::from_millis(300);
    const LOOKS_MAX: usize = 20;
    let mut last = read()?;
    for _ in 0..LOOKS_MAX {
        std::thread::sleep(CALM);
        let now = read()?;
        if now.abs_diff(last) <= last / 500 {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps a processor busy for this long.
    fn work(time: Duration) {
        let until = processor_time_of_this_thread() + time;
        while processor_time_of_this_thread() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn processor_time_is_of_a_process_and_those_it_started() {
        let me = std::process::id();
        let before = processor_time(me).unwrap();
        work(Duration::from_millis(100));
        let own = processor_time(me).unwrap();
        assert!(own >= before + Duration::from_millis(80), "{before:?} to {own:?}");
        // A child that has ended and was waited for, and did work of its own.
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        let with_child = processor_time(me).unwrap();
        assert!(with_child >= own + Duration::from_millis(10), "{own:?} to {with_child:?}");
    }
}
