//! Hand-made histories: those that can be are accepted, those that cannot are rejected for the right reason.

use leasehold_sim::history::{check, parse};

const GOOD: &str = include_str!("../histories/good.txt");
const BAD: &str = include_str!("../histories/bad.txt");

/// Titles and texts of the histories of a file.
fn histories(file: &str) -> Vec<(&str, &str)> {
    let sections = file.split("== ").filter(|section| !section.trim().is_empty());
    sections.map(|section| section.split_once('\n').unwrap_or((section, ""))).collect()
}

#[test]
fn what_can_be_is_accepted() {
    let good = histories(GOOD);
    assert!(good.len() >= 40, "{} good histories", good.len());
    for (title, text) in good {
        let history = parse(text).unwrap_or_else(|error| panic!("{title}: {error}"));
        if let Err(contradiction) = check(&history) {
            panic!("{title}: {contradiction}");
        }
    }
}

#[test]
fn what_cannot_be_is_rejected() {
    let bad = histories(BAD);
    assert!(bad.len() >= 40, "{} bad histories", bad.len());
    for (title, text) in bad {
        let (title, reason) = title.split_once(" !! ").expect("a bad history says why");
        let history = parse(text).unwrap_or_else(|error| panic!("{title}: {error}"));
        match check(&history) {
            Ok(()) => panic!("{title}: was accepted"),
            Err(contradiction) => assert!(contradiction.why.contains(reason), "{title}: {contradiction}"),
        }
    }
}

#[test]
fn a_line_that_is_none_is_named() {
    assert_eq!(parse("a 0-1 view p -> seen").unwrap_err().line, 1);
    assert_eq!(parse("# a comment\n\nnonsense").unwrap_err().line, 3);
}
