//! I/O objects and timers are made on one runtime, polled on another and used on a third, while runtimes end.
//! Oracle: bytes arrive unchanged while the object's runtime lives, an error comes after that, and no call hangs.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use wakeful::io::unix::AsyncFd;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use wakeful::runtime::{Handle, Runtime, RuntimeFlavor};
use wakeful::time::{Interval, Sleep, interval, sleep};

use super::rng::TestRng;
use super::round::{Round, returns};

/// An I/O object that moves between runtimes. The peer of a stream belongs to no runtime.
enum Object {
    Stream(UnixStream, StdStream),
    Tcp(TcpStream, std::net::TcpStream),
    Udp(UdpSocket),
    Listener(TcpListener),
    Pipe(AsyncFd<OwnedFd>, std::io::PipeWriter),
    Sleep(Pin<Box<Sleep>>),
    Interval(Interval),
}

fn make(rng: &mut TestRng, handle: &Handle) -> Object {
    let _entered = handle.enter();
    match rng.below(7) {
        0 => {
            let (near, far) = StdStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            Object::Stream(UnixStream::from_std(near).unwrap(), far)
        }
        1 => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            near.set_nonblocking(true).unwrap();
            Object::Tcp(TcpStream::from_std(near).unwrap(), listener.accept().unwrap().0)
        }
        2 => {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            Object::Udp(UdpSocket::from_std(socket).unwrap())
        }
        3 => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            Object::Listener(TcpListener::from_std(listener).unwrap())
        }
        4 => {
            let (read, write) = std::io::pipe().unwrap();
            // SAFETY: the pipe owns its one descriptor.
            Object::Pipe(unsafe { AsyncFd::register(read.into()) }.unwrap(), write)
        }
        5 => Object::Sleep(Box::pin(sleep(Duration::from_micros(rng.below(300) as u64)))),
        _ => Object::Interval(interval(Duration::from_micros(100))),
    }
}

/// Polls the object once, with the caller's waker.
fn poll_once(object: &mut Object, cx: &mut Context<'_>) {
    // A timer whose runtime is gone panics.
    returns(|| {
        _ = match object {
            Object::Stream(near, _) => near.poll_read_ready(cx).map(drop),
            Object::Tcp(near, _) => near.poll_read_ready(cx).map(drop),
            Object::Udp(socket) => socket.poll_recv_ready(cx).map(drop),
            Object::Listener(listener) => listener.poll_accept(cx).map(drop),
            Object::Pipe(read, _) => read.poll_read_ready(cx).map(drop),
            Object::Sleep(sleep) => sleep.as_mut().poll(cx),
            Object::Interval(interval) => interval.poll_tick(cx).map(drop),
        };
    });
}

/// Echoes a word over the object. An error is acceptable if the object's runtime may be gone.
async fn exchange(object: &mut Object) -> std::io::Result<()> {
    let mut word = [0; 4];
    match object {
        Object::Stream(near, far) => {
            far.write_all(b"ping")?;
            near.read_exact(&mut word).await?;
            near.write_all(&word).await?;
            far.read_exact(&mut word)?;
        }
        Object::Tcp(near, far) => {
            far.write_all(b"ping")?;
            near.read_exact(&mut word).await?;
            near.write_all(&word).await?;
            far.read_exact(&mut word)?;
        }
        Object::Udp(socket) => {
            socket.send_to(b"ping", socket.local_addr()?).await?;
            socket.recv_from(&mut word).await?;
        }
        Object::Listener(listener) => {
            let mut far = std::net::TcpStream::connect(listener.local_addr()?)?;
            far.write_all(b"ping")?;
            listener.accept().await?.0.read_exact(&mut word).await?;
        }
        Object::Pipe(read, write) => {
            write.write_all(b"ping")?;
            loop {
                let mut guard = read.readable().await?;
                if let Ok(read) = guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut word)?))
                {
                    read?;
                    break;
                }
            }
        }
        Object::Sleep(sleep) => {
            sleep.as_mut().await;
            word = *b"ping";
        }
        Object::Interval(interval) => {
            interval.tick().await;
            word = *b"ping";
        }
    }
    assert_eq!(&word, b"ping", "the word arrives unchanged");
    Ok(())
}

/// Moves a stream to another runtime in the documented way, and checks that it works there.
fn move_over(runtime: &Runtime, object: Object) -> Option<(StdStream, StdStream)> {
    let Object::Stream(near, far) = object else { return None };
    let near = near.into_std().ok()?;
    runtime.block_on(async {
        let mut object = Object::Stream(UnixStream::from_std(near).unwrap(), far);
        exchange(&mut object).await.expect("the runtime that the stream belongs to is alive");
        let Object::Stream(near, far) = object else { unreachable!() };
        Some((near.into_std().unwrap(), far))
    })
}

pub fn round(round: &mut Round) {
    let mut runtimes: Vec<Runtime> = (0..3).map(|_| round.runtime()).collect();
    let mut rng = round.rng.branch();
    let mut objects: Vec<(usize, Object)> = Vec::new();
    for _ in 0..4 + rng.below(12) {
        let home = rng.below(2);
        objects.push((home, make(&mut rng, runtimes[home].handle())));
    }
    round.count("objects", objects.len());
    for (home, object) in &mut objects {
        let runtime = &runtimes[rng.below(3)];
        runtime.block_on(poll_fn(|cx| {
            poll_once(object, cx);
            Poll::Ready(())
        }));
        if rng.one_in(3) {
            // The object's runtime lives and drives it, with its workers or in this `block_on`.
            let at_home = runtimes[*home].handle().runtime_flavor() == RuntimeFlavor::CurrentThread;
            let runtime = &runtimes[if at_home { *home } else { 2 }];
            let outcome = runtime.block_on(exchange(object));
            outcome.unwrap_or_else(|error| panic!("its runtime {home} is alive: {error}"));
        }
    }
    let last = runtimes.pop().unwrap();
    // The first two runtimes end on another thread while the objects are polled and used on the last one.
    let mut ending = Round::new(rng.below(usize::MAX) as u64);
    let (done, is_done) = mpsc::channel();
    let ender = thread::spawn(move || {
        runtimes.into_iter().for_each(|runtime| ending.end(runtime));
        done.send(()).unwrap();
    });
    for (_, object) in &mut objects {
        if rng.one_in(2) {
            returns(|| drop(last.block_on(exchange(object))));
        }
    }
    is_done.recv().unwrap();
    ender.join().unwrap();
    for (_, mut object) in objects {
        match rng.below(4) {
            0 => drop(object),
            1 => drop(thread::spawn(move || drop(object)).join()),
            2 => drop(move_over(&last, object)),
            _ => _ = returns(|| drop(last.block_on(exchange(&mut object)))),
        }
    }
    round.end(last);
}
