//! The data is taken away from under the real binary: removed, renamed, replaced, truncated. From that moment on no
//! change is acknowledged, the process ends, and the next start has everything it acknowledged or is refused.

use std::fs::File;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{Client, Launch, Server, leasehold, output_of, random_uuid, report};

/// The data is not what was written (`Exit::Damaged`); a service manager does not start it again.
const DAMAGED: i32 = 4;

const DATABASE: &str = "leasehold.db";
const LOG: &str = "leasehold.db-wal";

struct Case {
    name: &'static str,
    disturb: fn(&Path, &Path),
    said: &'static str,
    next: Next,
}

/// The data for the next start.
enum Next {
    /// The data is put back, and everything acknowledged is there.
    Mended(fn(&Path, &Path)),
    Refused,
    /// All of it is gone: there is nothing to refuse.
    Gone,
}

fn cut(data: &Path, name: &str, len: u64) {
    File::options().write(true).open(data.join(name)).unwrap().set_len(len).unwrap();
}

fn replace(data: &Path, aside: &Path, name: &str) {
    std::fs::rename(data.join(name), aside.join(name)).unwrap();
    std::fs::copy(aside.join(name), data.join(name)).unwrap();
}

const CASES: &[Case] = &[
    Case {
        name: "rm -rf of the directory",
        disturb: |data, _| std::fs::remove_dir_all(data).unwrap(),
        said: "leasehold.db-wal was removed or renamed",
        next: Next::Gone,
    },
    Case {
        name: "mv of the directory",
        disturb: |data, aside| std::fs::rename(data, aside.join("data")).unwrap(),
        said: "leasehold.db-wal was removed or renamed",
        next: Next::Mended(|data, aside| std::fs::rename(aside.join("data"), data).unwrap()),
    },
    Case {
        name: "rm of the database",
        disturb: |data, _| std::fs::remove_file(data.join(DATABASE)).unwrap(),
        said: "leasehold.db was removed or renamed",
        next: Next::Refused,
    },
    Case {
        name: "a copy in place of the database",
        disturb: |data, aside| replace(data, aside, DATABASE),
        said: "leasehold.db was replaced",
        next: Next::Mended(|data, aside| std::fs::rename(aside.join(DATABASE), data.join(DATABASE)).unwrap()),
    },
    Case {
        name: "a copy in place of the log",
        disturb: |data, aside| replace(data, aside, LOG),
        said: "leasehold.db-wal was replaced",
        next: Next::Mended(|data, aside| std::fs::rename(aside.join(LOG), data.join(LOG)).unwrap()),
    },
    Case {
        name: "a database cut to nothing",
        disturb: |data, _| cut(data, DATABASE, 0),
        said: "leasehold.db was truncated",
        next: Next::Refused,
    },
    Case {
        name: "a log cut to nothing",
        disturb: |data, _| cut(data, LOG, 0),
        said: "leasehold.db-wal was truncated",
        next: Next::Refused,
    },
];

#[test]
fn no_change_is_acknowledged_after_the_data_was_taken_away() {
    for case in CASES {
        let (root, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let data = root.path().join("data");
        let server = Launch::on(&data).start();
        let pool = format!("/l/{}", random_uuid());
        let mut client = server.client();
        client.call("PUT", &pool, "{\"count\":1000}").unwrap().expect(200);
        let leases: Vec<String> = (0..50).map(|_| borrow(&mut client, &pool).expect("it serves")).collect();

        (case.disturb)(&data, aside.path());
        // None of these may be told that it has a slot.
        let told: Vec<String> =
            (0..20).filter_map(|_| borrow(&mut Client::connect(server.addr).ok()?, &pool)).collect();
        assert!(told.is_empty(), "{}: {} leases were acknowledged", case.name, told.len());
        ends_with(server, case);
        start_again(case, &data, aside.path(), &pool, &leases);
    }
    report(format_args!("files: taken away in {} ways, nothing acknowledged after any of them", CASES.len()));
}

/// `None` when it was not told that it has one.
fn borrow(client: &mut Client, pool: &str) -> Option<String> {
    let answer = client.call("POST", &format!("{pool}/borrow"), "{\"ttl\":3600}").ok()?;
    (answer.status == 200).then(|| answer.text("lease"))
}

fn ends_with(mut server: Server, case: &Case) {
    let status = server.wait();
    let log = server.whole_log();
    assert_eq!(status.code(), Some(DAMAGED), "{}: {log}", case.name);
    assert!(log.contains(case.said) && log.contains("while it was in use"), "{}: {log}", case.name);
    assert!(!log.contains("start again to recover"), "{}: {log}", case.name);
}

fn start_again(case: &Case, data: &Path, aside: &Path, pool: &str, leases: &[String]) {
    match case.next {
        Next::Mended(mend) => {
            mend(data, aside);
            let server = Launch::on(data).start();
            for lease in leases {
                let shown = server.client().call("GET", &format!("{pool}/leases/{lease}"), "").unwrap();
                assert_eq!(shown.status, 200, "{}: {shown:?}", case.name);
            }
            assert!(server.stop(Signal::TERM).0.success());
        }
        Next::Refused => {
            let ended = Launch::on(data).try_start().expect_err("there is less than was acknowledged");
            assert_eq!(ended.status.code(), Some(DAMAGED), "{}: {}", case.name, ended.log);
            assert!(ended.log.contains("restore the data from a backup"), "{}: {}", case.name, ended.log);
        }
        Next::Gone => assert!(!data.exists(), "{}: something was written after all was removed", case.name),
    }
}

/// It started empty, and tokens began at 1 again; `check` said that there was no data.
#[test]
fn an_empty_database_beside_a_full_log_is_refused_by_serve_and_check() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = Launch::on(&data).start();
    for _ in 0..5 {
        server.client().call("POST", "/lock?client=laptop1&ttl=30s", "").unwrap().expect(200);
    }
    server.kill();
    cut(&data, DATABASE, 0);
    assert!(data.join(LOG).metadata().unwrap().len() > 0);
    for _ in 0..2 {
        let ended = Launch::on(&data).try_start().expect_err("it has lost what it acknowledged");
        assert_eq!(ended.status.code(), Some(DAMAGED), "{}", ended.log);
        assert!(ended.log.contains("leasehold.db is damaged: it is empty, but it has held data"), "{}", ended.log);
        let checked = output_of(leasehold().arg("check").arg("--data").arg(&data));
        let said = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(DAMAGED), "{said}");
        assert!(said.contains("it is empty, but it has held data"), "{said}");
    }
    assert!(data.join(LOG).metadata().unwrap().len() > 0, "the log is still there for a person to look at");
}

/// Earlier versions left the mode to the umask.
#[test]
fn a_data_directory_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launch = || Launch::with(&["--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let ended = launch().try_start().expect_err("others can read it");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
    let command = format!("chmod 700 {}", data.display());
    assert!(ended.log.contains("is open to others (mode 0755)"), "{}", ended.log);
    assert!(ended.log.trim_end().ends_with(&command), "{}", ended.log);
    // The command as it was said.
    assert!(std::process::Command::new("sh").arg("-c").arg(&command).status().unwrap().success());
    let server = launch().start();
    let modes = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().metadata().unwrap().permissions().mode());
    assert!(modes.map(|mode| mode & 0o777).all(|mode| mode == 0o600));
    assert!(server.stop(Signal::TERM).0.success());
}
