//! A disk that fills up: new claims are turned away while there is still room for releases; when it is really full the
//! process ends; and when there is room again everything that was acknowledged is there.
//!
//! The disk is a small one in memory, which takes the right to mount. Without it a limit on the length of files stands
//! in: that shows the end and the recovery, but the service cannot see it coming.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use super::STORE_FAILED;
use crate::support::{Client, Launch, Server, part_of_the_machine, random_uuid, report};

/// Room gets low when 64 MiB are left.
const DISK_MIB: u64 = 96;
const MORE_MIB: u64 = 256;
/// Where there is no such disk.
const FILE_KIB: u32 = 24 << 10;

const METADATA_BYTES: usize = 15_000;

#[test]
fn a_disk_that_fills_up_turns_claims_away_then_ends_the_service_and_loses_nothing() {
    let _machine = part_of_the_machine();
    let began = Instant::now();
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let disk = match Disk::mount(directory.path()) {
        Ok(disk) => Some(disk),
        Err(why) => {
            report(format_args!("full disk: no disk can be mounted here, so files are limited instead: {why}"));
            None
        }
    };
    let launch = if disk.is_some() { Launch::on(&data) } else { Launch::with_file_size(&data, FILE_KIB) };
    let mut server = launch.start();
    let mut notes = Notes::new(&mut server.client());

    let mut turned_away = 0;
    if let Some(disk) = &disk {
        turned_away = notes.claim_until_turned_away(&mut server.client());
        assert!(disk.free_bytes() > 32 << 20, "{} bytes are left", disk.free_bytes());
        notes.release_some(&mut server.client(), 50);
        disk.fill();
    }
    let ended_after = notes.go_on_until_it_ends(&server, disk.is_none());
    let status = server.wait();
    let log = server.whole_log();
    assert_eq!(status.code(), Some(STORE_FAILED), "{log}");

    if let Some(disk) = &disk {
        disk.make_room();
    }
    let server = Launch::on(&data).start();
    let mut client = server.client();
    notes.check(&mut client);
    notes.claim(&mut client).expect("there is room again");
    let (status, _) = server.stop(Signal::TERM);
    assert!(status.success(), "{status}");
    report(format_args!(
        "full disk: {} claims taken {}, then {turned_away} turned away while {} were released; when it was really full \
         {ended_after} more changes until exit code {STORE_FAILED}; all acknowledged there after making room, {:.0} s",
        notes.claims.len() - 1,
        if disk.is_some() { format!("on {DISK_MIB} MiB") } else { format!("in files of at most {FILE_KIB} KiB") },
        notes.released,
        began.elapsed().as_secs_f64(),
    ));
}

/// The acknowledged claims.
struct Notes {
    /// Claims and whether they are active; `None` is not known.
    claims: BTreeMap<String, Option<bool>>,
    pool: String,
    lease: String,
    released: usize,
}

impl Notes {
    fn new(client: &mut Client) -> Notes {
        let pool = format!("/l/{}", random_uuid());
        client.call("PUT", &pool, "{\"count\":1}").unwrap().expect(200);
        let lease = client.call("POST", &format!("{pool}/borrow"), "{\"ttl\":3600}").unwrap().expect(200).text("lease");
        Notes { claims: BTreeMap::new(), pool, lease, released: 0 }
    }

    /// A big one on something of its own. The error is the answer that turned it away, or why there was none.
    fn claim(&mut self, client: &mut Client) -> Result<(), String> {
        let (resource, metadata) = (random_uuid(), "m".repeat(METADATA_BYTES));
        let body = format!("{{\"resource\":\"{resource}\",\"timeout\":3600,\"metadata\":\"{metadata}\"}}");
        let answer = client.call("POST", "/v1/claims/", &body).map_err(|error| error.to_string())?;
        if answer.status != 201 {
            return Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)));
        }
        self.claims.insert(answer.text("id"), Some(true));
        Ok(())
    }

    /// Fills the journal until new claims are refused, and checks that they stay refused.
    fn claim_until_turned_away(&mut self, client: &mut Client) -> usize {
        let said = loop {
            if let Err(said) = self.claim(client) {
                break said;
            }
            assert!(self.claims.len() < 10_000, "the disk should be nearly full");
        };
        assert!(said.starts_with("503 ") && said.contains("the store is nearly full"), "{said}");
        let again = (0..20).map(|_| self.claim(client).expect_err("there is no more room than before"));
        1 + again.inspect(|said| assert!(said.starts_with("503 "), "{said}")).count()
    }

    fn release_some(&mut self, client: &mut Client, count: usize) {
        let ids: Vec<String> = self.claims.keys().take(count).cloned().collect();
        for id in ids {
            let released = client.call("PATCH", &format!("/v1/claims/{id}/"), "{\"status\":\"released\"}");
            released.unwrap().expect(204);
            self.claims.insert(id, Some(false));
            self.released += 1;
        }
    }

    /// Releases, renewals and, if there is no other way to get there, claims, until the service is gone.
    fn go_on_until_it_ends(&mut self, server: &Server, with_claims: bool) -> usize {
        let mut client = server.client().ending_with_the_service();
        for changes in 0..200_000 {
            if with_claims && self.claim(&mut client).is_err() {
                return changes;
            }
            let active = self.claims.iter().find(|(_, active)| **active == Some(true)).map(|(id, _)| id.clone());
            let answer = if let Some(id) = active.filter(|_| changes % 8 == 7) {
                self.claims.insert(id.clone(), None);
                let answer = client.call("PATCH", &format!("/v1/claims/{id}/"), "{\"status\":\"released\"}");
                if answer.is_ok() {
                    self.claims.insert(id, Some(false));
                    self.released += 1;
                }
                answer.map(|answer| answer.expect(204))
            } else {
                let body = format!("{{\"lease\":\"{}\",\"ttl\":3600}}", self.lease);
                client.call("POST", &format!("{}/renew", self.pool), &body).map(|answer| answer.expect(200))
            };
            if answer.is_err() {
                return changes;
            }
        }
        panic!("a full disk was survived: {}", server.log());
    }

    /// Everything is as the answers said.
    fn check(&self, client: &mut Client) {
        for (id, active) in &self.claims {
            let shown = client.call("GET", &format!("/v1/claims/{id}/"), "").unwrap().expect(200).text("status");
            match active {
                Some(true) => assert_eq!(shown, "active", "{id}"),
                Some(false) => assert_eq!(shown, "released", "{id}"),
                None => assert!(shown == "active" || shown == "released", "{id} is {shown}"),
            }
        }
        client.call("GET", &format!("{}/leases/{}", self.pool, self.lease), "").unwrap().expect(200);
    }
}

/// A small file system in memory, gone when this is dropped.
struct Disk {
    path: PathBuf,
}

impl Disk {
    fn mount(path: &Path) -> Result<Disk, String> {
        let size = format!("size={DISK_MIB}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "leasehold-test"]).arg(path))?;
        Ok(Disk { path: path.to_owned() })
    }

    fn free_bytes(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.path).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Takes up what is left, to the last page.
    fn fill(&self) {
        let mut ballast = File::create(self.path.join("ballast")).unwrap();
        while ballast.write_all(&[1; 4096]).is_ok() {}
        assert_eq!(self.free_bytes(), 0);
    }

    /// A greater disk: what is stored already is half of the small one.
    fn make_room(&self) {
        std::fs::remove_file(self.path.join("ballast")).unwrap();
        run(Command::new("mount").args(["-o", &format!("remount,size={MORE_MIB}m")]).arg(&self.path)).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, as the process may still have it open when a test failed.
        let _ = run(Command::new("umount").arg("-l").arg(&self.path));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}
