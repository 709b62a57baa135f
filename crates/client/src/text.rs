//! Text of other callers, such as the name of a holder, as it may be printed: nothing in it ends a line, steers a
//! terminal or turns the direction of the text around it. A log of a build takes a line that begins with `::` for a
//! command.

/// The text with a replacement for each character that [`steers`].
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns whether a character ends a line, steers a terminal, turns the direction of text or cannot be seen.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_what_it_is_printed_on() {
        assert_eq!(
            printable("Zoë\n::warning::x\x1b[2J\u{202e}\u{2029}"),
            "Zoë\u{fffd}::warning::x\u{fffd}[2J\u{fffd}\u{fffd}"
        );
        assert_eq!(printable("多 a-b_c"), "多 a-b_c");
    }
}
