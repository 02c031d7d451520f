//! Recordings of the timeline, the history, and times by spawn site.

use std::sync::Arc;

use wakeful::inspect::page::{self};
use wakeful::runtime::Builder;
use wakeful::sync::Notify;
use wakeful::task::{self, yield_now};

use super::runtime;
use crate::page_client::Client;

#[test]
fn a_recording_shows_polls() {
    let rt = runtime();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let started = client.act("/api/v1/record", "{\"seconds\":30}");
    assert!(started.body.contains("\"recording\":true"), "{}", started.body);
    // Workers start to record when they next check their drivers.
    let trace = loop {
        rt.block_on(async {
            let yields = || async {
                for _ in 0..100 {
                    yield_now().await;
                }
            };
            task::Builder::new().name("recorded").spawn(yields()).unwrap().await.unwrap();
        });
        let trace = client.get("/api/v1/trace").body;
        if trace.contains(",\"poll\",") {
            break trace;
        }
    };
    assert!(trace.contains("\"name\":\"worker 0\""), "{trace}");
    let file = client.get("/api/v1/trace.json");
    assert!(file.head.contains("attachment; filename=\"wakeful-trace.json\""));
    assert!(file.body.contains("\"traceEvents\""));
}

#[test]
fn a_recording_has_more_events_than_a_buffer_and_counts_those_that_are_lost() {
    let rt = Builder::new_current_thread().build().unwrap();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let yields = |count: usize| {
        rt.block_on(async {
            let yields = async move {
                for _ in 0..count {
                    yield_now().await;
                }
            };
            wakeful::spawn(yields).await.unwrap();
        });
    };
    // First in small portions, which are copied before the next one overwrites them. Then in large portions.
    for (portion, is_enough) in [
        (100, (|kept, _| kept > 10_000) as fn(usize, u64) -> bool),
        (100_000, |_, dropped| dropped > 0),
    ] {
        loop {
            // Starts another recording if the last one has ended.
            client.act("/api/v1/record", "{\"seconds\":30}");
            yields(portion);
            let trace = client.get("/api/v1/trace").body;
            let dropped = trace.split_once("\"dropped\":").unwrap().1;
            let dropped = dropped.split(',').next().unwrap().parse().unwrap();
            if is_enough(trace.matches(",\"poll\",").count(), dropped) {
                // The task has ended, but its site is known.
                assert!(trace.contains("tests/page/recordings.rs:"), "{}", &trace[..1000]);
                break;
            }
        }
    }
}

#[test]
fn the_history_of_a_current_thread_runtime_has_its_queue_and_its_block_on() {
    let rt = Builder::new_current_thread().build().unwrap();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    let id = rt.handle().id();
    let sample = || {
        page.step();
        let history = client.get("/api/v1/history").body;
        let own = history.split_once(&format!("\"id\":{id},")).map(|(_, own)| own.to_owned());
        let own = own.unwrap_or_default();
        let own = own.split("\"id\":").next().unwrap_or_default().to_owned();
        own.rsplit_once("{\"t\":").map_or(String::new(), |(_, last)| last.to_owned())
    };
    rt.block_on(async {
        let tasks: Vec<_> = (0..7).map(|_| wakeful::spawn(async {})).collect();
        // Walks over the tasks are limited to a share of the time.
        while !sample().contains("\"queued\":7") {}
        // This poll of the `block_on` has lasted since the last sample.
        let sample = sample();
        assert!(sample.contains("\"busy\":[1.0]") || sample.contains("\"busy\":[1]"), "{sample}");
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn times_by_site_and_ended_tasks_are_recorded() {
    let rt = runtime();
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    // A number of ended tasks is recorded in each second.
    loop {
        let panics = async { panic!("on purpose") };
        let panics = task::Builder::new().name("unlucky").spawn_on(panics, rt.handle()).unwrap();
        let error = rt.block_on(panics).unwrap_err();
        assert!(error.is_panic());
        let ended = client.get(&format!("/api/v1/task?runtime=1&task=t{}", error.id())).body;
        if ended.contains("\"name\":\"unlucky\"") {
            assert!(ended.contains("\"outcome\":\"panicked\""), "{ended}");
            break;
        }
    }
    assert!(client.get("/api/v1/ended?limit=500").body.contains("unlucky"));
    let stop = Arc::new(Notify::new());
    let site = std::panic::Location::caller();
    let line = site.line() + 3;
    let stopped = stop.clone();
    let yields = rt.spawn(async move {
        loop {
            wakeful::select! {
                () = stopped.notified() => return,
                () = yield_now() => {}
            }
        }
    });
    let runtime = rt.handle().id();
    let query = format!("/api/v1/groups?runtime={runtime}&q=recordings.rs:{line}:");
    while !client.get(&query).body.contains("\"poll_p99_us\":") {
        std::thread::yield_now();
    }
    while client.get(&query).body.contains("\"poll_p99_us\":null") {
        std::thread::yield_now();
    }
    stop.notify_one();
    rt.block_on(yields).unwrap();
}
