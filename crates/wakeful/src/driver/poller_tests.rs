//! A poller alone, with pipes of the system.

use super::super::source::{Direction, Readiness};
use super::*;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Weak;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn poller() -> Poller {
    Poller::new(Batch::default()).unwrap()
}

/// Does what the user of a deprecated constructor of `AsyncFd` can: the descriptor is
/// closed too early, and a duplicate of it is open.
#[test]
fn what_the_system_refuses_to_forget_is_kept() {
    let poller = poller();
    let (reader, mut writer) = io::pipe().unwrap();
    let duplicate = reader.try_clone().unwrap();
    let fd = reader.as_raw_fd();
    let registered = poller.register(fd, Interest::READABLE).unwrap();
    drop(reader);
    poller.deregister(fd, &registered).unwrap_err();
    let source: Weak<Source> = Arc::downgrade(&registered.source);
    drop(registered);
    poller.turn(NOW);
    assert!(source.upgrade().is_some(), "its address is still with the system");

    writer.write_all(b"x").unwrap();
    assert_eq!(poller.turn(NOW), 1);
    assert_eq!(source.upgrade().unwrap().look(Readiness::READ).ready, Readiness::READABLE);
    drop((duplicate, poller));
    assert!(source.upgrade().is_none());
}

#[test]
fn what_is_deregistered_is_let_go_of_by_one_more_turn() {
    let poller = poller();
    let (reader, _writer) = io::pipe().unwrap();
    let fd = reader.as_raw_fd();
    let registered = poller.register(fd, Interest::READABLE).unwrap();
    poller.deregister(fd, &registered).unwrap();
    let source: Weak<Source> = Arc::downgrade(&registered.source);
    drop(registered);
    assert_eq!((poller.sources(), poller.has_sources()), (0, true));
    assert!(source.upgrade().is_some());
    poller.turn(NOW);
    assert!(source.upgrade().is_none() && !poller.has_sources());
}

#[test]
fn who_sleeps_while_nothing_happens_is_asked_to_let_go() {
    /// The limit for a test that fails.
    const LONG: Duration = Duration::from_secs(20);
    let poller = poller();
    let (reader, _writer) = io::pipe().unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let began = std::time::Instant::now();
            poller.turn(Some(LONG));
            began.elapsed()
        });
        // It may let go of the first, when it begins.
        for _ in 0..2 * MANY_RETIRED {
            let fd = reader.as_raw_fd();
            let registered = poller.register(fd, Interest::READABLE).unwrap();
            poller.deregister(fd, &registered).unwrap();
        }
        assert!(sleeper.join().unwrap() < LONG);
    });
}

/// A waker of others that panics.
struct Panics;

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as planned");
    }
}

#[test]
fn a_waker_that_panics_keeps_no_event_from_others() {
    let poller = poller();
    let ends: Vec<_> = (0..3).map(|_| io::pipe().unwrap()).collect();
    let registered: Vec<_> = ends
        .iter()
        .map(|(reader, _)| poller.register(reader.as_raw_fd(), Interest::READABLE).unwrap())
        .collect();
    let waker = std::task::Waker::from(Arc::new(Panics));
    let mut cx = std::task::Context::from_waker(&waker);
    for watched in &registered {
        assert!(watched.source.poll_ready(Direction::Read, &mut cx).is_pending());
    }
    for (_, mut writer) in ends.iter().map(|(reader, writer)| (reader, writer)) {
        writer.write_all(b"x").unwrap();
    }
    assert_eq!(poller.turn(NOW), 3);
    for watched in &registered {
        assert_eq!(watched.source.look(Readiness::READ).ready, Readiness::READABLE);
    }
}
