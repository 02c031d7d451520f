//! Full disks, and descriptors that run out.

use std::io::ErrorKind;
use std::path::Path;

use wakeful::fs::{self, File, OpenOptions};
use wakeful::io::{AsyncSeekExt, AsyncWriteExt};
use wakeful::runtime::FileBackend;

use super::{assert_passed, both, child_folder, in_child, until};
use crate::support::files::{BACKENDS, Folder, everywhere};

#[test]
fn a_full_disk_is_reported_by_the_next_flush() {
    everywhere(|_folder| async move {
        let mut file = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let error = match file.write_all(&[1; 1000]).await {
            Ok(()) => file.flush().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        file.flush().await.expect("reported once");
        let error = file.write_at(&[1; 10], 0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    });
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
                let error = file.write_all_at(&[8; 1 << 20], 0).await.unwrap_err();
                assert_eq!(error.kind(), kind);
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
    assert_passed(&in_child("exhaustion::an_append_that_runs_out_of_room", limit, folder.path()));
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
    assert_passed(&in_child("exhaustion::a_full_disk_loses_no_written_byte", limit, folder.path()));

    let disk = folder.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = "mount -t tmpfs -o size=64k none \"$WAKEFUL_TEST_FOLDER\" || exit 77
        : > \"$WAKEFUL_TEST_FOLDER/mounted\"";
    let script = format!("exec unshare -m sh -c '{mount}\nexec \"$0\" \"$@\"' \"$0\" \"$@\"");
    let output = in_child("exhaustion::a_full_disk_loses_no_written_byte", &script, &disk);
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
            "exhaustion::without_descriptors_operations_return_the_error",
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
                let error = loop {
                    match fs::read(&path).await {
                        Ok(_) => open.extend(File::open(&path).await),
                        Err(error) => break error,
                    }
                    assert!(open.len() < 100, "this was to have few descriptors");
                };
                assert_eq!(error.raw_os_error(), Some(24), "{error}");
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
            "exhaustion::without_a_descriptor_for_a_ring_files_are_read",
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
