//! The line between front and keeper: one JSON object a line over a socket pair, which ends with either of them. It
//! carries credentials, so it is never shown.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use leasehold_client::terms::Terms;
use leasehold_client::{Cause, Handover};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::ConnectArgs;

/// From front.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToKeeper {
    /// The first message.
    Take { handover: Box<Handover>, connect: Box<ConnectArgs>, warns: bool, max_hold_ms: Option<u64> },
    /// The command's group, before the command begins.
    Group(i32),
    /// Front has begun to end the command.
    Ending,
    /// Tell the terms as they are now.
    Tell,
    /// Renew no more; front gives the lease back.
    Stop,
}

/// From keeper.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToFront {
    /// The lease is held here now.
    Ready,
    /// It was renewed.
    Terms(Terms),
    /// Front asked. Renewals before it are told before it.
    Answer(Terms),
    AtRisk {
        cause: Option<String>,
    },
    Lost {
        cause: Cause,
        message: String,
    },
    /// Renewal has ended.
    Stopped,
}

pub(super) fn send<T: Serialize>(mut to: &UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Passes on each message, and `None` when the line ends.
pub(super) fn listen<T, E>(from: UnixStream, events: Sender<E>, wrap: fn(Option<T>) -> E) -> io::Result<()>
where
    T: DeserializeOwned + Send + 'static,
    E: Send + 'static,
{
    let listen = move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str(&line) else { break };
            if events.send(wrap(Some(message))).is_err() {
                return;
            }
        }
        let _ = events.send(wrap(None));
    };
    std::thread::Builder::new().name("link".into()).spawn(listen).map(|_| ())
}
