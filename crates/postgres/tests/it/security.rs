//! TLS with certificates made here, passwords, and unix sockets, against a real PostgreSQL.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use leasehold_cluster::{Landing, SharedError, SharedStore};
use leasehold_postgres::{Address, PostgresStore};
use leasehold_testbed::{Authority, Postgres, PostgresOptions};
use tempfile::TempDir;

use super::common::{Chain, birth, joined, node, persist, read_all, runtime, take};

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn parse(text: &str) -> Address {
    text.parse().unwrap()
}

/// PostgreSQL takes a key only if it belongs to its user or to root, and no other user reads it.
fn give(file: &Path, to: &Path) {
    let owner = fs::metadata(to).unwrap();
    let copy = to.join(file.file_name().unwrap());
    fs::copy(file, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&copy, Some(owner.uid()), Some(owner.gid())).unwrap();
}

async fn works(address: &Address, number: u128) {
    let store = joined(address, number).await;
    let mut stream = Chain::new(take(&store, u32::try_from(number).unwrap() % 8, number).await);
    assert_eq!(persist(&store, &stream.next(3)).await, Landing::Durable);
    assert_eq!(read_all(&store, stream.reign.partition).await, stream.records);
}

#[test]
fn certificates_and_passwords() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    for name in ["server", "certified"] {
        ours.sign(name);
    }
    foreign.sign("certified");
    let hba = ["hostssl all certified 127.0.0.1/32 cert", "hostssl all lease 127.0.0.1/32 scram-sha-256"];
    let hba = hba.iter().chain(&["hostnossl all lease 127.0.0.1/32 reject"]).map(|line| (*line).to_owned()).collect();
    let mut postgres = Postgres::start(PostgresOptions { hba, ..PostgresOptions::default() });
    let data = postgres.dir().join("0");
    for file in ["server.pem", "server.key", "ca.pem"] {
        give(&ours.file(file), &data);
    }
    postgres.sql(0, "CREATE ROLE certified LOGIN; CREATE ROLE lease LOGIN PASSWORD 'open sesame'");
    postgres.sql(0, "CREATE SCHEMA a AUTHORIZATION certified; CREATE SCHEMA b AUTHORIZATION lease");
    for (setting, value) in
        [("ssl", "on"), ("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key"), ("ssl_ca_file", "ca.pem")]
    {
        postgres.sql(0, &format!("ALTER SYSTEM SET {setting} = '{value}'"));
    }
    postgres.kill(0);
    postgres.restart(0);

    let hosts = postgres.hosts();
    let port = postgres.servers()[0].addr.port();
    let ca = text(&ours.file("ca.pem"));
    let own = |authority: &Authority| {
        format!("&cert={}&key={}", text(&authority.file("certified.pem")), text(&authority.file("certified.key")))
    };
    let dir = TempDir::new().unwrap();
    let file = |name: &str, content: &str| {
        fs::write(dir.path().join(name), content).unwrap();
        text(&dir.path().join(name))
    };
    let (right, wrong) = (file("right", "open sesame\n"), file("wrong", "open barley\n"));
    let passfile = file("pass", &format!("# hosts\nelsewhere:*:*:*:no\n127.0.0.1:{port}:postgres:lease:open sesame\n"));
    let a = |query: &str| parse(&format!("postgres://certified@{hosts}/postgres?schema=a{query}"));
    let b = |query: &str| parse(&format!("postgres://lease@{hosts}/postgres?schema=b{query}"));
    runtime().block_on(async {
        works(&a(&format!("&ca={ca}{}", own(&ours))), 1).await;
        // With a password, the certificate of the server is bound to it.
        works(&b(&format!("&ca={ca}&password-file={right}")), 1).await;
        works(&b(&format!("&ca={ca}&passfile={passfile}")), 2).await;
        for (what, address, words) in [
            (
                "the server is signed by another authority",
                a(&format!("&ca={}{}", text(&foreign.file("ca.pem")), own(&ours))),
                "UnknownIssuer",
            ),
            ("nothing is known of the authority", b(&format!("&tls=on&password-file={right}")), "UnknownIssuer"),
            ("the user is signed by another authority", a(&format!("&ca={ca}{}", own(&foreign))), ""),
            ("the user has no certificate", a(&format!("&ca={ca}")), "certificate"),
            ("the user speaks no TLS", b(&format!("&password-file={right}")), "pg_hba.conf"),
            (
                "the password is wrong",
                b(&format!("&ca={ca}&password-file={wrong}")),
                "the user or the password is wrong",
            ),
            ("there is no password", b(&format!("&ca={ca}")), "add ?password-file=FILE"),
        ] {
            match PostgresStore::new(&address).unwrap().join(node(7), birth()).await {
                Err(SharedError::Away(why) | SharedError::Refused(why)) => {
                    assert!(why.contains(words), "{what}: {why}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
        // A password that is changed in its file is used at the next connect.
        let changing = file("changing", "open sesame\n");
        let store = joined(&b(&format!("&ca={ca}&password-file={changing}")), 5).await;
        postgres.sql(0, "ALTER ROLE lease PASSWORD 'open barley'");
        fs::write(&changing, "open barley\n").unwrap();
        postgres.sql(0, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'lease'");
        store.confirm().await.unwrap();
    });
}

#[test]
fn a_unix_socket() {
    let postgres = Postgres::start(PostgresOptions { has_socket: true, ..PostgresOptions::default() });
    let (dir, port) = (text(postgres.dir()), postgres.servers()[0].addr.port());
    runtime().block_on(async {
        works(&parse(&format!("postgres://postgres@:{port}/postgres?host={dir}")), 1).await;
        works(&parse(&format!("postgres://postgres@{}:{port}/postgres", dir.replace('/', "%2F"))), 2).await;
    });
}

#[test]
fn files_that_cannot_be_used() {
    let authority = Authority::new("ours");
    authority.sign("node");
    let file = |name: &str| text(&authority.file(name));
    fs::write(authority.file("empty"), "\n").unwrap();
    fs::write(authority.file("pass"), "other:*:*:*:secret\n").unwrap();
    for (query, words) in [
        (format!("?ca={}", file("absent")), "the CA file"),
        (format!("?ca={}", file("node.key")), "there is no certificate in it"),
        (format!("?cert={}&key={}", file("node.pem"), file("node.pem")), "the key"),
        (format!("?cert={}&key={}", file("ca.pem"), file("node.key")), "the certificate"),
        (format!("?password-file={}", file("absent")), "cannot be read"),
        (format!("?password-file={}", file("empty")), "has 0 bytes; a password has 1 to 4096"),
        (format!("?passfile={}", file("absent")), "cannot be read"),
        (format!("?passfile={}", file("pass")), "no line of the password file"),
    ] {
        let error = PostgresStore::new(&parse(&format!("postgres://u@127.0.0.1/x{query}"))).unwrap_err().to_string();
        assert!(error.contains(words), "{query}: {error}");
    }
}
