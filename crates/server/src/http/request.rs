//! Reading a request strictly: the sizes of its head, its body within a size and a time, its id.
//! `query` reads the path and the query, `json` the body.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Response, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame};

use super::problem::Problem;
use super::repoll::unheard;
use super::response::{Body, X_REQUEST_ID};
use super::unsent::{NoRoom, Unsent};
use crate::limits::REQUEST_ID_MAX;
use crate::limits::{BODY_DRAIN_MAX, BODY_MAX, HEADERS_MAX, URI_MAX};

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
        Some(value) => !host.again && value.as_bytes().iter().all(|&byte| is_host_byte(byte)),
        None => version != Version::HTTP_11,
    };
    if is_fit { Ok(()) } else { Err(Problem::bad_request("host must be given once, as name or name:port").and_close()) }
}

/// Returns whether this byte can be part of a name, address or port.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']' | b'_' | b'~' | b'%')
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

/// The whole body, at most [`BODY_MAX`] bytes (413), within `body_timeout` (408), not encoded in any way (415). A body that
/// does not come in one piece needs `room` for the rest of it (503).
///
/// The returned bytes share memory with the connection's buffer: drop them before waiting for anything else.
pub async fn read_body<B>(form: BodyForm, body: B, body_timeout: Duration, room: &Unsent) -> Result<Bytes, Problem>
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

async fn collect<B>(mut body: B, is_alone: bool, room: &Unsent) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    // A small body is one frame, and is passed on as it came.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut read_len: u64 = 0;
    let mut charge = None;
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
        if charge.is_none() {
            // The client decides when the rest comes, and how many of its bodies are under way.
            let upper = usize::try_from(read_len + body.size_hint().upper().unwrap_or(BODY_MAX as u64));
            let whole = upper.map_or(BODY_MAX, |upper| upper.min(BODY_MAX));
            charge = Some(room.charge(whole).map_err(|NoRoom| no_room())?);
        }
    }
    drop(charge);
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
/// is hardly ever ready and the second nearly always is; only then is it worth setting a timer. The timer is on the heap:
/// every request would have room for it otherwise.
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

/// Names one request in answers and logs. Taken over from the caller, or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Named);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Given(HeaderValue),
    /// On the spot: an id on the heap would be allocated twice as soon as it has a copy.
    Made {
        text: [u8; MADE_MAX],
        len: usize,
    },
}

/// Eight digits, a hyphen, and a number in all its digits.
const MADE_MAX: usize = PREFIX_LEN + 16;
const PREFIX_LEN: usize = 9;

impl RequestId {
    /// The caller's `X-Request-Id` if it is 1 to 128 visible ASCII characters, else a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        // A look at each takes less than a search: there are few.
        match headers.iter().find(|(name, _)| *name == X_REQUEST_ID) {
            Some((_, value)) if is_acceptable(value.as_bytes()) => {
                // Copied, as the original shares memory with the connection's buffer and this may outlive the request.
                let copy = HeaderValue::from_bytes(value.as_bytes()).expect("it was a header value before");
                RequestId(Named::Given(copy))
            }
            _ => RequestId::make(),
        }
    }

    /// Unique within this process by its counter, and against other processes by their random prefixes.
    fn make() -> Self {
        static PREFIX: OnceLock<[u8; PREFIX_LEN]> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let prefix = PREFIX.get_or_init(|| {
            let mut bytes = [0; 4];
            getrandom::fill(&mut bytes).expect("the operating system has randomness");
            let prefix = format!("{:08x}-", u32::from_ne_bytes(bytes));
            prefix.as_bytes().try_into().expect("it has eight digits and a hyphen")
        });
        let mut text = [0; MADE_MAX];
        text[..PREFIX_LEN].copy_from_slice(prefix);
        let len = PREFIX_LEN + hex(COUNT.fetch_add(1, Ordering::Relaxed), &mut text[PREFIX_LEN..]);
        RequestId(Named::Made { text, len })
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Named::Given(value) => value.as_bytes(),
            Named::Made { text, len } => &text[..*len],
        }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("checked to be visible ASCII")
    }

    pub(super) fn to_header(&self) -> HeaderValue {
        match &self.0 {
            Named::Given(value) => value.clone(),
            Named::Made { .. } => HeaderValue::from_bytes(self.as_bytes()).expect("digits are visible ASCII"),
        }
    }
}

/// Writes a number in at least six digits, and returns how many they are. It does the work of `write!` in a twentieth of
/// its instructions: every request has an id.
fn hex(value: u64, to: &mut [u8]) -> usize {
    const DIGITS_MIN: u32 = 6;
    let len = (u64::BITS - value.leading_zeros()).div_ceil(4).max(DIGITS_MIN) as usize;
    let mut rest = value;
    for digit in to[..len].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xf) as usize];
        rest >>= 4;
    }
    len
}

fn is_acceptable(id: &[u8]) -> bool {
    (1..=REQUEST_ID_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Answers with the result or the problem.
pub fn respond(id: &RequestId, outcome: Result<Response<Body>, Problem>) -> Response<Body> {
    outcome.unwrap_or_else(|problem| problem.to_response(id))
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};
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

    async fn read(sizes: &[usize]) -> Result<usize, u16> {
        let room = Unsent::at_most(BODY_MAX);
        let read = read_body(BodyForm::default(), pieces(sizes), Duration::from_secs(10), &room).await;
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
        let problem = read_body(BodyForm::default(), body, Duration::from_secs(10), &room).await.unwrap_err();
        assert_eq!(problem.status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(problem.reason, "the body did not arrive within 10 s");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_end_have_a_budget_and_those_in_one_piece_need_none() {
        let room = Unsent::at_most(3 * BODY_MAX);
        let stalled = || Pieces { pieces: VecDeque::from([Bytes::from(vec![b'x'; 2_000])]), stalls: true };
        let read = |body: Pieces| read_body(BodyForm::default(), body, Duration::from_secs(10), &room);
        let mut under_way: Vec<_> = (0..3).map(|_| Box::pin(read(stalled()))).collect();
        for body in &mut under_way {
            assert!(tokio::time::timeout(Duration::from_secs(1), body).await.is_err());
        }
        assert_eq!(room.bytes(), 3 * BODY_MAX, "as long as they may become");
        let refused = read(stalled()).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        let whole = || Pieces { pieces: VecDeque::from([Bytes::from(vec![b'x'; 2_000])]), stalls: false };
        assert_eq!(read(whole()).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE, "its end is not known");
        drop(under_way);
        assert_eq!((room.bytes(), read(whole()).await.map(|body| body.len()).ok()), (0, Some(2_000)));
    }

    #[tokio::test]
    async fn encoded_bodies_are_415() {
        for (encoding, expected) in [("identity", Ok(2)), ("Identity", Ok(2)), ("gzip", Err(415)), ("", Err(415))] {
            let request = http::Request::builder().header(HOST, "h").header(CONTENT_ENCODING, encoding);
            let form = check_head(&request.body(()).unwrap().into_parts().0).unwrap().form;
            let room = Unsent::at_most(BODY_MAX);
            let read = read_body(form, pieces(&[2]), Duration::from_secs(10), &room).await;
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
        for host in ["", "a", "a:80", "[::1]:8080", "127.0.0.1:0", "a_b.example"] {
            assert_eq!(check(Version::HTTP_11, &[host]), Ok(()), "{host}");
        }
        for host in ["a b", "a/b", "a@b", "a,b", "a\"b", "<a>", "a?b", "a#b"] {
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

    #[test]
    fn a_callers_request_id_is_kept_if_it_is_fit_to_print() {
        let id_of = |sent: &[u8]| {
            let headers = HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(sent).unwrap())]);
            RequestId::of(&headers).as_str().to_owned()
        };
        for kept in [&b"a"[..], b"run-7/step:3", &[b'x'; 128]] {
            assert_eq!(id_of(kept).as_bytes(), kept);
        }
        for replaced in [&b""[..], b"two words", b"caf\xc3\xa9", b"tab\there", &[b'x'; 129]] {
            assert_ne!(id_of(replaced).as_bytes(), replaced);
        }
    }

    #[test]
    fn hex_has_as_many_digits_as_it_needs_and_no_fewer_than_six() {
        for (value, expected) in [
            (0, "000000"),
            (0xabc, "000abc"),
            (0x12_3456, "123456"),
            (0x123_4567, "1234567"),
            (0x12_3456_789a, "123456789a"),
            (u64::MAX, "ffffffffffffffff"),
        ] {
            let mut digits = [0; 16];
            let len = hex(value, &mut digits);
            assert_eq!(&digits[..len], expected.as_bytes());
        }
    }

    #[test]
    fn made_request_ids_differ() {
        let ids: HashSet<String> = (0..1000).map(|_| RequestId::of(&HeaderMap::new()).as_str().to_owned()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
