//! tracing-subscriber, unmodified: a tree of spans over tasks that tokio's functions spawn.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tracing::{Instrument, info, info_span, instrument};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wakeful_tracing::SpanFields;

/// What tracing-subscriber has written.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Output {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Output {
    /// Takes the lines so far, sorted.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap();
        let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
        lines.sort();
        lines
    }
}

#[instrument]
async fn request(id: u32) {
    info!("begins");
    let mut parts = JoinSet::new();
    for part in 0..2 {
        parts.spawn(async move {
            yield_now().await;
            info!(part, "in a task");
            spawn_blocking(move || info!(part, "in a closure")).await.unwrap();
        });
    }
    parts.join_all().await;
    let (tx, mut rx) = mpsc::channel(1);
    let store = info_span!("store", key = id * 10);
    tokio::spawn(async move { tx.send(Handle::current().dump()).await.unwrap() }.instrument(store));
    let dump = rx.recv().await.unwrap();
    let spans = dump.tasks().iter().map(|task| task.info().to_string());
    let own = format!("[request{{id={id}}}:store{{key={}}}]", id * 10);
    assert_eq!(spans.filter(|text| text.ends_with(&own)).count(), 1, "{}", dump.full());
    info!("ends");
}

#[test]
fn a_tree_of_spans_covers_spawned_tasks_and_closures() {
    let output = Output::default();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(output.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time();
    SpanFields::new(tracing_subscriber::registry().with(lines)).init();
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(4);
    for mut builder in [Builder::new_current_thread(), multi_thread] {
        let runtime = builder.enable_all().on_spawn(wakeful_tracing::inherit_span).build().unwrap();
        runtime.block_on(async {
            let mut requests = JoinSet::new();
            (1..=3).for_each(|id| drop(requests.spawn(request(id))));
            requests.join_all().await;
        });
        let expected = |id: u32| {
            let part = move |part: u32| {
                ["in a closure", "in a task"]
                    .map(|what| format!("INFO request{{id={id}}}: {what} part={part}"))
            };
            let own = ["begins", "ends"].map(|what| format!("INFO request{{id={id}}}: {what}"));
            [part(0), part(1), own].concat()
        };
        let mut expected: Vec<_> = (1..=3).flat_map(expected).collect();
        expected.sort();
        assert_eq!(output.take(), expected);
    }
}
