//! Tests of a poller with real pipes and sockets, without a runtime.

use super::super::io_readiness::{Direction, Readiness};
use super::*;
use crate::wait::list::Waiter;
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A time limit for polls that don't wait.
const NOW: Option<Duration> = Some(Duration::ZERO);

fn poller() -> Poller {
    Poller::new(EventLimits::default()).unwrap()
}

/// Reproduces a misuse that a deprecated constructor of `AsyncFd` allows. The descriptor is closed
/// too early while a duplicate of it is open, and its number already belongs to another descriptor.
#[test]
fn source_that_epoll_may_report_lives_as_long_as_the_poller() {
    let poller = poller();
    let (reader, mut writer) = io::pipe().unwrap();
    let (another, _writer) = io::pipe().unwrap();
    let registered = poller.register(reader.as_raw_fd(), Interest::READABLE).unwrap();
    let of_another = poller.register(another.as_raw_fd(), Interest::READABLE).unwrap();
    poller.deregister(another.as_raw_fd(), &registered).unwrap();
    poller.deregister(another.as_raw_fd(), &of_another).unwrap_err();
    let sources = [registered, of_another].map(|it| Arc::downgrade(&it.source));
    poller.poll(NOW);
    let all_there = || sources.iter().all(|source| source.upgrade().is_some());
    assert!(all_there() && !poller.needs_poll());

    writer.write_all(b"x").unwrap();
    assert_eq!(poller.poll(NOW), 1, "epoll reports the first");
    assert!(all_there());
    let others = [(); 2].map(|()| register_another(&poller));
    let is_reused = |source: &std::sync::Weak<IoReadiness>| {
        others.iter().any(|other| std::ptr::eq(Arc::as_ptr(&other.source), source.as_ptr()))
    };
    assert_eq!(sources.each_ref().map(is_reused), [true, false], "epoll may report the second");
    drop(others);
    drop(poller);
    assert!(sources.iter().all(|source| source.upgrade().is_none()));
}

#[test]
fn deregistered_source_is_reused_after_the_next_poll() {
    let poller = poller();
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"x").unwrap();
    let fd = reader.as_raw_fd();
    let register = || poller.register(fd, Interest::READABLE).unwrap();
    let deregister = |registered: RegisteredSource| {
        poller.deregister(fd, &registered).unwrap();
        Arc::as_ptr(&registered.source)
    };
    let registered = register();
    poller.poll(NOW);
    let readable = registered.source.load(Readiness::READ);
    assert_eq!(readable.ready(), Readiness::READABLE);
    registered.source.mark_drained(Direction::Read, readable);
    let source = deregister(registered);
    assert_eq!((poller.source_count(), poller.needs_poll()), (0, true));

    let second = deregister(register());
    assert_ne!(second, source, "an event may have been fetched");
    poller.poll(NOW);
    assert!(!poller.needs_poll());
    let (third, fourth) = (register(), register_another(&poller));
    let reused = [&third, &fourth].map(|it| Arc::as_ptr(&it.source));
    assert!(reused.contains(&source) && reused.contains(&second), "{reused:?}");
    let is_empty = |it: &RegisteredSource| it.source.load(Readiness::READ).ready().is_empty();
    assert!(is_empty(&third) && is_empty(&fourth), "a reused source starts without readiness");
    poller.poll(NOW);
    assert_eq!(third.source.load(Readiness::READ).ready(), Readiness::READABLE);
    assert!(is_empty(&fourth));
}

/// Registers a pipe that has no events.
fn register_another(poller: &Poller) -> RegisteredSource {
    let (reader, writer) = io::pipe().unwrap();
    // Stays open until the process exits.
    std::mem::forget(writer);
    poller.register(reader.into_raw_fd(), Interest::READABLE).unwrap()
}

#[test]
fn sleeping_thread_is_interrupted_if_many_sources_are_retired() {
    /// Reached only if the test fails.
    const LONG: Duration = Duration::from_secs(20);
    let poller = poller();
    let (reader, _writer) = io::pipe().unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let began = std::time::Instant::now();
            poller.poll(Some(LONG));
            began.elapsed()
        });
        // The thread's poll may free the first sources when it starts.
        for _ in 0..2 * MANY_RETIRED {
            let fd = reader.as_raw_fd();
            let registered = poller.register(fd, Interest::READABLE).unwrap();
            poller.deregister(fd, &registered).unwrap();
        }
        assert!(sleeper.join().unwrap() < LONG);
    });
}

/// A waker that panics.
struct Panics;

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as planned");
    }
}

#[test]
fn panicking_waker_does_not_lose_events_of_other_sources() {
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
    assert_eq!(poller.poll(NOW), 3);
    for watched in &registered {
        assert_eq!(watched.source.load(Readiness::READ).ready(), Readiness::READABLE);
    }
}

#[test]
fn panicking_waker_does_not_lose_wakes_of_the_same_source() {
    let bad = std::task::Waker::from(Arc::new(Panics));
    let count = Arc::new(CountingWaker::default());
    let good = std::task::Waker::from(count.clone());
    for shuts_down in [false, true] {
        let poller = poller();
        let (mut mine, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = mine.as_raw_fd();
        mine.set_nonblocking(true).unwrap();
        while mine.write(&[0; 1 << 16]).is_ok() {}
        let interest = Interest::READABLE | Interest::WRITABLE;
        let source = &poller.register(fd, interest).unwrap().source;
        let wait = |waker: &std::task::Waker, direction| {
            source.poll_ready(direction, &mut std::task::Context::from_waker(waker))
        };
        assert!(wait(&bad, Direction::Read).is_pending());
        assert!(wait(&good, Direction::Write).is_pending());
        let waiters: Vec<_> = (0..100).map(|_| Box::pin(Waiter::new())).collect();
        for (number, waiter) in waiters.iter().enumerate() {
            let waker = if number % 30 == 0 { &bad } else { &good };
            let mut cx = std::task::Context::from_waker(waker);
            assert!(source.poll_listed(waiter.as_ref(), Readiness::READ, &mut cx).is_pending());
        }
        if shuts_down {
            poller.shut_down();
        } else {
            drop(theirs);
            poller.poll(NOW);
        }
        assert_eq!(count.0.swap(0, SeqCst), 1 + 96);
        waiters.iter().for_each(|waiter| source.cancel_wait(waiter.as_ref()));
    }
}

/// A waker that counts.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl std::task::Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
