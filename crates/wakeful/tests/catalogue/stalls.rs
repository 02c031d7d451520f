//! Polls that do not return: blocking calls in tasks, of the kinds that users write.

use std::hint::black_box;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex as StdMutex, mpsc as std_mpsc};
use std::time::{Duration, Instant};

use wakeful::inspect::Certainty::Suspected;
use wakeful::sync::{mpsc, watch};
use wakeful::task::{LocalSet, spawn_blocking};
use wakeful::time::sleep;

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// Waits for a child process with the blocking `Command` of std.
async fn a_blocking_command(twin: Twin) {
    let shell =
        move || Command::new("sleep").arg(if is_buggy(twin) { "2" } else { "0" }).output().is_ok(); // the program of a user
    let hook = named("hook", async move {
        //@ spawned
        match is_buggy(twin) {
            true => while shell() {},
            false => drop(spawn_blocking(shell).await.unwrap()),
        }
    });
    hook.await.unwrap();
}

/// Receives from a std channel in a task.
async fn a_std_channel(twin: Twin) {
    let (tx, rx) = std_mpsc::channel::<u32>();
    let (async_tx, mut async_rx) = mpsc::channel::<u32>(1);
    let bridge = named("bridge", async move {
        //@ spawned
        match is_buggy(twin) {
            true => drop(rx.recv()),
            false => drop(async_rx.recv().await),
        }
    });
    if !is_buggy(twin) {
        async_tx.send(1).await.unwrap();
    }
    bridge.await.unwrap();
    drop((tx, async_tx));
}

/// Reads a std socket whose other side is slow, with a time-out of the kernel.
async fn a_std_socket(twin: Twin) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    let mut read = move || stream.read(&mut [0; 16]).is_err();
    let proxy = named("proxy", async move {
        //@ spawned
        match is_buggy(twin) {
            true => assert!(read()),
            false => sleep(Duration::from_millis(1)).await,
        }
    });
    proxy.await.unwrap();
    drop(listener);
}

/// Waits for a datagram with a std socket.
async fn a_std_datagram(twin: Twin) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    let lookup = named("lookup", async move {
        //@ spawned
        if is_buggy(twin) {
            assert!(socket.recv(&mut [0; 16]).is_err());
        }
    });
    lookup.await.unwrap();
}

/// Waits at a condition variable of std.
async fn a_condition_variable(twin: Twin) {
    let pair = Arc::new((StdMutex::new(false), Condvar::new()));
    let (tx, mut rx) = watch::channel(false);
    let other = pair.clone();
    let waiter = named("waiter", async move {
        //@ spawned
        if !is_buggy(twin) {
            rx.changed().await.unwrap();
            return;
        }
        let ready = other.0.lock().unwrap();
        drop(other.1.wait_while(ready, |ready| !*ready).unwrap());
    });
    if !is_buggy(twin) {
        tx.send_replace(true);
    }
    waiter.await.unwrap();
    drop(pair);
}

/// A std guard is held over an await, and another task of the thread locks.
#[expect(clippy::await_holding_lock, reason = "this is the bug")]
async fn a_std_guard_over_an_await(twin: Twin) {
    let total = Rc::new(StdMutex::new(0));
    let set = LocalSet::new();
    let (first, second) = (total.clone(), total);
    set.spawn_local(async move {
        if is_buggy(twin) {
            let mut total = first.lock().unwrap();
            sleep(Duration::from_millis(10)).await;
            *total += 1;
        } else {
            sleep(Duration::from_millis(1)).await;
            *first.lock().unwrap() += 1;
        }
    });
    set.spawn_local(async move {
        //@ spawned
        if !is_buggy(twin) {
            sleep(Duration::from_millis(1)).await;
        }
        *second.lock().unwrap() += 1;
    });
    set.await;
}

#[inline(never)]
fn checksum(until: Instant) -> u64 {
    let mut sum = 1u64;
    while Instant::now() < until {
        for n in 0..10_000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(n));
        }
    }
    sum
}

/// A handler hashes a large body without an await.
async fn a_long_computation(twin: Twin) {
    let until = Instant::now() + Duration::from_secs(if is_buggy(twin) { 50 } else { 0 });
    let hash = named("hash", async move { checksum(until) }); //@ spawned
    hash.await.unwrap();
}

/// A logger sleeps between its attempts, with the thread.
async fn a_retry_that_sleeps(twin: Twin) {
    let upload = named("upload", async move {
        //@ spawned
        for _attempt in 0..2 {
            match is_buggy(twin) {
                // The bug: the poll sleeps, and the worker with it. The report ends the program long before.
                true => std::thread::sleep(Duration::from_secs(50)),
                false => sleep(Duration::from_millis(1)).await,
            }
        }
    });
    upload.await.unwrap();
}

pub fn bugs() -> Vec<Bug> {
    let blocked = |bug: Bug| bug.reports("blocked", Suspected).says("@spawned").passes();
    vec![
        blocked(bug!(a_blocking_command)).says("\"hook\""),
        blocked(bug!(a_std_channel)).says("\"bridge\"").says("recv"),
        blocked(bug!(a_std_socket)).says("\"proxy\""),
        blocked(bug!(a_std_datagram)).says("\"lookup\""),
        blocked(bug!(a_condition_variable)).says("\"waiter\"").says("ondvar"),
        blocked(bug!(a_std_guard_over_an_await)),
        blocked(bug!(a_long_computation)).says("\"hash\"").says("checksum").busy(),
        blocked(bug!(a_retry_that_sleeps)).says("\"upload\"").says("sleep"),
    ]
}
