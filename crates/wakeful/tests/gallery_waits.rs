//! The gallery's bugs of waiting: each report is checked field by field, and the fixed twin makes no report.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::{Deadlock, Edge, Orphan, Report};
use wakeful::runtime::{Builder, Runtime, UnhandledPanic};
use wakeful::sync::{Barrier, OnceCell, Semaphore};

#[path = "../examples/gallery/mod.rs"]
#[allow(dead_code, reason = "the bugs of stalls have their own tests")]
mod gallery;

#[path = "support/load.rs"]
mod load;

use gallery::Twin::{self, Buggy, Fixed};
use gallery::{named, waits};
use load::{Load, rounds};

/// The time limit of a wait for a report. Only a bug of wakeful reaches it.
const LIMIT: Duration = Duration::from_secs(600);
const GALLERY: &str = "waits.rs";

fn runtimes() -> Vec<(Runtime, Receiver<Report>)> {
    builders().iter_mut().map(watched).collect()
}

fn builders() -> [Builder; 2] {
    let mut two = Builder::new_multi_thread();
    two.worker_threads(2);
    [Builder::new_current_thread(), two]
}

fn watched(builder: &mut Builder) -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    // To print a panic with its stack can take longer than a poll should.
    builder.enable_all().block_on_name("root").report_blocked_after(None);
    (builder.on_report(hook).build().unwrap(), rx)
}

/// Plants the bug in each kind of runtime, and waits for the report.
fn report_of<F>(bug: impl Fn(Twin) -> F, check: impl Fn(&Report, &[u32]))
where
    F: Future<Output = Vec<u32>>,
{
    for (rt, reports) in runtimes() {
        let lines = rt.block_on(bug(Buggy));
        let flavor = rt.handle().runtime_flavor();
        // A current-thread runtime runs its tasks only while a thread is in `block_on`.
        let report = rt.block_on(report(&reports));
        println!("{flavor:?}: {report}\n");
        check(&report, &lines);
        assert!(reports.try_recv().is_err(), "{flavor:?}: one report");
        rt.shutdown_background();
    }
}

/// Runs the fixed twin again and again, several at a time.
fn no_report_of<F>(bug: impl Fn(Twin) -> F)
where
    F: Future<Output = Vec<u32>>,
{
    for (rt, reports) in runtimes() {
        let _load = Load::on_every_core();
        rt.block_on(async {
            for round in 0..rounds(1000) / 4 {
                wakeful::join!(bug(Fixed), bug(Fixed), bug(Fixed), bug(Fixed));
                if round % 100 == 0 {
                    let found = wakeful::runtime::Handle::current().diagnose();
                    assert!(found.is_empty(), "{found:?}");
                }
            }
        });
        if let Ok(report) = reports.try_recv() {
            panic!("{:?}: {report}", rt.handle().runtime_flavor());
        }
    }
}

#[track_caller]
fn assert_spawned(site: &std::panic::Location<'_>, line: u32) {
    assert!(site.file().ends_with(GALLERY), "{site}");
    assert_eq!(site.line(), line);
}

#[track_caller]
fn orphan(report: &Report) -> &Orphan {
    let Report::Orphan(orphan) = report else { panic!("{report}") };
    orphan
}

#[track_caller]
fn deadlock(report: &Report) -> &Deadlock {
    let Report::Deadlock(deadlock) = report else { panic!("{report}") };
    deadlock
}

/// Asserts the waiting task, kind and line of an edge, and the holder and line of the acquisition.
#[track_caller]
fn assert_edge(edge: &Edge, waits: (&str, &str, u32), has: (&str, Option<u32>)) {
    let file = |site: &std::panic::Location<'_>| site.file().ends_with(GALLERY);
    assert_eq!((edge.task().name().unwrap(), edge.kind(), edge.site().line()), waits, "{edge}");
    let acquired_at =
        edge.acquired_at().inspect(|site| assert!(file(site))).map(|site| site.line());
    assert_eq!((edge.holder().name().unwrap(), acquired_at), has, "{edge}");
    assert!(file(edge.site()) && edge.resource_id() != 0, "{edge}");
    for who in [edge.task(), edge.holder()] {
        assert!(file(who.spawned_at()) && who.id().is_some() && !who.is_block_on(), "{edge}");
    }
}

#[test]
fn pending_without_a_waker() {
    report_of(waits::pending_without_a_waker, |report, lines| {
        let orphan = orphan(report);
        assert_eq!((orphan.name(), orphan.polls()), (Some("forgetful"), 1));
        assert_spawned(orphan.spawned_at(), lines[0]);
        assert_eq!(orphan.last_waited_for(), None);
        assert_eq!((orphan.last_waited_on(), orphan.last_waited_until()), (None, None));
    });
    no_report_of(waits::pending_without_a_waker);
}

#[test]
fn a_future_that_moves() {
    report_of(waits::a_future_that_moves, |report, lines| {
        let orphan = orphan(report);
        assert_eq!(orphan.name(), Some("second"));
        assert_spawned(orphan.spawned_at(), lines[0]);
        assert!((1..=2).contains(&orphan.polls()), "{report}");
    });
    no_report_of(waits::a_future_that_moves);
}

#[test]
fn a_sender_dropped_without_waking() {
    report_of(waits::a_sender_dropped_without_waking, |report, lines| {
        let orphan = orphan(report);
        assert_eq!((orphan.name(), orphan.polls()), (Some("listener"), 1));
        assert_spawned(orphan.spawned_at(), lines[0]);
    });
    no_report_of(waits::a_sender_dropped_without_waking);
}

#[test]
fn abba() {
    report_of(waits::abba, |report, lines| {
        let edges = deadlock(report).edges();
        let [first, second] = edges else { panic!("{report}") };
        assert_edge(first, ("first", "Mutex::lock", lines[1]), ("second", Some(lines[2])));
        assert_edge(second, ("second", "Mutex::lock", lines[3]), ("first", Some(lines[0])));
        assert_ne!(first.resource_id(), second.resource_id());
        assert_eq!((first.task(), second.task()), (second.holder(), first.holder()), "{report}");
        assert!(edges.iter().all(|edge| !edge.is_unpolled()), "{report}");
        assert!(report.to_string().contains("2 tasks wait for each other"), "{report}");
    });
    no_report_of(waits::abba);
}

#[test]
fn a_deadlock_is_found_while_others_are_at_work() {
    for (rt, reports) in runtimes() {
        let report = rt.block_on(async {
            waits::abba(Buggy).await;
            loop {
                if let Ok(report) = reports.try_recv() {
                    return report;
                }
                // Shorter than the quiet period before a deadlock scan.
                wakeful::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert_eq!(deadlock(&report).edges().len(), 2, "{report}");
        rt.shutdown_background();
    }
}

#[test]
fn locking_twice() {
    report_of(waits::locking_twice, |report, lines| {
        let [edge] = deadlock(report).edges() else { panic!("{report}") };
        assert_edge(edge, ("twice", "Mutex::lock", lines[1]), ("twice", Some(lines[0])));
        assert!(report.to_string().contains("a mutex that it acquired itself"), "{report}");
    });
    no_report_of(waits::locking_twice);
}

#[test]
fn reading_and_writing() {
    report_of(waits::reading_and_writing, |report, lines| {
        let [edge] = deadlock(report).edges() else { panic!("{report}") };
        assert_edge(edge, ("upgrader", "RwLock::write", lines[1]), ("upgrader", Some(lines[0])));
    });
    no_report_of(waits::reading_and_writing);
}

/// Cycles over semaphore permits, and over the turn to compute the value of a cell.
#[test]
fn permits_and_cells() {
    for (rt, reports) in runtimes() {
        let first = rt.block_on(async {
            let cell = Arc::new(OnceCell::new());
            let inner = cell.clone();
            named("computes itself", async move {
                cell.get_or_init(|| async move { *inner.get_or_init(async || 7).await }).await;
            });
            report(&reports).await
        });
        let [edge] = deadlock(&first).edges() else { panic!("{first}") };
        assert_eq!(edge.kind(), "OnceCell::get_or_init");
        assert_eq!((edge.task().name(), edge.task()), (Some("computes itself"), edge.holder()));
        let acquired_at = edge.acquired_at().expect("it is known where");
        assert_eq!((edge.site().line(), edge.site().file()), (acquired_at.line(), file!()));
        assert_ne!(edge.site().column(), acquired_at.column(), "{first}");
        let second = rt.block_on(async {
            let seats = [Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1))];
            let both = Arc::new(Barrier::new(2));
            for (name, nth) in [("left", 0), ("right", 1)] {
                let (seats, both) = (seats.clone(), both.clone());
                named(name, async move {
                    let _one = seats[nth].acquire().await;
                    both.wait().await;
                    let _other = seats[1 - nth].acquire().await;
                });
            }
            report(&reports).await
        });
        let [left, right] = deadlock(&second).edges() else { panic!("{second}") };
        for (edge, names) in [(left, ("left", "right")), (right, ("right", "left"))] {
            assert_eq!(edge.kind(), "Semaphore::acquire");
            assert_eq!((edge.task().name(), edge.holder().name()), (Some(names.0), Some(names.1)));
            let acquired_at = edge.acquired_at().expect("it is known where");
            assert_eq!(edge.site().line(), acquired_at.line() + 2, "{second}");
        }
        assert_ne!(left.resource_id(), right.resource_id());
        assert!(reports.try_recv().is_err(), "nothing else");
        rt.shutdown_background();
    }
}

/// Waits for the next report; the caller is in `block_on`.
async fn report(reports: &Receiver<Report>) -> Report {
    loop {
        if let Ok(report) = reports.try_recv() {
            return report;
        }
        wakeful::time::sleep(Duration::from_millis(150)).await;
    }
}

#[test]
fn a_lock_held_across_a_join() {
    report_of(waits::a_lock_held_across_a_join, |report, lines| {
        let edges = deadlock(report).edges();
        let [outer, inner] = edges else { panic!("{report}") };
        assert_edge(outer, ("outer", "JoinHandle", lines[1]), ("inner", None));
        assert_edge(inner, ("inner", "Mutex::lock", lines[1]), ("outer", Some(lines[0])));
        assert_eq!(outer.holder().id(), inner.task().id());
    });
    no_report_of(waits::a_lock_held_across_a_join);
}

#[test]
fn a_ring_of_channels() {
    report_of(waits::a_ring_of_channels, |report, lines| {
        let edges = deadlock(report).edges();
        assert_eq!(edges.len(), 3, "{report}");
        for (nth, edge) in edges.iter().enumerate() {
            let next = &edges[(nth + 1) % 3];
            let name = edge.task().name().unwrap();
            // The task last received at the start of its loop.
            let has = (next.task().name().unwrap(), Some(lines[0] - 5));
            assert_edge(edge, (name, "mpsc::Sender::send", lines[0]), has);
            assert_eq!(edge.holder(), next.task(), "{report}");
            assert_ne!(edge.resource_id(), next.resource_id(), "{report}");
        }
        let mut names: Vec<_> = edges.iter().map(|edge| edge.task().name().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["east", "north", "south"]);
    });
    no_report_of(waits::a_ring_of_channels);
}

#[test]
fn futurelock() {
    report_of(waits::futurelock, |report, lines| {
        let Report::Futurelock(futurelock) = report else { panic!("{report}") };
        let [edge] = futurelock.edges() else { panic!("{report}") };
        assert_edge(edge, ("impatient", "Mutex::lock", lines[1]), ("impatient", Some(lines[0])));
        assert!(edge.is_unpolled() && edge.task() == edge.holder(), "{report}");
        assert!(report.to_string().contains("it no longer polls"), "{report}");
    });
    no_report_of(waits::futurelock);
}

/// Runs in a child process: beside other threads, which may hold the handle, the `block_on` goes on.
#[test]
fn everything_asleep() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let args = ["--exact", "everything_asleep_alone", "--ignored", "--test-threads", "1"];
    let output = command.args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 passed"), "{text}");
    no_report_of(waits::everything_asleep);
}

#[test]
#[ignore = "run by `everything_asleep`, in a process of its own"]
fn everything_asleep_alone() {
    // SAFETY: sets a timer that ends the process, and touches no memory.
    unsafe { libc::alarm(60) };
    // One runtime after the other, because the threads of another runtime count as threads that may help.
    for mut builder in builders() {
        let (rt, reports) = watched(builder.always_end_stuck_block_on(true));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rt.block_on(waits::everything_asleep(Buggy));
        }));
        let text = *ended.expect_err("it can never return").downcast::<String>().unwrap();
        let orphan_first = reports.recv_timeout(LIMIT).unwrap();
        assert_eq!(orphan(&orphan_first).name(), Some("sleeper"));
        let report = reports.recv_timeout(LIMIT).unwrap();
        let Report::StuckBlockOn(stuck) = &report else { panic!("{report}") };
        assert_eq!(stuck.block_on().name(), Some("root"));
        assert!(stuck.block_on().is_block_on(), "{report}");
        assert!(stuck.block_on().spawned_at().file().ends_with("gallery_waits.rs"), "{report}");
        let root = stuck.dump().find_named("root").unwrap();
        let wait = root.waiting_on().unwrap();
        assert_eq!(
            (wait.kind(), wait.holders()[0].task().unwrap().name()),
            ("JoinHandle", Some("sleeper"))
        );
        assert_eq!(text, report.to_string(), "the panic carries the report");
        assert!(text.contains("\"sleeper\" ORPHANED"), "and the dump: {text}");
    }
}

#[test]
fn an_unobserved_panic() {
    report_of(waits::an_unobserved_panic, |report, lines| {
        let Report::UnobservedPanic(lost) = report else { panic!("{report}") };
        assert_spawned(lost.task().spawned_at(), lines[0]);
        assert_eq!(lost.task().name(), Some("unlucky"));
        assert_eq!(lost.message(), Some("the price is not a number"));
    });
}

#[test]
fn a_panic_that_ends_the_runtime_is_not_lost() {
    for builder in [&mut Builder::new_current_thread(), &mut Builder::new_multi_thread()] {
        let (tx, rx) = channel();
        let rt = builder
            .unhandled_panic(UnhandledPanic::ShutdownRuntime)
            .on_report(move |report| drop(tx.send(report.clone())))
            .build()
            .unwrap();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rt.block_on(async {
                drop(wakeful::spawn(async { panic!("it ends all") }));
                std::future::pending::<()>().await;
            });
        }));
        assert!(ended.is_err());
        drop(rt);
        let reports: Vec<Report> = rx.try_iter().collect();
        assert!(reports.is_empty(), "{reports:?}");
    }
}

#[test]
fn a_closure_whose_panic_is_lost() {
    for (rt, reports) in runtimes() {
        rt.block_on(async {
            drop(wakeful::task::spawn_blocking(|| panic!("unobserved")));
            let report = report(&reports).await;
            let text = report.to_string();
            assert!(matches!(report, Report::UnobservedPanic(_)), "{text}");
            assert!(text.contains("JoinSet::spawn_blocking") && !text.contains("ShutdownRuntime"));
        });
    }
}

#[test]
fn a_panic_that_was_looked_at_is_not_lost() {
    // The hook prints no planted panic: there are ten thousand of them.
    std::panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<&str>() != Some(&"the price is not a number") {
            eprintln!("{info}");
        }
    }));
    no_report_of(waits::an_unobserved_panic);
}
