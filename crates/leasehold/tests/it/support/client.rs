//! A small HTTP/1.1 client that can also say things no client should: requests are written as they are given, and
//! sending and receiving are two steps, so that a test can act in between.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::PATIENCE;

/// A kept connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    /// An answer that the service cannot go on is as good as none.
    ends_with_the_service: bool,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// `Leasehold-Position`: which life of the data, and how many changes into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) change: u64,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> io::Result<Client> {
        Client::on(TcpStream::connect_timeout(&addr, PATIENCE)?)
    }

    /// On a connection that is there.
    pub(crate) fn on(stream: TcpStream) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream), ends_with_the_service: false })
    }

    /// From now on a 502 or 503 is an error like a connection that broke.
    pub(crate) fn ending_with_the_service(mut self) -> Client {
        self.ends_with_the_service = true;
        self
    }

    /// Asks and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, target: &str, body: &str) -> io::Result<Response> {
        self.call_with(method, target, &[], body.as_bytes())
    }

    pub(crate) fn call_with(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        self.send(method, target, headers, body)?;
        self.receive()
    }

    pub(crate) fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.send_raw(&bytes)
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next answer. A connection that ends before one has begun is `UnexpectedEof`.
    pub(crate) fn receive(&mut self) -> io::Result<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| bad(format!("no status in {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| bad(format!("no header: {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response { status, headers, body: Vec::new() };
        let length = response.header("content-length").map_or(Ok(0), str::parse).map_err(|_| bad("bad length"))?;
        response.body.resize(length, 0);
        self.stream.read_exact(&mut response.body)?;
        if self.ends_with_the_service && matches!(status, 502 | 503) {
            return Err(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&response.body))));
        }
        Ok(response)
    }

    /// The next answer, if it begins soon. An error says nothing about what comes later.
    pub(crate) fn receive_within(&mut self, patience: Duration) -> io::Result<Response> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        let begun = self.stream.fill_buf().map(<[u8]>::len);
        self.stream.get_ref().set_read_timeout(Some(PATIENCE))?;
        begun.and_then(|_| self.receive())
    }

    /// The remaining bytes until the peer closes, within `patience`.
    pub(crate) fn rest(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Leaves, but goes on listening: from here on an answer is either read in full or was never given.
    pub(crate) fn hang_up(&mut self) -> io::Result<()> {
        self.stream.get_ref().shutdown(Shutdown::Write)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix(b"\r\n").ok_or_else(|| bad("a line that was cut off"))?;
        String::from_utf8(line.to_vec()).map_err(bad)
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON. Panics when it is none: every answer with a body has one.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn text(&self, member: &str) -> String {
        self.json()[member].as_str().unwrap_or_else(|| panic!("no text {member} in {}", self.json())).to_owned()
    }

    pub(crate) fn number(&self, member: &str) -> u64 {
        self.json()[member].as_u64().unwrap_or_else(|| panic!("no number {member} in {}", self.json()))
    }

    pub(crate) fn position(&self) -> Option<Position> {
        let (epoch, change) = self.header("leasehold-position")?.split_once('.')?;
        Some(Position { epoch: epoch.parse().ok()?, change: change.parse().ok()? })
    }

    /// Itself, if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Response {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

fn bad(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
