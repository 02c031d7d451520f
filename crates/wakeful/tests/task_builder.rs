//! `task::Builder`: names and settings reach the task, and the spawn location is the caller's.

use std::future::pending;
use std::panic::Location;
use std::rc::Rc;

use wakeful::inspect::Orphan;
use wakeful::runtime::Builder as RuntimeBuilder;
use wakeful::task::{self, JoinSet, LocalSet, may_wait_forever, yield_now};

mod support {
    pub mod panic_site;
    pub mod runtimes;
}
use support::panic_site::panic_site;
use support::runtimes::{TestRuntime, runtimes, serial_builders, watch};

/// Runtimes that report orphans and go on.
fn reporting() -> impl Iterator<Item = TestRuntime> {
    serial_builders().into_iter().map(|(name, mut builder)| watch(name, &mut builder))
}

/// Returns the only report of a runtime about a task, after the runtime had time to poll it.
fn only_report(runtime: &TestRuntime) -> Orphan {
    runtime.reports.wait_for_one()
}

#[track_caller]
fn here() -> (&'static str, u32) {
    let caller = Location::caller();
    (caller.file(), caller.line())
}

fn site(orphan: &Orphan) -> (&'static str, u32) {
    (orphan.spawned_at().file(), orphan.spawned_at().line())
}

#[test]
fn a_name_and_the_site_of_the_spawn_are_reported() {
    for runtime in reporting() {
        let name = String::from("a name that was made up at run time");
        let named = task::Builder::new().name(&name);
        let (lost, at) = runtime.block_on(async {
            let both = (named.spawn(pending::<()>()).unwrap(), here());
            yield_now().await;
            both
        });
        let report = only_report(&runtime);
        assert_eq!((report.name(), report.id()), (Some(name.as_str()), lost.id()));
        assert_eq!(site(&report), at, "{}", runtime.name);

        let (lost, at) = (named.spawn_on(pending::<()>(), runtime.handle()).unwrap(), here());
        runtime.block_on(yield_now());
        let report = only_report(&runtime);
        assert_eq!((report.name(), report.id()), (Some(name.as_str()), lost.id()));
        assert_eq!(site(&report), at, "{}", runtime.name);

        let (lost, at) = (task::Builder::new().spawn_on(pending::<()>(), runtime.handle()), here());
        runtime.block_on(yield_now());
        let report = only_report(&runtime);
        assert_eq!((report.name(), report.id()), (None, lost.unwrap().id()));
        assert_eq!(site(&report), at);
    }
}

#[test]
fn local_tasks_have_names_and_sites_too() {
    for runtime in reporting() {
        let set = LocalSet::new();
        let builder = task::Builder::new().name("local");
        let (_, at) = (builder.spawn_local_on(pending::<()>(), &set).unwrap(), here());
        set.block_on(&runtime, yield_now());
        let report = only_report(&runtime);
        assert_eq!((report.name(), site(&report)), (Some("local"), at), "{}", runtime.name);

        let at = set.block_on(&runtime, async {
            let (_, at) = (builder.spawn_local(pending::<()>()).unwrap(), here());
            yield_now().await;
            at
        });
        assert_eq!(site(&only_report(&runtime)), at);

        let at = set.block_on(&runtime, async {
            let (_, at) = (task::spawn_local(pending::<()>()), here());
            yield_now().await;
            at
        });
        let report = only_report(&runtime);
        assert_eq!((report.name(), site(&report)), (None, at));
    }
}

#[test]
fn members_of_a_join_set_have_names_and_sites_too() {
    for runtime in reporting() {
        let mut members = JoinSet::new();
        let (_, at) = (members.spawn_on(pending::<()>(), runtime.handle()), here());
        runtime.block_on(yield_now());
        let report = only_report(&runtime);
        assert_eq!((report.name(), site(&report)), (None, at), "{}", runtime.name);

        let named = members.build_task().name("member");
        let (_, at) = (named.spawn_on(pending::<()>(), runtime.handle()).unwrap(), here());
        runtime.block_on(yield_now());
        let report = only_report(&runtime);
        assert_eq!((report.name(), site(&report)), (Some("member"), at));

        let at = runtime.block_on(async {
            let (_, at) = (members.spawn(pending::<()>()), here());
            yield_now().await;
            at
        });
        assert_eq!(site(&only_report(&runtime)), at);
    }
}

#[test]
fn forever_is_no_orphan() {
    for runtime in runtimes() {
        let set = LocalSet::new();
        set.block_on(&runtime, async {
            let forever = task::Builder::new().name("keeper").forever();
            let mut members = JoinSet::new();
            members.build_task().forever().spawn(pending::<()>()).unwrap();
            let keepers = [
                forever.spawn(pending::<()>()).unwrap(),
                forever.spawn_on(pending::<()>(), runtime.handle()).unwrap(),
                forever.spawn_local(pending::<()>()).unwrap(),
                forever.spawn_local_on(pending::<()>(), &set).unwrap(),
            ];
            for _ in 0..10 {
                yield_now().await;
            }
            for keeper in keepers {
                assert!(!keeper.is_finished());
                keeper.abort();
                let error = keeper.await.unwrap_err();
                assert!(error.is_cancelled() && !error.is_orphaned(), "{}", runtime.name);
            }
            members.shutdown().await;
        });
    }
}

#[test]
fn a_built_task_is_spawned_like_any_other() {
    for runtime in runtimes() {
        let handle = runtime.handle().clone();
        let set = LocalSet::new();
        let here = std::thread::current().id();
        set.block_on(&runtime, async {
            let builder = task::Builder::new().name("any");
            assert_eq!(builder.spawn(async { 1 }).unwrap().await.unwrap(), 1);
            assert_eq!(builder.spawn_on(async { 2 }, &handle).unwrap().await.unwrap(), 2);
            let three = Rc::new(3);
            assert_eq!(*builder.spawn_local(async { three }).unwrap().await.unwrap(), 3);
            let four = builder.spawn_local_on(async { Rc::new(4) }, &set).unwrap();
            assert_eq!(*four.await.unwrap(), 4);
            let other = builder.spawn_blocking(|| std::thread::current().id()).unwrap();
            assert_ne!(other.await.unwrap(), here);
            assert_eq!(builder.spawn_blocking_on(|| 6, &handle).unwrap().await.unwrap(), 6);
        });
    }
}

#[test]
fn outside_of_a_runtime_the_caller_is_told() {
    let builder = task::Builder::new();
    for site in [
        panic_site(move || builder.spawn(async {})),
        panic_site(move || builder.spawn_blocking(|| ())),
    ] {
        assert_eq!(site.file, file!());
        assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    }
}

#[test]
fn on_a_runtime_that_is_gone_a_named_task_is_cancelled() {
    let runtime = watch("current_thread", &mut RuntimeBuilder::new_current_thread());
    let handle = runtime.handle().clone();
    drop(runtime);
    let builder = task::Builder::new().name("too late");
    let task = builder.spawn_on(may_wait_forever(pending::<()>()), &handle).unwrap();
    assert!(futures::executor::block_on(task).unwrap_err().is_cancelled());
    let closure = builder.spawn_blocking_on(|| (), &handle).unwrap();
    assert!(futures::executor::block_on(closure).unwrap_err().is_cancelled());
}

#[test]
fn builders_are_plain_values() {
    let first = task::Builder::new().name("first");
    let second = first.name("second").forever();
    assert_eq!(format!("{first:?}"), r#"Builder { name: Some("first"), forever: false }"#);
    assert_eq!(format!("{second:?}"), r#"Builder { name: Some("second"), forever: true }"#);
    let mut set: JoinSet<()> = JoinSet::new();
    assert!(format!("{:?}", set.build_task().name("member")).contains("member"));
}
