//! The process under test: started, listened to, sent signals, and gone when the test is over, however that ends.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Client, PATIENCE, until};

/// How to start a server.
#[derive(Debug)]
pub(crate) struct Launch {
    command: Command,
}

/// A server that listens. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
    log: Arc<Log>,
    reader: Option<JoinHandle<()>>,
}

/// How a process ended that never listened.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

/// The standard error of the process so far.
#[derive(Debug, Default)]
struct Log {
    state: Mutex<LogState>,
    grew: Condvar,
}

#[derive(Debug, Default)]
struct LogState {
    text: String,
    is_over: bool,
}

/// The binary with nothing of ours in its environment.
pub(crate) fn leasehold() -> Command {
    without_our_variables(Command::new(env!("CARGO_BIN_EXE_leasehold")))
}

fn without_our_variables(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("LEASEHOLD_")) {
            command.env_remove(name);
        }
    }
    command
}

/// A data directory must be private to its owner; directories made by tests have the mode of the umask.
fn close(directory: &Path) {
    if directory.is_dir() {
        std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
}

/// Runs something that is to end by itself. Its output is short, so that the pipes hold all of it.
pub(crate) fn output_of(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ended = || child.try_wait().unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while ended().is_none() {
        if std::time::Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{command:?} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a command of the binary. Returns its exit code and what it wrote to standard output and standard error.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = output_of(leasehold().args(args));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs a command that succeeds without a warning. Returns what it printed.
#[track_caller]
pub(crate) fn done(args: &[&str]) -> String {
    let (code, printed, said) = run(args);
    assert_eq!((code, &*said), (Some(0), ""), "{args:?}: {printed}");
    printed
}

/// Runs a command that is refused with this exit code and these words.
#[track_caller]
pub(crate) fn refused(args: &[&str], code: i32, words: &str) {
    let (found, printed, said) = run(args);
    assert_eq!((found, &*printed), (Some(code), ""), "{args:?}: {said}");
    assert!(said.contains(words), "{args:?} should say {words:?} and says {said}");
}

/// A path as an argument.
pub(crate) fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command of the binary and kills it when it makes this system call for the nth time. False when it came to its
/// end before that.
pub(crate) fn is_killed_at(args: &[&str], call: &str, nth: usize) -> bool {
    let mut command = Command::new("strace");
    // Not with --seccomp-bpf, which injects no signals.
    command.args(["-D", "-f", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
    command.arg(format!("inject={call}:signal=KILL:when={nth}"));
    command.arg(leasehold().get_program()).args(args);
    let output = output_of(&mut command);
    let is_killed = output.status.signal() == Some(9);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(is_killed || output.status.success(), "{call} {nth}: {}: {said}", output.status);
    is_killed
}

impl Launch {
    /// On a free port, with its data in `directory`, which is made private to its owner if it exists already.
    pub(crate) fn on(directory: &Path) -> Launch {
        close(directory);
        Launch::with(&["--listen", "127.0.0.1:0", "--data"]).arg(directory)
    }

    pub(crate) fn with(args: &[&str]) -> Launch {
        let mut command = leasehold();
        command.arg("serve").args(args);
        Launch { command }
    }

    /// The same, with no more than so many files and sockets open at once.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_open_files(directory: &Path, files_max: u32) -> Launch {
        Launch::after(&format!("ulimit -n {files_max}"), directory)
    }

    /// The same, but the process may raise that by itself.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_open_files_for_now(directory: &Path, files_max: u32) -> Launch {
        Launch::after(&format!("ulimit -Sn {files_max}"), directory)
    }

    /// The same, with no more address space than this.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_address_space(directory: &Path, kib_max: u32) -> Launch {
        Launch::after(&format!("ulimit -v {kib_max}"), directory)
    }

    /// The same, with no file longer than so many KiB: writing past that fails, as on a full disk.
    pub(crate) fn with_file_size(directory: &Path, kib_max: u32) -> Launch {
        // In blocks of 512 bytes. The signal that goes with it would kill the process.
        Launch::after(&format!("trap '' XFSZ && ulimit -f {}", kib_max * 2), directory)
    }

    fn after(limit: &str, directory: &Path) -> Launch {
        close(directory);
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_leasehold"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
        Launch { command: without_our_variables(command) }.arg(directory)
    }

    /// With this as its working directory.
    pub(crate) fn within(mut self, directory: &Path) -> Launch {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Launch {
        self.command.arg(arg);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Launch {
        self.command.env(name, value);
        self
    }

    /// Starts it and kills it after this long, whether it listens by then or not.
    pub(crate) fn start_and_kill(mut self, after: Duration) {
        let mut child = self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Under `strace` with these arguments, which writes its findings to `report`. The process under test is still our
    /// own child, with its own exit code.
    pub(crate) fn under_strace(self, args: &[&str], report: &Path) -> Launch {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-y", "--seccomp-bpf", "-e", "signal=none"]).args(args).arg("-o").arg(report);
        command.arg(self.command.get_program()).args(self.command.get_args());
        Launch { command: without_our_variables(command) }
    }

    pub(crate) fn start(self) -> Server {
        self.try_start().unwrap_or_else(|Ended { status, log }| panic!("it ended with {status}: {log}"))
    }

    /// Starts it, unless it ends before it listens.
    pub(crate) fn try_start(mut self) -> Result<Server, Ended> {
        let mut child = self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().expect("it is piped");
        let reader = std::thread::spawn({
            let log = Arc::clone(&log);
            move || log.follow(stderr)
        });
        // Made before it is known to listen, so that it does not outlive a start that fails.
        let mut server = Server { child, addr: ([127, 0, 0, 1], 0).into(), log, reader: Some(reader) };
        let Some(line) = server.find_line("listening on http") else {
            let status = server.wait();
            return Err(Ended { status, log: server.whole_log() });
        };
        let addr = line.split("://").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        server.addr = addr.parse().unwrap_or_else(|error| panic!("{error} in {line:?}"));
        Ok(server)
    }
}

impl Server {
    /// The address for operators, where `--admin-listen` asks for one.
    pub(crate) fn operators(&self) -> SocketAddr {
        let line = self.wait_for_line("admin actions are served on http://");
        line.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How much memory it has, where the operating system says so in a file.
    pub(crate) fn resident_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Some(line.trim().trim_end_matches(" kB").parse().unwrap())
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.as_pid(), signal).unwrap();
    }

    fn as_pid(&self) -> Pid {
        // Not yet waited for, so the number still belongs to it.
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }

    /// From now on no more than so many files and sockets may be open at once.
    #[cfg(target_os = "linux")]
    pub(crate) fn allow_open_files(&self, files_max: u32) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(files_max.into()), maximum: Some(files_max.into()) };
        prlimit(Some(self.as_pid()), Resource::Nofile, limit).unwrap();
    }

    /// SIGKILL, and the end of it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and returns how it did and all it wrote.
    pub(crate) fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        self.signal(signal);
        let status = self.wait();
        (status, self.whole_log())
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        until("the process ends", PATIENCE, || child.try_wait().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        self.log.state.lock().unwrap().text.clone()
    }

    /// The first line of the log with `part` in it.
    pub(crate) fn wait_for_line(&self, part: &str) -> String {
        self.find_line(part).unwrap_or_else(|| panic!("no line with {part:?}, only: {}", self.log()))
    }

    /// `None` when the log ended without such a line, or there was none in time.
    fn find_line(&self, part: &str) -> Option<String> {
        let found = |state: &LogState| state.text.lines().find(|line| line.contains(part)).map(str::to_owned);
        let state = self.log.state.lock().unwrap();
        let waiting = |state: &mut LogState| found(state).is_none() && !state.is_over;
        let (state, _) = self.log.grew.wait_timeout_while(state, PATIENCE, waiting).unwrap();
        found(&state)
    }

    /// Everything it wrote. Only once it has ended.
    pub(crate) fn whole_log(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already, or to go now; a stopped process can be killed, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.whole_log();
        if std::thread::panicking() {
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the last lines of the server's log:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        } else {
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

impl Log {
    fn follow(&self, stderr: ChildStderr) {
        let mut lines = BufReader::new(stderr);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            self.state.lock().unwrap().text.push_str(&String::from_utf8_lossy(&line));
            line.clear();
            self.grew.notify_all();
        }
        self.state.lock().unwrap().is_over = true;
        self.grew.notify_all();
    }
}
