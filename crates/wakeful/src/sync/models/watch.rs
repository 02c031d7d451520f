//! Models of a watched value, and with it of the word that its tasks wait on.

use crate::sync::watch::{Receiver, Sender, channel};
use crate::sys::sync::{Arc as LoomArc, UnsafeCell, thread};
use crate::task::models::scheduler::{model, start};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken; not part of the model.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    fn woken(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Asks once; if it has to wait, lets `meanwhile` happen and asks again, which
/// must not be in vain. Answers whether it got a value.
fn changes(receiver: &mut Receiver<usize>, meanwhile: impl FnOnce()) -> bool {
    let (count, waker) = Count::new();
    let mut cx = Context::from_waker(&waker);
    let mut changed = pin!(receiver.changed());
    let mut polled = changed.as_mut().poll(&mut cx);
    meanwhile();
    if polled.is_pending() {
        assert_eq!(count.woken(), 1, "nobody woke it");
        polled = changed.as_mut().poll(&mut cx);
    }
    let Poll::Ready(changed) = polled else { panic!("woken in vain") };
    changed.is_ok()
}

/// A value is sent, or the last sender goes, while a receiver starts to wait.
/// Catches a receiver that sees no change and is not woken.
#[test]
fn a_change_is_never_missed() {
    for sends in [true, false] {
        model(4, move || {
            let (sender, mut receiver) = channel(0);
            let other = thread::spawn(move || {
                // One that sends does not go, which would wake a second time.
                sends.then(|| {
                    sender.send(1).unwrap();
                    sender
                })
            });
            start();
            let mut sender = None;
            let changed = changes(&mut receiver, || sender = other.join().unwrap());
            assert_eq!(changed, sends);
            assert_eq!(*receiver.borrow(), usize::from(sends));
        });
    }
}

/// What a sender did before it sent is seen by whoever has seen the change, also
/// without a look at the value. Catches an ordering that is too weak.
#[test]
fn a_change_tells_of_what_came_before() {
    struct Note(UnsafeCell<usize>);
    // SAFETY: that it is not touched by two at once is what loom checks.
    #[allow(unsafe_code)]
    unsafe impl Sync for Note {}
    // SAFETY: as above.
    #[allow(unsafe_code)]
    unsafe impl Send for Note {}

    model(4, || {
        let note = LoomArc::new(Note(UnsafeCell::new(0)));
        let (sender, mut receiver) = channel(0);
        let other = thread::spawn({
            let note = note.clone();
            move || {
                // SAFETY: see `Note`.
                #[allow(unsafe_code)]
                note.0.with_mut(|note| unsafe { *note = 1 });
                sender.send(1).unwrap();
                sender
            }
        });
        start();
        let mut changed = pin!(receiver.changed());
        if changed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            // SAFETY: see `Note`.
            #[allow(unsafe_code)]
            note.0.with(|note| assert_eq!(unsafe { *note }, 1));
        }
        drop(other.join().unwrap());
    });
}

/// One who waited gives up, so that the word still says that somebody waits
/// while nobody does; another starts to wait while two send. Catches a bit that
/// is cleared although somebody has entered the list.
#[test]
fn one_gives_up_and_another_waits() {
    model(3, || {
        let (sender, mut receiver) = channel(0);
        let sender = LoomArc::new(sender);
        {
            let mut changed = pin!(receiver.changed());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(changed.as_mut().poll(&mut cx).is_pending());
        }
        let other = thread::spawn({
            let sender = sender.clone();
            move || {
                sender.send(1).unwrap();
                sender.send(2).unwrap();
            }
        });
        start();
        let mut seen = 0;
        let mut other = Some(other);
        while seen < 2 {
            let (count, waker) = Count::new();
            let mut cx = Context::from_waker(&waker);
            {
                let mut changed = pin!(receiver.changed());
                if changed.as_mut().poll(&mut cx).is_pending() {
                    if let Some(other) = other.take() {
                        other.join().unwrap();
                    }
                    assert_eq!(count.woken(), 1, "nobody woke it");
                    assert!(changed.as_mut().poll(&mut cx).is_ready());
                }
            }
            let now = *receiver.borrow_and_update();
            assert!(now > seen, "an old value");
            seen = now;
        }
        if let Some(other) = other {
            other.join().unwrap();
        }
    });
}

/// A receiver's look is of one piece: the value, and which one it is. Catches a
/// version that runs ahead of its value.
#[test]
fn what_was_seen_is_what_was_looked_at() {
    model(3, || {
        let (sender, mut receiver) = channel(0);
        let other = thread::spawn(move || {
            sender.send(1).unwrap();
            sender
        });
        start();
        let first = *receiver.borrow_and_update();
        let sender = other.join().unwrap();
        assert_eq!(receiver.has_changed().unwrap(), first == 0);
        drop(sender);
    });
}

/// The last receivers go while a sender starts to wait for that, or gives up.
#[test]
fn the_end_of_all_receivers_is_never_missed() {
    for gives_up in [false, true] {
        model(3, move || {
            let (sender, receiver): (Sender<usize>, Receiver<usize>) = channel(0);
            let others =
                [receiver.clone(), receiver].map(|receiver| thread::spawn(move || drop(receiver)));
            start();
            let (count, waker) = Count::new();
            let mut cx = Context::from_waker(&waker);
            {
                let mut closed = pin!(sender.closed());
                let waits = closed.as_mut().poll(&mut cx).is_pending();
                if !gives_up {
                    others.into_iter().for_each(|other| other.join().unwrap());
                    assert!(!waits || count.woken() == 1, "nobody woke it");
                    assert!(!waits || closed.as_mut().poll(&mut cx).is_ready());
                }
            }
            drop(waker);
        });
    }
}
