//! Traces over OTLP (HTTP, protobuf) to a collector, in builds with the feature `otlp`. The server makes the spans;
//! sending happens in batches on a thread of the exporter's own, and spans that a collector does not take in time are
//! dropped.

use anyhow::Context as _;
use leasehold_server::SPANS;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// Sends the remaining spans when it is dropped.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// To the collector at `endpoint`, such as `http://localhost:4318`. Not from within a runtime: the exporter blocks.
    pub(crate) fn to(endpoint: &str) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .context("otlp_endpoint")?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("leasehold").with_attribute(version).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Traces(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// The layer that makes our spans part of a trace. Only those: the log's events stay in the log.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.0.tracer("leasehold");
        let only_ours = Targets::new().with_target(SPANS, LevelFilter::INFO);
        tracing_opentelemetry::layer().with_tracer(tracer).with_filter(only_ours)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}
