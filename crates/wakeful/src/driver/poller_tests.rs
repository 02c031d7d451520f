//! A poller alone, with pipes of the system.

use super::super::source::Readiness;
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
