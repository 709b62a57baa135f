//! Histories as text, one op a line, for tables and for people:
//!
//! ```text
//! alice 0-10   configure p 2          -> ok @1.1
//! alice 20-30  acquire p ttl=100 key=k -> held L1 slot=0 token=1 @1.3
//! bob   20-    acquire p ttl=100      -> ?
//! ```

use std::fmt;

use super::{Answer, Call, Op, Outcome, Stamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub line: usize,
    pub why: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// Reads a history. Empty lines and lines that begin with `#` are skipped.
pub fn parse(text: &str) -> Result<Vec<Op>, ParseError> {
    let lines = text.lines().enumerate().map(|(n, line)| (n, line.trim()));
    let ops = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    ops.map(|(n, line)| op(line).map_err(|why| ParseError { line: n + 1, why })).collect()
}

fn op(line: &str) -> Result<Op, String> {
    let (asked, heard) = line.split_once("->").ok_or("a line has an arrow")?;
    let mut words = asked.split_whitespace();
    let client = words.next().ok_or("who?")?.to_owned();
    let (start, end) = words.next().and_then(|span| span.split_once('-')).ok_or("when?")?;
    let call = call(&words.collect::<Vec<_>>())?;
    let outcome = match heard.trim() {
        "?" => Outcome::Unknown,
        heard => {
            let (answer, stamp) = heard.rsplit_once('@').ok_or("an answer has its position")?;
            let (epoch, position) = stamp.split_once('.').ok_or("epoch.position")?;
            Outcome::Answered {
                end_us: number(end)?,
                answer: self::answer(&answer.split_whitespace().collect::<Vec<_>>())?,
                stamp: Stamp { epoch: number(epoch)?, position: number(position)? },
            }
        }
    };
    Ok(Op { client, start_us: number(start)?, call, outcome })
}

fn call(words: &[&str]) -> Result<Call, String> {
    let named = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let word = |n: usize| words.get(n).map(|word| (*word).to_owned()).ok_or(format!("{words:?} is too short"));
    let ttl_us = || named("ttl").ok_or("ttl=?".to_owned()).and_then(number);
    let resource = word(1)?;
    Ok(match words[0] {
        "configure" => Call::Configure {
            resource,
            capacity: number(&word(2)?)?.try_into().map_err(|_| "a capacity is small".to_owned())?,
        },
        "delete" => Call::Delete { resource },
        "acquire" => Call::Acquire { resource, ttl_us: ttl_us()?, key: named("key").map(str::to_owned) },
        "renew" => Call::Renew { resource, lease: word(2)?, ttl_us: ttl_us()? },
        "release" => Call::Release { resource, lease: word(2)? },
        "view" => Call::View { resource },
        "view-lease" => Call::ViewLease { resource, lease: word(2)? },
        other => return Err(format!("{other} is no call")),
    })
}

fn answer(words: &[&str]) -> Result<Answer, String> {
    let named = |name: &str| {
        let found = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.ok_or(format!("{name}=?")).and_then(number)
    };
    let small = |name: &str| named(name).and_then(|n| u32::try_from(n).map_err(|_| format!("{name} is small")));
    let lease = || words.get(1).map(|word| (*word).to_owned()).ok_or("which lease?".to_owned());
    Ok(match *words.first().ok_or("what was answered?")? {
        "ok" => Answer::Configured,
        "deleted" => Answer::Deleted(true),
        "nothing-to-delete" => Answer::Deleted(false),
        "held" => Answer::Held { lease: lease()?, slot: small("slot")?, token: named("token")? },
        "waiting" => Answer::Waiting { lease: lease()? },
        "released" => Answer::Released(true),
        "not-released" => Answer::Released(false),
        "seen" => Answer::Seen { capacity: small("capacity")?, in_use: small("in_use")? },
        "full" => Answer::Full,
        "not-held" => Answer::NotHeld,
        "no-resource" => Answer::NoResource,
        other => return Err(format!("{other} is no answer")),
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
