//! Reports become events with kind, task and site, in the span of their task.

use std::future::pending;
use std::panic::resume_unwind;

use tracing::{Level, info_span};
use wakeful::runtime::Builder;
use wakeful::sync::Mutex;
use wakeful::task::{self, yield_now};
use wakeful_tracing::{emit_report, inherit_span};

mod support;
use support::{Seen, builders, reports};

/// Waits for the report of this kind by this runtime.
fn wait_for(kind: &str, runtime: &str) -> Seen {
    loop {
        let is_wanted = |event: &&Seen| {
            event.field("kind") == Some(kind) && event.field("runtime") == Some(runtime)
        };
        if let Some(event) = reports().iter().find(is_wanted) {
            return event.clone();
        }
        std::thread::yield_now();
    }
}

fn named(builder: &mut Builder, name: &str) -> wakeful::runtime::Runtime {
    builder
        .name(name)
        .on_spawn(inherit_span)
        .on_report(emit_report)
        .report_blocked_after(None)
        .build()
        .unwrap()
}

#[test]
fn an_orphan_is_an_error_in_the_span_of_its_task() {
    for (n, mut builder) in builders().into_iter().enumerate() {
        let name = format!("orphans {n}");
        let runtime = named(&mut builder, &name);
        let (orphan, line) = info_span!("request", id = 5).in_scope(|| {
            let builder = task::Builder::new().name("lost");
            (builder.spawn_on(pending::<()>(), runtime.handle()).unwrap(), line!())
        });
        runtime.block_on(yield_now());
        let event = wait_for("orphan", &name);
        assert_eq!((event.target.as_str(), event.level), ("wakeful", Level::ERROR));
        assert_eq!(event.field("certainty"), Some("proven"));
        let task = format!("task {} \"lost\" [request{{id=5}}]", orphan.id());
        assert_eq!(event.field("task"), Some(task.as_str()));
        let site = event.field("site").unwrap();
        assert!(site.starts_with(&format!("{}:{line}:", file!())), "{site}");
        assert!(event.field("message").unwrap().contains("fix: "));
        assert_eq!(event.spans, [("request", Some("5".to_owned()))]);
    }
}

#[test]
fn an_unobserved_panic_has_the_fields_of_a_span_that_is_closed() {
    for (n, mut builder) in builders().into_iter().enumerate() {
        let name = format!("panics {n}");
        let runtime = named(&mut builder, &name);
        let task = info_span!("request", id = 6)
            .in_scope(|| runtime.spawn(async { resume_unwind(Box::new("planted")) }));
        let id = task.id();
        drop(task);
        runtime.block_on(yield_now());
        let event = wait_for("unobserved_panic", &name);
        let text = format!("task {id} [request{{id=6}}]");
        assert_eq!(event.field("task"), Some(text.as_str()));
        assert_eq!(event.spans, [], "the span is closed");
    }
}

#[test]
fn a_suspected_report_is_a_warning_and_has_all_tasks() {
    let name = "deadlock";
    let runtime = named(&mut builders()[0], name);
    let (a, b) = (Mutex::new(()), Mutex::new(()));
    let locks = std::sync::Arc::new((a, b));
    runtime.block_on(async {
        let other = locks.clone();
        let first = wakeful::spawn(async move {
            let _a = other.0.lock().await;
            yield_now().await;
            drop(other.1.lock().await);
        });
        let second = wakeful::spawn(async move {
            let _b = locks.1.lock().await;
            yield_now().await;
            drop(locks.0.lock().await);
        });
        for _ in 0..4 {
            yield_now().await;
        }
        let found = wakeful::runtime::Handle::current().diagnose();
        found.iter().for_each(emit_report);
        let event = wait_for("deadlock", name);
        let (first_id, second_id) = (first.id().to_string(), second.id().to_string());
        let task = event.field("task").unwrap();
        assert!(task.contains(&first_id) && task.contains(&second_id), "{task}");
        assert!(event.field("site").unwrap().starts_with(file!()));
        let is_proven = event.field("certainty") == Some("proven");
        assert_eq!(event.level, if is_proven { Level::ERROR } else { Level::WARN });
        assert!(event.spans.is_empty());
        first.abort();
        second.abort();
    });
}
