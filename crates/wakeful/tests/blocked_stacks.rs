//! The stacks of `Blocked` reports: lines, inlined futures, system calls, and threads that drive a local set.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use wakeful::inspect::{Blocked, Report};
use wakeful::runtime::{Builder, Runtime};
use wakeful::task::LocalSet;

const LIMIT: Duration = Duration::from_secs(60);

/// Builds a runtime of each kind. `on_report` is called before the report is sent.
fn runtimes(
    on_report: impl Fn() + Clone + Send + Sync + 'static,
) -> [(Runtime, Receiver<Report>); 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()].map(|mut builder| {
        let (tx, rx) = channel();
        let on_report = on_report.clone();
        let hook = move |report: &Report| {
            on_report();
            drop(tx.send(report.clone()));
        };
        (builder.enable_all().on_report(hook).build().unwrap(), rx)
    })
}

#[track_caller]
fn blocked(report: &Report) -> &Blocked {
    println!("{report}");
    let Report::Blocked(blocked) = report else { panic!("{report}") };
    assert!(!blocked.stack().is_empty(), "{report}");
    assert_eq!(blocked.stack().len(), blocked.frames().count());
    blocked
}

/// Returns whether the kernel was built to show the system call of a thread.
fn has_system_calls() -> bool {
    std::path::Path::new("/proc/thread-self/syscall").exists()
}

#[inline(never)]
fn waits_for_its_report(reports: &Receiver<Report>) -> (Report, u32) {
    (reports.recv_timeout(LIMIT).expect("a poll that waits for its own report gets it"), line!())
}

#[test]
fn frames_have_their_file_and_line() {
    for (rt, reports) in runtimes(|| ()) {
        let task = rt.spawn(async move { waits_for_its_report(&reports) });
        let (report, line) = rt.block_on(task).unwrap();
        let blocked = blocked(&report);
        let frame = blocked.frames().find(|it| it.function().ends_with("waits_for_its_report"));
        let frame = frame.expect("the function is on the stack");
        assert_eq!(frame.library(), None);
        let sleeps = blocked.frames().next().unwrap();
        assert!(sleeps.library().is_some(), "{sleeps:?} is in the C library");
        if cfg!(debug_assertions) {
            assert_eq!((frame.file(), frame.line()), (Some(file!()), Some(line)), "{report}");
            assert!(
                report
                    .to_string()
                    .contains(&format!("waits_for_its_report at {}:{line}:", file!()))
            );
        }
        assert!(blocked.future().is_some_and(|name| name.contains("frames_have_their_file")));
    }
}

/// A future whose poll is always inlined, into the runtime's function that polls it.
struct Inlined(Receiver<Report>);

impl Future for Inlined {
    type Output = (Report, u32);

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        // No function is called, except at the end.
        loop {
            if let Ok(report) = self.0.try_recv() {
                return Poll::Ready((report, line!() - 1));
            }
        }
    }
}

#[test]
fn the_poll_of_an_inlined_future_is_on_the_stack() {
    for (rt, reports) in runtimes(|| ()) {
        let task = rt.spawn(Inlined(reports));
        let (report, line) = rt.block_on(task).unwrap();
        let blocked = blocked(&report);
        let names = |name: &&String| name.contains("blocked_stacks::Inlined");
        assert_eq!(blocked.stack().iter().filter(names).count(), 1, "{report}");
        if cfg!(debug_assertions) {
            let frame = blocked.frames().find(|it| it.function().contains("Inlined")).unwrap();
            assert!(frame.function().ends_with("::poll"), "{report}");
            assert_eq!(frame.file(), Some(file!()), "{report}");
            assert!(frame.line().is_some_and(|at| at.abs_diff(line) <= 1), "{report}");
        }
    }
}

/// Waits as a DNS look-up does: in a `poll` of a socket, which a signal would interrupt.
fn poll_socket(socket: &UdpSocket) -> i32 {
    let mut list = [libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    // SAFETY: a pointer to one `pollfd`.
    unsafe { libc::poll(list.as_mut_ptr(), 1, LIMIT.as_millis() as i32) }
}

#[test]
fn a_system_call_that_may_not_be_interrupted_is_named() {
    if !has_system_calls() {
        return eprintln!("the kernel does not show system calls: not tested");
    }
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    let own = socket.local_addr().unwrap();
    let number = socket.as_raw_fd();
    let answer = move || assert_eq!(server.try_clone().unwrap().send_to(b"x", own).unwrap(), 1);
    let answer = std::sync::Arc::new(answer);
    for (rt, reports) in runtimes(move || answer()) {
        let socket = socket.try_clone().unwrap();
        let number = if number == socket.as_raw_fd() { number } else { socket.as_raw_fd() };
        let task = rt.spawn(async move {
            assert_eq!(poll_socket(&socket), 1, "no signal ends it");
            socket.recv(&mut [0]).unwrap();
        });
        rt.block_on(task).unwrap();
        let report = reports.recv_timeout(LIMIT).unwrap();
        let blocked = blocked(&report);
        let call = format!("poll on descriptor {number} ({own} to {to})");
        assert_eq!(blocked.system_call(), Some(&*call), "{report}");
        let name = "a_system_call_that_may_not_be_interrupted_is_named";
        assert!(blocked.stack().iter().any(|it| it.contains(name)), "{report}");
        assert!(report.to_string().contains(&format!("system call {call}")), "{report}");
        if cfg!(all(debug_assertions, target_arch = "x86_64")) {
            let frame = blocked.frames().find(|it| it.function().ends_with("poll_socket")).unwrap();
            assert_eq!(frame.file(), Some(file!()), "{report}");
        }
    }
}

#[test]
fn waiting_for_the_output_of_a_command_is_named() {
    if !has_system_calls() {
        return eprintln!("the kernel does not show system calls: not tested");
    }
    for is_multi in [false, true] {
        let (stdin, release) = std::io::pipe().unwrap();
        let release = std::sync::Mutex::new(Some(release));
        let (tx, rx) = channel();
        let hook = move |report: &Report| {
            drop(release.lock().unwrap().take()); // the end of its input
            drop(tx.send(report.clone()));
        };
        let mut builder =
            if is_multi { Builder::new_multi_thread() } else { Builder::new_current_thread() };
        let rt = builder.on_report(hook).build().unwrap();
        let task = rt.spawn(async move { Command::new("cat").stdin(Stdio::from(stdin)).output() });
        assert!(rt.block_on(task).unwrap().unwrap().status.success());
        let report = rx.recv_timeout(LIMIT).unwrap();
        let blocked = blocked(&report);
        let call = blocked.system_call().unwrap_or_default();
        assert!(call.starts_with("poll on descriptor ") && call.contains("(pipe)"), "{report}");
        let name = "waiting_for_the_output_of_a_command_is_named";
        assert!(blocked.stack().iter().any(|it| it.contains(name)), "{report}");
        if cfg!(all(debug_assertions, target_arch = "x86_64", target_env = "gnu")) {
            let frame = blocked.frames().find(|it| it.function().contains(name)).unwrap();
            assert_eq!((frame.file(), frame.library()), (Some(file!()), None), "{report}");
        }
    }
}

/// The thread in `block_on` of a multi-thread runtime is watched while it drives local tasks.
#[test]
fn a_local_task_that_blocks_its_block_on_is_reported() {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let rt = Builder::new_multi_thread().worker_threads(1).enable_all().on_report(hook).build();
    let (rt, set) = (rt.unwrap(), LocalSet::new());
    set.spawn_local(async { wakeful::time::sleep(LIMIT).await });
    let (rx, report, id) = set.block_on(&rt, async move {
        let task = wakeful::task::spawn_local(async move {
            let (report, _) = waits_for_its_report(&rx);
            (rx, report)
        });
        let id = task.id();
        let (rx, report) = task.await.unwrap();
        (rx, report, id)
    });
    let of_task = blocked(&report);
    assert_eq!((of_task.task().id(), of_task.worker()), (Some(id), None), "{report}");
    assert!(of_task.stack().iter().any(|it| it.contains("waits_for_its_report")), "{report}");
    assert!(
        report.to_string().contains("effect: the other tasks of this LocalSet wait"),
        "{report}"
    );
    // The `block_on` future keeps local tasks waiting too.
    let (report, _) = set.block_on(&rt, async move { waits_for_its_report(&rx) });
    let of_block_on = blocked(&report);
    assert!(of_block_on.task().is_block_on() && of_block_on.worker().is_none(), "{report}");
    assert!(of_block_on.stack().iter().any(|it| it.contains("waits_for_its_report")), "{report}");
}

/// A `block_on` may keep its thread if no other local task waits for it.
#[test]
fn a_local_task_that_delays_no_other_is_not_reported() {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let after = Duration::from_millis(20);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().report_blocked_after(Some(after)).on_report(hook);
    let (rt, set) = (builder.build().unwrap(), LocalSet::new());
    let (go, gone) = channel::<()>();
    let report = set.block_on(&rt, async {
        // A task of the runtime blocks as long, and is reported. Its report ends the wait of the local task.
        let beside = rt.spawn(async move {
            let report = rx.recv_timeout(LIMIT).unwrap();
            drop(go);
            (report, rx)
        });
        wakeful::task::spawn_local(async move { assert!(gone.recv().is_err()) }).await.unwrap();
        beside.await.unwrap()
    });
    let (first, rx) = report;
    assert_eq!(blocked(&first).worker(), Some(0), "{first}");
    assert!(rx.try_recv().is_err(), "the local task delays no other");
}

/// Uses the CPU for much longer than the limit of the runtime in its test.
fn compute() {
    let cpu_time = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes into `time`, which lives until after the call.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let end = cpu_time() + Duration::from_millis(300);
    while cpu_time() < end {}
}

/// With `RUST_BACKTRACE=1`, the panic hook of std computes for long: it looks up the functions of the stack.
#[test]
fn a_panic_hook_that_computes_is_not_a_blocked_poll() {
    const COMPUTES: &str = "the hook computes";
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match info.payload().downcast_ref::<&str>() {
        Some(&COMPUTES) => compute(),
        _ => hook(info),
    }));
    for builder in [Builder::new_current_thread, Builder::new_multi_thread] {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        let after = Some(Duration::from_millis(20));
        let rt = builder().report_blocked_after(after).on_report(hook).build().unwrap();
        let panics = rt.spawn(async { std::panic::panic_any(COMPUTES) });
        assert!(rt.block_on(panics).is_err());
        let task = rt.spawn(async move { waits_for_its_report(&rx) });
        let id = task.id();
        let (report, _) = rt.block_on(task).unwrap();
        assert_eq!(
            blocked(&report).task().id(),
            Some(id),
            "the first report is of the second task"
        );
    }
}
