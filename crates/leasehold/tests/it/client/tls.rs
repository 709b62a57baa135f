//! The Rust client over TLS: the authorities it trusts, the certificate it shows, and the sentence when either is
//! wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_client::{Client, ClientBuilder, Error, Released};
use tempfile::TempDir;

use super::block_on;
use crate::support::{Server, leasehold, output_of};
use crate::tls::authority::{Authority, launch};

const POLICIES: &str = "tls_client_ca = \"ca.pem\"\n[auth.certificates]\ngroups = [\"machines\"]\n[[policy]]\nsubjects = [\"ci\"]\nactions = [\"*\"]\n";

struct Rig {
    authority: Authority,
    server: Server,
    directory: TempDir,
}

/// A server for `localhost` and 127.0.0.1, which wants client certificates if `config` says so.
fn world(config: &str) -> Rig {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    if !config.is_empty() {
        std::fs::write(directory.path().join("leasehold.toml"), config).unwrap();
    }
    Rig { server: launch(directory.path()).start(), authority, directory }
}

impl Rig {
    fn url(&self) -> String {
        format!("https://localhost:{}", self.server.addr.port())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn client(&self) -> ClientBuilder {
        Client::builder().urls(&self.url()).name("ci")
    }

    /// A CA file with another authority in it.
    fn other_ca(&self) -> PathBuf {
        let path = self.path("other.pem");
        std::fs::write(&path, Authority::new().pem()).unwrap();
        path
    }
}

/// The error of an acquisition.
fn refusal(client: ClientBuilder) -> String {
    let request = client.build().unwrap().lock("backup").wait(Duration::from_secs(20));
    match block_on(request.acquire()) {
        Err(Error::Tls(trouble)) => Error::Tls(trouble).to_string(),
        other => panic!("it should fail by TLS: {other:?}"),
    }
}

#[test]
fn a_lock_is_held_and_renewed_by_a_client_that_trusts_the_ca_file() {
    let world = world("");
    let client = world.client().ca_file(world.path("ca.pem")).build().unwrap();
    block_on(async {
        let lease = client.lock("backup").ttl(Duration::from_secs(3)).acquire().await.unwrap();
        let first = lease.deadline();
        tokio::time::sleep(Duration::from_secs(4)).await;
        lease.check().unwrap();
        assert!(lease.deadline() > first, "renewed");
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn an_authority_that_is_not_trusted_is_refused_with_a_sentence_that_names_the_address() {
    let world = world("");
    // Those that the system trusts do not know the test's authority either.
    for client in [world.client().ca_file(world.other_ca()), world.client()] {
        let said = refusal(client);
        assert!(said.contains("issued by an authority that is not trusted here"), "{said}");
        assert!(said.contains(&world.url()), "{said}");
    }
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let world = world("");
    // Another way to write where it listens.
    let url = format!("https://[::ffff:127.0.0.1]:{}", world.server.addr.port());
    let said = refusal(Client::builder().urls(&url).ca_file(world.path("ca.pem")));
    assert!(said.contains("for another name than the one in the address"), "{said}");
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.expired_server().write(directory.path(), "server");
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    let server = launch(directory.path()).start();
    let url = format!("https://localhost:{}", server.addr.port());
    let said = refusal(Client::builder().urls(&url).ca_file(directory.path().join("ca.pem")));
    assert!(said.contains("has expired"), "{said}");
}

#[test]
fn a_client_certificate_is_shown_and_counts_and_without_one_the_sentence_says_what_is_missing() {
    let world = world(POLICIES);
    let own = |name: &str, authority: &Authority| authority.client(name).write(world.directory.path(), name);
    let [cert, key] = own("ci", &world.authority);
    let client = world.client().ca_file(world.path("ca.pem")).client_certificate(cert, key).build().unwrap();
    block_on(async {
        let lease = client.lock("backup").acquire().await.unwrap();
        assert!(lease.token().unwrap() >= 1);
        let who = client.call("GET", "/v1/whoami", None).await.unwrap();
        assert_eq!(who.json()["name"], "ci");
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    });
    let without = refusal(world.client().ca_file(world.path("ca.pem")));
    assert!(without.contains("wants a client certificate"), "{without}");
    let [cert, key] = own("stranger", &Authority::new());
    let foreign = refusal(world.client().ca_file(world.path("ca.pem")).client_certificate(cert, key));
    assert!(foreign.contains("does not accept the client certificate"), "{foreign}");
}

#[test]
fn files_that_cannot_be_used_are_told_before_anything_is_sent() {
    let world = world("");
    let missing = world.client().ca_file(world.path("no-such.pem")).build().unwrap_err().to_string();
    assert!(missing.contains("no-such.pem") && missing.contains("cannot be used"), "{missing}");
    let no_key =
        world.client().ca_file(world.path("ca.pem")).client_certificate(world.path("server.pem"), world.path("ca.pem"));
    let no_key = no_key.build().unwrap_err().to_string();
    assert!(no_key.contains("the key \"") && no_key.contains("ca.pem"), "{no_key}");
}

#[test]
fn run_says_which_address_is_not_trusted_and_how_to_name_the_authority() {
    let world = world(POLICIES);
    let [cert, key] = world.authority.client("ci").write(world.directory.path(), "ci");
    let run = |ca: &Path, cert: Option<[&Path; 2]>| {
        let mut command = leasehold();
        command.args(["run", "--url", &world.url(), "--name", "ci", "--lock", "backup", "--ca-file"]).arg(ca);
        if let Some([cert, key]) = cert {
            command.arg("--cert-file").arg(cert).arg("--key-file").arg(key);
        }
        let output = output_of(command.args(["--", "echo", "held"]));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let good = run(&world.path("ca.pem"), Some([&cert, &key]));
    assert_eq!((good.0, good.1.as_str()), (Some(0), "held\n"), "{}", good.2);
    for (ca, sentence) in [(world.other_ca(), "not trusted here"), (world.path("ca.pem"), "wants a client certificate")]
    {
        let (code, _, said) = run(&ca, None);
        assert_eq!(code, Some(125), "{said}");
        for part in [sentence, "--ca-file", "--cert-file", &world.url(), "from --url"] {
            assert!(said.contains(part), "{part:?} is missing: {said}");
        }
    }
}
