//! File operations under faults: dropped futures, runtimes that shut down, full disks, descriptors that run out,
//! forbidden rings.

mod backends;
mod exhaustion;
mod shutdown;

use std::future::poll_fn;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{Command, Output};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wakeful::fs::{self, File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use wakeful::runtime::{Builder, FileBackend};

#[path = "../support"]
mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{BACKENDS, Folder, current_thread, everywhere, evict, filled, multi_thread};
use support::runtimes::TestRuntime;

/// One runtime of each kind.
fn both(backend: FileBackend) -> [TestRuntime; 2] {
    [current_thread(backend), multi_thread(backend, 2)]
}

/// Polls a write once. The file must accept all of the data.
fn accept(file: &mut File, data: &[u8]) {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(file).poll_write(&mut cx, data) {
        Poll::Ready(Ok(count)) => assert_eq!(count, data.len()),
        other => panic!("a file without a writer accepts: {other:?}"),
    }
}

/// Waits forever, without an orphan report.
async fn never() {
    wakeful::task::may_wait_forever(std::future::pending()).await
}

/// Polls a condition until it holds. The limit of the test binary ends a hang.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        wakeful::task::yield_now().await;
    }
}

#[test]
fn a_write_that_is_dropped_halfway_arrives_whole() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let file = Arc::new(File::create(&path).await.unwrap());
        let data = vec![5; 1 << 20];
        {
            let mut writing = pin!(file.write_all_at(&data, 0));
            let _ = poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await;
        }
        until(|| std::fs::read(&path).unwrap() == data).await;
        let task = wakeful::spawn({
            let file = file.clone();
            async move { file.write_all_at(&vec![6; 1 << 20], 1 << 20).await.unwrap() }
        });
        wakeful::task::yield_now().await;
        task.abort();
        let written = task.await.is_ok() || std::fs::metadata(&path).unwrap().len() > 1 << 20;
        if written {
            until(|| std::fs::metadata(&path).unwrap().len() == 2 << 20).await;
        }
    });
}

#[test]
fn a_file_that_is_dropped_with_a_write_under_way_gets_it() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = File::create(&path).await.unwrap();
        let mut expected = Vec::new();
        for number in 0..50u8 {
            let piece = vec![number; 10_000];
            accept(&mut file, &piece);
            expected.extend_from_slice(&piece);
        }
        drop(file);
        until(|| std::fs::read(&path).unwrap() == expected).await;
    });
}

/// The drop of the runtime waits for accepted writes.
#[test]
fn a_runtime_that_is_dropped_brings_accepted_writes_to_the_file() {
    for backend in BACKENDS {
        for runtime in both(backend) {
            let folder = Folder::new();
            let paths: Vec<PathBuf> = (0..20).map(|n| folder.join(&n.to_string())).collect();
            let names = paths.clone();
            let task = runtime.spawn(async move {
                for (number, name) in names.iter().enumerate() {
                    let mut file = File::create(name).await.unwrap();
                    accept(&mut file, &vec![number as u8; 100_000]);
                    accept(&mut file, &[255; 10]);
                }
            });
            runtime.block_on(task).unwrap();
            drop(runtime);
            for (number, path) in paths.iter().enumerate() {
                let mut expected = vec![number as u8; 100_000];
                expected.extend([255; 10]);
                assert!(std::fs::read(path).unwrap() == expected, "{number} with {backend:?}");
            }
        }
    }
}

/// A runtime without `enable_io` has no poller to find completions with.
#[test]
fn without_io_the_pool_does_it() {
    for backend in BACKENDS {
        let mut builder = Builder::new_current_thread();
        let runtime = support::runtimes::watch("no io", builder.file_backend(backend));
        let folder = Folder::new();
        let path = folder.join("a");
        runtime
            .block_on(runtime.spawn(async move {
                fs::write(&path, "text").await.unwrap();
                let mut file = OpenOptions::new().append(true).open(&path).await.unwrap();
                file.write_all(b" more").await.unwrap();
                file.flush().await.unwrap();
                assert_eq!(fs::read_to_string(&path).await.unwrap(), "text more");
            }))
            .unwrap();
        assert_eq!(runtime.metrics().file_backend(), FileBackend::Pool);
        assert_eq!(runtime.metrics().file_operations_in_uring(), 0);
        assert!(runtime.metrics().file_operations_in_pool() > 0);
    }
}

/// A paused clock does not jump while a file is being read.
#[test]
fn a_paused_clock_stands_while_a_file_is_read() {
    for backend in BACKENDS {
        let mut builder = Builder::new_current_thread();
        let runtime = support::files::with(backend, builder.start_paused(true));
        let folder = Folder::new();
        let (path, data) = filled(&folder, "a", 1 << 20);
        let task = runtime.spawn(async move {
            for _ in 0..20 {
                evict(&path);
                let reading = fs::read(&path);
                let read = wakeful::time::timeout(Duration::from_millis(1), reading).await;
                assert!(read.expect("no time passed").unwrap() == data);
                let mut file = OpenOptions::new().append(true).open(&path).await.unwrap();
                let sync = async {
                    file.write_all(b"").await.unwrap();
                    file.sync_all().await.unwrap();
                };
                let synced = wakeful::time::timeout(Duration::from_millis(1), sync).await;
                synced.expect("no time passed");
            }
        });
        runtime.block_on(task).unwrap();
    }
}

/// A task that waits for a file says so, and where.
#[test]
fn the_report_says_what_was_waited_for() {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().file_backend(FileBackend::Pool);
    let runtime = support::runtimes::watch("files", &mut builder);
    // The pipe has no writer that writes, so reads wait.
    let (read, write) = rustix::pipe::pipe().unwrap();
    let line = line!() + 4;
    runtime.spawn(async move {
        let mut file = File::from(read);
        let mut buf = [0; 1];
        let mut reading = pin!(file.read(&mut buf));
        // With a waker that leads nowhere.
        let mut polled = false;
        poll_fn(|_| {
            if !polled {
                polled = true;
                let mut cx = Context::from_waker(Waker::noop());
                assert!(reading.as_mut().poll(&mut cx).is_pending());
            }
            Poll::<()>::Pending
        })
        .await;
    });
    runtime.block_on(wakeful::task::yield_now());
    let report = runtime.reports.wait_for_one().to_string();
    drop(write);
    assert!(report.contains("data from a file"), "{report}");
    assert!(report.contains(&format!("{}:{line}", file!())), "{report}");
}

// Tests that change limits of the whole process run in a child process.

const CHILD: &str = "WAKEFUL_TEST_FOLDER";

/// Runs one test of this binary in another process, after a few commands of the shell. The folder is there for both.
fn in_child(test: &str, before: &str, folder: &Path) -> Output {
    let program = std::env::current_exe().unwrap();
    let script = format!("{before}\nexec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(program).args(["--exact", test, "--nocapture"]);
    command.env(CHILD, folder).output().expect("there is a shell")
}

/// Returns the folder in the child process, and `None` in the parent.
fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

#[track_caller]
fn assert_passed(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
}

/// Uses each file operation once.
async fn some_of_everything(folder: PathBuf) {
    let (a, b) = (folder.join("a"), folder.join("b"));
    fs::write(&a, "some text").await.unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(&a).await.unwrap();
    file.seek(SeekFrom::End(0)).await.unwrap();
    file.write_all(b" and more").await.unwrap();
    file.sync_all().await.unwrap();
    file.set_len(13).await.unwrap();
    let mut text = [0; 13];
    file.read_exact_at(&mut text, 0).await.unwrap();
    assert_eq!(&text, b"some text and");
    drop(file);
    fs::rename(&a, &b).await.unwrap();
    assert!(!fs::try_exists(&a).await.unwrap());
    fs::create_dir(&a).await.unwrap();
    fs::hard_link(&b, a.join("c")).await.unwrap();
    fs::symlink(&b, a.join("d")).await.unwrap();
    evict(&b);
    assert_eq!(fs::read(a.join("d")).await.unwrap(), b"some text and");
    fs::remove_file(a.join("c")).await.unwrap();
    fs::remove_file(a.join("d")).await.unwrap();
    fs::remove_dir(&a).await.unwrap();
    fs::remove_file(&b).await.unwrap();
}
