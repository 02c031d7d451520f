//! Errors of the kernel keep their number in `fs`, `process` and `net`, as programs match it.
//!
//! The error of each operation is compared with that of the same operation of std.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wakeful::fs::{self, File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, UnixListener, UnixStream};
use wakeful::process::Command;

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{Folder, everywhere};

/// Asserts that both fail with this number.
#[track_caller]
fn assert_same<A, B>(ours: io::Result<A>, of_std: io::Result<B>, number: i32) {
    let (Err(ours), Err(of_std)) = (ours, of_std) else { panic!("both fail") };
    assert_eq!(of_std.raw_os_error(), Some(number), "std: {of_std}");
    assert_eq!(ours.raw_os_error(), Some(number), "ours: {ours}");
    assert_eq!(ours.kind(), of_std.kind());
    assert_eq!(ours.to_string(), of_std.to_string());
}

/// Held by tests that start processes. Between `fork` and `exec` a child has copies of all
/// descriptors. So a program that another test has just written would be busy. A socket that
/// another test has just closed would still listen.
static STARTS_PROCESSES: Mutex<()> = Mutex::new(());

fn starts_processes() -> MutexGuard<'static, ()> {
    STARTS_PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tmpfs that is taken away at the end. None where that is not permitted.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir(&path).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "wakeful-test"]).arg(&path);
        let output = mount.output().expect("there is a program `mount`");
        if output.status.success() {
            return Some(Self(path));
        }
        let why = String::from_utf8_lossy(&output.stderr);
        eprintln!("SKIPPED the part that needs a tmpfs: it cannot be mounted: {why}");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = std::ffi::CString::new(self.0.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }, 0);
    }
}

#[test]
fn errors_of_names_have_the_numbers_of_the_system() {
    everywhere(|folder| async move {
        let (file, full) = (folder.join("file"), folder.join("full"));
        std::fs::write(&file, "x").unwrap();
        std::fs::create_dir_all(full.join("inside")).unwrap();
        let (nowhere, through) = (folder.join("no/where"), file.join("below"));
        let long = folder.join(&"n".repeat(300));
        let cycle = folder.join("cycle");
        std::os::unix::fs::symlink(&cycle, &cycle).unwrap();
        let to = folder.join("to");

        for (path, number) in [
            (&nowhere, libc::ENOENT),
            (&through, libc::ENOTDIR),
            (&long, libc::ENAMETOOLONG),
            (&cycle, libc::ELOOP),
        ] {
            let std_path = path.clone();
            assert_same(fs::metadata(path).await, std::fs::metadata(&std_path), number);
            assert_same(File::open(path).await, std::fs::File::open(path), number);
            assert_same(fs::read(path).await, std::fs::read(path), number);
            assert_same(fs::read_to_string(path).await, std::fs::read_to_string(path), number);
            assert_same(fs::write(path, "y").await, std::fs::write(path, "y"), number);
            assert_same(fs::copy(path, &to).await, std::fs::copy(path, &to), number);
            assert_same(fs::read_dir(path).await, std::fs::read_dir(path), number);
            assert_same(fs::canonicalize(path).await, std::fs::canonicalize(path), number);
        }
        for (path, number) in
            [(&nowhere, libc::ENOENT), (&through, libc::ENOTDIR), (&long, libc::ENAMETOOLONG)]
        {
            assert_same(fs::remove_file(path).await, std::fs::remove_file(path), number);
            assert_same(fs::remove_dir(path).await, std::fs::remove_dir(path), number);
            assert_same(fs::create_dir(path).await, std::fs::create_dir(path), number);
            assert_same(fs::rename(&file, path).await, std::fs::rename(&file, path), number);
            assert_same(fs::hard_link(&file, path).await, std::fs::hard_link(&file, path), number);
            let std_link = std::os::unix::fs::symlink(&file, path);
            assert_same(fs::symlink(&file, path).await, std_link, number);
            let std_link = std::fs::read_link(path);
            assert_same(fs::read_link(path).await, std_link, number);
        }
        assert_same(fs::remove_dir(&full).await, std::fs::remove_dir(&full), libc::ENOTEMPTY);
        assert_same(fs::remove_file(&full).await, std::fs::remove_file(&full), libc::EISDIR);
        assert_same(fs::remove_dir(&file).await, std::fs::remove_dir(&file), libc::ENOTDIR);
        assert_same(fs::create_dir(&file).await, std::fs::create_dir(&file), libc::EEXIST);
        assert_same(File::create(&full).await, std::fs::File::create(&full), libc::EISDIR);
        assert_same(fs::read(&full).await, std::fs::read(&full), libc::EISDIR);
        assert_same(fs::write(&full, "y").await, std::fs::write(&full, "y"), libc::EISDIR);
        assert_same(fs::rename(&file, &full).await, std::fs::rename(&file, &full), libc::EISDIR);
        let other = folder.join("other");
        std::fs::create_dir(&other).unwrap();
        let std_rename = std::fs::rename(&other, &full);
        assert_same(fs::rename(&other, &full).await, std_rename, libc::ENOTEMPTY);
        assert_same(fs::read_link(&file).await, std::fs::read_link(&file), libc::EINVAL);
        let create_new = std::fs::File::create_new(&file);
        assert_same(File::create_new(&file).await, create_new, libc::EEXIST);
        let device = Path::new("/dev/shm/other-device");
        let std_rename = std::fs::rename(&file, device);
        if std_rename.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EXDEV)) {
            assert_same(fs::rename(&file, device).await, std_rename, libc::EXDEV);
        }
    });
}

#[test]
fn errors_of_open_files_have_the_numbers_of_the_system() {
    everywhere(|folder| async move {
        let path = folder.join("file");
        std::fs::write(&path, "x").unwrap();
        let mut read_only = File::open(&path).await.unwrap();
        let error = read_only.set_len(1).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let error = read_only.write_at(b"y", 0).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let error = read_only.seek(io::SeekFrom::Current(-5)).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let mut opened = File::open(folder.path()).await.unwrap();
        let error = opened.read(&mut [0; 4]).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EISDIR));
        let error = opened.read_at(&mut [0; 4], 0).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EISDIR));

        let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let error = match full.write_all(b"x").await {
            Ok(()) => full.flush().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert_same(
            fs::write("/dev/full", "x").await,
            std::fs::write("/dev/full", "x"),
            libc::ENOSPC,
        );
        let (_other, pipe) = std::io::pipe().unwrap();
        let mut pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let error = pipe.seek(io::SeekFrom::Start(0)).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
    });
}

#[test]
fn a_file_system_that_is_full_or_read_only_has_its_number() {
    let _alone = starts_processes();
    let folder = Folder::new();
    let Some(small) = Mounted::new(folder.join("small"), "size=16k") else { return };
    let Some(fixed) = Mounted::new(folder.join("fixed"), "ro") else { return };
    let (small, fixed) = (&small.0, &fixed.0);
    everywhere(|_| {
        let (small, fixed) = (small.clone(), fixed.clone());
        async move {
            let (big, data) = (small.join("big"), vec![7; 64 << 10]);
            assert_same(fs::write(&big, &data).await, std::fs::write(&big, &data), libc::ENOSPC);
            let mut file = File::create(&big).await.unwrap();
            let error = match file.write_all(&data).await {
                Ok(()) => file.flush().await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
            drop(file);

            let new = fixed.join("new");
            assert_same(fs::write(&new, "x").await, std::fs::write(&new, "x"), libc::EROFS);
            assert_same(File::create(&new).await, std::fs::File::create(&new), libc::EROFS);
            assert_same(fs::create_dir(&new).await, std::fs::create_dir(&new), libc::EROFS);
            assert_same(fs::remove_dir(&fixed).await, std::fs::remove_dir(&fixed), libc::EBUSY);
        }
    });
}

#[test]
fn errors_of_processes_have_the_numbers_of_the_system() {
    let _alone = starts_processes();
    everywhere(|folder| async move {
        let program = folder.join("program");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        let spawn = |path: &Path| {
            let ours = Command::new(path).spawn();
            (ours, std::process::Command::new(path).spawn())
        };
        let (ours, of_std) = spawn(&program);
        assert_same(ours, of_std, libc::EACCES);
        use std::os::unix::fs::PermissionsExt;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, executable).unwrap();
        {
            let _writer = std::fs::OpenOptions::new().append(true).open(&program).unwrap();
            let (ours, of_std) = spawn(&program);
            assert_same(ours, of_std, libc::ETXTBSY);
            let ours = Command::new(&program).status().await;
            assert_same(ours, std::process::Command::new(&program).status(), libc::ETXTBSY);
            let ours = Command::new(&program).output().await;
            assert_same(ours, std::process::Command::new(&program).output(), libc::ETXTBSY);
        }
        let (ours, of_std) = spawn(&folder.join("nowhere"));
        assert_same(ours, of_std, libc::ENOENT);
        let (ours, of_std) = spawn(&program.join("below"));
        assert_same(ours, of_std, libc::ENOTDIR);
        std::fs::write(&program, [0x7f, b'E', b'L', b'F', 9, 9]).unwrap();
        let (ours, of_std) = spawn(&program);
        assert_same(ours, of_std, libc::ENOEXEC);
    });
}

#[test]
fn errors_of_sockets_have_the_numbers_of_the_system() {
    let _alone = starts_processes();
    everywhere(|folder| async move {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        let of_std = std::net::TcpListener::bind(address);
        assert_same(TcpListener::bind(address).await, of_std, libc::EADDRINUSE);
        // Bound, so that no other socket has the port, and not listening.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = silent.local_addr().unwrap();
        let of_std = std::net::TcpStream::connect(address);
        assert_same(TcpStream::connect(address).await, of_std, libc::ECONNREFUSED);
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        let of_std = std::net::UdpSocket::bind(address);
        assert_same(UdpSocket::bind(address).await, of_std, libc::EADDRINUSE);

        let socket = folder.join("socket");
        let of_std = std::os::unix::net::UnixStream::connect(&socket);
        assert_same(UnixStream::connect(&socket).await, of_std, libc::ENOENT);
        let _listener = UnixListener::bind(&socket).unwrap();
        let of_std = std::os::unix::net::UnixListener::bind(&socket);
        assert_same(UnixListener::bind(&socket), of_std, libc::EADDRINUSE);
        drop(_listener);
        let of_std = std::os::unix::net::UnixStream::connect(&socket);
        assert_same(UnixStream::connect(&socket).await, of_std, libc::ECONNREFUSED);
    });
}
