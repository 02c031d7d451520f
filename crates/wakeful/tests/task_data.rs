//! Data that a spawn hook attaches: which tasks get it, and where it is shown.

use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, mpsc};

use wakeful::inspect::{Report, page};
use wakeful::runtime::{Handle, SpawnMeta, TaskData};
use wakeful::sync::oneshot;
use wakeful::task::{self, JoinSet, LocalSet, spawn_blocking, yield_now};

mod support {
    pub mod json;
    pub mod page_client;
    pub mod runtimes;
    pub mod tags;
}
use support::json::Json;
use support::page_client::Client;
use support::runtimes::serial_builders;
use support::tags::Event::End;
use support::tags::{Event, Log, builders, number_of, tagged, tagging};

#[test]
fn the_hook_sees_each_kind_of_task_with_id_name_and_site() {
    for mut builder in builders() {
        let seen: Arc<Mutex<Vec<_>>> = Arc::default();
        let list = seen.clone();
        let runtime = builder
            .on_spawn(move |task| {
                let (site, name) = (task.spawned_at(), task.name().map(str::to_owned));
                assert!(format!("{task:?}").contains("spawned_at"));
                list.lock().unwrap().push((task.id(), name, site.file(), site.line()));
            })
            .build()
            .unwrap();
        let mut expected = Vec::new();
        let (outside, line) = (runtime.spawn(async {}), line!());
        expected.push((outside.id(), None, line));
        let (set, mut join_set) = (LocalSet::new(), JoinSet::new());
        let inside = runtime.block_on(set.run_until(async {
            let mut expected = Vec::new();
            let (plain, line) = (wakeful::spawn(async {}), line!());
            expected.push((plain.id(), None, line));
            let named = task::Builder::new().name("named");
            let (named, line) = (named.spawn(async {}).unwrap(), line!());
            expected.push((named.id(), Some("named".to_owned()), line));
            let (closure, line) = (spawn_blocking(|| ()), line!());
            expected.push((closure.id(), None, line));
            let (local, line) = (task::spawn_local(async {}), line!());
            expected.push((local.id(), None, line));
            let (joined, line) = (join_set.spawn(async {}), line!());
            expected.push((joined.id(), None, line));
            for task in [plain, named, local] {
                task.await.unwrap();
            }
            closure.await.unwrap();
            join_set.join_next().await.unwrap().unwrap();
            expected
        }));
        runtime.block_on(outside).unwrap();
        expected.extend(inside);
        let expected: Vec<_> =
            expected.into_iter().map(|(id, name, line)| (id, name, file!(), line)).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}

#[test]
fn a_dump_shows_the_data_of_each_task_as_value_text_and_json() {
    for (runtime, _log) in tagged() {
        let (wait, waiting) = oneshot::channel::<()>();
        let set = LocalSet::new();
        runtime.block_on(set.run_until(async {
            let named = task::Builder::new().name("first");
            let first = named.spawn(async { waiting.await.unwrap() }).unwrap();
            let local = task::spawn_local(task::may_wait_forever(pending::<()>()));
            let (release, released) = mpsc::channel::<()>();
            let closure = spawn_blocking(move || released.recv());
            let dump = Handle::current().dump();
            for (number, id) in [(1, first.id()), (2, local.id()), (3, closure.id())] {
                let info = dump.find(id).unwrap().info();
                assert_eq!(number_of(info), Some(number));
                let name = if number == 1 { " \"first\"" } else { "" };
                assert_eq!(info.to_string(), format!("task {id}{name} [tag {number}]"));
                let full = dump.full().to_string();
                assert!(full.contains(&format!("task {id}{name} [tag {number}] ")), "{full}");
                struct Other;
                impl fmt::Display for Other {
                    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                        Ok(())
                    }
                }
                impl TaskData for Other {}
                assert!(info.data::<Other>().is_none());
            }
            let json = Json::parse(&dump.to_json());
            let data = json.get("tasks").list().iter().map(|task| task.get("data").clone());
            let mut texts: Vec<_> = data.filter(|it| *it != Json::Null).collect();
            texts.sort_by_key(|text| text.text().to_owned());
            assert_eq!(texts, ["tag 1", "tag 2", "tag 3"].map(|text| Json::Text(text.to_owned())));
            let block_on = dump.tasks().iter().find(|task| task.info().is_block_on()).unwrap();
            assert_eq!(number_of(block_on.info()), None);
            local.abort();
            release.send(()).unwrap();
            closure.await.unwrap().unwrap();
            wait.send(()).unwrap();
            first.await.unwrap();
        }));
    }
}

#[test]
fn the_live_page_shows_the_data() {
    let (runtime, _log) = tagged().remove(0);
    let page = page::serve("127.0.0.1:0").unwrap();
    let client = Client::open(&page);
    runtime.block_on(async {
        let task = wakeful::spawn(task::may_wait_forever(pending::<()>()));
        let path = format!("/api/v1/task?runtime={}&task=t{}", Handle::current().id(), task.id());
        let answer = client.get(&path);
        let json = Json::parse(&answer.body);
        assert_eq!(json.get("task").get("data").text(), "tag 1", "{}", answer.body);
        task.abort();
    });
}

#[test]
fn a_task_inherits_if_the_hook_says_so() {
    for mut builder in builders() {
        let log = Log::default();
        let first = tagging(&log);
        let runtime = builder
            .on_spawn(move |task| match task.parent_data().cloned() {
                Some(data) => task.set_data(data),
                None => first(task),
            })
            .build()
            .unwrap();
        let own = || {
            let id = task::id();
            let dump = Handle::current().dump();
            number_of(dump.find(id).unwrap().info()).unwrap()
        };
        let set = LocalSet::new();
        let numbers = runtime.block_on(set.run_until(async move {
            let child = wakeful::spawn(async move {
                let grandchild = wakeful::spawn(async move { own() }).await.unwrap();
                let in_closure = spawn_blocking(move || {
                    (own(), Handle::current().block_on(wakeful::spawn(async move { own() })))
                });
                let (closure, of_closure) = in_closure.await.unwrap();
                [own(), grandchild, closure, of_closure.unwrap()]
            });
            let second = task::spawn_local(async move {
                let local = task::spawn_local(async move { own() }).await.unwrap();
                [own(), local]
            });
            (child.await.unwrap(), second.await.unwrap())
        }));
        assert_eq!(numbers, ([1, 1, 1, 1], [2, 2]));
        drop(runtime);
        let drops = log.all().into_iter().filter(|it| it.1 == Event::Drop).count();
        assert_eq!(drops, 2, "shared data is dropped once");
        let ends = log.of(1).into_iter().filter(|it| *it == End).count();
        assert_eq!(ends, 4, "and told of the end of each task");
    }
}

#[test]
fn reports_have_the_data() {
    for mut builder in serial_builders().map(|(_, builder)| builder) {
        let (tx, rx) = mpsc::channel::<Report>();
        let log = Log::default();
        let runtime = builder
            .on_spawn(tagging(&log))
            .report_blocked_after(None)
            .on_report(move |report| drop(tx.send(report.clone())))
            .build()
            .unwrap();
        let orphan = runtime.spawn(pending::<()>());
        runtime.block_on(yield_now());
        let report = rx.recv().unwrap();
        assert_eq!((report.kind(), report.tasks().len()), ("orphan", 1));
        assert_eq!(number_of(report.tasks()[0]), Some(1));
        let line = format!("task {} [tag 1]", orphan.id());
        assert!(report.to_string().contains(&line), "{report}");
        let json = Json::parse(&report.to_json());
        assert_eq!(json.get("tasks").list()[0].get("data").text(), "tag 1");
        assert_eq!(report.site().unwrap().file(), file!());

        let detached = runtime.spawn(async { resume_unwind(Box::new("planted")) });
        drop(detached);
        runtime.block_on(async { wakeful::spawn(async {}).await.unwrap() });
        let report = rx.recv().unwrap();
        assert_eq!((report.kind(), number_of(report.tasks()[0])), ("unobserved_panic", Some(2)));
        assert!(report.to_string().contains("[tag 2]"), "{report}");
        // The runtime remembers the report, and the handle of a task its runtime.
        drop((runtime, orphan));
        assert!(!log.of(2).contains(&Event::Drop), "the report still refers to it");
        drop(report);
        assert!(log.of(2).contains(&Event::Drop));
    }
}

#[test]
fn a_panic_of_the_hook_goes_to_the_caller_of_spawn() {
    for mut builder in builders() {
        let log = Log::default();
        let tag = tagging(&log);
        let hook = move |task: &mut SpawnMeta<'_>| {
            tag(task);
            resume_unwind(Box::new("planted"));
        };
        let runtime = builder.on_spawn(hook).build().unwrap();
        let set = LocalSet::new();
        let spawns: [&dyn Fn(); 3] =
            [&|| drop(wakeful::spawn(async {})), &|| drop(spawn_blocking(|| ())), &|| {
                drop(task::spawn_local(async {}))
            }];
        runtime.block_on(set.run_until(async {
            for spawn in spawns {
                catch_unwind(AssertUnwindSafe(spawn)).unwrap_err();
            }
        }));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn(async {})))).is_err());
        assert_eq!(log.all(), [1, 2, 3, 4].map(|number| (number, Event::Drop)));
    }
}

/// Panics in each of its methods, and in its destructor.
struct Bomb;

impl fmt::Display for Bomb {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        resume_unwind(Box::new("planted"))
    }
}

impl TaskData for Bomb {
    fn enter(&self) {
        resume_unwind(Box::new("planted"))
    }

    fn exit(&self) {
        resume_unwind(Box::new("planted"))
    }

    fn end(&self) {
        resume_unwind(Box::new("planted"))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        resume_unwind(Box::new("planted"))
    }
}

#[test]
fn panics_of_the_data_harm_neither_task_nor_dump() {
    for mut builder in builders() {
        let runtime = builder.on_spawn(|task| task.set_data(Arc::new(Bomb))).build().unwrap();
        let output = runtime.block_on(async {
            let (go, wait) = oneshot::channel();
            let task = wakeful::spawn(wait);
            let dump = Handle::current().dump();
            let text = dump.find(task.id()).unwrap().info().to_string();
            assert!(text.ends_with("[its Display panicked or failed]"), "{text}");
            go.send(7).unwrap();
            task.await.unwrap().unwrap()
        });
        assert_eq!(output, 7);
    }
}

/// Takes a dump in its destructor, and scans for situations that last.
struct Nosy(Handle);

impl fmt::Display for Nosy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two\nlines")
    }
}

impl TaskData for Nosy {}

impl Drop for Nosy {
    fn drop(&mut self) {
        drop((self.0.dump().to_string(), self.0.diagnose()));
    }
}

#[test]
fn a_destructor_of_data_may_use_the_runtime() {
    for mut builder in builders() {
        let hook = |task: &mut SpawnMeta<'_>| task.set_data(Arc::new(Nosy(Handle::current())));
        // More reports than a runtime remembers, each with data.
        let runtime = builder.on_spawn(hook).on_report(|_| {}).build().unwrap();
        runtime.block_on(async {
            for _ in 0..40 {
                drop(wakeful::spawn(async { resume_unwind(Box::new("planted")) }));
            }
            let (go, wait) = oneshot::channel();
            let waits = wakeful::spawn(wait);
            let tasks: Vec<_> = (0..40).map(|_| wakeful::spawn(yield_now())).collect();
            let dump = Handle::current().dump();
            let text = dump.find(waits.id()).unwrap().info().to_string();
            assert!(text.ends_with("[two\\nlines]"), "{text}");
            for task in tasks {
                task.await.unwrap();
            }
            go.send(()).unwrap();
            waits.await.unwrap().unwrap();
            drop(dump);
        });
    }
}
