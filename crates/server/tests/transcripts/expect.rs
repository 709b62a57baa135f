//! Answers compared with a transcript, placeholders and all, and written down the way a transcript would.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::client::{RawAnswer, Request};
use crate::script::Expected;

/// Longer bodies are cut into lines.
const WIDTH: usize = 118;

const UUID_LEN: usize = 36;

/// The values of the placeholders in one transcript.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    values: BTreeMap<String, String>,
    /// All requests so far, in lower case: a text in them was not made up by the service.
    asked: String,
    /// With several partitions, the numbers that each of them counts for itself are not compared.
    has_many: bool,
}

/// A piece of text with placeholders in it.
enum Piece<'a> {
    Literal(&'a str),
    /// `{a}`
    Known(&'a str),
    /// `<uuid a>`
    NewUuid(&'a str),
    /// `<text a>`
    NewText(&'a str),
}

impl Names {
    pub(crate) fn of(partitions: usize) -> Self {
        Names { has_many: partitions > 1, ..Names::default() }
    }

    pub(crate) fn has_many(&self) -> bool {
        self.has_many
    }

    /// A request with its placeholders filled in.
    pub(crate) fn fill(&mut self, request: &Request) -> Result<Request, String> {
        let filled = Request {
            method: request.method.clone(),
            target: self.fill_text(&request.target)?,
            headers: request
                .headers
                .iter()
                .map(|(name, value)| Ok((name.clone(), self.fill_text(value)?)))
                .collect::<Result<_, String>>()?,
            body: self.fill_text(&request.body)?,
        };
        self.asked += &format!("{filled:?}").to_ascii_lowercase();
        Ok(filled)
    }

    fn fill_text(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Literal(literal) => filled += literal,
                Piece::Known(name) => match name.split_once('*') {
                    Some((what, times)) => filled += &what.repeat(times.parse().expect("a count was read")),
                    None => filled += self.values.get(name).ok_or_else(|| format!("{{{name}}} is nothing yet"))?,
                },
                Piece::NewUuid(_) | Piece::NewText(_) => return Err(format!("a request invents nothing: {text}")),
            }
        }
        Ok(filled)
    }

    /// The difference of an answer; `None` if there is none.
    pub(crate) fn check(&mut self, expected: &Expected, answer: &RawAnswer) -> Option<String> {
        let mut wrong = String::new();
        let mut differs = |what: &str, expected: &str, actual: &str| {
            let _ = write!(wrong, "  {what}\n    expected {expected}\n    actual   {actual}\n");
        };
        if expected.status != answer.status {
            differs("status", &expected.status, &answer.status);
        }
        for (name, value) in &expected.headers {
            if self.has_many && COUNTED_HEADERS.contains(&&**name) {
                continue;
            }
            let actual = answer.header(name);
            if !actual.is_some_and(|actual| self.matches(value, actual)) {
                differs(name, value, actual.unwrap_or("(absent)"));
            }
        }
        for name in &expected.absent {
            if let Some(actual) = answer.header(name) {
                differs(name, "(absent)", actual);
            }
        }
        let comparable = |text: &str| if self.has_many { without_counts(text) } else { text.to_owned() };
        for text in &expected.inside {
            let is_inside =
                self.fill_text(text).is_ok_and(|text| comparable(&answer.body).contains(&comparable(&text)));
            if !is_inside {
                differs("body", &format!("… {text} …"), &answer.body);
            }
        }
        for text in &expected.nowhere {
            let is_inside = self.fill_text(text).is_ok_and(|text| answer.body.contains(&text));
            if is_inside {
                differs("body", &format!("without {text}"), &answer.body);
            }
        }
        match &expected.beginning {
            Some(beginning) if self.match_beginning(&comparable(beginning), &comparable(&answer.body)).is_none() => {
                differs("body", &format!("{beginning} …"), &answer.body);
            }
            None if !expected.is_in_part() && !self.matches(&expected.body, &answer.body) => {
                differs("body", &expected.body, &answer.body);
            }
            _ => {}
        }
        (!wrong.is_empty()).then(|| wrong.trim_end().to_owned())
    }

    fn matches(&mut self, template: &str, actual: &str) -> bool {
        if self.has_many {
            return self.match_beginning(&without_counts(template), &without_counts(actual)) == Some("");
        }
        self.match_beginning(template, actual) == Some("")
    }

    /// The rest after the part that fits the template. Names are given as they are met.
    fn match_beginning<'t>(&mut self, template: &str, actual: &'t str) -> Option<&'t str> {
        let mut rest = actual;
        for piece in pieces(template) {
            rest = match piece {
                Piece::Literal(literal) => rest.strip_prefix(literal)?,
                Piece::Known(name) => rest.strip_prefix(&*self.fill_text(&format!("{{{name}}}")).ok()?)?,
                Piece::NewUuid(name) => {
                    let (uuid, after) = rest.split_at_checked(UUID_LEN)?;
                    self.name(name, uuid, is_random_uuid(uuid))?;
                    after
                }
                Piece::NewText(name) => {
                    let len = rest.find(|c: char| !c.is_ascii_graphic() || c == '"').unwrap_or(rest.len());
                    let (text, after) = rest.split_at(len);
                    self.name(name, text, !text.is_empty())?;
                    after
                }
            };
        }
        Some(rest)
    }

    /// A new value was in no request, and has not been seen under another name.
    fn name(&mut self, name: &str, value: &str, is_fit: bool) -> Option<()> {
        let is_known = self.values.contains_key(name) || self.is_named(value);
        if !is_fit || is_known || self.asked.contains(&value.to_ascii_lowercase()) {
            return None;
        }
        self.values.insert(name.to_owned(), value.to_owned());
        Some(())
    }

    /// The answer as a transcript would have it, asking for the same headers.
    pub(crate) fn write(&mut self, name: Option<&str>, expected: &Expected, answer: &RawAnswer) -> Vec<String> {
        let name = name.map_or(String::new(), |name| format!("{name} "));
        let mut lines = vec![format!("< {name}{}", answer.status)];
        for (name, value) in &expected.headers {
            match answer.header(name) {
                Some(actual) if self.matches(value, actual) => lines.push(format!("< {name}: {value}")),
                Some(actual) => lines.push(format!("< {name}: {}", self.generalise(actual))),
                None => lines.push(format!("< absent: {name}")),
            }
        }
        for name in &expected.absent {
            lines.push(match answer.header(name) {
                Some(actual) => format!("< {name}: {}", self.generalise(actual)),
                None => format!("< absent: {name}"),
            });
        }
        lines.extend(expected.beginning.iter().map(|text| format!("<^ {text}")));
        lines.extend(expected.inside.iter().map(|text| format!("<+ {text}")));
        lines.extend(expected.nowhere.iter().map(|text| format!("<- {text}")));
        if !expected.is_in_part() && !answer.body.is_empty() {
            lines.extend(wrap(&self.generalise(&answer.body)));
        }
        lines
    }

    /// Puts placeholders where the service made up a value.
    fn generalise(&mut self, actual: &str) -> String {
        let mut general = String::new();
        let mut rest = actual;
        while !rest.is_empty() {
            let is_made_up = |uuid: &&str| self.is_named(uuid) || !self.asked.contains(*uuid);
            let uuid = rest.get(..UUID_LEN).filter(|uuid| is_random_uuid(uuid)).filter(is_made_up);
            if let Some(uuid) = uuid {
                let known = self.values.iter().find(|(_, value)| *value == uuid).map(|(name, _)| name);
                let _ = match known {
                    Some(name) => write!(general, "{{{name}}}"),
                    None => write!(general, "<uuid {}>", self.invent(uuid)),
                };
                rest = &rest[UUID_LEN..];
            } else {
                let (first, after) = rest.split_at(rest.chars().next().map_or(0, char::len_utf8));
                general += first;
                rest = after;
            }
        }
        general
    }

    fn is_named(&self, value: &str) -> bool {
        self.values.values().any(|known| known == value)
    }

    fn invent(&mut self, value: &str) -> String {
        let free = ('a'..='z').map(String::from).find(|name| !self.values.contains_key(name));
        let name = free.expect("no transcript has more than 26 names");
        self.values.insert(name.clone(), value.to_owned());
        name
    }
}

/// Lower case, with hyphens, of version 4, or of version 8 for a claim, whose id names its partition.
fn is_random_uuid(text: &str) -> bool {
    let is_uuid = uuid::Uuid::try_parse(text).is_ok_and(|uuid| uuid.hyphenated().to_string() == text);
    is_uuid && matches!(text.as_bytes()[14], b'4' | b'8')
}

/// Headers about the order of a partition, or of a list with several.
const COUNTED_HEADERS: [&str; 2] = ["leasehold-position", "link"];
/// Members with a number that a partition counts, or the place of an answer or event.
const COUNTED_MEMBERS: [&str; 7] = [
    "\"token\":",
    "\"order\":",
    "\"latest_token\":",
    "\"latest\":",
    "\"position\":\"",
    "\"oldest_id\":\"",
    "\"id\":\"",
];

/// The text without the numbers that a partition counts. Ids of claims stay.
fn without_counts(text: &str) -> String {
    let mut without = String::new();
    let mut rest = text;
    while let Some((at, member)) =
        COUNTED_MEMBERS.iter().filter_map(|member| rest.find(member).map(|at| (at, *member))).min()
    {
        let (before, after) = rest.split_at(at + member.len());
        without += before;
        let len = after.find(|c: char| !c.is_ascii_digit() && !".:,".contains(c) || c == ',' && !member.ends_with('"'));
        let (counted, after) = after.split_at(len.unwrap_or(after.len()));
        // A UUID may begin with digits, and so may a name.
        let is_counted = !member.ends_with('"') || after.starts_with('"') && counted.contains('.');
        without += if is_counted { "#" } else { counted };
        rest = after;
    }
    without + rest
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut literal_from, mut at) = (0, 0);
    while at < text.len() {
        if let Some((piece, len)) = placeholder(&text[at..]) {
            pieces.push(Piece::Literal(&text[literal_from..at]));
            pieces.push(piece);
            at += len;
            literal_from = at;
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    pieces.push(Piece::Literal(&text[literal_from..]));
    pieces
}

fn placeholder(text: &str) -> Option<(Piece<'_>, usize)> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    for (opening, closing) in [("<uuid ", '>'), ("<text ", '>'), ("{", '}')] {
        let Some((name, _)) = text.strip_prefix(opening).and_then(|rest| rest.split_once(closing)) else { continue };
        let is_repetition = name.split_once('*').is_some_and(|(what, times)| what.len() == 1 && is_name(times));
        let piece = match opening {
            "<uuid " if is_name(name) => Piece::NewUuid(name),
            "<text " if is_name(name) => Piece::NewText(name),
            "{" if is_name(name) || is_repetition => Piece::Known(name),
            _ => continue,
        };
        return Some((piece, opening.len() + name.len() + 1));
    }
    None
}

/// A body as lines of an answer, cut between members.
fn wrap(body: &str) -> Vec<String> {
    let mut lines = vec!["< ".to_owned()];
    let mut rest = body;
    while !rest.is_empty() {
        let cut = rest.match_indices(",\"").chain(rest.match_indices(",{")).map(|(at, _)| at + 1).min();
        let (member, after) = rest.split_at(cut.unwrap_or(rest.len()));
        let line = lines.last_mut().expect("there is one from the start");
        if line.len() + member.len() > WIDTH && line.trim_end().len() > 1 {
            lines.push(format!("<   {member}"));
        } else {
            line.push_str(member);
        }
        rest = after;
    }
    lines
}
