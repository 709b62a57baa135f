//! The messages of the real binary to systemd, heard on a socket in its stead.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Launch, PATIENCE, leasehold, output_of};

const WATCHDOG_US: u64 = 200_000;

/// The service manager's end.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn at(path: &Path) -> Manager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager { socket }
    }

    /// The next thing it is told.
    fn hear(&self) -> String {
        let mut buffer = [0; 512];
        let length = self.socket.recv(&mut buffer).expect("it is told in time");
        String::from_utf8(buffer[..length].to_vec()).unwrap().trim_end().to_owned()
    }

    /// The next thing that is not about the watchdog.
    fn hear_news(&self) -> String {
        loop {
            let heard = self.hear();
            if heard != "WATCHDOG=1" {
                return heard;
            }
        }
    }
}

#[test]
fn systemd_is_told_of_ready_reload_and_stop_and_the_watchdog_is_fed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("notify");
    let manager = Manager::at(&path);
    let config = scratch.path().join("leasehold.toml");
    std::fs::write(&config, "").unwrap();
    let server = Launch::on(&scratch.path().join("data"))
        .arg("--config")
        .arg(&config)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", WATCHDOG_US.to_string())
        .start();
    assert_eq!(manager.hear(), "READY=1");
    // It listens by then: no client has to try twice.
    server.client().call("GET", "/readyz", "").unwrap().expect(200);
    for _ in 0..5 {
        assert_eq!(manager.hear(), "WATCHDOG=1");
    }
    server.signal(Signal::HUP);
    let reloading = manager.hear_news();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.hear_news(), "READY=1");
    let told_at = Instant::now();
    let (status, _) = server.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert_eq!(manager.hear_news(), "STOPPING=1");
    assert!(told_at.elapsed() < Duration::from_secs(10));
}

#[test]
fn without_a_watchdog_it_is_told_the_rest_and_nothing_every_second() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("notify");
    let manager = Manager::at(&path);
    let server = Launch::on(&scratch.path().join("data")).env("NOTIFY_SOCKET", &path).start();
    assert_eq!(manager.hear(), "READY=1");
    server.stop(Signal::TERM);
    assert_eq!(manager.hear(), "STOPPING=1");
}

#[test]
fn a_container_can_ask_how_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Launch::on(scratch.path()).start();
    let ask = |args: &[&str]| {
        // As in a container: told to listen everywhere, by the environment.
        let listen = format!("0.0.0.0:{}", server.addr.port());
        let output = output_of(leasehold().arg("healthcheck").args(args).env("LEASEHOLD_LISTEN", listen));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(ask(&[]), (Some(0), String::new()));
    assert_eq!(ask(&["--ready"]), (Some(0), String::new()));
    let (code, said) = ask(&["--listen", "127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no answer from 127.0.0.1:1"), "{said}");
    let (code, said) = ask(&["--listen", "here"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("listen must be an address"), "{said}");
}
