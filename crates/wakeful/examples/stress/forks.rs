//! The process forks while its runtime works: by `Command` with `pre_exec`, and by `fork` itself. Oracle: children
//! end with the expected status, their bytes arrive, and the runtime completes its work.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use wakeful::io::AsyncReadExt;
use wakeful::net::unix::pipe;
use wakeful::process::Command;
use wakeful::sync::mpsc;
use wakeful::time::sleep;

use super::rng::TestRng;
use super::round::Round;

/// Sends messages, sets timers and spawns tasks while the forks run. Returns the number of received messages.
async fn work(messages: usize) -> usize {
    let (tx, mut rx) = mpsc::channel(2);
    for n in 0..messages {
        let tx = tx.clone();
        wakeful::spawn(async move {
            sleep(Duration::from_micros(n as u64 % 50)).await;
            tx.send(n).await.unwrap();
        });
    }
    drop(tx);
    let mut received = 0;
    while rx.recv().await.is_some() {
        received += 1;
    }
    received
}

/// Forks. The child writes a byte to `to`, and then exits, raises a signal or executes another program.
fn fork(to: c_int, how: usize) -> c_int {
    // SAFETY: in the child of a process with threads, only the calling thread exists. The child makes only
    // async-signal-safe calls, on memory that existed before. It leaves by `_exit`, a signal or `execv`.
    unsafe {
        let id = libc::fork();
        if id == 0 {
            libc::write(to, c"!".as_ptr().cast(), 1);
            match how {
                0 => libc::_exit(7),
                1 => _ = libc::kill(libc::getpid(), libc::SIGKILL),
                _ => {
                    let args = [c"/bin/true".as_ptr(), std::ptr::null()];
                    libc::execv(args[0], args.as_ptr());
                }
            }
            libc::_exit(99);
        }
        assert!(id > 0, "the system has a process to give");
        id
    }
}

fn wait_for(id: c_int) -> c_int {
    let mut status = 0;
    // SAFETY: waits for a child of this process and fills the status.
    assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
    status
}

/// A fork whose pipe a task of the runtime reads.
async fn raw_fork(mut rng: TestRng) {
    let (sender, mut receiver) = pipe::pipe().unwrap();
    let how = rng.below(3);
    let id = fork(sender.as_raw_fd(), how);
    drop(sender);
    let mut text = Vec::new();
    receiver.read_to_end(&mut text).await.unwrap();
    assert_eq!(text, b"!", "the child's byte arrives, and then the end");
    let status = wakeful::task::spawn_blocking(move || wait_for(id)).await.unwrap();
    match how {
        0 => assert_eq!(libc::WEXITSTATUS(status), 7),
        1 => assert_eq!(libc::WTERMSIG(status), libc::SIGKILL),
        _ => assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0),
    }
}

/// A child with code between `fork` and `exec`.
async fn pre_exec(code: c_int) {
    let mut command = Command::new("sh");
    command.args(["-c", "echo $0; exit $1", "text", &code.to_string()]).stdout(Stdio::piped());
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe {
        command.as_std_mut().pre_exec(|| {
            libc::setsid();
            libc::getpid();
            Ok(())
        });
    }
    let output = command.output().await.unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(code), &b"text\n"[..]));
}

pub fn round(round: &mut Round) {
    let runtime = round.runtime();
    let mut rng = round.rng.branch();
    let messages = 50 + rng.below(200);
    let works = runtime.spawn(work(messages));
    let count = 1 + rng.below(4);
    let mut tasks = Vec::new();
    for _ in 0..count {
        let (code, branch) = (rng.below(100) as c_int, rng.branch());
        tasks.push(match rng.below(3) {
            0 => runtime.spawn(pre_exec(code)),
            _ => runtime.spawn(raw_fork(branch)),
        });
    }
    // Another thread forks too, at arbitrary moments of the workers.
    let outside = thread::spawn(move || {
        let (read, write) = std::io::pipe().unwrap();
        let id = fork(write.as_raw_fd(), 0);
        drop(read);
        assert_eq!(libc::WEXITSTATUS(wait_for(id)), 7);
    });
    round.count("forks", count + 1);
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("the checks of a fork hold");
        }
        assert_eq!(works.await.unwrap(), messages, "every message arrives");
    });
    outside.join().expect("the checks of a fork hold");
    round.end(runtime);
}
