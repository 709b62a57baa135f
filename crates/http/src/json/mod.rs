//! Reading a JSON object out of a body, strictly: one object, no key twice at any depth, no number that is not finite.
//! Members are found by name and read by the getters below, whose errors name the field, the problem and the range.
//! The walk over the body is in `strict`; which fields a call has is left to the dialects.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use crate::duration::{Cut, parse_setting};

mod canonical;
pub mod pieces;
mod strict;
#[cfg(test)]
mod tests;
mod typo;
pub mod value;
mod write;

pub use canonical::canonical;
pub use write::{append, to_bytes};

/// How much of a caller's value an error repeats, in characters.
const SHOWN_MAX: usize = 40;

/// How to write a duration.
pub const DURATION_HINT: &str = "30s, 1m30s or a number of seconds";

/// A body that cannot be used, in a sentence for the caller, the field at fault if it is one, and a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadBody(pub Cow<'static, str>, pub Option<Cow<'static, str>>, pub Option<&'static str>);

impl BadBody {
    fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        BadBody(reason.into(), None, None)
    }

    fn about(field: impl Into<Cow<'static, str>>, reason: String) -> Self {
        BadBody(reason.into(), Some(field.into()), None)
    }

    fn hinting(mut self, hint: &'static str) -> Self {
        self.2 = Some(hint);
        self
    }
}

/// The members of a body, each value as it was sent.
#[derive(Debug)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, &'a str)>,
}

/// The range of a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds {
    pub least: Least,
    pub max_us: u64,
    pub above_max: AboveMax,
}

/// The lower end of a range of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    Zero,
    /// Any time greater than zero; what is below a microsecond becomes one.
    AboveZero,
    /// This many seconds.
    Seconds(u64),
}

/// The treatment of a number above its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboveMax {
    Clamp,
    Refuse,
}

impl<'a> Object<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Self, BadBody> {
        Ok(Object { members: strict::members(body)? })
    }

    /// A value as it was sent.
    pub fn raw(&self, field: &str) -> Option<&'a str> {
        self.members.iter().find(|(name, _)| name == field).map(|(_, raw)| *raw)
    }

    /// Every member with its value, as it was sent.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().map(|(name, raw)| (&**name, *raw))
    }

    pub fn has(&self, field: &str) -> bool {
        self.raw(field).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A sentence about a member that is not read, and is written nearly like one that would be.
    pub fn warning(&self, known: &[&'static str]) -> Option<String> {
        typo::find(self.members.iter().map(|(name, _)| &**name), known)
    }

    /// Refuses, by name, the first member that is not in `allowed`.
    pub fn refuse_unknown(&self, allowed: &[&str]) -> Result<(), BadBody> {
        match self.members.iter().find(|(name, _)| !allowed.contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => {
                let reason = format!("unknown field {}, allowed are {}", shown(name), allowed.join(", "));
                Err(BadBody::about(cut(name), reason))
            }
        }
    }

    /// A number of seconds, in microseconds.
    pub fn seconds(&self, field: &'static str, allowed: Seconds) -> Result<Option<u64>, BadBody> {
        Ok(self.cut_seconds(field, allowed)?.map(|seconds| seconds.us))
    }

    /// The same, and whether it was above its maximum and cut.
    pub fn cut_seconds(&self, field: &'static str, allowed: Seconds) -> Result<Option<Cut>, BadBody> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        if let Some(seconds) = read_seconds(raw, allowed) {
            return Ok(Some(seconds));
        }
        let reason = format!("{field} must be {allowed}, got {}", cut(raw));
        Err(BadBody::about(field, reason).hinting(DURATION_HINT))
    }

    /// The same as `seconds`, where the call makes no sense without it.
    pub fn required_seconds(&self, field: &'static str, allowed: Seconds) -> Result<u64, BadBody> {
        Ok(self.required_cut_seconds(field, allowed)?.us)
    }

    /// The same as `cut_seconds`, where the call makes no sense without it.
    pub fn required_cut_seconds(&self, field: &'static str, allowed: Seconds) -> Result<Cut, BadBody> {
        self.cut_seconds(field, allowed)?.ok_or_else(|| missing(field, &allowed).hinting(DURATION_HINT))
    }

    /// A whole number. `3.0` is one, as some languages have no other way to write it.
    pub fn integer(&self, field: &'static str, allowed: RangeInclusive<u64>) -> Result<Option<u64>, BadBody> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        match read_integer(raw).filter(|value| allowed.contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(BadBody::about(field, format!("{field} must be {}, got {}", IntegerRange(&allowed), cut(raw)))),
        }
    }

    /// The same, where the call makes no sense without it.
    pub fn required_integer(&self, field: &'static str, allowed: RangeInclusive<u64>) -> Result<u64, BadBody> {
        self.integer(field, allowed.clone())?.ok_or_else(|| missing(field, &IntegerRange(&allowed)))
    }

    /// A string whose length in bytes is within `allowed`.
    pub fn string(&self, field: &'static str, allowed: RangeInclusive<usize>) -> Result<Option<Cow<'a, str>>, BadBody> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        match read_string(raw) {
            Some(text) if allowed.contains(&text.len()) => Ok(Some(text)),
            Some(text) => {
                let range = StringRange(&allowed);
                Err(BadBody::about(field, format!("{field} must be {range}, got {} bytes", text.len())))
            }
            None => Err(BadBody::about(field, format!("{field} must be {}, got {}", StringRange(&allowed), cut(raw)))),
        }
    }

    /// The same, where the call makes no sense without it.
    pub fn required_string(
        &self,
        field: &'static str,
        allowed: RangeInclusive<usize>,
    ) -> Result<Cow<'a, str>, BadBody> {
        self.string(field, allowed.clone())?.ok_or_else(|| missing(field, &StringRange(&allowed)))
    }

    /// A string that no error may repeat. `what` names the required form: `lease must be a UUID`.
    pub fn required_secret(&self, field: &'static str, what: &str) -> Result<Cow<'a, str>, BadBody> {
        match self.raw(field) {
            None => Err(missing(field, &what)),
            Some(raw) => read_string(raw).ok_or_else(|| BadBody::about(field, format!("{field} must be {what}"))),
        }
    }

    /// Any JSON, as it was sent.
    pub fn json(&self, field: &'static str, max_bytes: usize) -> Result<Option<&'a str>, BadBody> {
        match self.raw(field) {
            Some(raw) if raw.len() > max_bytes => {
                Err(BadBody::about(field, format!("{field} has {} bytes, at most {max_bytes} are allowed", raw.len())))
            }
            raw => Ok(raw),
        }
    }
}

/// Text in quotes, cut to a length fit for an error, without control characters, and without possible credentials: a
/// pool or lease id that went astray into another field is not repeated.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(SHOWN_MAX) + 4);
    shown.push('"');
    cut_into(&mut shown, text);
    shown.push('"');
    shown
}

/// The same without quotes: a name that the caller made up, where a program is told of it, or JSON as it was sent.
pub fn cut(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(SHOWN_MAX) + 4);
    cut_into(&mut shown, text);
    shown
}

fn cut_into(shown: &mut String, text: &str) {
    let text = without_ids(text);
    let mut chars = text.chars();
    shown.extend(chars.by_ref().take(SHOWN_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }));
    if chars.next().is_some() {
        shown.push('…');
    }
}

/// Replaces every run of as many hex digits as a UUID has, hyphens or not.
fn without_ids(text: &str) -> Cow<'_, str> {
    const UUID_DIGITS: usize = 32;
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let is_id = |run: &str| run.chars().filter(char::is_ascii_hexdigit).count() >= UUID_DIGITS;
    let runs = || text.split(|c: char| !is_part(c)).filter(|run| is_id(run));
    if runs().next().is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(runs().fold(text.to_owned(), |shown, id| shown.replace(id, "(an id)")))
}

fn missing(field: &'static str, allowed: &dyn fmt::Display) -> BadBody {
    BadBody::about(field, format!("{field} is missing, it must be {allowed}"))
}

fn read_seconds(raw: &str, allowed: Seconds) -> Option<Cut> {
    let value_us = match raw.parse::<u64>() {
        // Nearly always a small whole number; saturation is far above every maximum.
        Ok(whole) => whole.saturating_mul(1_000_000),
        Err(_) if is_number(raw) => fractional_us(raw.parse().ok()?)?,
        Err(_) => parse_setting(&read_string(raw)?).ok()?,
    };
    let is_enough = match allowed.least {
        Least::Zero => true,
        Least::AboveZero => value_us > 0,
        Least::Seconds(least) => value_us >= least * 1_000_000,
    };
    if !is_enough {
        return None;
    }
    match allowed.above_max {
        AboveMax::Clamp => Some(Cut::to(allowed.max_us, value_us)),
        AboveMax::Refuse => Some(Cut::to(allowed.max_us, value_us)).filter(|seconds| !seconds.is_cut),
    }
}

/// Rounded to the microsecond, but never from something down to nothing. `None` for negative numbers and those that are
/// not finite.
fn fractional_us(seconds: f64) -> Option<u64> {
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and `as` saturates")]
    let rounded_us = (seconds * 1e6).round() as u64;
    Some(if seconds > 0.0 { rounded_us.max(1) } else { 0 })
}

fn read_integer(raw: &str) -> Option<u64> {
    if !is_number(raw) {
        return None;
    }
    if let Ok(whole) = raw.parse() {
        return Some(whole);
    }
    let value: f64 = raw.parse().ok()?;
    // Above 2^53 an f64 does not know which whole number was meant.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and within 0..2^53")]
    (value.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&value)).then_some(value as u64)
}

/// Returns whether valid JSON is a number, by its first byte. (Rust would also parse `inf`.)
fn is_number(raw: &str) -> bool {
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

fn read_string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        // Half a surrogate pair is valid JSON and no string.
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least {
            Least::Zero => f.write_str("a number of at least 0")?,
            Least::AboveZero => f.write_str("a number greater than 0")?,
            Least::Seconds(least) => write!(f, "a number of at least {least}")?,
        }
        match self.above_max {
            AboveMax::Clamp => f.write_str(" (seconds)"),
            #[expect(clippy::cast_precision_loss, reason = "shown to people")]
            AboveMax::Refuse => write!(f, " and at most {} (seconds)", self.max_us as f64 / 1e6),
        }
    }
}

struct IntegerRange<'r>(&'r RangeInclusive<u64>);

impl fmt::Display for IntegerRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an integer from {} to {}", self.0.start(), self.0.end())
    }
}

struct StringRange<'r>(&'r RangeInclusive<usize>);

impl fmt::Display for StringRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string of {} to {} bytes", self.0.start(), self.0.end())
    }
}
