//! Redis, PostgreSQL and etcd, each as its own documentation would have it for durable locks, and Redis also without.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use super::process::{Process, free_port};
use super::text;
use crate::drive::connect;
use crate::script::POSTGRES_SCHEMA;
use crate::wire::{postgres, resp};

const CONNECTIONS_MAX: &str = "400";

type Started = (Process, SocketAddr, String);

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

pub(super) fn start_redis(dir: &Path, durable: bool) -> Result<Started> {
    let addr = local(free_port()?);
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &addr.port().to_string(), "--dir", &text(dir)]);
    command.args(["--daemonize", "no", "--save", "", "--maxclients", "4000"]);
    if durable {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    } else {
        command.args(["--appendonly", "no"]);
    }
    let mut process = Process::start("redis", command, dir, Signal::TERM)?;
    process.accepts(addr)?;
    process.wait_for("answer", |_| {
        let reply = resp::call(&mut connect(addr).ok()?, &[b"PING"]).ok()?;
        (reply == "+PONG").then_some(())
    })?;
    Ok((process, addr, version_of("redis-server", "--version")?))
}

pub(super) fn start_etcd(dir: &Path) -> Result<Started> {
    let addr = local(free_port()?);
    let client = format!("http://{addr}");
    let member = format!("http://{}", local(free_port()?));
    let mut command = Command::new("etcd");
    command.args(["--data-dir", &text(&dir.join("data")), "--logger", "zap", "--log-level", "warn"]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &member, "--initial-advertise-peer-urls", &member]);
    command.args(["--initial-cluster", &format!("default={member}")]);
    let mut process = Process::start("etcd", command, dir, Signal::TERM)?;
    process.accepts(addr)?;
    process.wait_for("lease", |_| crate::script::EtcdLock::line(addr, 0).ok())?;
    Ok((process, addr, version_of("etcd", "--version")?))
}

/// Three members on this machine.
pub(super) fn start_etcd_three(dir: &Path) -> Result<(Vec<Process>, Vec<SocketAddr>, String)> {
    let mut places = Vec::new();
    for number in 0..3 {
        places.push((format!("m{number}"), local(free_port()?), local(free_port()?)));
    }
    let cluster: Vec<String> = places.iter().map(|(name, _, peer)| format!("{name}=http://{peer}")).collect();
    let mut members = Vec::new();
    for (name, client, peer) in &places {
        let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = Command::new("etcd");
        command.args(["--name", name, "--data-dir", &text(&dir.join(name)), "--logger", "zap", "--log-level", "warn"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &cluster.join(","), "--snapshot-count", "10000"]);
        members.push(Process::start(&format!("etcd-{name}"), command, dir, Signal::TERM)?);
    }
    let addrs: Vec<SocketAddr> = places.iter().map(|(_, client, _)| *client).collect();
    for (member, addr) in members.iter_mut().zip(&addrs) {
        member.accepts(*addr)?;
        member.wait_for("lease", |_| crate::script::EtcdLock::line(*addr, 0).ok())?;
    }
    Ok((members, addrs, version_of("etcd", "--version")?))
}

pub(super) fn start_postgres(dir: &Path) -> Result<Started> {
    let programs = postgres_programs()?;
    let data = dir.join("data");
    if is_root() {
        // It refuses to run as root.
        run(Command::new("chown").arg("postgres").arg(dir))?;
    }
    let mut init = as_postgres(&programs.join("initdb"));
    init.args(["--pgdata", &text(&data), "--auth", "trust", "--username", "postgres", "--no-sync"]);
    run(&mut init)?;
    let addr = local(free_port()?);
    let mut command = as_postgres(&programs.join("postgres"));
    command.args(["-D", &text(&data), "-p", &addr.port().to_string(), "-c", "listen_addresses=127.0.0.1"]);
    command.args(["-c", "unix_socket_directories=", "-c", &format!("max_connections={CONNECTIONS_MAX}")]);
    command.args(["-c", "synchronous_commit=on", "-c", "fsync=on"]);
    // SIGINT is its fast shutdown: it does not wait for clients.
    let mut process = Process::start("postgres", command, dir, Signal::INT)?;
    process.accepts(addr)?;
    let mut stream = process.wait_for("session", |_| {
        let mut stream = connect(addr).ok()?;
        postgres::start(&mut stream, "postgres", "postgres").ok()?;
        Some(stream)
    })?;
    postgres::query(&mut stream, POSTGRES_SCHEMA)?;
    let version = version_of(&text(&programs.join("postgres")), "--version")?;
    Ok((process, addr, version))
}

/// Debian keeps the server's programs out of the path.
fn postgres_programs() -> Result<PathBuf> {
    let debian = Path::new("/usr/lib/postgresql/15/bin");
    if debian.join("postgres").exists() {
        return Ok(debian.to_owned());
    }
    let output = Command::new("pg_config").arg("--bindir").output().context("PostgreSQL's server is not installed")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    // It becomes the program, so that its process id is the one we know.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The first line a program says about its version.
fn version_of(program: &str, flag: &str) -> Result<String> {
    let output = Command::new(program).arg(flag).output().with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
