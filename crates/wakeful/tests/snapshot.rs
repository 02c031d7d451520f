//! `inspect::snapshot`: all runtimes of the process, and tasks by spawn site.

use std::sync::Arc;
use std::time::Duration;

use wakeful::inspect::{self, RuntimeSnapshot, Snapshot, SpawnGroup};
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::Notify;
use wakeful::task::{self, LocalSet, yield_now};
use wakeful::time::sleep;

#[path = "support/json.rs"]
mod json;

fn runtimes() -> [Runtime; 2] {
    let mut multi = Builder::new_multi_thread();
    [
        Builder::new_current_thread().enable_all().name("one").build().unwrap(),
        multi.worker_threads(2).enable_all().name("two").build().unwrap(),
    ]
}

/// The part of a snapshot that is of this runtime. Other tests have runtimes of their own.
fn part<'a>(snapshot: &'a Snapshot, rt: &Runtime) -> &'a RuntimeSnapshot {
    let id = rt.handle().id().to_string();
    snapshot.runtimes().iter().find(|runtime| runtime.id().to_string() == id).unwrap()
}

fn group(snapshot: &Snapshot, rt: &Runtime, line: u32) -> SpawnGroup {
    part(snapshot, rt).group_at(file!(), line).unwrap().clone()
}

#[test]
fn a_snapshot_has_all_runtimes_of_the_process() {
    let [one, two] = runtimes();
    let line = line!() + 1;
    let keep = [&one, &two].map(|rt| rt.spawn(async { sleep(Duration::from_secs(900)).await }));
    let snapshot = inspect::snapshot();
    for (rt, name) in [(&one, "one"), (&two, "two")] {
        let part = part(&snapshot, rt);
        assert_eq!((part.name(), part.dump().runtime()), (Some(name), Some(name)));
        assert_eq!(snapshot.find(part.id()).unwrap().id(), part.id());
        assert_eq!(part.dump().tasks().len(), 1);
        assert_eq!((part.started(), part.finished()), (1, 0));
        assert_eq!(group(&snapshot, rt, line).alive(), 1);
    }
    let ids: Vec<_> = snapshot.runtimes().iter().map(|runtime| runtime.id()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let gone = part(&snapshot, &one).id();
    drop((keep, one));
    // A snapshot that another test takes may refer to it for a moment.
    while inspect::snapshot().find(gone).is_some() {
        std::thread::yield_now();
    }
    drop(two);
}

#[test]
fn tasks_are_counted_by_spawn_site() {
    for rt in runtimes() {
        let (bell, inside) = (Arc::new(Notify::new()), rt.handle().clone());
        let lines = [line!() + 5, line!() + 13];
        let spawned = rt.block_on(rt.spawn(async move {
            let mut tasks = Vec::new();
            for _ in 0..40 {
                let bell = bell.clone();
                tasks.push(task::spawn(async move { bell.notified().await }));
            }
            for number in 0..10 {
                let name = format!("n{number}");
                let named = task::Builder::new().name(&name);
                // On the runtime by its handle, which any thread may use.
                let handle = inside.clone();
                let quick = async move { yield_now().await };
                named.spawn_on(quick, &handle).unwrap().await.unwrap();
            }
            while !tasks.iter().all(|task| is_waiting(task.id())) {
                yield_now().await;
            }
            let first = inspect::snapshot();
            bell.notify_one();
            while tasks.iter().filter(|task| task.is_finished()).count() < 1 {
                yield_now().await;
            }
            let second = inspect::snapshot();
            bell.notify_waiters();
            for task in tasks {
                task.await.unwrap();
            }
            (first, second)
        }));
        let (first, second) = spawned.unwrap();
        let (before, after) = (group(&first, &rt, lines[0]), group(&second, &rt, lines[0]));
        assert_eq!((before.started(), before.alive(), before.finished()), (40, 40, 0));
        assert_eq!((after.started(), after.alive(), after.finished()), (40, 39, 1));
        assert_eq!(after.growth_since(Some(&before)), -1);
        assert_eq!((before.waiting(), before.queued(), before.orphans()), (40, 0, 0));
        assert_eq!(before.polls(), 40);
        assert!(before.oldest() >= before.newest());
        let [wait] = before.waits() else { panic!("{before:?}") };
        assert_eq!(
            (wait.kind(), wait.count(), wait.site_label()),
            ("Notify::notified", 40, "awaited at")
        );
        assert_eq!(wait.site().line(), lines[0]);
        assert!(wait.waited(0.5) <= wait.waited(0.99) && wait.waited(0.99) <= wait.waited(1.0));
        let quick = group(&second, &rt, lines[1]);
        assert_eq!((quick.started(), quick.alive(), quick.finished()), (10, 0, 10), "{quick:?}");
        assert_eq!(part(&second, &rt).started(), 40 + 10 + 1);
        assert_eq!(part(&second, &rt).finished(), 1 + 10);
    }
}

#[test]
fn tasks_of_a_local_set_are_none_that_the_runtime_has_started() {
    for rt in runtimes() {
        let line = line!() + 7;
        LocalSet::new().block_on(&rt, async {
            for _ in 0..3 {
                task::spawn(async {}).await.unwrap();
            }
            let mut local = Vec::new();
            for _ in 0..2 {
                local.push(task::spawn_local(sleep(Duration::from_secs(900))));
            }
            yield_now().await;
            let snapshot = inspect::snapshot();
            let (part, group) = (part(&snapshot, &rt), group(&snapshot, &rt, line));
            assert_eq!((part.started(), part.finished()), (3, 3));
            assert_eq!((group.started(), group.alive(), group.finished()), (2, 2, 0));
        });
    }
}

fn is_waiting(id: task::Id) -> bool {
    let dump = wakeful::runtime::Handle::current().dump();
    dump.find(id).is_some_and(|task| task.state() == inspect::TaskState::Waiting)
}

#[test]
fn json_of_a_snapshot_has_groups_and_dumps() {
    let [one, two] = runtimes();
    let keep = [&one, &two].map(|rt| rt.spawn(async { sleep(Duration::from_secs(900)).await }));
    let snapshot = inspect::snapshot();
    let text = snapshot.to_json();
    let parsed = json::Json::parse(&text);
    let parts = parsed.get("runtimes").list();
    assert_eq!(parts.len(), snapshot.runtimes().len(), "{text}");
    for (json, part) in parts.iter().zip(snapshot.runtimes()) {
        assert_eq!(json.get("id").number(), part.id() as f64);
        assert_eq!(json.get("groups").list().len(), part.groups().len());
        if let Some(name) = part.name() {
            assert_eq!(json.get("name").text(), name);
        }
    }
    for rt in [&one, &two] {
        let part = part(&snapshot, rt);
        let begin = format!("{{\"id\":{},\"name\":\"{}\"", part.id(), part.name().unwrap());
        assert!(text.contains(&begin), "{text}");
        assert!(text.contains(&part.dump().to_json()), "{text}");
    }
    assert!(text.contains(r#""alive":1,"started":1,"finished":0"#), "{text}");
    drop(keep);
}
