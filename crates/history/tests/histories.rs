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

/// A history that was heard once is kept as text, and searched again from there.
#[test]
fn what_is_printed_is_read_as_the_same() {
    let all = [POOLS_GOOD, POOLS_BAD, CLAIMS_GOOD, CLAIMS_BAD, LOCKS_GOOD, LOCKS_BAD];
    for (title, history) in all.into_iter().flat_map(histories) {
        for op in history {
            assert_eq!(parse(&op.to_string()).as_deref(), Ok(&[op][..]), "{title}");
        }
    }
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
    // A grant that was handed back and made again has a higher token, never a lower one.
    for (token, is_possible) in [(1, false), (2, true), (3, true)] {
        let text = format!("c 20-95 lock j c ttl=100 -> acquired token={token} @2.6\n{shown}");
        assert_eq!(search(&parse(&text).unwrap(), rules).is_ok(), is_possible, "token {token}");
    }
}

/// The same of a pool: it was full, or in use, by a slot whose holder heard of it later, after another grant.
#[test]
fn a_slot_that_was_still_asked_for_may_be_in_use_before_its_own_answer() {
    let rules = Rules { asks_repeat: true, ..RULES };
    let asked = "a 0-1 configure p 2 -> ok @1.1\n\
                 b 2-10 acquire p ttl=1000 -> held B slot=0 token=1 @1.3\n\
                 c 12-95 acquire p ttl=1000 -> held C slot=1 token=2 @1.9\n";
    let full = "a 20-30 acquire p ttl=1000 -> full @1.5\n";
    let in_use = "a 20-30 view p -> seen capacity=2 in_use=2 @1.5\n";
    let next = "b 40-50 release p B -> released @1.6\nd 60-70 acquire p ttl=1000 -> held D slot=0 token=3 @1.8\n";
    for seen in [full, in_use, ""] {
        let history = parse(&format!("{asked}{seen}{next}")).unwrap();
        assert!(search(&history, RULES).is_err(), "by itself no caller asks again");
        search(&history, rules).unwrap_or_else(|contradiction| panic!("{seen}: {contradiction}"));
    }
    // Before it asked, it cannot have had the slot.
    for seen in ["a 2-11 acquire p ttl=1000 -> full @1.5\n", "a 2-11 view p -> seen capacity=2 in_use=2 @1.5\n"] {
        assert!(search(&parse(&format!("{asked}{seen}")).unwrap(), rules).is_err(), "{seen}");
    }
    // One more slot than there were callers was never in use.
    let three = asked.replace("configure p 2", "configure p 3");
    assert!(search(&parse(&format!("{three}{full}")).unwrap(), rules).is_err());
}

/// A renewal may shorten a lease, and be asked for again when the lease has ended of that.
#[test]
fn a_lease_may_end_by_a_renewal_that_was_still_asked_for() {
    let rules = Rules { asks_repeat: true, ..RULES };
    let held = "a 0-1 configure p 1 -> ok @1.1\na 2-10 acquire p ttl=1000 -> held A slot=0 token=1 @1.3\n";
    let seen = "b 40-50 view p -> seen capacity=1 in_use=0 @2.5\n";
    for told in ["not-held @2.6", "?"] {
        let history = format!("{held}a 12-60 renew p A ttl=20 -> {told}\n{seen}");
        search(&parse(&history).unwrap(), rules).unwrap_or_else(|contradiction| panic!("{told}: {contradiction}"));
    }
    for (title, renewed) in [
        ("it cannot end before it asked", "a 51-60 renew p A ttl=20 -> not-held @2.6\n"),
        ("nor before the end of the shorter ttl", "a 12-60 renew p A ttl=50 -> not-held @2.6\n"),
        ("by itself no caller asks again", ""),
    ] {
        assert!(search(&parse(&format!("{held}{renewed}{seen}")).unwrap(), rules).is_err(), "{title}");
    }
    let lock = "a 0-10 lock j a ttl=1000 -> acquired token=1 @1.2\n\
                a 12-200 lock j a ttl=20 -> locked-by b @2.6\n\
                b 100-110 lock j b ttl=1000 -> acquired from=a token=2 @2.5\n";
    assert!(search(&parse(lock).unwrap(), RULES).is_err(), "by itself no caller asks again");
    search(&parse(lock).unwrap(), rules).unwrap_or_else(|contradiction| panic!("{contradiction}"));
}

/// A wait that ended with a refusal, and is asked for again, is refused again: as of the first time.
#[test]
fn a_refusal_may_be_of_the_time_when_its_caller_asked_first() {
    let rules = Rules { asks_repeat: true, ..RULES };
    let deleted = "a 0-1 configure p 1 -> ok @1.1\n\
                   a 10-20 delete p -> deleted @1.3\n\
                   a 30-40 configure p 1 -> ok @2.4\n\
                   b 5-90 acquire p ttl=1000 -> no-resource @2.6\n";
    let full = "a 0-1 configure p 1 -> ok @1.1\n\
                a 2-10 acquire p ttl=1000 -> held A slot=0 token=1 @1.3\n\
                a 30-40 release p A -> released @2.4\n\
                b 5-90 acquire p ttl=1000 -> full @2.6\n";
    let locked = "a 0-10 lock j a ttl=1000 -> acquired token=1 @1.2\n\
                  a 30-40 unlock j a -> released @2.4\n\
                  b 5-90 lock j b ttl=1000 -> locked-by a @2.6\n";
    for history in [deleted, full, locked] {
        assert!(search(&parse(history).unwrap(), RULES).is_err(), "by itself no caller asks again");
        search(&parse(history).unwrap(), rules).unwrap_or_else(|contradiction| panic!("{history}: {contradiction}"));
        let late = history.replace("b 5-90", "b 45-90");
        assert!(search(&parse(&late).unwrap(), rules).is_err(), "it was not so since it asked");
    }
    let spent = "a 0-1 configure p 1 -> ok @1.1\nb 5-90 acquire p ttl=20 key=k -> key-spent @2.6\n";
    assert!(search(&parse(spent).unwrap(), RULES).is_err(), "by itself no caller asks again");
    search(&parse(spent).unwrap(), rules).unwrap_or_else(|contradiction| panic!("{contradiction}"));
}

/// The owner that died may have handed a grant back before: the call is granted again, with a token of its own.
#[test]
fn a_grant_may_be_handed_back_and_made_again_while_its_caller_asks() {
    let rules = Rules { asks_repeat: true, ..RULES };
    let before = "a 0-1 configure p 2 -> ok @1.1\n\
                  b 10-20 view p -> seen capacity=2 in_use=1 @1.2\n\
                  b 30-40 view p -> seen capacity=2 in_use=0 @1.4\n\
                  b 50-60 view p -> seen capacity=2 in_use=1 @2.6\n";
    for asked in ["c 5-90 acquire p ttl=1000 -> held C slot=0 token=2 @2.8", "c 5-90 acquire p ttl=1000 -> ?"] {
        let history = parse(&format!("{before}{asked}\n")).unwrap();
        assert!(search(&history, RULES).is_err(), "by itself no caller asks again");
        let searched = search(&history, rules).unwrap_or_else(|contradiction| panic!("{asked}: {contradiction}"));
        assert_eq!(searched.asked_again, 1);
    }
    let heard = parse(&format!("{before}c 5-25 acquire p ttl=1000 -> held C slot=0 token=2 @1.3\n")).unwrap();
    assert!(search(&heard, rules).is_err(), "a grant that its caller heard of is not handed back");
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
