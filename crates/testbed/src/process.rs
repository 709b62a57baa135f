//! A process of the test: its output is kept, and it is ended by its id.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Looks again and again until there is something to see.
///
/// # Panics
/// When there is nothing within a minute: the test has failed.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began_at = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began_at.elapsed() < Duration::from_mins(1), "no {what} within a minute");
        thread::sleep(LOOK_EVERY);
    }
}

/// Ports that the system hands out by itself begin above these, so that none of its choice comes between.
const PORTS: std::ops::Range<u32> = 20_000..32_000;
/// The ports that this process has tried so far.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// A port that is free just now, and that neither the system nor a later call of this process chooses.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    let count = PORTS.end - PORTS.start;
    for _ in 0..count {
        // Processes begin at different places, and go on in steps that visit all ports.
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(97).wrapping_add(tried.wrapping_mul(7)) % count;
        let port = u16::try_from(PORTS.start + place).expect("a port");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("loopback has no free port");
}

/// A process, killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it, with everything it says in `<dir>/<name>.log`.
    pub fn start(name: &str, command: &mut Command, dir: &Path) -> io::Result<Process> {
        let log = dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Process { child, log })
    }

    /// Everything it has said.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it, as a machine that sleeps: it keeps its sockets and does nothing.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
