//! A file system that the test serves over `/dev/fuse`. It can delay its answer to one kind of request.
//!
//! The requesting thread then blocks inside the kernel until the test answers. Such a thread cannot be killed,
//! and the serving descriptor stays open while the thread lives. A test process that ends or is killed in that
//! state would stay a zombie forever, and its parent would wait for it. So a [`Guard`], a separate process,
//! ends the file system when the serving thread ends.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

/// The kinds of requests, with their numbers in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    Lookup = 1,
    Getattr = 3,
    Setattr = 4,
    Readlink = 5,
    Symlink = 6,
    Mkdir = 9,
    Unlink = 10,
    Rmdir = 11,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    Release = 18,
    Fsync = 20,
    Flush = 25,
    Opendir = 27,
    Readdir = 28,
    Releasedir = 29,
    Create = 35,
    Fallocate = 43,
    Rename = 45,
}

const FORGET: u32 = 2;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const ROOT: u64 = 1;
const FILE: u64 = 2;
const LINK: u64 = 3;

/// The content of every file.
pub const CONTENTS: &[u8] = b"served by the test";

/// A mounted file system with `file`, `link` and `fresh`. The kernel caches the names of the first two, and asks for
/// `fresh` each time. Dropping it unmounts it.
pub struct Served {
    path: PathBuf,
    server: Arc<Server>,
    serves: Option<JoinHandle<()>>,
}

struct Server {
    device: File,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept_back: Option<Request>,
    waiting: Vec<Vec<u8>>,
    on_arrival: Option<Box<dyn FnOnce() + Send>>,
}

impl Served {
    /// Mounts the file system at `path`.
    ///
    /// # Errors
    ///
    /// Returns the reason why this machine cannot mount it.
    pub fn new(path: PathBuf) -> Result<Self, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse cannot be opened: {error}"))?;
        std::fs::create_dir(&path).unwrap();
        let target = CString::new(path.as_os_str().as_bytes()).unwrap();
        let options = format!("fd={},rootmode=40755,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).unwrap();
        let (source, kind) = (c"wakeful-test".as_ptr(), c"fuse".as_ptr());
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: the strings end with zeros.
        let mounted =
            unsafe { libc::mount(source, target.as_ptr(), kind, flags, options.as_ptr().cast()) };
        if mounted != 0 {
            return Err(format!("FUSE cannot be mounted: {}", io::Error::last_os_error()));
        }
        let server = Arc::new(Server { device, state: Mutex::default() });
        let serving = server.clone();
        let (tx, rx) = mpsc::channel();
        let serves = std::thread::spawn(move || {
            let _guard = Guard::start(&target);
            tx.send(()).unwrap();
            serving.serve();
        });
        let served = Self { path, server, serves: Some(serves) };
        rx.recv().expect("the guard is started");
        Ok(served)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops answering requests of this kind. The first such request calls `on_arrival`.
    pub fn keep_back(&self, request: Request, on_arrival: impl FnOnce() + Send + 'static) {
        let mut state = self.server.lock();
        state.kept_back = Some(request);
        state.on_arrival = Some(Box::new(on_arrival));
    }

    /// Answers the delayed requests. Returns whether there were any.
    pub fn release(&self) -> bool {
        let waiting = {
            let mut state = self.server.lock();
            state.kept_back = None;
            state.on_arrival = None;
            std::mem::take(&mut state.waiting)
        };
        waiting.iter().for_each(|request| self.server.answer(request));
        !waiting.is_empty()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.release();
        let path = CString::new(self.path.as_os_str().as_bytes()).unwrap();
        end(&path);
        // The serving thread reads that the file system has ended.
        let served = self.serves.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            served.unwrap().expect("the server does not panic");
        }
    }
}

/// Ends a file system: unmounts it, and threads that wait for its answers get an error.
fn end(path: &CStr) {
    // SAFETY: the string ends with a zero.
    unsafe { libc::umount2(path.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
}

/// A process that ends the file system when the thread that started the process ends, for any reason.
struct Guard(libc::pid_t);

impl Guard {
    /// Starts the process, and waits until the process watches this thread. A test that ended earlier would
    /// stay a zombie.
    fn start(path: &CStr) -> Self {
        let (mut ready_rx, ready_tx) = io::pipe().unwrap();
        // SAFETY: the child makes only system calls, on memory that existed before.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", io::Error::last_os_error());
        if child == 0 {
            Self::guard(path, ready_tx.as_raw_fd());
        }
        drop(ready_tx);
        ready_rx.read_exact(&mut [0]).expect("the guard starts");
        Self(child)
    }

    /// Waits for the parent's thread to end.
    fn guard(path: &CStr, ready_tx: i32) -> ! {
        // SAFETY: system calls on memory of this function. The descriptors are copies that only this process has.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut signals);
            libc::sigaddset(&mut signals, libc::SIGUSR1);
            libc::sigprocmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
            libc::setpgid(0, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1);
            libc::write(ready_tx, [0u8].as_ptr().cast(), 1);
            libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
            libc::sigwaitinfo(&signals, std::ptr::null_mut());
            end(path);
            libc::_exit(0);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: a child of this process that has not been waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGUSR1);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut number = [0; 8];
    number[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(number)
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers requests until the file system is gone.
    fn serve(&self) {
        let mut buf = vec![0; 1 << 20];
        loop {
            let request = match (&self.device).read(&mut buf) {
                Ok(len) => &buf[..len],
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
                // This thread or the requesting thread was interrupted.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ENOENT)) => {
                    continue;
                }
                Err(error) => panic!("/dev/fuse cannot be read: {error}"),
            };
            let arrived = {
                let mut state = self.lock();
                match state.kept_back {
                    Some(kept) if kept as u64 == number(request, 4, 4) => {
                        state.waiting.push(request.to_vec());
                        Some(state.on_arrival.take())
                    }
                    _ => None,
                }
            };
            match arrived {
                Some(on_arrival) => on_arrival.into_iter().for_each(|call| call()),
                None => self.answer(request),
            }
        }
    }

    fn answer(&self, request: &[u8]) {
        let (kind, node) = (number(request, 4, 4) as u32, number(request, 16, 8));
        if [FORGET, BATCH_FORGET, INTERRUPT].contains(&kind) {
            return;
        }
        let (error, body) = match answer(kind, node, &request[40..]) {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let mut answer = (16 + body.len() as u32).to_le_bytes().to_vec();
        answer.extend(error.to_le_bytes());
        answer.extend(&request[8..16]);
        answer.extend(body);
        // The write fails if the request was given up.
        let _ = (&self.device).write(&answer);
    }
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let mode: u32 = match node {
        ROOT => libc::S_IFDIR | 0o755,
        LINK => libc::S_IFLNK | 0o777,
        _ => libc::S_IFREG | 0o644,
    };
    let mut attr = Vec::new();
    for long in [node, CONTENTS.len() as u64, 1, 0, 0, 0] {
        attr.extend(long.to_le_bytes());
    }
    for short in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        attr.extend(short.to_le_bytes());
    }
    attr
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns the body of an answer, or an error number.
fn answer(kind: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
    use Request as R;
    const REMEMBERED: u64 = 3600;
    let is = |request: R| kind == request as u32;
    if kind == INIT {
        let mut init = Vec::new();
        // Version 7.31, read-ahead, flags; then the limits for waiting requests and for one write.
        for value in [7u32, 31, 1 << 17, 0, 0, 1 << 17, 1] {
            init.extend(value.to_le_bytes());
        }
        init.resize(64, 0);
        return Ok(init);
    }
    if is(R::Lookup) {
        let (node, valid) = match body.strip_suffix(b"\0").unwrap_or(body) {
            b"file" => (FILE, REMEMBERED),
            b"link" => (LINK, REMEMBERED),
            b"fresh" => (FILE, 0),
            _ => return Err(libc::ENOENT),
        };
        let mut entry = longs(&[node, 0, valid, 0, 0]);
        entry.extend(attributes(node));
        return Ok(entry);
    }
    if is(R::Getattr) || is(R::Setattr) {
        let mut attr = longs(&[0, 0]);
        attr.extend(attributes(node));
        return Ok(attr);
    }
    if is(R::Open) || is(R::Opendir) {
        const DIRECT_IO: u64 = 1;
        return Ok(longs(&[0, if is(R::Open) { DIRECT_IO } else { 0 }]));
    }
    if is(R::Read) {
        let offset = (number(body, 8, 8) as usize).min(CONTENTS.len());
        let len = (number(body, 16, 4) as usize).min(CONTENTS.len() - offset);
        return Ok(CONTENTS[offset..offset + len].to_vec());
    }
    if is(R::Write) {
        return Ok(longs(&[number(body, 16, 4)]));
    }
    if is(R::Readdir) {
        if number(body, 8, 8) > 0 {
            return Ok(Vec::new());
        }
        let mut entry = longs(&[FILE, 1]);
        entry.extend(4u32.to_le_bytes());
        entry.extend(8u32.to_le_bytes());
        entry.extend(b"file\0\0\0\0");
        return Ok(entry);
    }
    if is(R::Readlink) {
        return Ok(b"file".to_vec());
    }
    if kind == STATFS {
        return Ok(vec![0; 80]);
    }
    let nothing = [R::Flush, R::Release, R::Releasedir, R::Fsync];
    if nothing.into_iter().any(is) {
        return Ok(Vec::new());
    }
    let refused = [R::Symlink, R::Mkdir, R::Unlink, R::Rmdir, R::Link, R::Create, R::Rename];
    Err(match refused.into_iter().any(is) || is(R::Fallocate) {
        true => libc::EPERM,
        false => libc::ENOSYS,
    })
}
