//! Reading a request strictly: the sizes of its head, its body within a size and a time.
//! `query` reads the path and the query, `json` the body.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, EXPECT, HOST, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Response, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame};

use super::problem::Problem;
use super::repoll::unheard;
use super::request_id::RequestId;
use super::response::Body;
use super::unsent::{NoRoom, Unsent};
use crate::limits::{BODY_DRAIN_MAX, BODY_MAX, HEADERS_MAX, HOST_MAX, PORT_DIGITS_MAX, URI_MAX};

/// A head that is longer than the contract allows (414, 431), or that the next server might read differently (400).
pub fn check_head(parts: &Parts) -> Result<Said<'_>, Problem> {
    let (mut host, mut coding, mut headers_len) = (Given::default(), Given::default(), 0);
    let (mut origin, mut fetch_site, mut form) = (Given::default(), None, BodyForm::default());
    form.is_alone = parts.version <= Version::HTTP_11;
    // One look at each: there are fewer of them than steps in two searches.
    for (name, value) in &parts.headers {
        // As on the wire: `name: value\r\n`.
        headers_len += name.as_str().len() + value.len() + 4;
        if name == HOST {
            host.add(value);
        } else if name == TRANSFER_ENCODING {
            coding.add(value);
        } else if name == ORIGIN {
            origin.add(value);
        } else if name == SEC_FETCH_SITE {
            fetch_site = Some(value);
        } else if name == CONTENT_ENCODING {
            form.is_encoded |= !value.as_bytes().eq_ignore_ascii_case(b"identity");
        } else if name == EXPECT {
            form.is_asked_for = true;
        }
    }
    check_host(&host, parts.version)?;
    check_coding(&coding)?;
    let target_len = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target_len > URI_MAX {
        let reason = format!("the URI has {target_len} bytes, at most {URI_MAX} are allowed");
        return Err(Problem::new(StatusCode::URI_TOO_LONG, reason));
    }
    if headers_len > HEADERS_MAX {
        let reason = format!("the headers have {headers_len} bytes in all, at most {HEADERS_MAX} are allowed");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason));
    }
    Ok(Said { host: host.value, origin: origin.value, origin_again: origin.again, fetch_site, form })
}

/// The header in which browsers say where a call comes from: no page can set it by itself.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The parts of a head about where a request goes, where it comes from, and how it comes.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    pub(super) host: Option<&'a HeaderValue>,
    pub(super) origin: Option<&'a HeaderValue>,
    pub(super) origin_again: bool,
    pub(super) fetch_site: Option<&'a HeaderValue>,
    pub form: BodyForm,
}

/// How a body comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyForm {
    /// Not as it is.
    is_encoded: bool,
    /// Not before the client is told to send it.
    is_asked_for: bool,
    /// On HTTP/1: nothing else comes on its connection meanwhile.
    is_alone: bool,
}

/// The value of a header that may be given once.
#[derive(Debug, Default)]
struct Given<'a> {
    value: Option<&'a HeaderValue>,
    again: bool,
}

impl<'a> Given<'a> {
    fn add(&mut self, value: &'a HeaderValue) {
        self.again = self.value.is_some();
        self.value = Some(value);
    }
}

/// `Host` once, and such that it can stand in a URL: RFC 9112 leaves no other way, as a proxy in front may go by the
/// other of two. HTTP/1.0 may leave it out, and HTTP/2 has it in the target.
fn check_host(host: &Given<'_>, version: Version) -> Result<(), Problem> {
    let is_fit = match host.value {
        Some(value) => !host.again && is_host(value.as_bytes()),
        None => version != Version::HTTP_11,
    };
    if is_fit { Ok(()) } else { Err(Problem::bad_request("host must be given once, as name or name:port").and_close()) }
}

/// A name or address, and a port. Answers repeat it in their links, so its length is bounded.
fn is_host(authority: &[u8]) -> bool {
    let (host, port) = match authority.iter().rposition(|&byte| byte == b':') {
        // Within the brackets of an address it belongs to that.
        Some(colon) if !authority[colon..].contains(&b']') => (&authority[..colon], &authority[colon + 1..]),
        _ => (authority, &b""[..]),
    };
    let inner = match host {
        [b'[', inner @ .., b']'] => inner,
        _ => host,
    };
    inner.len() <= HOST_MAX
        && inner.iter().all(|&byte| is_host_byte(byte))
        && port.len() <= PORT_DIGITS_MAX
        && port.iter().all(u8::is_ascii_digit)
}

/// Returns whether this byte can be part of a name or address.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'_' | b'~' | b'%')
}

/// Chunks are undone by hyper, which takes note of the last coding only. A body with any earlier coding would be taken
/// for the plain body.
fn check_coding(coding: &Given<'_>) -> Result<(), Problem> {
    let is_fit = match coding.value {
        Some(value) => !coding.again && value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        None => true,
    };
    if is_fit {
        Ok(())
    } else {
        Err(Problem::bad_request("transfer-encoding must be chunked and nothing else").and_close())
    }
}

/// Where the bytes of bodies that have not ended are counted, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct BodyRoom<'a> {
    pub unsent: &'a Unsent,
    pub ip: IpAddr,
}

/// The whole body, at most [`BODY_MAX`] bytes (413), within `body_timeout` (408), not encoded in any way (415). A body
/// that does not come in one piece needs `room` for the rest of it (503).
///
/// The returned bytes share memory with the connection's buffer: drop them before waiting for anything else.
pub async fn read_body<B>(form: BodyForm, body: B, body_timeout: Duration, room: BodyRoom<'_>) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if form.is_encoded {
        let reason = "content-encoding is not supported, send the body as it is";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    // A client that asked first has sent nothing yet, and an endless upload is not worth reading.
    let announced = body.size_hint().lower();
    if announced > BODY_DRAIN_MAX || (announced > BODY_MAX as u64 && form.is_asked_for) {
        return Err(too_large().and_close());
    }
    match patiently(pin!(collect(body, form.is_alone, room)), body_timeout).await {
        Some(read) => read,
        None => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} s", body_timeout.as_secs_f64()),
        )
        .and_close()),
    }
}

async fn collect<B>(mut body: B, is_alone: bool, room: BodyRoom<'_>) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    // A small body is one frame, and is passed on as it came.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut read_len: u64 = 0;
    let (mut charges, mut counted) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|cx| poll_piece(&mut body, is_alone, cx)).await {
        // The connection broke or its framing did. The client is unlikely to read this.
        let frame = frame.map_err(|_| Problem::bad_request("the body could not be read to its end").and_close())?;
        let Ok(data) = frame.into_data() else { continue };
        read_len += data.len() as u64;
        if read_len > BODY_DRAIN_MAX {
            return Err(too_large().and_close());
        } else if read_len > BODY_MAX as u64 {
            // Keep nothing, go on reading: the client is still writing.
            first.clear();
            rest.clear();
        } else if first.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
        // The client decides when the rest comes, and how many of its bodies are under way. What has come is counted,
        // all but the last kilobyte: a body of which nothing more ever comes takes no room from others.
        let owed = (first.len().max(rest.len())).saturating_sub(counted);
        if let Some(charge) = room.unsent.charge(owed, room.ip).map_err(|NoRoom| no_room())? {
            charges.push(charge);
            counted += owed;
        }
    }
    drop(charges);
    if read_len > BODY_MAX as u64 {
        return Err(too_large());
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// hyper is woken for each piece that is taken, to read the next one. After the last it would find nothing to do, with
/// 900 of the 26 800 instructions of a request.
fn poll_piece<B>(body: &mut B, is_alone: bool, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    if !is_alone {
        // The frames of other streams are hyper's concern as well.
        return Pin::new(body).poll_frame(cx);
    }
    let (piece, is_woken) = unheard(|| Pin::new(&mut *body).poll_frame(cx));
    if is_woken && !body.is_end_stream() {
        cx.waker().wake_by_ref();
    }
    piece
}

fn no_room() -> Problem {
    Problem::unavailable("too many bodies are being sent that have not come to their end, try again", 1).and_close()
}

fn too_large() -> Problem {
    let reason = format!("the body is too large, at most {BODY_MAX} bytes are allowed");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
}

/// `Some` if `future` ends within `limit`. hyper only begins to read a body once it is asked for one, so the first poll
/// is hardly ever ready and the second nearly always is; only then is it worth setting a timer. The timer is on the
/// heap: every request would have room for it otherwise.
async fn patiently<F: Future>(mut future: Pin<&mut F>, limit: Duration) -> Option<F::Output> {
    let mut asked = false;
    let soon = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
    match soon {
        Some(output) => Some(output),
        None => Box::pin(tokio::time::timeout(limit, future)).await.ok(),
    }
}

/// Answers with the result or the problem.
pub fn respond(id: &RequestId, outcome: Result<Response<Body>, Problem>) -> Response<Body> {
    outcome.unwrap_or_else(|problem| problem.to_response(id))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// A body that arrives in the given pieces, and never ends if it is told to stall.
    struct Pieces {
        pieces: VecDeque<Bytes>,
        stalls: bool,
    }

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.pieces.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                None if self.stalls => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn pieces(sizes: &[usize]) -> Pieces {
        Pieces { pieces: sizes.iter().map(|&size| Bytes::from(vec![b'x'; size])).collect(), stalls: false }
    }

    fn of(unsent: &Unsent) -> BodyRoom<'_> {
        BodyRoom { unsent, ip: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) }
    }

    async fn read(sizes: &[usize]) -> Result<usize, u16> {
        let room = Unsent::at_most(BODY_MAX);
        let read = read_body(BodyForm::default(), pieces(sizes), Duration::from_secs(10), of(&room)).await;
        assert_eq!(room.bytes(), 0, "given back");
        read.map(|body| body.len()).map_err(|problem| problem.status.as_u16())
    }

    #[tokio::test]
    async fn bodies_at_the_limit_are_read_and_one_past_is_413() {
        for (sizes, expected) in [
            (&[][..], Ok(0)),
            (&[5], Ok(5)),
            (&[5, 6, 7], Ok(18)),
            (&[BODY_MAX], Ok(BODY_MAX)),
            (&[BODY_MAX - 1, 1], Ok(BODY_MAX)),
            (&[BODY_MAX + 1], Err(413)),
            (&[BODY_MAX, 1], Err(413)),
            (&[1, BODY_MAX, 1000], Err(413)),
            (&[1_000_000, 1_000_000], Err(413)),
        ] {
            assert_eq!(read(sizes).await, expected, "{sizes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_408() {
        let body = Pieces { pieces: VecDeque::from([Bytes::from("{")]), stalls: true };
        let room = Unsent::at_most(BODY_MAX);
        let problem = read_body(BodyForm::default(), body, Duration::from_secs(10), of(&room)).await.unwrap_err();
        assert_eq!(problem.status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(problem.reason, "the body did not arrive within 10 s");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_end_have_a_budget_for_what_has_come_of_them() {
        let room = Unsent::at_most(3 * 2_000);
        let begun = |sizes: &[usize]| Pieces { stalls: true, ..pieces(sizes) };
        let read = |body: Pieces| read_body(BodyForm::default(), body, Duration::from_secs(10), of(&room));
        let mut under_way: Vec<_> =
            [&[2_000][..], &[1_000, 1_000], &[1, 1, 1_998]].map(|sizes| Box::pin(read(begun(sizes)))).into();
        // A kilobyte of each takes no room, however many there are.
        under_way.extend((0..1_000).map(|_| Box::pin(read(begun(&[1_000])))));
        for body in &mut under_way {
            assert!(tokio::time::timeout(Duration::from_millis(1), body).await.is_err());
        }
        assert_eq!(room.bytes(), 3 * 2_000);
        assert_eq!(read(begun(&[1_025])).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(read(pieces(&[512, 512])).await.map(|body| body.len()).ok(), Some(1_024));
        drop(under_way);
        assert_eq!((room.bytes(), read(pieces(&[1_500, 500])).await.map(|body| body.len()).ok()), (0, Some(2_000)));
    }

    #[tokio::test]
    async fn encoded_bodies_are_415() {
        for (encoding, expected) in [("identity", Ok(2)), ("Identity", Ok(2)), ("gzip", Err(415)), ("", Err(415))] {
            let request = http::Request::builder().header(HOST, "h").header(CONTENT_ENCODING, encoding);
            let form = check_head(&request.body(()).unwrap().into_parts().0).unwrap().form;
            let room = Unsent::at_most(BODY_MAX);
            let read = read_body(form, pieces(&[2]), Duration::from_secs(10), of(&room)).await;
            assert_eq!(read.map(|b| b.len()).map_err(|problem| problem.status.as_u16()), expected, "{encoding}");
        }
    }

    #[test]
    fn heads_at_the_limits_pass_and_one_past_does_not() {
        let check = |uri_len: usize, headers_len: usize| {
            let uri = format!("/{}", "u".repeat(uri_len - 1));
            let value = "v".repeat(headers_len - "host: h\r\n".len() - "x: \r\n".len());
            let request = http::Request::builder().uri(uri).header("host", "h").header("x", value).body(()).unwrap();
            check_head(&request.into_parts().0).map(drop).map_err(|problem| problem.status.as_u16())
        };
        assert_eq!(check(URI_MAX, HEADERS_MAX), Ok(()));
        assert_eq!(check(URI_MAX + 1, HEADERS_MAX), Err(414));
        assert_eq!(check(URI_MAX, HEADERS_MAX + 1), Err(431));
    }

    #[test]
    fn hosts_are_given_once_and_fit_into_a_url() {
        let check = |version: Version, hosts: &[&str]| {
            let mut request = http::Request::builder().version(version);
            for host in hosts {
                request = request.header("host", *host);
            }
            check_head(&request.body(()).unwrap().into_parts().0).map(drop).map_err(|problem| problem.status.as_u16())
        };
        let (long, longer) = ("a".repeat(HOST_MAX), "a".repeat(HOST_MAX + 1));
        for host in ["", "a", "a:80", "a:", "[::1]", "[::1]:8080", "127.0.0.1:65535", "a_b.example", &long] {
            assert_eq!(check(Version::HTTP_11, &[host]), Ok(()), "{host}");
        }
        for host in
            ["a b", "a/b", "a@b", "a,b", "a\"b", "<a>", "a?b", "a#b", "a:080000", "a:8o", "[[a]]", "[a", &longer]
        {
            assert_eq!(check(Version::HTTP_11, &[host]), Err(400), "{host}");
        }
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            assert_eq!(check(version, &["a", "a"]), Err(400), "{version:?}");
            assert_eq!(check(version, &[]).is_ok(), version != Version::HTTP_11, "{version:?}");
        }
    }

    #[test]
    fn a_body_is_chunked_and_nothing_else() {
        for (codings, expected) in [
            (&["chunked"][..], Ok(())),
            (&[" Chunked\t"], Ok(())),
            (&["gzip, chunked"], Err(400)),
            (&["gzip", "chunked"], Err(400)),
            (&["chunked", "chunked"], Err(400)),
            (&["identity"], Err(400)),
        ] {
            let request = http::Request::builder().header(HOST, "h");
            let request = codings.iter().fold(request, |request, coding| request.header(TRANSFER_ENCODING, *coding));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let checked = check_head(&parts).map(drop);
            assert_eq!(checked.map_err(|problem| problem.status.as_u16()), expected, "{codings:?}");
        }
    }
}
