//! Check, backup and restore with the real binary: their findings, that nothing acknowledged is missing and no token is
//! given out twice, and their refusals. `pause` shows that serving goes on meanwhile, `cut_off` what an interrupted
//! restore leaves.

#[cfg(target_os = "linux")]
mod cut_off;
mod pause;

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Client, Launch, Server, done, leasehold, output_of, random_uuid, refused, utf8};

fn check(path: &str) -> Value {
    serde_json::from_str(&done(&["check", "--json", "--data", path])).unwrap()
}

/// A pool and what was borrowed from it.
struct Borrower {
    client: Client,
    pool: String,
    leases: Vec<String>,
    last_token: u64,
}

impl Borrower {
    fn new(server: &Server) -> Borrower {
        let (mut client, pool) = (server.client(), random_uuid());
        client.call("PUT", &format!("/l/{pool}"), "{\"count\":1000}").unwrap().expect(200);
        Borrower { client, pool, leases: Vec::new(), last_token: 0 }
    }

    /// The same pool, of a server that was started since.
    fn again(self, server: &Server) -> Borrower {
        Borrower { client: server.client(), ..self }
    }

    fn borrow(&mut self) {
        let target = format!("/l/{}/borrow", self.pool);
        let answer = self.client.call("POST", &target, "{\"ttl\":3600}").unwrap().expect(200);
        let token = answer.number("token");
        assert!(token > self.last_token, "token {token} after {}", self.last_token);
        self.last_token = token;
        self.leases.push(answer.text("lease"));
    }

    fn status_of(&mut self, lease: &str) -> u16 {
        self.client.call("GET", &format!("/l/{}/leases/{lease}", self.pool), "").unwrap().status
    }
}

#[test]
fn a_restore_brings_the_backups_leases_back_and_no_token_twice() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("backup.db"));
    let (data, file) = (utf8(&data), utf8(&file));
    let server = Launch::on(Path::new(data)).start();
    let mut borrower = Borrower::new(&server);
    for _ in 0..5 {
        borrower.borrow();
    }
    let printed = done(&["backup", "--data", data, "--to", file]);
    assert!(printed.contains("is a verified copy") && printed.contains("being served"), "{printed}");
    for _ in 0..5 {
        borrower.borrow();
    }
    refused(&["restore", "--force", "--from", file, "--data", data], 3, "is in use by process");
    assert_eq!(server.stop(Signal::TERM).0.code(), Some(0));
    refused(&["restore", "--from", file, "--data", data], 2, "--force moves it aside");

    // Twice, as a backup stays the same: the second life must not mint a token that the first one minted.
    for _ in 0..2 {
        let printed = done(&["restore", "--force", "--from", file, "--data", data]);
        assert!(printed.contains("what was there is in"), "{printed}");
        let server = Launch::on(Path::new(data)).start();
        borrower = borrower.again(&server);
        for (number, lease) in borrower.leases.clone().iter().enumerate() {
            let expected = if number < 5 { 200 } else { 404 };
            assert_eq!(borrower.status_of(lease), expected, "lease {number}");
        }
        let target = format!("/l/{}/leases/{}", borrower.pool, borrower.leases[0]);
        let lease = borrower.client.call("GET", &target, "").unwrap().expect(200).json();
        let left = lease["expires_in"].as_f64().unwrap();
        assert!((3500.0..=3600.0).contains(&left), "downtime is charged to no lease: {lease}");
        borrower.borrow();
        assert!(borrower.last_token < 1 << 53, "{}", borrower.last_token);
        assert_eq!(server.stop(Signal::TERM).0.code(), Some(0));
    }
    let kept = std::fs::read_dir(data).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with("replaced-")
    });
    assert_eq!(kept.count(), 2, "the replaced data is kept");
    let found = check(data);
    assert_eq!((&found["held"]["pool"], &found["last_token"]), (&6.into(), &borrower.last_token.into()), "{found}");
}

#[test]
fn a_service_keeps_its_name_when_it_is_started_again_or_restored_and_shares_it_with_no_other() {
    fn name_of(server: &Server) -> String {
        let name = server.client().call("GET", "/healthz", "").unwrap().header("leasehold-service").unwrap().to_owned();
        let refused = server.client().call("GET", "/nowhere", "").unwrap().expect(404);
        assert_eq!(refused.header("leasehold-service"), Some(&*name), "every answer has it");
        name
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let (data, copy, file) = (path("data"), path("copy"), path("backup.db"));

    let server = Launch::on(&data).start();
    let name = name_of(&server);
    done(&["backup", "--data", utf8(&data), "--to", utf8(&file)]);
    assert_eq!(server.stop(Signal::TERM).0.code(), Some(0));
    let again = Launch::on(&data).start();
    assert_eq!(name_of(&again), name, "the same data, started again");
    done(&["restore", "--from", utf8(&file), "--data", utf8(&copy)]);
    assert_eq!(name_of(&Launch::on(&copy).start()), name, "the same data, restored");
    assert_ne!(name_of(&Launch::on(&path("other")).start()), name, "other data");
}

#[test]
fn check_tells_what_there_is_and_no_secret() {
    let scratch = tempfile::tempdir().unwrap();
    let data = utf8(scratch.path());
    let server = Launch::on(scratch.path()).start();
    let mut borrower = Borrower::new(&server);
    borrower.borrow();
    borrower.client.call("POST", "/lock?client=laptop", "").unwrap().expect(200);
    for expected in [201, 202] {
        let claim = "{\"resource\":\"gpu\",\"timeout\":60}";
        borrower.client.call("POST", "/v1/claims/", claim).unwrap().expect(expected);
    }
    let live = check(data);
    assert_eq!((&live["sound"], &live["in_use"], &live["process"]), (&true.into(), &true.into(), &server.pid().into()));
    // Killed, it leaves a log that has to be read, too.
    server.kill();
    for path in [data, data] {
        let found = check(path);
        assert_eq!((&found["in_use"], &found["process"]), (&false.into(), &Value::Null), "{found}");
        for member in ["epoch", "last_token", "resources", "held", "waiting", "retained"] {
            assert_eq!(found[member], live[member], "{member}");
        }
        assert_eq!(found["resources"], serde_json::json!({"pool": 1, "claim": 1, "lock": 1}));
        assert_eq!(found["held"], serde_json::json!({"pool": 1, "claim": 1, "lock": 1}));
        assert_eq!(found["waiting"], serde_json::json!({"pool": 0, "claim": 1, "lock": 0}));
    }
    // Stopped, it leaves nothing but the database, and a check leaves no trace.
    let server = Launch::on(scratch.path()).start();
    assert_eq!(server.stop(Signal::TERM).0.code(), Some(0));
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let text = done(&["check", "--data", data]);
    assert_eq!(names(), before);
    for line in
        ["is sound", "in use        no", "held          pool 1, claim 1, lock 1", "format        tables 1, records 5"]
    {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    for secret in [&borrower.pool, &borrower.leases[0]] {
        assert!(!text.contains(secret.as_str()) && !live.to_string().contains(secret.as_str()));
    }
}

#[test]
fn without_a_name_the_data_is_where_serve_would_have_it() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Launch::with(&["--listen", "127.0.0.1:0"]).within(scratch.path()).start();
    Borrower::new(&server).borrow();
    let run = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = leasehold();
        let output = output_of(command.args(args).current_dir(scratch.path()).envs(variable));
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    for args in [&["check"][..], &["backup", "--to", "copy.db"]] {
        let (code, said) = run(args, None);
        assert_eq!(code, Some(0), "{args:?}: {said}");
        assert!(said.contains("./leasehold-data"), "{said}");
    }
    let (code, said) = run(&["restore", "--from", "copy.db"], Some(("LEASEHOLD_DATA", "elsewhere")));
    assert_eq!((code, said.contains("restored to elsewhere")), (Some(0), true), "{said}");
    let (code, said) = run(&["check"], Some(("LEASEHOLD_MEMORY", "true")));
    assert_eq!((code, said.contains("--data or --store is needed")), (Some(2), true), "{said}");
}

#[test]
fn what_cannot_be_done_is_refused_and_said() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("copy.db"));
    let (data, file) = (utf8(&data), utf8(&file));
    let nothing = utf8(scratch.path());
    refused(&["check", "--data", nothing], 2, "there is no Leasehold data in");
    refused(&["backup", "--data", data, "--to", file], 2, "there is no Leasehold data in");
    refused(&["restore", "--from", file, "--data", data], 2, "does not exist");
    refused(&["restore", "--from", nothing, "--data", data], 2, "is a directory");

    let server = Launch::on(Path::new(data)).start();
    Borrower::new(&server).borrow();
    refused(&["backup", "--data", data, "--to", &format!("{data}/copy.db")], 2, "must not be in the data directory");
    refused(&["backup", "--data", data, "--to", &format!("{nothing}/nowhere/copy.db")], 2, "there is no directory");
    done(&["backup", "--data", data, "--to", file]);
    refused(&["backup", "--data", data, "--to", file], 2, "--force replaces it");
    done(&["backup", "--force", "--data", data, "--to", file]);
    assert_eq!(server.stop(Signal::TERM).0.code(), Some(0));

    // Every byte of a record counts, and of the database's own structure too.
    let sound = std::fs::read(file).unwrap();
    let record = sound.windows(4).rposition(|window| window == b"LHB\n").unwrap();
    let mut bad = sound.clone();
    bad[record + 40] ^= 1;
    std::fs::write(file, &bad).unwrap();
    refused(&["check", "--data", file], 4, "is damaged");
    let fresh = format!("{nothing}/fresh");
    refused(&["restore", "--from", file, "--data", &fresh], 4, "is damaged");
    assert!(!Path::new(&fresh).exists(), "nothing is touched for a backup that is no good");
    let database = format!("{data}/leasehold.db");
    std::fs::write(&database, &bad).unwrap();
    refused(&["check", "--data", data], 4, "restore the data from a backup");
    refused(&["backup", "--force", "--data", data, "--to", &format!("{nothing}/of-bad.db")], 4, "is damaged");
    assert!(!Path::new(&format!("{nothing}/of-bad.db")).exists());

    // A restore that was cut off keeps servers out until it is repeated.
    std::fs::write(file, &sound).unwrap();
    std::fs::create_dir_all(format!("{data}/restoring/data")).unwrap();
    refused(&["check", "--data", data], 4, "run leasehold restore or leasehold migrate again");
    let ended = Launch::on(Path::new(data)).try_start().unwrap_err();
    assert_eq!(ended.status.code(), Some(4), "{}", ended.log);
    done(&["restore", "--force", "--from", file, "--data", data]);
    assert_eq!(check(data)["held"]["pool"], 1);
    Launch::on(Path::new(data)).start();
}
