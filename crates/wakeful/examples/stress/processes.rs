//! Child processes are waited for, killed, dropped and orphaned, on runtimes that end before them. Oracle: exit
//! statuses are right, and in the end no child is left, running or as a zombie.

use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::process::{Child, Command};
use wakeful::runtime::{Builder, is_rt_shutdown_err};
use wakeful::task::yield_now;
use wakeful::time::timeout;

use super::process_state::has_children;
use super::rng::TestRng;
use super::round::Round;

/// Returns the value, or `None` if the runtime of the call ends. Any other error is a fault.
fn unless_ending<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if is_rt_shutdown_err(&error) => None,
        Err(error) => panic!("the runtime lives: {error}"),
    }
}

/// Starts a child that does not end by itself. Returns `None` if the runtime ends.
fn sleeper(kill_on_drop: bool) -> Option<Child> {
    let mut command = Command::new("sleep");
    command.arg("1000").kill_on_drop(kill_on_drop);
    unless_ending(command.spawn())
}

/// Kills a child by its id, if the process has not waited for it yet. Until then, no other process has the id.
fn kill(id: u32) {
    // SAFETY: the first call fills plain data and takes no exit status, the second sends a signal.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let look = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_PID, id, &mut info, look) == 0 {
            libc::kill(id as i32, libc::SIGKILL);
        }
    }
}

/// Starts a child and waits for it, kills it or drops it. Returns its id if it may still run.
async fn live(mut rng: TestRng) -> Option<u32> {
    match rng.below(8) {
        0 => {
            let code = rng.below(100) as i32;
            let status = Command::new("sh").args(["-c", &format!("exit {code}")]).status().await;
            let status = unless_ending(status)?;
            assert_eq!(status.code(), Some(code), "the status is the child's");
            None
        }
        1 => {
            let mut cat = Command::new("cat");
            cat.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = unless_ending(cat.spawn())?;
            let (mut input, mut output) =
                (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            unless_ending(input.write_all(b"ping").await)?;
            drop(input);
            let mut text = String::new();
            unless_ending(output.read_to_string(&mut text).await)?;
            assert_eq!(text, "ping");
            assert!(unless_ending(child.wait().await)?.success());
            None
        }
        2 => {
            let mut child = sleeper(false)?;
            unless_ending(child.kill().await)?;
            assert_eq!(unless_ending(child.wait().await)?.signal(), Some(libc::SIGKILL));
            None
        }
        3 => {
            // Given up by a time-out, and killed by the drop.
            let mut child = sleeper(true)?;
            _ = timeout(Duration::from_micros(100), child.wait()).await;
            None
        }
        4 => {
            let child = sleeper(false)?;
            child.id() // Dropped while the child runs: an orphan.
        }
        5 => {
            let mut child = sleeper(false)?;
            let id = child.id();
            let waits = wakeful::spawn(async move { child.wait().await });
            yield_now().await;
            waits.abort();
            id
        }
        6 => {
            let mut child = sleeper(true)?;
            {
                let mut wait = pin!(child.wait());
                std::future::poll_fn(|cx| std::task::Poll::Ready(_ = wait.as_mut().poll(cx))).await;
            }
            std::future::pending::<()>().await;
            None
        }
        _ => {
            let child = unless_ending(Command::new("true").spawn())?;
            child.id()
        }
    }
}

pub fn round(round: &mut Round) {
    let runtime = round.runtime();
    let mut rng = round.rng.branch();
    let count = 1 + rng.below(4);
    round.count("children", count);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (life, guard) = (live(rng.branch()), round.drops.guard());
            runtime.spawn(async move {
                let _guard = guard;
                life.await
            })
        })
        .collect();
    let is_patient = rng.one_in(2);
    let mut left = Vec::new();
    runtime.block_on(async {
        for task in tasks {
            // One of the children never ends by itself.
            let limit =
                if is_patient { Duration::from_millis(50) } else { Duration::from_micros(300) };
            if let Ok(ended) = timeout(limit, task).await {
                left.extend(ended.expect("a child's life has no panic"));
            }
        }
    });
    let ends_first = rng.one_in(2);
    if !ends_first {
        left.iter().copied().for_each(kill);
    }
    round.end(runtime);
    left.into_iter().for_each(kill);
    // A worker may still poll a task of the round. `reap` kills every child, which such a task would report as a
    // fault.
    while round.drops.dropped() < round.drops.made() {
        thread::yield_now();
    }
    reap(&mut rng);
}

/// A new runtime waits for the orphaned children of ended runtimes, as it does for its own children.
fn reap(rng: &mut TestRng) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        while has_children() {
            kill_all();
            assert!(Command::new("true").status().await.unwrap().success());
        }
    });
    if rng.one_in(2) {
        runtime.shutdown_background();
    }
}

/// Kills the children of tasks that were dropped before they could report the id.
fn kill_all() {
    let threads = std::fs::read_dir("/proc/self/task").expect("procfs is mounted");
    for thread in threads.flatten() {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|id| id.parse().ok()).for_each(kill);
    }
}
