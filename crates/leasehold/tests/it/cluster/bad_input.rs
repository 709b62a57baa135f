//! Stores and settings that cannot be right: each is a sentence at the start, in the log or in `cluster status`, and
//! what was lent before stays lent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use leasehold_testbed::{Etcd, EtcdOptions, free_port};

use crate::support::{
    Client, Ended, Launch, PATIENCE, Server, leasehold, output_of, part_of_the_machine, report, until,
};

/// A cluster of one node on one member, with a lock that is held for longer than any test.
struct Sound {
    etcd: Etcd,
    server: Server,
    peer_port: u16,
    token: u64,
}

const HELD: &str = "/lock?job=held&client=holder&ttl=300s";

impl Sound {
    fn start(options: EtcdOptions) -> Sound {
        let etcd = Etcd::start(options);
        let peer_port = free_port();
        let server = node(&store(&etcd.hosts()), peer_port).start();
        let token = until("the lock is taken", PATIENCE, || {
            let told = Client::connect(server.addr).unwrap().call("POST", HELD, "").unwrap();
            (told.status == 200).then(|| told.number("token"))
        });
        Sound { etcd, server, peer_port, token }
    }

    fn store(&self) -> String {
        store(&self.etcd.hosts())
    }

    /// Nothing was lost by what another process was told.
    fn still_holds(&self) {
        let told = Client::connect(self.server.addr).unwrap().call("GET", "/lock?job=held", "").unwrap().expect(200);
        assert_eq!((told.text("holder").as_str(), told.number("token")), ("holder", self.token), "{}", told.json());
    }
}

fn store(hosts: &str) -> String {
    format!("etcd://{hosts}/test")
}

fn node(store: &str, peer_port: u16) -> Launch {
    let listen = format!("127.0.0.1:{peer_port}");
    Launch::with(&["--listen", "127.0.0.1:0", "--store", store, "--peer-listen", &listen])
}

/// The only thing that this process says before it ends.
fn refused(launch: Launch) -> String {
    match launch.try_start() {
        Ok(server) => panic!("it serves: {}", server.log()),
        Err(Ended { status, log }) => {
            assert!(!status.success(), "{log}");
            assert!(!log.contains("panicked"), "{log}");
            log
        }
    }
}

fn refused_with(launch: Launch, words: &str) {
    let log = refused(launch);
    assert!(log.contains(words), "{words:?} is not in: {log}");
}

fn etcdctl(hosts: &str, args: &[&str]) -> Output {
    let mut command = Command::new("etcdctl");
    let output = output_of(command.env("ETCDCTL_API", "3").arg(format!("--endpoints={hosts}")).args(args));
    assert!(output.status.success(), "etcdctl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn keys(hosts: &str, prefix: &str) -> String {
    String::from_utf8(etcdctl(hosts, &["get", prefix, "--prefix", "--keys-only"]).stdout).unwrap()
}

#[test]
fn a_wrong_prefix_another_number_of_partitions_or_a_copy_is_refused() {
    let _machine = part_of_the_machine();
    let sound = Sound::start(EtcdOptions::default());
    let hosts = sound.etcd.hosts();
    // Something else lives there.
    etcdctl(&hosts, &["put", "/registry/pods/a", "kubernetes"]);
    let foreign = node(&format!("etcd://{hosts}/registry"), free_port());
    refused_with(foreign, "/registry and none of them is the facts of a cluster: choose another prefix");
    assert_eq!(keys(&hosts, "/registry/").trim(), "/registry/pods/a", "nothing was written");
    for (prefix, words) in [("", "prefix"), ("/a//b", "prefix"), ("/a b", "prefix")] {
        refused_with(node(&format!("etcd://{hosts}{prefix}"), free_port()), words);
    }
    refused_with(
        node(&sound.store(), free_port()).arg("--partitions").arg("16"),
        "has 8 partitions for ever, and 16 were asked for",
    );
    refused_with(node(&sound.store(), free_port()).arg("--partitions").arg("7"), "partitions");
    sound.still_holds();

    // The keys as they are, in another etcd: a copy, as of a member that was restored under another name.
    let copy = Etcd::one();
    let there = format!("127.0.0.1:{}", copy.members()[0].client.port());
    let mirror = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args([format!("--endpoints={hosts}").as_str(), "make-mirror", "--prefix=/test/", &there])
        .spawn();
    let mut mirror = mirror.unwrap();
    let is_copied = || keys(&there, "/test/").contains("/test/etcd").then_some(());
    until("the keys are copied", PATIENCE, is_copied);
    mirror.kill().unwrap();
    mirror.wait().unwrap();
    refused_with(node(&store(&there), free_port()), "were made in another etcd cluster");
    sound.still_holds();
    report(format_args!(
        "cluster: a wrong prefix, a copy and another number of partitions were refused with a sentence"
    ));
}

#[test]
fn a_member_that_is_too_old_or_of_another_etcd_is_refused() {
    let _machine = part_of_the_machine();
    let sound = Sound::start(EtcdOptions::default());
    let other = Etcd::one();
    let both = format!("{},{}", sound.etcd.hosts(), other.hosts());
    refused_with(node(&store(&both), free_port()), "belongs to another etcd cluster");

    let old = older(sound.etcd.members()[0].client);
    refused_with(
        node(&store(&old.to_string()), free_port()),
        "which can lose acknowledged writes; use 3.4.22 or later",
    );
    let status = output_of(leasehold().args(["cluster", "status", "--store", &store(&old.to_string())]));
    let said = String::from_utf8_lossy(&status.stderr);
    assert!(!status.status.success() && said.contains("can lose acknowledged writes"), "{said}");
    sound.still_holds();
    report(format_args!("cluster: an etcd that is too old and a member of another etcd were refused with a sentence"));
}

/// The way to a member, as one of an older release: its version is another text of the same length.
fn older(member: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let said = String::from_utf8(Command::new("etcd").arg("--version").output().unwrap().stdout).unwrap();
    let version = said.split_whitespace().find(|word| word.starts_with("3.")).unwrap().to_owned();
    let old = format!("{:0<width$}", "3.4.0", width = version.len());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (version, old) = (version.clone().into_bytes(), old.clone().into_bytes());
            let server = TcpStream::connect(member).unwrap();
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pump(from, to, |_| {}));
            std::thread::spawn(move || {
                pump(server, client, |bytes| {
                    if let Some(at) = bytes.windows(version.len()).position(|window| window == version) {
                        bytes[at..at + old.len()].copy_from_slice(&old);
                    }
                });
            });
        }
    });
    addr
}

fn pump(mut from: impl Read, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; 65_536];
    while let Ok(read) = from.read(&mut buffer) {
        change(&mut buffer[..read]);
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_user_without_permission_is_refused() {
    let _machine = part_of_the_machine();
    let sound = Sound::start(EtcdOptions::default());
    let hosts = sound.etcd.hosts();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (right, wrong) = (file("right", "secret\n"), file("wrong", "guess\n"));
    for args in [
        &["user", "add", "root:root"][..],
        &["user", "add", "node:secret"],
        &["user", "add", "reader:secret"],
        &["role", "add", "node"],
        &["role", "add", "reader"],
        &["role", "grant-permission", "node", "readwrite", "--prefix=true", "/test/"],
        &["role", "grant-permission", "reader", "read", "--prefix=true", "/test/"],
        &["user", "grant-role", "node", "node"],
        &["user", "grant-role", "reader", "reader"],
        &["auth", "enable"],
    ] {
        etcdctl(&hosts, args);
    }
    let launch = |user: &str, password: &Path| {
        let address = format!("{}?user={user}&password-file={}", sound.store(), password.display());
        node(&address, free_port())
    };
    refused_with(node(&sound.store(), free_port()), "etcd refuses: it wants to know the user; add ?user=NAME");
    refused_with(launch("node", &wrong), "etcd refuses: the user or the password is wrong");
    let may_read = refused(launch("reader", &right));
    assert!(may_read.contains("etcd refuses: permission denied"), "{may_read}");
    assert!(may_read.contains("/test/ are to be read and written"), "{may_read}");
    // With all it needs, a node joins, and what was lent before is there.
    let server = launch("node", &right).start();
    until("the lock is seen", PATIENCE, || {
        let told = Client::connect(server.addr).unwrap().call("GET", "/lock?job=held", "").unwrap();
        (told.status == 200 && told.number("token") == sound.token).then_some(())
    });
    report(format_args!("cluster: no user, a wrong password and a missing permission were refused with a sentence"));
}

#[test]
fn a_full_etcd_is_told_of_and_nothing_is_lost() {
    const QUOTA_BYTES: u64 = 16 << 20;
    let _machine = part_of_the_machine();
    let arguments = vec!["--quota-backend-bytes".to_owned(), QUOTA_BYTES.to_string()];
    let sound = Sound::start(EtcdOptions { arguments, ..EtcdOptions::default() });
    let hosts = sound.etcd.hosts();
    let directory = tempfile::tempdir().unwrap();
    let large = directory.path().join("large");
    std::fs::write(&large, vec![b'x'; 1 << 20]).unwrap();
    until("etcd is full", PATIENCE, || {
        let put = format!("ETCDCTL_API=3 etcdctl --endpoints={hosts} put /other/large < {}", large.display());
        let output = output_of(Command::new("sh").arg("-c").arg(put));
        String::from_utf8_lossy(&output.stderr).contains("space exceeded").then_some(())
    });
    // A node that wants to join cannot, and says why at once.
    refused_with(
        node(&sound.store(), free_port()),
        "etcd is full: its file has reached the quota; compact and defragment",
    );
    // One that serves says so in its log and in its status, and lends nothing more.
    sound.server.wait_for_line("etcd is full");
    let mut client = Client::connect(sound.server.addr).unwrap();
    until("the status tells", PATIENCE, || {
        let status = client.call("GET", "/v1/cluster", "").unwrap().expect(200).json();
        status.to_string().contains("full").then_some(())
    });
    let told = until("nothing more is lent", PATIENCE, || {
        let told = client.call("POST", "/lock?job=more&client=b&ttl=30s", "").unwrap();
        (told.status != 200).then_some(told)
    });
    assert!(matches!(told.status, 502 | 503), "{}", told.json());
    // The operator makes room as the sentence says.
    etcdctl(&hosts, &["del", "/other/large"]);
    let status = String::from_utf8(etcdctl(&hosts, &["endpoint", "status", "--write-out=json"]).stdout).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].as_u64().unwrap().to_string();
    etcdctl(&hosts, &["compact", &revision, "--physical=true"]);
    etcdctl(&hosts, &["defrag"]);
    etcdctl(&hosts, &["alarm", "disarm"]);
    until("it lends again", PATIENCE * 2, || {
        let mut client = Client::connect(sound.server.addr).ok()?;
        client.send("POST", "/lock?job=after&client=b&ttl=30s", &[], b"").ok()?;
        (client.receive_within(Duration::from_secs(6)).ok()?.status == 200).then_some(())
    });
    sound.still_holds();
    report(format_args!(
        "cluster: a full etcd was told of at the start, in the log and in the status; nothing was lost"
    ));
}

#[test]
fn an_address_that_is_taken_or_leads_nowhere_is_told_of() {
    let _machine = part_of_the_machine();
    let sound = Sound::start(EtcdOptions::default());
    let taken = format!("127.0.0.1:{}", sound.peer_port);
    refused_with(
        node(&sound.store(), free_port()).arg("--advertise").arg(&taken),
        &format!(
            "another node answers at {taken}, the address that this one advertises: every node needs an address of its own"
        ),
    );
    // It had joined to find that out, and leaves nothing behind.
    let output = output_of(leasehold().args(["cluster", "status", "--store", &sound.store(), "--json"]));
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().filter(|node| node["state"] == "alive").count(), 1, "{status}");
    refused_with(
        Launch::with(&["--listen", "127.0.0.1:0", "--store", &sound.store(), "--peer-listen", "0.0.0.0:0"]),
        "advertise",
    );
    sound.still_holds();

    // No process listens there: the node says so, and so does the status.
    let nowhere = format!("127.0.0.1:{}", free_port());
    let lost = node(&sound.store(), free_port()).arg("--advertise").arg(&nowhere).start();
    lost.wait_for_line(&format!("this node cannot reach itself at {nowhere}, the address that it advertises"));
    let said = until("the status tells", PATIENCE, || {
        let output = output_of(leasehold().args(["cluster", "status", "--store", &sound.store()]));
        let said = String::from_utf8(output.stderr).unwrap();
        said.contains(&nowhere).then_some(said)
    });
    assert!(said.contains(&format!("1 of 1 other nodes cannot reach {nowhere}: check its --advertise")), "{said}");
    lost.kill();
    until("the lock is seen again", PATIENCE, || {
        let told = Client::connect(sound.server.addr).unwrap().call("GET", "/lock?job=held", "").unwrap();
        (told.status == 200 && told.number("token") == sound.token).then_some(())
    });
    report(format_args!(
        "cluster: an address that is taken was refused, one that leads nowhere is told of in the status"
    ));
}
