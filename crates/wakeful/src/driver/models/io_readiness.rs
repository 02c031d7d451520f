//! Models of a descriptor's readiness: the system puts bytes there and the poller tells
//! of it, while a task reads and waits.

use crate::driver::io_readiness::{Direction, IoReadiness, Readiness};
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::list::Waiter;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize as StdUsize;
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken; not part of the model.
struct Count(StdUsize);

impl Wake for Count {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A socket: how many bytes the system has for it, and what is known of that.
struct Socket {
    bytes: AtomicUsize,
    source: IoReadiness,
}

impl Socket {
    /// One that was read from already, and waits for nothing. (A model takes what an
    /// atomic was made with for less than what was stored there: it lets a SeqCst load
    /// find that when it should find something newer.)
    fn used() -> Arc<Self> {
        let this = Self { bytes: AtomicUsize::new(0), source: IoReadiness::new() };
        this.comes();
        assert_eq!(this.read(Waker::noop()), 1);
        this.comes();
        assert_eq!(this.bytes.swap(0, SeqCst), 1);
        Arc::new(this)
    }

    /// A byte comes in, and the poller says so.
    fn comes(&self) {
        self.bytes.fetch_add(1, SeqCst);
        self.source.add(Readiness::READABLE);
    }

    /// Reads, with more room than there is, until it has to wait. Answers how many bytes
    /// came of it.
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

/// Bytes come while a task reads and uses up what was said. Catches one that waits for
/// what it was told of before.
#[test]
fn what_comes_is_read_or_the_reader_is_woken() {
    model(4, || {
        let socket = Socket::used();
        let count = StdArc::new(Count(StdUsize::new(0)));
        let waker = Waker::from(count.clone());
        let system = thread::spawn({
            let socket = socket.clone();
            move || {
                socket.comes();
                socket.comes();
            }
        });
        start();
        let read = socket.read(&waker);
        system.join().unwrap();
        let woken = count.0.load(SeqCst) > 0;
        assert!(read == 2 || woken, "{read} read, and it waits for ever");
        assert_eq!(read + socket.read(&waker), 2);
    });
}

/// There is room to write, which has nothing to do with a read that used up what there
/// was: neither is taken for the other, whoever comes first.
#[test]
fn room_to_write_does_not_hide_what_can_be_read() {
    model(3, || {
        let socket = Socket::used();
        let count = StdArc::new(Count(StdUsize::new(0)));
        let waker = Waker::from(count.clone());
        socket.comes();
        let system = thread::spawn({
            let socket = socket.clone();
            move || {
                socket.source.add(Readiness::WRITABLE);
                socket.comes();
            }
        });
        start();
        let read = socket.read(&waker);
        system.join().unwrap();
        assert!(read == 2 || count.0.load(SeqCst) > 0, "{read} read, and it waits for ever");
        let writable = socket.source.load(Readiness::WRITE).ready;
        assert_eq!(writable, Readiness::WRITABLE);
        assert_eq!(read + socket.read(&waker), 2);
    });
}

/// Two tasks read at a time, and the slower one uses up what was said before the faster
/// one looked. At worst something seems to be there that is not.
#[test]
fn of_two_who_read_none_hides_what_comes() {
    model(3, || {
        let socket = Socket::used();
        let count = StdArc::new(Count(StdUsize::new(0)));
        let waker = Waker::from(count.clone());
        socket.comes();
        let others = [0, 1].map(|number| {
            let (socket, waker) = (socket.clone(), waker.clone());
            thread::spawn(move || match number {
                0 => {
                    socket.comes();
                    0
                }
                _ => socket.read(&waker),
            })
        });
        start();
        let read = socket.read(&waker);
        let others: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        let read = read + others;
        assert!(read == 2 || count.0.load(SeqCst) > 0, "{read} read, and nobody is woken");
        assert_eq!(read + socket.read(&waker), 2);
    });
}

/// One who waits in the list goes to another task as it is called, and a third reads what it was
/// called for. Catches one that waits without being listed.
#[test]
fn one_who_moves_as_it_is_called_is_called_again() {
    model(3, || {
        let socket = Socket::used();
        let count = StdArc::new(Count(StdUsize::new(0)));
        let (old, new) = (Waker::noop(), Waker::from(count.clone()));
        let waiter = Box::pin(Waiter::new());
        let poll = |waker: &Waker| {
            let mut cx = Context::from_waker(waker);
            socket.source.poll_listed(waiter.as_ref(), Readiness::READ, &mut cx)
        };
        assert_eq!(socket.read(old), 0);
        assert!(poll(old).is_pending());
        let system = thread::spawn({
            let socket = socket.clone();
            move || {
                socket.comes();
                socket.read(Waker::noop());
            }
        });
        start();
        let polled = poll(&new);
        system.join().unwrap();
        if polled.is_pending() {
            socket.comes();
            assert!(count.0.load(SeqCst) > 0, "it waits for ever");
        }
        socket.source.cancel_wait(waiter.as_ref());
    });
}
