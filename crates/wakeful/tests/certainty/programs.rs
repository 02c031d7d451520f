//! Programs that look stuck and finish.

use super::*;

/// Leaks the value, so that it lives as long as a `static`.
fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub async fn a_guard_moved_to_background_work_after_a_timeout(let_go_tx: Sender<LetGo>) {
    let lock = forever(Mutex::new(0));
    let (let_go, goes) = oneshot::channel::<()>();
    let mut work = Box::pin(async move {
        let mut guard = lock.lock().await;
        goes.await.unwrap();
        *guard += 1;
    });
    assert!(timeout(Duration::ZERO, &mut work).await.is_err());
    let background = wakeful::spawn(work);
    let_go_tx.send(let_go).unwrap();
    assert_eq!(*lock.lock().await, 1);
    background.await.unwrap();
}

pub async fn a_static_guard_moved_into_a_child(let_go_tx: Sender<LetGo>) {
    let lock = forever(Mutex::new(0));
    let (let_go, goes) = oneshot::channel::<()>();
    let mut guard = lock.lock().await;
    wakeful::spawn(async move {
        goes.await.unwrap();
        *guard += 1;
    });
    let_go_tx.send(let_go).unwrap();
    assert_eq!(*lock.lock().await, 1);
}

pub async fn a_static_guard_moved_to_a_thread(let_go_tx: Sender<LetGo>) {
    let lock = forever(Mutex::new(0));
    let (let_go, goes) = oneshot::channel::<()>();
    let mut guard = lock.lock().await;
    thread::spawn(move || {
        goes.blocking_recv().unwrap();
        *guard += 1;
    });
    let_go_tx.send(let_go).unwrap();
    assert_eq!(*lock.lock().await, 1);
}

pub async fn permits_sent_with_jobs(let_go_tx: Sender<LetGo>) {
    let slots = forever(Semaphore::new(1));
    let (jobs, mut queue) = mpsc::channel(1);
    let (let_go, goes) = oneshot::channel::<()>();
    let works = async move {
        while let Some(job) = queue.recv().await {
            let (_slot, goes): (_, oneshot::Receiver<()>) = job;
            let _ = goes.await;
        }
    };
    // A worker of a pool: it is not a child of the task that sends the jobs.
    wakeful::spawn(async move { drop(wakeful::spawn(works)) }).await.unwrap();
    let slot = slots.acquire().await.unwrap();
    jobs.send((slot, goes)).await.unwrap();
    let_go_tx.send(let_go).unwrap();
    let slot = slots.acquire().await.unwrap();
    drop((slot, jobs));
}

pub async fn a_receiver_handed_on(let_go_tx: Sender<LetGo>) {
    let (tx, mut rx) = mpsc::channel(1);
    let (give, given) = oneshot::channel::<mpsc::Receiver<u32>>();
    let (let_go, goes) = oneshot::channel::<()>();
    let drains = wakeful::spawn(async move {
        let mut rx = given.await.unwrap();
        goes.await.unwrap();
        while rx.recv().await.is_some() {}
    });
    let sends = wakeful::spawn(async move {
        for n in 0..3 {
            tx.send(n).await.unwrap();
        }
    });
    let first = wakeful::spawn(async move {
        assert_eq!(rx.recv().await, Some(0));
        give.send(rx).unwrap();
        sends.await.unwrap();
    });
    let_go_tx.send(let_go).unwrap();
    first.await.unwrap();
    drains.await.unwrap();
}

pub async fn a_receiver_handed_to_a_child(let_go_tx: Sender<LetGo>) {
    let (tx, mut rx) = mpsc::channel(1);
    let (let_go, goes) = oneshot::channel::<()>();
    let sends = wakeful::spawn(async move {
        for n in 0..3 {
            tx.send(n).await.unwrap();
        }
    });
    assert_eq!(rx.recv().await, Some(0));
    let drains = wakeful::spawn(async move {
        goes.await.unwrap();
        while rx.recv().await.is_some() {}
    });
    let_go_tx.send(let_go).unwrap();
    sends.await.unwrap();
    drains.await.unwrap();
}

/// What looks like a futurelock: the future that was granted the lock is with another task, which polls it later.
pub async fn a_granted_future_moved_to_another_task(let_go_tx: Sender<LetGo>) {
    let lock = forever(Mutex::new(0));
    let (let_go, goes) = oneshot::channel::<()>();
    let first = lock.lock().await;
    let mut second = Box::pin(lock.lock());
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    wakeful::spawn(async move {
        goes.await.unwrap();
        *second.await += 1;
    });
    let_go_tx.send(let_go).unwrap();
    assert_eq!(*lock.lock().await, 1);
}

pub async fn an_abba_that_its_join_set_aborts(let_go_tx: Sender<LetGo>) {
    let locks = [Arc::new(Mutex::new(())), Arc::new(Mutex::new(()))];
    let mut set = JoinSet::new();
    for nth in [0, 1] {
        let (own, other) = (locks[nth].clone(), locks[1 - nth].clone());
        set.spawn(async move {
            let _own = own.lock().await;
            while other.try_lock().is_ok() {
                yield_now().await;
            }
            drop(other.lock().await);
        });
    }
    let (let_go, goes) = oneshot::channel::<()>();
    let_go_tx.send(let_go).unwrap();
    goes.await.unwrap();
    set.abort_all();
    while let Some(ended) = set.join_next().await {
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
}

/// The task waits for a lock that it holds, and a message can wake it: a dropped `recv()` has left its waker.
pub async fn a_waker_left_with_a_channel(let_go_tx: Sender<LetGo>) {
    let lock = forever(Mutex::new(0));
    let (tx, mut rx) = mpsc::channel(1);
    let (let_go, goes) = oneshot::channel::<()>();
    let sends = wakeful::spawn(async move {
        goes.await.unwrap();
        tx.send(7).await.unwrap();
    });
    let _first = lock.lock().await;
    let mut second = pin!(lock.lock());
    let_go_tx.send(let_go).unwrap();
    let received = poll_fn(|cx| {
        let received = pin!(rx.recv()).poll(cx);
        if received.is_pending() {
            assert!(second.as_mut().poll(cx).is_pending());
        }
        received
    });
    assert_eq!(received.await, Some(7));
    sends.await.unwrap();
}
