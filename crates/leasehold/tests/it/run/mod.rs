//! `leasehold run` with real children against the real server: exit codes, signals, stops, kills, cut networks. In each
//! of them either the lease is kept, or the command is dead before another can hold it.

mod codes;
mod cut;
mod loss;
mod signals;
#[cfg(target_os = "linux")]
mod terminal;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

use crate::support::{Launch, PATIENCE, Server, leasehold, output_of, until};

fn memory() -> Server {
    Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start()
}

/// `leasehold run` with the address and these arguments, in a process group of its own.
fn run(addr: SocketAddr, args: &[&str]) -> Command {
    let mut command = leasehold();
    command.arg("run").arg("--url").arg(format!("http://{addr}")).args(args).process_group(0);
    command
}

/// To its end: exit code, standard output, standard error.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = output_of(command);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// One that goes on while the test does something to it.
struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    /// The next line that the command prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before it said anything");
        line.trim_end().to_owned()
    }

    /// A process number that the command prints.
    fn pid(&mut self) -> Pid {
        as_pid(self.line().parse().unwrap())
    }

    fn front(&self) -> Pid {
        as_pid(i32::try_from(self.child.id()).unwrap())
    }

    fn keeper(&self) -> Pid {
        let front = self.front().as_raw_nonzero();
        until("there is a keeper", PATIENCE, || {
            let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).ok()?;
            children.split_whitespace().map(|pid| as_pid(pid.parse().unwrap())).find(|pid| {
                let command = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
                String::from_utf8_lossy(&command).contains("__keeper")
            })
        })
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.front(), signal).unwrap();
    }

    /// How it ended, and all it said.
    fn end(&mut self) -> (ExitStatus, String) {
        let status = until("run ends", PATIENCE, || self.child.try_wait().unwrap());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = kill_process_group(self.front(), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn as_pid(pid: i32) -> Pid {
    Pid::from_raw(pid).unwrap()
}

/// Runs, and is not only waited for.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_ok() && stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// No client has the lock.
fn is_free(server: &Server, job: &str) -> bool {
    let lock = server.client().call("GET", &format!("/lock?job={job}"), "").unwrap().expect(200).json();
    lock["is_expired"] == true
}

/// Until another gets the lock; when that was.
fn witness(server: &Server, job: &str) -> Instant {
    let target = format!("/lock?job={job}&client=witness&ttl=1s&wait=30s");
    server.client().call("POST", &target, "").unwrap().expect(200);
    Instant::now()
}

/// Where a command leaves its traces.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
