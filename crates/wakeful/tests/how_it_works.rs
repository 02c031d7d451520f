//! Keeps `docs/HOW_IT_WORKS.md` true: runs its executor, its snippets and its pitfalls.
//!
//! Every `rust` block of the text is an excerpt of `examples/mini.rs` or of this file. Every report
//! that the text quotes is one that a test here provokes. `WAKEFUL_BLESS=1` writes the reports into the text.

use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use std::{mem, thread};

use wakeful::runtime::{Builder, Runtime};
use wakeful::task::{self, yield_now};

#[path = "../examples/mini.rs"]
mod mini;
mod support {
    pub mod quotes;
    pub mod runtimes;
}
use mini::{Executor, sleep_until, spawn};
use support::quotes;
use support::runtimes::bound_this_binary;

const MINI: &str = include_str!("../examples/mini.rs");
const TEXT: &str = include_str!("../../../docs/HOW_IT_WORKS.md");
const HERE: &str = include_str!("how_it_works.rs");

/// A report arrives long before. Only a defect of wakeful comes near this limit.
const LIMIT: Duration = Duration::from_secs(600);

// ── The executor ────────────────────────────────────────────────────────────────────────────────

#[test]
fn mini_runs() {
    bound_this_binary();
    mini::main();
}

#[test]
fn mini_wakes_sleepers_in_the_order_of_their_deadlines() {
    bound_this_binary();
    let executor = Executor::new();
    let (start, (done, order)) = (Instant::now(), mpsc::channel());
    let sleepers = [3, 1, 2, 1].map(|ms| {
        let sleep = sleep_until(&executor, start + Duration::from_millis(ms));
        let done = done.clone();
        spawn(&executor, async move {
            sleep.await;
            done.send((ms, start.elapsed())).unwrap();
        })
    });
    for sleeper in sleepers {
        executor.run_until(sleeper);
    }
    let order: Vec<_> = order.try_iter().collect();
    assert!(order.iter().map(|(ms, _)| *ms).eq([1, 1, 2, 3]), "{order:?}");
    assert!(order.iter().all(|(ms, at)| *at >= Duration::from_millis(*ms)), "{order:?}");
}

#[test]
fn mini_is_woken_by_other_threads_while_it_parks() {
    bound_this_binary();
    let executor = Executor::new();
    for round in 0..100 {
        let fired = Arc::new(AtomicBool::new(false));
        let (mut thread, sets) = (None, fired.clone());
        let task = spawn(
            &executor,
            poll_fn(move |cx| {
                if fired.load(Acquire) {
                    return Poll::Ready(round);
                }
                let (waker, sets) = (cx.waker().clone(), sets.clone());
                thread.get_or_insert_with(|| {
                    thread::spawn(move || {
                        sets.store(true, Release);
                        waker.wake();
                    })
                });
                Poll::Pending
            }),
        );
        assert_eq!(executor.run_until(task), round);
    }
}

#[test]
fn mini_wakes_the_task_that_polled_a_sleep_last() {
    bound_this_binary();
    let executor = Executor::new();
    let mut sleep = sleep_until(&executor, Instant::now() + Duration::from_millis(20));
    let (hand_over, handed_over) = mpsc::channel();
    let first = spawn(&executor, async move {
        // Polled once here, and then by another task.
        let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx))).await;
        hand_over.send(sleep).unwrap();
    });
    executor.run_until(first);
    let second = spawn(&executor, handed_over.try_recv().unwrap());
    executor.run_until(second);
}

#[test]
fn mini_polls_once_for_many_wake_ups() {
    bound_this_binary();
    let executor = Executor::new();
    let mut sleep = sleep_until(&executor, Instant::now() + Duration::from_millis(20));
    let mut polls = 0;
    let task = spawn(
        &executor,
        poll_fn(move |cx| {
            polls += 1;
            if polls == 1 {
                for _ in 0..10 {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            Pin::new(&mut sleep).poll(cx).map(|()| polls)
        }),
    );
    // The first, the one for all ten wake-ups, and the one for the timer.
    let polls = executor.run_until(task);
    assert!((2..=3).contains(&polls), "{polls} polls");
    let many: Vec<_> = (0..1_000).map(|n| spawn(&executor, async move { n })).collect();
    let sum = spawn(&executor, async move {
        let mut sum = 0;
        for task in many {
            sum += task.await;
        }
        sum
    });
    assert_eq!(executor.run_until(sum), 499_500);
}

#[test]
fn mini_is_short_and_needs_only_std() {
    assert!(MINI.lines().count() <= 200, "{} lines", MINI.lines().count());
    let imports = MINI.lines().filter(|line| line.starts_with("use "));
    assert!(imports.clone().count() > 0);
    imports.for_each(|line| assert!(line.starts_with("use std::"), "{line}"));
}

// ── The text ────────────────────────────────────────────────────────────────────────────────────

/// The text without the indentation of its lines.
fn without_indentation(text: &str) -> String {
    text.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

#[test]
fn every_snippet_is_an_excerpt_of_code_that_runs() {
    let sources = [without_indentation(MINI), without_indentation(HERE)];
    let blocks = quotes::blocks(TEXT);
    let snippets: Vec<_> = blocks.iter().filter(|block| block.language() == "rust").collect();
    assert!(snippets.len() >= 10, "{} snippets", snippets.len());
    for snippet in snippets.iter().map(|block| block.lines.join("\n")) {
        let excerpt = without_indentation(&snippet);
        let runs = sources.iter().any(|source| source.contains(&format!("\n{excerpt}")));
        assert!(runs, "neither in examples/mini.rs nor in tests/how_it_works.rs:\n{snippet}");
    }
}

#[test]
fn the_text_has_ten_chapters() {
    let chapters: Vec<&str> = TEXT.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for number in 1..=10 {
        let heading = format!("{number}. ");
        assert!(chapters.iter().any(|chapter| chapter.starts_with(&heading)), "{chapters:?}");
    }
}

#[test]
fn the_bugs_that_the_text_names_are_in_the_gallery() {
    let gallery = [
        include_str!("../examples/gallery/waits.rs"),
        include_str!("../examples/gallery/stalls.rs"),
    ];
    let (_, table) =
        TEXT.split_once("| mistake | in the gallery |").expect("the text has the table");
    let (table, _) = table.split_once("\n\n").expect("the text goes on");
    let names = table.split('`').filter(|word| word.contains('_') && !word.contains(' '));
    assert_eq!(names.clone().count(), 6, "one for each mistake");
    for name in names {
        let function = format!("pub async fn {name}(");
        assert!(gallery.iter().any(|file| file.contains(&function)), "the gallery has no {name}");
    }
}

/// The names of the tasks whose reports the text quotes.
const QUOTED: [&str; 6] = ["forgetful", "second", "impolite", "greedy", "detached", "spinner"];

#[test]
fn every_quoted_report_is_one_that_a_test_provokes() {
    let blocks = quotes::blocks(TEXT);
    let texts = blocks.iter().filter(|block| block.language() == "text");
    assert!(texts.map(|block| block.program()).eq(QUOTED.map(Some)));
}

/// Asserts that the text quotes the first line of the report about `task`.
fn assert_quoted(task: &str, report: &str) {
    assert!(QUOTED.contains(&task));
    let first = report.lines().next().expect("a report has lines").to_owned();
    let differences = quotes::check("docs/HOW_IT_WORKS.md", task, &[first]);
    assert!(differences.is_empty(), "{}", differences.concat());
}

// ── The pitfalls ────────────────────────────────────────────────────────────────────────────────

async fn forgetful() {
    poll_fn(|_cx| Poll::<()>::Pending).await // wrong: the waker in `_cx` is stored nowhere
}

struct Bell {
    rung: Arc<AtomicBool>,
    listener: Arc<Mutex<Option<Waker>>>,
}

impl Future for Bell {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut listener = self.listener.lock().unwrap();
        if listener.is_none() {
            *listener = Some(cx.waker().clone()); // wrong: only the first task is ever woken
        }
        if self.rung.load(Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

async fn blocking(answer: mpsc::Receiver<()>) {
    answer.recv().unwrap() // wrong: the thread waits, not the task
}

async fn never_yields(stop: Arc<AtomicBool>) {
    while !stop.load(Relaxed) {
        ready(()).await; // always ready: the poll continues, and the thread runs no other task
    }
}

async fn polled_twice() {
    let mut handle = wakeful::spawn(async {});
    (&mut handle).await.unwrap();
    handle.await.unwrap(); // wrong: it has completed
}

async fn trusts_any_wake_up(event: Arc<Mutex<Option<Waker>>>) {
    let mut waited = false;
    poll_fn(|cx| {
        if mem::replace(&mut waited, true) {
            return Poll::Ready(()); // wrong: a wake-up is not proof that the event has happened
        }
        *event.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })
    .await
}

async fn spins(stop: Arc<AtomicBool>) {
    poll_fn(|cx| {
        if stop.load(Relaxed) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref(); // wrong: it asks to be polled at once, forever
        Poll::Pending
    })
    .await
}

/// A runtime with two workers, and the reports that it makes.
fn runtime() -> (Runtime, mpsc::Receiver<String>) {
    bound_this_binary();
    let (tx, rx) = mpsc::channel();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.on_report(move |report| drop(tx.send(report.to_string())));
    (builder.build().unwrap(), rx)
}

fn named(
    rt: &Runtime,
    name: &str,
    future: impl Future<Output = ()> + Send + 'static,
) -> task::JoinHandle<()> {
    task::Builder::new().name(name).spawn_on(future, rt.handle()).unwrap()
}

#[test]
fn pending_without_a_waker_is_an_orphan() {
    let (rt, reports) = runtime();
    drop(named(&rt, "forgetful", forgetful()));
    assert_quoted("forgetful", &reports.recv_timeout(LIMIT).unwrap());
}

#[test]
fn a_stale_waker_leaves_an_orphan() {
    let (rt, reports) = runtime();
    let mut bell = Bell { rung: Arc::default(), listener: Arc::default() };
    let (rung, listener) = (bell.rung.clone(), bell.listener.clone());
    let first = rt.block_on(poll_fn(|cx| Poll::Ready(Pin::new(&mut bell).poll(cx))));
    assert!(first.is_pending());
    drop(named(&rt, "second", bell));
    assert_quoted("second", &reports.recv_timeout(LIMIT).unwrap());
    rung.store(true, Release);
    let stale = listener.lock().unwrap().take().expect("the waker of the first poll");
    stale.wake();
}

#[test]
fn a_blocking_call_is_reported_and_other_tasks_run() {
    let (rt, reports) = runtime();
    let (answer, answered) = mpsc::channel();
    let task = named(&rt, "impolite", blocking(answered));
    let report = reports.recv_timeout(LIMIT);
    // The other worker runs tasks meanwhile.
    rt.block_on(rt.spawn(async {})).unwrap();
    answer.send(()).unwrap();
    rt.block_on(task).unwrap();
    assert_quoted("impolite", &report.unwrap());
}

#[test]
fn an_await_that_never_yields_is_reported() {
    let (rt, reports) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let task = named(&rt, "greedy", never_yields(stop.clone()));
    let report = reports.recv_timeout(LIMIT);
    stop.store(true, Relaxed);
    rt.block_on(task).unwrap();
    assert_quoted("greedy", &report.unwrap());
}

#[test]
fn wakefuls_own_futures_yield_when_the_budget_is_spent() {
    bound_this_binary();
    let rt = Builder::new_current_thread().build().unwrap();
    let (sender, mut receiver) = wakeful::sync::mpsc::unbounded_channel();
    let received = Arc::new(AtomicUsize::new(0));
    let counts = received.clone();
    let other_ran = Arc::new(AtomicBool::new(false));
    let stop = other_ran.clone();
    let greedy = rt.spawn(async move {
        while !stop.load(Relaxed) {
            sender.send(()).unwrap();
            receiver.recv().await.unwrap(); // always ready, yet it yields now and then
            counts.fetch_add(1, Relaxed);
        }
    });
    let other = rt.spawn(async move { other_ran.store(true, Relaxed) });
    rt.block_on(greedy).unwrap();
    rt.block_on(other).unwrap();
    assert_eq!(received.load(Relaxed), 129, "a budget of 128, and the message of the next poll");
}

#[test]
fn polling_after_completion_panics_in_its_task_only() {
    let (rt, reports) = runtime();
    let error = rt.block_on(named(&rt, "awaited", polled_twice())).unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("polled after completion"), "{error}");
    assert!(reports.try_recv().is_err(), "the JoinHandle has returned it");
    drop(named(&rt, "detached", polled_twice()));
    assert_quoted("detached", &reports.recv_timeout(LIMIT).unwrap());
}

#[test]
fn a_spurious_wake_up_is_harmless_only_to_futures_that_look() {
    let (rt, reports) = runtime();
    let event = Arc::new(Mutex::new(None));
    let keeps = event.clone();
    rt.block_on(async move {
        // The other branch of the same task is woken, and its wake-up polls both.
        wakeful::join!(trusts_any_wake_up(keeps), yield_now());
    });
    assert!(event.lock().unwrap().is_some(), "the event never happened");
    let notify = Arc::new(wakeful::sync::Notify::new());
    let rings = notify.clone();
    let (looks, mut polls) = (Arc::new(AtomicUsize::new(0)), 0);
    let sees = looks.clone();
    rt.block_on(async move {
        let mut notified = pin!(notify.notified());
        poll_fn(|cx| {
            polls += 1;
            sees.store(polls, Relaxed);
            if polls == 3 {
                rings.notify_one();
            }
            cx.waker().wake_by_ref();
            notified.as_mut().poll(cx)
        })
        .await;
    });
    assert_eq!(looks.load(Relaxed), 3, "wakeful's own future completes with the event");
    assert!(reports.try_recv().is_err(), "wakeful cannot see this bug");
}

#[test]
fn a_task_that_spins_is_reported() {
    let (rt, reports) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let task = named(&rt, "spinner", spins(stop.clone()));
    let report = reports.recv_timeout(LIMIT);
    stop.store(true, Relaxed);
    rt.block_on(task).unwrap();
    assert_quoted("spinner", &report.unwrap());
}
