//! Spans of requests and commits, for builds with the feature `otlp`; in others everything here is empty and costs
//! nothing. The binary sends the spans. Routes are patterns and pools have no name, as everywhere.

#[cfg(feature = "otlp")]
pub(crate) use on::*;

#[cfg(not(feature = "otlp"))]
pub(crate) use off::*;

/// The target of spans, so that the log's filter and theirs do not meet.
pub const SPANS: &str = "leasehold::span";

#[cfg(feature = "otlp")]
mod on {
    use http::{HeaderMap, StatusCode};
    use opentelemetry::global::get_text_map_propagator;
    use opentelemetry::propagation::Extractor;
    use opentelemetry::trace::TraceContextExt as _;
    use tracing::field::Empty;
    use tracing::instrument::{Instrument, Instrumented};
    use tracing::{Span, info_span};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    use super::SPANS;
    use crate::http::RequestId;

    /// One request, from its head to its answer.
    #[derive(Clone, Debug)]
    pub(crate) struct RequestSpan(Span);

    impl RequestSpan {
        /// Goes on with the caller's trace, if `traceparent` names one.
        pub(crate) fn new(headers: &HeaderMap, id: &RequestId) -> Self {
            let span = info_span!(
                target: SPANS, "request", otel.kind = "server", otel.status_code = Empty,
                http.request.method = Empty, http.route = Empty, http.response.status_code = Empty, request = id.as_str(),
            );
            let parent = get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
            // Without a subscriber that knows of traces there is nothing to go on with.
            let _ = span.set_parent(parent);
            RequestSpan(span)
        }

        pub(crate) fn around<F: Future>(&self, future: F) -> Instrumented<F> {
            future.instrument(self.0.clone())
        }

        pub(crate) fn answered(&self, method: &str, pattern: &str, status: StatusCode) {
            // A recorded field names a span only before it has begun.
            self.0.context().span().update_name(format!("{method} {pattern}"));
            self.0.record("http.request.method", method);
            self.0.record("http.route", pattern);
            self.0.record("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                self.0.record("otel.status_code", "ERROR");
            }
        }
    }

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(http::HeaderName::as_str).collect()
        }
    }

    /// One append.
    pub(crate) fn commit<T>(changes: u64, bytes: usize, append: impl FnOnce() -> T) -> T {
        info_span!(target: SPANS, "commit", changes, bytes).in_scope(append)
    }
}

#[cfg(not(feature = "otlp"))]
mod off {
    use http::{HeaderMap, StatusCode};

    use crate::http::RequestId;

    #[derive(Clone, Debug)]
    pub(crate) struct RequestSpan;

    impl RequestSpan {
        pub(crate) fn new(_headers: &HeaderMap, _id: &RequestId) -> Self {
            RequestSpan
        }

        #[expect(clippy::unused_self, reason = "as it is where there are spans")]
        pub(crate) fn around<F: Future>(&self, future: F) -> F {
            future
        }

        #[expect(clippy::unused_self, reason = "as it is where there are spans")]
        pub(crate) fn answered(&self, _method: &str, _pattern: &str, _status: StatusCode) {}
    }

    pub(crate) fn commit<T>(_changes: u64, _bytes: usize, append: impl FnOnce() -> T) -> T {
        append()
    }
}
