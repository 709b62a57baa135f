//! HTTP/2 by hand, for things no client does: a window that stays shut, frames out of turn. Headers go out as literals,
//! and of the answers only the kinds of frames and the lengths of data are looked at.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::PATIENCE;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[derive(Debug)]
pub(crate) struct RawH2 {
    stream: TcpStream,
    unread: Vec<u8>,
    next_stream: u32,
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Headers(u32),
    /// So many bytes, and whether they are the last.
    Data(u32, usize, bool),
    Reset(u32),
}

impl RawH2 {
    /// Connects, and says how much of an answer it takes unasked.
    pub(crate) fn connect(addr: SocketAddr, initial_window: u32) -> RawH2 {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut h2 = RawH2 { stream, unread: Vec::new(), next_stream: 1 };
        let mut settings = vec![0, 4];
        settings.extend(initial_window.to_be_bytes());
        h2.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        h2.send(SETTINGS, 0, 0, &settings).unwrap();
        h2
    }

    /// Asks, and says on which stream.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> u32 {
        self.ask_with(method, path, &[], body)
    }

    pub(crate) fn ask_with(&mut self, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        let mut block = Vec::new();
        let usual = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
        // Given again, it is in place of the usual one.
        let usual = usual.iter().filter(|(name, _)| !more.iter().any(|(given, _)| given == name));
        let pseudo = more.iter().filter(|(name, _)| name.starts_with(':'));
        let plain = more.iter().filter(|(name, _)| !name.starts_with(':'));
        for (name, value) in usual.chain(pseudo).chain(plain) {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).ok().filter(|len| *len < 127).expect("it is short"));
                block.extend(text.as_bytes());
            }
        }
        let end = if body.is_empty() { END_STREAM } else { 0 };
        self.send(HEADERS, END_HEADERS | end, id, &block).unwrap();
        if !body.is_empty() {
            self.send(DATA, END_STREAM, id, body).unwrap();
        }
        id
    }

    pub(crate) fn reset(&mut self, id: u32) {
        self.send(RST_STREAM, 0, id, &8_u32.to_be_bytes()).unwrap();
    }

    /// The next thing that comes for a stream, within `patience`. Settings and pings are answered on the way.
    pub(crate) fn next_within(&mut self, patience: Duration) -> io::Result<Came> {
        self.stream.set_read_timeout(Some(patience))?;
        loop {
            let (kind, flags, id, payload) = self.frame()?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[])?,
                PING if flags & ACK == 0 => self.send(PING, ACK, 0, &payload)?,
                HEADERS => return Ok(Came::Headers(id)),
                DATA => return Ok(Came::Data(id, payload.len(), flags & END_STREAM != 0)),
                RST_STREAM => return Ok(Came::Reset(id)),
                _ => {}
            }
        }
    }

    pub(crate) fn next(&mut self) -> Came {
        self.next_within(PATIENCE).unwrap()
    }

    fn frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        loop {
            if let Some(head) = self.unread.get(..9) {
                let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let (kind, flags) = (head[3], head[4]);
                let id = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
                if self.unread.len() >= 9 + len {
                    let payload = self.unread[9..9 + len].to_vec();
                    self.unread.drain(..9 + len);
                    return Ok((kind, flags, id, payload));
                }
            }
            let mut bytes = [0; 16 * 1024];
            let read = self.stream.read(&mut bytes)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread.extend(&bytes[..read]);
        }
    }

    fn send(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(id.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }
}
