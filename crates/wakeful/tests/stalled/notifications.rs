//! Notifications that came before the task listened.

use std::sync::Arc;

use super::{Clock, hasty, named, paused};
use crate::settle::settle;
use wakeful::sync::{Notify, oneshot};

#[test]
fn a_lost_notification() {
    on_both!(async |clock: Clock| {
        let ready = Arc::new(Notify::new());
        ready.notify_waiters();
        let own = ready.clone();
        let waiter = named("waiter", async move { own.notified().await });
        let found = clock.only().await;
        let text = "notify_waiters was called once, before that, when no task waited";
        assert!(found.kind() == "Notify::notified" && found.to_string().contains(text), "{found}");
        ready.notify_waiters();
        waiter.await.unwrap();
        let own = ready.clone();
        let _again = named("again", async move { own.notified().await });
        clock.none().await;
    });
}

/// Tasks that were woken wait for the next time.
#[test]
fn a_periodic_notification_is_not_reported() {
    on_both!(async |clock: Clock| {
        let reload = Arc::new(Notify::new());
        let listen = || {
            let reload = reload.clone();
            named("listener", async move {
                loop {
                    reload.notified().await;
                }
            })
        };
        let _first = listen();
        settle().await;
        reload.notify_waiters();
        reload.notify_waiters();
        let _second = listen();
        clock.none().await;
    });
}

/// A condition variable: every change is announced, whether a task waits or not.
#[test]
fn a_condition_that_is_announced_each_time_is_not_reported() {
    on_both!(async |clock: Clock| {
        let changed = Arc::new(Notify::new());
        changed.notify_waiters();
        changed.notify_waiters();
        named("waiter", async move { changed.notified().await });
        clock.none().await;
    });
}

/// A future that was made before the call is notified, although no task waited.
#[test]
fn a_notification_that_was_expected_is_not_reported() {
    on_both!(async |clock: Clock| {
        let ready = Arc::new(Notify::new());
        let own = ready.clone();
        let (made, was_made) = oneshot::channel();
        let (tx, rx) = oneshot::channel::<()>();
        named("listener", async move {
            let first = own.notified();
            made.send(()).unwrap();
            rx.await.unwrap();
            first.await;
            own.notified().await;
        });
        was_made.await.unwrap();
        ready.notify_waiters();
        tx.send(()).unwrap();
        clock.none().await;
    });
}

#[test]
fn a_notification_that_never_came_is_not_reported() {
    on_both!(async |clock: Clock| {
        let shutdown = Arc::new(Notify::new());
        shutdown.notify_one();
        let own = shutdown.clone();
        named("task", async move {
            own.notified().await;
            own.notified().await;
        });
        clock.none().await;
    });
}
