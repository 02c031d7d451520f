//! Sets of tasks and futures: `JoinSet`, `join_all`, `FuturesUnordered`, local tasks.

use std::rc::Rc;

use wakeful::inspect::Certainty::Suspected;
use wakeful::sync::{Barrier, Mutex, mpsc};
use wakeful::task::LocalSet;

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// Two local tasks lock two resources in opposite orders.
async fn local_abba(twin: Twin) {
    let [a, b] = [Rc::new(Mutex::new(1)), Rc::new(Mutex::new(2))];
    let both = Rc::new(Barrier::new(2));
    let set = LocalSet::new();
    for (first, second) in [(&a, &b), (&b, &a)] {
        let (first, second) = if is_buggy(twin) { (first, second) } else { (&a, &b) };
        let (first, second, both) = (first.clone(), second.clone(), both.clone());
        set.spawn_local(async move {
            let _first = first.lock().await; //@ has
            if is_buggy(twin) {
                both.wait().await;
            }
            let _second = second.lock().await; //@ wants
        });
    }
    set.await;
}

/// A task joins a task that joins it, through a channel of handles.
async fn a_circle_of_joins(twin: Twin) {
    let (give, mut given) = mpsc::channel::<wakeful::task::JoinHandle<()>>(1);
    let first = named("first", async move {
        if let Some(second) = given.recv().await {
            second.await.unwrap();
        }
    });
    let second = named("second", async move {
        if is_buggy(twin) {
            first.await.unwrap();
        }
    });
    give.send(second).await.unwrap();
    let _ = give.closed().await;
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(local_abba).reports("deadlock", Suspected).says("@has").says("Mutex::lock at @wants"),
        bug!(a_circle_of_joins)
            .reports("deadlock", super::PROVEN)
            .says("\"first\"")
            .says("\"second\""),
    ]
}
