//! Spans follow spawns, never cross, are exited on every path, and are shown in dumps.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tracing::{Instrument, Span, info, info_span};
use wakeful::runtime::{Builder, Handle, SpawnMeta};
use wakeful::task::{self, LocalSet, may_wait_forever, spawn_blocking, yield_now};
use wakeful_tracing::{TaskSpan, inherit_span, show_span};

mod support;
use support::{builders, closed, events_of};

/// Returns the text in brackets that the dump has for a task.
fn shown(id: task::Id) -> Option<String> {
    let dump = Handle::current().dump();
    let text = dump.find(id)?.info().to_string();
    Some(text.split_once('[')?.1.trim_end_matches(']').to_owned())
}

#[test]
fn every_kind_of_task_runs_in_the_span_of_its_spawn() {
    for mut builder in builders() {
        let runtime = builder.on_spawn(inherit_span).build().unwrap();
        let set = LocalSet::new();
        let root = async {
            let child = wakeful::spawn(
                async {
                    yield_now().await;
                    info!(test = "tree", at = "child");
                    let inner = info_span!("inner", id = 2);
                    let grandchild = inner.in_scope(|| {
                        wakeful::spawn(async {
                            yield_now().await;
                            info!(test = "tree", at = "grandchild");
                        })
                    });
                    grandchild.await.unwrap();
                    let in_closure = || {
                        info!(test = "tree", at = "closure");
                        Handle::current().spawn(async { info!(test = "tree", at = "of closure") })
                    };
                    spawn_blocking(in_closure).await.unwrap().await.unwrap();
                }
                .instrument(info_span!("handler")),
            );
            child.await.unwrap();
            let local = task::spawn_local(async {
                yield_now().await;
                info!(test = "tree", at = "local");
            });
            local.await.unwrap();
        };
        runtime.block_on(set.run_until(root.instrument(info_span!("request", id = 1))));
        let events = events_of("tree");
        let names = |at: &str| {
            let event = events.iter().find(|event| event.field("at") == Some(at)).unwrap();
            event.spans.iter().map(|(name, _)| *name).collect::<Vec<_>>()
        };
        assert_eq!(events.len(), 5);
        assert_eq!(names("child"), ["request", "handler"]);
        assert_eq!(names("grandchild"), ["request", "handler", "inner"]);
        assert_eq!(names("closure"), ["request", "handler"]);
        assert_eq!(names("of closure"), ["request", "handler"]);
        assert_eq!(names("local"), ["request"]);
    }
}

/// Checks that the innermost span belongs to the request.
fn check(request: usize, name: &str) {
    let span = Span::current();
    assert_eq!(span.metadata().map(|it| it.name()), Some(name), "request {request}");
    info!(test = "crossing", request);
}

#[test]
fn the_spans_of_ten_thousand_concurrent_requests_never_cross() {
    const REQUESTS: usize = 10_000;
    for mut builder in builders() {
        let runtime = builder.on_spawn(inherit_span).build().unwrap();
        let arrived = Arc::new(AtomicUsize::new(0));
        let requests: Vec<_> = (0..REQUESTS)
            .map(|request| {
                let arrived = arrived.clone();
                let handle = async move {
                    check(request, "request");
                    arrived.fetch_add(1, Relaxed);
                    // No request continues before all have begun.
                    while arrived.load(Relaxed) < REQUESTS {
                        yield_now().await;
                    }
                    check(request, "request");
                    let child = wakeful::spawn(async move {
                        yield_now().await;
                        check(request, "request");
                    });
                    let step = async move {
                        yield_now().await;
                        check(request, "step");
                    };
                    step.instrument(info_span!("step")).await;
                    child.await.unwrap();
                    yield_now().await;
                    check(request, "request");
                };
                info_span!("request", id = request).in_scope(|| runtime.spawn(handle))
            })
            .collect();
        runtime.block_on(async {
            for request in requests {
                request.await.unwrap();
            }
        });
        let events = events_of("crossing");
        assert_eq!(events.len(), 5 * REQUESTS);
        for event in events {
            let (name, id) = &event.spans[0];
            assert_eq!((*name, id.as_deref()), ("request", event.field("request")));
            assert!(event.spans.len() <= 2, "{event:?}");
        }
        drop(runtime);
    }
}

#[test]
fn a_span_is_left_when_its_task_panics_is_aborted_or_dropped() {
    for mut builder in builders() {
        let runtime = builder.on_spawn(inherit_span).on_report(|_| {}).build().unwrap();
        let in_span =
            |span: Span| span.in_scope(|| runtime.spawn(may_wait_forever(pending::<()>())));
        let panicked = info_span!("panics", id = "left 1").in_scope(|| {
            runtime.spawn(async {
                yield_now().await;
                resume_unwind(Box::new("planted"))
            })
        });
        let closure = info_span!("closure", id = "left 2")
            .in_scope(|| runtime.spawn_blocking(|| resume_unwind(Box::new("planted"))));
        let aborted = in_span(info_span!("aborted", id = "left 3"));
        let _dropped = in_span(info_span!("dropped", id = "left 4"));
        runtime.block_on(async {
            assert!(panicked.await.unwrap_err().is_panic());
            assert!(closure.await.unwrap_err().is_panic());
            aborted.abort();
            assert!(aborted.await.unwrap_err().is_cancelled());
            // As many tasks at once as any runtime here has workers, several times.
            let tasks: Vec<_> =
                (0..64).map(|_| wakeful::spawn(async { Span::current().is_none() })).collect();
            for task in tasks {
                assert!(task.await.unwrap(), "a worker is still in a span");
            }
            assert!(spawn_blocking(|| Span::current().is_none()).await.unwrap());
            assert!(Span::current().is_none());
        });
        drop(runtime);
    }
    for id in ["left 1", "left 2", "left 3", "left 4"] {
        assert_eq!(closed(id), 3, "one for each runtime: {id}");
    }
}

#[test]
fn a_span_is_closed_with_its_task_although_handle_and_dump_are_kept() {
    for (n, mut builder) in builders().into_iter().enumerate() {
        let runtime = builder.on_spawn(inherit_span).build().unwrap();
        let id = format!("closed {n}");
        let task = info_span!("request", id).in_scope(|| runtime.spawn(yield_now()));
        let dump = runtime.handle().dump();
        while !task.is_finished() {
            runtime.block_on(yield_now());
        }
        assert_eq!(closed(&id), 1);
        drop(dump);
        runtime.block_on(task).unwrap();
        assert_eq!(closed(&id), 1);
    }
}

#[test]
fn a_dump_has_name_and_fields_of_the_span_that_the_task_is_in() {
    support::init();
    let runtime = Builder::new_current_thread().on_spawn(inherit_span).build().unwrap();
    runtime.block_on(async {
        let (next, mut step) = wakeful::sync::mpsc::channel::<()>(1);
        let server = info_span!("server", port = 80);
        let request = info_span!(parent: &server, "request", id = 7, user = tracing::field::Empty);
        let task = request.in_scope(|| {
            wakeful::spawn(async move {
                step.recv().await;
                Span::current().record("user", "ada");
                async {
                    step.recv().await;
                }
                .instrument(info_span!("query", sql = "select"))
                .await;
                step.recv().await;
            })
        });
        let id = task.id();
        assert_eq!(shown(id).unwrap(), "server{port=80}:request{id=7}", "before its first poll");
        yield_now().await;
        assert_eq!(shown(id).unwrap(), "server{port=80}:request{id=7}");
        let go = async || {
            next.send(()).await.unwrap();
            yield_now().await;
        };
        go().await;
        let request = "server{port=80}:request{id=7 user=\"ada\"}";
        assert_eq!(shown(id).unwrap(), format!("{request}:query{{sql=\"select\"}}"));
        go().await;
        assert_eq!(shown(id).unwrap(), request, "the query has ended");
        let dump = Handle::current().dump();
        let json = dump.to_json();
        assert!(json.contains(r#""data":"server{port=80}:request{id=7 user=\"ada\"}""#), "{json}");
        let data = dump.find(id).unwrap().info().data::<TaskSpan>().unwrap();
        assert_eq!(data.metadata().unwrap().name(), "request");
        go().await;
        task.await.unwrap();
    });
}

#[test]
fn a_span_that_is_only_shown_is_not_inherited() {
    for mut builder in builders() {
        let runtime = builder.on_spawn(show_span).build().unwrap();
        let (wait, waiting) = wakeful::sync::oneshot::channel::<()>();
        let (entered, has_entered) = wakeful::sync::oneshot::channel::<()>();
        let task = info_span!("outer").in_scope(|| {
            runtime.spawn(async {
                assert!(Span::current().is_none());
                let inner = async {
                    entered.send(()).unwrap();
                    waiting.await.unwrap();
                };
                inner.instrument(info_span!("own", id = 1)).await;
                assert!(Span::current().is_none());
                yield_now().await;
                shown(task::id())
            })
        });
        runtime.block_on(async {
            has_entered.await.unwrap();
            assert_eq!(shown(task.id()).unwrap(), "own{id=1}");
            wait.send(()).unwrap();
            assert_eq!(task.await.unwrap(), None);
        });
    }
}

/// A hook may share the data of a task with its children. They lose the span when the first of the tasks ends.
#[test]
fn a_shared_span_is_not_entered_after_it_was_closed() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::fmt()
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(std::io::sink)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let share = |task: &mut SpawnMeta<'_>| match task.parent_data().cloned() {
            Some(data) => task.set_data(data),
            None => wakeful_tracing::inherit_span(task),
        };
        let runtime = Builder::new_current_thread().on_spawn(share).build().unwrap();
        let names = seen.clone();
        let child = async move {
            for _ in 0..3 {
                let name = tracing::Span::current().metadata().map(|span| span.name());
                names.lock().unwrap().push(name);
                yield_now().await;
            }
        };
        let spawned = tracing::info_span!("request")
            .in_scope(|| runtime.spawn(async { Some(wakeful::spawn(child)) }));
        runtime.block_on(async { spawned.await.unwrap().unwrap().await.unwrap() });
    });
    assert_eq!(*seen.lock().unwrap(), [None, None, None], "the parent has ended before");
}
