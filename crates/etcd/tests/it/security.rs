//! TLS with certificates made here, and users, against a real etcd.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use leasehold_cluster::{Landing, SharedError, SharedStore};
use leasehold_etcd::wire::{AuthenticateRequest, Call};
use leasehold_etcd::{Address, Client, EtcdStore};
use leasehold_testbed::{Authority, Etcd, EtcdOptions};
use tempfile::TempDir;

use super::common::{Chain, SECOND, address, birth, joined, node, persist, read_all, runtime, take};

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn certificates_both_ways() {
    let (ours, foreign) = (Authority::new("ours"), Authority::new("foreign"));
    ours.sign("member");
    ours.sign("node");
    foreign.sign("node");
    let arguments = [("--cert-file", "member.pem"), ("--key-file", "member.key"), ("--trusted-ca-file", "ca.pem")];
    let mut arguments: Vec<String> =
        arguments.iter().flat_map(|(flag, file)| [(*flag).to_owned(), text(&ours.file(file))]).collect();
    arguments.push("--client-cert-auth".to_owned());
    let etcd = Etcd::start(EtcdOptions { is_tls: true, arguments, ..EtcdOptions::default() });
    let with = |ca: &Authority, own: Option<&Authority>| {
        let mut query = format!("?ca={}", text(&ca.file("ca.pem")));
        if let Some(own) = own {
            query = format!("{query}&cert={}&key={}", text(&own.file("node.pem")), text(&own.file("node.key")));
        }
        address(&etcd.hosts(), &query)
    };
    runtime().block_on(async {
        let store = joined(&with(&ours, Some(&ours)), 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        assert_eq!(persist(&store, &stream.next(3)).await, Landing::Durable);
        assert_eq!(read_all(&store, 0).await, stream.records);

        let cases = [
            ("the member is signed by another authority", with(&foreign, Some(&ours)), "UnknownIssuer"),
            ("the node is signed by another authority", with(&ours, Some(&foreign)), ""),
            ("the node has no certificate", with(&ours, None), ""),
            ("the node speaks no TLS", address(&etcd.hosts(), ""), ""),
            ("nothing is known of the authority", address(&etcd.hosts(), "?tls=on"), "UnknownIssuer"),
        ];
        // At the same time, as each is tried again for a while.
        let cases = cases.map(|(what, wrong, words)| {
            let join = async move { EtcdStore::new(&wrong).unwrap().join(node(2), birth()).await };
            (what, words, tokio::spawn(join))
        });
        for (what, words, join) in cases {
            match join.await.unwrap() {
                Err(SharedError::Away(why)) => assert!(why.contains(words), "{what}: {why}"),
                other => panic!("{what}: {other:?}"),
            }
        }
    });
}

#[test]
fn files_that_cannot_be_used() {
    let authority = Authority::new("ours");
    authority.sign("node");
    let file = |name: &str| text(&authority.file(name));
    fs::write(authority.file("empty"), "\n").unwrap();
    for (query, words) in [
        (format!("?ca={}", file("absent")), "the CA file"),
        (format!("?ca={}", file("node.key")), "there is no certificate in it"),
        (format!("?cert={}&key={}", file("node.pem"), file("node.pem")), "the key"),
        (format!("?cert={}&key={}", file("ca.pem"), file("node.key")), "the certificate"),
        (format!("?user=a&password-file={}", file("absent")), "cannot be read"),
        (format!("?user=a&password-file={}", file("empty")), "has 0 bytes; a password has 1 to 4096"),
    ] {
        let error = EtcdStore::new(&address("127.0.0.1:1", &query)).unwrap_err().to_string();
        assert!(error.contains(words), "{query}: {error}");
    }
}

macro_rules! admin {
    ($($path:literal $request:ident { $($(#[$meta:meta])* $field:ident: $ty:ty),* })*) => {
        $(
            #[derive(Clone, PartialEq, Eq, prost::Message)]
            struct $request { $($(#[$meta])* $field: $ty),* }

            impl Call for $request {
                type Answer = Nothing;
                const PATH: &'static str = concat!("/etcdserverpb.Auth/", $path);
            }
        )*
    };
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct Nothing {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Permission {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(bytes = "bytes", tag = "2")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    range_end: Bytes,
}

admin! {
    "UserAdd" UserAdd { #[prost(string, tag = "1")] name: String, #[prost(string, tag = "2")] password: String }
    "RoleAdd" RoleAdd { #[prost(string, tag = "1")] name: String }
    "UserGrantRole" UserGrantRole { #[prost(string, tag = "1")] user: String, #[prost(string, tag = "2")] role: String }
    "RoleGrantPermission" RoleGrant {
        #[prost(string, tag = "1")] name: String, #[prost(message, optional, tag = "2")] perm: Option<Permission>
    }
    "AuthEnable" AuthEnable {}
}

#[test]
fn users_and_their_rights() {
    const READ_AND_WRITE: i32 = 2;
    // Hashing passwords slowly is not what is tested here.
    let arguments = vec!["--bcrypt-cost".to_owned(), "4".to_owned()];
    let mut etcd = Etcd::start(EtcdOptions { arguments, ..EtcdOptions::default() });
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("right"), "open sesame\n").unwrap();
    fs::write(dir.path().join("wrong"), "open barley\n").unwrap();
    let plain = address(&etcd.hosts(), "");
    let with = |user: &str, password: &str| -> Address {
        format!("{plain}?user={user}&password-file={}", text(&dir.path().join(password))).parse().unwrap()
    };
    runtime().block_on(async {
        // A user where there are none is no mistake.
        joined(&with("leasehold", "right"), 9).await;

        // These are not for sending twice, so they get the longer attempts.
        let admin = Client::new(&plain).unwrap().bulk_lane();
        let password = "open sesame".to_owned();
        for (user, role) in [("root", "root"), ("leasehold", "leasehold"), ("other", "other")] {
            let (name, role) = (user.to_owned(), role.to_owned());
            admin.call(&UserAdd { name: name.clone(), password: password.clone() }, 5 * SECOND).await.unwrap();
            admin.call(&RoleAdd { name: role.clone() }, 5 * SECOND).await.unwrap();
            admin.call(&UserGrantRole { user: name, role: role.clone() }, 5 * SECOND).await.unwrap();
            let folder = if user == "leasehold" { plain.prefix.clone() } else { "/elsewhere".to_owned() };
            let (key, range_end) = (Bytes::from(format!("{folder}/")), Bytes::from(format!("{folder}0")));
            let perm = Some(Permission { kind: READ_AND_WRITE, key, range_end });
            admin.call(&RoleGrant { name: role, perm }, 5 * SECOND).await.unwrap();
        }
        let request = AuthenticateRequest { name: "root".to_owned(), password };
        admin.call(&request, 5 * SECOND).await.expect_err("there is nothing to authenticate for yet");
        admin.call(&AuthEnable {}, 5 * SECOND).await.unwrap();

        for (address, words) in [
            (plain.clone(), "it wants to know the user"),
            (with("leasehold", "wrong"), "the user or the password is wrong"),
            (with("nobody", "right"), "the user or the password is wrong"),
            (with("other", "right"), "permission denied"),
        ] {
            match EtcdStore::new(&address).unwrap().join(node(2), birth()).await {
                Err(SharedError::Refused(sentence)) => assert!(sentence.contains(words), "{sentence}"),
                other => panic!("{words}: {other:?}"),
            }
        }

        let store = joined(&with("leasehold", "right"), 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        assert_eq!(persist(&store, &stream.next(3)).await, Landing::Durable);
        store.changed().await.unwrap();
        joined(&with("leasehold", "right"), 3).await;
        store.changed().await.unwrap();
        // etcd forgets its tokens when it is restarted: a new one is asked for.
        etcd.kill(0);
        etcd.restart(0);
        assert_eq!(persist(&store, &stream.next(3)).await, Landing::Durable);
        store.confirm().await.unwrap();
        assert_eq!(read_all(&store, 0).await, stream.records);
    });
}
