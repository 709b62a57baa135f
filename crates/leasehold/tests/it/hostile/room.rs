//! One connection more than our own limit allows: it is told so, and there is room again as soon as a client leaves.
//! The operating system's limit is in `files`.

use super::is_served;
use crate::support::{Client, Launch, PATIENCE, report, until};

const CONNECTIONS_MAX: usize = 8;

#[test]
fn one_connection_past_the_limit_is_told_when_to_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--connections-max").arg(CONNECTIONS_MAX.to_string()).start();
    let mut inside: Vec<Client> = (0..CONNECTIONS_MAX).map(|_| server.client()).collect();
    // An answer shows that a connection is in, and not only in the backlog.
    inside.iter_mut().for_each(is_served);

    let mut turned_away = 0;
    for _ in 0..40 {
        let mut outside = server.client();
        let answer = outside.receive().unwrap().expect(503);
        assert_eq!((answer.header("retry-after"), answer.header("connection")), (Some("1"), Some("close")));
        assert_eq!(answer.text("error"), "too many connections");
        assert_eq!(outside.rest(PATIENCE).unwrap(), b"", "one answer, and the end");
        turned_away += 1;
        if turned_away % 10 == 0 {
            inside.iter_mut().for_each(is_served);
        }
    }
    // A client that sends first and reads later is told as well.
    let mut outside = server.client();
    outside.send("POST", "/lock?client=outside", &[], b"").unwrap();
    outside.receive().unwrap().expect(503);

    for _ in 0..5 {
        // Each that leaves makes room for exactly one.
        inside.pop();
        let mut next = until("there is room again", PATIENCE, || {
            let mut client = server.client();
            client.call("GET", "/lock", "").is_ok_and(|answer| answer.status == 200).then_some(client)
        });
        is_served(&mut next);
        inside.push(next);
        server.client().receive().unwrap().expect(503);
    }
    let holder = inside[0].call("GET", "/lock", "").unwrap().expect(200).text("holder");
    assert_eq!(holder, "", "a call that was turned away had no effect");
    report(format_args!(
        "hostile: {turned_away} connections past {CONNECTIONS_MAX} got their 503, and room was found 5 of 5 times after"
    ));
}
