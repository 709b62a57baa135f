//! Durations as texts with units, as regular expressions. A text that fits lasts no shorter and no longer than the
//! number beside it may be, so that a program that makes calls from the document makes none that is refused. The
//! service reads more spellings, such as `.5s` or `0090s`.

/// The longest duration that a text can name, in microseconds: the reader counts nanoseconds in 63 bits.
const LONGEST_US: u64 = i64::MAX as u64 / 1_000;

/// From here on a bound is rounded to a number of digits.
const EXACT_MAX: u64 = 99_999;

/// The units, in microseconds, and the smaller units that may follow a whole number of them.
const UNITS: [(&str, u64, &str); 5] = [
    ("ms", 1_000, ""),
    ("s", 1_000_000, ""),
    ("m", 60_000_000, "([0-5]?[0-9]s)?"),
    ("h", 3_600_000_000, "([0-5]?[0-9]m)?([0-5]?[0-9]s)?"),
    ("d", 86_400_000_000, ""),
];

/// The texts that last from `least_us` to `most_us`; without a `most_us`, as long as a text can.
pub(super) fn pattern(least_us: u64, most_us: Option<u64>) -> String {
    let most_us = most_us.unwrap_or(LONGEST_US).min(LONGEST_US);
    let mut texts: Vec<String> = (least_us == 0).then(|| "0".to_owned()).into_iter().collect();
    for (name, unit_us, smaller) in UNITS {
        let (from, to) = (least_us.div_ceil(unit_us), most_us / unit_us);
        // Below the last one there is room for a part of the next.
        if from < to {
            let below = numbers(from, below(to));
            texts.push(format!("{below}(\\.[0-9]{{1,3}}{name}|{name}{smaller})"));
        }
        if from <= to && (1..=EXACT_MAX).contains(&to) {
            texts.push(format!("{to}{name}"));
        }
    }
    format!("^({})$", texts.join("|"))
}

/// The largest number below a bound that the pattern allows. Below a bound above `EXACT_MAX` it is a number of nines
/// only, such as 99999 below 123456, so that the pattern stays short.
fn below(bound: u64) -> u64 {
    if bound <= EXACT_MAX { bound - 1 } else { 10_u64.pow(bound.ilog10()) - 1 }
}

/// The whole numbers from `from` to `to`, without zeros in front.
fn numbers(from: u64, to: u64) -> String {
    let mut parts: Vec<String> = Vec::new();
    // Numbers of any digits, from so many to so many.
    let mut any: Option<(u32, u32)> = None;
    let mut start = from;
    while start <= to {
        // As many digits at the end as can be any: the block begins with all of them zero, and ends before `to`.
        let mut free = 0;
        while start > 0 && start.is_multiple_of(10_u64.pow(free + 1)) && start + 10_u64.pow(free + 1) - 1 <= to {
            free += 1;
        }
        let block = 10_u64.pow(free);
        let (before, first) = (start / block / 10, start / block % 10);
        let last = (first..=9).rev().find(|last| (before * 10 + last + 1) * block - 1 <= to).unwrap_or(first);
        start = (before * 10 + last + 1) * block;
        if (before, first, last) == (0, 1, 9) {
            any = Some((any.map_or(free, |(least, _)| least), free));
            continue;
        }
        let before = if before > 0 { before.to_string() } else { String::new() };
        let digit = if first == last { first.to_string() } else { format!("[{first}-{last}]") };
        parts.push(format!("{before}{digit}{}", digits(free, free)));
    }
    parts.extend(any.map(|(least, most)| format!("[1-9]{}", digits(least, most))));
    if let [part] = &*parts { part.clone() } else { format!("({})", parts.join("|")) }
}

/// So many digits.
fn digits(least: u32, most: u32) -> String {
    match (least, most) {
        (0, 0) => String::new(),
        (1, 1) => "[0-9]".to_owned(),
        _ if least == most => format!("[0-9]{{{least}}}"),
        _ => format!("[0-9]{{{least},{most}}}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::duration::parse_setting;

    fn fits(pattern: &str) -> impl Fn(&str) -> bool + use<> {
        let validator = jsonschema::validator_for(&json!({"pattern": pattern})).unwrap();
        move |text| validator.is_valid(&json!(text))
    }

    #[test]
    fn numbers_are_those_of_the_range_and_no_other() {
        for (from, to) in
            [(0, 0), (0, 9), (1, 1), (5, 9), (5, 10), (0, 299), (1, 1_000), (7, 3_599), (60, 86_399), (99, 100)]
        {
            let is_one = fits(&format!("^{}$", numbers(from, to)));
            for number in 0..=to + 1_200 {
                assert_eq!(is_one(&number.to_string()), (from..=to).contains(&number), "{number} of {from} to {to}");
            }
            assert!(!is_one("") && !is_one("00") && !is_one("01"));
        }
        assert_eq!(numbers(0, 999_999_999), "([0-9]|[1-9][0-9]{1,8})");
        assert_eq!(numbers(5, 99_999), "([5-9]|[1-9][0-9]{1,4})");
    }

    #[test]
    fn a_text_that_fits_lasts_as_long_as_it_may() {
        let second = 1_000_000;
        for (least_us, most_us) in [
            (0, Some(300 * second)),
            (1, None),
            (0, None),
            (5 * second, Some(86_400 * second)),
            (5 * second, Some(3_600 * second)),
        ] {
            let does_fit = fits(&pattern(least_us, most_us));
            let most_us = most_us.unwrap_or(LONGEST_US);
            let mut fitting = 0;
            // Numbers about each bound, and far from it, with each unit, and with a part of it after it.
            for (name, unit_us, _) in UNITS {
                let bounds =
                    [0, 1, 2, least_us / unit_us, most_us / unit_us, below((most_us / unit_us).max(1)), u64::MAX / 2];
                for number in bounds.into_iter().flat_map(|bound| bound.saturating_sub(2)..=bound + 2) {
                    for part in ["", ".0", ".001", ".999", "0s", "59s", "59m59s", "7m"] {
                        let text = if part.starts_with('.') {
                            format!("{number}{part}{name}")
                        } else {
                            format!("{number}{name}{part}")
                        };
                        if does_fit(&text) {
                            fitting += 1;
                            let lasts_us = parse_setting(&text).unwrap_or_else(|error| panic!("{text} {error}"));
                            assert!((least_us..=most_us).contains(&lasts_us), "{text} of {least_us} to {most_us}");
                        }
                    }
                }
            }
            assert!(fitting > 50, "{fitting} of {least_us} to {most_us}");
        }
    }

    #[test]
    fn the_usual_texts_fit() {
        let keep = fits(&pattern(0, Some(300_000_000)));
        assert!(
            ["0", "0s", "30s", "300s", "1m30s", "4m59s", "5m", "500ms", "1.5s", "2.25m", "30000ms"].map(&keep)
                == [true; 11]
        );
        assert!(["301s", "5m1s", "5.1m", "1h", "1d", "-1s", "30", "1 s", "", "300001ms"].map(&keep) == [false; 10]);
        let ttl = fits(&pattern(1, None));
        assert!(["1ms", "30s", "1m30s", "12h", "1h30m", "1h0m5s", "7d", "1.5h", "31536000s"].map(&ttl) == [true; 9]);
        assert!(["0", "0s", "0.5s", "0h", "0ms"].map(&ttl) == [false; 5], "some of them last no time");
        let wait_ttl = fits(&pattern(5_000_000, Some(86_400_000_000)));
        assert!(["5s", "5000ms", "1m", "24h", "1d", "86400s", "23h59m59s"].map(&wait_ttl) == [true; 7]);
        assert!(["4s", "4999ms", "0m", "25h", "2d", "1.5d", "86401s", "24h1s"].map(&wait_ttl) == [false; 8]);
    }
}
