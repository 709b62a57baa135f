//! HTTPS as clients see it: curl with the authority's certificate, both versions of HTTP, plain HTTP told where to go.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use super::authority::{Authority, launch};
use super::client::HttpsClient;
use crate::support::{Client, Launch, PATIENCE, leasehold, output_of, until};

fn curl(directory: &Path, args: &[&str]) -> Output {
    output_of(std::process::Command::new("curl").current_dir(directory).args(["-sS", "--max-time", "20"]).args(args))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn curl_speaks_https_in_both_versions_of_http() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(directory.path().join("other.pem"), Authority::new().pem()).unwrap();
    let server = launch(directory.path()).arg("--admin-listen").arg("127.0.0.1:0").start();
    let line = server.wait_for_line("listening on ");
    assert!(line.contains(&format!("listening on https://{}, data in", server.addr)), "{line}");
    let url = |path: &str| format!("https://localhost:{}{path}", server.addr.port());

    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2"), ("--tls-max=1.2", "2")] {
        let flags: Vec<&str> = flag.split('=').collect();
        let body = r#"{"resource": "a", "timeout": 60}"#;
        let url = url("/v1/claims/");
        let mut args = vec!["--cacert", "ca.pem", "-d", body, "-w", "\n%{http_version} %{http_code}", &url];
        args.extend(&flags);
        let answer = said(&curl(directory.path(), &args));
        let (claim, spoken) = answer.rsplit_once('\n').unwrap();
        let claim: serde_json::Value = serde_json::from_str(claim).unwrap();
        assert!(spoken == format!("{version} 201") || spoken == format!("{version} 202"), "{spoken}");
        let claim_url = claim["url"].as_str().unwrap();
        assert!(claim_url.starts_with(&url), "links lead back here: {claim_url}");
    }

    // Browsers keep to https from here on, but for the name that every machine has.
    let head = |host: &str, port: u16| {
        let (resolve, url) = (format!("{host}:{port}:127.0.0.1"), format!("https://{host}:{port}/healthz"));
        let answer = curl(directory.path(), &["-k", "-D", "-", "-o", "/dev/null", "--resolve", &resolve, &url]);
        said(&answer).to_ascii_lowercase()
    };
    let hsts = "strict-transport-security: max-age=31536000\r\n";
    assert!(head("locks.test", server.addr.port()).contains(hsts));
    assert!(!head("localhost", server.addr.port()).contains("strict-transport-security"));

    // A client that does not know our authority, or knows us under another name, does not connect.
    let elsewhere = url("/healthz").replace("localhost", "elsewhere.test");
    let resolve = format!("elsewhere.test:{}:127.0.0.1", server.addr.port());
    for args in
        [&["--cacert", "other.pem", &url("/healthz")][..], &["--cacert", "ca.pem", "--resolve", &resolve, &elsewhere]]
    {
        let refused = curl(directory.path(), args);
        assert_eq!(refused.status.code(), Some(60), "{refused:?}");
    }

    let mut plain = Client::connect(server.addr).unwrap();
    let told = plain.call("GET", "/healthz", "").unwrap().expect(400);
    assert_eq!(told.text("error"), "this port speaks HTTPS: use an https:// URL");
    assert!(plain.receive().is_err(), "and that is the end of it");
    drop(plain);

    let line = server.wait_for_line("metrics, events, dashboard");
    let operators = line.split("https://").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let metric = |name: &str| -> f64 {
        let metrics = said(&curl(directory.path(), &["--cacert", "ca.pem", &format!("https://{operators}/metrics")]));
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse().unwrap()
    };
    until("another authority and plain HTTP are counted", PATIENCE, || {
        (metric("leasehold_tls_handshakes_failed_total") >= 2.0).then_some(())
    });
    assert!(metric("leasehold_tls_certificate_not_after_seconds") > 1.8e9);
}

#[test]
fn the_health_check_speaks_tls_too() {
    let directory = tempfile::tempdir().unwrap();
    // Being well has nothing to do with how long a certificate is good for.
    Authority::new().expired_server().write(directory.path(), "server");
    let server = launch(directory.path()).start();
    server.wait_for_line("the certificate in tls_cert expired at 2020-12-31T00:00:00Z");
    let check = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = leasehold();
        command.args(["healthcheck", "--listen", &server.addr.to_string()]).args(args).envs(variables.iter().copied());
        let output = output_of(&mut command);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check(&["--tls"], &[]), (Some(0), String::new()));
    let configured = [("LEASEHOLD_TLS_CERT", "not/here.pem"), ("LEASEHOLD_TLS_KEY", "not/here.key")];
    assert_eq!(check(&["--ready"], &configured), (Some(0), String::new()), "as in the container, without the files");
    let (code, told) = check(&[], &[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("400 Bad Request"), "{told}");
}

/// As much of a provider as sending a browser there takes: its description, on a port of this machine.
fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let description = serde_json::json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"),
    });
    let body = description.to_string();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    // Ends with the process: no test waits for it.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(answer.as_bytes()));
        }
    });
    issuer
}

#[test]
fn cookies_of_a_login_are_for_encrypted_connections_alone() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server().write(directory.path(), "server");
    let issuer = provider();
    let config = format!("[auth.oidc]\nissuer = \"{issuer}\"\naudience = \"leasehold\"\nclient_id = \"dashboard\"\n");
    std::fs::write(directory.path().join("leasehold.toml"), config).unwrap();
    let server = launch(directory.path()).start();
    let mut client = HttpsClient::connect(server.addr, &authority, None).unwrap();
    let (head, _) = client.exchange("GET", "/login", None, "").unwrap();
    assert!(head.starts_with("HTTP/1.1 303"), "{head}");
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{head}"));
    let cookie = header("set-cookie: ");
    assert!(cookie.starts_with("__Host-leasehold-login=") && cookie.ends_with("; Secure"), "{cookie}");
    assert!(header("location: ").contains("redirect_uri=https%3A%2F%2Flocalhost%2Fcallback"), "{head}");
}

/// The guide's own lines, with the server in between.
#[test]
fn the_recipe_of_the_guide_works() {
    let guide = include_str!("../../../../../docs/sign-on.md");
    let block = |mark: &str, language: &str| {
        let fence = format!("```{language}\n");
        let mut blocks = guide.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
        blocks.find(|block| block.contains(mark)).unwrap_or_else(|| panic!("no {language} with {mark}"))
    };
    let directory = tempfile::tempdir().unwrap();
    let (making, using) = block("issue()", "sh").split_once("leasehold serve ").unwrap();
    let sh = |lines: &str| {
        let output = output_of(std::process::Command::new("sh").args(["-ec", lines]).current_dir(directory.path()));
        assert!(output.status.success(), "{lines}: {output:?}");
        said(&output)
    };
    sh(making);
    let settings = block("tls_client_ca", "toml").lines().filter(|line| !line.starts_with("tls_"));
    std::fs::write(directory.path().join("leasehold.toml"), settings.collect::<Vec<_>>().join("\n")).unwrap();
    let (flags, using) = using.split_once('\n').unwrap();
    let launch = Launch::on(&directory.path().join("data")).within(directory.path());
    let server = flags.split_whitespace().fold(launch, Launch::arg).start();
    let who = sh(&using.replace("localhost:8080", &format!("localhost:{}", server.addr.port())));
    assert!(who.contains(r#""name":"ci","source":"certificate","groups":["machines"]"#), "{who}");
}
