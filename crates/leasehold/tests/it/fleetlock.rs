//! Fifty machines of one group reboot in turn, three at a time, as Zincati asks for it: again and again, until it may.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::{Client, Launch, Response, report};

const MACHINES: usize = 50;
const SLOTS: u32 = 3;

fn ask(client: &mut Client, call: &str, id: &str) -> Response {
    let body = json!({"client_params": {"id": id, "group": "default"}}).to_string();
    client.call_with("POST", call, &[("fleet-lock-protocol", "true")], body.as_bytes()).unwrap()
}

#[test]
fn fifty_machines_reboot_once_each_and_three_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    let capacity = json!({"capacity": SLOTS}).to_string();
    client.call("PUT", "/v1/resources/fleetlock%2Fdefault", &capacity).unwrap().expect(200);
    let (down, most, refused, reboots) =
        (AtomicU32::new(0), AtomicU32::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for nth in 0..MACHINES {
            let mut client = server.client();
            let (down, most, refused, reboots) = (&down, &most, &refused, &reboots);
            scope.spawn(move || {
                let id = format!("node-{nth}");
                // Both addresses serve, and a machine may use one for each call.
                let base = if nth % 2 == 0 { "/v1" } else { "/fleetlock/v1" };
                loop {
                    let answer = ask(&mut client, &format!("{base}/pre-reboot"), &id);
                    if answer.status == 200 {
                        break;
                    }
                    assert_eq!((answer.status, &*answer.text("kind")), (423, "failed_lock_semaphore_full"));
                    // A slot may have come back between the refusal and the look at its holders.
                    assert!(answer.text("value").contains(" of 3 reboot slots taken"), "{answer:?}");
                    refused.fetch_add(1, Ordering::Relaxed);
                    // The protocol has no wait: a machine asks again after a while.
                    std::thread::sleep(Duration::from_millis(10));
                }
                let at_once = down.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(at_once, Ordering::SeqCst);
                assert!(at_once <= SLOTS, "{at_once} machines are down at once");
                // It asks again before it goes down, as Zincati does after a crash of its own.
                ask(&mut client, &format!("{base}/pre-reboot"), &id).expect(200);
                std::thread::sleep(Duration::from_millis(20));
                reboots.fetch_add(1, Ordering::Relaxed);
                down.fetch_sub(1, Ordering::SeqCst);
                ask(&mut client, &format!("{base}/steady-state"), &id).expect(200);
                ask(&mut client, &format!("{base}/steady-state"), &id).expect(200);
            });
        }
    });
    let group = client.call("GET", "/v1/resources/fleetlock%2Fdefault", "").unwrap().expect(200);
    assert_eq!(group.number("in_use"), 0);
    assert_eq!((reboots.into_inner(), most.into_inner()), (MACHINES, SLOTS));
    report(format_args!(
        "fleetlock: {MACHINES} machines, {SLOTS} at a time, each rebooted once; {} times one was told to wait",
        refused.into_inner()
    ));
}
