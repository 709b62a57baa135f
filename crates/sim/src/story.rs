//! The events of a world, line by line, for people. Only kept when a person wants to read it; a digest of the run is
//! always kept, so that two runs of a seed can be compared cheaply.

use std::fmt;

#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    is_told: bool,
    text: String,
    lines: u64,
}

impl Story {
    pub(crate) fn new(is_told: bool) -> Self {
        Story { is_told, text: String::new(), lines: 0 }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    pub(crate) fn line(&mut self, now_us: u64, what: fmt::Arguments<'_>) {
        self.lines += 1;
        if self.is_told {
            use fmt::Write as _;
            let (s, us) = (now_us / 1_000_000, now_us % 1_000_000);
            writeln!(self.text, "{s:3}.{us:06}  {what}").expect("a string takes what is written to it");
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
