//! The destination and form of the log: standard error, one line an event, times in UTC.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

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
    if is_word { is_level } else { EnvFilter::try_new(text).is_ok() }
}

/// Starts logging for the whole process.
pub(crate) fn start(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter).context("log_level")?)
        .with_writer(std::io::stderr)
        .with_timer(SystemTime)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    let started = match format {
        LogFormat::Human => builder.compact().with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging could not be started: {error}"))
}

/// The same, and spans go where `traces` sends them. The log does not show them.
#[cfg(feature = "otlp")]
pub(crate) fn start_with(format: LogFormat, filter: &str, traces: &crate::otlp::Traces) -> anyhow::Result<()> {
    use tracing_subscriber::filter::{FilterExt as _, filter_fn};
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    use tracing_subscriber::util::SubscriberInitExt as _;

    let is_event = filter_fn(|metadata| metadata.target() != leasehold_server::SPANS);
    let filter = EnvFilter::try_new(filter).context("log_level")?.and(is_event);
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
        for bad in ["", " ", "loud", "information", "info,x=loud"] {
            assert!(!is_filter(bad), "{bad}");
        }
    }
}
