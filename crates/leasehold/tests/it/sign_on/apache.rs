//! A real Apache in front, signing callers on and passing their names on: the effect of headers that its users send.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::support::Guarded;
use crate::support::{Client, PATIENCE, Response, until};

const SECRET: &str = "only Apache and we know this";
/// `alice:secret`, as clients send it and as Apache's file of passwords has it.
const ALICE: (&str, &str) = ("authorization", "Basic YWxpY2U6c2VjcmV0");
const PASSWORDS: &str = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

struct Apache {
    child: Child,
    addr: SocketAddr,
    _directory: TempDir,
}

impl Apache {
    fn in_front_of(server: SocketAddr) -> Apache {
        assert!(std::path::Path::new("/usr/sbin/apache2").exists(), "scripts/need.sh installs Apache");
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let modules: String = [
            "mpm_event",
            "authn_core",
            "authn_file",
            "authz_core",
            "authz_user",
            "auth_basic",
            "headers",
            "proxy",
            "proxy_http",
        ]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
        let config = format!(
            r#"{modules}
ServerRoot "{root}"
ServerName localhost
PidFile "{root}/pid"
ErrorLog "{root}/error.log"
DefaultRuntimeDir "{root}"
Listen 127.0.0.1:{port}
User nobody
Group nogroup
<Location "/">
    AuthType Basic
    AuthName "test"
    AuthUserFile "{root}/passwords"
    Require valid-user
    RequestHeader set X-Remote-User "expr=%{{REMOTE_USER}}"
    RequestHeader set X-Remote-Groups "staff;others"
    RequestHeader set Leasehold-Proxy-Secret "{SECRET}"
</Location>
ProxyPass "/" "http://{server}/" disablereuse=on
"#,
            root = root.display()
        );
        std::fs::write(root.join("apache.conf"), config).unwrap();
        std::fs::write(root.join("passwords"), PASSWORDS).unwrap();
        make_readable(root);
        let child = Command::new("/usr/sbin/apache2")
            .args(["-D", "FOREGROUND", "-f"])
            .arg(root.join("apache.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let apache = Apache { child, addr, _directory: directory };
        until("Apache listens", PATIENCE, || Client::connect(addr).ok());
        apache
    }

    fn ask(&self, headers: &[(&str, &str)]) -> Response {
        Client::connect(self.addr).unwrap().call_with("GET", "/v1/whoami", headers, b"").unwrap()
    }
}

/// Apache gives up its rights before it reads the passwords.
fn make_readable(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

impl Drop for Apache {
    fn drop(&mut self) {
        // The parent takes its children along.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn apache_says_who_it_is_and_nobody_else_does() {
    let it = Guarded::start(&format!(
        "[auth.proxy]\npreset = \"shibboleth\"\nfrom = [\"127.0.0.1\"]\nsecret = \"{SECRET}\"\n\n\
         [[policy]]\ngroups = [\"staff\"]\nactions = [\"*\"]\n"
    ));
    let apache = Apache::in_front_of(it.server.addr);
    let me = apache.ask(&[ALICE]).expect(200).json();
    assert_eq!((&me["name"], &me["source"]), (&"alice".into(), &"proxy".into()));
    assert_eq!(me["groups"], serde_json::json!(["staff", "others"]));
    assert_eq!(apache.ask(&[]).status, 401, "Apache itself refuses");

    let name = |response: Response| match response.status {
        200 => response.json()["name"].as_str().map_or("anonymous".to_owned(), str::to_owned),
        status => status.to_string(),
    };
    for (what, headers, expected) in [
        ("a user of one's own", &[ALICE, ("X-Remote-User", "root")][..], "alice"),
        ("groups of one's own", &[ALICE, ("X-Remote-Groups", "operators")], "alice"),
        ("two of them", &[ALICE, ("X-Remote-User", "a"), ("X-Remote-User", "b")], "alice"),
        ("a look-alike", &[ALICE, ("X_Remote_User", "root")], "401"),
        // Apache does take them out, and the request has no name; the credentials it sent to Apache are no token of
        // ours.
        ("the name taken out on the way", &[ALICE, ("Connection", "X-Remote-User")], "401"),
        ("the secret taken out on the way", &[ALICE, ("Connection", "Leasehold-Proxy-Secret")], "401"),
    ] {
        assert_eq!(name(apache.ask(headers)), expected, "{what}");
    }
    // Past Apache, straight to us.
    let direct = |headers: &[(&str, &str)]| name(it.ask_with(None, headers, "GET", "/v1/whoami", ""));
    assert_eq!(direct(&[("X-Remote-User", "root"), ("X-Remote-Groups", "staff")]), "401");
    assert_eq!(direct(&[]), "anonymous");
    let claim = Client::connect(apache.addr).unwrap().call_with(
        "POST",
        "/v1/claims/",
        &[ALICE],
        br#"{"resource": "x", "timeout": 60}"#,
    );
    assert_eq!(claim.unwrap().expect(201).text("owner"), "alice");
}
