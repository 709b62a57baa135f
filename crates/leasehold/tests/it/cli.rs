//! The command line as a script sees it: what is printed where, and with which exit code. How values are read is tested
//! beside the code that reads them.

use rustix::process::Signal;

use crate::support::{Launch, leasehold, output_of};

/// Exit code, standard output, standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = output_of(leasehold().args(args));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_print_config_prints_is_a_configuration_that_gives_the_same() {
    let flags = [
        "serve",
        "--print-config",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "some where/\"quoted\"",
        "--grace",
        "1m30s",
        "--default-ttl",
        "45s",
        "--ttl-max",
        "7d",
        "--wait-max",
        "250ms",
        "--count-max",
        "77",
        "--retain-finished",
        "0s",
        "--public-url",
        "https://locks.example.org/x",
        "--log-format",
        "json",
        "--log-level",
        "info,leasehold_server=debug",
    ];
    let values_of = |text: &str| -> Vec<String> {
        // The comment says where a value is from, which differs.
        text.lines().map(|line| line.rsplit_once(" # ").unwrap().0.trim_end().to_owned()).collect()
    };
    for flags in [&flags[..], &["serve", "--print-config", "--memory"], &["serve", "--print-config"]] {
        let (code, printed, said) = run(flags);
        assert_eq!((code, &*said), (Some(0), ""));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("leasehold.toml");
        std::fs::write(&file, &printed).unwrap();
        let (code, again, said) = run(&["serve", "--print-config", "--config", file.to_str().unwrap()]);
        assert_eq!((code, &*said), (Some(0), ""), "{printed}");
        assert_eq!(values_of(&printed), values_of(&again));
    }
}

#[test]
fn mistakes_are_named_in_one_sentence_and_exit_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    std::fs::write(&file, "grace = \"5s\"\nmax_tll = \"1h\"\n").unwrap();
    let file = file.to_str().unwrap();
    let nowhere = directory.path().join("nowhere.toml");
    let nowhere = nowhere.to_str().unwrap();
    for (args, parts) in [
        (&["serve", "--config", file][..], &[file, "line 2", "unknown key \"max_tll\"", "did you mean ttl_max?"][..]),
        (&["serve", "--config", nowhere], &[nowhere, "could not be read"]),
        (&["serve", "--grace", "5"], &["grace must be a duration from 0s to 24h", "\"5\" has no unit", "flag --grace"]),
        (&["serve", "--wait-max", "soon"], &["wait_max must be a duration", "\"soon\"", "flag --wait-max"]),
        (&["serve", "--count-max", "0"], &["count_max must be an integer from 1 to 1000000", "\"0\""]),
        (&["serve", "--listen", "8080"], &["listen must be an address", "\"8080\""]),
        (&["serve", "--memory", "--data", "x"], &["--memory", "--data", "cannot be used with"]),
        (&["serve", "--ttl-max", "1w"], &["ttl_max must be a duration", "use one of us, ms, s, m, h, d"]),
        (&["token", "new", "--name", "ci", "--expires", "tomorrow"], &["--expires must be a day such as 2027-01-31"]),
        (&["token", "new", "--name", "ci", "--expires", "2001-01-31"], &["\"2001-01-31\" is in the past"]),
        (&["restore", "--from", file, "--data", nowhere], &["--from must be a file that leasehold backup wrote", file]),
        (&["restore", "--from", nowhere, "--data", nowhere], &["does not exist"]),
        (&["serve", "--colour"], &["unexpected argument '--colour'"]),
        (&["server"], &["unrecognized subcommand 'server'"]),
    ] {
        let (code, printed, said) = run(args);
        assert_eq!((code, &*printed), (Some(2), ""), "{args:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{args:?} should say {part:?} and says {said}");
        }
    }
}

#[test]
fn a_policy_is_explained_with_the_groups_that_a_token_has_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    let token = |name: &str, group: &str| {
        format!("[[auth.token]]\nname = \"{name}\"\ndigest = \"sha256:{}\"\ngroups = [\"{group}\"]\n", "0".repeat(64))
    };
    let policy = "[[policy]]\ngroups = [\"builders\"]\nactions = [\"acquire\"]\n";
    std::fs::write(&file, format!("{}{policy}", token("ci", "builders"))).unwrap();
    let explain = |more: &[&str]| {
        let mut args = vec!["policy", "explain", "--config", file.to_str().unwrap(), "--action", "acquire"];
        args.extend(["--resource", "claim:x"]);
        args.extend(more);
        run(&args)
    };
    let (code, said, _) = explain(&["--user", "ci"]);
    assert_eq!(code, Some(0), "{said}");
    // A group that is given counts in place of those; a name that the file does not have is in none.
    for more in [&["--user", "ci", "--group", "guests"][..], &["--user", "ann"]] {
        let (code, said, _) = explain(more);
        assert_eq!(code, Some(1), "{more:?}: {said}");
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (code, _, said) = run(&["serve", "--memory", "--listen", &addr]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on {addr}")), "{said}");
}

#[test]
fn port_0_takes_a_free_one_and_says_which() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    assert_ne!(server.addr.port(), 0);
    let expected =
        format!("leasehold 0.1.0 listening on http://{}, data in {}", server.addr, directory.path().display());
    assert!(server.log().contains(&expected), "{}", server.log());
    let health = server.client().call("GET", "/healthz", "").unwrap().expect(200);
    assert_eq!(health.json()["status"], "ok");
    let (status, log) = server.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert!(!log.contains("WARN"), "nothing to warn of on loopback: {log}");
}

#[test]
fn listening_beyond_loopback_is_worth_a_warning() {
    let server = Launch::with(&["--listen", "0.0.0.0:0", "--memory"]).start();
    let warning = server.wait_for_line("WARN");
    let expected = format!("any client that can reach {} can use this service", server.addr);
    assert!(warning.contains(&expected), "{warning}");
}

#[test]
fn memory_serves_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).within(directory.path()).start();
    assert!(server.log().contains("data in memory only, lost when it stops"), "{}", server.log());
    let mut client = server.client();
    client.call("POST", "/lock?client=a", "").unwrap().expect(200);
    assert_eq!(client.call("GET", "/lock", "").unwrap().text("holder"), "a");
    let (status, _) = server.stop(Signal::INT);
    assert_eq!(status.code(), Some(0));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was written");
}
