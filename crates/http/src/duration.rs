//! Durations as people write them (`30s`, `1m30s`, `500ms`, `1.5h`), to microseconds and back, in whole numbers
//! throughout. Two readers: [`parse_go`] accepts exactly the durations of Go's `time.ParseDuration`, because callers'
//! clients are written against it; [`parse_setting`] is for the operator, knows days and has no sign.

/// A duration that a caller asked for and that was cut to its maximum, if it was longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    pub us: u64,
    pub is_cut: bool,
}

impl Cut {
    pub fn to(max_us: u64, asked_us: u64) -> Cut {
        Cut { us: asked_us.min(max_us), is_cut: asked_us > max_us }
    }
}

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("is empty, write a duration such as 30s, 1m30s or 24h")]
    Empty,
    #[error("is not a duration, write one such as 30s, 1m30s or 24h")]
    Malformed,
    #[error("has no unit, write one of ms, s, m, h after the number")]
    NoUnit,
    #[error("has an unknown unit, use one of us, ms, s, m, h")]
    UnknownUnit,
    #[error("has no unit, write one of ms, s, m, h, d after the number")]
    NoUnitOrDays,
    #[error("has an unknown unit, use one of us, ms, s, m, h, d")]
    UnknownUnitNorDays,
    #[error("is negative")]
    Negative,
    #[error("is too long")]
    TooLong,
}

const NS: u64 = 1;
const US: u64 = 1_000 * NS;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;
const M: u64 = 60 * S;
const H: u64 = 60 * M;
const D: u64 = 24 * H;

/// The longest duration Go has, 2^63 - 1 nanoseconds: 292 years.
const MAX_NS: u64 = i64::MAX as u64;

/// The value of a unit in nanoseconds.
type Units = fn(&str) -> Option<u64>;

/// Reads a duration the way Go's `time.ParseDuration` does. The result is in microseconds; fractions of one are cut off
/// towards zero, but `1ns` is more than nothing, as it is in Go.
pub fn parse_go(text: &str) -> Result<i64, DurationError> {
    let (negative, rest) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude_us = i64::try_from(whole_us(parse_ns(rest, go_unit)?)).expect("2^63 ns are fewer microseconds");
    Ok(if negative { -magnitude_us } else { magnitude_us })
}

/// Reads a duration of the configuration: as in Go, but with days (`7d`) and without a sign. In microseconds.
pub fn parse_setting(text: &str) -> Result<u64, DurationError> {
    if text.starts_with('-') {
        return Err(DurationError::Negative);
    }
    let duration_ns = parse_ns(text, setting_unit).map_err(|error| match error {
        DurationError::NoUnit => DurationError::NoUnitOrDays,
        DurationError::UnknownUnit => DurationError::UnknownUnitNorDays,
        error => error,
    })?;
    Ok(whole_us(duration_ns))
}

/// In microseconds: nothing only if it was nothing.
fn whole_us(duration_ns: u64) -> u64 {
    (duration_ns / US).max(u64::from(duration_ns > 0))
}

/// Writes a duration so that [`parse_setting`] and [`parse_go`] read the same: `24h`, `1m30s`, `1.5s`, `500ms`, `0s`.
pub fn format_us(duration_us: u64) -> String {
    use std::fmt::Write as _;
    let (hours, below_h) = (duration_us / 3_600_000_000, duration_us % 3_600_000_000);
    let (minutes, below_m) = (below_h / 60_000_000, below_h % 60_000_000);
    let mut text = String::new();
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    match below_m {
        0 if text.is_empty() => text.push_str("0s"),
        0 => {}
        1..1_000 if text.is_empty() => {
            let _ = write!(text, "{below_m}us");
        }
        1_000..1_000_000 if text.is_empty() => write_fraction(&mut text, below_m, 1_000, "ms"),
        _ => write_fraction(&mut text, below_m, 1_000_000, "s"),
    }
    text
}

/// `value / unit` in decimals, without zeros at the end.
fn write_fraction(text: &mut String, value: u64, unit: u64, name: &str) {
    use std::fmt::Write as _;
    let _ = write!(text, "{}", value / unit);
    let digits = unit.ilog10() as usize;
    let fraction = format!("{:0digits$}", value % unit);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        let _ = write!(text, ".{fraction}");
    }
    text.push_str(name);
}

fn go_unit(name: &str) -> Option<u64> {
    match name {
        "ns" => Some(NS),
        // The micro sign and the Greek letter look alike; Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(US),
        "ms" => Some(MS),
        "s" => Some(S),
        "m" => Some(M),
        "h" => Some(H),
        _ => None,
    }
}

fn setting_unit(name: &str) -> Option<u64> {
    if name == "d" { Some(D) } else { go_unit(name) }
}

/// `([0-9]*(\.[0-9]*)?[a-zµ]+)+` with at least one digit before each unit, or `0`.
fn parse_ns(text: &str, units: Units) -> Result<u64, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text == "0" {
        return Ok(0);
    }
    let mut total_ns: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (whole, after_whole) = take_while(rest, |byte| byte.is_ascii_digit());
        let (fraction, after_number) = match after_whole.strip_prefix('.') {
            Some(after_dot) => take_while(after_dot, |byte| byte.is_ascii_digit()),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Malformed);
        }
        let (unit, after_unit) = take_while(after_number, |byte| byte != b'.' && !byte.is_ascii_digit());
        if unit.is_empty() {
            return Err(DurationError::NoUnit);
        }
        let unit_ns = units(unit).ok_or(DurationError::UnknownUnit)?;
        // All digits, so the only way to fail is size.
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
        let part_ns = whole.checked_mul(unit_ns).and_then(|ns| ns.checked_add(fraction_ns(fraction, unit_ns)));
        total_ns = part_ns.and_then(|ns| ns.checked_add(total_ns)).ok_or(DurationError::TooLong)?;
        if total_ns > MAX_NS {
            return Err(DurationError::TooLong);
        }
        rest = after_unit;
    }
    Ok(total_ns)
}

/// `0.<digits>` of a unit, cut off towards zero.
fn fraction_ns(digits: &str, unit_ns: u64) -> u64 {
    // A day is below 10^14 ns, so more digits than this change nothing.
    const DIGITS_MAX: usize = 15;
    let digits = &digits[..digits.len().min(DIGITS_MAX)];
    let mut value: u128 = 0;
    let mut scale: u128 = 1;
    for digit in digits.bytes() {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    u64::try_from(value * u128::from(unit_ns) / scale).expect("a fraction of a unit is below the unit")
}

/// Splits where `belongs` ends. It is asked about bytes, and must treat all bytes of a character alike.
fn take_while(text: &str, belongs: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !belongs(byte)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S_US: i64 = 1_000_000;
    const H_US: i64 = 3600 * S_US;

    #[test]
    fn go_durations() {
        for (text, expected_us) in [
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("0s", 0),
            ("5s", 5 * S_US),
            ("30s", 30 * S_US),
            ("1478s", 1478 * S_US),
            ("-5s", -5 * S_US),
            ("+5s", 5 * S_US),
            ("5.0s", 5 * S_US),
            ("5.6s", 5_600_000),
            ("5.s", 5 * S_US),
            (".5s", 500_000),
            ("1.0s", S_US),
            ("1.004s", 1_004_000),
            ("1.0040s", 1_004_000),
            ("100.00100s", 100_001_000),
            ("0.1s", 100_000),
            ("0.3s", 300_000),
            ("1ns", 1),
            ("10ns", 1),
            ("1999ns", 1),
            ("-1999ns", -1),
            ("11us", 11),
            ("12µs", 12),
            ("12μs", 12),
            ("13ms", 13_000),
            ("14s", 14 * S_US),
            ("15m", 900 * S_US),
            ("16h", 16 * H_US),
            ("1.5h", 5400 * S_US),
            ("3h30m", 12_600 * S_US),
            ("10.5s4m", 250_500_000),
            ("-2m3.4s", -123_400_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005),
            ("39h9m14.425s", 140_954_425_000),
            ("0.3333333333333333333h", 1_199_999_999),
            ("0.9223372036854775807h", 3_320_413_933),
            ("0.100000000000000000000h", 360 * S_US),
            ("9223372036854775807ns", 9_223_372_036_854_775),
            ("2562047h47m16.854775807s", 9_223_372_036_854_775),
        ] {
            assert_eq!(parse_go(text), Ok(expected_us), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        use DurationError::{Empty, Malformed, NoUnit, TooLong, UnknownUnit};
        for (text, expected) in [
            ("", Empty),
            ("-", Empty),
            ("+", Empty),
            ("3", NoUnit),
            ("00", NoUnit),
            ("1.5", NoUnit),
            ("1m30", NoUnit),
            ("s", Malformed),
            (".", Malformed),
            (".s", Malformed),
            ("-.", Malformed),
            ("+.s", Malformed),
            ("abc", Malformed),
            (" 30s", Malformed),
            ("--5s", Malformed),
            ("30s ", UnknownUnit),
            ("1d", UnknownUnit),
            ("1 s", UnknownUnit),
            ("1S", UnknownUnit),
            ("1sm", UnknownUnit),
            ("1s-1s", UnknownUnit),
            ("1é", UnknownUnit),
            ("1\u{85}s", UnknownUnit),
            ("1..5s", NoUnit),
            ("9223372036854775808ns", TooLong),
            ("-9223372036854775809ns", TooLong),
            ("2562047h47m16.854775808s", TooLong),
            ("2562048h", TooLong),
            ("99999999999999999999999s", TooLong),
            ("9223372036854775807ns1ns", TooLong),
        ] {
            assert_eq!(parse_go(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn settings_know_days_and_no_sign() {
        assert_eq!(parse_setting("7d"), Ok(7 * 86_400_000_000));
        assert_eq!(parse_setting("1d12h"), Ok(36 * 3_600_000_000));
        assert_eq!(parse_setting("0.5d"), Ok(43_200_000_000));
        assert_eq!(parse_setting("0"), Ok(0));
        assert_eq!(parse_setting("-5s"), Err(DurationError::Negative));
        assert_eq!(parse_setting("+5s"), Err(DurationError::Malformed));
        assert_eq!(parse_setting("5"), Err(DurationError::NoUnitOrDays));
    }

    #[test]
    fn durations_are_written_as_people_do() {
        for (duration_us, expected) in [
            (0, "0s"),
            (1, "1us"),
            (999, "999us"),
            (1_000, "1ms"),
            (1_500, "1.5ms"),
            (500_000, "500ms"),
            (999_999, "999.999ms"),
            (1_000_000, "1s"),
            (1_500_000, "1.5s"),
            (1_000_001, "1.000001s"),
            (90_000_000, "1m30s"),
            (90_000_500, "1m30.0005s"),
            (60_000_001, "1m0.000001s"),
            (300_000_000, "5m"),
            (3_605_000_000, "1h5s"),
            (86_400_000_000, "24h"),
        ] {
            assert_eq!(format_us(duration_us), expected);
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        // A spread over all magnitudes, with every digit in use.
        let mut duration_us: u64 = 1;
        while duration_us < MAX_NS / US {
            for near in [duration_us - 1, duration_us, duration_us + 1] {
                let text = format_us(near);
                assert_eq!(parse_setting(&text), Ok(near), "{text}");
                assert_eq!(parse_go(&text), Ok(i64::try_from(near).unwrap()), "{text}");
            }
            duration_us = duration_us * 17 / 10 + 1;
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        // Every string of up to four of these pieces.
        let pieces = ["0", "9", "99999999999", ".", "-", "+", "s", "m", "h", "d", "µ", "n", "é", " ", "\0"];
        let mut texts = vec![String::new()];
        for _ in 0..4 {
            texts = texts.iter().flat_map(|text| pieces.iter().map(move |piece| format!("{text}{piece}"))).collect();
            for text in &texts {
                let (go, setting) = (parse_go(text), parse_setting(text));
                assert!(go.is_err() || setting == Ok(go.unwrap().unsigned_abs()) || text.starts_with(['-', '+']));
            }
        }
    }
}
