//! Standard input, output and error. Each test runs this binary again in a role, with pipes for its streams.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use wakeful::io::{self, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use wakeful::runtime::{Builder, OrphanPolicy};

mod support {
    pub mod runtimes;
    pub mod sockets;
}
use support::runtimes::{bound_this_binary, watch};
use support::sockets::{current_thread, poll_once, runtimes};

/// The environment variable with the role of a child process.
const ROLE: &str = "WAKEFUL_TEST_ROLE";
/// Marks around the output of the role. The rest of standard output is the harness's.
const BEGIN: &[u8] = b"<<begin>>";
const END: &[u8] = b"<<end>>";

/// Starts this binary in a role.
fn play(role: &str) -> Child {
    bound_this_binary();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child_plays_its_role", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the child with `input`, and returns its output.
fn played(role: &str, input: &[u8]) -> Vec<u8> {
    let mut child = play(role);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {}: {errors}", output.status);
    between(&output.stdout).to_vec()
}

/// Reads until what was read ends with `mark`.
fn read_until(output: &mut impl Read, all: &mut Vec<u8>, mark: &[u8]) {
    while !all.ends_with(mark) {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
}

fn between(output: &[u8]) -> &[u8] {
    let find = |mark: &[u8]| output.windows(mark.len()).position(|part| part == mark);
    let begin = find(BEGIN).expect("the role has begun") + BEGIN.len();
    let end = find(END).expect("the role came to its end");
    &output[begin..end]
}

/// Runs a role in a child process. Without a role it does nothing.
#[test]
fn the_child_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut out = std::io::stdout();
    out.write_all(BEGIN).unwrap();
    out.flush().unwrap();
    match role.as_str() {
        "echo" => runtimes()[1].block_on(echo()),
        "echo on the current thread" => current_thread().block_on(echo()),
        "lines" => current_thread().block_on(lines()),
        "bytes" => current_thread().block_on(bytes()),
        "last words" => last_words(),
        "closed output" => current_thread().block_on(closed_output()),
        "waits" => waits(),
        role => panic!("no such role: {role}"),
    }
    out.write_all(END).unwrap();
    out.flush().unwrap();
    std::process::exit(0);
}

async fn echo() {
    let (mut stdin, mut stdout, mut stderr) = (io::stdin(), io::stdout(), io::stderr());
    let copied = io::copy(&mut stdin, &mut stdout).await.unwrap();
    stdout.shutdown().await.unwrap();
    stderr.write_all(format!("{copied} bytes").as_bytes()).await.unwrap();
    stderr.flush().await.unwrap();
}

async fn lines() {
    let mut lines = BufReader::new(io::stdin()).lines();
    let mut stdout = io::stdout();
    let mut count = 0;
    while let Some(line) = lines.next_line().await.unwrap() {
        count += 1;
        stdout.write_all(format!("{count}: {line}\n").as_bytes()).await.unwrap();
    }
    // What has no line end stays in std's buffer unless it is flushed.
    stdout.write_all(b"no more").await.unwrap();
    stdout.flush().await.unwrap();
}

/// Reads byte by byte, through several handles.
async fn bytes() {
    let mut stdout = io::stdout();
    let mut first = [0; 3];
    io::stdin().read_exact(&mut first).await.unwrap();
    let mut stdin = io::stdin();
    assert_eq!(stdin.read(&mut []).await.unwrap(), 0);
    stdout.write_all(&first).await.unwrap();
    while let Ok(byte) = stdin.read_u8().await {
        stdout.write_u8(byte.to_ascii_uppercase()).await.unwrap();
    }
    assert_eq!(stdin.read(&mut [0; 8]).await.unwrap(), 0, "the end stays the end");
    assert_eq!(stdout.write(&[]).await.unwrap(), 0);
    stdout.flush().await.unwrap();
}

/// The pool is busy when the runtime shuts down. Accepted data is still written.
fn last_words() {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    let (free, is_free) = mpsc::channel::<()>();
    let (busy, is_busy) = mpsc::channel::<()>();
    let (ran, has_run) = mpsc::channel::<()>();
    let mut stdout = runtime.block_on(async {
        wakeful::task::spawn_blocking(move || {
            busy.send(()).unwrap();
            is_free.recv()
        });
        is_busy.recv().unwrap();
        wakeful::task::spawn_blocking(move || ran.send(()));
        let mut stdout = io::stdout();
        stdout.write_all(b"last words").await.unwrap();
        stdout
    });
    runtime.shutdown_background();
    free.send(()).unwrap();
    has_run.recv().expect("what was queued runs, too");
    let other = current_thread();
    other.block_on(stdout.flush()).unwrap();
}

/// Writes to a standard output that is closed.
async fn closed_output() {
    let mut byte = [0];
    assert_eq!(io::stdin().read(&mut byte).await.unwrap(), 0);
    let mut stdout = io::stdout();
    stdout.write_all(&[b'\n'; 100]).await.unwrap();
    let error = stdout.flush().await.unwrap_err();
    let mut stderr = io::stderr();
    stderr.write_all(format!("told: {:?}", error.kind()).as_bytes()).await.unwrap();
    stderr.flush().await.unwrap();
    std::process::exit(0);
}

/// Prints what a task that reads standard input waits for.
fn waits() {
    let mut builder = Builder::new_current_thread();
    let rt = watch("current_thread", builder.enable_all().on_orphan(OrphanPolicy::Report));
    rt.spawn(async {
        {
            let mut stdin = io::stdin();
            assert!(poll_once(pin!(stdin.read(&mut [0]))).await.is_pending());
        }
        std::future::pending::<()>().await;
    });
    rt.settle();
    let orphan = rt.reports.wait_for_one();
    let (what, site) = orphan.last_waited_for().unwrap();
    assert_eq!(site.file(), file!());
    let mut stdout = std::io::stdout();
    stdout.write_all(what.as_bytes()).unwrap();
    stdout.flush().unwrap();
}

#[test]
fn input_is_copied_to_output() {
    let small = b"hello".to_vec();
    // More than pipes, buffers and a single write hold.
    let large: Vec<u8> = (0..5_000_000u32).map(|at| (at % 253) as u8).collect();
    for role in ["echo", "echo on the current thread"] {
        for input in [&b""[..], &small, &large] {
            let output = played(role, input);
            assert!(output == input, "{role}: {} bytes of {}", output.len(), input.len());
        }
    }
}

#[test]
fn lines_are_read_as_they_come() {
    let mut child = play("lines");
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut all = Vec::new();
    for line in ["first", "second"] {
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        // The answer comes before the next line is sent.
        read_until(&mut stdout, &mut all, format!(": {line}\n").as_bytes());
    }
    drop(stdin);
    stdout.read_to_end(&mut all).unwrap();
    assert_eq!(between(&all), b"1: first\n2: second\nno more");
    assert!(child.wait().unwrap().success());
}

#[test]
fn handles_share_what_std_has_read() {
    assert_eq!(played("bytes", b"abcdefg"), b"abcDEFG");
}

#[test]
fn accepted_output_is_written_although_the_runtime_ends() {
    assert_eq!(played("last words", b""), b"last words");
}

#[test]
fn a_flush_to_a_closed_pipe_fails() {
    let mut child = play("closed output");
    read_until(&mut child.stdout.take().unwrap(), &mut Vec::new(), BEGIN);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.ends_with("told: BrokenPipe"), "{errors}");
}

#[test]
fn a_task_that_reads_is_listed_with_the_site() {
    let mut child = play("waits");
    // The input stays open until the role has printed what it waits for. Then the read ends, and the runtime shuts
    // down.
    let stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut all = Vec::new();
    read_until(&mut stdout, &mut all, b"standard input");
    drop(stdin);
    stdout.read_to_end(&mut all).unwrap();
    assert_eq!(between(&all), b"standard input");
    assert!(child.wait().unwrap().success());
}

#[test]
fn they_have_the_numbers_that_they_always_had() {
    assert_eq!(io::stdin().as_raw_fd(), 0);
    assert_eq!(io::stdout().as_raw_fd(), 1);
    assert_eq!(io::stderr().as_raw_fd(), 2);
}

#[test]
fn nothing_is_accepted_on_a_runtime_that_is_gone() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    runtime.shutdown_background();
    let error = futures::executor::block_on(io::stderr().write_all(b"lost")).unwrap_err();
    assert!(wakeful::runtime::is_rt_shutdown_err(&error), "{error}");
}
