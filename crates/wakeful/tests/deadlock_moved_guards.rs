//! Guards, permits and receivers that moved to another task or thread: no task is reported as waiting for itself.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use wakeful::inspect::{Report, TaskState};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, RwLock, Semaphore, mpsc};
use wakeful::task::yield_now;
use wakeful::time::timeout;

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(600);

fn runtimes() -> Vec<(Runtime, Receiver<Report>)> {
    let with_reports = |builder: &mut Builder| {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        (builder.enable_time().block_on_name("root").on_report(hook).build().unwrap(), rx)
    };
    vec![
        with_reports(&mut Builder::new_current_thread()),
        with_reports(Builder::new_multi_thread().worker_threads(2)),
    ]
}

/// Moves a value to a new thread, which drops it on a message.
fn give_to_thread<T: Send + 'static>(value: T) -> Sender<()> {
    let (let_go, rx) = channel::<()>();
    thread::spawn(move || {
        let _ = rx.recv();
        drop(value);
    });
    let_go
}

/// Runs `waits`, which sends the means to release its resource and then waits for it. Asserts that no task is
/// reported as stuck meanwhile.
fn assert_not_stuck<F>(waits: impl Fn(Sender<Sender<()>>) -> F)
where
    F: Future<Output = ()>,
{
    for (rt, reports) in runtimes() {
        let (let_go_tx, let_go) = channel();
        let handle = rt.handle().clone();
        let looks = thread::spawn(move || {
            let let_go: Sender<()> = let_go.recv().unwrap();
            let waits = |handle: &Handle| {
                let dump = handle.dump();
                dump.find_named("root").is_some_and(|root| {
                    root.state() == TaskState::Waiting && root.waiting_on().is_some()
                })
            };
            while !waits(&handle) {
                thread::yield_now();
            }
            let found = handle.diagnose();
            let dump = handle.dump();
            drop(let_go);
            (found, dump)
        });
        rt.block_on(waits(let_go_tx));
        let (found, dump) = looks.join().unwrap();
        assert!(found.is_empty(), "{found:?}\n{dump}");
        let wait = dump.find_named("root").and_then(|root| root.waiting_on());
        if let Some(holder) = wait.and_then(|wait| wait.holders().first()) {
            assert!(holder.may_have_moved(), "{dump}");
        }
        assert!(reports.try_recv().is_err());
    }
}

#[test]
fn a_permit_that_went_to_a_thread() {
    assert_not_stuck(|let_go_tx| async move {
        let seats = Arc::new(Semaphore::new(1));
        let seat = seats.clone().acquire_owned().await.unwrap();
        let_go_tx.send(give_to_thread(seat)).unwrap();
        drop(seats.acquire().await.unwrap());
    });
}

#[test]
fn a_guard_that_went_to_a_thread() {
    assert_not_stuck(|let_go_tx| async move {
        let lock = Arc::new(Mutex::new(()));
        let guard = lock.clone().lock_owned().await;
        let_go_tx.send(give_to_thread(guard)).unwrap();
        drop(lock.lock().await);
    });
}

#[test]
fn shared_access_that_went_to_a_thread() {
    assert_not_stuck(|let_go_tx| async move {
        let lock = Arc::new(RwLock::new(()));
        let guard = lock.clone().read_owned().await;
        let_go_tx.send(give_to_thread(guard)).unwrap();
        drop(lock.write().await);
    });
}

#[test]
fn an_owned_guard_that_was_granted_after_a_wait() {
    assert_not_stuck(|let_go_tx| async move {
        let lock = Arc::new(Mutex::new(()));
        // The first wait creates a resource record.
        let first = lock.lock().await;
        let mut second = Box::pin(lock.clone().lock_owned());
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        let_go_tx.send(give_to_thread(second.await)).unwrap();
        drop(lock.lock().await);
    });
}

#[test]
fn a_receiver_that_went_to_a_thread() {
    assert_not_stuck(|let_go_tx| async move {
        let (tx, mut rx) = mpsc::channel(1);
        // It waits for a message once, and then others are to receive.
        let mut recv = Box::pin(rx.recv());
        assert!(futures::poll!(&mut recv).is_pending());
        drop(recv);
        tx.send(1).await.unwrap();
        let_go_tx.send(give_to_thread(rx)).unwrap();
        assert!(tx.send(2).await.is_err(), "the receiver is dropped");
    });
}

#[test]
fn tasks_whose_messages_were_there_at_once_can_be_in_a_cycle() {
    for (rt, _reports) in runtimes() {
        let named = |name| wakeful::task::Builder::new().name(name);
        let (to_a, of_a) = mpsc::channel(1);
        let (to_b, of_b) = mpsc::channel(1);
        to_a.try_send(0).unwrap();
        to_b.try_send(0).unwrap();
        let sends_on = |to: mpsc::Sender<u32>, mut of: mpsc::Receiver<u32>| async move {
            while let Some(n) = of.recv().await {
                // Twice as many go out as come in.
                to.send(n).await.unwrap();
                to.send(n).await.unwrap();
            }
        };
        rt.block_on(async {
            let a = named("a").spawn(sends_on(to_b, of_a)).unwrap();
            let b = named("b").spawn(sends_on(to_a, of_b)).unwrap();
            let looks = async {
                loop {
                    let found = Handle::current().diagnose();
                    if !found.is_empty() {
                        break found;
                    }
                    yield_now().await;
                }
            };
            let found = timeout(LIMIT, looks).await.expect("it is found");
            let [Report::Deadlock(deadlock)] = &found[..] else { panic!("{found:?}") };
            assert_eq!(deadlock.edges().len(), 2);
            drop((a, b));
        });
        rt.shutdown_background();
    }
}
