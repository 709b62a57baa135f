//! Real PostgreSQL servers: one, or a primary with standbys that can be promoted.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::process::{Process, free_port, wait_for};
use crate::proxy::Proxy;

/// The superuser of the servers, who needs no password.
pub const SUPERUSER: &str = "postgres";

/// A primary and its standbys, in a directory of their own. They end with this value.
#[derive(Debug)]
pub struct Postgres {
    servers: Vec<PostgresServer>,
    options: PostgresOptions,
    // Removed after the servers have ended.
    dir: TempDir,
}

/// How the servers are made.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    /// Standbys, each of which follows the primary through a proxy.
    pub standbys: usize,
    /// The primary waits for all of them at every commit.
    pub is_synchronous: bool,
    /// More settings, `name=value`.
    pub settings: Vec<String>,
    /// Lines of `pg_hba.conf` before those that trust every user on loopback.
    pub hba: Vec<String>,
    /// Users connect through a unix socket in [`Postgres::dir`] as well.
    pub has_socket: bool,
    /// No file may become larger, which PostgreSQL takes for a disk that is full. Not a multiple of its pages, and more
    /// than the 16 MiB of a file of its log.
    pub file_bytes_max: Option<u64>,
}

/// A server.
#[derive(Debug)]
pub struct PostgresServer {
    /// Where clients reach it.
    pub addr: SocketAddr,
    /// Carries what a standby asks of the primary and hears of it. `None` for the first server.
    pub replication: Option<Proxy>,
    data: PathBuf,
    process: Option<Process>,
}

/// A PgBouncer, which ends with this value.
#[derive(Debug)]
pub struct Pooler {
    /// Where clients reach it.
    pub addr: SocketAddr,
    _process: Process,
}

impl Postgres {
    /// One server.
    pub fn one() -> Postgres {
        Postgres::start(PostgresOptions::default())
    }

    /// A primary with one synchronous standby.
    pub fn with_standby() -> Postgres {
        Postgres::start(PostgresOptions { standbys: 1, is_synchronous: true, ..PostgresOptions::default() })
    }

    /// Starts the servers and waits until they serve.
    ///
    /// # Panics
    /// When one does not start.
    pub fn start(options: PostgresOptions) -> Postgres {
        let dir = TempDir::with_prefix("leasehold-postgres-").expect("a directory for PostgreSQL");
        if geteuid().is_root() {
            // PostgreSQL refuses to run as root.
            run(Command::new("chown").arg(SUPERUSER).arg(dir.path()));
        }
        let data = dir.path().join("0");
        run(program("initdb")
            .arg("--pgdata")
            .arg(&data)
            .args(["--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"])
            .args(["--username", SUPERUSER]));
        let mut postgres = Postgres { servers: Vec::new(), options, dir };
        let hba = data.join("pg_hba.conf");
        let trusted = fs::read_to_string(&hba).expect("initdb made it");
        fs::write(&hba, postgres.options.hba.join("\n") + "\n" + &trusted).expect("it can be written");
        postgres.add(data, None);
        for number in 1..=postgres.options.standbys {
            postgres.add_standby(number);
        }
        if postgres.options.is_synchronous {
            let names: Vec<String> = (1..=postgres.options.standbys).map(|number| format!("s{number}")).collect();
            let (count, names) = (names.len(), names.join(","));
            postgres.sql(0, &format!("ALTER SYSTEM SET synchronous_standby_names = 'FIRST {count} ({names})'"));
            postgres.sql(0, "SELECT pg_reload_conf()");
            wait_for("synchronous standby", || {
                let states = postgres.sql(0, "SELECT string_agg(sync_state, ',') FROM pg_stat_replication");
                (!states.is_empty() && states.split(',').all(|state| state == "sync")).then_some(())
            });
        }
        postgres
    }

    fn add(&mut self, data: PathBuf, replication: Option<Proxy>) {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        self.servers.push(PostgresServer { addr, replication, data, process: None });
        self.restart(self.servers.len() - 1);
    }

    fn add_standby(&mut self, number: usize) {
        let proxy = Proxy::start(self.servers[0].addr);
        let data = self.dir.path().join(number.to_string());
        let (host, port) = (proxy.addr().ip(), proxy.addr().port());
        run(program("pg_basebackup")
            .arg("--pgdata")
            .arg(&data)
            .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--dbname"])
            .arg(format!("host={host} port={port} user={SUPERUSER} application_name=s{number}")));
        self.add(data, Some(proxy));
        wait_for("standby", || {
            let streaming = format!("SELECT count(*) FROM pg_stat_replication WHERE application_name = 's{number}'");
            (self.sql(0, &streaming) == "1").then_some(())
        });
    }

    /// The servers; the first was made as the primary.
    pub fn servers(&self) -> &[PostgresServer] {
        &self.servers
    }

    /// `h1:p1,h2:p2`, as in the address of a store.
    pub fn hosts(&self) -> String {
        self.servers.iter().map(|server| server.addr.to_string()).collect::<Vec<_>>().join(",")
    }

    /// The directory of the servers, and of their sockets.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs statements as the superuser, and returns the values of their rows, a line each.
    ///
    /// # Panics
    /// When PostgreSQL rejects them.
    pub fn sql(&self, at: usize, statements: &str) -> String {
        let addr = self.servers[at].addr;
        let mut command = program("psql");
        command
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname"])
            .arg(format!("host={} port={} user={SUPERUSER} dbname=postgres", addr.ip(), addr.port()))
            .args(["--command", statements]);
        run(&mut command).trim().to_owned()
    }

    /// Starts a server, with the data it has, and waits until it serves.
    pub fn restart(&mut self, at: usize) {
        let server = &self.servers[at];
        let mut command = program_under(self.options.file_bytes_max, "postgres");
        command.arg("-D").arg(&server.data).args(["-p", &server.addr.port().to_string()]);
        let sockets = if self.options.has_socket { self.dir.path().display().to_string() } else { String::new() };
        let ours = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={sockets}"),
            "max_connections=300".to_owned(),
            // A standby that is gone is noticed soon.
            "wal_sender_timeout=5s".to_owned(),
            "wal_receiver_timeout=5s".to_owned(),
            "wal_retrieve_retry_interval=100ms".to_owned(),
        ];
        for setting in ours.iter().chain(&self.options.settings) {
            command.args(["-c", setting]);
        }
        let mut process = Process::start(&format!("server{at}"), &mut command, self.dir.path())
            .expect("PostgreSQL is installed (scripts/need.sh)");
        // Its log goes on where the last start of it ended.
        let began = process.said().matches(READY).count();
        wait_for("PostgreSQL that serves", || {
            assert!(!process.has_ended(), "PostgreSQL ended: {}", process.said());
            (process.said().matches(READY).count() > began).then_some(())
        });
        self.servers[at].process = Some(process);
    }

    /// A PgBouncer before the first server, with more lines for its file.
    ///
    /// # Panics
    /// When it does not start.
    pub fn pooler(&self, settings: &str) -> Pooler {
        let (server, addr) = (self.servers[0].addr, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let name = format!("pooler{}", addr.port());
        let file = self.dir.path().join(format!("{name}.ini"));
        let text = format!(
            "[databases]\n* = user={SUPERUSER} host={} port={}\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {}\nauth_type = any\n\
             unix_socket_dir =\n{settings}\n",
            server.ip(),
            server.port(),
            addr.ip(),
            addr.port()
        );
        fs::write(&file, text).expect("a file");
        let mut command = as_user(Path::new("pgbouncer"), None);
        let process = Process::start(&name, command.arg(&file), self.dir.path());
        let mut process = process.expect("PgBouncer is installed (scripts/need.sh)");
        wait_for("pooler", || {
            assert!(!process.has_ended(), "PgBouncer ended: {}", process.said());
            TcpStream::connect(addr).ok()
        });
        Pooler { addr, _process: process }
    }

    /// Ends a server and all its processes at once.
    pub fn kill(&mut self, at: usize) {
        // Stopped first, so that none of them starts another or does anything more.
        self.signal_all(at, Signal::STOP);
        let family = self.signal_all(at, Signal::KILL);
        self.servers[at].process = None;
        // As long as one of them lives, PostgreSQL does not start again.
        wait_for("end of PostgreSQL", || family.iter().all(|process| is_over(*process)).then_some(()));
    }

    /// Stops a server and all its processes; connections stay, and it says nothing.
    pub fn stop(&self, at: usize) {
        self.signal_all(at, Signal::STOP);
    }

    /// Lets it go on.
    pub fn wake(&self, at: usize) {
        self.signal_all(at, Signal::CONT);
    }

    /// Makes a standby a primary, and waits until it takes writes.
    pub fn promote(&self, at: usize) {
        self.sql(at, "SELECT pg_promote()");
        wait_for("promotion", || (self.sql(at, "SELECT pg_is_in_recovery()") == "f").then_some(()));
    }

    /// The postmaster first, so that it starts no more. Returns the processes.
    fn signal_all(&self, at: usize, signal: Signal) -> Vec<u32> {
        let Some(process) = &self.servers[at].process else { return Vec::new() };
        let mut family = children(process.pid());
        family.insert(0, process.pid());
        for process in &family {
            let _ = kill_process(pid(*process), signal);
        }
        family
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        for at in 0..self.servers.len() {
            self.kill(at);
        }
    }
}

/// The words of a server that takes connections, read-only ones of a standby as well.
const READY: &str = "ready to accept";

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a process id is small")).expect("a process id is not 0")
}

/// The processes that a process has started, as /proc tells.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|number| stat(*number).is_some_and(|(_, of)| of == parent)).collect()
}

fn is_over(process: u32) -> bool {
    stat(process).is_none_or(|(state, _)| state == 'Z')
}

/// The state of a process, and its parent.
fn stat(process: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before them may have spaces, and ends with a bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn program(name: &str) -> Command {
    program_under(None, name)
}

/// A program of PostgreSQL. Debian keeps them out of the path.
fn program_under(file_bytes_max: Option<u64>, name: &str) -> Command {
    let debian = Path::new("/usr/lib/postgresql/15/bin");
    let path = if debian.exists() { debian.join(name) } else { PathBuf::from(name) };
    as_user(&path, file_bytes_max)
}

/// A program as a user that it accepts, which root is not. Each wrapper becomes the program, so that its process id is
/// the one we know.
fn as_user(program: &Path, file_bytes_max: Option<u64>) -> Command {
    let mut words = Vec::new();
    if geteuid().is_root() {
        let (user, group) = (format!("--reuid={SUPERUSER}"), format!("--regid={SUPERUSER}"));
        words.extend(["setpriv".to_owned(), user, group, "--clear-groups".to_owned()]);
    }
    if let Some(bytes) = file_bytes_max {
        words.extend(["prlimit".to_owned(), format!("--fsize={bytes}")]);
    }
    words.push(program.display().to_string());
    let mut command = Command::new(&words[0]);
    // The caller's directory may be closed to that user.
    command.args(&words[1..]).current_dir("/");
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("PostgreSQL is installed (scripts/need.sh)");
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
