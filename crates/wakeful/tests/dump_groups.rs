//! A large dump is short: tasks that do the same are one entry, and the others stand out.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use wakeful::inspect::{Dump, TaskState};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, Notify, mpsc as channel};
use wakeful::task::{self, yield_now};
use wakeful::time::sleep;

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_report(|_| {}).build().unwrap()
}

/// Runs all ready tasks, and returns a dump.
async fn dump_at_rest() -> Dump {
    loop {
        for _ in 0..20 {
            yield_now().await;
        }
        let dump = Handle::current().dump();
        if !dump.tasks().iter().any(|task| task.state() == TaskState::Queued) {
            return dump;
        }
    }
}

fn lines_with<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(part)).collect()
}

/// Three hundred connections: each waits for a message, a notification or a time.
#[test]
fn tasks_that_do_the_same_are_one_group() {
    paused().block_on(async {
        let stop = Arc::new(Notify::new());
        let mut senders = Vec::new();
        for number in 0..300 {
            let (send, mut receive) = channel::channel::<()>(1);
            senders.push(send);
            let stop = stop.clone();
            task::spawn(async move {
                // Tasks differ in the branch that they poll first.
                let mut turn = number;
                let (mut sleep, mut recv, mut stopped) = (
                    std::pin::pin!(sleep(Duration::from_secs(900))),
                    std::pin::pin!(receive.recv()),
                    std::pin::pin!(stop.notified()),
                );
                poll_fn(|cx| {
                    for _ in 0..3 {
                        turn += 1;
                        let is_ready = match turn % 3 {
                            0 => sleep.as_mut().poll(cx).is_ready(),
                            1 => recv.as_mut().poll(cx).is_ready(),
                            _ => stopped.as_mut().poll(cx).is_ready(),
                        };
                        if is_ready {
                            return Poll::Ready(());
                        }
                    }
                    Poll::Pending
                })
                .await;
            });
        }
        let dump = dump_at_rest().await;
        let text = dump.to_string();
        assert!(text.lines().count() <= 40, "{text}");
        let groups = lines_with(&text, " tasks waiting, spawned at ");
        assert_eq!(groups.len(), 1, "{text}");
        assert!(groups[0].starts_with("  300 tasks waiting, spawned at "), "{text}");
        for phrase in ["a message", "a notification", "a timer"] {
            assert!(text.contains(&format!("waiting for {phrase}")), "{phrase}: {text}");
        }
        assert_eq!(lines_with(&text, "the oldest: task ").len(), 1, "{text}");

        let full = dump.full().to_string();
        assert_eq!(lines_with(&full, " waiting, spawned at ").len(), 300, "{full}");
        assert_eq!(dump.tasks().len(), 300 + 1);
        let ids: BTreeSet<_> = dump.tasks().iter().filter_map(|task| task.id()).collect();
        let json = dump.to_json();
        for id in ids {
            assert!(json.contains(&format!("{{\"id\":{id},")), "task {id}");
        }
        drop(senders);
    });
}

#[test]
fn thirteen_thousand_leaked_tasks_fill_less_than_a_screen() {
    paused().block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let _guard = lock.lock().await;
        for number in 0..13_000 {
            let lock = lock.clone();
            match number % 3 {
                0 => task::spawn(async move { drop(lock.lock().await) }),
                1 => task::spawn(async { sleep(Duration::from_secs(900)).await }),
                // These can never run again.
                _ => task::spawn(std::future::pending()),
            };
        }
        let dump = dump_at_rest().await;
        let text = dump.to_string();
        assert!(text.lines().count() <= 60, "{text}");
        assert_eq!(lines_with(&text, " tasks waiting, spawned at ").len(), 2, "{text}");
        let orphans = lines_with(&text, " tasks ORPHANED, waiting, spawned at ");
        assert!(orphans.len() == 1 && orphans[0].starts_with("  4333 tasks"), "{text}");
        let found = lines_with(&text, "  FOUND ");
        assert_eq!(found.len(), 1, "{text}");
        assert!(found[0].contains("orphan (proven)"), "{text}");
        assert!(found[0].ends_with("the same applies to 4332 other tasks"), "{text}");
        assert!(text.contains("all waiting for a lock (Mutex::lock): #"), "{text}");
        assert_eq!(lines_with(&text, "held by block_on").len(), 1, "{text}");
        assert!(dump.full().to_string().lines().count() > 13_000);
    });
}

#[test]
fn odd_tasks_are_listed_by_themselves() {
    paused().block_on(async {
        let wanted = Arc::new(Notify::new());
        let spawn = |is_odd: bool| {
            let wanted = wanted.clone();
            let future = async move {
                match is_odd {
                    true => wanted.notified().await,
                    false => sleep(Duration::from_secs(900)).await,
                }
            };
            task::spawn(future).id()
        };
        let alike: Vec<_> = (0..100).map(|_| spawn(false)).collect();
        let odd = spawn(true);
        let runs = task::Builder::new().name("runs").spawn(dump_at_rest()).unwrap();
        let dump = runs.await.unwrap();
        let text = dump.to_string();
        assert_eq!(dump.find_named("runs").unwrap().state(), TaskState::Running(Some(0)));
        assert!(text.contains("\"runs\" running on worker 0"), "{text}");
        assert!(text.contains("  100 tasks waiting, spawned at "), "{text}");
        assert!(text.contains(&format!("the oldest: task {} waiting", alike[0])), "{text}");
        let line = format!("\n  task {odd} waiting, spawned at ");
        let (_, rest) = text.split_once(&line).unwrap_or_else(|| panic!("{text}"));
        let mut lines = rest.lines().skip(1);
        assert!(lines.next().unwrap().contains("waiting for a notification (Notify)"), "{text}");
        assert_eq!(lines.next(), Some("      unlike 100 other tasks spawned there"), "{text}");
    });
}

#[test]
fn tasks_of_a_deadlock_come_first_and_are_listed() {
    paused().block_on(async {
        (0..100).for_each(|_| drop(task::spawn(sleep(Duration::from_secs(900)))));
        let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        for (name, first, second) in
            [("one", left.clone(), right.clone()), ("two", right.clone(), left.clone())]
        {
            let both = async move {
                let _first = first.lock().await;
                yield_now().await;
                drop(second.lock().await);
            };
            task::Builder::new().name(name).spawn(both).unwrap();
        }
        let dump = dump_at_rest().await;
        let text = dump.to_string();
        let mut lines = text.lines().skip(1);
        let story = "  FOUND deadlock (suspected): 2 tasks wait for each other";
        assert_eq!(lines.next(), Some(story), "{text}");
        assert!(lines.next().unwrap().contains("\"one\" waits for task "), "{text}");
        assert!(lines.next().unwrap().contains("\"two\" waits for task "), "{text}");
        assert!(lines.next().unwrap().starts_with("  worker 0"), "{text}");
        assert_eq!(lines_with(&text, "it is part of a finding above").len(), 2, "{text}");
        assert_eq!(dump.findings().count(), 1);
        assert!(dump.to_json().contains(r#""findings":["deadlock (suspected): 2 tasks"#));
    });
}

#[test]
fn a_blocked_poll_comes_first() {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .on_report(|_| {})
        .report_blocked_after(Some(Duration::from_millis(30)));
    let rt = builder.build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let named = task::Builder::new().name("stuck");
    let stuck = async move { released.recv().is_err() };
    let stuck = named.spawn_on(stuck, rt.handle()).unwrap();
    // The watchdog measures the poll. A hang is ended by the time limit of the test binary.
    let found = loop {
        let text = rt.handle().dump().to_string();
        if let Some(line) = lines_with(&text, "  FOUND ").first() {
            break line.to_string();
        }
        std::thread::yield_now();
    };
    assert!(found.contains("\"stuck\" has been inside one poll for "), "{found}");
    assert!(found.ends_with(", on worker 0"), "{found}");
    drop(release);
    assert!(rt.block_on(stuck).unwrap());
}

/// Runs in a child process, since environment variables hold for the whole process.
#[test]
fn the_environment_asks_for_each_task() {
    const CHILD: &str = "WAKEFUL_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return paused().block_on(async {
            (0..100).for_each(|_| drop(task::spawn(sleep(Duration::from_secs(900)))));
            let dump = dump_at_rest().await;
            println!("lines: {}, full: {}", dump, dump.full());
        });
    }
    let lines = |value: Option<&str>| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_environment_asks_for_each_task", "--nocapture"]);
        command.env(CHILD, "1").env_remove("WAKEFUL_DUMP");
        command.envs(value.map(|value| ("WAKEFUL_DUMP", value)));
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (text, _) = text.split_once(", full: ").unwrap();
        (text.lines().count(), String::from_utf8(output.stderr).unwrap())
    };
    let (short, full, wrong) = (lines(None), lines(Some("full")), lines(Some("all")));
    assert!(short.0 < 20, "{short:?}");
    assert!(full.0 > 200, "{full:?}");
    assert_eq!(wrong.0, short.0);
    assert!(wrong.1.contains("WAKEFUL_DUMP must be full or unset, but it is \"all\""), "{wrong:?}");
}

#[test]
fn what_was_reported_lately_comes_first() {
    let (reported, reports) = mpsc::channel();
    let mut builder = Builder::new_current_thread();
    let hook = move |report: &wakeful::inspect::Report| reported.send(report.kind()).unwrap();
    let rt = builder.on_report(hook).build().unwrap();
    rt.block_on(async {
        // No panic hook: with `RUST_BACKTRACE=1` it would take long enough to be noticed.
        let unlucky = async { std::panic::resume_unwind(Box::new("no luck")) };
        drop(task::Builder::new().name("unlucky").spawn(unlucky).unwrap());
        dump_at_rest().await
    });
    assert_eq!(reports.recv(), Ok("unobserved_panic"));
    let dump = rt.handle().dump();
    let text = dump.to_string();
    let found = lines_with(&text, "  FOUND ");
    assert_eq!(found.len(), 1, "{text}");
    assert!(found[0].contains("\"unlucky\" panicked"), "{text}");
    assert!(found[0].ends_with(" ago)"), "{text}");
    assert_eq!(
        dump.findings().map(|report| report.kind()).collect::<Vec<_>>(),
        ["unobserved_panic"]
    );
}
