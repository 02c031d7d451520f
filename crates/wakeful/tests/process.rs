//! Child processes, on both kinds of runtime.

use std::future::pending;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::Stdio;

use wakeful::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use wakeful::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::task::yield_now;

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod sockets;
}
use support::panic_site::panic_site;
use support::runtimes::{TestRuntime, watch};
use support::sockets::{Folder, current_thread, poll_once, runtimes};

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

/// `cat`, which ends when its input does.
fn cat() -> Command {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Returns whether the kernel still has a process with this id, running or zombie.
fn is_there(id: u32) -> bool {
    let id = rustix::process::Pid::from_raw(id as i32).unwrap();
    rustix::process::test_kill_process(id).is_ok()
}

/// Yields until the process is gone. A hang is ended by the time limit of the test binary.
async fn until_gone(id: u32) {
    while is_there(id) {
        yield_now().await;
    }
}

#[test]
fn every_wait_returns_the_exit_status() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut child = sh("exit 7").spawn().unwrap();
            let id = child.id().unwrap();
            assert!(is_there(id));
            for _ in 0..3 {
                assert_eq!(child.wait().await.unwrap().code(), Some(7), "{}", rt.name);
                assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
            }
            assert_eq!(child.id(), None);
            child.start_kill().unwrap();
            child.kill().await.unwrap();
            assert!(!is_there(id), "{}", rt.name);
        });
    }
}

#[test]
fn input_is_copied_to_output() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut child = cat().spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            let mut output = child.stdout.take().unwrap();
            assert!(child.stderr.is_none());
            let sent: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
            let expected = sent.clone();
            let writer = wakeful::spawn(async move {
                input.write_all(&sent).await.unwrap();
                input.flush().await.unwrap();
                input.shutdown().await.unwrap();
            });
            let mut all = Vec::new();
            output.read_to_end(&mut all).await.unwrap();
            writer.await.unwrap();
            assert!(all == expected, "{} bytes came out changed", all.len());
            assert!(child.wait().await.unwrap().success());
        });
    }
}

#[test]
fn waiting_closes_the_input_that_was_not_taken() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut child = cat().spawn().unwrap();
            assert!(child.wait().await.unwrap().success(), "{}", rt.name);
            assert!(child.stdin.is_none());
        });
    }
}

#[test]
fn output_reads_both_streams_while_it_waits() {
    for rt in runtimes() {
        rt.block_on(async {
            // More than pipes hold, to stdout and stderr in turn.
            let script = "for n in 1 2 3; do yes out | head -c 200000; yes err | head -c 200000 >&2; done; exit 3";
            let output = sh(script).stdin(Stdio::null()).output().await.unwrap();
            assert_eq!(output.status.code(), Some(3));
            assert_eq!((output.stdout.len(), output.stderr.len()), (600_000, 600_000));
            assert!(output.stdout.starts_with(b"out\n") && output.stderr.starts_with(b"err\n"));

            assert!(cat().status().await.unwrap().success(), "its pipes are closed");
        });
    }
}

#[test]
fn a_killed_process_ends_by_the_signal() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut child = cat().spawn().unwrap();
            assert!(child.try_wait().unwrap().is_none());
            child.kill().await.unwrap();
            let status = child.wait().await.unwrap();
            assert_eq!((status.code(), status.signal()), (None, Some(libc::SIGKILL)));

            let mut child = cat().spawn().unwrap();
            let input = child.stdin.take();
            child.start_kill().unwrap();
            assert_eq!(child.wait().await.unwrap().signal(), Some(libc::SIGKILL), "{}", rt.name);
            drop(input);
        });
    }
}

#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut child = cat().spawn().unwrap();
            let input = child.stdin.take();
            for _ in 0..3 {
                assert!(poll_once(pin!(child.wait())).await.is_pending());
            }
            drop(input);
            assert!(child.wait().await.unwrap().success(), "{}", rt.name);
        });
    }
}

#[test]
fn a_dropped_child_goes_on_and_is_waited_for_by_the_runtime() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut child = cat().spawn().unwrap();
            let id = child.id().unwrap();
            let mut input = child.stdin.take().unwrap();
            let mut output = child.stdout.take().unwrap();
            drop(child);
            input.write_all(b"still there").await.unwrap();
            let mut text = [0; 11];
            output.read_exact(&mut text).await.unwrap();
            assert_eq!(&text, b"still there", "{}", rt.name);
            drop(input);
            until_gone(id).await;
        });
    }
}

#[test]
fn kill_on_drop_kills_and_nothing_else_does() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut command = cat();
            assert!(!command.get_kill_on_drop());
            command.kill_on_drop(true);
            assert!(command.get_kill_on_drop());
            let mut child = command.spawn().unwrap();
            let id = child.id().unwrap();
            // The input stays open, so only the end of the process ends the output.
            let _input = child.stdin.take();
            let mut output = child.stdout.take().unwrap();
            drop(child);
            assert_eq!(output.read(&mut [0]).await.unwrap(), 0, "{}", rt.name);
            until_gone(id).await;
        });
    }
}

#[test]
fn a_runtime_that_ends_kills_only_children_with_kill_on_drop() {
    for kill in [false, true] {
        for rt in runtimes() {
            let mut child = rt.block_on(async { cat().kill_on_drop(kill).spawn().unwrap() });
            let id = child.id().unwrap();
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            // Converts the pipes to blocking descriptors, because their runtime ends.
            let (input, output) = (input.into_owned_fd().unwrap(), output.into_owned_fd().unwrap());
            rt.spawn(async move { child.wait().await });
            rt.block_on(yield_now());
            let TestRuntime { runtime, reports, name } = rt;
            drop(runtime);
            drop(reports);
            let (mut input, mut output) = (std::fs::File::from(input), std::fs::File::from(output));
            let written = std::io::Write::write_all(&mut input, b"x");
            let mut byte = [0];
            let read = std::io::Read::read(&mut output, &mut byte).unwrap();
            if kill {
                assert_eq!(read, 0, "{name}");
            } else {
                written.unwrap();
                assert_eq!((read, &byte), (1, b"x"), "{name}");
            }
            drop(input);
            // The next runtime that starts a process reaps the orphan.
            let later = current_thread();
            later.block_on(async {
                while is_there(id) {
                    Command::new("true").status().await.unwrap();
                }
            });
        }
    }
}

#[test]
fn a_child_can_be_waited_for_on_another_runtime() {
    for rt in runtimes() {
        let mut child = rt.block_on(async { cat().spawn().unwrap() });
        let other = current_thread();
        other.block_on(async {
            let input = child.stdin.take();
            let waiting = wakeful::spawn(async move { child.wait().await });
            yield_now().await;
            let TestRuntime { runtime, reports, name } = rt;
            runtime.shutdown_background();
            drop((reports, input));
            assert!(waiting.await.unwrap().unwrap().success(), "{name}");
        });
    }
}

#[test]
fn many_end_at_the_same_time() {
    for rt in runtimes() {
        rt.block_on(async {
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    wakeful::spawn(async {
                        let mut children: Vec<Child> =
                            (0..5).map(|_| Command::new("true").spawn().unwrap()).collect();
                        for child in &mut children {
                            assert!(child.wait().await.unwrap().success());
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn the_output_of_one_child_is_the_input_of_another() {
    for rt in runtimes() {
        rt.block_on(async {
            let mut first = sh("echo one; echo two").stdout(Stdio::piped()).spawn().unwrap();
            let between: Stdio = first.stdout.take().unwrap().try_into().unwrap();
            let second = Command::new("sort").arg("-r").stdin(between).output();
            assert_eq!(second.await.unwrap().stdout, b"two\none\n");
            assert!(first.wait().await.unwrap().success(), "{}", rt.name);
        });
    }
}

#[test]
fn the_pipes_of_std_can_be_taken_over() {
    let rt = current_thread();
    rt.block_on(async {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "read line; echo out $line; echo err $line >&2"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = ChildStdin::from_std(child.stdin.take().unwrap()).unwrap();
        let output = ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
        let errors = ChildStderr::from_std(child.stderr.take().unwrap()).unwrap();
        assert!(input.as_raw_fd() > 2 && input.is_write_vectored());
        input.write_all(b"hello\n").await.unwrap();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await.unwrap();
        BufReader::new(errors).read_line(&mut line).await.unwrap();
        assert_eq!(line, "out hello\nerr hello\n");
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn everything_that_std_can_set_can_be_set() {
    let rt = current_thread();
    rt.block_on(async {
        let folder = Folder::new();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $0 $A$B$C; pwd -P"]).arg0("a-name");
        command.env_clear().env("A", "a").envs([("B", "b"), ("C", "c")]).env_remove("C");
        command.current_dir(folder.path());
        assert_eq!(command.as_std().get_args().count(), 2);
        let output = command.output().await.unwrap();
        let place = folder.path().canonicalize().unwrap();
        let expected = format!("/bin/sh ab\n{}\n", place.display()).replace("/bin/sh", "a-name");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);

        // The id of the new process group is the id of the process.
        let mut child = cat().process_group(0).spawn().unwrap();
        let id = rustix::process::Pid::from_raw(child.id().unwrap() as i32);
        assert_eq!(rustix::process::getpgid(id).unwrap(), id.unwrap());
        child.kill().await.unwrap();

        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let mut command = sh("id -u; id -g");
        command.uid(user.as_raw()).gid(group.as_raw());
        let printed = command.output().await.unwrap().stdout;
        assert_eq!(printed, format!("{}\n{}\n", user.as_raw(), group.as_raw()).into_bytes());

        let mut command = Command::from(std::process::Command::new("true"));
        command.as_std_mut().arg("ignored");
        // SAFETY: it only makes an error of a number.
        unsafe { command.pre_exec(|| Err(std::io::Error::from_raw_os_error(libc::EDOM))) };
        // It has no `ErrorKind`, only a number.
        assert_eq!(command.spawn().unwrap_err().raw_os_error(), Some(libc::EDOM));
        assert_eq!(command.into_std().get_program(), "true");

        let mut started = 0;
        let mut child = Command::new("true")
            .spawn_with(|command| {
                started += 1;
                command.spawn()
            })
            .unwrap();
        assert!(child.wait().await.unwrap().success());
        assert_eq!(started, 1);
    });
}

#[test]
fn an_error_is_that_of_the_system() {
    let rt = current_thread();
    rt.block_on(async {
        let missing = Command::new("no-such-program-anywhere").spawn().unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
        let nowhere = Command::new("true").current_dir("/no/such/folder").status().await;
        assert_eq!(nowhere.unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let folder = Folder::new();
        let locked = Command::new(folder.path()).output().await.unwrap_err();
        assert_eq!(locked.kind(), ErrorKind::PermissionDenied);
        assert_eq!(locked.raw_os_error(), Some(libc::EACCES));
    });
}

#[test]
fn without_io_no_process_is_started() {
    let folder = Folder::new();
    let trace = folder.join("trace");
    let script = format!("echo started > {}", trace.display());
    let site = panic_site(|| drop(sh(&script).spawn()));
    assert_eq!(site.file, file!());
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    let site = panic_site(|| {
        let rt = Builder::new_current_thread().build().unwrap();
        rt.block_on(async { drop(sh(&script).status()) });
    });
    assert_eq!(site.file, file!());
    assert!(site.message.contains("IO is disabled"), "{}", site.message);
    assert!(!trace.exists());
}

#[test]
fn a_task_that_waits_is_listed_with_the_site() {
    let mut builder = Builder::new_current_thread();
    let rt = watch("current_thread", builder.enable_all().on_orphan(OrphanPolicy::Report));
    let lost = rt.spawn(async {
        let mut child = cat().spawn().unwrap();
        let input = child.stdin.take();
        assert!(poll_once(pin!(child.wait())).await.is_pending());
        drop((child, input));
        pending::<()>().await;
    });
    rt.settle();
    let orphan = rt.reports.wait_for_one();
    assert_eq!(orphan.id(), lost.id());
    let (what, site) = orphan.last_waited_for().unwrap();
    assert_eq!((what, site.file()), ("a child process to exit (Child::wait)", file!()));
}
