//! Programs whose reports docs/WHY.md quotes and that are not in the gallery.
//!
//! Each runs in a process of its own. Its first report of the wanted kind is printed, and ends the process. So a
//! program may wait forever.

use std::future::Future;
use std::process::{Command, Output, exit};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use std::{io, io::PipeReader};

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Barrier, Mutex, Notify, mpsc};
use wakeful::task::{self, JoinHandle, spawn_blocking, yield_now};
use wakeful::time::{advance, sleep, timeout};

use super::gallery::Twin::Buggy;
use super::gallery::waits;

pub const HOUR: Duration = Duration::from_secs(3600);

/// The kind of a report: the first words of its text.
pub type Kind = &'static str;

/// Returns a runtime that prints its first report of this kind, and ends the process.
pub fn multi_thread(kind: Kind) -> Runtime {
    build(kind, Builder::new_multi_thread().worker_threads(2).block_on_name("main"))
}

fn build(kind: Kind, builder: &mut Builder) -> Runtime {
    builder.enable_all().on_report(move |report| print_if(kind, report));
    builder.build().expect("threads can be started")
}

/// Prints a report of this kind, and ends the process.
fn print_if(kind: Kind, report: &Report) {
    let text = report.to_string();
    if text.starts_with(kind) {
        print!("{text}");
        exit(0);
    }
}

#[track_caller]
fn spawn_named<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    task::Builder::new().name(name).spawn(future).expect("the runtime is there")
}

/// Waits for the output of another program with the thread.
async fn convert(input: PipeReader) -> io::Result<Output> {
    Command::new("cat").stdin(input).output()
}

pub fn a_command_that_waits() {
    let rt = multi_thread("blocked");
    // `cat` ends with this process, which has the other end.
    let (input, _open) = io::pipe().expect("the system has descriptors");
    let converter = rt.spawn(convert(input));
    drop(rt.block_on(converter));
}

pub fn everything_asleep() {
    let rt = multi_thread("stuck block_on");
    rt.block_on(waits::everything_asleep(Buggy));
}

pub fn a_kept_sender() {
    let mut builder = Builder::new_current_thread();
    let rt = build("stuck block_on", builder.block_on_name("collects"));
    rt.block_on(async {
        let (_kept, mut messages) = mpsc::channel::<u32>(1);
        let waits = spawn_named("waits", async move { messages.recv().await });
        waits.await.unwrap();
    });
}

/// Runs the program on a paused clock, and lets seconds pass until there is a report.
fn until_reported<F: Future<Output = ()>>(
    kind: Kind,
    program: impl FnOnce() -> F,
    each_second: impl Fn(),
) {
    let rt = build(kind, Builder::new_current_thread().start_paused(true));
    rt.block_on(async {
        program().await;
        for _ in 0..60 {
            each_second();
            // All tasks run until they wait.
            for _ in 0..200 {
                yield_now().await;
            }
            for report in Handle::current().diagnose() {
                print_if(kind, &report);
            }
            advance(Duration::from_secs(1)).await;
        }
    });
}

pub fn a_slow_holder() {
    let program = async || {
        let log = Arc::new(Mutex::new(()));
        for name in ["report", "second", "third"] {
            let log = log.clone();
            spawn_named(name, async move {
                let _log = log.lock().await;
                sleep(Duration::from_secs(60)).await;
            });
        }
    };
    until_reported("slow holder", program, || ());
}

pub fn growing_tasks() {
    let bell = Arc::new(Notify::new());
    let grow = |count| {
        for _ in 0..count {
            let bell = bell.clone();
            wakeful::spawn(async move { bell.notified().await });
        }
    };
    until_reported("growing tasks", async || grow(1_000), || grow(200));
}

pub fn a_barrier_with_too_few() {
    let program = async || {
        let start = Arc::new(Barrier::new(4));
        for name in ["north", "east", "south"] {
            let start = start.clone();
            spawn_named(name, async move { start.wait().await.is_leader() });
        }
    };
    until_reported("stalled", program, || ());
}

pub fn a_sender_that_stays() {
    let program = async || {
        spawn_named("collect", async {
            let (tx, mut rx) = mpsc::channel(8);
            for number in 0..3 {
                let tx = tx.clone();
                wakeful::spawn(async move { tx.send(number).await });
            }
            // the bug: `tx` is not dropped
            let mut sum = 0;
            while let Some(number) = rx.recv().await {
                sum += number;
            }
            sum
        });
    };
    until_reported("stalled", program, || ());
}

pub fn a_slow_shutdown() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).report_lasting_after(Some(Duration::from_secs(1)));
    let rt = build("slow shutdown", &mut builder);
    let (start, started) = channel();
    rt.block_on(async {
        spawn_blocking(move || {
            start.send(()).expect("the main thread waits for it");
            thread::sleep(HOUR) // the bug: it does not see that the runtime is dropped
        });
    });
    started.recv().expect("the closure sends");
    drop(rt);
}

pub fn a_task_that_never_ran() {
    let rt = build("never polled", &mut Builder::new_current_thread());
    rt.block_on(async {
        wakeful::spawn(async { println!("hello") });
    });
    drop(rt);
}

/// Two branches of one task lock in opposite orders.
pub fn two_branches() {
    let rt = multi_thread("deadlock");
    rt.block_on(async {
        spawn_named("both", async {
            let (accounts, log) = (Mutex::new(()), Mutex::new(()));
            let lock_both = async |first: &Mutex<()>, second: &Mutex<()>| {
                let _first = first.lock().await;
                yield_now().await;
                drop(second.lock().await);
            };
            wakeful::join!(lock_both(&accounts, &log), lock_both(&log, &accounts));
        });
    });
    loop {
        thread::park();
    }
}

/// A task locks a mutex again that it holds, with a time-out.
pub fn a_lock_with_a_time_out() {
    let program = async || {
        let session = Mutex::new(());
        spawn_named("request", async move {
            let _guard = session.lock().await;
            drop(timeout(Duration::from_secs(50), session.lock()).await);
        });
    };
    until_reported("deadlock", program, || {});
}
