//! A `#[wakeful::test]` that waits for something that can never come fails with a report, whatever it waits for.
//!
//! The tests below that never end are ignored. Another test runs each of them in a process of its own.

use std::process::Command;
use std::sync::Arc;
use std::thread;

use wakeful::runtime::Builder;
use wakeful::sync::{Barrier, Mutex, Notify, Semaphore, SetOnce, broadcast, mpsc, oneshot, watch};
use wakeful::task::spawn_blocking;

/// Runs one of the tests of this file alone. Returns what it printed, and whether it failed.
fn run(test: &str) -> (String, bool) {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(this);
    // If it hangs, the system ends it.
    command
        .args(["--include-ignored", "--exact", test, "--nocapture"])
        .env("WAKEFUL_TEST_TIMEOUT", "off");
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), !output.status.success())
}

/// Asserts that the test fails, and that its output contains all `parts`.
#[track_caller]
fn fails_with(test: &str, parts: &[&str]) {
    let (text, failed) = run(test);
    assert!(failed, "{test} passed:\n{text}");
    assert!(text.contains("stuck block_on (proven)"), "{test}:\n{text}");
    for part in parts {
        assert!(text.contains(part), "{test} lacks {part:?}:\n{text}");
    }
}

macro_rules! never_end {
    ($($name:ident: $future:expr, $parts:expr;)+) => {
        mod never_end {
            use super::*;
            $(
                #[wakeful::test]
                #[ignore = "never ends; another test runs it"]
                async fn $name() {
                    $future.await;
                }
            )+
            $(
                pub mod $name {
                    #[allow(unused_imports, reason = "some futures name their types in full")]
                    use super::*;
                    #[wakeful::test(flavor = "multi_thread", worker_threads = 2)]
                    #[ignore = "never ends; another test runs it"]
                    async fn on_two_threads() {
                        $future.await;
                    }
                }
            )+
        }

        mod fail {
            $(
                #[test]
                fn $name() {
                    super::fails_with(concat!("never_end::", stringify!($name)), &$parts);
                    let two = concat!("never_end::", stringify!($name), "::on_two_threads");
                    super::fails_with(two, &$parts);
                }
            )+
        }
    };
}

never_end! {
    a_kept_sender: async {
        let (_tx, mut rx) = mpsc::channel::<u32>(1);
        rx.recv().await;
    }, ["mpsc::Receiver::recv", "channel created at", "quiescence.rs", "1 sender is alive"];
    two_kept_senders: async {
        let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        let _second = tx.clone();
        rx.recv().await;
    }, ["channel created at", "2 senders are alive"];
    a_kept_oneshot: async {
        let (_tx, rx) = oneshot::channel::<u32>();
        drop(rx.await);
    }, ["oneshot::Receiver", "its sender is alive"];
    a_watch_that_never_changes: async {
        let (_tx, mut rx) = watch::channel(1);
        drop(rx.changed().await);
    }, ["watch::Receiver::changed", "channel created at", "1 sender is alive"];
    a_silent_broadcast: async {
        let (_tx, mut rx) = broadcast::channel::<u32>(2);
        drop(rx.recv().await);
    }, ["broadcast::Receiver::recv", "channel created at", "1 sender is alive"];
    a_notify_without_a_notifier: async {
        Notify::new().notified().await;
    }, ["Notify::notified"];
    a_barrier_with_too_few: async {
        Barrier::new(3).wait().await;
    }, ["Barrier::wait", "1 of 3 tasks has arrived"];
    more_permits_than_there_are: async {
        drop(Semaphore::new(10).acquire_many(16).await);
    }, ["Semaphore::acquire", "requests 16 permits, of which 10 are free"];
    a_value_that_is_never_set: async {
        SetOnce::<u32>::new().wait().await;
    }, ["SetOnce::wait"];
    a_full_queue_of_its_own: async {
        let (tx, _rx) = mpsc::channel(2);
        for number in 0..3 {
            tx.send(number).await.unwrap();
        }
    }, ["mpsc::Sender::send", "a queue of 2"];
    more_slots_than_are_free: async {
        let (tx, _rx) = mpsc::channel::<u32>(4);
        let _held = tx.reserve_many(2).await.unwrap();
        drop(tx.reserve_many(3).await);
    }, ["mpsc::Sender::send", "a queue of 4, requests 3 of 4 slots, 2 slots are held by permits"];
    an_in_memory_pipe: async {
        use wakeful::io::AsyncReadExt;
        let (mut near, _far) = wakeful::io::duplex(8);
        drop(near.read_u8().await);
    }, ["in-memory read"];
    a_task_in_between: async {
        let (_tx, mut rx) = mpsc::channel::<u32>(1);
        let waits = wakeful::task::Builder::new().name("waits").spawn(async move { rx.recv().await });
        drop(waits.unwrap().await);
    }, ["root cause  task ", "\"waits\" waits: mpsc::Receiver::recv", "held up     block_on"];
    a_closure_that_receives: async {
        let (_tx, mut rx) = mpsc::channel::<u32>(1);
        drop(spawn_blocking(move || rx.blocking_recv()).await);
    }, ["mpsc::Receiver::recv", "1 sender is alive"];
    a_thread_that_receives: async {
        let (_tx, mut rx) = mpsc::channel::<u32>(1);
        let (_give, given) = oneshot::channel::<u32>();
        thread::spawn(move || rx.blocking_recv());
        drop(given.await);
    }, ["oneshot::Receiver", "1 that waits in a blocking method"];
    a_lock_of_a_kept_guard: async {
        let lock = Arc::new(Mutex::new(()));
        let _guard = lock.clone().lock_owned().await;
        drop(lock.lock().await);
    }, ["Mutex::lock"];
    a_foreign_channel: async {
        let (_tx, rx) = futures::channel::oneshot::channel::<u32>();
        let _ = rx.await;
    }, ["can never return"];
    a_runtime_that_no_thread_drives: async {
        let other = Builder::new_current_thread().build().unwrap();
        drop(other.spawn(async {}).await);
        drop(thread::spawn(move || drop(other)));
    }, ["JoinHandle"];
}

/// Tests that build their runtime themselves.
mod own_runtime {
    use super::*;
    use std::sync::OnceLock;
    use wakeful::inspect::TaskState;
    use wakeful::runtime::{Handle, Runtime};

    fn wait_for_a_kept_sender(runtime: &Runtime) {
        let (_tx, mut rx) = mpsc::channel::<u32>(1);
        runtime.block_on(rx.recv());
    }

    #[test]
    #[ignore = "never ends; another test runs it"]
    fn on_one_thread() {
        wait_for_a_kept_sender(&Builder::new_current_thread().build().unwrap());
    }

    #[test]
    #[ignore = "never ends; another test runs it"]
    fn on_two_threads() {
        let mut two = Builder::new_multi_thread();
        wait_for_a_kept_sender(&two.worker_threads(2).build().unwrap());
    }

    /// Two tests at a time: one waits, and the other ends once a scan has proven nothing.
    pub mod beside {
        use super::*;

        static HANDLE: OnceLock<Handle> = OnceLock::new();

        #[test]
        #[ignore = "never ends; another test runs it"]
        fn a_test_that_waits() {
            let runtime = Builder::new_current_thread().build().unwrap();
            HANDLE.set(runtime.handle().clone()).unwrap();
            wait_for_a_kept_sender(&runtime);
        }

        #[test]
        #[ignore = "waits for a_test_that_waits; another test runs both"]
        fn a_test_that_ends() {
            let handle = HANDLE.wait();
            let is_waiting = || {
                let dump = handle.dump();
                dump.tasks()
                    .iter()
                    .any(|task| task.state() == TaskState::Waiting && !task.waits().is_empty())
            };
            while !is_waiting() {
                thread::yield_now();
            }
            assert_eq!(handle.diagnose().len(), 0);
        }
    }
}

/// The end of the other test wakes no thread.
#[test]
fn a_test_ends_after_the_last_of_the_others() {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(this);
    command.args(["--ignored", "own_runtime::beside", "--test-threads=2"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("a_test_that_ends ... ok"), "{text}");
    assert!(text.contains("a_test_that_waits ... FAILED"), "{text}");
    assert!(text.contains("stuck block_on (proven)"), "{text}");
}

#[test]
fn a_runtime_that_a_test_builds_is_judged_alike() {
    for test in ["own_runtime::on_one_thread", "own_runtime::on_two_threads"] {
        fails_with(test, &["mpsc::Receiver::recv", "1 sender is alive", "and the test harness"]);
    }
}

/// Tests that look stuck and are not: a thread, a timer or a closure will help. The timers fire after the first scan of
/// a quiet runtime, which would end the test.
mod helped {
    use super::*;
    use std::time::Duration;

    /// Scans the runtime again and again: it is not stuck.
    fn wait_for_scans() {
        let handle = wakeful::runtime::Handle::current();
        for _ in 0..200 {
            assert!(handle.diagnose().is_empty());
            thread::yield_now();
        }
    }

    async fn by_a_thread() {
        let (tx, mut rx) = mpsc::channel(1);
        let handle = wakeful::runtime::Handle::current();
        thread::spawn(move || {
            let _entered = handle.enter();
            wait_for_scans();
            tx.blocking_send(7).unwrap();
        });
        assert_eq!(rx.recv().await, Some(7));
    }

    async fn by_a_closure() {
        let (tx, mut rx) = mpsc::channel(1);
        spawn_blocking(move || {
            wait_for_scans();
            tx.blocking_send(7).unwrap();
        });
        assert_eq!(rx.recv().await, Some(7));
    }

    async fn by_a_timer() {
        let (tx, mut rx) = mpsc::channel(1);
        wakeful::spawn(async move {
            wakeful::time::sleep(Duration::from_millis(300)).await;
            tx.send(7).await.unwrap();
        });
        assert_eq!(rx.recv().await, Some(7));
    }

    async fn by_another_runtime() {
        let (tx, mut rx) = mpsc::channel(1);
        let other = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        other.spawn(async move {
            wakeful::time::sleep(Duration::from_millis(300)).await;
            tx.send(7).await.unwrap();
        });
        assert_eq!(rx.recv().await, Some(7));
        other.shutdown_background();
    }

    async fn by_a_child_process() {
        let mut child = wakeful::process::Command::new("sleep").arg("0.3").spawn().unwrap();
        assert!(child.wait().await.unwrap().success());
    }

    async fn by_a_signal() {
        use wakeful::signal::unix::{SignalKind, signal};
        let mut signals = signal(SignalKind::user_defined2()).unwrap();
        let script = format!("sleep 0.3; kill -USR2 {}", std::process::id());
        let mut sends = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        signals.recv().await.unwrap();
        sends.wait().unwrap();
    }

    /// The program's own handler may wake a task. wakeful has handlers of its own for some signals.
    async fn by_a_handler_of_the_program(signal: i32) {
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
        static CALLED: AtomicBool = AtomicBool::new(false);
        static WAITS: futures::task::AtomicWaker = futures::task::AtomicWaker::new();
        extern "C" fn handler(_signal: i32) {
            CALLED.store(true, SeqCst);
            WAITS.wake();
        }
        // SAFETY: the handler stores a flag and wakes a thread, without locks or allocations.
        unsafe { libc::signal(signal, handler as *const () as usize) };
        let script = format!("sleep 0.3; kill -{signal} {}", std::process::id());
        let mut sends = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        std::future::poll_fn(|cx| {
            WAITS.register(cx.waker());
            if CALLED.load(SeqCst) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        sends.wait().unwrap();
    }

    macro_rules! helped {
        ($($name:ident)+) => {$(
            mod $name {
                #[wakeful::test]
                async fn on_one_thread() {
                    super::$name().await;
                }

                #[wakeful::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_two_threads() {
                    super::$name().await;
                }

                /// Runs in a process without the threads of other tests.
                #[test]
                fn in_a_process_of_its_own() {
                    for flavor in ["one", "two"] {
                        let threads = if flavor == "one" { "thread" } else { "threads" };
                        let module = concat!("helped::", stringify!($name));
                        let (text, failed) =
                            super::super::run(&format!("{module}::on_{flavor}_{threads}"));
                        assert!(!failed && text.contains("1 passed"), "{text}");
                    }
                }
            }
        )+};
    }

    helped! { by_a_thread by_a_closure by_a_timer by_another_runtime by_a_child_process }

    mod by_signals {
        #[wakeful::test]
        async fn of_wakeful() {
            super::by_a_signal().await;
        }

        /// Runs alone, because its signal handler stays installed and would hide what other tests check.
        #[wakeful::test]
        #[ignore = "in a process of its own"]
        async fn of_the_program() {
            super::by_a_handler_of_the_program(libc::SIGWINCH).await;
        }

        #[wakeful::test]
        #[ignore = "in a process of its own"]
        async fn of_the_program_for_stacks() {
            super::by_a_handler_of_the_program(libc::SIGURG).await;
        }

        #[wakeful::test]
        #[ignore = "in a process of its own"]
        async fn of_the_program_for_dumps() {
            super::by_a_handler_of_the_program(libc::SIGQUIT).await;
        }

        #[test]
        fn in_a_process_of_its_own() {
            for name in ["", "_for_stacks", "_for_dumps"] {
                let name = format!("helped::by_signals::of_the_program{name}");
                let (text, failed) = super::super::run(&name);
                assert!(!failed && text.contains("1 passed"), "{text}");
            }
        }
    }
}
