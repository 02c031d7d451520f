//! Loom models of a descriptor's readiness.
//!
//! The kernel makes bytes available and the poller reports them, while a task reads and waits.

use crate::driver::io_readiness::{Direction, IoReadiness, Readiness};
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::list::Waiter;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize as StdUsize;
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts its wakes with a std atomic, which creates no ordering in the model.
struct CountingWaker(StdUsize);

impl Wake for CountingWaker {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A socket: the bytes in its receive buffer, and its readiness.
struct Socket {
    bytes: AtomicUsize,
    source: IoReadiness,
}

impl Socket {
    /// Creates an empty socket that was read from before.
    ///
    /// (loom treats the initial value of an atomic as weaker than a stored one. A SeqCst load may
    /// return it instead of a newer value.)
    fn drained() -> Arc<Self> {
        let this = Self { bytes: AtomicUsize::new(0), source: IoReadiness::new() };
        this.receive();
        assert_eq!(this.read(Waker::noop()), 1);
        this.receive();
        assert_eq!(this.bytes.swap(0, SeqCst), 1);
        Arc::new(this)
    }

    /// A byte arrives, and the poller reports it.
    fn receive(&self) {
        self.bytes.fetch_add(1, SeqCst);
        self.source.add(Readiness::READABLE);
    }

    /// Reads into a large buffer until the read must wait. Returns the number of bytes read.
    fn read(&self, waker: &Waker) -> usize {
        let mut read = 0;
        loop {
            match self.source.poll_ready(Direction::Read, &mut Context::from_waker(waker)) {
                Poll::Pending => return read,
                Poll::Ready(seen) => match self.bytes.swap(0, SeqCst) {
                    0 => self.source.clear_if_unchanged(seen),
                    bytes => {
                        read += bytes;
                        self.source.mark_drained(Direction::Read, seen);
                    }
                },
            }
        }
    }
}

/// Bytes arrive while a task reads and drains the socket. Catches a task that waits for bytes that
/// were already reported.
#[test]
fn bytes_are_read_or_the_reader_is_woken() {
    model(4, || {
        let socket = Socket::drained();
        let count = StdArc::new(CountingWaker(StdUsize::new(0)));
        let waker = Waker::from(count.clone());
        let kernel = thread::spawn({
            let socket = socket.clone();
            move || {
                socket.receive();
                socket.receive();
            }
        });
        start();
        let read = socket.read(&waker);
        kernel.join().unwrap();
        let woken = count.0.load(SeqCst) > 0;
        assert!(read == 2 || woken, "{read} read, and the reader waits forever");
        assert_eq!(read + socket.read(&waker), 2);
    });
}

/// The socket becomes writable while a read drains it. Catches an event of one direction that hides
/// the readiness of the other, in either order.
#[test]
fn writable_event_does_not_hide_readable_bytes() {
    model(3, || {
        let socket = Socket::drained();
        let count = StdArc::new(CountingWaker(StdUsize::new(0)));
        let waker = Waker::from(count.clone());
        socket.receive();
        let kernel = thread::spawn({
            let socket = socket.clone();
            move || {
                socket.source.add(Readiness::WRITABLE);
                socket.receive();
            }
        });
        start();
        let read = socket.read(&waker);
        kernel.join().unwrap();
        assert!(read == 2 || count.0.load(SeqCst) > 0, "{read} read, and the reader waits forever");
        let writable = socket.source.load(Readiness::WRITE).ready();
        assert_eq!(writable, Readiness::WRITABLE);
        assert_eq!(read + socket.read(&waker), 2);
    });
}

/// Two tasks read concurrently, and the slower one marks an older snapshot as drained. Catches a
/// lost event. At worst the socket seems readable although it is empty.
#[test]
fn concurrent_readers_hide_no_event() {
    model(3, || {
        let socket = Socket::drained();
        let count = StdArc::new(CountingWaker(StdUsize::new(0)));
        let waker = Waker::from(count.clone());
        socket.receive();
        let others = [0, 1].map(|number| {
            let (socket, waker) = (socket.clone(), waker.clone());
            thread::spawn(move || match number {
                0 => {
                    socket.receive();
                    0
                }
                _ => socket.read(&waker),
            })
        });
        start();
        let read = socket.read(&waker);
        let others: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        let read = read + others;
        assert!(read == 2 || count.0.load(SeqCst) > 0, "{read} read, and no task is woken");
        assert_eq!(read + socket.read(&waker), 2);
    });
}

/// A waiter in the list changes its waker while it is woken, and another task reads the bytes.
/// Catches a waiter that waits without being in the list.
#[test]
fn waiter_that_changes_its_waker_while_woken_is_woken_again() {
    model(3, || {
        let socket = Socket::drained();
        let count = StdArc::new(CountingWaker(StdUsize::new(0)));
        let (old, new) = (Waker::noop(), Waker::from(count.clone()));
        let waiter = Box::pin(Waiter::new());
        let poll = |waker: &Waker| {
            let mut cx = Context::from_waker(waker);
            socket.source.poll_listed(waiter.as_ref(), Readiness::READ, &mut cx)
        };
        assert_eq!(socket.read(old), 0);
        assert!(poll(old).is_pending());
        let kernel = thread::spawn({
            let socket = socket.clone();
            move || {
                socket.receive();
                socket.read(Waker::noop());
            }
        });
        start();
        let polled = poll(&new);
        kernel.join().unwrap();
        if polled.is_pending() {
            socket.receive();
            assert!(count.0.load(SeqCst) > 0, "the waiter waits forever");
        }
        socket.source.cancel_wait(waiter.as_ref());
    });
}
