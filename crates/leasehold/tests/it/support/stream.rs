//! A reader of server-sent events over HTTP/1.1: chunks undone, events taken apart, and as slow as a test wants it.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::PATIENCE;

/// A stream of events that is open.
#[derive(Debug)]
pub(crate) struct EventStream {
    stream: BufReader<TcpStream>,
    /// Text that came and is not yet a whole event.
    rest: String,
    events: VecDeque<Event>,
    /// Everything that came, to look through.
    pub(crate) seen: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    /// Empty for a sign of life.
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl EventStream {
    /// Opens one and reads its greeting.
    pub(crate) fn open(addr: SocketAddr, target: &str, last_event_id: Option<&str>) -> EventStream {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        EventStream::on(stream, target, last_event_id)
    }

    /// The same for a caller that signs on.
    pub(crate) fn open_as(addr: SocketAddr, target: &str, authorization: &str) -> EventStream {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        EventStream::with_header(stream, target, &format!("authorization: {authorization}\r\n"))
    }

    pub(crate) fn on(stream: TcpStream, target: &str, last_event_id: Option<&str>) -> EventStream {
        let header = last_event_id.map_or(String::new(), |id| format!("last-event-id: {id}\r\n"));
        EventStream::with_header(stream, target, &header)
    }

    fn with_header(mut stream: TcpStream, target: &str, header: &str) -> EventStream {
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n").as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "the head ends early: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        EventStream { stream, rest: String::new(), events: VecDeque::new(), seen: head }
    }

    /// The next event of any kind; `None` when the stream has ended, or broken off.
    pub(crate) fn next(&mut self) -> Option<Event> {
        while self.events.is_empty() {
            let chunk = self.chunk().ok()?;
            if chunk.is_empty() {
                return None;
            }
            self.seen.push_str(&chunk);
            self.rest.push_str(&chunk);
            while let Some(end) = self.rest.find("\n\n") {
                let block: String = self.rest.drain(..end + 2).collect();
                self.events.push_back(Event::parse(&block));
            }
        }
        self.events.pop_front()
    }

    /// The next event with a name.
    pub(crate) fn next_named(&mut self) -> Option<Event> {
        loop {
            let event = self.next()?;
            if !event.name.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next event, which must be called this.
    #[track_caller]
    pub(crate) fn expect(&mut self, name: &str) -> Event {
        let event = self.next_named().expect("the stream goes on");
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// An empty one is the end.
    fn chunk(&mut self) -> io::Result<String> {
        let mut size = String::new();
        if self.stream.read_line(&mut size)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(size);
        String::from_utf8(chunk).map_err(io::Error::other)
    }
}

impl Event {
    fn parse(block: &str) -> Event {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Event {
            id: field("id").map(str::to_owned),
            name: field("event").unwrap_or_default().to_owned(),
            data: field("data").map_or(Value::Null, |data| serde_json::from_str(data).unwrap()),
        }
    }

    /// The number of the change it tells of.
    pub(crate) fn position(&self) -> u64 {
        let id = self.id.as_deref().expect("events have ids");
        id.split('.').nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{id} is no id"))
    }
}
