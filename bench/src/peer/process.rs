//! A process of ours: started with its log kept, ended by its id, also when the run fails half-way.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

const START_TIMEOUT: Duration = Duration::from_mins(1);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The log lines of a process, and when each came.
type Lines = Arc<Mutex<Vec<(Instant, String)>>>;

#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    stop_with: Signal,
    lines: Lines,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, with its log in `dir`.
    pub(crate) fn start(name: &str, mut command: Command, dir: &Path, stop_with: Signal) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let mut file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let stderr = child.stderr.take().expect("it was piped");
        let lines = Lines::default();
        let noted = Arc::clone(&lines);
        // Ends with the process.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = writeln!(file, "{line}");
                noted.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
            }
        });
        Ok(Process { name: name.to_owned(), child, stop_with, lines, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When a line with `words` first came, of those after the first `skip` lines.
    pub(crate) fn logged(&self, skip: usize, words: &str) -> Option<(Instant, String)> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(skip).find(|(_, line)| line.contains(words)).cloned()
    }

    pub(crate) fn lines_logged(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Looks again and again until `look` finds something, as long as the process lives.
    pub(crate) fn wait_for<T>(&mut self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> Result<T> {
        let began_at = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}) before {what}; its log is {}", self.name, self.log.display());
            }
            if began_at.elapsed() > START_TIMEOUT {
                bail!("{} took too long: no {what}; its log is {}", self.name, self.log.display());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The address that it announces.
    pub(crate) fn announced(&mut self) -> Result<SocketAddr> {
        let (_, line) = self.wait_for("address", |process| process.logged(0, "listening on http://"))?;
        let rest = line.split("listening on http://").nth(1).expect("it was found by these words");
        let addr = rest.split([',', ' ']).next().unwrap_or_default();
        addr.parse().with_context(|| format!("no address in {line}"))
    }

    /// Waits until it takes connections.
    pub(crate) fn accepts(&mut self, addr: SocketAddr) -> Result<()> {
        self.wait_for("socket", |_| TcpStream::connect(addr).ok()).map(drop)
    }

    /// Ends it without a chance to tidy up.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), self.stop_with);
        let began_at = Instant::now();
        while began_at.elapsed() < STOP_TIMEOUT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.kill();
    }
}

/// A port that is free just now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
