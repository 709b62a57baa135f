//! The words of a story's line, and durations as people write them.

use std::collections::VecDeque;

pub(crate) struct Words<'a> {
    line: &'a str,
    words: VecDeque<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        Words { line, words: line.split_whitespace().collect() }
    }

    /// The next word, which must be there.
    pub(crate) fn take(&mut self) -> &'a str {
        self.words.pop_front().unwrap_or_else(|| panic!("`{}` ends too early", self.line))
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self) -> T {
        let word = self.take();
        word.parse().unwrap_or_else(|_| panic!("`{word}` in `{}` is no number", self.line))
    }

    /// The next word if it is this one.
    pub(crate) fn skip(&mut self, word: &str) -> bool {
        let is_next = self.words.front() == Some(&word);
        if is_next {
            self.words.pop_front();
        }
        is_next
    }

    /// The word after `name`, wherever the pair stands.
    pub(crate) fn option(&mut self, name: &str) -> Option<&'a str> {
        let at = self.words.iter().position(|&word| word == name)?;
        self.words.remove(at);
        Some(self.words.remove(at).unwrap_or_else(|| panic!("`{name}` in `{}` needs a value", self.line)))
    }

    pub(crate) fn duration(&mut self, name: &str) -> Option<u64> {
        self.option(name).map(duration_us)
    }

    /// Everything that is left, to be read again.
    pub(crate) fn rest(self) -> String {
        self.words.into_iter().collect::<Vec<_>>().join(" ")
    }

    /// Asserts that no unknown word is left.
    pub(crate) fn finish(self) {
        assert!(self.words.is_empty(), "`{}` has words too many: {:?}", self.line, self.words);
    }
}

/// `5s`, `500ms`, `3us`, `2m`, `1h`, `24h`.
pub(crate) fn duration_us(text: &str) -> u64 {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or_else(|| panic!("`{text}` has no unit"));
    let (number, unit) = text.split_at(unit_at);
    let unit_us = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60 * 1_000_000,
        "h" => 3_600 * 1_000_000,
        _ => panic!("`{text}` is no duration"),
    };
    number.parse::<u64>().unwrap_or_else(|_| panic!("`{text}` is no duration")) * unit_us
}

pub(crate) fn duration(us: u64) -> String {
    match us {
        _ if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        _ if us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        _ => format!("{us}us"),
    }
}
