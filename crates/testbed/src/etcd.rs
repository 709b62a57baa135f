//! A real etcd cluster of one member or several.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{Process, free_port, wait_for};
use crate::proxy::Proxy;

/// An etcd cluster in a directory of its own. It ends with this value.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    options: EtcdOptions,
    // Removed after the members have ended.
    dir: TempDir,
}

/// How a cluster is made.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    /// The number of members; 0 counts as 1.
    pub members: usize,
    /// Members reach each other through proxies: that of a member carries what others send to it and ask of it.
    pub has_peer_proxies: bool,
    /// Clients speak TLS.
    pub is_tls: bool,
    /// More arguments for each member.
    pub arguments: Vec<String>,
}

/// A member.
#[derive(Debug)]
pub struct Member {
    /// Where clients reach it.
    pub client: SocketAddr,
    /// The proxy in front of it for the other members.
    pub peer_proxy: Option<Proxy>,
    number: usize,
    peer: SocketAddr,
    /// For looking at its health and metrics, always without TLS.
    metrics: SocketAddr,
    process: Option<Process>,
}

impl Etcd {
    /// One member, plain.
    pub fn one() -> Etcd {
        Etcd::start(EtcdOptions::default())
    }

    /// Three members, plain.
    pub fn three() -> Etcd {
        Etcd::start(EtcdOptions { members: 3, ..EtcdOptions::default() })
    }

    /// Starts a cluster and waits until it serves.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(options: EtcdOptions) -> Etcd {
        let dir = TempDir::with_prefix("leasehold-etcd-").expect("a directory for etcd");
        let local = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let members = (0..options.members.max(1)).map(|number| {
            let peer = local();
            let peer_proxy = options.has_peer_proxies.then(|| Proxy::start(peer));
            Member { client: local(), peer_proxy, number, peer, metrics: local(), process: None }
        });
        let mut etcd = Etcd { members: members.collect(), options, dir };
        for at in 0..etcd.members.len() {
            etcd.launch(at);
        }
        for at in 0..etcd.members.len() {
            etcd.wait_until_healthy(at);
        }
        etcd
    }

    /// The members, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// `h1:p1,h2:p2`, as in the address of a store.
    pub fn hosts(&self) -> String {
        self.members.iter().map(|member| member.client.to_string()).collect::<Vec<_>>().join(",")
    }

    /// The directory of the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts a member again that was killed, with the data it had, and waits until it serves.
    pub fn restart(&mut self, at: usize) {
        self.launch(at);
        self.wait_until_healthy(at);
    }

    /// Saves a snapshot of a member to a file, as an operator does.
    ///
    /// # Panics
    /// When etcdctl fails.
    pub fn save(&self, at: usize, file: &Path) {
        let endpoint = format!("--endpoints=http://{}", self.members[at].client);
        etcdctl(Command::new("etcdctl").arg(endpoint).args(["snapshot", "save"]).arg(file));
    }

    /// Ends all members and starts them with what was saved: everything since is gone.
    ///
    /// # Panics
    /// When etcdctl or a member fails.
    pub fn go_back(&mut self, file: &Path) {
        let cluster = self.initial_cluster();
        for at in 0..self.members.len() {
            self.kill(at);
            let data = self.dir.path().join(name_of(at));
            std::fs::remove_dir_all(&data).expect("the data of a member");
            let peer = format!("http://{}", self.members[at].advertised());
            etcdctl(
                Command::new("etcdctl")
                    .args(["snapshot", "restore"])
                    .arg(file)
                    .args(["--name", &name_of(at), "--initial-cluster", &cluster])
                    .args(["--initial-advertise-peer-urls", &peer, "--data-dir"])
                    .arg(&data),
            );
        }
        for at in 0..self.members.len() {
            self.launch(at);
        }
        for at in 0..self.members.len() {
            self.wait_until_healthy(at);
        }
    }

    fn initial_cluster(&self) -> String {
        let members =
            self.members.iter().map(|member| format!("{}=http://{}", name_of(member.number), member.advertised()));
        members.collect::<Vec<_>>().join(",")
    }

    /// Ends a member at once.
    pub fn kill(&mut self, at: usize) {
        self.members[at].process = None;
    }

    /// Stops a member; it keeps its connections and says nothing.
    pub fn stop(&self, at: usize) {
        if let Some(process) = &self.members[at].process {
            process.stop();
        }
    }

    /// Lets it go on.
    pub fn wake(&self, at: usize) {
        if let Some(process) = &self.members[at].process {
            process.wake();
        }
    }

    /// The member that leads, as members that run and say so tell.
    pub fn leader(&self) -> usize {
        wait_for("leader", || (0..self.members.len()).find(|at| self.is_leader(*at)))
    }

    /// Returns whether this member says that it leads.
    pub fn is_leader(&self, at: usize) -> bool {
        let text = self.members[at].asked("/metrics");
        text.is_some_and(|text| text.lines().any(|line| line == "etcd_server_is_leader 1"))
    }

    /// The resident memory of all members together.
    pub fn memory_bytes(&self) -> u64 {
        let metric = |member: &Member| {
            let text = member.asked("/metrics")?;
            let line = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "))?;
            line.trim().parse::<f64>().ok()
        };
        // A figure for people; it has no fraction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes")]
        self.members.iter().filter_map(metric).map(|bytes| bytes as u64).sum()
    }

    /// The processor time that all members have used.
    pub fn cpu_seconds(&self) -> f64 {
        let metric = |member: &Member| {
            let text = member.asked("/metrics")?;
            let line = text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total "))?;
            line.trim().parse::<f64>().ok()
        };
        self.members.iter().filter_map(metric).sum()
    }

    fn launch(&mut self, at: usize) {
        let scheme = if self.options.is_tls { "https" } else { "http" };
        let cluster = self.initial_cluster();
        let member = &self.members[at];
        let client = format!("{scheme}://{}", member.client);
        let mut command = Command::new("etcd");
        command
            .args(["--name", &name_of(at), "--data-dir"])
            .arg(self.dir.path().join(name_of(at)))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &format!("http://{}", member.peer)])
            .args(["--initial-advertise-peer-urls", &format!("http://{}", member.advertised())])
            .args(["--listen-metrics-urls", &format!("http://{}", member.metrics)])
            .args(["--initial-cluster", &cluster, "--initial-cluster-state", "new"])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--logger", "zap", "--log-level", "warn"])
            .args(&self.options.arguments);
        let process = Process::start(&name_of(at), &mut command, self.dir.path());
        self.members[at].process = Some(process.expect("etcd is installed (scripts/need.sh)"));
    }

    fn wait_until_healthy(&mut self, at: usize) {
        let member = &mut self.members[at];
        wait_for("healthy etcd", || {
            let process = member.process.as_mut()?;
            assert!(!process.has_ended(), "etcd ended: {}", process.said());
            let health = member.asked("/health")?;
            health.contains("\"true\"").then_some(())
        });
    }
}

fn name_of(number: usize) -> String {
    format!("m{number}")
}

fn etcdctl(command: &mut Command) {
    let output = command.env("ETCDCTL_API", "3").output().expect("etcdctl is installed (scripts/need.sh)");
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
}

impl Member {
    /// Where other members reach it.
    fn advertised(&self) -> SocketAddr {
        self.peer_proxy.as_ref().map_or(self.peer, Proxy::addr)
    }

    fn asked(&self, path: &str) -> Option<String> {
        self.process.as_ref()?;
        let mut stream = TcpStream::connect(self.metrics).ok()?;
        // A stopped member accepts and says nothing.
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }
}
