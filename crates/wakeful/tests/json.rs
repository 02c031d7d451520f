//! Dumps and traces as JSON: they parse, whatever the names of tasks are.

use std::sync::Arc;

use wakeful::runtime::{Builder, Handle};
use wakeful::sync::{Mutex, Notify};
use wakeful::task::{self, yield_now};

mod support {
    pub mod json;
}
use support::json::Json;

const NAME: &str = "a \"name\",\n with \\ and {\u{1}} ✓ \u{7f}";

#[test]
fn a_dump_parses_and_says_what_the_dump_says() {
    let rt = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .block_on_name("main")
        .name(NAME)
        .build()
        .unwrap();
    rt.block_on(async {
        let (lock, stop) = (Arc::new(Mutex::new(())), Arc::new(Notify::new()));
        let guard = lock.clone().lock_owned().await;
        let over = stop.clone();
        let builder = task::Builder::new().name(NAME);
        let holder = builder.spawn(async move {
            over.notified().await;
            drop(guard);
        });
        let waiter = task::Builder::new().name("waiter").spawn(async move {
            drop(lock.lock().await);
        });
        let (holder, waiter) = (holder.unwrap(), waiter.unwrap());
        let dump = loop {
            let dump = Handle::current().dump();
            let wait = dump.find(waiter.id()).and_then(|task| task.waiting_on());
            if wait.is_some_and(|wait| wait.kind() == "Mutex::lock" && !wait.holders().is_empty()) {
                break dump;
            }
            yield_now().await;
        };
        let json = Json::parse(&dump.to_json());
        assert_eq!(json.get("workers").list().len(), 2);
        assert_eq!(json.get("tasks").list().len(), dump.tasks().len());
        let by_name = |name: &str| {
            let is_it = |task: &&Json| *task.get("name") == Json::Text(name.to_owned());
            json.get("tasks").list().iter().find(is_it).unwrap_or_else(|| panic!("{json:?}"))
        };
        let wait = by_name("waiter").get("waiting_on");
        assert_eq!(wait.get("kind").text(), "Mutex::lock");
        let held_by = &wait.get("holders").list()[0];
        assert_eq!(held_by.get("name").text(), "main", "{held_by:?}");
        by_name(NAME);
        stop.notify_one();
        holder.await.unwrap();
        waiter.await.unwrap();
    });
}

#[test]
fn a_trace_parses_and_every_event_has_what_viewers_ask_for() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let rt = builder.worker_threads(2).enable_all().on_report(|_| {}).build().unwrap();
        rt.handle().record(true);
        rt.block_on(async {
            let task = task::Builder::new().name(NAME).spawn(async {
                for _ in 0..500 {
                    yield_now().await;
                }
            });
            task.unwrap().await.unwrap();
            // An orphan, which makes a report.
            drop(wakeful::spawn(std::future::pending::<()>()));
            wakeful::time::sleep(std::time::Duration::from_millis(1)).await;
        });
        let json = Json::parse(&rt.handle().trace());
        let events = json.get("traceEvents").list();
        assert!(events.len() > 10, "{}", events.len());
        let mut rows = Vec::new();
        for event in events {
            assert_eq!(event.get("pid").number(), 1.0);
            let row = event.get("tid").number();
            match event.get("ph").text() {
                "M" => rows.push(event.get("args").get("name").text().to_owned()),
                "X" => assert!(event.get("ts").number() >= 0.0 && event.get("dur").number() >= 0.0),
                "i" => assert!(event.get("ts").number() >= 0.0 && event.get("s").text() == "t"),
                other => panic!("{other}"),
            }
            assert!((row as usize) < rows.len(), "a row is named before its events: {event:?}");
        }
        assert_eq!((&*rows[0], rows.last().map(String::as_str)), ("worker 0", Some("reports")));
    }
}
