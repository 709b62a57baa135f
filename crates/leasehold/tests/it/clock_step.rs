//! The wall clock steps by an hour, forward and back, while leases are held: they end neither early nor late, and only
//! the times that are shown move. The server's wall clock is faked with libfaketime; its monotonic clock is left alone.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::{Client, FakeWall, Launch, machine_to_itself, random_uuid, report, until};

const HOUR_S: i64 = 3_600;
const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_wall_clock_that_steps_by_an_hour_moves_only_what_is_shown() {
    let _machine = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeWall::new(directory.path(), "offset");
    let server = clock.govern(Launch::on(&directory.path().join("data"))).arg("--grace").arg("0s").start();
    let mut client = server.client();
    let pool = format!("/l/{}", random_uuid());
    client.call("PUT", &pool, "{\"count\":1}").unwrap().expect(200);
    let mut lateness_ms = Vec::new();
    for (from_s, to_s) in [(0, HOUR_S), (HOUR_S, 0), (0, -HOUR_S), (-HOUR_S, 0)] {
        lateness_ms.push(step(&mut client, &pool, &clock, from_s, to_s).as_millis());
    }
    report(format_args!(
        "sockets: wall clock stepped by an hour 4 times, leases of {TTL:?} ended {lateness_ms:?} ms late"
    ));
}

/// Takes a lease, a lock and a claim, steps the clock, and waits until they end. Returns how late that was.
fn step(client: &mut Client, pool: &str, clock: &FakeWall, from_s: i64, to_s: i64) -> Duration {
    let sent_at = Instant::now();
    let body = format!("{{\"ttl\":{}}}", TTL.as_secs());
    let borrowed = client.call("POST", &format!("{pool}/borrow"), &body).unwrap().expect(200);
    client.call("POST", &format!("/lock?client=a&ttl={}s", TTL.as_secs()), "").unwrap().expect(200);
    let claim = format!("{{\"resource\":\"r\",\"timeout\":{}}}", TTL.as_secs());
    let claim = client.call("POST", "/v1/claims/", &claim).unwrap().expect(201);
    let answered_at = Instant::now();
    let lease = format!("{pool}/leases/{}", borrowed.text("lease"));
    let claim = format!("/v1/claims/{}/", claim.text("id"));
    shows_an_end_near(&borrowed.json()["expires_at_unix"], from_s);

    clock.set(to_s);
    // A reading of the wall clock is good for a millisecond.
    let shown = until("the time that was set is shown", Duration::from_secs(1), || {
        let shown = client.call("GET", &lease, "").unwrap().expect(200);
        (-1..=3).contains(&ahead_s(&shown.json()["expires_at_unix"], to_s)).then_some(shown)
    });
    assert_eq!(shown.number("token"), borrowed.number("token"));
    let rest_s = shown.json()["expires_in"].as_f64().unwrap();
    assert!(rest_s > 0.0 && rest_s <= TTL.as_secs_f64(), "{}", shown.json());

    until("lease, lock and claim end", TTL + Duration::from_secs(2), || {
        let asked_at = Instant::now();
        let is_leased = client.call("GET", &lease, "").unwrap().status == 200;
        let is_locked = client.call("GET", "/lock", "").unwrap().json()["is_expired"] == false;
        let is_claimed = client.call("GET", &claim, "").unwrap().text("status") == "active";
        let held = [is_leased, is_locked, is_claimed];
        // Not early: the caller may rely on it until then by its own clock.
        assert!(Instant::now() >= sent_at + TTL || held == [true; 3], "ended early: {held:?}");
        (held == [false; 3]).then_some(asked_at)
    })
    .saturating_duration_since(answered_at + TTL)
}

#[track_caller]
fn shows_an_end_near(shown: &serde_json::Value, offset_s: i64) {
    let ahead_s = ahead_s(shown, offset_s);
    assert!((-1..=3).contains(&ahead_s), "shown is {ahead_s} s ahead of a clock that is off by {offset_s} s");
}

/// How far the time that is shown is ahead of a clock that is off by `offset_s`.
fn ahead_s(shown: &serde_json::Value, offset_s: i64) -> i64 {
    let now_s = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    shown.as_i64().unwrap() - (now_s + offset_s)
}
