//! The numbers about the process itself, under the names that every Prometheus client uses, read from `/proc` when the
//! metrics are scraped. Where there is no `/proc` they are left out rather than zero.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_engine::Wall;

/// The fields of `/proc/self/stat` after the name in parentheses, counted from there.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const THREADS: usize = 17;
const VIRTUAL_BYTES: usize = 20;
const RESIDENT_PAGES: usize = 21;

/// The present numbers of the process, as lines of the OpenMetrics text.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// When the service began, on the wall clock in microseconds.
    started_us: AtomicU64,
}

impl Process {
    pub(crate) fn begin(&self, wall: Wall) {
        self.started_us.store(wall.0, Ordering::Relaxed);
    }

    pub(crate) fn started(&self) -> Wall {
        Wall(self.started_us.load(Ordering::Relaxed))
    }

    /// Appends the lines to a text that does not end yet.
    pub(super) fn write(&self, text: &mut String) {
        let mut add = |name: &str, kind: &str, suffix: &str, help: &str, value: f64| {
            let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{suffix} {value}");
        };
        #[expect(clippy::cast_precision_loss, reason = "a number for graphs")]
        add(
            "process_start_time_seconds",
            "gauge",
            "",
            "When the process started, as seconds since 1970; time() minus this is its uptime",
            self.started().0 as f64 / 1e6,
        );
        if let Some(stat) = std::fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(fields) {
            #[expect(clippy::cast_precision_loss, reason = "a number for graphs")]
            let (ticks, page) = (rustix::param::clock_ticks_per_second() as f64, rustix::param::page_size() as f64);
            let of = |index: usize| stat.get(index).copied().unwrap_or(0.0);
            add(
                "process_cpu_seconds",
                "counter",
                "_total",
                "Processor time used, of all threads; its rate is the number of busy processors",
                (of(USER_TICKS) + of(SYSTEM_TICKS)) / ticks,
            );
            add(
                "process_resident_memory_bytes",
                "gauge",
                "",
                "Memory of the process in RAM; compare it with state_max",
                of(RESIDENT_PAGES) * page,
            );
            add("process_virtual_memory_bytes", "gauge", "", "Address space of the process", of(VIRTUAL_BYTES));
            add("process_threads", "gauge", "", "Threads of the process", of(THREADS));
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            #[expect(clippy::cast_precision_loss, reason = "a number for graphs")]
            let open = open.count() as f64;
            add("process_open_fds", "gauge", "", "Open file descriptors: connections, mostly", open);
        }
        if let Some(max) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            #[expect(clippy::cast_precision_loss, reason = "a number for graphs")]
            let max = max as f64;
            add("process_max_fds", "gauge", "", "File descriptors that may be open (ulimit -n)", max);
        }
    }
}

/// The numbers of the line. The name of a program may have spaces and parentheses in it, so they begin after the last
/// one; the state, a letter, is counted as zero.
fn fields(stat: &str) -> Option<Vec<f64>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_begin_after_the_last_parenthesis() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 5 0 100 4096 3 18446744073709551615";
        let fields = fields(stat).unwrap();
        let at = |index: usize| fields[index].to_string();
        assert_eq!([at(USER_TICKS), at(SYSTEM_TICKS), at(THREADS)], ["250", "50", "5"]);
        assert_eq!([at(VIRTUAL_BYTES), at(RESIDENT_PAGES)], ["4096", "3"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_numbers_that_can_be_true() {
        let mut text = String::new();
        let process = Process::default();
        process.begin(Wall(1_800_000_000_000_000));
        process.write(&mut text);
        let value = |name: &str| -> f64 {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{name} ")))
                .unwrap_or_else(|| panic!("{name}: {text}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") <= value("process_max_fds"));
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(text.contains("process_start_time_seconds 1800000000\n"));
    }
}
