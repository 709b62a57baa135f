//! The name of one request, which its answer and every log line about it have.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::limits::REQUEST_ID_MAX;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

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

/// Writes a number in at least six digits, and returns how many they are. It does the work of `write!` in a twentieth
/// of its instructions: every request has an id.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
