//! The destination and form of the log: standard error, one line an event, times in UTC.

use std::fmt::{self, Debug, Write};

use anyhow::Context as _;
use leasehold_client::text::steers;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line, for machines.
    Json,
}

impl LogFormat {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "human" => Some(LogFormat::Human),
            "json" => Some(LogFormat::Json),
            _ => None,
        }
    }
}

/// Returns whether this is a level (`info`), or a list of levels by module (`info,leasehold_server=debug`).
pub(crate) fn is_filter(text: &str) -> bool {
    // The filter would take any lone word for the name of a module, and log nothing.
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b' ');
    let is_level = ["off", "error", "warn", "info", "debug", "trace"].iter().any(|l| text.eq_ignore_ascii_case(l));
    // Spans and fields are for other filters, and would be taken for names as well.
    let is_list = || !text.contains(['[', '{']) && text.parse::<Targets>().is_ok();
    if is_word { is_level } else { is_list() }
}

/// Starts logging for the whole process.
pub(crate) fn start(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    // Not the filter by name, level and field: it brings the whole of regular expressions with it.
    let filter: Targets = filter.parse().context("log_level")?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_timer(SystemTime)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    let started = match format {
        LogFormat::Human => registry.with(layer.fmt_fields(fields()).compact().with_target(false)).try_init(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
            registry.with(layer).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("logging could not be started: {error}"))
}

/// The same, and spans go where `traces` sends them. The log does not show them.
#[cfg(feature = "otlp")]
pub(crate) fn start_with(format: LogFormat, filter: &str, traces: &crate::otlp::Traces) -> anyhow::Result<()> {
    use tracing_subscriber::filter::{FilterExt as _, filter_fn};
    use tracing_subscriber::layer::Layer as _;

    let is_event = filter_fn(|metadata| metadata.target() != leasehold_server::SPANS);
    let filter = filter.parse::<Targets>().context("log_level")?.and(is_event);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_timer(SystemTime)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    let layer = match format {
        LogFormat::Human => layer.fmt_fields(fields()).compact().with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
    };
    let started = tracing_subscriber::registry().with(layer.with_filter(filter)).with(traces.layer()).try_init();
    started.map_err(|error| anyhow::anyhow!("logging could not be started: {error}"))
}

/// The fields of a line for people. A value may be text of a caller, or an error with such a text in it, so whatever
/// would end the line or steer a terminal is escaped in all of them.
fn fields() -> impl for<'writer> FormatFields<'writer> {
    format::debug_fn(write_field).delimited(" ")
}

fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match (field.name(), out.has_ansi_escapes()) {
        ("message", _) => {}
        (name, true) => write!(out, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
        (name, false) => write!(out, "{name}=")?,
    }
    write!(Escaping(out), "{value:?}")
}

struct Escaping<'a, 'b>(&'a mut Writer<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| steers(*c)) {
            write!(self.0, "{}{}", &rest[..at], c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_value_ends_the_line_or_steers_a_terminal() {
        let mut text = String::new();
        let mut out = Writer::new(&mut text);
        write!(Escaping(&mut out), "a\n\x1b[2J\u{202e}\u{2028}\r\u{7}é\u{9b}b").unwrap();
        assert_eq!(text, r"a\n\u{1b}[2J\u{202e}\u{2028}\r\u{7}é\u{9b}b");
    }

    #[test]
    fn filters_are_levels_or_lists() {
        for good in ["info", "off", "DEBUG", "warn,leasehold_server=trace", "leasehold_server=debug"] {
            assert!(is_filter(good), "{good}");
        }
        for bad in ["", " ", "loud", "information", "info,x=loud", "info,[span]=debug", "x[span{field=1}]=info"] {
            assert!(!is_filter(bad), "{bad}");
        }
    }
}
