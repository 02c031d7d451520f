//! One run of one program, in a process of its own.
//!
//! The hook of `Builder::on_report` ends the process: with success when all wanted reports have come, and
//! with a message when another one comes. An alarm ends a process that hangs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::net::TcpListener;
use wakeful::runtime::{Builder, Runtime};
use wakeful::task;
use wakeful::time::interval;

use super::Twin::{self, Buggy, Fixed};
use super::program::Body;

/// The first argument of such a process.
pub const FLAG: &str = "--child";

/// The name of the task whose report shows that all reports before it were delivered.
const SENTINEL: &str = "the last task of the run";

/// How long a task spins before it is reported: a tenth of the default. Many runs keep a core busy for this time.
pub const SPIN_WINDOW: Duration = Duration::from_millis(100);

/// Tells whether all wanted reports are there, or which one is wrong.
type Judge = Box<dyn Fn(&[Report]) -> Result<bool, String> + Send + Sync>;

/// Runs the program `name` with a flavor, a setting, a twin and a time limit in seconds.
pub fn main(args: &[String]) -> ! {
    let [name, flavor, setting, twin, limit] = args else { panic!("wrong arguments: {args:?}") };
    let twin = if twin == "buggy" { Buggy } else { Fixed };
    let is_service = setting == "service";
    // SAFETY: sets a timer that ends the process, and touches no memory.
    unsafe { libc::alarm(limit.parse().expect("the limit is in seconds")) };
    let bug = super::bugs().into_iter().find(|bug| bug.name == name);
    let innocent = super::innocents().into_iter().find(|innocent| innocent.name == name);
    let (body, judge): (Body, Judge) = match (bug, innocent) {
        (Some(bug), _) if twin == Buggy => {
            (bug.body, Box::new(move |reports| bug.check(reports, is_service)))
        }
        (Some(bug), _) => (
            bug.body,
            Box::new(|reports| {
                let [first, ..] = reports else { return Ok(false) };
                Err(format!("the fixed twin is reported: {first}"))
            }),
        ),
        (_, Some(innocent)) => (
            innocent.body,
            Box::new(move |reports| {
                let last = reports.last().expect("it is called with one");
                innocent.check(last).map(|()| false)
            }),
        ),
        (None, None) => panic!("no program is called {name}"),
    };
    let rt = watched(flavor, judge);
    match body {
        Body::Future(make) if twin == Buggy => hang(&rt, is_service, make(twin)),
        Body::Future(make) => {
            serve(&rt, is_service, make(twin));
            end_in_order(&rt)
        }
        Body::Runtime(run) if twin == Buggy => {
            // A panic that carries a report is told to the hook as well.
            let _ = catch_unwind(AssertUnwindSafe(|| run(twin, rt)));
            wait_for_the_hook()
        }
        Body::Runtime(run) => {
            run(twin, rt);
            exit(0)
        }
    }
}

/// Builds a runtime whose hook ends the process.
fn watched(flavor: &str, judge: Judge) -> Runtime {
    wakeful::inspect::set_spin_window(SPIN_WINDOW);
    let reports = Mutex::new(Vec::new());
    let hook = move |report: &Report| {
        if is_sentinel(report) {
            SEEN.0.lock().unwrap().push(());
            SEEN.1.notify_all();
            return;
        }
        println!("{report}\n");
        let mut reports = reports.lock().unwrap();
        reports.push(report.clone());
        match judge(&reports) {
            Ok(true) => exit(0),
            Ok(false) => {}
            Err(why) => {
                println!("WRONG: {why}");
                exit(1);
            }
        }
    };
    let mut builder = match flavor {
        "current_thread" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().block_on_name("main").worker_threads(2).max_blocking_threads(4);
    builder.on_report(hook).build().expect("a runtime can be built")
}

/// Told when the report of the sentinel comes.
static SEEN: (Mutex<Vec<()>>, Condvar) = (Mutex::new(Vec::new()), Condvar::new());

fn is_sentinel(report: &Report) -> bool {
    matches!(report, Report::Orphan(orphan) if orphan.name() == Some(SENTINEL))
}

/// Runs a bug until the hook or the alarm ends the process.
fn hang(rt: &Runtime, is_service: bool, program: impl Future<Output = ()>) -> ! {
    // A panic that carries a report is told to the hook as well.
    let _ = catch_unwind(AssertUnwindSafe(|| serve(rt, is_service, program)));
    // What was spawned goes on, on a current-thread runtime as well.
    let _ = catch_unwind(AssertUnwindSafe(|| rt.block_on(std::future::pending::<()>())));
    wait_for_the_hook()
}

fn wait_for_the_hook() -> ! {
    loop {
        std::thread::park();
    }
}

/// Runs the program, alone or beside a heartbeat and a listener.
fn serve(rt: &Runtime, is_service: bool, program: impl Future<Output = ()>) {
    rt.block_on(async {
        if is_service {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            wakeful::spawn(async move { while listener.accept().await.is_ok() {} });
            wakeful::spawn(async {
                let mut beat = interval(Duration::from_millis(50));
                loop {
                    beat.tick().await;
                }
            });
        }
        program.await;
    });
}

/// Ends a run in which nothing may be reported: every report so far has been delivered to the hook.
fn end_in_order(rt: &Runtime) -> ! {
    rt.block_on(async {
        let sentinel = std::future::pending::<()>();
        drop(task::Builder::new().name(SENTINEL).spawn(sentinel).expect("it can be spawned"));
        task::yield_now().await;
        task::yield_now().await;
    });
    let mut seen = SEEN.0.lock().unwrap();
    while seen.is_empty() {
        seen = SEEN.1.wait(seen).unwrap();
    }
    exit(0)
}

/// Spawns a task with a name.
#[track_caller]
pub fn named<F>(name: &str, future: F) -> task::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::Builder::new().name(name).spawn(future).expect("a task can be spawned")
}

/// Returns whether this is the buggy twin.
pub fn is_buggy(twin: Twin) -> bool {
    twin == Buggy
}
