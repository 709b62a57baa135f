//! Answers: the body type hyper is given, and a builder that puts the same headers on every one of them.
//! Errors are put into words by [`Problem`](super::Problem) and the dialects.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::request_id::{RequestId, X_REQUEST_ID};
use crate::limits::PIECE_MAX;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// No answer may be taken for a script or a style, and none may become part of another site's page.
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The headers of an answer without a body, and of one with a JSON body.
static USUAL: LazyLock<HeaderMap> = LazyLock::new(|| usual(&[], false));
static USUAL_JSON: LazyLock<HeaderMap> = LazyLock::new(|| usual(&[], true));

/// The usual headers of an answer: its id, which [`with_headers`] fills in; then those that the service fills in, which
/// are empty until then; then those that are the same in every answer.
pub fn usual(filled_in: &[HeaderName], is_json: bool) -> HeaderMap {
    const OPEN: HeaderValue = HeaderValue::from_static("");
    let open = std::iter::once(X_REQUEST_ID).chain(filled_in.iter().cloned()).map(|name| (name, OPEN));
    let same = [(CACHE_CONTROL, NO_STORE), (X_CONTENT_TYPE_OPTIONS, NOSNIFF), (RESOURCE_POLICY, SAME_ORIGIN)];
    open.chain(same).chain(is_json.then_some((CONTENT_TYPE, JSON))).collect()
}

/// The content of an answer: bytes that are there from the start, or a stream of them as they come.
#[derive(Default)]
pub struct Body {
    kind: Kind,
    receipt: Option<Receipt>,
}

/// The undo action of an answer that never leaves. It is settled once the operating system has all of the answer's
/// bytes, and runs when it is dropped before that.
pub struct Receipt(Option<Box<dyn FnOnce() + Send>>);

impl Receipt {
    pub fn or_else(undo: impl FnOnce() + Send + 'static) -> Self {
        Receipt(Some(Box::new(undo)))
    }

    /// The answer has left.
    pub(super) fn settle(mut self) {
        self.0 = None;
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(undo) = self.0.take() {
            undo();
        }
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipt")
    }
}

enum Kind {
    /// The bytes that were not taken yet.
    Whole(Bytes),
    /// The pieces still to be made, and about how many bytes are kept for them.
    Made {
        pieces: Box<dyn Iterator<Item = Bytes> + Send>,
        weight: usize,
    },
    Stream(Pin<Box<dyn Frames>>),
}

impl Default for Kind {
    fn default() -> Self {
        Kind::Whole(Bytes::new())
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Made { weight, .. } => write!(f, "Body(about {weight} bytes)"),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

impl Body {
    /// A body that has no end yet: `next` makes a piece of it out of `state`, and the state to go on with.
    pub fn stream<S, F>(state: S, next: impl Fn(S) -> F + Send + 'static) -> Body
    where
        S: Send + 'static,
        F: Future<Output = Option<(Bytes, S)>> + Send + 'static,
    {
        let under_way = Some(next(state));
        Kind::Stream(Box::pin(Unfold { next, under_way })).into()
    }

    /// A long body, of which each piece is made when the one before was taken. `weight` is about the number of bytes
    /// kept meanwhile.
    pub fn made(weight: usize, pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
        Kind::Made { pieces: Box::new(pieces), weight }.into()
    }

    /// How many bytes wait with it, about.
    pub(super) fn weight(&self) -> usize {
        match &self.kind {
            Kind::Whole(bytes) => bytes.len(),
            Kind::Made { weight, .. } => *weight,
            // Its reader keeps a place, and nothing else.
            Kind::Stream(_) => 0,
        }
    }

    /// Sets the undo action in case this never leaves.
    pub fn set_receipt(&mut self, receipt: Option<Receipt>) {
        self.receipt = receipt;
    }

    pub(super) fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    /// Returns whether this is a stream: no client expects its end.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }
}

/// Pieces of a body, one after the other.
trait Frames: Send {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

pin_project! {
    /// The piece that is being made, and how to make the next one.
    struct Unfold<N, F> {
        next: N,
        // `None` once it has ended.
        #[pin]
        under_way: Option<F>,
    }
}

impl<S, N, F> Frames for Unfold<N, F>
where
    N: Fn(S) -> F + Send,
    F: Future<Output = Option<(Bytes, S)>> + Send,
{
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut this = self.project();
        let Some(under_way) = this.under_way.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let made = ready!(under_way.poll(cx));
        let (bytes, following) = match made {
            Some((bytes, state)) => (Some(bytes), Some((this.next)(state))),
            None => (None, None),
        };
        this.under_way.set(following);
        Poll::Ready(bytes)
    }
}

impl From<Kind> for Body {
    fn from(kind: Kind) -> Self {
        Body { kind, receipt: None }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Kind::Whole(bytes).into()
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        // Without spare room at their end, `Bytes` needs no second block to remember where they are.
        Kind::Whole(bytes.into_boxed_slice().into()).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Kind::Whole(text.into()).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Kind::Whole(Bytes::from_static(text.as_bytes())).into()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.kind {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes.split_to(bytes.len().min(PIECE_MAX)))))),
            Kind::Made { pieces, .. } => Poll::Ready(pieces.next().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(frames) => {
                frames.as_mut().poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Made { .. } | Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Made { .. } | Kind::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer with a JSON body. Its text ends in a newline here, so that a prompt begins on a line of its own.
pub fn json(status: StatusCode, id: &RequestId, text: impl Into<Vec<u8>>) -> Response<Body> {
    let mut bytes = text.into();
    bytes.push(b'\n');
    json_whole(status, id, bytes)
}

/// An answer with a JSON body whose bytes are complete, the newline at their end as well.
pub fn json_whole(status: StatusCode, id: &RequestId, body: impl Into<Body>) -> Response<Body> {
    with_headers(&USUAL_JSON, status, id, body.into())
}

/// Sets after how many seconds it is worth to ask again. The only writer of `Retry-After` but for `farewell`, which has
/// no response.
pub fn set_retry_after<B>(response: &mut Response<B>, seconds: u64) {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
}

/// An answer without a body, such as 204.
pub fn empty(status: StatusCode, id: &RequestId) -> Response<Body> {
    with_headers(&USUAL, status, id, Body::default())
}

/// An answer in another format than JSON, such as metrics.
pub fn text(status: StatusCode, id: &RequestId, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = with_headers(&USUAL, status, id, body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An answer with a copy of [`usual`] headers.
pub fn with_headers(headers: &HeaderMap, status: StatusCode, id: &RequestId, body: Body) -> Response<Body> {
    let mut headers = headers.clone();
    *headers.values_mut().next().expect("the id is the first") = id.to_header();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A header value of some short parts, [`JOINED_MAX`] bytes at most in all. Its bytes are allocated once, at their
/// length.
pub fn joined<const N: usize>(parts: [&str; N]) -> HeaderValue {
    let (mut bytes, mut len) = ([0; JOINED_MAX], 0);
    for part in parts {
        bytes[len..len + part.len()].copy_from_slice(part.as_bytes());
        len += part.len();
    }
    HeaderValue::from_bytes(&bytes[..len]).expect("the parts are visible ASCII")
}

/// Two numbers of twenty digits with a dot between them fit.
const JOINED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_the_usual_headers() {
        let id = RequestId::of(&HeaderMap::new());
        for (response, content_type) in [
            (json(StatusCode::OK, &id, "{}"), Some("application/json")),
            (json_whole(StatusCode::OK, &id, "{}\n"), Some("application/json")),
            (text(StatusCode::OK, &id, "text/plain", "x"), Some("text/plain")),
            (empty(StatusCode::NO_CONTENT, &id), None),
        ] {
            let headers = response.headers();
            assert_eq!(headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap()), content_type);
            assert_eq!(headers[CACHE_CONTROL], "no-store");
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(headers[RESOURCE_POLICY], "same-origin");
            assert_eq!(headers[X_REQUEST_ID], id.to_header());
            assert_eq!(headers.keys().next(), Some(&X_REQUEST_ID), "where it is filled in");
        }
    }

    #[test]
    fn a_json_text_ends_in_a_newline_that_its_length_counts() {
        let id = RequestId::of(&HeaderMap::new());
        // With room for the newline and without.
        for text in [Vec::from("{}"), Vec::from("[1]").into_boxed_slice().into_vec()] {
            let len = text.len() as u64;
            let mut body = json(StatusCode::OK, &id, text.clone()).into_body();
            assert_eq!(body.size_hint().exact(), Some(len + 1));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else { panic!("it is there") };
            assert_eq!(frame.into_data().unwrap(), [text, vec![b'\n']].concat());
        }
    }

    #[test]
    fn a_body_knows_its_length_and_ends() {
        let mut body = Body::from("{}");
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(2), false));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else { panic!("bytes are there") };
        assert_eq!(frame.into_data().unwrap(), "{}");
        assert!(body.is_end_stream());
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)));
    }

    #[test]
    fn a_long_body_comes_in_pieces_and_knows_its_length_from_the_start() {
        let long: Vec<u8> = (0..40_000).map(|n: u32| n.to_le_bytes()[0]).collect();
        let mut body = Body::from(long.clone());
        assert_eq!(body.size_hint().exact(), Some(40_000));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let (mut taken, mut lens) = (Vec::new(), Vec::new());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
            let piece = frame.into_data().unwrap();
            lens.push((piece.len(), body.is_end_stream()));
            taken.extend_from_slice(&piece);
        }
        assert_eq!(lens, [(PIECE_MAX, false), (PIECE_MAX, false), (40_000 - 2 * PIECE_MAX, true)]);
        assert_eq!(taken, long);
    }

    #[test]
    fn a_stream_comes_piece_by_piece_and_ends() {
        let mut body = Body::stream(2, |left: u8| async move { Some((Bytes::from(vec![left]), left.checked_sub(1)?)) });
        assert_eq!((body.size_hint().exact(), body.is_end_stream(), body.is_stream()), (None, false, true));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut taken = Vec::new();
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
            taken.push(frame.into_data().unwrap()[0]);
        }
        assert_eq!(taken, [2, 1]);
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)), "also when asked again");
    }
}
