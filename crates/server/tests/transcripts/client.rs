//! As little of an HTTP/1.1 client as it takes: writes a request, reads an answer, a connection each. It adds nothing
//! to a request but `host` and `content-length`, so that transcripts show all there is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough that no machine is too slow for it, short enough that a transcript that hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Unless the transcript names another.
const HOST: &str = "leasehold.test";

#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl RawAnswer {
    /// Takes the newline away that ends a JSON text. Transcripts show a body without it, and every answer is held to
    /// it.
    fn take_line_end(&mut self) -> io::Result<()> {
        if self.header("content-type") != Some("application/json") || self.body.is_empty() {
            return Ok(());
        }
        match self.body.strip_suffix('\n') {
            Some(text) if !text.ends_with('\n') => self.body.truncate(text.len()),
            _ => return Err(io::Error::other(format!("a JSON text ends in one newline, got {:?}", self.body))),
        }
        Ok(())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name.to_ascii_lowercase()).map(|(_, value)| &**value)
    }
}

/// A request that was sent. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Sent {
    stream: TcpStream,
    pub(crate) method: String,
    pub(crate) target: String,
}

impl Request {
    pub(crate) fn send(&self, addr: SocketAddr) -> io::Result<Sent> {
        let Request { method, target, headers, body } = self;
        let mut bytes = Vec::new();
        write!(bytes, "{method} {target} HTTP/1.1\r\n")?;
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            write!(bytes, "host: {HOST}\r\n")?;
        }
        for (name, value) in headers {
            write!(bytes, "{name}: {value}\r\n")?;
        }
        write!(bytes, "content-length: {}\r\n\r\n{body}", body.len())?;
        let mut stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&bytes)?;
        Ok(Sent { stream, method: method.clone(), target: target.clone() })
    }
}

impl Sent {
    pub(crate) fn answer(self) -> io::Result<RawAnswer> {
        let mut reader = BufReader::new(self.stream);
        let first = line(&mut reader)?;
        let status = first.split(' ').nth(1).ok_or(io::ErrorKind::InvalidData)?.to_owned();
        let mut headers = Vec::new();
        loop {
            let line = line(&mut reader)?;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None => break,
            }
        }
        let mut answer = RawAnswer { status, headers, body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.parse().expect("a length is a number"));
        if self.method != "HEAD" {
            reader.take(length).read_to_string(&mut answer.body)?;
            answer.take_line_end()?;
        }
        Ok(answer)
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
