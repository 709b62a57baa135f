//! Every way to get TLS wrong at the start is a sentence that names the setting, the file and the problem, and exit
//! code 2.

use super::authority::{Authority, Pair};
use crate::support::Launch;

#[test]
fn files_that_cannot_be_served_with_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let good = authority.server();
    good.write(directory.path(), "server");
    let other = authority.server();
    other.write(directory.path(), "other");
    Pair { cert: good.cert[..200].to_owned(), key: String::new() }.write(directory.path(), "bad");
    let launch = |flags: &str| {
        let launch = Launch::on(&directory.path().join("data")).within(directory.path());
        flags.split_whitespace().fold(launch, Launch::arg)
    };
    for (flags, told) in [
        (
            "--tls-cert server.pem",
            "tls_cert is of no use without tls_key, the file with its private key (flag --tls-cert)",
        ),
        (
            "--tls-key server.key",
            "tls_key is of no use without tls_cert, the file with the certificate (flag --tls-key)",
        ),
        (
            "--tls-client-ca server.pem",
            "tls_client_ca is of no use without tls_cert and tls_key (flag --tls-client-ca)",
        ),
        (
            "--tls-cert server.pem --tls-key server.key --tls-client-auth optional",
            "tls_client_auth is of no use without tls_client_ca (flag --tls-client-auth)",
        ),
        (
            "--tls-cert server.pem --tls-key server.key --tls-client-ca server.pem --tls-client-auth perhaps",
            "tls_client_auth must be required or optional, but \"perhaps\" is neither (flag --tls-client-auth)",
        ),
        (
            "--tls-cert nowhere.pem --tls-key server.key",
            "tls_cert must be a PEM file with the certificate and those that vouch for it, but \"nowhere.pem\" could not be \
             read: No such file or directory (os error 2) (flag --tls-cert)",
        ),
        (
            "--tls-cert bad.pem --tls-key server.key",
            "tls_cert must be a PEM file with the certificate and those that vouch for it, but \"bad.pem\" ends in the middle \
             of a section (flag --tls-cert)",
        ),
        (
            "--tls-cert server.pem --tls-key bad.key",
            "tls_key must be a PEM file with the private key of tls_cert, but \"bad.key\" has no private key in it (flag \
             --tls-key)",
        ),
        (
            "--tls-cert server.pem --tls-key other.key",
            "tls_key must be a PEM file with the private key of tls_cert, but \"other.key\" is not the key of the certificate \
             in tls_cert (flag --tls-key)",
        ),
        (
            "--tls-cert server.pem --tls-key server.key --tls-client-ca server.key",
            "tls_client_ca must be a PEM file with the certificates that vouch for clients, but \"server.key\" has no \
             certificate in it (flag --tls-client-ca)",
        ),
    ] {
        let ended = launch(flags).try_start().expect_err(flags);
        assert_eq!(ended.status.code(), Some(2), "{flags}: {}", ended.log);
        assert!(ended.log.contains(told), "{flags}: {}\n{told}", ended.log);
        assert!(!ended.log.contains("PRIVATE"), "{}", ended.log);
    }
}
