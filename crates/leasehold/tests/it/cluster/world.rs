//! Three nodes on a real store (three etcd members, one PostgreSQL, or one with a standby), every connection through a
//! proxy: from each node to each server of the store, between nodes, and between the servers.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_testbed::{Etcd, EtcdOptions, Flow, Postgres, Proxy, Way, free_port};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Client, FakeWall, Launch, PATIENCE, Server, leasehold, output_of, until};

pub(super) const NODES: usize = 3;

/// The store of a cluster.
pub(super) enum Backing {
    Etcd(Etcd),
    Postgres(Postgres),
}

impl Backing {
    fn servers(&self) -> Vec<SocketAddr> {
        match self {
            Backing::Etcd(etcd) => etcd.members().iter().map(|member| member.client).collect(),
            Backing::Postgres(postgres) => postgres.servers().iter().map(|server| server.addr).collect(),
        }
    }

    fn address(&self, servers: &[SocketAddr]) -> String {
        let hosts = servers.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
        match self {
            Backing::Etcd(_) => format!("etcd://{hosts}/test"),
            Backing::Postgres(_) => format!("postgres://postgres@{hosts}/postgres"),
        }
    }
}

pub(super) struct World {
    pub(super) backing: Backing,
    /// The server of PostgreSQL that takes writes.
    pub(super) primary: usize,
    pub(super) nodes: Vec<Node>,
    /// Processes started so far.
    pub(super) lives: usize,
    arguments: &'static [&'static str],
    /// The files of the nodes' clocks.
    _clocks: TempDir,
}

pub(super) struct Node {
    pub(super) server: Option<Server>,
    pub(super) life: usize,
    /// To each server of the store.
    store: Vec<Proxy>,
    /// In front of it for the other nodes.
    pub(super) links: Proxy,
    /// Its wall clock.
    pub(super) wall: FakeWall,
    peer_port: u16,
}

impl World {
    pub(super) fn start() -> World {
        World::start_with(&[])
    }

    /// On etcd, with these arguments for each node.
    pub(super) fn start_with(arguments: &'static [&'static str]) -> World {
        let options = EtcdOptions { members: 3, has_peer_proxies: true, ..EtcdOptions::default() };
        World::made(Backing::Etcd(Etcd::start(options)), arguments)
    }

    pub(super) fn on(backing: Backing) -> World {
        World::made(backing, &[])
    }

    fn made(backing: Backing, arguments: &'static [&'static str]) -> World {
        let clocks = TempDir::new().unwrap();
        let node = |n: usize| {
            let peer_port = free_port();
            let store = backing.servers().into_iter().map(Proxy::start).collect();
            let links = Proxy::start(SocketAddr::from(([127, 0, 0, 1], peer_port)));
            let wall = FakeWall::new(clocks.path(), &format!("node{n}"));
            Node { server: None, life: 0, store, links, wall, peer_port }
        };
        let nodes = (0..NODES).map(node).collect();
        let mut world = World { backing, primary: 0, nodes, lives: 0, arguments, _clocks: clocks };
        for n in 0..NODES {
            world.launch(n);
        }
        world.settle();
        world
    }

    /// Starts a node and waits until it serves.
    pub(super) fn launch(&mut self, n: usize) {
        let node = &self.nodes[n];
        let store = self.backing.address(&node.store.iter().map(Proxy::addr).collect::<Vec<_>>());
        let listen = format!("127.0.0.1:{}", node.peer_port);
        let advertise = node.links.addr().to_string();
        let launch = Launch::with(&["--listen", "127.0.0.1:0", "--store", &store, "--peer-listen", &listen]);
        let launch = node.wall.govern(launch).arg("--advertise").arg(&advertise).arg("--grace").arg("200ms");
        let server = self.arguments.iter().fold(launch, Launch::arg).start();
        self.lives += 1;
        self.nodes[n].life = self.lives;
        self.nodes[n].server = Some(server);
    }

    /// Waits until every partition has an owner that says so, and every node is alive.
    pub(super) fn settle(&self) {
        until("the cluster is whole", PATIENCE * 2, || {
            let statuses: Vec<Value> = (0..NODES).map(|n| self.status(n)).collect::<Option<_>>()?;
            let is_whole = statuses.iter().all(|status| {
                let nodes = status["nodes"].as_array().unwrap();
                nodes.iter().filter(|node| node["state"] == "alive" && node["linked"] == true).count() == NODES
            });
            let served: usize = statuses.iter().map(|status| served(status).len()).sum();
            (is_whole && served == statuses[0]["partitions"].as_array().unwrap().len()).then_some(())
        });
    }

    /// Waits until partitions are divided among the nodes, some seconds after the last of them has joined.
    pub(super) fn divide(&self) {
        until("the partitions are divided", PATIENCE * 2, || {
            let has_share = |n| self.status(n).is_some_and(|status| served(&status).len() >= 2);
            (0..NODES).all(has_share).then_some(())
        });
    }

    pub(super) fn status(&self, n: usize) -> Option<Value> {
        let mut client = Client::connect(self.nodes[n].server.as_ref()?.addr).ok()?;
        client.send("GET", "/v1/cluster", &[], b"").ok()?;
        Some(client.receive_within(Duration::from_secs(2)).ok()?.json())
    }

    /// Where each node that runs listens.
    pub(super) fn addresses(&self) -> Vec<(SocketAddr, usize)> {
        self.nodes.iter().filter_map(|node| Some((node.server.as_ref()?.addr, node.life))).collect()
    }

    pub(super) fn addr(&self, n: usize) -> SocketAddr {
        self.nodes[n].server.as_ref().unwrap().addr
    }

    /// The node that serves this partition, once one does.
    pub(super) fn owner_of(&self, partition: u64) -> usize {
        until("the partition is served", PATIENCE, || {
            (0..NODES).find(|n| self.status(*n).is_some_and(|status| served(&status).contains(&partition)))
        })
    }

    pub(super) fn kill(&mut self, n: usize) {
        self.nodes[n].server.take().unwrap().kill();
    }

    /// Ends a node in an orderly way.
    pub(super) fn terminate(&mut self, n: usize) {
        let (status, log) = self.nodes[n].server.take().unwrap().stop(Signal::TERM);
        assert!(status.success(), "{log}");
    }

    pub(super) fn signal(&self, n: usize, signal: Signal) {
        self.nodes[n].server.as_ref().unwrap().signal(signal);
    }

    /// The operator has a node give its partitions away, or lets it have some again.
    pub(super) fn drain(&self, n: usize, is_draining: bool) {
        let store = self.address();
        let (word, address) = (if is_draining { "drain" } else { "undrain" }, self.nodes[n].links.addr().to_string());
        let output = output_of(leasehold().args(["cluster", word, &address, "--store", &store]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The address of the store, past all proxies.
    pub(super) fn address(&self) -> String {
        self.backing.address(&self.backing.servers())
    }

    pub(super) fn etcd(&mut self) -> &mut Etcd {
        match &mut self.backing {
            Backing::Etcd(etcd) => etcd,
            Backing::Postgres(_) => panic!("the store is on PostgreSQL"),
        }
    }

    pub(super) fn postgres(&mut self) -> &mut Postgres {
        match &mut self.backing {
            Backing::Etcd(_) => panic!("the store is on etcd"),
            Backing::Postgres(postgres) => postgres,
        }
    }

    /// Treats what goes between a node and the store so, one way or both.
    pub(super) fn store_flow(&self, n: usize, way: Option<Way>, flow: Flow) {
        for proxy in &self.nodes[n].store {
            match way {
                Some(way) => proxy.set(way, flow),
                None => proxy.set_both(flow),
            }
        }
    }

    /// The store answers no node for so long.
    pub(super) fn store_away(&self, length: Duration) {
        (0..NODES).for_each(|n| self.store_flow(n, None, Flow::Stall));
        std::thread::sleep(length);
        (0..NODES).for_each(|n| self.cut_store(n));
        (0..NODES).for_each(|n| self.store_flow(n, None, Flow::Pass));
    }

    /// The revision of etcd: each write makes it one more.
    pub(super) fn revision(&self) -> u64 {
        let mut command = std::process::Command::new("etcdctl");
        let hosts = format!("--endpoints={}", self.backing.servers()[0]);
        let output = output_of(command.env("ETCDCTL_API", "3").args([&hosts, "endpoint", "status", "-w", "json"]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status[0]["Status"]["header"]["revision"].as_u64().unwrap()
    }

    pub(super) fn cut_store(&self, n: usize) {
        self.nodes[n].store.iter().for_each(Proxy::cut);
    }
}

fn served(status: &Value) -> Vec<u64> {
    let partitions = status["partitions"].as_array().unwrap();
    let here = partitions.iter().filter(|partition| partition["here"] == true);
    here.map(|partition| partition["partition"].as_u64().unwrap()).collect()
}
