//! A file system that does not answer, served by the test through FUSE.

use std::fs::File as StdFile;
use std::future::poll_fn;
use std::io::SeekFrom;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;

use wakeful::fs::{self, File, FileTimes, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use wakeful::sync::Notify;

use super::{LIMIT, single_workers, within_limit};
use crate::support::files::Folder;
use crate::support::fuse::{CONTENTS, Request, Served};

/// Notifies when it is dropped.
struct NotifyAtEnd(Arc<Notify>);

impl Drop for NotifyAtEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// An operation that has not started yet.
struct Prepared(Operation);

type Preparation = Pin<Box<dyn Future<Output = Prepared> + Send>>;
type Operation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When the file system receives the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// Before the operation is over.
    Meanwhile,
    /// Perhaps after the operation is over: another thread closes a dropped file.
    Later,
    /// Before the operation is over, or not at all. That depends on the backend.
    Perhaps,
}

/// An operation that runs while the file system delays an answer.
struct Case {
    what: &'static str,
    request: Request,
    comes: Comes,
    /// Makes the operation. The file system answers requests before that.
    prepare: fn(Arc<Served>) -> Preparation,
}

/// `case!("what", Request, Comes, |fs| { prepare } => { |fs, prepared| operation })`.
macro_rules! case {
    ($what:literal, $request:ident, $comes:ident, |$fs:ident| $prepare:block => $operation:block) => {
        Case {
            what: $what,
            request: Request::$request,
            comes: Comes::$comes,
            prepare: |$fs| {
                Box::pin(async move {
                    let prepared = $prepare;
                    let run = $operation;
                    Prepared(Box::pin(async move { run($fs, prepared).await }))
                })
            },
        }
    };
}

async fn opened(fs: &Served) -> File {
    OpenOptions::new().read(true).write(true).open(fs.join("file")).await.unwrap()
}

fn cases() -> Vec<Case> {
    type Fs = Arc<Served>;
    vec![
        case!("File::open", Open, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { drop(File::open(fs.join("file")).await.unwrap()) }
        }),
        case!("File::open of a name not in memory", Lookup, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { drop(File::open(fs.join("fresh")).await.unwrap()) }
        }),
        case!("File::create", Setattr, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { drop(File::create(fs.join("file")).await.unwrap()) }
        }),
        case!("File::read", Read, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, mut file: File| async move {
                assert_eq!(file.read(&mut [0; 8]).await.unwrap(), 8);
            }
        }),
        case!("File::read of a file from std", Read, Meanwhile,
              |fs| { File::from_std(StdFile::open(fs.join("file")).unwrap()) } => {
            |_: Fs, mut file: File| async move {
                assert_eq!(file.read(&mut [0; 8]).await.unwrap(), 8);
            }
        }),
        case!("File::read_at", Read, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move {
                assert_eq!(file.read_at(&mut [0; 8], 2).await.unwrap(), 8);
            }
        }),
        case!("File::write", Write, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, mut file: File| async move {
                file.write_all(b"x").await.unwrap();
                file.flush().await.unwrap();
            }
        }),
        case!("File::write_at", Write, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { assert_eq!(file.write_at(b"x", 1).await.unwrap(), 1) }
        }),
        case!("fs::read", Read, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { assert_eq!(fs::read(fs.join("file")).await.unwrap(), CONTENTS) }
        }),
        case!("the length in fs::read", Getattr, Perhaps, |fs| {} => {
            |fs: Fs, ()| async move { assert_eq!(fs::read(fs.join("file")).await.unwrap(), CONTENTS) }
        }),
        case!("the length in fs::read_to_string", Getattr, Perhaps, |fs| {} => {
            |fs: Fs, ()| async move { drop(fs::read_to_string(fs.join("file")).await.unwrap()) }
        }),
        case!("fs::write", Write, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { fs::write(fs.join("file"), "x").await.unwrap() }
        }),
        case!("seek to the end", Getattr, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, mut file: File| async move {
                let end = file.seek(SeekFrom::End(0)).await.unwrap();
                assert_eq!(end, CONTENTS.len() as u64);
            }
        }),
        case!("metadata", Getattr, Meanwhile, |fs| { drop(opened(&fs).await) } => {
            |fs: Fs, ()| async move { assert!(fs::metadata(fs.join("file")).await.unwrap().is_file()) }
        }),
        case!("symlink_metadata", Getattr, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { assert!(fs::symlink_metadata(fs.join("file")).await.unwrap().is_file()) }
        }),
        case!("try_exists", Getattr, Perhaps, |fs| {} => {
            |fs: Fs, ()| async move { assert!(fs::try_exists(fs.join("file")).await.unwrap()) }
        }),
        case!("File::metadata", Getattr, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { assert!(file.metadata().await.unwrap().is_file()) }
        }),
        case!("File::set_len", Setattr, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { file.set_len(4).await.unwrap() }
        }),
        case!("File::set_permissions", Setattr, Meanwhile, |fs| {
            let file = opened(&fs).await;
            let permissions = file.metadata().await.unwrap().permissions();
            (file, permissions)
        } => {
            |_: Fs, (file, permissions): (File, std::fs::Permissions)| async move {
                file.set_permissions(permissions).await.unwrap()
            }
        }),
        case!("File::set_times", Setattr, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move {
                let times = FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
                file.set_times(times).await.unwrap()
            }
        }),
        case!("File::allocate", Fallocate, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { file.allocate(0, 10).await.unwrap_err(); }
        }),
        case!("File::sync_all", Fsync, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { file.sync_all().await.unwrap() }
        }),
        case!("File::sync_data", Fsync, Meanwhile, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { file.sync_data().await.unwrap() }
        }),
        case!("dropping a File", Flush, Later, |fs| { opened(&fs).await } => {
            |_: Fs, file: File| async move { drop(file) }
        }),
        case!("dropping a File from std", Flush, Later,
              |fs| { File::from_std(StdFile::open(fs.join("file")).unwrap()) } => {
            |_: Fs, file: File| async move { drop(file) }
        }),
        case!("dropping the last clone of a File", Flush, Later, |fs| {
            opened(&fs).await.try_clone().await.unwrap()
        } => {
            |_: Fs, file: File| async move { drop(file) }
        }),
        case!("canonicalize", Lookup, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { drop(fs::canonicalize(fs.join("fresh")).await.unwrap()) }
        }),
        case!("read_link", Readlink, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { drop(fs::read_link(fs.join("link")).await.unwrap()) }
        }),
        case!("copy", Read, Meanwhile, |fs| { Folder::new() } => {
            |fs: Fs, folder: Folder| async move {
                fs::copy(fs.join("file"), folder.join("copy")).await.unwrap();
            }
        }),
        case!("hard_link", Link, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move {
                fs::hard_link(fs.join("file"), fs.join("new")).await.unwrap_err();
            }
        }),
        case!("symlink", Symlink, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { fs::symlink("x", fs.join("new")).await.unwrap_err(); }
        }),
        case!("rename", Rename, Perhaps, |fs| {} => {
            |fs: Fs, ()| async move {
                fs::rename(fs.join("file"), fs.join("new")).await.unwrap_err();
            }
        }),
        case!("create_dir", Mkdir, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { fs::create_dir(fs.join("new")).await.unwrap_err(); }
        }),
        case!("remove_file", Unlink, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { fs::remove_file(fs.join("file")).await.unwrap_err(); }
        }),
        case!("set_permissions", Setattr, Meanwhile, |fs| {
            fs::metadata(fs.join("file")).await.unwrap().permissions()
        } => {
            |fs: Fs, permissions: std::fs::Permissions| async move {
                fs::set_permissions(fs.join("file"), permissions).await.unwrap()
            }
        }),
        case!("read_dir", Opendir, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move { drop(fs::read_dir(fs.path()).await.unwrap()) }
        }),
        case!("the entries of a folder", Readdir, Meanwhile, |fs| {} => {
            |fs: Fs, ()| async move {
                let mut entries = fs::read_dir(fs.path()).await.unwrap();
                assert_eq!(entries.next_entry().await.unwrap().unwrap().file_name(), "file");
            }
        }),
        case!("DirEntry::metadata", Getattr, Meanwhile, |fs| {
            fs::read_dir(fs.path()).await.unwrap().next_entry().await.unwrap().unwrap()
        } => {
            |_: Fs, entry: fs::DirEntry| async move { assert!(entry.metadata().await.unwrap().is_file()) }
        }),
    ]
}

/// Mounts a file system, or says why the test is skipped.
fn served(folder: &Folder) -> Option<Arc<Served>> {
    match Served::new(folder.join("served")) {
        Ok(served) => Some(Arc::new(served)),
        Err(why) => {
            eprintln!("SKIPPED: this test serves a FUSE file system itself, and {why}");
            None
        }
    }
}

#[test]
fn a_file_system_that_does_not_answer_stops_no_worker() {
    let folder = Folder::new();
    let Some(served) = served(&folder) else { return };
    for case in cases() {
        for (backend, build) in single_workers() {
            let (fs, prepare) = (served.clone(), case.prepare);
            let (request, comes) = (case.request, case.comes);
            within_limit(case.what, move || {
                let runtime = build(backend);
                let task = runtime.spawn(async move {
                    let Prepared(operation) = prepare(fs.clone()).await;
                    let (arrived, came) =
                        (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
                    fs.keep_back(request, {
                        let (arrived, came) = (arrived.clone(), came.clone());
                        move || {
                            came.store(true, SeqCst);
                            arrived.notify_one();
                        }
                    });
                    let over = (comes != Comes::Later).then(|| NotifyAtEnd(arrived.clone()));
                    let operation = wakeful::spawn(async move {
                        let _over = over;
                        operation.await;
                    });
                    // This task runs on the same thread, so it runs only if the thread does not wait for the answer.
                    arrived.notified().await;
                    fs.release();
                    operation.await.unwrap();
                    assert!(came.load(SeqCst) || comes == Comes::Perhaps, "no request came");
                });
                runtime.block_on(task).unwrap();
            });
        }
    }
}

#[test]
fn clones_wait_for_each_others_cursor_without_their_worker() {
    let folder = Folder::new();
    let Some(served) = served(&folder) else { return };
    for (backend, build) in single_workers() {
        let fs = served.clone();
        within_limit("the cursor of a clone", move || {
            let runtime = build(backend);
            let task = runtime.spawn(async move {
                for seeks in [false, true] {
                    let mut file = opened(&fs).await;
                    let mut clone = file.try_clone().await.unwrap();
                    let arrived = Arc::new(Notify::new());
                    fs.keep_back(Request::Read, {
                        let arrived = arrived.clone();
                        move || arrived.notify_one()
                    });
                    let reads = wakeful::spawn(async move {
                        let mut read = [0; 6];
                        file.read_exact(&mut read).await.unwrap();
                        assert_eq!(read, CONTENTS[..6]);
                    });
                    arrived.notified().await;
                    // The kernel has locked the cursor for the read that is not answered.
                    let mut other: Operation = Box::pin(async move {
                        match seeks {
                            true => assert_eq!(clone.stream_position().await.unwrap(), 6),
                            false => {
                                let mut read = [0; 4];
                                clone.read_exact(&mut read).await.unwrap();
                                assert_eq!(read, CONTENTS[6..10]);
                            }
                        }
                    });
                    let first = poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx))).await;
                    assert!(first.is_pending());
                    fs.release();
                    other.await;
                    reads.await.unwrap();
                }
            });
            runtime.block_on(task).unwrap();
        });
    }
}

// Run by `a_process_that_fails_with_a_request_ends`, in a process of its own.
#[test]
#[ignore = "it ends its process while a thread waits inside the kernel"]
fn ends_with_a_request() {
    let folder = Folder::new();
    let Some(served) = served(&folder) else { return };
    let mut file = StdFile::open(served.join("file")).unwrap();
    let (tx, rx) = mpsc::channel();
    served.keep_back(Request::Read, move || tx.send(()).unwrap());
    std::thread::spawn(move || std::io::Read::read(&mut file, &mut [0]));
    rx.recv().unwrap();
    println!("mounted at {}", served.path().display());
    std::process::exit(7);
}

/// A thread that waits for the test's own file system cannot be killed. Still the process ends, and nothing stays
/// mounted: a failed test does not stop the run of all tests.
#[test]
fn a_process_that_fails_with_a_request_ends() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let args = ["--exact", "unresponsive::ends_with_a_request", "--ignored", "--nocapture"];
    let mut child = command.args(args).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    let mut pidfd = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
    // SAFETY: the child was not waited for yet, and there is one descriptor.
    let ended = unsafe {
        pidfd.fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        assert!(pidfd.fd >= 0, "{}", std::io::Error::last_os_error());
        let ended = libc::poll(&mut pidfd, 1, LIMIT.as_millis() as i32);
        libc::close(pidfd.fd);
        ended
    };
    assert_eq!(ended, 1, "a thread of the process waits inside the kernel");
    let status = child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    let Some((_, path)) = text.split_once("mounted at ") else {
        assert!(status.success(), "skipped: {text}");
        return;
    };
    assert_eq!(status.code(), Some(7));
    let path = Path::new(path.lines().next().unwrap());
    // The process may end a moment before the file system is unmounted.
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(path.to_str().unwrap())
    };
    while is_mounted() {
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
