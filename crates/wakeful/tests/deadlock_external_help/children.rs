//! Help that comes from a child of the task: a permit, a receiver, an abort.

use std::sync::Arc;
use std::sync::mpsc::{Sender as LetGoSender, channel};

use super::{LIMIT, build, builders, found_while};
use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Handle};
use wakeful::sync::{Mutex, Semaphore, mpsc, oneshot};
use wakeful::task::yield_now;

/// The `block_on` future moves a permit or guard to a task that it spawns, and waits for another. No report is made.
fn nothing_is_found_of_a_child<F>(waits: impl Fn(LetGoSender<oneshot::Sender<()>>) -> F)
where
    F: Future<Output = ()>,
{
    for mut builder in builders() {
        let (tx, rx) = channel();
        let found = found_while(&build(&mut builder), waits(tx), rx, drop::<oneshot::Sender<()>>);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_permit_that_a_child_has() {
    nothing_is_found_of_a_child(|let_go_tx| async move {
        let seats: &'static Semaphore = Box::leak(Box::new(Semaphore::new(1)));
        let seat = seats.acquire().await.unwrap();
        let (let_go, goes) = oneshot::channel();
        wakeful::spawn(async move {
            let _ = goes.await;
            drop(seat);
        });
        let_go_tx.send(let_go).unwrap();
        drop(seats.acquire().await.unwrap());
    });
}

#[test]
fn a_receiver_that_a_child_has() {
    nothing_is_found_of_a_child(|let_go_tx| async move {
        let (tx, mut rx) = mpsc::channel(1);
        tx.send(1).await.unwrap();
        assert_eq!(rx.recv().await, Some(1));
        let (let_go, goes) = oneshot::channel();
        let consumer = wakeful::spawn(async move {
            let _ = goes.await;
            while rx.recv().await.is_some() {}
        });
        let producer = wakeful::spawn(async move {
            for n in 0..3 {
                tx.send(n).await.unwrap();
            }
        });
        let_go_tx.send(let_go).unwrap();
        producer.await.unwrap();
        consumer.await.unwrap();
    });
}

/// Two locks in opposite orders are a deadlock although one of the tasks has a child that goes on.
#[test]
fn a_child_that_goes_on_hides_no_cycle_of_locks() {
    let rt = build(&mut Builder::new_current_thread());
    let found = rt.block_on(async {
        let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let other = (b.clone(), a.clone());
        let takes = |first: Arc<Mutex<()>>, second: Arc<Mutex<()>>, has_child: bool| {
            wakeful::spawn(async move {
                let _first = first.lock().await;
                if has_child {
                    wakeful::spawn(wakeful::time::sleep(LIMIT));
                }
                yield_now().await;
                drop(second.lock().await);
            })
        };
        let _both = (takes(a, b, true), takes(other.0, other.1, false));
        loop {
            let found = Handle::current().diagnose();
            if !found.is_empty() {
                return found;
            }
            yield_now().await;
        }
    });
    assert!(matches!(&*found, [Report::Deadlock(_)]), "{found:?}");
}
