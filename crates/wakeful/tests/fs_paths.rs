//! Functions on paths and whole files, on every kind of runtime and with every backend.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use wakeful::fs::{self, DirBuilder};

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{everywhere, everywhere_outside, evict, filled};

/// Asserts that an error is of this kind, and that it is the system's own.
#[track_caller]
fn assert_fails<R: std::fmt::Debug>(result: std::io::Result<R>, kind: ErrorKind) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind);
    let is_ours = kind == ErrorKind::InvalidData;
    assert_eq!(error.raw_os_error().is_none(), is_ours, "{error}");
}

#[test]
fn whole_files_are_written_read_and_copied() {
    everywhere(|folder| async move {
        let (a, b, nowhere) = (folder.join("a"), folder.join("b"), folder.join("no/where"));
        let data: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
        fs::write(&a, &data).await.unwrap();
        assert!(fs::read(&a).await.unwrap() == data);
        evict(&a);
        assert!(fs::read(&a).await.unwrap() == data, "not from memory");
        assert_eq!(fs::copy(&a, &b).await.unwrap(), data.len() as u64);
        assert!(std::fs::read(&b).unwrap() == data);
        fs::write(&a, "täglich").await.unwrap();
        assert_eq!(fs::read_to_string(&a).await.unwrap(), "täglich");
        fs::write(&a, [0xff, 0xfe]).await.unwrap();
        assert_fails(fs::read_to_string(&a).await, ErrorKind::InvalidData);
        fs::write(&a, []).await.unwrap();
        assert_eq!(fs::read(&a).await.unwrap(), []);

        assert_fails(fs::read(&nowhere).await, ErrorKind::NotFound);
        assert_fails(fs::write(&nowhere, "x").await, ErrorKind::NotFound);
        assert_fails(fs::copy(&nowhere, &a).await, ErrorKind::NotFound);
        assert_fails(fs::read(folder.path()).await, ErrorKind::IsADirectory);
    });
}

/// Files in `/proc` and devices have no known length.
#[test]
fn files_of_the_system_are_read_to_their_end() {
    everywhere(|_folder| async move {
        let text = fs::read_to_string("/proc/self/status").await.unwrap();
        assert!(text.starts_with("Name:") && text.ends_with('\n'), "{text}");
        assert_eq!(fs::read("/dev/null").await.unwrap(), []);
    });
}

#[test]
fn a_file_of_holes_that_is_longer_than_all_memory_is_an_error() {
    everywhere(|folder| async move {
        let path = folder.join("holes");
        let file = std::fs::File::create(&path).unwrap();
        // What the file system allows differs; ext4 ends at 16 TiB.
        if file.set_len(15 << 40).is_ok() {
            assert_eq!(fs::read(&path).await.unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
    });
}

#[test]
fn folders_are_made_listed_and_removed() {
    everywhere(|folder| async move {
        let (one, deep) = (folder.join("one"), folder.join("a/b/c"));
        fs::create_dir(&one).await.unwrap();
        assert_fails(fs::create_dir(&one).await, ErrorKind::AlreadyExists);
        assert_fails(fs::create_dir(&deep).await, ErrorKind::NotFound);
        fs::create_dir_all(&deep).await.unwrap();
        fs::create_dir_all(&deep).await.unwrap();
        DirBuilder::new().mode(0o700).create(folder.join("two")).await.unwrap();
        let mode = |name| std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode("two") & 0o777, 0o700);
        DirBuilder::new().recursive(true).mode(0o750).create(folder.join("x/y")).await.unwrap();
        assert_eq!(mode("x/y") & 0o777, 0o750);

        // More entries than one system call returns.
        for number in 0..300 {
            std::fs::write(one.join(number.to_string()), "").unwrap();
        }
        let mut names = BTreeSet::new();
        let mut entries = fs::read_dir(&one).await.unwrap();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            assert!(entry.file_type().await.unwrap().is_file());
            assert_eq!(entry.path(), one.join(entry.file_name()));
            assert_eq!(entry.ino(), entry.metadata().await.unwrap().ino());
            assert!(names.insert(entry.file_name().into_string().unwrap()));
        }
        assert_eq!(names, (0..300).map(|number| number.to_string()).collect());
        assert!(entries.next_entry().await.unwrap().is_none());

        assert_fails(fs::read_dir(folder.join("no")).await, ErrorKind::NotFound);
        assert_fails(fs::remove_dir(&one).await, ErrorKind::DirectoryNotEmpty);
        fs::remove_dir(folder.join("two")).await.unwrap();
        fs::remove_dir_all(&one).await.unwrap();
        assert!(!one.exists() && !folder.join("two").exists());
        assert_fails(fs::remove_dir_all(&one).await, ErrorKind::NotFound);
    });
}

#[test]
fn files_are_renamed_linked_and_removed() {
    everywhere(|folder| async move {
        let (a, _) = filled(&folder, "a", 5);
        let (b, c, link) = (folder.join("b"), folder.join("c"), folder.join("link"));
        fs::rename(&a, &b).await.unwrap();
        assert!(!a.exists() && b.exists());
        assert_fails(fs::rename(&a, &c).await, ErrorKind::NotFound);
        fs::hard_link(&b, &c).await.unwrap();
        assert_eq!(std::fs::metadata(&b).unwrap().nlink(), 2);
        assert_fails(fs::hard_link(&b, &c).await, ErrorKind::AlreadyExists);
        fs::symlink("b", &link).await.unwrap();
        assert_eq!(fs::read_link(&link).await.unwrap(), Path::new("b"));
        assert_fails(fs::read_link(&b).await, ErrorKind::InvalidInput);
        assert_fails(fs::symlink("b", &link).await, ErrorKind::AlreadyExists);
        assert_eq!(
            fs::canonicalize(&link).await.unwrap(),
            std::fs::canonicalize(folder.path()).unwrap().join("b")
        );
        assert_fails(fs::canonicalize(&a).await, ErrorKind::NotFound);

        fs::remove_file(&c).await.unwrap();
        assert!(!c.exists());
        assert_fails(fs::remove_file(&c).await, ErrorKind::NotFound);
        fs::remove_file(&link).await.unwrap();
        assert!(b.exists(), "the link went, not what it led to");
    });
}

/// Asks twice, so that the second time finds the names in the kernel's cache.
#[test]
fn metadata_agrees_with_std() {
    everywhere(|folder| async move {
        let (a, data) = filled(&folder, "a", 1_234);
        let (link, lost) = (folder.join("link"), folder.join("lost"));
        std::os::unix::fs::symlink("a", &link).unwrap();
        std::os::unix::fs::symlink("nowhere", &lost).unwrap();
        for _ in 0..2 {
            let expected = std::fs::metadata(&a).unwrap();
            let known = fs::metadata(&a).await.unwrap();
            assert_eq!((known.len(), known.ino()), (data.len() as u64, expected.ino()));
            assert_eq!(known.modified().unwrap(), expected.modified().unwrap());
            assert_eq!(fs::metadata(&link).await.unwrap().ino(), expected.ino());
            assert!(fs::symlink_metadata(&link).await.unwrap().is_symlink());
            assert!(fs::metadata(folder.path()).await.unwrap().is_dir());
            assert_fails(fs::metadata(&lost).await, ErrorKind::NotFound);
            // The error keeps its number, which file servers match on.
            let through_a_file = fs::metadata(a.join("b")).await.unwrap_err();
            assert_eq!(through_a_file.raw_os_error(), Some(20));
            assert!(fs::symlink_metadata(&lost).await.unwrap().is_symlink());

            assert!(fs::try_exists(&a).await.unwrap());
            assert!(fs::try_exists(&link).await.unwrap());
            assert!(!fs::try_exists(&lost).await.unwrap());
            assert!(!fs::try_exists(folder.join("never")).await.unwrap());
            assert!(fs::try_exists(a.join("b")).await.is_err());
        }
        fs::set_permissions(&a, PermissionsExt::from_mode(0o604)).await.unwrap();
        assert_eq!(fs::metadata(&a).await.unwrap().permissions().mode() & 0o777, 0o604);
        let refused = fs::set_permissions(&lost, PermissionsExt::from_mode(0o604)).await;
        assert_fails(refused, ErrorKind::NotFound);
    });
}

#[test]
fn on_the_thread_of_block_on_too() {
    everywhere_outside(|folder| async move {
        let (a, b) = (folder.join("a"), folder.join("b"));
        fs::write(&a, "text").await.unwrap();
        fs::rename(&a, &b).await.unwrap();
        assert!(fs::try_exists(&b).await.unwrap());
        assert_eq!(fs::metadata(&b).await.unwrap().len(), 4);
        assert_eq!(fs::read(&b).await.unwrap(), b"text");
        fs::remove_file(&b).await.unwrap();
    });
}

/// An operation that changes files completes although its future is dropped.
#[test]
fn a_dropped_write_comes_to_its_end() {
    everywhere(|folder| async move {
        let folder = Arc::new(folder);
        let (a, b) = (folder.join("a"), folder.join("b"));
        {
            let mut writing = pin!(fs::write(&a, vec![1; 100_000]));
            let polled = poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await;
            // It may have completed already; usually it is still in flight.
            assert!(polled.is_pending() || a.exists());
        }
        while !std::fs::metadata(&a).is_ok_and(|metadata| metadata.len() == 100_000) {
            wakeful::task::yield_now().await;
        }
        {
            let mut renaming = pin!(fs::rename(&a, &b));
            let polled = poll_fn(|cx| Poll::Ready(renaming.as_mut().poll(cx))).await;
            assert!(polled.is_pending() || b.exists());
        }
        while !b.exists() {
            wakeful::task::yield_now().await;
        }
    });
}

/// Files in `/proc` have length 0, and some can only be read in one piece.
#[test]
fn files_of_the_kernel_are_read_whole() {
    everywhere(|_folder| async move {
        for path in ["/proc/sys/kernel/pid_max", "/proc/sys/vm/swappiness", "/proc/self/comm"] {
            let whole = std::fs::read_to_string(path).unwrap();
            assert_eq!(fs::read_to_string(path).await.unwrap(), whole, "{path}");
        }
    });
}

/// A directory entry refers to the folder that was read, even if another folder has its name now.
#[test]
fn an_entry_is_that_of_the_folder_that_was_read() {
    everywhere(|folder| async move {
        let (one, other) = (folder.join("one"), folder.join("other"));
        for (path, text) in [(&one, "abc"), (&other, "something else")] {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("file"), text).unwrap();
        }
        let entry = fs::read_dir(&one).await.unwrap().next_entry().await.unwrap().unwrap();
        std::fs::rename(&one, folder.join("renamed")).unwrap();
        std::fs::rename(&other, &one).unwrap();
        assert_eq!(entry.metadata().await.unwrap().len(), 3);
    });
}
