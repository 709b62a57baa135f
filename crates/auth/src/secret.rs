//! Secrets and their digests. A secret never shows in `Debug`, and is compared in constant time; tokens are kept only
//! as digests.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

/// A value that must not be shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The secret itself, to be sent to its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether `candidate` is the secret. The time this takes tells nothing but the length.
    pub fn is(&self, candidate: &[u8]) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), candidate).is_ok()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.0.as_bytes())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The SHA-256 of a token. Tokens have 256 random bits, so a plain digest cannot be guessed back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The beginning of a written digest.
const PREFIX: &str = "sha256:";

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let digest = digest(&SHA256, bytes);
        Digest(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }

    /// Reads `sha256:` and 64 hex digits. The error follows the value in a sentence.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let hex = text.strip_prefix(PREFIX).ok_or("does not begin with sha256:")?;
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return Err("does not have 64 hex digits after sha256:");
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (nibble(pair[0]), nibble(pair[1]));
            *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or("has something else than hex digits")?;
        }
        Ok(Digest(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// For digests that were written down by their bytes.
impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_and_is_compared_whole() {
        let secret = Secret::new("open sesame");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(secret.is(b"open sesame"));
        for other in [&b"open sesam"[..], b"open sesame!", b"", b"Open sesame"] {
            assert!(!secret.is(other));
        }
    }

    #[test]
    fn digests_are_written_and_read() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::parse(text), Ok(digest));
        assert_eq!(Digest::parse(&text.to_ascii_uppercase().replace("SHA", "sha")), Ok(digest));
        for (text, problem) in [
            ("ba78", "does not begin with sha256:"),
            ("sha256:ba78", "does not have 64 hex digits after sha256:"),
            (&format!("sha256:{}", "x".repeat(64)), "has something else than hex digits"),
        ] {
            assert_eq!(Digest::parse(text), Err(problem));
        }
    }
}
