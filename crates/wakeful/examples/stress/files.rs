//! Reads and writes are in flight, on a ring or the pool, when their futures, files and runtimes are dropped. Oracle:
//! the kernel writes to no freed memory, and every accepted write is in the file.

use std::future::poll_fn;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use wakeful::fs::{self, File};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::runtime::FileBackend;
use wakeful::task::yield_now;

use super::rng::TestRng;
use super::round::Round;

const BACKENDS: [FileBackend; 3] = [FileBackend::Auto, FileBackend::Uring, FileBackend::Pool];
/// Larger than a page, so that some operations take long.
const LENGTH: usize = 300_000;

/// A temporary file of the round, which is removed on drop.
struct TempFile(PathBuf);

impl TempFile {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("wakeful-stress-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, vec![b'o'; LENGTH]).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Polls an operation a few times, then drops it.
async fn give_up(operation: impl Future, polls: usize) {
    let mut operation = pin!(operation);
    for _ in 0..polls {
        let is_ready = poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx).is_ready())).await;
        if is_ready {
            return;
        }
        yield_now().await;
    }
}

/// Starts operations on a file and gives most of them up.
async fn operate(path: PathBuf, mut rng: TestRng) {
    let Ok(mut file) = File::options().read(true).write(true).open(&path).await else { return };
    for _ in 0..rng.below(6) {
        let (polls, at) = (rng.below(4), rng.below(LENGTH) as u64);
        let mut buffer = vec![0; 1 + rng.below(LENGTH)];
        match rng.below(8) {
            0 => give_up(file.read(&mut buffer), polls).await,
            1 => give_up(file.read_at(&mut buffer, at), polls).await,
            2 => give_up(file.write_at(&[b'n'; 5000], at), polls).await,
            3 => give_up(file.sync_all(), polls).await,
            4 => give_up(fs::read(&path), polls).await,
            5 => give_up(file.metadata(), polls).await,
            6 => give_up(File::open(&path), polls).await,
            _ => give_up(file.write(&buffer), polls).await,
        }
    }
}

/// Reads from an empty pipe: the operation is in flight until `late` writes.
async fn read_pipe(read: OwnedFd, polls: usize) {
    let mut file = File::from(read);
    let mut buffer = vec![0; 4096];
    give_up(file.read(&mut buffer), polls).await;
    if polls.is_multiple_of(2) {
        _ = file.read(&mut buffer).await;
    }
}

/// Writes whole blocks one after the other. Returns the number of accepted blocks.
async fn append(path: PathBuf, blocks: usize) -> usize {
    let mut file = File::options().append(true).open(&path).await.unwrap();
    for _ in 0..blocks {
        file.write_all(&[b'a'; 4096]).await.unwrap();
    }
    // Without a flush: the file is dropped while accepted writes are pending.
    blocks
}

pub fn round(round: &mut Round) {
    let backend = BACKENDS[round.rng.below(3)];
    round.count("runtimes", 1);
    let runtime = round.builder().file_backend(backend).build().unwrap();
    let mut rng = round.rng.branch();
    let (scratch, log) = (TempFile::new(), TempFile::new());
    let (mut writers, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..rng.below(5) {
        let guard = round.drops.guard();
        let operations = operate(scratch.0.clone(), rng.branch());
        tasks.push(runtime.spawn(async move {
            operations.await;
            drop(guard);
        }));
    }
    // This precedes the reads of pipes, which may take every thread of the pool.
    let blocks = rng.below(20);
    let appended = runtime.spawn(append(log.0.clone(), blocks));
    let accepted = runtime.block_on(appended).unwrap();
    for _ in 0..rng.below(4) {
        let (read, write) = std::io::pipe().unwrap();
        writers.push(write);
        tasks.push(runtime.spawn(read_pipe(read.into(), rng.below(5))));
    }
    round.count("operations", tasks.len());
    for _ in 0..rng.below(40) {
        runtime.block_on(yield_now());
    }
    tasks.truncate(rng.below(tasks.len() + 1));
    // Writes to the pipes after the reads were given up, and perhaps after the end of the runtime.
    let late = thread::spawn(move || {
        for mut write in writers {
            thread::yield_now();
            _ = write.write(&[b'l'; 4096]);
        }
    });
    let is_waited_for = rng.one_in(2);
    if is_waited_for {
        drop(runtime);
    } else {
        round.end(runtime);
    }
    // Reuses the memory of freed buffers, to which the kernel must not write.
    let traps: Vec<Vec<u8>> = (0..64).map(|n| vec![0x5a; 512 << (n % 8)]).collect();
    late.join().unwrap();
    for trap in &traps {
        assert!(
            trap.iter().all(|&byte| byte == 0x5a),
            "the kernel wrote into memory that was freed"
        );
    }
    drop(tasks);
    if is_waited_for {
        let text = std::fs::read(&log.0).unwrap();
        assert_eq!(
            text.len(),
            LENGTH + accepted * 4096,
            "every write that was accepted is in the file"
        );
        assert!(text[LENGTH..].iter().all(|&byte| byte == b'a'));
    }
}
