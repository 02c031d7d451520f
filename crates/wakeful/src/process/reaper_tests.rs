//! Children whose end is learned of by SIGCHLD, as on systems without descriptors of
//! processes; with them, `tests/process.rs` has all the rest.

use super::*;
use crate::runtime::{Builder, Runtime};
use std::future::poll_fn;
use std::process::{Command, Stdio};

fn runtimes() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [Builder::new_current_thread().enable_all().build().unwrap(), multi]
}

/// `cat`, which ends when its input is dropped.
fn cat() -> (Running, std::process::ChildStdin) {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let end = ExitNotifier::by_signal().unwrap();
    (Running { parts: Some((child, end)), kill_on_drop: false }, input)
}

async fn exit(running: &mut Running) -> ExitStatus {
    poll_fn(|cx| running.poll_exit(cx, Location::caller())).await.unwrap()
}

fn is_there(id: u32) -> bool {
    rustix::process::test_kill_process(Pid::from_raw(id as i32).unwrap()).is_ok()
}

#[test]
fn the_signal_ends_the_wait() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut children: Vec<_> = (0..3).map(|_| cat()).collect();
            while let Some((mut running, input)) = children.pop() {
                let task = crate::spawn(async move { exit(&mut running).await });
                crate::task::yield_now().await;
                drop(input);
                assert!(task.await.unwrap().success());
            }
        });
    }
}

#[test]
fn a_stray_is_waited_for() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (running, input) = cat();
            let id = running.id();
            drop(running);
            drop(input);
            while is_there(id) {
                crate::task::yield_now().await;
            }
        });
    }
}

#[test]
fn another_runtime_takes_over() {
    let [first, second] = runtimes();
    let (mut running, input) = first.block_on(async { cat() });
    drop(first);
    drop(input);
    assert!(second.block_on(exit(&mut running)).success());
}
