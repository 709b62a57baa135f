//! Client certificates: which ones come in, under which name, and the rights of that name.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::authority::{Authority, Pair, launch};
use super::client::HttpsClient;
use crate::sign_on::support::Member;
use crate::support::{PATIENCE, Server, leasehold, output_of, report, until};

const POLICIES: &str = r#"
[[policy]]
subjects = ["ci"]
actions = ["inspect", "acquire", "update-own"]
resources = ["build/*"]

[[policy]]
groups = ["operators"]
actions = ["*"]
"#;

struct Rig {
    authority: Authority,
    server: Server,
    directory: TempDir,
}

fn world(config: &str) -> Rig {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(directory.path().join("leasehold.toml"), format!("tls_client_ca = \"ca.pem\"\n{config}")).unwrap();
    Rig { server: launch(directory.path()).start(), authority, directory }
}

impl Rig {
    fn addr(&self) -> SocketAddr {
        self.server.addr
    }

    fn connect(&self, own: Option<&Pair>) -> HttpsClient {
        HttpsClient::connect(self.addr(), &self.authority, own).unwrap()
    }

    /// Returns whether a client with this certificate gets an answer.
    fn lets_in(&self, own: Option<&Pair>) -> bool {
        let client = HttpsClient::connect(self.addr(), &self.authority, own);
        client.and_then(|mut client| client.get("/healthz", None)).is_ok()
    }
}

#[test]
fn nobody_comes_in_without_a_certificate_that_is_vouched_for() {
    let world = world(&format!("[auth.certificates]\ngroups = [\"machines\"]\n{POLICIES}"));
    let foreign = Authority::new().client("ci");
    let expired = world.authority.expired_client("ci");
    let of_a_server = world.authority.server();
    let unwelcome = [
        ("nobody", None),
        ("one of another authority", Some(&foreign)),
        ("one that has expired", Some(&expired)),
        ("one that is for servers", Some(&of_a_server)),
    ];
    for (who, own) in unwelcome {
        assert!(!world.lets_in(own), "{who}");
    }
    report(format_args!("tls: {} kinds of clients without a good certificate were refused", unwelcome.len()));
    let ci = world.authority.client("ci");
    let mut client = world.connect(Some(&ci));
    let (status, who) = client.get("/v1/whoami", None).unwrap();
    assert_eq!((status, &who["name"], &who["source"]), (200, &"ci".into(), &"certificate".into()));
    assert_eq!(who["groups"], serde_json::json!(["machines"]));

    // The policy goes by the name in it.
    let claim = |client: &mut HttpsClient, resource: &str| {
        let body = format!(r#"{{"resource": "{resource}", "timeout": 60}}"#);
        client.call("POST", "/v1/claims/", None, &body).unwrap()
    };
    let (status, made) = claim(&mut client, "build/a");
    assert_eq!((status, &made["owner"]), (201, &"ci".into()), "{made}");
    let (status, denied) = claim(&mut client, "deploy");
    assert_eq!(status, 403, "{denied}");
    let mut other = world.connect(Some(&world.authority.client("web")));
    let (status, denied) = claim(&mut other, "build/b");
    assert_eq!((status, &denied["error"]), (403, &"web needs the action 'acquire' on claim 'build/b'".into()));

    let [cert, key] = ci.write(world.directory.path(), "ci");
    let check = |own: bool| {
        let mut command = leasehold();
        command.args(["healthcheck", "--tls", "--listen", &world.addr().to_string()]);
        if own {
            command.arg("--cert").arg(&cert).arg("--key").arg(&key);
        }
        output_of(&mut command).status.code()
    };
    assert_eq!((check(true), check(false)), (Some(0), Some(1)));
}

#[test]
fn where_it_is_optional_others_sign_on_as_they_always_did() {
    let root = Member::new("root", &["operators"]);
    let config = format!(
        "tls_client_auth = \"optional\"\n[auth.certificates]\nname_from = \"san\"\nname_prefix = \"cert:\"\n{}{POLICIES}",
        root.snippet
    );
    let world = world(&config);
    let whoami = |own: Option<&Pair>, bearer: Option<&str>| {
        let (status, who) = world.connect(own).get("/v1/whoami", bearer).unwrap();
        assert_eq!(status, 200, "{who}");
        who["name"].as_str().map(str::to_owned)
    };
    let ci = world.authority.client("ci");
    assert_eq!(whoami(None, None), None);
    assert_eq!(whoami(None, Some(&root.token)).as_deref(), Some("root"));
    assert_eq!(whoami(Some(&ci), None).as_deref(), Some("cert:ci.example.org"));
    assert_eq!(whoami(Some(&ci), Some(&root.token)).as_deref(), Some("root"), "a token says it more clearly");
    assert_eq!(world.connect(None).get("/v1/claims/", None).unwrap().0, 401);
    // To show none is fine, to show one that no known authority signed is not.
    assert!(!world.lets_in(Some(&Authority::new().client("ci"))));
    assert!(!world.lets_in(Some(&world.authority.expired_client("ci"))));
}

/// A list is read again when its file changes, and one that has run out, or is of another authority, lets no client in.
#[test]
fn a_certificate_that_was_taken_back_does_not_come_in() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    let list = directory.path().join("revoked.pem");
    let (good, stolen) = (authority.numbered_client("ci", 7), authority.numbered_client("ci", 8));
    let config = "tls_client_ca = \"ca.pem\"\ntls_client_crl = \"revoked.pem\"\n";
    std::fs::write(directory.path().join("leasehold.toml"), config).unwrap();
    std::fs::write(&list, authority.revocations(&[], 2100)).unwrap();
    let world = Rig { server: launch(directory.path()).start(), authority, directory };
    assert!(world.lets_in(Some(&good)) && world.lets_in(Some(&stolen)));

    let changes = [
        ("taken back", world.authority.revocations(&[8], 2100), (true, false)),
        ("one before it", world.authority.revocations(&[7], 2100), (false, true)),
        ("a list that has run out", world.authority.revocations(&[], 2021), (false, false)),
        ("a list of another authority", Authority::new().revocations(&[], 2100), (false, false)),
        ("nothing taken back", world.authority.revocations(&[9], 2100), (true, true)),
    ];
    for (what, text, expected) in changes {
        std::fs::write(&list, text).unwrap();
        let seen = || (world.lets_in(Some(&good)), world.lets_in(Some(&stolen)));
        until(what, PATIENCE, || (seen() == expected).then_some(()));
    }
    // A file that is no list is reported, and the one before stays.
    std::fs::write(&list, "").unwrap();
    world.server.wait_for_line("has no list of revoked certificates in it");
    assert!(world.lets_in(Some(&good)));
}
