//! SIGHUP: tokens come and go while requests run, and a mistake changes nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;

use super::support::{Guarded, Member};
use crate::support::EventStream;

const POLICY: &str = "\n[[policy]]\nsubjects = [\"authenticated\"]\nactions = [\"*\"]\n";

#[test]
fn a_reload_drops_no_connection_and_no_request() {
    let (kept, gone, new) = (Member::new("kept", &[]), Member::new("gone", &[]), Member::new("new", &[]));
    let it = Guarded::start(&format!("{}{}{POLICY}", kept.snippet, gone.snippet));
    it.ask(Some(&gone), "GET", "/v1/claims/", "").expect(200);
    it.ask(Some(&new), "GET", "/v1/claims/", "").expect(401);
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // One connection for all of it.
                let (mut client, bearer) = (it.client(), kept.bearer());
                while !is_over.load(Ordering::Relaxed) {
                    let headers = [("authorization", bearer.as_str())];
                    client.call_with("GET", "/v1/claims/", &headers, b"").unwrap().expect(200);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // In any case, the callers are told to stop.
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..5 {
                it.rewrite(&format!("{}{}{POLICY}", kept.snippet, new.snippet));
                reload(&it, &format!("{}", 2 * round));
                it.ask(Some(&new), "GET", "/v1/claims/", "").expect(200);
                it.ask(Some(&gone), "GET", "/v1/claims/", "").expect(401);
                it.rewrite(&format!("{}{}{POLICY}", kept.snippet, gone.snippet));
                reload(&it, &format!("{}", 2 * round + 1));
                it.ask(Some(&gone), "GET", "/v1/claims/", "").expect(200);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(asked.load(Ordering::Relaxed) > 10);
}

/// Waits until it was said once more.
fn reload(it: &Guarded, before: &str) {
    let count = |log: &str| log.matches("were reloaded").count();
    assert_eq!(count(&it.server.log()).to_string(), before);
    let wanted = count(&it.server.log()) + 1;
    it.server.signal(Signal::HUP);
    crate::support::until("a reload", crate::support::PATIENCE, || (count(&it.server.log()) == wanted).then_some(()));
}

#[test]
fn a_stream_ends_with_the_right_to_read_it() {
    let [kept, revoked, expiring, demoted] =
        ["kept", "revoked", "expiring", "demoted"].map(|name| Member::new(name, &[]));
    let until_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 3;
    let until = jiff::Timestamp::from_second(until_s.cast_signed()).unwrap();
    let expiring = Member { snippet: format!("{}expires = \"{until}\"\n", expiring.snippet), ..expiring };
    let policy = |subjects: &str| format!("\n[[policy]]\nsubjects = [{subjects}]\nactions = [\"*\"]\n");
    let all = r#""kept", "revoked", "expiring", "demoted""#;
    let tokens = [&kept, &revoked, &expiring, &demoted].map(|member| &*member.snippet).concat();
    let it = Guarded::start(&format!("{tokens}{}", policy(all)));
    let open = |member: &Member| EventStream::open_as(it.server.addr, "/v1/events", &member.bearer());
    let mut streams = [&kept, &revoked, &expiring, &demoted].map(open);
    for stream in &mut streams {
        stream.expect("hello");
    }

    let tokens = [&kept, &expiring, &demoted].map(|member| &*member.snippet).concat();
    it.rewrite(&format!("{tokens}{}", policy(r#""kept", "expiring""#)));
    reload(&it, "0");
    let [kept_stream, revoked_stream, expiring_stream, demoted_stream] = &mut streams;
    for (stream, told) in [
        (revoked_stream, "the API token is unknown or was revoked"),
        (expiring_stream, "the API token has expired"),
        (demoted_stream, "demoted needs the action 'observe' on the service, and has it no longer"),
    ] {
        assert_eq!(stream.expect("signed-out").data["error"], told);
        assert!(stream.next().is_none(), "that was the last of it");
    }
    it.ask(Some(&kept), "POST", "/lock?client=kept", "").expect(200);
    kept_stream.expect("granted");
}

#[test]
fn a_mistake_is_told_and_changes_nothing() {
    let member = Member::new("a", &[]);
    let it = Guarded::start(&format!("{}{POLICY}", member.snippet));
    for (mistake, told) in [
        ("[auth]\n", "names no way to sign on"),
        ("ttl_max = \"never\"\n", "ttl_max must be a duration"),
        ("", "[auth] is gone from it"),
        ("[[auth.tokn]]\n", "unknown key \"auth.tokn\", did you mean token?"),
    ] {
        it.rewrite(mistake);
        it.server.signal(Signal::HUP);
        let line = it.server.wait_for_line(told);
        assert!(line.contains("the one before stays in force"), "{line}");
        it.ask(Some(&member), "GET", "/v1/claims/", "").expect(200);
        it.ask(None, "GET", "/v1/claims/", "").expect(401);
    }
    it.server.wait_for_line(r#"action="reload" on="sign-on" outcome="failed""#);
}
