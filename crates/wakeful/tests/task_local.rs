//! `task_local!`: the visible value across polls, drops, panics and threads. No runtime needed.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::executor::block_on;
use wakeful::task::LocalKey;
use wakeful::task::futures::TaskLocalFuture;

mod support {
    pub mod panic_site;
}
use support::panic_site::panic_site;

const UNSET: &str = "cannot access a task-local storage value without setting it first";
const BORROWED: &str = "cannot enter a task-local scope while the task-local storage is borrowed";

wakeful::task_local! {
    /// Documented, public, with a semicolon after it.
    pub static ID: u32;
    static NAME: String;
    static LAST: Rc<Cell<u32>>
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Pending once, then ready.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|_| if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending })
        .await
}

#[test]
fn a_value_is_there_only_while_its_future_is_polled() {
    let mut first = pin!(ID.scope(1, async {
        assert_eq!(ID.get(), 1);
        yield_once().await;
        ID.get()
    }));
    let mut second = pin!(ID.scope(2, async {
        yield_once().await;
        ID.get()
    }));
    assert!(ID.try_get().is_err());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(ID.try_get().is_err(), "between polls the value is not set");
    assert_eq!(poll_once(first.as_mut()), Poll::Ready(1));
    assert_eq!(poll_once(second.as_mut()), Poll::Ready(2));
    assert!(ID.try_get().is_err());
}

#[test]
fn scopes_nest_and_keys_are_independent() {
    block_on(ID.scope(1, async {
        NAME.scope("outer".into(), async {
            ID.scope(2, async {
                assert_eq!((ID.get(), NAME.get()), (2, "outer".into()));
                yield_once_and_continue().await;
                assert_eq!(ID.get(), 2);
            })
            .await;
            assert_eq!(ID.get(), 1);
            assert_eq!(ID.sync_scope(3, || ID.sync_scope(4, || ID.get()) + ID.get()), 7);
            assert_eq!(ID.get(), 1);
        })
        .await;
        assert!(NAME.try_with(|_| ()).is_err());
    }));

    async fn yield_once_and_continue() {
        let mut yielded = false;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }
}

#[test]
fn a_task_takes_its_value_to_another_thread() {
    let mut future = Box::pin(ID.scope(5, async {
        let before = ID.get();
        yield_once().await;
        (before, ID.get())
    }));
    assert!(poll_once(future.as_mut()).is_pending());
    let there = thread::spawn(move || {
        let seen = poll_once(future.as_mut());
        (seen, ID.try_get().is_err())
    });
    assert_eq!(there.join().unwrap(), (Poll::Ready((5, 5)), true));
}

/// Notes what the key says while it is dropped.
struct SeesOnDrop {
    seen: Rc<RefCell<Vec<Option<u32>>>>,
    ready: bool,
}

impl Future for SeesOnDrop {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.ready { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for SeesOnDrop {
    fn drop(&mut self) {
        self.seen.borrow_mut().push(ID.try_get().ok());
    }
}

#[test]
fn the_value_is_there_while_the_future_is_dropped() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let future = |ready| SeesOnDrop { seen: seen.clone(), ready };

    let mut done = Box::pin(ID.scope(1, future(true)));
    assert!(poll_once(done.as_mut()).is_ready());
    assert_eq!(seen.take(), [Some(1)], "dropped as soon as it has finished");
    drop(done);
    assert_eq!(seen.take(), []);

    let mut cancelled = Box::pin(ID.scope(2, future(false)));
    assert!(poll_once(cancelled.as_mut()).is_pending());
    ID.sync_scope(9, || {
        drop(cancelled);
        assert_eq!(ID.get(), 9);
    });
    assert_eq!(seen.take(), [Some(2)]);

    drop(ID.scope(3, future(false)));
    assert_eq!(seen.take(), [Some(3)], "also if it was never polled");
}

#[test]
fn a_future_dropped_where_the_scope_cannot_be_entered_is_still_dropped() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let inner = ID.scope(2, SeesOnDrop { seen: seen.clone(), ready: false });
    ID.sync_scope(1, || ID.with(|_| drop(inner)));
    assert_eq!(seen.take(), [Some(1)]);
}

#[test]
fn a_panic_restores_the_value_around() {
    let mut poisoned = Box::pin(ID.scope(2, async {
        if true {
            panic!("in the scope");
        }
    }));
    ID.sync_scope(1, || {
        let site = panic_site(AssertUnwindSafe(|| poll_once(poisoned.as_mut())));
        assert_eq!(site.message, "in the scope");
        assert_eq!(ID.get(), 1);

        let site = panic_site(|| ID.sync_scope(3, || panic!("in the call")));
        assert_eq!(site.message, "in the call");
        assert_eq!(ID.get(), 1);

        let in_with = catch_unwind(|| ID.with(|_| std::panic::resume_unwind(Box::new(()))));
        assert!(in_with.is_err());
        assert_eq!(ID.sync_scope(4, || ID.get()), 4, "the borrow has ended with the panic");
    });
    assert!(ID.try_get().is_err());
}

#[test]
fn panics_are_at_the_callers_line() {
    let site = panic_site(|| ID.with(|_| ()));
    assert_eq!((&*site.file, site.line, &*site.message), (file!(), line!() - 1, UNSET));

    let site = panic_site(|| ID.get());
    assert_eq!((&*site.file, site.line, &*site.message), (file!(), line!() - 1, UNSET));

    let site = panic_site(|| {
        ID.sync_scope(1, || ID.with(|_| ID.sync_scope(2, || ())));
    });
    assert_eq!((&*site.file, site.line, &*site.message), (file!(), line!() - 2, BORROWED));
}

#[test]
fn polling_inside_with_panics_and_leaves_everything_as_it_was() {
    let mut inner = Box::pin(ID.scope(2, async { ID.get() }));
    ID.sync_scope(1, || {
        let site = panic_site(AssertUnwindSafe(|| ID.with(|_| poll_once(inner.as_mut()))));
        assert_eq!(site.message, BORROWED);
        assert_eq!(ID.get(), 1);
    });
    assert_eq!(poll_once(inner.as_mut()), Poll::Ready(2), "another task can poll the future");
}

#[test]
fn polling_after_the_end_panics() {
    let mut done = Box::pin(ID.scope(1, async {}));
    assert!(poll_once(done.as_mut()).is_ready());
    let site = panic_site(AssertUnwindSafe(|| poll_once(done.as_mut())));
    assert_eq!(site.message, "`TaskLocalFuture` polled after completion");
}

#[test]
fn the_value_can_be_taken_before_and_after() {
    let mut future = Box::pin(NAME.scope("mine".into(), async { NAME.try_get().is_err() }));
    assert_eq!(future.as_mut().take_value().as_deref(), Some("mine"));
    assert_eq!(future.as_mut().take_value(), None);
    assert_eq!(poll_once(future.as_mut()), Poll::Ready(true), "the key has no value then");

    let count = Rc::new(Cell::new(1));
    let mut future = Box::pin(LAST.scope(count.clone(), async { LAST.with(|count| count.set(2)) }));
    assert!(poll_once(future.as_mut()).is_ready());
    assert_eq!(Rc::strong_count(&count), 2);
    assert_eq!(future.as_mut().take_value().map(|count| count.get()), Some(2));
    assert_eq!(Rc::strong_count(&count), 1);
}

#[test]
fn the_value_is_dropped_with_the_scope() {
    let count = Rc::new(Cell::new(0));
    let mut future = Box::pin(LAST.scope(count.clone(), pending::<()>()));
    assert!(poll_once(future.as_mut()).is_pending());
    drop(future);
    assert_eq!(Rc::strong_count(&count), 1);
    LAST.sync_scope(count.clone(), || assert_eq!(Rc::strong_count(&count), 2));
    assert_eq!(Rc::strong_count(&count), 1);
}

#[test]
fn a_key_works_in_the_destructor_of_another_thread_local() {
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            // Whether the slot is still there is up to the order of destructors; neither may abort the process.
            let _ = NAME.try_with(|_| ());
            let _ = catch_unwind(|| NAME.sync_scope(String::new(), || ()));
        }
    }
    thread_local!(static AT_EXIT: AtExit = const { AtExit });
    thread::spawn(|| {
        AT_EXIT.with(|_| NAME.sync_scope("x".into(), || ()));
    })
    .join()
    .unwrap();
}

#[test]
fn errors_and_debug_say_what_they_are() {
    let error = ID.try_get().unwrap_err();
    assert_eq!(error.to_string(), "task-local value not set");
    assert_eq!(format!("{error:?}"), "AccessError");
    assert_eq!(format!("{ID:?}"), "LocalKey { .. }");

    let mut future = Box::pin(ID.scope(3, async {}));
    assert_eq!(format!("{future:?}"), "TaskLocalFuture { value: 3 }");
    future.as_mut().take_value();
    assert_eq!(format!("{future:?}"), "TaskLocalFuture { value: <missing> }");
}

#[test]
fn auto_traits() {
    fn send_sync<T: Send + Sync>() {}
    send_sync::<LocalKey<Rc<u8>>>();
    send_sync::<TaskLocalFuture<u8, ()>>();
    fn is_error<E: std::error::Error + Send + Sync + Copy + Eq>(_: E) {}
    is_error(ID.try_get().unwrap_err());
}
