//! One connection: its socket, its buffers, its script. Reads and writes as much as the socket takes, and decides
//! nothing.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Ask, Heard, Script};

/// Answers are a few hundred bytes; a longer one grows the buffer.
const INPUT_BYTES: usize = 4096;
/// For the conversation before the run.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Line {
    pub(super) stream: mio::net::TcpStream,
    script: Box<dyn Script>,
    input: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
    pub(super) state: LineState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineState {
    /// Free for the next request.
    Idle,
    /// A request is under way since then: when it was sent, or when it was due.
    Asked(Instant),
    /// The script asked to be woken.
    Asleep,
    Done,
}

/// A connected, still blocking socket, for the conversation of a script before the run.
pub(crate) fn connect(addr: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(addr).with_context(|| format!("cannot connect to {addr}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PREPARE_TIMEOUT))?;
    Ok(stream)
}

impl Line {
    pub(crate) fn open(addr: SocketAddr, script: impl Script + 'static) -> Result<Self> {
        Line::new(connect(addr)?, script)
    }

    pub(crate) fn new(stream: TcpStream, script: impl Script + 'static) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Line {
            stream: mio::net::TcpStream::from_std(stream),
            script: Box::new(script),
            input: vec![0; INPUT_BYTES],
            filled: 0,
            out: Vec::with_capacity(512),
            state: LineState::Idle,
        })
    }

    /// Lets the script ask. `due_at` is where latency counts from.
    pub(super) fn ask(&mut self, now: Instant, due_at: Instant, over: bool) -> Result<Ask> {
        let ask = self.script.ask(now, over, &mut self.out);
        match ask {
            Ask::Sent => {
                self.state = LineState::Asked(due_at);
                self.flush()?;
            }
            Ask::At(_) => self.state = LineState::Asleep,
            Ask::Done => self.state = LineState::Done,
        }
        Ok(ask)
    }

    /// Writes as much as the socket takes; the rest goes when it is writable again.
    pub(super) fn flush(&mut self) -> Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("a peer closed a connection while being asked"),
            }
        }
        Ok(())
    }

    /// Reads until the socket has no more. A read that did not fill the buffer has emptied the socket, and the next
    /// arrival is a new event, so the usual answer costs one call.
    pub(super) fn fill(&mut self) -> Result<()> {
        loop {
            if self.filled == self.input.len() {
                self.input.resize(self.input.len() * 2, 0);
            }
            let room = self.input.len() - self.filled;
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => bail!("a peer closed a connection instead of answering"),
                Ok(read) => {
                    self.filled += read;
                    if read < room {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("a peer broke a connection instead of answering"),
            }
        }
    }

    /// Returns since when the answer was waited for, once it is complete. Bytes that the script has taken are removed
    /// from the buffer.
    pub(super) fn hear(&mut self, now: Instant) -> Result<Option<Instant>> {
        let mut taken = 0;
        let answered = loop {
            if taken == self.filled {
                break None;
            }
            match self.script.hear(now, &self.input[taken..self.filled], &mut self.out)? {
                Heard::Partial => break None,
                Heard::Aside(bytes) => taken += bytes,
                Heard::Answer(bytes) => {
                    taken += bytes;
                    let LineState::Asked(due_at) = self.state else { bail!("a peer answered without a request") };
                    break Some(due_at);
                }
                Heard::AnswerSince(bytes, asked_at) => {
                    taken += bytes;
                    break Some(asked_at);
                }
            }
        };
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        self.flush()?;
        Ok(answered)
    }
}
