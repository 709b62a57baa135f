//! Histories as text, one op a line, for tables and for people:
//!
//! ```text
//! alice 0-10   configure p 2          -> ok @1.1
//! alice 20-30  acquire p ttl=100 key=k -> held L1 slot=0 token=1 @1.3
//! bob   20-    acquire p ttl=100      -> ?
//! bob   20-90  acquire p ttl=100      -> ?                  (whoever it was sent to was gone by 90)
//!
//! alice 0-10   claim r ttl=100        -> active C1 token=1 @1.2
//! bob   20-30  claim r ttl=100        -> waiting C2 @1.3
//! bob   40-50  view-claim r C2        -> in-line C2 place=1 @1.3
//! alice 60-70  update r C1 ttl=500    -> active C1 token=1 @1.4
//! alice 80-90  update r C1 released   -> released @1.6
//! bob   92-95  update r C2 active     -> active C2 token=2 @1.6
//!
//! alice 0-10   lock j alice ttl=100   -> acquired token=1 @1.2
//! bob   20-30  lock j bob ttl=100     -> locked-by alice @1.2
//! bob   700-710 lock j bob ttl=100    -> acquired from=alice token=2 @1.6
//! bob   720-730 unlock j bob          -> released @1.7
//! bob   740-750 view-lock j           -> lock-free @1.7
//! ```

use std::fmt;

use super::{Call, End, HeardAnswer, Op, Outcome, Stamp, Status, Taken, Wish};

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
    let call = call(&Words(words.collect()))?;
    let outcome = match heard.trim() {
        "?" if end.is_empty() => Outcome::Unknown { gone_us: None },
        "?" => Outcome::Unknown { gone_us: Some(number(end)?) },
        heard => {
            let (answer, stamp) = heard.rsplit_once('@').ok_or("an answer has its position")?;
            let (epoch, position) = stamp.split_once('.').ok_or("epoch.position")?;
            Outcome::Answered {
                end_us: number(end)?,
                answer: self::answer(&Words(answer.split_whitespace().collect()))?,
                stamp: Stamp { epoch: number(epoch)?, position: number(position)? },
            }
        }
    };
    Ok(Op { client, start_us: number(start)?, call, outcome })
}

struct Words<'a>(Vec<&'a str>);

impl Words<'_> {
    fn nth(&self, n: usize) -> Result<String, String> {
        self.0.get(n).map(|word| (*word).to_owned()).ok_or(format!("{:?} is too short", self.0))
    }

    /// `name=value`
    fn named(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        self.named(name).ok_or(format!("{name}=?")).and_then(number)
    }

    fn small(&self, name: &str) -> Result<u32, String> {
        self.number(name).and_then(|n| u32::try_from(n).map_err(|_| format!("{name} is small")))
    }
}

fn call(words: &Words<'_>) -> Result<Call, String> {
    let resource = words.nth(1)?;
    let key = || words.named("key").map(str::to_owned);
    let ttl_us = || words.number("ttl");
    Ok(match &*words.nth(0)? {
        "configure" => Call::Configure {
            resource,
            capacity: number(&words.nth(2)?)?.try_into().map_err(|_| "a capacity is small".to_owned())?,
        },
        "delete" => Call::Delete { resource },
        "acquire" => Call::Acquire { resource, ttl_us: ttl_us()?, key: key() },
        "renew" => Call::Renew { resource, lease: words.nth(2)?, ttl_us: ttl_us()? },
        "release" => Call::Release { resource, lease: words.nth(2)? },
        "view" => Call::View { resource },
        "view-lease" => Call::ViewLease { resource, lease: words.nth(2)? },
        "claim" => Call::Claim { resource, ttl_us: ttl_us()?, key: key() },
        "update" => Call::Update { resource, claim: words.nth(2)?, wish: wish(words)? },
        "view-claim" => Call::ViewClaim { resource, claim: words.nth(2)? },
        "lock" => Call::Lock { resource, client: words.nth(2)?, ttl_us: ttl_us()? },
        "unlock" => Call::Unlock { resource, client: words.nth(2)? },
        "view-lock" => Call::ViewLock { resource },
        other => return Err(format!("{other} is no call")),
    })
}

fn wish(words: &Words<'_>) -> Result<Wish, String> {
    Ok(match &*words.nth(3)? {
        "active" => Wish::Active,
        "released" => Wish::Released,
        "revoked" => Wish::Revoked,
        _ => Wish::Ttl { ttl_us: words.number("ttl")? },
    })
}

fn answer(words: &Words<'_>) -> Result<HeardAnswer, String> {
    let lease = || words.nth(1);
    Ok(match &*words.nth(0)? {
        "ok" => HeardAnswer::Configured,
        "deleted" => HeardAnswer::Deleted(true),
        "nothing-to-delete" => HeardAnswer::Deleted(false),
        "held" => HeardAnswer::Held { lease: lease()?, slot: words.small("slot")?, token: words.number("token")? },
        "waiting" => HeardAnswer::Waiting { lease: lease()? },
        "released" => HeardAnswer::Released(true),
        "not-released" => HeardAnswer::Released(false),
        "seen" => HeardAnswer::Seen { capacity: words.small("capacity")?, in_use: words.small("in_use")? },
        "full" => HeardAnswer::Full,
        "not-held" => HeardAnswer::NotHeld,
        "no-resource" => HeardAnswer::NoResource,
        "malformed" => HeardAnswer::Malformed,
        "key-spent" => HeardAnswer::KeySpent,
        "active" => HeardAnswer::Active { claim: lease()?, token: words.number("token")? },
        "in-line" => HeardAnswer::InLine { claim: lease()?, place: words.small("place")? },
        "ended" => HeardAnswer::Ended { claim: lease()?, how: end(&words.nth(2)?)? },
        "refused" => match &*words.nth(1)? {
            "waiting" => HeardAnswer::Refused { status: Status::Waiting },
            "active" => HeardAnswer::Refused { status: Status::Active },
            how => HeardAnswer::Refused { status: Status::Ended(end(how)?) },
        },
        "no-claim" => HeardAnswer::NoClaim,
        "acquired" => {
            let from = words.named("from").map(str::to_owned);
            HeardAnswer::Locked { token: words.number("token")?, how: Taken::Acquired { from } }
        }
        "renewed" => HeardAnswer::Locked { token: words.number("token")?, how: Taken::Renewed },
        "locked-by" => HeardAnswer::LockedBy { holder: lease()?, in_grace: words.0.contains(&"in-grace") },
        "not-the-holder" => HeardAnswer::NotTheHolder,
        "lock-free" => HeardAnswer::LockSeen { holder: None, is_expired: true },
        "lock-of" => HeardAnswer::LockSeen {
            holder: Some((lease()?, words.number("token")?)),
            is_expired: words.0.contains(&"expired"),
        },
        other => return Err(format!("{other} is no answer")),
    })
}

fn end(word: &str) -> Result<End, String> {
    Ok(match word {
        "released" => End::Released,
        "revoked" => End::Revoked,
        "expired" => End::Expired,
        "withdrawn" => End::Withdrawn,
        other => return Err(format!("{other} is no end")),
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
