//! gRPC as far as etcd needs it: one unary call at a time on an HTTP/2 connection. Heads are written without
//! compression state and those that come are not read: a call that fails has no message, and that is enough to notice.

use anyhow::{Result, bail};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const FRAME_HEAD: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, content: &[u8]) {
    let len = u32::try_from(content.len()).expect("frames here are short").to_be_bytes();
    out.extend_from_slice(&len[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(content);
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: u32,
    /// The message of the answer, once it has come.
    message: Vec<u8>,
}

/// The kind of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GrpcFrame {
    Partial,
    Aside(usize),
    /// The call is over and its message is there.
    End(usize),
}

impl Channel {
    /// Opens the conversation, with windows that no run fills.
    pub(crate) fn open(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(PREFACE);
        // INITIAL_WINDOW_SIZE and HEADER_TABLE_SIZE.
        frame(out, SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 0]);
        frame(out, WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
        Channel { stream: 0, message: Vec::new() }
    }

    /// Starts a call.
    pub(crate) fn call(&mut self, out: &mut Vec<u8>, path: &str, message: &[u8]) {
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        self.message.clear();
        let mut head = Vec::with_capacity(96);
        // From the static table: POST, http; then literals that are not to be remembered.
        head.extend_from_slice(&[0x83, 0x86, 0x04]);
        string(&mut head, path);
        head.push(0x01);
        string(&mut head, "localhost");
        head.extend_from_slice(&[0x0f, 0x10]);
        string(&mut head, "application/grpc");
        head.push(0);
        string(&mut head, "te");
        string(&mut head, "trailers");
        frame(out, HEADERS, END_HEADERS, self.stream, &head);
        let mut data = Vec::with_capacity(5 + message.len());
        data.push(0);
        data.extend_from_slice(&u32::try_from(message.len()).expect("messages here are short").to_be_bytes());
        data.extend_from_slice(message);
        frame(out, DATA, END_STREAM, self.stream, &data);
    }

    /// Takes one frame.
    pub(crate) fn hear(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<GrpcFrame> {
        let Some((&[a, b, c, kind, flags, s1, s2, s3, s4], _)) = input.split_first_chunk::<FRAME_HEAD>() else {
            return Ok(GrpcFrame::Partial);
        };
        let len = FRAME_HEAD + usize::try_from(u32::from_be_bytes([0, a, b, c]))?;
        if input.len() < len {
            return Ok(GrpcFrame::Partial);
        }
        let content = &input[FRAME_HEAD..len];
        let is_ours = u32::from_be_bytes([s1, s2, s3, s4]) == self.stream;
        match kind {
            SETTINGS if flags & ACK == 0 => frame(out, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(out, PING, ACK, 0, content),
            DATA if is_ours => self.message.extend_from_slice(content),
            RST_STREAM | GOAWAY => bail!("etcd ended a call or the connection"),
            _ => {}
        }
        if is_ours && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            if self.message.len() < 5 {
                bail!("etcd refused a call: {}", String::from_utf8_lossy(content));
            }
            return Ok(GrpcFrame::End(len));
        }
        Ok(GrpcFrame::Aside(len))
    }

    /// The message of the call that ended last.
    pub(crate) fn message(&self) -> &[u8] {
        self.message.get(5..).unwrap_or_default()
    }
}

pub(super) fn string(head: &mut Vec<u8>, text: &str) {
    assert!(text.len() < 127, "longer strings have longer lengths");
    head.push(u8::try_from(text.len()).expect("checked"));
    head.extend_from_slice(text.as_bytes());
}

/// A field of protocol buffers: bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A field of protocol buffers: an integer.
pub(crate) fn put_integer(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3);
    put_varint(out, value);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
}

fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The value of a field in a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

/// The first field of that number.
pub(crate) fn field(mut message: &[u8], number: u64) -> Option<Value<'_>> {
    while !message.is_empty() {
        let key = take_varint(&mut message)?;
        let value = match key & 7 {
            0 => Value::Integer(take_varint(&mut message)?),
            2 => {
                let len = usize::try_from(take_varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(len)?;
                message = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        if key >> 3 == number {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_number() {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, b"header");
        put_integer(&mut message, 2, 300);
        assert_eq!(field(&message, 1), Some(Value::Bytes(b"header")));
        assert_eq!(field(&message, 2), Some(Value::Integer(300)));
        assert_eq!(field(&message, 3), None);
    }

    #[test]
    fn a_call_ends_with_its_stream_and_needs_a_message() {
        let mut out = Vec::new();
        let mut channel = Channel::open(&mut out);
        channel.call(&mut out, "/a/b", b"x");
        let mut input = Vec::new();
        frame(&mut input, DATA, 0, 1, &[0, 0, 0, 0, 1, 7]);
        let data_len = input.len();
        assert_eq!(channel.hear(&input, &mut out).unwrap(), GrpcFrame::Aside(data_len));
        assert_eq!(channel.message(), [7]);
        input.clear();
        frame(&mut input, HEADERS, END_STREAM | END_HEADERS, 1, b"..");
        assert_eq!(channel.hear(&input[..5], &mut out).unwrap(), GrpcFrame::Partial);
        assert_eq!(channel.hear(&input, &mut out).unwrap(), GrpcFrame::End(input.len()));
        channel.call(&mut out, "/a/b", b"x");
        input.clear();
        frame(&mut input, HEADERS, END_STREAM | END_HEADERS, 3, b"..");
        assert!(channel.hear(&input, &mut out).is_err(), "no message came");
    }
}
