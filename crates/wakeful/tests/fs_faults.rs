//! File operations under faults: dropped futures, runtimes that shut down, full disks, descriptors that run out,
//! forbidden rings.

use std::future::poll_fn;
use std::io::{self, ErrorKind, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wakeful::fs::{self, File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use wakeful::runtime::{Builder, FileBackend};

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{
    BACKENDS, Folder, current_thread, everywhere, evict, filled, has_uring, multi_thread,
};
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

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Drop,
    Timeout,
    Background,
}

/// The runtime shuts down amid a thousand operations of every kind. Accepted data reaches its file, and no completed
/// operation failed.
#[test]
fn a_runtime_goes_down_with_a_thousand_operations_under_way() {
    for backend in BACKENDS {
        for end in [End::Drop, End::Timeout, End::Background] {
            for runtime in both(backend) {
                go_down(runtime, end);
            }
        }
    }
}

/// Collects the failures of tasks that are not joined.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl Failures {
    /// Records a failure unless `work` returns `true` or the error of a runtime that has shut down. Then waits forever.
    async fn watch(self, what: &'static str, work: impl Future<Output = io::Result<bool>>) {
        let failure = match work.await {
            Ok(true) => None,
            Ok(false) => Some(format!("{what}: not what was expected")),
            Err(error) if error.to_string().contains("background task failed") => None,
            Err(error) => Some(format!("{what}: {error}")),
        };
        self.0.lock().unwrap().extend(failure);
        never().await;
    }
}

fn go_down(TestRuntime { runtime, reports, .. }: TestRuntime, end: End) {
    let folder = Folder::new();
    let (source, data) = filled(&folder, "source", 250 * 4096);
    evict(&source);
    let log = folder.join("log");
    let (root, log_name) = (folder.path().to_owned(), log.clone());
    let seen = Failures::default();
    let failures = seen.clone();
    let under_way = runtime.spawn(async move {
        let reader = Arc::new(File::open(&source).await.unwrap());
        let mut log = OpenOptions::new().append(true).create(true).open(log_name).await.unwrap();
        for number in 0..250usize {
            let (reader, root) = (reader.clone(), root.clone());
            let expected = data[number * 4096..][..4096].to_vec();
            wakeful::spawn(failures.clone().watch("read", async move {
                let mut page = vec![0; 4096];
                reader.read_exact_at(&mut page, number as u64 * 4096).await?;
                Ok(page == expected)
            }));
            let name = root.join(format!("new-{number}"));
            wakeful::spawn(failures.clone().watch("write", async move {
                let mut file = File::create(&name).await?;
                file.write_all(&[1; 1000]).await?;
                file.sync_all().await?;
                Ok(std::fs::read(&name)? == [1; 1000])
            }));
            let name = root.join(format!("folder-{number}"));
            wakeful::spawn(failures.clone().watch("folder", async move {
                fs::create_dir(&name).await?;
                let is_dir = fs::metadata(&name).await?.is_dir();
                fs::remove_dir(&name).await?;
                Ok(is_dir)
            }));
            accept(&mut log, &(number as u32).to_le_bytes());
            if number % 100 == 99 {
                wakeful::task::yield_now().await; // for a fresh budget
            }
        }
        wakeful::task::yield_now().await;
    });
    runtime.block_on(under_way).unwrap();
    match end {
        End::Drop => drop(runtime),
        End::Timeout => runtime.shutdown_timeout(Duration::from_secs(100)),
        End::Background => runtime.shutdown_background(),
    }
    let expected: Vec<u8> = (0..250u32).flat_map(u32::to_le_bytes).collect();
    while std::fs::read(&log).unwrap() != expected {
        assert!(end == End::Background, "accepted, and not there after {end:?}");
        std::thread::yield_now();
    }
    let seen = seen.0.lock().unwrap();
    assert!(seen.is_empty(), "{} failures, the first: {}", seen.len(), seen[0]);
    drop(reports);
}

/// A shutdown cancels a read that may never end, and a task that still waits for it gets an error.
#[test]
fn a_runtime_goes_down_with_a_read_that_does_not_end() {
    for backend in [FileBackend::Auto, FileBackend::Uring] {
        if !has_uring() {
            return; // a read on a thread cannot be cancelled
        }
        for runtime in both(backend) {
            let (read, write) = rustix::pipe::pipe().unwrap();
            let begin = async move {
                let mut file = File::from(read);
                let mut buf = [0; 4];
                let mut reading = pin!(file.read(&mut buf));
                let waits =
                    |cx: &mut Context<'_>| Poll::Ready(reading.as_mut().poll(cx).is_pending());
                assert!(poll_fn(waits).await);
                file
            };
            let mut file = runtime.block_on(runtime.spawn(begin)).unwrap();
            drop(runtime);
            let elsewhere = current_thread(FileBackend::Pool);
            let told = elsewhere.block_on(file.read(&mut [0; 4])).unwrap_err();
            assert_eq!(told.to_string(), "background task failed");
            drop(write);
        }
    }
}

/// Reads that are dropped at random times, followed at once by other reads into the same memory.
#[test]
fn reads_are_given_up_at_random() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 200 * 4096);
        let file = File::open(&path).await.unwrap();
        for round in 0..20usize {
            evict(&path);
            for at in 0..200usize {
                let block = (at * 37 + round) % 200;
                let mut page = [0xaa; 4096];
                {
                    let mut reading = pin!(file.read_at(&mut page, block as u64 * 4096));
                    let polled = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
                    if at % 3 == 0 && polled.is_pending() {
                        assert_eq!(reading.await.unwrap(), 4096);
                    } else if polled.is_pending() {
                        continue;
                    }
                }
                assert!(page == data[block * 4096..][..4096]);
            }
        }
    });
}

/// Operations that were started in `block_on` of a current-thread runtime complete while no thread drives it.
#[test]
fn a_ring_that_no_thread_drives_is_reaped() {
    for backend in BACKENDS {
        let (runtime, folder) = (current_thread(backend), Folder::new());
        let path = folder.join("a");
        let mut file = runtime.block_on(async {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .await
                .unwrap();
            accept(&mut file, &[1; 100_000]);
            file
        });
        runtime.handle().block_on(async {
            file.flush().await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), [1; 100_000]);
            assert_eq!(file.seek(SeekFrom::Start(99_999)).await.unwrap(), 99_999);
            assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 1);
        });
        evict(&path);
        let mut buf = [0; 50_000];
        let mut reading = Box::pin(file.read_at(&mut buf, 0));
        runtime.block_on(async {
            let _ = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_ready())).await;
        });
        drop(reading);
        // The dropped read may have filled the page cache in part, so a single read may be short.
        runtime.handle().block_on(file.read_exact_at(&mut buf, 0)).unwrap();
        assert!(buf == [1; 50_000]);
    }
}

/// Accepted writes reach the file after `block_on` has returned. They do not occupy the pool's only thread, not even
/// while a read in the ring does not end.
#[test]
fn accepted_writes_arrive_while_no_thread_drives() {
    for backend in BACKENDS {
        let mut builder = Builder::new_current_thread();
        let runtime = support::files::with(backend, builder.max_blocking_threads(1));
        let folder = Folder::new();
        let path = folder.join("a");
        let (read, write) = rustix::pipe::pipe().unwrap();
        let in_ring = backend == FileBackend::Uring && has_uring();
        let never_read = runtime.block_on(async {
            let mut endless = File::from(read);
            if in_ring {
                let (mut buf, mut cx) = ([0; 1], Context::from_waker(Waker::noop()));
                assert!(pin!(endless.read(&mut buf)).poll(&mut cx).is_pending());
            }
            let mut file = File::create(&path).await.unwrap();
            for number in 1..=3 {
                accept(&mut file, &[number; 500_000]);
            }
            endless
        });
        while std::fs::metadata(&path).unwrap().len() < 1_500_000 {
            std::thread::yield_now();
        }
        let elsewhere = current_thread(FileBackend::Pool);
        elsewhere.block_on(runtime.spawn_blocking(|| ())).unwrap();
        drop((write, never_read));
    }
}

/// The kernel cancels the submissions of a thread that ends. Another thread carries them out.
#[test]
fn the_thread_that_submitted_is_gone() {
    for backend in BACKENDS {
        for _ in 0..20 {
            let (runtime, folder) = (current_thread(backend), Folder::new());
            let paths: Vec<PathBuf> = (0..20).map(|n| folder.join(&n.to_string())).collect();
            let names = paths.clone();
            let files: Vec<File> = std::thread::scope(|scope| {
                let begin = async {
                    let mut files = Vec::new();
                    for name in names {
                        let mut file = File::create(&name).await.unwrap();
                        accept(&mut file, &[3; 50_000]);
                        files.push(file);
                    }
                    files
                };
                scope.spawn(|| runtime.block_on(begin)).join().unwrap()
            });
            runtime.block_on(async {
                for mut file in files {
                    file.flush().await.unwrap();
                }
            });
            for path in paths {
                assert!(std::fs::read(path).unwrap() == [3; 50_000]);
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
    runtime.settle_once();
    let report = runtime.reports.wait_for_one().to_string();
    drop(write);
    assert!(report.contains("data from a file"), "{report}");
    assert!(report.contains(&format!("fs_faults.rs:{line}")), "{report}");
}

trait SettleOnce {
    fn settle_once(&self);
}

impl SettleOnce for TestRuntime {
    fn settle_once(&self) {
        self.block_on(wakeful::task::yield_now());
    }
}

#[test]
fn a_full_disk_is_told_with_the_next_flush() {
    everywhere(|_folder| async move {
        let mut file = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let told = match file.write_all(&[1; 1000]).await {
            Ok(()) => file.flush().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(told.kind(), ErrorKind::StorageFull);
        assert_eq!(told.raw_os_error(), Some(libc::ENOSPC));
        file.flush().await.expect("told once");
        let told = file.write_at(&[1; 10], 0).await.unwrap_err();
        assert_eq!(told.kind(), ErrorKind::StorageFull);
    });
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

/// Fills a small file system until a write fails. Every byte that was reported as written is there.
fn fill_up(folder: &Path, kind: ErrorKind) {
    for backend in BACKENDS {
        for runtime in both(backend) {
            let path = folder.join("big");
            let task = runtime.spawn(async move {
                let mut file = File::create(&path).await.unwrap();
                let mut flushed = 0;
                let error = loop {
                    if let Err(error) = file.write_all(&[7; 4096]).await {
                        break error;
                    }
                    if let Err(error) = file.flush().await {
                        break error;
                    }
                    flushed += 4096;
                    assert!(flushed < 100 << 20, "this was to have little room");
                };
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.raw_os_error().is_some(), "{error}");
                let len = file.metadata().await.unwrap().len();
                assert!(len >= flushed && flushed > 0, "{flushed} of {len}");
                let told = file.write_all_at(&[8; 1 << 20], 0).await.unwrap_err();
                assert_eq!(told.kind(), kind);
                drop(file);
                fs::remove_file(&path).await.unwrap();
                fs::write(&path, "room again").await.unwrap();
                fs::remove_file(&path).await.unwrap();
            });
            runtime.block_on(task).unwrap();
        }
    }
}

/// Appends more than the disk has room for. The cursor is then at the end of the file, behind the written bytes.
fn append_a_part(folder: &Path) {
    for backend in BACKENDS {
        for runtime in both(backend) {
            let path = folder.join("appended");
            std::fs::write(&path, vec![7; 40_000]).unwrap();
            let task = runtime.spawn(async move {
                let options = File::options().read(true).append(true).clone();
                let mut file = options.open(&path).await.unwrap();
                let error = match file.write_all(&[8; 50_000]).await {
                    Ok(()) => file.flush().await.unwrap_err(),
                    Err(error) => error,
                };
                assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
                let len = file.metadata().await.unwrap().len();
                assert_eq!((len, file.stream_position().await.unwrap()), (65_536, 65_536));
                std::fs::remove_file(&path).unwrap();
            });
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn an_append_that_runs_out_of_room() {
    if let Some(folder) = child_folder() {
        return append_a_part(&folder);
    }
    let folder = Folder::new();
    let limit = "trap '' XFSZ; ulimit -f 128 || exit 1";
    assert_passed(&in_child("an_append_that_runs_out_of_room", limit, folder.path()));
}

/// Uses a file system of 64 KiB if the machine can mount one, and a limit on file sizes in any case.
#[test]
fn a_full_disk_loses_no_written_byte() {
    let mounted = |folder: &Path| folder.join("mounted").exists();
    if let Some(folder) = child_folder() {
        let kind = if mounted(&folder) { ErrorKind::StorageFull } else { ErrorKind::FileTooLarge };
        return fill_up(&folder, kind);
    }
    let folder = Folder::new();
    let limit = "trap '' XFSZ; ulimit -f 128 || exit 1";
    assert_passed(&in_child("a_full_disk_loses_no_written_byte", limit, folder.path()));

    let disk = folder.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = "mount -t tmpfs -o size=64k none \"$WAKEFUL_TEST_FOLDER\" || exit 77
        : > \"$WAKEFUL_TEST_FOLDER/mounted\"";
    let script = format!("exec unshare -m sh -c '{mount}\nexec \"$0\" \"$@\"' \"$0\" \"$@\"");
    let output = in_child("a_full_disk_loses_no_written_byte", &script, &disk);
    let cannot_mount = matches!(output.status.code(), Some(1 | 77 | 126 | 127));
    if !cannot_mount || String::from_utf8_lossy(&output.stdout).contains("running 1 test") {
        assert_passed(&output);
    }
}

#[test]
fn without_descriptors_operations_return_the_error() {
    let Some(folder) = child_folder() else {
        let folder = Folder::new();
        std::fs::write(folder.join("a"), "text").unwrap();
        return assert_passed(&in_child(
            "without_descriptors_operations_return_the_error",
            "ulimit -n 40",
            folder.path(),
        ));
    };
    for backend in BACKENDS {
        for runtime in both(backend) {
            let path = folder.join("a");
            let task = runtime.spawn(async move {
                let mut open = Vec::new();
                let error = loop {
                    match File::open(&path).await {
                        Ok(file) => open.push(file),
                        Err(error) => break error,
                    }
                    assert!(open.len() < 100, "this was to have few descriptors");
                };
                assert_eq!(error.raw_os_error(), Some(24), "{error}");
                // A descriptor that was in use for a moment may be free again.
                let told = loop {
                    match fs::read(&path).await {
                        Ok(_) => open.extend(File::open(&path).await),
                        Err(error) => break error,
                    }
                    assert!(open.len() < 100, "this was to have few descriptors");
                };
                assert_eq!(told.raw_os_error(), Some(24), "{told}");
                // Operations that need no descriptor still work.
                assert_eq!(fs::metadata(&path).await.unwrap().len(), 4);
                assert_eq!(open[0].read_at(&mut [0; 10], 0).await.unwrap(), 4);
                open.truncate(1);
                until(|| std::fs::File::open(&path).is_ok()).await;
                assert_eq!(fs::read(&path).await.unwrap(), b"text");
            });
            runtime.block_on(task).unwrap();
        }
    }
}

/// No descriptor is left for a ring or a poller.
#[test]
fn without_a_descriptor_for_a_ring_files_are_read() {
    let Some(folder) = child_folder() else {
        let folder = Folder::new();
        std::fs::write(folder.join("a"), "text").unwrap();
        return assert_passed(&in_child(
            "without_a_descriptor_for_a_ring_files_are_read",
            "ulimit -n 40",
            folder.path(),
        ));
    };
    for runtime in both(FileBackend::Uring) {
        let mut held = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            held.push(file);
        }
        held.pop();
        let path = folder.join("a");
        // On a slow machine the watchdog may hold the last descriptor, because it reads the state of threads.
        let task = runtime.spawn(async move {
            loop {
                match fs::read(&path).await {
                    Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                        wakeful::task::yield_now().await;
                    }
                    read => break read.unwrap(),
                }
            }
        });
        assert_eq!(runtime.block_on(task).unwrap(), b"text");
        assert_eq!(runtime.metrics().file_operations_in_uring(), 0);
    }
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

#[test]
fn the_backend_is_chosen_and_told() {
    let there = if has_uring() { FileBackend::Uring } else { FileBackend::Pool };
    for (backend, used) in [
        (FileBackend::Auto, there),
        (FileBackend::Uring, there),
        (FileBackend::Pool, FileBackend::Pool),
    ] {
        for runtime in both(backend) {
            assert_eq!(runtime.metrics().file_backend(), used, "before the first operation");
            let folder = Folder::new();
            let task = runtime.spawn(some_of_everything(folder.path().to_owned()));
            runtime.block_on(task).unwrap();
            let metrics = runtime.handle().metrics();
            assert_eq!(metrics.file_backend(), used);
            assert_eq!(metrics.file_operations_in_uring() > 0, used == FileBackend::Uring);
            assert!(metrics.file_operations_in_pool() > 0, "no ring writes a whole file at once");
        }
    }
}

#[test]
fn the_environment_chooses_if_the_builder_does_not() {
    if child_folder().is_some() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.metrics().file_backend(), FileBackend::Pool);
        let mut builder = Builder::new_current_thread();
        let asked = builder.enable_all().file_backend(FileBackend::Uring).build().unwrap();
        let there = if has_uring() { FileBackend::Uring } else { FileBackend::Pool };
        return assert_eq!(asked.metrics().file_backend(), there);
    }
    let test = "the_environment_chooses_if_the_builder_does_not";
    let folder = Folder::new();
    assert_passed(&in_child(test, "export WAKEFUL_FILE_BACKEND=pool", folder.path()));
    let wrong = in_child(test, "export WAKEFUL_FILE_BACKEND=fast", folder.path());
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(text.contains("must be auto, uring or pool, but it is \"fast\""), "{text}");
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod forbidden {
    use super::*;

    /// Makes a system call fail on this thread and on threads that it starts.
    fn forbid(call: libc::c_long, error: i32) {
        use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0), // the number of the call
            step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call as u32),
            step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
            step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program is a valid one and lives until the calls return.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                + libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    fn works_without_ring(test: &str, call: libc::c_long, error: i32) {
        let Some(folder) = child_folder() else {
            let folder = Folder::new();
            return assert_passed(&in_child(test, ":", folder.path()));
        };
        forbid(call, error);
        for backend in [FileBackend::Auto, FileBackend::Uring] {
            for runtime in both(backend) {
                for _ in 0..3 {
                    let task = runtime.spawn(some_of_everything(folder.clone()));
                    runtime.block_on(task).unwrap();
                }
                if call == libc::SYS_io_uring_setup {
                    assert_eq!(runtime.metrics().file_backend(), FileBackend::Pool);
                    assert_eq!(runtime.metrics().file_operations_in_uring(), 0);
                }
                assert!(runtime.metrics().file_operations_in_pool() > 0);
            }
        }
    }

    #[test]
    fn setting_up_a_ring() {
        let call = libc::SYS_io_uring_setup;
        works_without_ring("forbidden::setting_up_a_ring", call, libc::EPERM);
    }

    #[test]
    fn setting_up_a_ring_as_on_an_old_kernel() {
        let (call, test) =
            (libc::SYS_io_uring_setup, "forbidden::setting_up_a_ring_as_on_an_old_kernel");
        works_without_ring(test, call, libc::ENOSYS);
    }

    /// The kernel sets up the ring and refuses submissions.
    #[test]
    fn submitting_to_a_ring() {
        let call = libc::SYS_io_uring_enter;
        works_without_ring("forbidden::submitting_to_a_ring", call, libc::EPERM);
    }

    #[test]
    fn asking_a_ring_what_it_can_do() {
        let call = libc::SYS_io_uring_register;
        works_without_ring("forbidden::asking_a_ring_what_it_can_do", call, libc::EPERM);
    }

    /// Without `openat2`, opens do not come from memory.
    #[test]
    fn opening_from_memory() {
        works_without_ring("forbidden::opening_from_memory", libc::SYS_openat2, libc::ENOSYS);
    }

    #[test]
    fn reading_from_memory() {
        works_without_ring("forbidden::reading_from_memory", libc::SYS_preadv2, libc::ENOSYS);
    }
}
