//! Pool and lease ids are credentials, and idempotency keys as good as some: they are in no line of the log, however
//! chatty, in no metric, in no error, and in nothing the process says when it ends, however it ends.

use std::io::Write as _;

use rustix::process::Signal;

use crate::support::{
    Client, EventStream, Launch, PATIENCE, Response, Server, gauge, leasehold, output_of, random_uuid, report, until,
};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
const FORMATS: [&str; 2] = ["human", "json"];

/// The secrets, and all text that was searched for them.
#[derive(Debug, Default)]
struct Hunt {
    secrets: Vec<String>,
    lines: usize,
}

impl Hunt {
    fn plant(&mut self) -> String {
        let secret = random_uuid();
        self.secrets.push(secret.clone());
        secret
    }

    /// Panics if there is a secret in it.
    #[track_caller]
    fn through(&mut self, place: &str, text: &str) {
        let lower = text.to_lowercase();
        for secret in &self.secrets {
            let found = forms(secret).into_iter().find(|form| lower.contains(form));
            assert_eq!(found, None, "{place} has a secret: {text}");
        }
        self.lines += text.lines().count();
    }

    /// An answer that is an error.
    #[track_caller]
    fn refused(&mut self, answer: Response, status: u16) {
        let answer = answer.expect(status);
        let headers: Vec<String> = answer.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        self.through("an error", &format!("{}\n{}", headers.join("\n"), String::from_utf8(answer.body).unwrap()));
    }
}

#[test]
fn ids_and_keys_are_in_no_log_no_metric_and_no_error() {
    let mut hunt = Hunt::default();
    for format in FORMATS {
        for level in LEVELS {
            let directory = tempfile::tempdir().unwrap();
            let launch = || Launch::on(directory.path()).arg("--log-level").arg(level).arg("--log-format").arg(format);
            // Without a log there is no line that says where it listens.
            let Some(launch) = Some(launch).filter(|_| !matches!(level, "off" | "error" | "warn")) else {
                quiet(&mut hunt, level, format);
                continue;
            };
            let server = launch().start();
            let mut client = server.client();
            let mut events = EventStream::open(server.addr, "/v1/events", None);
            use_a_pool(&mut client, &mut hunt);
            misuse_the_others(&mut client, &mut hunt);
            malformed(&server, &mut hunt);
            client.call("POST", "/lock?client=visible-client&job=visible-job", "").unwrap().expect(200);
            let metrics = client.call("GET", "/metrics", "").unwrap().expect(200);
            hunt.through("the metrics", &String::from_utf8(metrics.body).unwrap());
            // Data to recover, and a caller to tell that it is over.
            let pool = hunt.plant();
            hold(&mut client, &pool, &mut hunt);
            watch(&mut client, &pool, &mut hunt);
            // The last thing that happened, so all before it was told.
            while !events.seen.contains("\"client\":\"visible-client\"") || !events.seen.contains("\"ttl_s\":600.0") {
                events.next().unwrap();
            }
            hunt.through("the events", &events.seen);
            server.kill();
            let server = launch().start();
            let waiter = park(&server, &pool, &mut hunt);
            let (status, log) = server.stop(Signal::TERM);
            assert!(status.success(), "{status}");
            let mut waiter = waiter;
            hunt.refused(waiter.receive().unwrap(), 503);
            hunt.through("the log", &log);
            // The log is not empty of everything: it has what may be seen, and the level is what was asked for.
            assert!(log.contains("stopping on SIGTERM"), "{log}");
            assert_eq!(log.contains(if format == "json" { "\"TRACE\"" } else { "TRACE" }), level == "trace", "{log}");
        }
    }
    report(format_args!(
        "secrets: {} planted, in none of {} lines of logs, metrics and errors at {} levels in {} formats",
        hunt.secrets.len(),
        hunt.lines,
        LEVELS.len(),
        FORMATS.len(),
    ));
}

/// A server that does not say where it listens: the test picks the port, and picks again if another process was
/// quicker.
fn quiet(hunt: &mut Hunt, level: &str, format: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut process = until("a port is free", PATIENCE, || {
        let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = leasehold();
        command.args(["serve", "--log-level", level, "--log-format", format, "--listen", &addr.to_string(), "--data"]);
        command.arg(directory.path().join("data")).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        loop {
            if let Ok(client) = Client::connect(addr) {
                return Some((child, client));
            }
            if child.try_wait().unwrap().is_some() {
                return None;
            }
        }
    });
    use_a_pool(&mut process.1, hunt);
    misuse_the_others(&mut process.1, hunt);
    let pid = rustix::process::Pid::from_child(&process.0);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    drop(process.1);
    let said = process.0.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}");
    hunt.through("the log", &String::from_utf8(said.stderr).unwrap());
}

/// Every use of a pool, right and wrong, with answers that must not repeat a secret.
fn use_a_pool(client: &mut Client, hunt: &mut Hunt) {
    let (pool, unknown, key) = (hunt.plant(), hunt.plant(), hunt.plant());
    let path = format!("/l/{pool}");
    client.call("PUT", &path, "{\"count\":1}").unwrap().expect(200);
    let keyed = |client: &mut Client, body: &str| {
        client.call_with("POST", &format!("{path}/borrow"), &[("idempotency-key", &key)], body.as_bytes()).unwrap()
    };
    let lease = keyed(client, "{\"ttl\":60}").expect(200).text("lease");
    hunt.secrets.push(lease.clone());
    // The same key with another body.
    hunt.refused(keyed(client, "{\"ttl\":61}"), 422);
    let with_lease = format!("{{\"lease\":\"{lease}\",\"ttl\":60}}");
    client.call("POST", &format!("{path}/renew"), &with_lease).unwrap().expect(200);
    client.call("GET", &format!("{path}/leases/{lease}"), "").unwrap().expect(200);

    let (upper, bare) = (pool.to_uppercase(), pool.replace('-', ""));
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
        // In a field where it does not belong.
        ("PUT", path.clone(), format!("{{\"count\":\"{lease}\"}}"), 400),
        ("PUT", path.clone(), format!("{{\"count\":[\"{lease}\",\"{pool}\"]}}"), 400),
        ("POST", format!("{path}/borrow"), format!("{{\"ttl\":\"{lease}\"}}"), 400),
        ("POST", format!("{path}/borrow"), format!("{{\"ttl\":5,\"wait\":{{\"{lease}\":1}}}}"), 400),
        ("POST", format!("{path}/borrow"), format!("{{\"{lease}\":1,\"{lease}\":2}}"), 400),
        ("POST", format!("{path}/borrow"), lease.clone(), 400),
    ] {
        hunt.refused(client.call(method, &target, &body).unwrap(), status);
    }
    let bad_key = format!("{key} {lease}");
    let answer = client.call_with("POST", &format!("{path}/borrow"), &[("idempotency-key", &bad_key)], b"{\"ttl\":5}");
    hunt.refused(answer.unwrap(), 400);
    let returned =
        client.call("POST", &format!("/l/{upper}/return"), &with_lease.to_uppercase().replace("LEASE", "lease"));
    assert_eq!(returned.unwrap().expect(200).json()["returned"], true);
    // The key of a lease that ended.
    hunt.refused(keyed(client, "{\"ttl\":60}"), 410);
    client.call("DELETE", &path, "").unwrap().expect(200);
    hunt.refused(client.call("POST", &format!("{path}/borrow"), "{\"ttl\":5}").unwrap(), 404);
}

/// Ids that went astray, into calls of the other dialects.
fn misuse_the_others(client: &mut Client, hunt: &mut Hunt) {
    let stray = hunt.plant();
    for (method, target, body, status) in [
        ("POST", "/v1/claims/".to_owned(), format!("{{\"resource\":\"r\",\"timeout\":5,\"{stray}\":1}}"), 400),
        ("POST", "/v1/claims/".to_owned(), format!("{{\"resource\":\"r\",\"timeout\":\"{stray}\"}}"), 400),
        ("PATCH", format!("/v1/claims/{stray}"), "{\"status\":\"released\"}".to_owned(), 404),
        ("GET", format!("/v1/claims/?{stray}=1"), String::new(), 400),
        ("GET", format!("/v1/claims/?status={stray}"), String::new(), 400),
        ("GET", format!("/v1/claims/?ttl={stray}"), String::new(), 400),
        ("GET", format!("/v1/claims/?minimum_created={stray}"), String::new(), 400),
        ("GET", format!("/v1/claims/?limit={stray}"), String::new(), 400),
        ("GET", format!("/v1/claims/?{stray}=1&{stray}=2"), String::new(), 400),
        ("GET", format!("/v1/claims/?status={stray}%"), String::new(), 400),
        ("GET", format!("/v1/resources/{stray}"), String::new(), 404),
        ("GET", format!("/v1/resources/{stray}%"), String::new(), 400),
        ("PUT", "/v1/resources/r".to_owned(), format!("{{\"capacity\":\"{stray}\"}}"), 400),
        ("POST", format!("/lock?ttl=5s&{stray}"), String::new(), 400),
        ("POST", format!("/lock?client=a&ttl={stray}"), String::new(), 400),
        ("POST", format!("/lock?client=a&wait={stray}"), String::new(), 400),
        ("DELETE", format!("/lock?client={stray}"), String::new(), 403),
        ("GET", format!("/{stray}"), String::new(), 404),
        ("POST", format!("/healthz?{stray}"), stray.clone(), 405),
    ] {
        hunt.refused(client.call(method, &target, &body).unwrap(), status);
    }
    let claim =
        client.call("POST", "/v1/claims/", "{\"resource\":\"r\",\"timeout\":0}").unwrap().expect(201).text("id");
    let patch = format!("/v1/claims/{claim}");
    hunt.refused(client.call("PATCH", &patch, &format!("{{\"status\":\"{stray}\"}}")).unwrap(), 400);
    hunt.refused(client.call_with("GET", &patch, &[("prefer", &format!("wait={stray}"))], b"").unwrap(), 400);
    hunt.refused(client.call("GET", &format!("{patch}?wait={stray}"), "").unwrap(), 400);
}

/// Requests that look like an attack, with ids in them.
fn malformed(server: &Server, hunt: &mut Hunt) {
    let stray = hunt.plant();
    for head in [
        format!("GET /l/{stray} HTTP/1.1\r\n\r\n"),
        format!("GET /l/{stray} HTTP/1.1\r\nhost: {stray}\r\nhost: {stray}\r\n\r\n"),
        format!("GET /l/{stray} HTTP/1.1\r\nhost: {stray} x\r\n\r\n"),
        format!("GET /l/{stray}\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("GET /l/{stray} HTTP/1.1\r\nhost: localhost\r\n{stray} : x\r\n\r\n"),
        format!("{stray} /l/{stray} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("POST /l/{stray}/return HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: {stray}\r\n\r\n"),
        format!("POST /l/{stray}/return HTTP/1.1\r\nhost: localhost\r\ncontent-length: {stray}\r\n\r\n"),
        format!(
            "POST /l/{stray}/return HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{{\"lease\":\"{stray}\""
        ),
        format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{stray}"),
        format!("{stray}\r\n\r\n"),
    ] {
        let mut client = server.client();
        client.send_raw(head.as_bytes()).unwrap();
        client.hang_up().unwrap();
        // Any answer will do, and a reset is as good as an end.
        let said = client.rest(PATIENCE).unwrap_or_default();
        hunt.through("an answer to what is malformed", &String::from_utf8_lossy(&said));
    }
}

fn hold(client: &mut Client, pool: &str, hunt: &mut Hunt) {
    client.call("PUT", &format!("/l/{pool}"), "{\"count\":1}").unwrap().expect(200);
    let key = hunt.plant();
    let borrow = format!("/l/{pool}/borrow");
    let lease = client.call_with("POST", &borrow, &[("idempotency-key", &key)], b"{\"ttl\":600}").unwrap().expect(200);
    hunt.secrets.push(lease.text("lease"));
}

/// Every view of holders, waiters and events.
fn watch(client: &mut Client, pool: &str, hunt: &mut Hunt) {
    let key =
        client.call("POST", "/v1/observe/pool", &format!("{{\"id\":\"{pool}\"}}")).unwrap().expect(200).text("key");
    hunt.through("a key", &key);
    for target in [
        "/v1/observe/resources".to_owned(),
        "/v1/observe/resources?kind=pool&state=held&sort=expiry&limit=1".to_owned(),
        format!("/v1/observe/resources/{key}"),
        format!("/v1/observe/resources/{key}/history"),
        "/v1/observe/series".to_owned(),
    ] {
        let shown = client.call("GET", &target, "").unwrap().expect(200);
        hunt.through(&target, &text(&shown.body));
    }
    let stray = hunt.plant();
    for (method, target, body, status) in [
        ("GET", format!("/v1/observe/resources/{stray}"), String::new(), 404),
        ("GET", format!("/v1/observe/resources/pool:{stray}"), String::new(), 404),
        ("GET", format!("/v1/observe/resources?after={stray}"), String::new(), 400),
        ("GET", format!("/v1/observe/resources?kind={stray}"), String::new(), 400),
        ("GET", format!("/v1/observe/resources/{key}/history?since_unix={stray}"), String::new(), 400),
        ("POST", "/v1/observe/pool".to_owned(), format!("{{\"id\":\"{stray}\"}}"), 404),
        ("POST", "/v1/observe/pool".to_owned(), format!("{{\"id\":\"{stray}x\"}}"), 400),
        ("POST", "/v1/admin/revoke".to_owned(), format!("{{\"key\":\"{stray}\",\"token\":1}}"), 400),
        ("POST", "/v1/admin/revoke".to_owned(), format!("{{\"key\":\"lock:a\",\"token\":\"{stray}\"}}"), 400),
        ("GET", format!("/v1/fence?kind=pool&resource={stray}&token=1"), String::new(), 400),
        ("GET", format!("/v1/events?resource={stray}"), String::new(), 400),
        ("GET", format!("/v1/events?last_event_id={stray}"), String::new(), 400),
    ] {
        hunt.refused(client.call(method, &target, &body).unwrap(), status);
    }
}

/// A caller that waits for a held slot.
fn park(server: &Server, pool: &str, hunt: &mut Hunt) -> Client {
    let mut waiter = server.client();
    let key = hunt.plant();
    let body = b"{\"ttl\":60,\"wait\":120}";
    waiter.send("POST", &format!("/l/{pool}/borrow"), &[("idempotency-key", &key)], body).unwrap();
    let mut client = server.client();
    until("it is parked", PATIENCE, || (gauge(&mut client, "leasehold_parked_callers") == 1).then_some(()));
    waiter
}

/// The last words of a process: a configuration printed, data in use, data damaged, a store that fails.
#[test]
fn ids_are_in_nothing_that_is_said_at_the_end() {
    let mut hunt = Hunt::default();
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    // A value in the environment that is none of ours may be the secret of another program.
    let env = hunt.plant();
    let printed = output_of(leasehold().args(["serve", "--print-config"]).env("LEASEHOLD_PASSWORD", &env));
    assert!(printed.status.success(), "{printed:?}");
    hunt.through("--print-config", &format!("{}{}", text(&printed.stdout), text(&printed.stderr)));

    let server = Launch::on(directory.path()).env("LEASEHOLD_PASSWORD", &env).arg("--log-level").arg("trace").start();
    let pool = hunt.plant();
    hold(&mut server.client(), &pool, &mut hunt);
    let second = output_of(leasehold().args(["serve", "--listen", "127.0.0.1:0", "--data", data]));
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    hunt.through("a second process", &text(&second.stderr));
    let (_, log) = server.stop(Signal::TERM);
    assert!(log.contains("LEASEHOLD_PASSWORD is unknown"), "{log}");
    hunt.through("the log", &log);

    let file = directory.path().join("leasehold.db");
    let sound = std::fs::read(&file).unwrap();
    let mut damaged = sound.clone();
    // The pool's id is stored as the number it is, so all of its places are spoilt with it.
    let id = u128::from_str_radix(&pool.replace('-', ""), 16).unwrap();
    let places: Vec<usize> = (0..sound.len() - 16).filter(|&at| is_id_at(&sound[at..], id)).collect();
    assert!(!places.is_empty(), "ids are stored as they are");
    for &at in &places {
        damaged[at] ^= 1;
    }
    std::fs::File::create(&file).unwrap().write_all(&damaged).unwrap();
    let refused = output_of(leasehold().args(["serve", "--listen", "127.0.0.1:0", "--data", data]));
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    hunt.through("damage", &text(&refused.stderr));
    report(format_args!("secrets: {} planted, in none of {} lines said at the end", hunt.secrets.len(), hunt.lines));
}

fn is_id_at(bytes: &[u8], id: u128) -> bool {
    bytes.starts_with(&id.to_le_bytes()) || bytes.starts_with(&id.to_be_bytes())
}

/// A store that fails while it writes ids: the process says why it ends, without the ids.
#[test]
fn ids_are_not_in_the_message_of_a_store_that_fails() {
    let mut hunt = Hunt::default();
    let directory = tempfile::tempdir().unwrap();
    let mut server = Launch::with_file_size(directory.path(), 4_096).arg("--log-level").arg("trace").start();
    let mut client = server.client();
    let pool = hunt.plant();
    client.call("PUT", &format!("/l/{pool}"), "{\"count\":1000}").unwrap().expect(200);
    let padding = "x".repeat(16_000);
    let mut calls = 0;
    let outcome = loop {
        let key = hunt.plant();
        let borrow = format!("/l/{pool}/borrow");
        if let Err(error) = client.call_with("POST", &borrow, &[("idempotency-key", &key)], b"{\"ttl\":60}") {
            break error;
        }
        // Something that takes up room.
        let claim = format!("{{\"resource\":\"r{calls}\",\"timeout\":0,\"metadata\":\"{padding}\"}}");
        if let Err(error) = client.call("POST", "/v1/claims/", &claim) {
            break error;
        }
        calls += 1;
        assert!(calls < 5_000, "the file grew past its limit");
    };
    let status = server.wait();
    let log = server.whole_log();
    assert_eq!(status.code(), Some(5), "{outcome}, then {}", log.lines().last().unwrap_or_default());
    assert!(log.contains("nothing can be made durable any more"), "{log}");
    hunt.through("the log", &log);
    report(format_args!(
        "secrets: {} planted, in none of {} lines before a store failed",
        hunt.secrets.len(),
        hunt.lines
    ));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How a UUID can be written, in lower case.
fn forms(uuid: &str) -> [String; 3] {
    let bare = uuid.replace('-', "").to_lowercase();
    let number = u128::from_str_radix(&bare, 16).unwrap();
    [uuid.to_lowercase(), bare, number.to_string()]
}
