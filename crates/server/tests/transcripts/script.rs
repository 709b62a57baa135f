//! Transcripts as text: read into steps, each with the lines it came from so that they can be written again. `play`
//! carries out a step, `expect` checks an answer.

use leasehold_server::duration::parse_setting;

use crate::client::Request;

/// One promise.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) number: String,
    pub(crate) title: String,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) steps: Vec<Step>,
}

impl Transcript {
    /// It shows numbers or an order that one partition gives to resources of several.
    pub(crate) fn is_about_one_partition(&self) -> bool {
        self.settings.iter().any(|(name, value)| name == "partitions" && value == "one")
    }
}

#[derive(Debug)]
pub(crate) struct Step {
    /// Where in the file, counted from one.
    pub(crate) line: usize,
    pub(crate) text: Vec<String>,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// The heading, a setting, a comment or an empty line.
    Nothing,
    Ask {
        request: Request,
        name: Option<String>,
    },
    Answer {
        name: Option<String>,
        expected: Expected,
    },
    Pass {
        us: u64,
    },
    HangUp {
        name: String,
    },
    StillWaits {
        name: String,
    },
    Event(Event),
}

/// An answer as it is written down, with its placeholders.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) status: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) absent: Vec<String>,
    pub(crate) body: String,
    /// Given instead of a whole body.
    pub(crate) beginning: Option<String>,
    pub(crate) inside: Vec<String>,
    pub(crate) nowhere: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    StoreStalls,
    StoreGoesOn,
    /// Stopped, and started again after this much wall clock time.
    Down {
        us: u64,
    },
    ShutDown,
}

impl Expected {
    pub(crate) fn is_in_part(&self) -> bool {
        self.beginning.is_some() || !self.inside.is_empty() || !self.nowhere.is_empty()
    }
}

/// The lines before the first heading, and the transcripts.
pub(crate) fn parse(file: &str, text: &str) -> (Vec<String>, Vec<Transcript>) {
    let mut head = Vec::new();
    let mut transcripts: Vec<Transcript> = Vec::new();
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
    let mut rest = &lines[..];
    while let [(line, first), ..] = rest {
        let block_len = block_len(rest);
        let (block, after) = rest.split_at(block_len);
        let block: Vec<String> = block.iter().map(|(_, text)| (*text).to_owned()).collect();
        rest = after;
        if let Some(heading) = first.strip_prefix("## ") {
            let (number, title) = heading.split_once(' ').unwrap_or((heading, ""));
            let (number, title) = (number.to_owned(), title.to_owned());
            transcripts.push(Transcript { number, title, settings: Vec::new(), steps: Vec::new() });
        }
        let Some(transcript) = transcripts.last_mut() else {
            head.extend(block);
            continue;
        };
        if let Some(setting) = first.strip_prefix("@ ") {
            let (name, value) = setting.split_once(' ').unwrap_or_else(|| panic!("{file}:{line}: @ name value"));
            transcript.settings.push((name.to_owned(), value.to_owned()));
        }
        let what = read(&block).unwrap_or_else(|| panic!("{file}:{line}: cannot be read: {}", block.join("\n")));
        transcript.steps.push(Step { line: *line, text: block, what });
    }
    (head, transcripts)
}

/// Lines that belong together: those of one request, or of one answer. An answer begins with its status.
fn block_len(lines: &[(usize, &str)]) -> usize {
    let mark = lines[0].1.chars().next();
    if !matches!(mark, Some('>' | '<')) {
        return 1;
    }
    let goes_on = |text: &str| text.starts_with(['>', '<']) && text.chars().next() == mark && !is_status(text);
    1 + lines[1..].iter().take_while(|(_, text)| goes_on(text)).count()
}

/// `< 200` or `< w1 200`.
fn is_status(line: &str) -> bool {
    let words: Vec<&str> = line.strip_prefix("< ").unwrap_or("").split(' ').collect();
    words.len() <= 2 && words.last().is_some_and(|word| word.len() == 3 && word.parse::<u16>().is_ok())
}

fn read(block: &[String]) -> Option<What> {
    let first = &block[0];
    let (mark, text) = first.split_at_checked(2).unwrap_or((first, ""));
    Some(match mark {
        "> " => ask(block)?,
        "< " => answer(block)?,
        "~ " => What::Pass { us: parse_setting(text).ok()? },
        "x " => What::HangUp { name: text.to_owned() },
        "= " => What::StillWaits { name: text.strip_suffix(" waits")?.to_owned() },
        "! " => What::Event(match text {
            "the store stalls" => Event::StoreStalls,
            "the store goes on" => Event::StoreGoesOn,
            "the service shuts down" => Event::ShutDown,
            _ => Event::Down { us: parse_setting(text.strip_prefix("the service is down for ")?).ok()? },
        }),
        "" | "##" | "# " | "@ " => What::Nothing,
        _ => return None,
    })
}

fn ask(block: &[String]) -> Option<What> {
    let mut lines = block.iter().map(|line| line.strip_prefix("> ").or_else(|| line.strip_prefix('>')));
    let first = lines.next()??;
    let (first, name) = match first.split_once(" as ") {
        Some((first, name)) => (first, Some(name.to_owned())),
        None => (first, None),
    };
    let (method, target) = first.split_once(' ')?;
    let mut request = Request { method: method.to_owned(), target: target.to_owned(), ..Request::default() };
    let mut body: Vec<&str> = Vec::new();
    for line in lines {
        match header(line?).filter(|_| body.is_empty()) {
            Some(header) => request.headers.push(header),
            None => body.push(line?),
        }
    }
    request.body = body.join("\n");
    Some(What::Ask { request, name })
}

fn answer(block: &[String]) -> Option<What> {
    let first = block[0].strip_prefix("< ")?;
    let (name, status) = match first.split_once(' ') {
        Some((name, status)) => (Some(name.to_owned()), status),
        None => (None, first),
    };
    let mut expected = Expected { status: status.to_owned(), ..Expected::default() };
    for line in &block[1..] {
        let (mark, text) = line.split_at_checked(3)?;
        match mark {
            "<^ " => expected.beginning = Some(text.to_owned()),
            "<+ " => expected.inside.push(text.to_owned()),
            "<- " => expected.nowhere.push(text.to_owned()),
            _ => {
                let text = line.strip_prefix("< ")?;
                match header(text).filter(|_| expected.body.is_empty()) {
                    Some((name, value)) if name == "absent" => expected.absent.push(value),
                    Some(header) => expected.headers.push(header),
                    None => expected.body.push_str(text.trim_start()),
                }
            }
        }
    }
    Some(What::Answer { name, expected })
}

/// `name: value`. No JSON reads like one.
fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(": ")?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}
