//! The messages of `run`, all of them on standard error: lines for people, a live one on a terminal, or JSON.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use leasehold_client::Progress;
use leasehold_client::text::printable;
use serde_json::{Value, json};

use super::args::SayForm;

/// After these, and then every minute, a log gets a line about the wait.
const LINES_AFTER_S: [u64; 3] = [1, 10, 30];

pub(super) struct Voice {
    form: SayForm,
    is_quiet: bool,
    is_live: bool,
    /// There is a live line on the terminal.
    is_line_open: bool,
    /// Lines about the wait so far.
    lines: usize,
}

impl Voice {
    pub(super) fn new(form: SayForm, is_quiet: bool) -> Voice {
        let is_live = form == SayForm::Text && std::io::stderr().is_terminal();
        Voice { form, is_quiet, is_live, is_line_open: false, lines: 0 }
    }

    /// Prints a line about an event.
    pub(super) fn say(&mut self, event: &str, text: &str) {
        if !self.is_quiet {
            self.tell(event, text, json!({}));
        }
    }

    /// Prints a line even with `--quiet`.
    pub(super) fn fail(&mut self, text: &str) {
        self.tell("failed", text, json!({}));
    }

    fn tell(&mut self, event: &str, text: &str, mut members: Value) {
        self.erase();
        let line = match self.form {
            SayForm::Text => format!("leasehold: {text}\n"),
            SayForm::Json => {
                members["event"] = event.into();
                members["message"] = text.into();
                format!("{members}\n")
            }
        };
        // The reader of standard error may be gone.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Shows the progress of the wait.
    pub(super) fn waiting(&mut self, what: &str, elapsed: Duration, progress: &Progress) {
        if self.is_quiet || elapsed < Duration::from_secs(1) {
            return;
        }
        let text = describe(what, elapsed, progress);
        if self.is_live {
            let width = terminal_width().saturating_sub(1);
            let line: String = format!("leasehold: {text}").chars().take(width).collect();
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            self.is_line_open = true;
            return;
        }
        let due = match LINES_AFTER_S.get(self.lines) {
            Some(seconds) => *seconds,
            None => 60 * (self.lines - LINES_AFTER_S.len() + 1) as u64,
        };
        // The first look at the queue takes a moment.
        let is_known = self.lines > 0 || !progress.holders.is_empty() || elapsed >= Duration::from_secs(2);
        if elapsed.as_secs() >= due && is_known {
            self.lines += 1;
            let members = json!({
                "elapsed_s": elapsed.as_secs_f64(), "queue_position": progress.queue_position,
                "holders": progress.holders, "waiting": progress.waiting, "places_lost": progress.places_lost,
            });
            self.tell("waiting", &text, members);
        }
    }

    /// Before the command has the terminal.
    pub(super) fn erase(&mut self) {
        if self.is_line_open {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.is_line_open = false;
        }
    }
}

fn describe(what: &str, elapsed: Duration, progress: &Progress) -> String {
    let mut text = format!("waiting for {what} for {}", span(elapsed));
    if let Some(position) = progress.queue_position {
        let _ = write!(text, ", place {position} in the queue");
    } else if let Some(waiting) = progress.waiting {
        let _ = write!(text, ", {waiting} waiting");
    }
    match &progress.holders[..] {
        [] => {}
        [one] => {
            let _ = write!(text, ", held by {}", printable(one));
        }
        [one, others @ ..] => {
            let _ = write!(text, ", held by {} and {} more", printable(one), others.len());
        }
    }
    if progress.places_lost > 0 {
        text.push_str(", asked again at the end of the queue");
    }
    text
}

/// In whole seconds.
pub(super) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn terminal_width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| usize::from(size.ws_col));
    // A terminal that was never told its size, such as that of a serial line or of `expect`, says 0.
    columns.filter(|columns| *columns > 0).unwrap_or(80).max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_described_by_what_is_known_of_it() {
        let mut progress = Progress::default();
        assert_eq!(describe("lock a", Duration::from_secs(59), &progress), "waiting for lock a for 59 s");
        progress.waiting = Some(3);
        progress.holders = vec!["ann".into()];
        assert_eq!(
            describe("it", Duration::from_mins(1), &progress),
            "waiting for it for 1 min 0 s, 3 waiting, held by ann"
        );
        progress.queue_position = Some(2);
        progress.holders.push("bob".into());
        progress.places_lost = 1;
        assert_eq!(
            describe("it", Duration::from_hours(1), &progress),
            "waiting for it for 1 h 0 min, place 2 in the queue, held by ann and 1 more, asked again at the end of the queue"
        );
    }
}
