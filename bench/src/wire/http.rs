//! HTTP/1.1 as this service writes it: heads in lower case, `content-length` on everything that has a body.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use memchr::memmem;

use super::read_until;
use crate::drive::connect;

/// An answer at the front of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// Head and body together.
    pub(crate) len: usize,
}

/// `None` while it is not complete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<HttpAnswer<'_>>> {
    let Some(head_len) = memmem::find(input, b"\r\n\r\n").map(|at| at + 4) else { return Ok(None) };
    let head = &input[..head_len];
    let status = head.get(9..12).and_then(number).context("an answer without a status")?;
    let body_len = match memmem::find(head, b"content-length: ") {
        Some(at) => {
            let rest = &head[at + 16..];
            let end = memchr::memchr(b'\r', rest).expect("a head ends with line ends");
            usize::try_from(number(&rest[..end]).context("a content-length that is no number")?)?
        }
        None if status == 204 => 0,
        None => bail!("an answer {status} without a content-length"),
    };
    let len = head_len + body_len;
    if input.len() < len {
        return Ok(None);
    }
    Ok(Some(HttpAnswer { status: u16::try_from(status)?, body: &input[head_len..len], len }))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The text in a body after `prefix`, up to the next quote, comma or brace.
pub(crate) fn value<'a>(body: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = &body[memmem::find(body, prefix)? + prefix.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b',' | b'}'))?;
    Some(&rest[..end])
}

/// A number in a body.
pub(crate) fn integer(body: &[u8], prefix: &[u8]) -> Option<u64> {
    value(body, prefix).and_then(number)
}

/// A whole request.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let mut text = String::with_capacity(128 + path.len() + body.len());
    let _ = write!(text, "{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    let _ = write!(text, "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    text.into_bytes()
}

/// Asks once, on a connection of its own.
pub(crate) fn call(addr: SocketAddr, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    let mut stream = connect(addr)?;
    call_on(&mut stream, method, path, body)
}

/// Asks once, on a connection that is there.
pub(crate) fn call_on(stream: &mut std::net::TcpStream, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    stream.write_all(&request(method, path, body))?;
    read_until(stream, |input| {
        Ok(parse(input)?.map(|answer| (answer.status, String::from_utf8_lossy(answer.body).into_owned())))
    })
}

/// The same, where anything but 200 is a failure.
pub(crate) fn expect_ok(addr: SocketAddr, method: &str, path: &str, body: &str) -> Result<String> {
    let (status, text) = call(addr, method, path, body)?;
    if status != 200 {
        bail!("{method} was answered {status}: {text}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 15\r\n\r\n{\"position\":12}HTTP";

    #[test]
    fn an_answer_is_found_once_it_is_complete() {
        for len in 0..ANSWER.len() - 4 {
            assert_eq!(parse(&ANSWER[..len]).unwrap(), None, "{len} bytes");
        }
        let answer = parse(ANSWER).unwrap().unwrap();
        assert_eq!((answer.status, answer.len), (200, ANSWER.len() - 4));
        assert_eq!(integer(answer.body, b"\"position\":"), Some(12));
    }

    #[test]
    fn no_content_has_no_body() {
        let answer = parse(b"HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n").unwrap().unwrap();
        assert_eq!((answer.status, answer.body), (204, &b""[..]));
    }

    #[test]
    fn an_answer_of_unknown_length_is_wrong() {
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
