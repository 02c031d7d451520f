//! Tasks of one site that only become more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{SECOND, diagnose, hasty, paused};
use crate::settle::settle;
use wakeful::inspect::{GrowingTasks, Report};
use wakeful::net::UnixDatagram;
use wakeful::runtime::Handle;
use wakeful::sync::Notify;
use wakeful::task::{self, yield_now};
use wakeful::time::advance;

const SPAWN_LINE: u32 = line!() + 7;

/// Spawns tasks that wait for a notification each.
async fn spawn_waiting(count: usize, notify: &Arc<Notify>) {
    let polled = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let (notify, polled) = (notify.clone(), polled.clone());
        wakeful::spawn(async move {
            polled.fetch_add(1, Relaxed);
            loop {
                notify.notified().await;
            }
        });
    }
    while polled.load(Relaxed) < count {
        yield_now().await;
    }
}

fn check_growing(found: &GrowingTasks) {
    let text = found.to_string();
    assert_eq!(
        (found.spawned_at().file(), found.spawned_at().line()),
        (file!(), SPAWN_LINE),
        "{text}"
    );
    assert_eq!(found.kind(), Some("Notify::notified"), "{text}");
    assert!(found.alive() >= found.alive_before() * 3 / 2, "{text}");
    assert!(text.starts_with("growing tasks (suspected): "), "{text}");
}

#[test]
fn tasks_that_only_become_more() {
    paused().block_on(async {
        let notify = Arc::new(Notify::new());
        let mut found = Vec::new();
        spawn_waiting(1000, &notify).await;
        for _ in 0..4 {
            assert_eq!(format!("{found:?}"), "[]");
            found = diagnose();
            spawn_waiting(200, &notify).await;
            advance(3 * SECOND).await;
        }
        let found = only!(diagnose(), GrowingTasks);
        check_growing(&found);
        let numbers = (found.alive(), found.alive_before(), found.unmoved(), found.within());
        assert_eq!(numbers, (1800, 1000, 1000, 12 * SECOND), "{found}");
    });
    let (rt, _told) = hasty();
    rt.block_on(async {
        let notify = Arc::new(Notify::new());
        spawn_waiting(1000, &notify).await;
        // The watchdog takes samples too, and may begin its watch while tasks are spawned.
        let found = loop {
            let found = diagnose();
            if !found.is_empty() {
                break found;
            }
            let more = Handle::current().metrics().num_alive_tasks() / 2;
            assert!(more < 1_000_000, "never reported");
            spawn_waiting(more, &notify).await;
        };
        check_growing(&only!(found, GrowingTasks));
    });
}

/// A burst that ends, tasks that run from time to time, and tasks that wait on purpose are no leak.
#[test]
fn tasks_that_are_many_and_no_leak() {
    paused().block_on(async {
        let notify = Arc::new(Notify::new());
        spawn_waiting(1500, &notify).await;
        for _ in 0..5 {
            assert_eq!(format!("{:?}", diagnose()), "[]", "a burst");
            advance(3 * SECOND).await;
        }
        for _ in 0..5 {
            assert_eq!(format!("{:?}", diagnose()), "[]", "they run");
            spawn_waiting(1000, &notify).await;
            advance(3 * SECOND).await;
            notify.notify_waiters();
            yield_now().await;
        }
    });
    paused().block_on(async {
        let notify = Arc::new(Notify::new());
        for _ in 0..5 {
            for _ in 0..1000 {
                let notify = notify.clone();
                let wait = async move { notify.notified().await };
                task::Builder::new().forever().spawn(wait).unwrap();
            }
            yield_now().await;
            assert_eq!(format!("{:?}", diagnose()), "[]", "they are meant to wait");
            advance(3 * SECOND).await;
        }
    });
    paused().block_on(async {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        let socket = Arc::new(socket);
        for _ in 0..6 {
            for _ in 0..1000 {
                let socket = socket.clone();
                wakeful::spawn(async move { socket.recv(&mut [0]).await });
            }
            settle().await;
            assert_eq!(format!("{:?}", diagnose()), "[]", "they wait for a peer");
            advance(3 * SECOND).await;
        }
    });
}
