//! Certificates that are replaced while the server runs: on SIGHUP and by themselves. Connected clients stay connected.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use super::authority::{Authority, launch};
use super::client::HttpsClient;
use crate::support::{PATIENCE, until};

#[test]
fn a_new_certificate_is_for_new_connections_and_a_broken_one_for_none() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let first = authority.server();
    first.write(directory.path(), "server");
    let server = launch(directory.path()).start();
    let connect = || HttpsClient::connect(server.addr, &authority, None).unwrap();
    let healthy = |client: &mut HttpsClient| assert_eq!(client.get("/healthz", None).unwrap().0, 200);
    let mut kept = connect();
    healthy(&mut kept);
    let shown_first = kept.shown();

    let second = authority.server();
    second.write(directory.path(), "server");
    server.signal(Signal::HUP);
    server.wait_for_line("sign-on, policies, limits and the certificate were reloaded");
    healthy(&mut kept);
    assert_eq!(kept.shown(), shown_first);
    let shown_second = connect().shown();
    assert_ne!(shown_second, shown_first);

    // Half of a file, and then one file of two.
    let third = authority.server();
    let certificate = directory.path().join("server.pem");
    for (half, told) in [
        (&third.cert[..third.cert.len() / 2], "ends in the middle"),
        (&third.cert, "is not the key of the certificate"),
    ] {
        std::fs::write(&certificate, half).unwrap();
        server.signal(Signal::HUP);
        let line = server.wait_for_line(told);
        assert!(line.contains("the one before stays in force"), "{line}");
        assert_eq!(connect().shown(), shown_second);
        healthy(&mut kept);
    }
}

#[test]
fn a_key_that_every_user_can_read_is_warned_about() {
    let directory = tempfile::tempdir().unwrap();
    Authority::new().server().write(directory.path(), "server");
    let key = directory.path().join("server.key");
    let warning = "the key in tls_key is open to every user of this machine: chmod o= ";
    for (mode, is_warned) in [(0o600, false), (0o640, false), (0o644, true), (0o601, true)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let (_, log) = launch(directory.path()).start().stop(Signal::TERM);
        assert_eq!(log.contains(warning), is_warned, "{mode:o}: {log}");
    }
}

#[test]
fn a_change_is_noticed_without_being_told() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    let server = launch(directory.path()).start();
    let connect = || HttpsClient::connect(server.addr, &authority, None).unwrap();
    let mut kept = connect();
    assert_eq!(kept.get("/healthz", None).unwrap().0, 200);
    let shown_first = kept.shown();
    authority.server().write(directory.path(), "server");
    until("the second certificate", PATIENCE, || (connect().shown() != shown_first).then_some(()));
    server.wait_for_line("the certificate has changed; new connections get the new one");

    // A change for the worse: the authority's own certificate is not of this key. And one more: there is none.
    let certificate = directory.path().join("server.pem");
    std::fs::write(&certificate, authority.pem()).unwrap();
    let stays = "the certificate has changed and cannot be used, the one before stays: ";
    server.wait_for_line(&format!(
        "{stays}tls_key must be a PEM file with the private key of tls_cert, but \"server.key\" is not"
    ));
    std::fs::remove_file(&certificate).unwrap();
    let line = server.wait_for_line("could not be read: No such file or directory");
    assert!(line.contains(stays), "{line}");
    for client in [&mut kept, &mut connect()] {
        assert_eq!(client.get("/healthz", None).unwrap().0, 200);
    }
}

#[test]
fn tls_itself_comes_and_goes_with_a_restart_only() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    let config = directory.path().join("leasehold.toml");
    let on = "tls_cert = \"server.pem\"\ntls_key = \"server.key\"\n";
    std::fs::write(&config, on).unwrap();
    let launch = |data: &str| {
        let launch = crate::support::Launch::on(&directory.path().join(data)).within(directory.path());
        launch.arg("--config").arg("leasehold.toml").start()
    };
    let server = launch("one");
    std::fs::write(&config, "").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_line("tls_cert is gone from it, and plain HTTP cannot be served before a restart");
    assert_eq!(HttpsClient::connect(server.addr, &authority, None).unwrap().get("/healthz", None).unwrap().0, 200);

    let plain = launch("two");
    std::fs::write(&config, on).unwrap();
    plain.signal(Signal::HUP);
    plain.wait_for_line("tls_cert is new in it, and https cannot be served before a restart");
    plain.client().call("GET", "/healthz", "").unwrap().expect(200);
}
