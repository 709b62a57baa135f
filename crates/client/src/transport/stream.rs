//! The stream of events (`GET /v1/events`), read event by event. It ends with its connection; a reader goes on after
//! the id of the last event it has.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use super::connection::{Connection, NoAnswer, NoConnection, Raw};
use super::{Manner, Transport};
use crate::dialect::Call;
use crate::error::Error;
use crate::reply::{Heard, Trouble};
use crate::table::{Asked, asked};

/// The service says something every ten seconds; a line that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// No event is longer.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// An event of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place in the journal, to go on from: `<epoch>.<position>`.
    pub id: Option<String>,
    /// The event's name: `granted`, `released`, …
    pub name: String,
    /// Everything about it, as `docs/api.md` has it.
    pub data: Value,
}

/// An open stream of events. Dropped, it is closed.
#[derive(Debug)]
pub struct EventStream {
    /// Keeps the socket driven.
    _connection: Connection,
    body: Incoming,
    text: Vec<u8>,
    events: VecDeque<Event>,
}

impl EventStream {
    /// The next event; `None` when the stream ended or broke off: open another one with the id of the last event.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let frame = timeout(SILENCE, self.body.frame()).await.ok()??.ok()?;
            if let Some(data) = frame.data_ref() {
                self.text.extend_from_slice(data);
            }
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                self.events.extend(parse(&String::from_utf8_lossy(&block)));
            }
            if self.text.len() > EVENT_BYTES_MAX {
                return None;
            }
        }
    }
}

impl Transport {
    /// Opens a stream at the first address that has one.
    pub(crate) async fn events(&self, call: &Call) -> Result<EventStream, Error> {
        let request_id = format!("{:016x}", rand::random::<u64>());
        let mut last = None;
        for at in 0..self.addresses.len() {
            let trouble = |message: String| Trouble {
                message,
                url: self.addresses[at].to_string(),
                request_id: request_id.clone(),
            };
            let mut connection = match self.connect(at).await {
                Ok(connection) => connection,
                Err(NoConnection::Unreachable(reason)) => {
                    last = Some(Error::Unavailable(trouble(reason)));
                    continue;
                }
                Err(NoConnection::Tls(reason)) => {
                    last = Some(Error::Tls(trouble(reason)));
                    continue;
                }
            };
            let answered = timeout(Manner::PLAIN.patience, connection.head(self.request(at, call, &request_id))).await;
            let response = match answered {
                Ok(Ok(response)) => response,
                Ok(Err(NoAnswer::Tls(reason))) => return Err(Error::Tls(trouble(reason))),
                Ok(Err(NoAnswer::Before(reason) | NoAnswer::Within(reason))) => {
                    last = Some(Error::Unavailable(trouble(reason)));
                    continue;
                }
                Err(_) => {
                    last = Some(Error::Unavailable(trouble("no answer in time".into())));
                    continue;
                }
            };
            let (parts, body) = response.into_parts();
            if parts.status.is_success() {
                return Ok(EventStream { _connection: connection, body, text: Vec::new(), events: VecDeque::new() });
            }
            let status = parts.status.as_u16();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let heard = self.understand(at, &Raw { status, headers: parts.headers, body }, &request_id);
            return Err(refusal(&heard));
        }
        Err(last.expect("there is at least one address"))
    }
}

/// The error for an answer that is no success.
pub(crate) fn refusal(heard: &Heard) -> Error {
    match asked(&crate::dialect::Target::lock(""), heard) {
        Asked::Fail(error) => error,
        Asked::Again(again) => again.error,
        Asked::Granted | Asked::Waiting | Asked::NextRound(_) | Asked::Ended => match heard {
            Heard::Reply(reply) => Error::Protocol(reply.trouble()),
            _ => Error::Closed,
        },
    }
}

/// A comment is no event.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let name = field("event")?.to_owned();
    let data = field("data").map_or(Value::Null, |data| serde_json::from_str(data).unwrap_or(Value::Null));
    Some(Event { id: field("id").map(str::to_owned), name, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_apart_and_comments_are_not_events() {
        let event = parse("id: 1.43\nevent: granted\ndata: {\"token\":7}\n\n").unwrap();
        assert_eq!((event.id.as_deref(), &*event.name), (Some("1.43"), "granted"));
        assert_eq!(event.data["token"], 7);
        assert_eq!(parse(": open\n\n"), None);
        assert_eq!(parse("retry: 1000\n\n"), None);
    }
}
