//! The destination and form of the log: standard error, one line an event, times in UTC.

use anyhow::Context as _;
use tracing_subscriber::filter::Targets;
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
        LogFormat::Human => registry.with(layer.compact().with_target(false)).try_init(),
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
        LogFormat::Human => layer.compact().with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
    };
    let started = tracing_subscriber::registry().with(layer.with_filter(filter)).with(traces.layer()).try_init();
    started.map_err(|error| anyhow::anyhow!("logging could not be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
