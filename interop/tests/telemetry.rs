//! OpenTelemetry on wakeful: metrics of the runtime and spans of its tasks reach an exporter.
//!
//! The SDK's own background tasks run on the same runtime, through its support for tokio.

use std::time::Duration;

use interop::on_every_runtime;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::{FutureExt, TraceContextExt, Tracer, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::periodic_reader_with_async_runtime::PeriodicReader;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::runtime;
use opentelemetry_sdk::trace::span_processor_with_async_runtime::BatchSpanProcessor;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{spawn_blocking, yield_now};

/// Returns the last value of an instrument of integers, as it was exported.
fn exported(metrics: &[ResourceMetrics], name: &str) -> u64 {
    let scopes = metrics.iter().flat_map(|resource| resource.scope_metrics());
    let found = scopes.flat_map(|scope| scope.metrics()).filter(|metric| metric.name() == name);
    let AggregatedMetrics::U64(data) = found.last().expect(name).data() else {
        panic!("{name} has integers")
    };
    let values: Vec<u64> = match data {
        MetricData::Gauge(gauge) => gauge.data_points().map(|point| point.value()).collect(),
        MetricData::Sum(sum) => sum.data_points().map(|point| point.value()).collect(),
        _ => panic!("{name} is a gauge or a counter"),
    };
    assert_eq!(values.len(), 1, "{name} has one series: {values:?}");
    values[0]
}

#[test]
fn metrics_of_the_runtime_are_exported() {
    on_every_runtime(|| async {
        let exporter = InMemoryMetricExporter::default();
        // The flush below exports, not the interval.
        let reader = PeriodicReader::builder(exporter.clone(), runtime::Tokio)
            .with_interval(Duration::from_secs(3600))
            .build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let meter = provider.meter("interop");
        let handle = Handle::current();
        let (workers, alive, queue) = (handle.metrics(), handle.metrics(), handle.metrics());
        let _workers = meter
            .u64_observable_gauge("tokio.runtime.workers")
            .with_callback(move |gauge| gauge.observe(workers.num_workers() as u64, &[]))
            .build();
        let _alive = meter
            .u64_observable_gauge("tokio.runtime.alive_tasks")
            .with_callback(move |gauge| gauge.observe(alive.num_alive_tasks() as u64, &[]))
            .build();
        let _queue = meter
            .u64_observable_gauge("tokio.runtime.global_queue_depth")
            .with_callback(move |gauge| gauge.observe(queue.global_queue_depth() as u64, &[]))
            .build();
        let handled = meter.u64_counter("interop.handled").build();

        // Ten tasks that count, and three that wait for the end of the test.
        let (done, mut all_done) = mpsc::channel::<()>(1);
        for _ in 0..10 {
            let (handled, done) = (handled.clone(), done.clone());
            tokio::spawn(async move {
                yield_now().await;
                handled.add(1, &[KeyValue::new("route", "/")]);
                drop(done);
            });
        }
        drop(done);
        assert_eq!(all_done.recv().await, None);
        let (ends, waits): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| {
                let (end, ended) = oneshot::channel::<()>();
                (end, tokio::spawn(ended))
            })
            .unzip();

        let flushed = provider.clone();
        spawn_blocking(move || flushed.force_flush()).await.unwrap().unwrap();
        let metrics = exporter.get_finished_metrics().unwrap();
        assert_eq!(exported(&metrics, "interop.handled"), 10);
        let workers = handle.metrics().num_workers() as u64;
        assert_eq!(exported(&metrics, "tokio.runtime.workers"), workers);
        // The three tasks, and the task of the SDK's reader.
        assert!(exported(&metrics, "tokio.runtime.alive_tasks") >= 4);
        let _ = exported(&metrics, "tokio.runtime.global_queue_depth");

        ends.into_iter().for_each(|end| end.send(()).unwrap());
        for wait in waits {
            wait.await.unwrap().unwrap();
        }
        spawn_blocking(move || provider.shutdown()).await.unwrap().unwrap();
    });
}

fn find<'s>(spans: &'s [SpanData], name: &str) -> &'s SpanData {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:?}"))
}

#[test]
fn spans_keep_their_parents_across_tasks_and_threads() {
    on_every_runtime(|| async {
        let exporter = InMemorySpanExporter::default();
        let processor = BatchSpanProcessor::builder(exporter.clone(), runtime::Tokio).build();
        let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
        let tracer = provider.tracer("interop");

        let request = Context::current_with_span(tracer.start("request"));
        let (inner, context) = (tracer.clone(), request.clone());
        let task = async move {
            // The context comes back at each poll, on the worker that has the task then.
            for _ in 0..3 {
                yield_now().await;
                assert!(Context::current().has_active_span());
            }
            let context = Context::current();
            let query = spawn_blocking(move || {
                drop(inner.start_with_context("query", &context));
            });
            query.await.unwrap();
        };
        tokio::spawn(task.with_context(context)).await.unwrap();
        assert!(!Context::current().has_active_span(), "it does not leak out of the task");
        request.span().end();
        drop(request);

        let flushed = provider.clone();
        spawn_blocking(move || flushed.force_flush()).await.unwrap().unwrap();
        let spans = exporter.get_finished_spans().unwrap();
        assert_eq!(spans.len(), 2, "{spans:?}");
        let (request, query) = (find(&spans, "request"), find(&spans, "query"));
        assert_eq!(query.parent_span_id, request.span_context.span_id());
        assert_eq!(query.span_context.trace_id(), request.span_context.trace_id());
        spawn_blocking(move || provider.shutdown()).await.unwrap().unwrap();
    });
}
