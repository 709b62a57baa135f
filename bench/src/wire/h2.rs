//! HTTP/2 as far as a client needs it that has many calls under way on one connection. Heads are written without
//! compression state, and of those that come only the status is read.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};

use super::grpc::{
    ACK, DATA, END_HEADERS, END_STREAM, FRAME_HEAD, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, string,
};

/// One end of a connection with any number of calls under way, each of one caller.
#[derive(Debug, Default)]
pub(crate) struct Mux {
    stream: u32,
    calls: HashMap<u32, Call>,
}

#[derive(Debug)]
struct Call {
    caller: usize,
    status: Option<u16>,
    body: Vec<u8>,
}

/// The kind of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Partial,
    Aside(usize),
    Answer { len: usize, caller: usize, status: u16, body: Vec<u8> },
}

impl Mux {
    /// Opens the conversation, with windows that no run fills.
    pub(crate) fn open(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(PREFACE);
        // INITIAL_WINDOW_SIZE and HEADER_TABLE_SIZE.
        frame(out, SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 0]);
        frame(out, WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
        Mux::default()
    }

    /// Starts a POST of a caller.
    pub(crate) fn post(&mut self, out: &mut Vec<u8>, caller: usize, path: &str, body: &[u8]) {
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        let mut head = Vec::with_capacity(96);
        // From the static table: POST, http; then literals that are not to be remembered.
        head.extend_from_slice(&[0x83, 0x86, 0x04]);
        string(&mut head, path);
        head.push(0x01);
        string(&mut head, "localhost");
        head.extend_from_slice(&[0x0f, 0x10]);
        string(&mut head, "application/json");
        frame(out, HEADERS, END_HEADERS, self.stream, &head);
        frame(out, DATA, END_STREAM, self.stream, body);
        self.calls.insert(self.stream, Call { caller, status: None, body: Vec::new() });
    }

    /// Takes one frame.
    pub(crate) fn hear(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Frame> {
        let Some((&[a, b, c, kind, flags, s1, s2, s3, s4], _)) = input.split_first_chunk::<FRAME_HEAD>() else {
            return Ok(Frame::Partial);
        };
        let len = FRAME_HEAD + usize::try_from(u32::from_be_bytes([0, a, b, c]))?;
        if input.len() < len {
            return Ok(Frame::Partial);
        }
        let content = &input[FRAME_HEAD..len];
        let stream = u32::from_be_bytes([s1, s2, s3, s4]);
        match kind {
            SETTINGS if flags & ACK == 0 => frame(out, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(out, PING, ACK, 0, content),
            RST_STREAM | GOAWAY => bail!("the service ended a call or the connection"),
            HEADERS | DATA => {
                let call = self.calls.get_mut(&stream).context("an answer to no call")?;
                if kind == HEADERS {
                    call.status = Some(status(content)?);
                } else {
                    call.body.extend_from_slice(content);
                }
                if flags & END_STREAM != 0 {
                    let Call { caller, status, body } = self.calls.remove(&stream).expect("it was just there");
                    return Ok(Frame::Answer { len, caller, status: status.context("a body before its head")?, body });
                }
            }
            _ => {}
        }
        Ok(Frame::Aside(len))
    }
}

/// The first field of a head, after changes of the table's size.
fn status(head: &[u8]) -> Result<u16> {
    let first = head.iter().find(|&&byte| byte & 0xe0 != 0x20).context("an empty head")?;
    // The static table: 8 is 200, 9 is 204, 13 is 404. Any other status is written out and is a failure here.
    Ok(match first {
        0x88 => 200,
        0x89 => 204,
        0x8d => 404,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_several_calls_are_told_apart_in_any_order() {
        let mut out = Vec::new();
        let mut mux = Mux::open(&mut out);
        mux.post(&mut out, 7, "/a", b"{}");
        mux.post(&mut out, 8, "/b", b"{}");
        let mut input = Vec::new();
        frame(&mut input, HEADERS, END_HEADERS, 3, &[0x20, 0x88]);
        frame(&mut input, HEADERS, END_HEADERS, 1, &[0x8d]);
        frame(&mut input, DATA, END_STREAM, 3, b"eight");
        frame(&mut input, DATA, END_STREAM, 1, b"seven");
        let (mut taken, mut answers) = (0, Vec::new());
        while taken < input.len() {
            match mux.hear(&input[taken..], &mut out).unwrap() {
                Frame::Partial => panic!("it is all there"),
                Frame::Aside(len) => taken += len,
                Frame::Answer { len, caller, status, body } => {
                    taken += len;
                    answers.push((caller, status, String::from_utf8(body).unwrap()));
                }
            }
        }
        assert_eq!(answers, [(8, 200, "eight".to_owned()), (7, 404, "seven".to_owned())]);
        input.clear();
        frame(&mut input, HEADERS, END_HEADERS | END_STREAM, 5, &[0x88]);
        assert_eq!(mux.hear(&input[..4], &mut out).unwrap(), Frame::Partial);
        assert!(mux.hear(&input, &mut out).is_err(), "there is no such call");
    }
}
