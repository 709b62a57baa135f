//! The commands that look at a service and change it, as a script sees them.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Launch, PATIENCE, Server, leasehold, output_of, until};

fn memory() -> Server {
    Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start()
}

fn command(server: &Server, args: &[&str]) -> Command {
    let mut command = leasehold();
    command.args(args).env("LEASEHOLD_URL", format!("http://{}", server.addr));
    command
}

/// Exit code, standard output, standard error; however long they are.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    told(command.stdout(Stdio::piped()))
}

/// The same with the standard output that it has been given.
fn told(command: &mut Command) -> (Option<i32>, String, String) {
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Its output, if it succeeds.
fn printed(server: &Server, args: &[&str]) -> String {
    let (code, printed, said) = ended(&mut command(server, args));
    assert_eq!((code, &*said), (Some(0), ""), "{args:?}: {printed}");
    printed
}

fn json(server: &Server, args: &[&str]) -> Value {
    serde_json::from_str(&printed(server, &[args, &["--output", "json"]].concat())).unwrap()
}

#[test]
fn a_script_acquires_renews_and_releases() {
    let server = memory();
    for what in [["--lock", "a"], ["--claim", "b"]] {
        let handle = printed(&server, &["acquire", what[0], what[1], "--ttl", "30s"]);
        let handle = handle.trim();
        let (code, _, said) = ended(&mut command(&server, &["acquire", what[0], what[1]]));
        assert_eq!(code, Some(75), "{said}");
        let renewed = printed(&server, &["renew", handle]);
        assert_eq!(json(&server, &["renew", renewed.trim()])["kind"], what[0].trim_start_matches('-'));
        printed(&server, &["release", handle]);
        let (code, _, said) = ended(&mut command(&server, &["release", handle]));
        assert_eq!((code, &*said), (Some(1), "leasehold: the lease had ended before\n"));
        let (code, ..) = ended(&mut command(&server, &["renew", handle]));
        assert_eq!(code, Some(1));
        let again = json(&server, &["acquire", what[0], what[1]]);
        let mut release = command(&server, &["release"]);
        release.env("LEASEHOLD_HANDLE", again["handle"].as_str().unwrap());
        assert_eq!(ended(&mut release).0, Some(0), "from the environment, which others do not see");
    }
    let (code, _, said) = ended(&mut command(&server, &["renew", "nonsense"]));
    assert_eq!((code, said.contains("no handle")), (Some(2), true));
}

#[test]
fn pools_are_made_resized_shown_and_deleted() {
    let server = memory();
    let id = printed(&server, &["pool", "create", "--count", "2"]);
    let id = id.trim();
    assert_eq!(id.len(), 36);
    assert_eq!(printed(&server, &["pool", "show", id]), "0 of 2 in use, 2 available\n");
    assert_eq!(printed(&server, &["pool", "resize", id, "--count", "5"]), "0 of 5 in use, 5 available\n");
    let (code, _, said) = ended(&mut command(&server, &["pool", "create", "--count", "2", "--id", id]));
    assert_eq!((code, said.contains(id)), (Some(1), false), "{said}");
    assert_eq!(json(&server, &["acquire", "--pool", id])["slot"], 0);
    printed(&server, &["pool", "delete", id]);
    for args in [&["pool", "delete", id][..], &["pool", "show", id], &["pool", "resize", id, "--count", "1"]] {
        let (code, _, said) = ended(&mut command(&server, args));
        assert_eq!((code, said.contains(id)), (Some(1), false), "{said}");
    }
    let (code, _, said) = ended(&mut command(&server, &["pool", "show", "9f1c"]));
    assert_eq!((code, said.contains("UUID")), (Some(2), true), "{said}");
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
    let server = memory();
    printed(&server, &["acquire", "--lock", "deploy"]);
    for args in
        [&["ls"][..], &["show", "lock:deploy"], &["status"], &["history", "lock:deploy"], &["ls", "--output", "json"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, _, said) = told(command(&server, args).stdout(writer));
        assert_eq!((code, &*said), (Some(0), ""), "{args:?}");
        if cfg!(target_os = "linux") {
            let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
            let (code, _, said) = told(command(&server, args).stdout(full));
            assert_eq!(
                (code, said.starts_with("leasehold: standard output: No space")),
                (Some(1), true),
                "{args:?}: {said}"
            );
        }
    }
}

#[test]
fn what_is_held_is_listed_shown_told_and_revoked() {
    let server = memory();
    let lease = json(&server, &["acquire", "--lock", "deploy", "--name", "ann"]);
    let list = json(&server, &["ls"]);
    assert_eq!((list[0]["key"].as_str(), list[0]["state"].as_str()), (Some("lock:deploy"), Some("held")));
    let table = printed(&server, &["ls", "deploy", "--kind", "lock"]);
    assert!(table.starts_with("KEY ") && table.contains("ann/") && !table.contains('\x1b'), "{table}");
    assert_eq!(json(&server, &["show", "lock:deploy"])["holders"][0]["token"], lease["token"]);
    let shown = printed(&server, &["show", "lock:deploy"]);
    assert!(shown.contains("lock:deploy  held, 1 of 1 in use") && shown.contains("ann/"), "{shown}");
    assert_eq!(printed(&server, &["show", "deploy"]).lines().next(), shown.lines().next(), "by its plain name");
    json(&server, &["acquire", "--claim", "gpu"]);
    assert_eq!(json(&server, &["show", "gpu"])["key"], "claim:gpu");
    let status = printed(&server, &["status"]);
    assert!(status.contains("state      ok") && status.contains("1 claims, 1 locks"), "{status}");
    assert_eq!(json(&server, &["status"])["version"], env!("CARGO_PKG_VERSION"));
    let token = lease["token"].to_string();
    printed(&server, &["revoke", "lock:deploy", &token]);
    let (code, _, said) = ended(&mut command(&server, &["revoke", "lock:deploy", &token]));
    assert_eq!((code, said.contains("ended before")), (Some(1), true), "{said}");
    let history = printed(&server, &["history", "lock:deploy"]);
    assert!(history.lines().count() >= 2 && history.contains("granted") && history.contains("revoked"), "{history}");
    assert_eq!(json(&server, &["history", "lock:deploy"])["events"][0]["event"], "granted");
    assert_eq!(printed(&server, &["history", "deploy"]), history);
    let (code, _, said) = ended(&mut command(&server, &["show", "lock:none"]));
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn what_happens_is_told_live() {
    let server = memory();
    let mut watch = command(&server, &["watch", "lock:deploy", "--count", "2", "--output", "json"]);
    let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is there once the server has a reader of events.
    let mut client = server.client();
    until("it watches", PATIENCE, || {
        (crate::support::gauge(&mut client, "leasehold_event_readers") == 1).then_some(())
    });
    let handle = printed(&server, &["acquire", "--lock", "deploy"]);
    printed(&server, &["acquire", "--lock", "another"]);
    printed(&server, &["release", handle.trim()]);
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| (event["event"].as_str(), event["key"].as_str())).collect();
    assert_eq!(names, [(Some("granted"), Some("lock:deploy")), (Some("released"), Some("lock:deploy"))]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_service_that_is_away_is_named_with_where_that_came_from() {
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{refused}");
    for args in [&["ls"][..], &["status"], &["acquire", "--lock", "a"], &["watch"]] {
        let (code, printed, said) = ended(leasehold().args(args).env("LEASEHOLD_URL", &url));
        assert_eq!((code, &*printed), (Some(69), ""), "{said}");
        for part in [&*url, "from LEASEHOLD_URL", "connection refused", "leasehold serve"] {
            assert!(said.contains(part), "{args:?}: {said}");
        }
    }
    let (code, printed, _) = ended(leasehold().args(["doctor", "--url", &url]));
    assert_eq!(code, Some(1));
    assert!(printed.contains("to do reachable") && printed.contains("leasehold serve"), "{printed}");
}

#[test]
fn a_doctor_finds_a_well_service_well() {
    let server = memory();
    let report = printed(&server, &["doctor"]);
    for what in ["address", "reachable", "version", "ready", "latency", "sign-on", "clock"] {
        assert!(report.lines().any(|line| line.starts_with("ok") && line.contains(what)), "{what}: {report}");
    }
    assert_eq!(json(&server, &["doctor"])[0]["check"], "address");
}

#[test]
fn a_demo_serves_and_contends() {
    let mut child =
        leasehold().args(["demo", "--duration", "4s"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().trim_end_matches('/').to_owned();
    let list = until("there is something to see", PATIENCE, || {
        let output = output_of(leasehold().args(["ls", "--output", "json", "--url", &url]));
        let list: Value = serde_json::from_slice(&output.stdout).ok()?;
        (list.as_array()?.len() >= 4).then_some(list)
    });
    assert!(list.as_array().unwrap().iter().any(|resource| resource["state"] == "contended"), "{list}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn completions_and_pages_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, printed, said) = ended(leasehold().args(["completions", shell]));
        assert_eq!((code, &*said), (Some(0), ""));
        assert!(printed.contains("on-conflict-exit"), "{shell}");
    }
    let (_, page, _) = ended(leasehold().arg("man"));
    assert!(page.contains(".TH leasehold 1") && page.contains("leasehold\\-run(1)"), "{page}");
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(ended(leasehold().args(["man", "--to"]).arg(directory.path())).0, Some(0));
    let mut pages: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    assert!(pages.contains(&"leasehold-run.1".to_owned()), "{pages:?}");
    assert!(!pages.iter().any(|page| page.contains("__")), "hidden ones have none: {pages:?}");
}

#[test]
fn exit_codes_are_in_the_help() {
    for args in [&["run", "--help"][..], &["ls", "--help"], &["serve", "--help"], &["acquire", "--help"]] {
        let (code, help, _) = ended(leasehold().args(args));
        assert_eq!(code, Some(0));
        assert!(help.contains("Exit codes:"), "{args:?}: {help}");
    }
}
