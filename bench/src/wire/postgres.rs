//! PostgreSQL's protocol, version 3: start-up without a password, prepared statements, and one round trip an execution
//! (`Bind`, `Execute`, `Sync` in one write), which is the least a driver can do.

use std::io::Write as _;
use std::net::TcpStream;

use anyhow::{Result, bail};

use super::read_until;

/// The result of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) rows: u32,
    /// The last number of `UPDATE 1` and the like.
    pub(crate) changed: u32,
    pub(crate) len: usize,
}

fn message(out: &mut Vec<u8>, tag: Option<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    out.extend(tag);
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let len = u32::try_from(out.len() - begin).expect("messages here are short");
    out[begin..begin + 4].copy_from_slice(&len.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Introduces itself and waits until the server takes queries.
pub(crate) fn start(stream: &mut TcpStream, user: &str, database: &str) -> Result<()> {
    let mut out = Vec::new();
    message(&mut out, None, |out| {
        out.extend_from_slice(&196_608u32.to_be_bytes());
        for word in ["user", user, "database", database] {
            text(out, word);
        }
        out.push(0);
    });
    stream.write_all(&out)?;
    read_until(stream, parse).map(drop)
}

/// Runs statements that take nothing.
pub(crate) fn query(stream: &mut TcpStream, sql: &str) -> Result<Executed> {
    let mut out = Vec::new();
    message(&mut out, Some(b'Q'), |out| text(out, sql));
    stream.write_all(&out)?;
    read_until(stream, parse)
}

/// Prepares a statement under a name.
pub(crate) fn prepare(stream: &mut TcpStream, name: &str, sql: &str) -> Result<()> {
    let mut out = Vec::new();
    message(&mut out, Some(b'P'), |out| {
        text(out, name);
        text(out, sql);
        out.extend_from_slice(&[0, 0]);
    });
    message(&mut out, Some(b'S'), |_| {});
    stream.write_all(&out)?;
    read_until(stream, parse).map(drop)
}

/// Executes a prepared statement. Values are in text.
pub(crate) fn execute(out: &mut Vec<u8>, name: &str, values: &[&str]) {
    message(out, Some(b'B'), |out| {
        // The unnamed portal.
        text(out, "");
        text(out, name);
        // All in the default format, text.
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&u16::try_from(values.len()).expect("few values").to_be_bytes());
        for value in values {
            out.extend_from_slice(&u32::try_from(value.len()).expect("short values").to_be_bytes());
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(&[0, 0]);
    });
    message(out, Some(b'E'), |out| {
        text(out, "");
        // Every row.
        out.extend_from_slice(&[0; 4]);
    });
    message(out, Some(b'S'), |_| {});
}

/// Everything up to `ReadyForQuery`. `None` while that has not come.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Executed>> {
    let mut executed = Executed { rows: 0, changed: 0, len: 0 };
    loop {
        let rest = &input[executed.len..];
        let Some((&[tag, a, b, c, d], _)) = rest.split_first_chunk() else { return Ok(None) };
        let len = 1 + usize::try_from(u32::from_be_bytes([a, b, c, d]))?;
        if rest.len() < len {
            return Ok(None);
        }
        let content = &rest[5..len];
        executed.len += len;
        match tag {
            b'Z' => return Ok(Some(executed)),
            b'D' => executed.rows += 1,
            b'C' => {
                let digits = content.split(|&byte| byte == b' ').next_back().unwrap_or_default();
                let digits = std::str::from_utf8(digits)?.trim_end_matches('\0');
                executed.changed = digits.parse().unwrap_or(0);
            }
            b'E' => bail!("postgres answered {}", String::from_utf8_lossy(content).replace('\0', " ")),
            b'R' if content != [0; 4] => bail!("postgres asks for a password"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_ends_when_the_server_is_ready() {
        let mut input = Vec::new();
        message(&mut input, Some(b'2'), |_| {});
        message(&mut input, Some(b'D'), |out| out.extend_from_slice(b"row"));
        message(&mut input, Some(b'C'), |out| text(out, "UPDATE 1"));
        assert_eq!(parse(&input).unwrap(), None);
        message(&mut input, Some(b'Z'), |out| out.push(b'I'));
        assert_eq!(parse(&input).unwrap(), Some(Executed { rows: 1, changed: 1, len: input.len() }));
        assert_eq!(parse(&input[..input.len() - 1]).unwrap(), None);
    }

    #[test]
    fn errors_are_errors() {
        let mut input = Vec::new();
        message(&mut input, Some(b'E'), |out| text(out, "SERROR"));
        assert!(parse(&input).is_err());
    }
}
