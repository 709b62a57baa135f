//! Names that are written a little wrong: which one was meant.

/// The name that was probably meant, if one is near.
pub(crate) fn nearest(written: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let written = written.to_ascii_lowercase().replace('-', "_");
    let nearest = names.min_by_key(|name| distance(&written, name))?;
    (distance(&written, nearest) <= 1 + nearest.len() / 4).then_some(nearest)
}

/// Letters to insert, delete or replace to get from one to the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "abc", 3),
            ("max_tll", "max_ttl", 1),
            ("grcae", "grace", 2),
            ("x", "data", 4),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
