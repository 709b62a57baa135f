//! Hand-made histories: possible ones are accepted, impossible ones are rejected for the right reason.

use std::fmt::Write as _;

use leasehold_history::{Op, Rules, check, parse, search};

const POOLS_GOOD: &str = include_str!("histories/pools_good.txt");
const POOLS_BAD: &str = include_str!("histories/pools_bad.txt");
const CLAIMS_GOOD: &str = include_str!("histories/claims_good.txt");
const CLAIMS_BAD: &str = include_str!("histories/claims_bad.txt");
const LOCKS_GOOD: &str = include_str!("histories/locks_good.txt");
const LOCKS_BAD: &str = include_str!("histories/locks_bad.txt");

/// Times in these histories are small.
const RULES: Rules = Rules { grace_us: 50, worlds_max: 2_000, asks_repeat: false };

/// Titles and ops of the histories of a file.
fn histories(file: &str) -> Vec<(&str, Vec<Op>)> {
    let sections = file.split("== ").filter(|section| !section.trim().is_empty());
    let titled = sections.map(|section| section.split_once('\n').unwrap_or((section, "")));
    titled.map(|(title, text)| (title, parse(text).unwrap_or_else(|error| panic!("{title}: {error}")))).collect()
}

#[test]
fn what_can_be_is_accepted() {
    let mut count = 0;
    for (title, history) in [POOLS_GOOD, CLAIMS_GOOD, LOCKS_GOOD].into_iter().flat_map(histories) {
        if let Err(contradiction) = check(&history) {
            panic!("{title}: the walk found {contradiction}");
        }
        if let Err(contradiction) = search(&history, RULES) {
            panic!("{title}: the search found {contradiction}");
        }
        count += 1;
    }
    assert!(count >= 80, "{count} good histories");
    println!("history: {count} good histories accepted");
}

/// The two checks word their reasons differently, so a test asks for the reason of the search only where the search
/// runs alone.
#[test]
fn what_cannot_be_with_pools_is_rejected_by_both() {
    let bad = histories(POOLS_BAD);
    assert!(bad.len() >= 40, "{} bad histories", bad.len());
    for (title, history) in &bad {
        let (title, reason) = title.split_once(" !! ").expect("a bad history says why");
        match check(history) {
            Ok(()) => panic!("{title}: was accepted by the walk"),
            Err(contradiction) => assert!(contradiction.why.contains(reason), "{title}: {contradiction}"),
        }
        assert!(search(history, RULES).is_err(), "{title}: was accepted by the search");
    }
    println!("history: {} bad histories of pools rejected", bad.len());
}

#[test]
fn what_cannot_be_with_claims_and_locks_is_rejected() {
    let bad: Vec<_> = [CLAIMS_BAD, LOCKS_BAD].into_iter().flat_map(histories).collect();
    assert!(bad.len() >= 35, "{} bad histories", bad.len());
    for (title, history) in &bad {
        let (title, reason) = title.split_once(" !! ").expect("a bad history says why");
        match search(history, RULES) {
            Ok(_) => panic!("{title}: was accepted"),
            Err(contradiction) => assert!(contradiction.why.contains(reason), "{title}: {contradiction}"),
        }
    }
    println!("history: {} bad histories of claims and locks rejected", bad.len());
}

/// A relay asked again after its owner died: others saw the holder before the position of the holder's own answer.
#[test]
fn a_holder_that_was_still_asking_may_be_shown_before_its_own_answer() {
    let rules = Rules { asks_repeat: true, ..RULES };
    let shown = "b 70-90 view-lock j -> lock-of c token=2 @2.4\n";
    let refused = "b 70-90 lock j b ttl=100 -> locked-by c @2.4\n";
    for seen in [shown, refused] {
        let text = format!(
            "a 0-10 lock j a ttl=100 -> acquired token=1 @1.2\n\
             c 20-95 lock j c ttl=100 -> acquired token=2 @2.6\n\
             a 30-40 unlock j a -> ?\n\
             {seen}"
        );
        let history = parse(&text).unwrap();
        assert!(search(&history, RULES).is_err(), "by itself no caller asks again");
        search(&history, rules).unwrap_or_else(|contradiction| panic!("{seen}: {contradiction}"));
    }
    // Before it asked, it cannot have been the holder.
    let early = "b 12-15 view-lock j -> lock-of c token=2 @2.4\nc 20-30 lock j c ttl=100 -> acquired token=2 @2.6\n";
    assert!(search(&parse(early).unwrap(), rules).is_err(), "shown before it asked");
    // Another token is another grant.
    let text = format!("c 20-95 lock j c ttl=100 -> acquired token=3 @2.6\n{shown}");
    assert!(search(&parse(&text).unwrap(), rules).is_err());
}

/// A search that gives up has shown nothing, and says so.
#[test]
fn a_search_that_gets_too_wide_is_a_failure() {
    let mut text = "a 0-1 configure p 50 -> ok @1.1\n".to_owned();
    for n in 0..14 {
        writeln!(text, "c{n} {}- acquire p ttl=1000{n} -> ?", 2 + n).unwrap();
    }
    text.push_str("a 50-60 acquire p ttl=1000 -> held A slot=7 token=9 @1.20\n");
    let history = parse(&text).unwrap();
    let given_up = search(&history, Rules { worlds_max: 100, ..RULES }).unwrap_err();
    assert!(given_up.why.contains("given up: more than 100 worlds"), "{given_up}");
}

#[test]
fn a_line_that_is_none_is_named() {
    assert_eq!(parse("a 0-1 view p -> seen").unwrap_err().line, 1);
    assert_eq!(parse("# a comment\n\nnonsense").unwrap_err().line, 3);
}
