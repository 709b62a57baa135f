//! HTTPS as clients see it: curl with the authority's certificate, both versions of HTTP, plain HTTP told where to go.

use std::path::Path;
use std::process::Output;

use super::authority::{Authority, launch};
use crate::support::{Client, PATIENCE, leasehold, output_of, until};

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

    // Somebody who does not know our authority, or knows us under another name, does not come.
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
