//! A program with the subscriber of tokio-console builds and runs on wakeful.
//!
//! wakeful makes no spans by itself, so the console shows no tasks. With the hooks of
//! `trace_tasks` it shows tasks with their sites and polls.

use std::collections::BTreeMap;
use std::time::Duration;

use console_api::instrument::InstrumentRequest;
use console_api::instrument::instrument_client::InstrumentClient;
use console_api::tasks::{Stats, Task};
use console_subscriber::{ConsoleLayer, ServerParts};
use interop_unstable::trace_tasks;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tracing_subscriber::prelude::*;

/// How long the console may take. Only a hang comes near it.
const LIMIT: Duration = Duration::from_secs(60);

/// What the console was told of a task.
type Shown = (Task, Stats);

/// Runs three tasks that wait and one that ends. Returns what a console sees of the tasks that this
/// file spawns and that were polled. The last value is the number of all tasks that it sees.
///
/// Watches until `is_complete`, which gets the polled tasks and the number of updates.
fn watch(rt: &Runtime, is_complete: impl Fn(&[Shown], usize) -> bool) -> (Vec<Shown>, usize) {
    let (layer, server) =
        ConsoleLayer::builder().publish_interval(Duration::from_millis(20)).build();
    let subscriber = tracing_subscriber::registry().with(layer);
    // Workers have no subscriber of their own, so it is the one of the process.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let ServerParts { instrument_server, aggregator, .. } = server.into_parts();
    let program = async move {
        let aggregator = tokio::spawn(aggregator.run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Server::builder().add_service(instrument_server);
        let serve = tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));

        let ends: Vec<oneshot::Sender<()>> = (0..3)
            .map(|_| {
                let (end, ended) = oneshot::channel();
                drop(tokio::spawn(ended));
                end
            })
            .collect();
        tokio::spawn(yield_now()).await.unwrap();

        let mut client = InstrumentClient::connect(address).await.unwrap();
        let updates = client.watch_updates(InstrumentRequest {}).await.unwrap();
        let mut updates = updates.into_inner();
        // By id: the server may announce a task twice.
        let (mut tasks, mut stats) = (BTreeMap::new(), BTreeMap::new());
        let is_own = |task: &Task| {
            let file = task.location.as_ref().and_then(|site| site.file.as_deref());
            file.is_some_and(|file| file.ends_with("console.rs"))
        };
        for number in 1.. {
            let update = updates.message().await.unwrap().expect("the server goes on");
            let update = update.task_update.expect("each update has tasks");
            let new = update.new_tasks.into_iter();
            tasks.extend(new.map(|task| (task.id.as_ref().expect("an id").id, task)));
            stats.extend(update.stats_update);
            let polled = tasks.iter().filter(|(_, task)| is_own(task)).filter_map(|(id, task)| {
                let stats: &Stats = stats.get(id)?;
                let polls = stats.poll_stats.as_ref()?.polls;
                (polls > 0).then(|| (task.clone(), *stats))
            });
            let polled: Vec<Shown> = polled.collect();
            if is_complete(&polled, number) {
                drop(ends);
                serve.abort();
                aggregator.abort();
                return (polled, tasks.len());
            }
        }
        unreachable!("the updates do not end")
    };
    rt.block_on(async { tokio::time::timeout(LIMIT, program).await.expect("an update comes") })
}

/// A process has one subscriber, so each program runs in a child process.
#[test]
fn the_console_shows_the_tasks_that_hooks_trace() {
    // The console may not learn of its last poll: a task that has ended is not always sent again.
    let is_ended = |(_, stats): &&Shown| stats.dropped_at.is_some();
    match std::env::var("WAKEFUL_TEST_CONSOLE").as_deref() {
        Ok("plain") => {
            let rt = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let (_, all) = watch(&rt, |_, updates| updates == 3);
            assert_eq!(all, 0, "the document says that no task is shown");
        }
        Ok("traced") => {
            let mut builder = Builder::new_multi_thread();
            let rt = trace_tasks(builder.worker_threads(2).enable_all()).build().unwrap();
            // The aggregator and the server, three tasks that wait, and a task that ended.
            let (shown, all) = watch(&rt, |shown, _| {
                shown.len() == 6 && shown.iter().filter(is_ended).count() == 1
            });
            assert!(all >= 6, "{all}");
            let lines = shown.iter().map(|(task, _)| task.location.as_ref().unwrap().line());
            let lines: Vec<u32> = lines.collect();
            let most = lines.iter().map(|line| lines.iter().filter(|it| *it == line).count());
            assert_eq!(most.max(), Some(3), "three tasks are from one line: {lines:?}");
        }
        Ok(other) => panic!("{other}"),
        Err(_) => ["plain", "traced"].into_iter().for_each(run),
    }
}

/// Runs this test as a child process.
fn run(program: &str) {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_console_shows_the_tasks_that_hooks_trace", "--nocapture"])
        .env("WAKEFUL_TEST_CONSOLE", program)
        .status()
        .unwrap();
    assert!(status.success(), "{program}: {status}");
}
