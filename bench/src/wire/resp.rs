//! Redis' protocol: arrays of strings out, one-line replies and strings in.

use std::io::Write as _;
use std::net::TcpStream;

use anyhow::{Context as _, Result, bail};

use super::read_until;

/// A command.
pub(crate) fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reply at the front of the input, without its ends, and how long it is. `None` while it is not complete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(&[u8], usize)>> {
    let Some(end) = memchr::memchr(b'\n', input) else { return Ok(None) };
    let line = &input[..end - 1];
    match line[0] {
        b'+' | b':' => Ok(Some((line, end + 1))),
        b'$' => {
            let len: i64 = std::str::from_utf8(&line[1..])?.parse().context("a length that is no number")?;
            let Ok(len) = usize::try_from(len) else { return Ok(Some((line, end + 1))) };
            let whole = end + 1 + len + 2;
            Ok((input.len() >= whole).then(|| (&input[end + 1..end + 1 + len], whole)))
        }
        _ => bail!("redis answered {}", String::from_utf8_lossy(line)),
    }
}

/// Asks once and waits.
pub(crate) fn call(stream: &mut TcpStream, words: &[&[u8]]) -> Result<String> {
    let mut out = Vec::new();
    command(&mut out, words);
    stream.write_all(&out)?;
    read_until(stream, |input| Ok(parse(input)?.map(|(reply, _)| String::from_utf8_lossy(reply).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"key"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }

    #[test]
    fn replies_are_found_once_they_are_complete() {
        assert_eq!(parse(b"+O").unwrap(), None);
        assert_eq!(parse(b"+OK\r\n").unwrap(), Some((&b"+OK"[..], 5)));
        assert_eq!(parse(b":1\r\n+").unwrap(), Some((&b":1"[..], 4)));
        assert_eq!(parse(b"$3\r\nab").unwrap(), None);
        assert_eq!(parse(b"$3\r\nabc\r\n").unwrap(), Some((&b"abc"[..], 9)));
        assert_eq!(parse(b"$-1\r\n").unwrap(), Some((&b"$-1"[..], 5)));
        assert!(parse(b"-ERR no\r\n").is_err());
    }
}
