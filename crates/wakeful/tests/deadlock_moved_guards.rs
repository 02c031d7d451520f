//! Guards, permits and receivers that went to another task or thread: whoever got them and waits for more is not taken to
//! wait for itself.

use std::sync::Arc;
use std::sync::mpsc::{Receiver as Release, Sender as HolderKind, channel};
use std::thread;
use std::time::Duration;

use wakeful::inspect::{Report, TaskState};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, RwLock, Semaphore, mpsc};
use wakeful::task::yield_now;
use wakeful::time::timeout;

/// Nothing here takes as long.
const LIMIT: Duration = Duration::from_secs(60);

fn runtimes() -> Vec<(Runtime, Release<Report>)> {
    let told = |builder: &mut Builder| {
        let (tell, told) = channel();
        let hook = move |report: &Report| drop(tell.send(report.clone()));
        (builder.enable_time().root_name("root").on_report(hook).build().unwrap(), told)
    };
    vec![
        told(&mut Builder::new_current_thread()),
        told(Builder::new_multi_thread().worker_threads(2)),
    ]
}

/// Something that a thread keeps until it is told to let it go.
fn give_to_thread<T: Send + 'static>(thing: T) -> HolderKind<()> {
    let (let_go, told) = channel::<()>();
    thread::spawn(move || {
        let _ = told.recv();
        drop(thing);
    });
    let_go
}

/// Runs `waits`, which tells what to let go of before it waits for it; when it waits, nobody is found to be stuck.
fn nobody_is_stuck<F>(waits: impl Fn(HolderKind<HolderKind<()>>) -> F)
where
    F: Future<Output = ()>,
{
    for (rt, told) in runtimes() {
        let (tell, let_go) = channel();
        let handle = rt.handle().clone();
        let looks = thread::spawn(move || {
            let let_go: HolderKind<()> = let_go.recv().unwrap();
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
        rt.block_on(waits(tell));
        let (found, dump) = looks.join().unwrap();
        assert!(found.is_empty(), "{found:?}\n{dump}");
        let wait = dump.find_named("root").and_then(|root| root.waiting_on());
        if let Some(holder) = wait.and_then(|wait| wait.holders().first()) {
            assert!(holder.may_have_moved(), "{dump}");
        }
        assert!(told.try_recv().is_err());
    }
}

#[test]
fn a_permit_that_went_to_a_thread() {
    nobody_is_stuck(|tell| async move {
        let seats = Arc::new(Semaphore::new(1));
        let seat = seats.clone().acquire_owned().await.unwrap();
        tell.send(give_to_thread(seat)).unwrap();
        drop(seats.acquire().await.unwrap());
    });
}

#[test]
fn a_guard_that_went_to_a_thread() {
    nobody_is_stuck(|tell| async move {
        let lock = Arc::new(Mutex::new(()));
        let guard = lock.clone().lock_owned().await;
        tell.send(give_to_thread(guard)).unwrap();
        drop(lock.lock().await);
    });
}

#[test]
fn shared_access_that_went_to_a_thread() {
    nobody_is_stuck(|tell| async move {
        let lock = Arc::new(RwLock::new(()));
        let guard = lock.clone().read_owned().await;
        tell.send(give_to_thread(guard)).unwrap();
        drop(lock.write().await);
    });
}

#[test]
fn a_lock_that_was_waited_for_before_somebody_owned_its_guard() {
    nobody_is_stuck(|tell| async move {
        let lock = Arc::new(Mutex::new(()));
        // A plate is made for those who wait here.
        let first = lock.lock().await;
        let mut second = Box::pin(lock.clone().lock_owned());
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        tell.send(give_to_thread(second.await)).unwrap();
        drop(lock.lock().await);
    });
}

#[test]
fn a_receiver_that_went_to_a_thread() {
    nobody_is_stuck(|tell| async move {
        let (tx, mut rx) = mpsc::channel(1);
        // It waits for a message once, and then others are to receive.
        let mut recv = Box::pin(rx.recv());
        assert!(futures::poll!(&mut recv).is_pending());
        drop(recv);
        tx.send(1).await.unwrap();
        tell.send(give_to_thread(rx)).unwrap();
        assert!(tx.send(2).await.is_err(), "the receiver is dropped");
    });
}

#[test]
fn tasks_whose_messages_were_there_at_once_can_be_in_a_circle() {
    for (rt, _told) in runtimes() {
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
