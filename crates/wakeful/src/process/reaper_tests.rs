//! Children that are reaped by SIGCHLD, as on kernels without pidfds.
//!
//! `tests/process.rs` tests everything else, with pidfds.

use super::*;
use crate::runtime::{Builder, Runtime};
use std::future::poll_fn;
use std::process::{Command, Stdio};

fn runtimes() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [Builder::new_current_thread().enable_all().build().unwrap(), multi]
}

/// Starts `cat`, which exits when its input is dropped.
fn cat() -> (RunningChild, std::process::ChildStdin) {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let notifier = ExitNotifier::by_signal().unwrap();
    (RunningChild { parts: Some((child, notifier)), kill_on_drop: false }, input)
}

async fn exit(running: &mut RunningChild) -> ExitStatus {
    poll_fn(|cx| running.poll_exit(cx, Location::caller())).await.unwrap()
}

fn exists(id: u32) -> bool {
    rustix::process::test_kill_process(Pid::from_raw(id as i32).unwrap()).is_ok()
}

#[test]
fn sigchld_ends_the_wait() {
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
fn orphan_child_is_reaped() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (running, input) = cat();
            let id = running.id();
            drop(running);
            drop(input);
            while exists(id) {
                crate::task::yield_now().await;
            }
        });
    }
}

#[test]
fn child_can_be_awaited_on_another_runtime() {
    let [first, second] = runtimes();
    let (mut running, input) = first.block_on(async { cat() });
    drop(first);
    drop(input);
    assert!(second.block_on(exit(&mut running)).success());
}
