//! Pool and lease ids are credentials: they are in no line of the log, however chatty, and in no metric.

use rustix::process::Signal;

use crate::support::{Client, Launch, Response, random_uuid, report};

#[test]
fn pool_and_lease_ids_are_in_no_log_and_no_metric() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::on(directory.path()).arg("--log-level").arg("trace").arg("--log-format").arg("json");
    let server = launch.start();
    let mut client = server.client();
    let mut secrets = Vec::new();
    for _ in 0..3 {
        use_a_pool(&mut client, &mut secrets);
    }
    client.call("POST", "/lock?client=visible-client&job=visible-job", "").unwrap().expect(200);
    let metrics = client.call("GET", "/metrics", "").unwrap().expect(200);
    let metrics = String::from_utf8(metrics.body).unwrap();
    let (status, log) = server.stop(Signal::TERM);
    assert!(status.success());

    // The log is not empty of everything: it has what may be seen, and the trace level is on.
    assert!(log.contains("visible-client") && log.contains("visible-job"), "{log}");
    assert!(log.contains("\"TRACE\"") && log.contains("granted"), "{log}");
    for secret in &secrets {
        for (place, text) in [("the log", &log), ("the metrics", &metrics)] {
            let found = forms(secret).into_iter().find(|form| text.to_lowercase().contains(form));
            assert_eq!(found, None, "{place} has a secret");
        }
    }
    let lines = log.lines().count();
    report(format_args!("bad input: {} secrets in none of {lines} log lines and no metric", secrets.len()));
}

/// Everything that can be done with a pool, well and badly, and answers that do not repeat what must not be.
fn use_a_pool(client: &mut Client, secrets: &mut Vec<String>) {
    let pool = random_uuid();
    let path = format!("/l/{pool}");
    client.call("PUT", &path, "{\"count\":1}").unwrap().expect(200);
    let lease = client.call("POST", &format!("{path}/borrow"), "{\"ttl\":60}").unwrap().expect(200).text("lease");
    let with_lease = format!("{{\"lease\":\"{lease}\",\"ttl\":60}}");
    client.call("POST", &format!("{path}/renew"), &with_lease).unwrap().expect(200);
    client.call("GET", &format!("{path}/leases/{lease}"), "").unwrap().expect(200);

    let unknown = random_uuid();
    let (upper, bare) = (pool.to_uppercase(), pool.replace('-', ""));
    let bad = |answer: Response, status: u16| {
        let text = String::from_utf8(answer.expect(status).body).unwrap().to_lowercase();
        for secret in [&pool, &lease, &unknown] {
            let found = forms(secret).into_iter().find(|form| text.contains(form));
            assert_eq!(found, None, "an error repeats a secret");
        }
    };
    for (method, target, body, status) in [
        ("POST", format!("{path}/borrow"), "{\"ttl\":60,\"wait\":0.01}".to_owned(), 409),
        ("POST", format!("{path}/borrow"), "{\"ttl\":0}".to_owned(), 400),
        ("POST", format!("/l/{upper}/borrow"), "{\"ttl\":".to_owned(), 400),
        ("POST", format!("{path}/renew"), format!("{{\"lease\":\"{unknown}\",\"ttl\":1}}"), 409),
        ("POST", format!("{path}/renew"), format!("{{\"lease\":\"{lease}x\",\"ttl\":1}}"), 400),
        ("POST", format!("{path}/return"), format!("{{\"lease\":\"{}\"}}", lease.replace('-', "")), 400),
        ("POST", format!("{path}/return"), format!("{{\"lease\":[\"{lease}\"]}}"), 400),
        ("POST", format!("{path}/return"), format!("{{\"lease\":\"{lease}\""), 400),
        ("GET", format!("{path}/leases/{unknown}"), String::new(), 404),
        ("GET", format!("{path}/leases/{lease}/"), String::new(), 404),
        ("GET", format!("/l/{unknown}"), String::new(), 404),
        ("GET", format!("/l/{bare}"), String::new(), 400),
        ("GET", format!("/l/%7B{pool}%7D"), String::new(), 400),
        ("PATCH", path.clone(), String::new(), 405),
        ("GET", format!("/v1/claims/{pool}"), String::new(), 404),
        ("GET", format!("/nowhere/{pool}/{lease}"), String::new(), 404),
        ("GET", format!("{path}?{}", "x".repeat(4_096)), String::new(), 414),
        ("POST", format!("{path}/borrow"), " ".repeat(65_537), 413),
    ] {
        bad(client.call(method, &target, &body).unwrap(), status);
    }
    let returned =
        client.call("POST", &format!("/l/{upper}/return"), &with_lease.to_uppercase().replace("LEASE", "lease"));
    assert_eq!(returned.unwrap().expect(200).json()["returned"], true);
    client.call("DELETE", &path, "").unwrap().expect(200);
    secrets.extend([pool, lease, unknown]);
}

/// How a UUID can be written, in lower case.
fn forms(uuid: &str) -> [String; 3] {
    let bare = uuid.replace('-', "").to_lowercase();
    let number = u128::from_str_radix(&bare, 16).unwrap();
    [uuid.to_lowercase(), bare, number.to_string()]
}
