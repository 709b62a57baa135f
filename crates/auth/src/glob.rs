//! Patterns of names: `*` stands for any run of characters, `?` for one. Nothing else is special, so that resource
//! names with brackets and dots mean themselves.

/// Returns whether `pattern` matches all of `text`. At worst the product of their lengths, and both are short.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return pattern == text;
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was, and how much of the text it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything/at all", true),
            ("build/*", "build/", true),
            ("build/*", "build/x/y", true),
            ("build/*", "build", false),
            ("*/deploy", "prod/deploy", true),
            ("*/deploy", "prod/deploy2", false),
            ("a?c", "abc", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("a*b*c", "a__b__b__c", true),
            ("a*b*c", "a__c__b", false),
            ("**", "x", true),
            ("[ab]", "a", false),
            ("[ab]", "[ab]", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_is_no_trouble() {
        let pattern = "*a".repeat(100);
        assert!(!matches(&pattern, &"a".repeat(99)));
        assert!(matches(&pattern, &"a".repeat(1000)));
    }
}
