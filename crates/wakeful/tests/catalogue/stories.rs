//! Bugs of many tasks, of panics, of futures written by hand, and of the end of a runtime.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use wakeful::inspect::Certainty::{Proven, Suspected};
use wakeful::runtime::Runtime;
use wakeful::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};
use wakeful::task::{JoinSet, spawn_blocking, yield_now};
use wakeful::time::{sleep, timeout};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A lock is held while a slow upstream is awaited, and requests pile up.
async fn a_lock_held_for_long(twin: Twin) {
    let cache = Arc::new(Mutex::new(0));
    let (has, had) = oneshot::channel();
    let other = cache.clone();
    let refresh = named("refresh", async move {
        let guard = other.lock().await; //@ has
        has.send(()).unwrap();
        let slow = if is_buggy(twin) { Duration::from_secs(600) } else { Duration::ZERO };
        sleep(slow).await; //@ waits
        drop(guard);
    });
    had.await.unwrap();
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let cache = cache.clone();
            named("request", async move { *cache.lock().await += 1 }) //@ wants
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    refresh.await.unwrap();
}

/// A client keeps the lock of its state while it asks an actor, which needs the state to answer.
async fn a_lock_over_a_reply(twin: Twin) {
    let state = Arc::new(Mutex::new(1));
    let (requests, mut inbox) = mpsc::channel::<oneshot::Sender<i32>>(4);
    let shared = state.clone();
    let actor = named("actor", async move {
        while let Some(reply) = inbox.recv().await {
            let _ = reply.send(*shared.lock().await); //@ wants
        }
    });
    let shared = state.clone();
    let client = named("client", async move {
        let guard = shared.lock().await; //@ has
        let (reply, answer) = oneshot::channel(); //@ waits
        requests.send(reply).await.unwrap();
        if !is_buggy(twin) {
            drop(guard);
        }
        let before = answer.await.unwrap();
        *shared.lock().await += before;
    });
    // Until the client has the lock, or has ended.
    while Arc::strong_count(&state) == 3 && state.try_lock().is_ok() {
        yield_now().await;
    }
    let third = named("third", async move { *state.lock().await += 1 });
    let _ = wakeful::join!(client, third, actor);
}

/// A permit is held while a slow upstream is awaited.
async fn a_permit_held_for_long(twin: Twin) {
    let slots = Arc::new(Semaphore::new(1));
    let (has, had) = oneshot::channel();
    let other = slots.clone();
    let slow = named("slow", async move {
        let permit = other.acquire().await.unwrap(); //@ has
        has.send(()).unwrap();
        let slow = if is_buggy(twin) { Duration::from_secs(600) } else { Duration::ZERO };
        sleep(slow).await; //@ waits
        drop(permit);
    });
    had.await.unwrap();
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let slots = slots.clone();
            named("request", async move { drop(slots.acquire().await) }) //@ wants
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    slow.await.unwrap();
}

/// Each request leaves a task behind that waits for a notification that never comes.
async fn tasks_that_only_grow(twin: Twin) {
    let closed = Arc::new(Notify::new());
    for n in 0.. {
        let closed = closed.clone();
        let watcher = named("watcher", async move { closed.notified().await }); //@ spawned
        match is_buggy(twin) {
            true => sleep(Duration::from_millis(1)).await,
            false => watcher.abort(),
        }
        if !is_buggy(twin) && n == 100 {
            break;
        }
    }
}

/// A background task panics, and its handle is kept in a field and never awaited.
async fn a_panic_with_a_kept_handle(twin: Twin) {
    let worker = named("worker", async move {
        //@ spawned
        yield_now().await;
        assert!(!is_buggy(twin), "the ledger is not balanced");
    });
    while !worker.is_finished() {
        sleep(Duration::from_millis(1)).await;
    }
    match is_buggy(twin) {
        true => sleep(Duration::from_secs(600)).await,
        false => worker.await.unwrap(),
    }
}

/// A panic in a set that is detached.
async fn a_panic_in_a_detached_set(twin: Twin) {
    let mut set = JoinSet::new();
    set.spawn(async move {
        //@ spawned
        yield_now().await;
        assert!(!is_buggy(twin), "the index is empty");
    });
    set.detach_all();
    for _ in 0..100 {
        yield_now().await;
    }
}

/// A future written by hand that keeps the waker in a field which a time-out drops.
async fn a_waker_in_a_dropped_field(twin: Twin) {
    let slot = Arc::new(StdMutex::new(None::<Waker>));
    let stored = slot.clone();
    let mut polls = 0;
    let device = named("device", async move {
        //@ spawned
        poll_fn(move |cx| {
            polls += 1;
            if polls > 1 {
                return Poll::Ready(());
            }
            *stored.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    });
    while slot.lock().unwrap().is_none() {
        yield_now().await;
    }
    let waker = slot.lock().unwrap().take();
    match is_buggy(twin) {
        true => drop(waker),
        false => waker.into_iter().for_each(Waker::wake),
    }
    device.await.unwrap();
}

/// A hand-written combinator polls its inner future with a waker that does nothing.
async fn a_combinator_without_a_waker(twin: Twin) {
    let ready = Arc::new(Notify::new());
    let bell = ready.clone();
    let count = Arc::new(AtomicU32::new(0));
    let polls = count.clone();
    let combined = named("combined", async move {
        //@ spawned
        let mut inner = Box::pin(async move { bell.notified().await });
        poll_fn(|cx| {
            let polled = match is_buggy(twin) {
                true => inner.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())),
                false => inner.as_mut().poll(cx),
            };
            polls.fetch_add(1, Relaxed);
            polled
        })
        .await;
    });
    while count.load(Relaxed) == 0 {
        yield_now().await;
    }
    ready.notify_one();
    combined.await.unwrap();
}

/// A future returns `Pending` when its buffer is empty, and keeps nothing.
async fn a_stream_that_forgets(twin: Twin) {
    let items = Arc::new(StdMutex::new((Vec::<u32>::new(), None::<Waker>)));
    let queue = items.clone();
    let count = Arc::new(AtomicU32::new(0));
    let polls = count.clone();
    let popper = named("popper", async move {
        //@ spawned
        poll_fn(|cx| {
            let mut queue = queue.lock().unwrap();
            polls.fetch_add(1, Relaxed);
            if !is_buggy(twin) {
                queue.1 = Some(cx.waker().clone());
            }
            queue.0.pop().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    });
    while count.load(Relaxed) == 0 {
        yield_now().await;
    }
    let waker = {
        let mut items = items.lock().unwrap();
        items.0.push(1);
        items.1.take()
    };
    waker.into_iter().for_each(Waker::wake);
    popper.await.unwrap();
}

/// A time-out gives up on a closure, which runs on.
async fn a_closure_after_its_timeout(twin: Twin) {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = oneshot::channel();
    let closure = spawn_blocking(move || {
        //@ spawned
        begin.send(()).unwrap();
        stopped.recv().is_err()
    });
    begun.await.unwrap();
    let closure = match is_buggy(twin) {
        true => {
            closure.abort();
            closure
        }
        false => {
            drop(stop);
            assert!(closure.await.unwrap());
            return;
        }
    };
    let _ = timeout(Duration::from_millis(10), closure).await;
    sleep(Duration::from_secs(600)).await;
    drop(stop);
}

/// A future that was cancelled in `select!` still has the lock granted to it.
async fn a_futurelock_in_a_loop(twin: Twin) {
    let lock = Arc::new(Mutex::new(0));
    let guard = lock.clone().lock_owned().await;
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    let other = lock.clone();
    let impatient = named("impatient", async move {
        let mut write = Box::pin(async { *other.lock().await += 1 }); //@ granted
        wakeful::select! {
            biased;
            () = &mut write => {}
            Some(_) = rx.recv() => {
                if !is_buggy(twin) {
                    (&mut write).await;
                }
                *other.lock().await += 1; //@ wants
            }
        }
    });
    tx.send(1).await.unwrap();
    while tx.capacity() == 0 {
        yield_now().await;
    }
    drop(guard);
    impatient.await.unwrap();
}

/// A program ends while a task that panicked was never awaited.
fn a_panic_before_the_end(twin: Twin, rt: Runtime) {
    let saved = rt.spawn(async move {
        //@ spawned
        assert!(!is_buggy(twin), "the disk is full");
    });
    rt.block_on(async {
        while !saved.is_finished() {
            yield_now().await;
        }
        match is_buggy(twin) {
            true => drop(saved),
            false => saved.await.unwrap(),
        }
    });
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(a_panic_before_the_end, with a runtime)
            .reports("unobserved_panic", Proven)
            .says("@spawned")
            .says("the disk is full"),
        bug!(a_panic_in_a_detached_set)
            .reports("unobserved_panic", Proven)
            .says("@spawned")
            .says("the index is empty"),
        bug!(a_waker_in_a_dropped_field)
            .reports("orphan", Proven)
            .says("\"device\"")
            .says("@spawned"),
        bug!(a_combinator_without_a_waker)
            .reports("orphan", Proven)
            .says("\"combined\"")
            .says("@spawned"),
        bug!(a_stream_that_forgets).reports("orphan", Proven).says("\"popper\"").says("@spawned"),
        bug!(a_lock_held_for_long)
            .reports("slow_holder", Suspected)
            .says("\"refresh\"")
            .says("@has")
            .says("@waits")
            .passes(),
        bug!(a_lock_over_a_reply)
            .reports("stuck_block_on", Proven)
            .says("\"client\"")
            .says("@wants")
            .in_a_service()
            .reports("slow_holder", Suspected)
            .says("\"client\" acquired a mutex and has released nothing for 3.")
            .says("acquired    at @has")
            .says("for a value (oneshot::Receiver)")
            .says("channel created at @waits"),
        bug!(a_permit_held_for_long)
            .reports("slow_holder", Suspected)
            .says("\"slow\"")
            .says("@has")
            .says("@waits")
            .passes(),
        bug!(tasks_that_only_grow).reports("growing_tasks", Suspected).says("@spawned").passes(),
        bug!(a_panic_with_a_kept_handle)
            .reports("unawaited_panic", Suspected)
            .says("\"worker\"")
            .says("@spawned"),
        bug!(a_closure_after_its_timeout).reports("aborted_closure", Suspected).says("@spawned"),
        bug!(a_futurelock_in_a_loop)
            .reports("futurelock", Suspected)
            .edge(("impatient", "Mutex::lock", "wants"), ("impatient", "granted")),
    ]
}
