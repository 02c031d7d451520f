//! `Handle::dump`: the resources that tasks wait for, and the worker of a current-thread runtime.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use wakeful::inspect::{Dump, TaskState, WorkerState};
use wakeful::io::AsyncReadExt;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::{Builder, Handle};
use wakeful::sync::{Barrier, Mutex, Notify, RwLock, Semaphore, broadcast, mpsc, oneshot, watch};
use wakeful::task::{self, yield_now};
use wakeful::time::{sleep, timeout};

fn resource_of<'a>(dump: &'a Dump, name: &str) -> Option<&'a str> {
    dump.find_named(name)?.waiting_on().map(|wait| wait.resource())
}

#[test]
fn sockets_have_addresses_moments_come_in_a_while_and_tasks_have_numbers() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap();
        let client = TcpStream::connect(near).await.unwrap();
        let (mut server, far) = listener.accept().await.unwrap();
        let named = |name| task::Builder::new().name(name);
        let accepts =
            named("accepts").spawn(async move { listener.accept().await.is_ok() }).unwrap();
        let reads = named("reads").spawn(async move { server.read_u8().await.is_ok() }).unwrap();
        let sleeps = named("sleeps").spawn(sleep(Duration::from_secs(90))).unwrap();
        let awaited = sleeps.id();
        let joins = named("joins").spawn(async move { sleeps.await.is_ok() }).unwrap();
        let mut set = task::JoinSet::new();
        set.spawn(sleep(Duration::from_secs(90)));
        let any = named("any").spawn(async move { set.join_next().await.is_some() }).unwrap();
        while resource_of(&Handle::current().dump(), "any").is_none() {
            yield_now().await;
        }
        let dump = Handle::current().dump();
        let text = dump.to_string();
        let reading = resource_of(&dump, "reads").unwrap();
        assert!(reading.ends_with(&format!(" ({near} to {far})")), "{text}");
        assert!(reading.starts_with("descriptor "), "{text}");
        assert!(resource_of(&dump, "accepts").unwrap().ends_with(&format!(" ({near})")), "{text}");
        assert_eq!(resource_of(&dump, "sleeps"), Some("in 90 s"), "{text}");
        assert_eq!(resource_of(&dump, "joins"), Some(format!("task {awaited}").as_str()), "{text}");
        assert_eq!(resource_of(&dump, "any"), Some("any of several"), "{text}");
        assert!(text.contains(&format!("for data to read: {reading}, awaited at ")), "{text}");
        let json = dump.to_json();
        assert!(json.contains(&format!("\"resource\":\"{reading}\"")), "{json}");
        drop(client);
        for task in [accepts, reads, joins, any] {
            task.abort();
        }
    });
}

/// Runs all ready tasks, and returns a dump.
async fn dump_at_rest() -> Dump {
    for _ in 0..10 {
        yield_now().await;
    }
    Handle::current().dump()
}

/// Polls the future a second time without a wake-up.
async fn polled_twice(waits: impl Future) {
    let mut waits = std::pin::pin!(waits);
    let polled = poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx).is_pending())).await;
    assert!(polled, "it has nothing to wait for");
    yield_now().await;
    waits.await;
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns a waiting future of every kind, with the name of the kind.
fn all_kinds() -> Vec<(&'static str, Boxed)> {
    fn boxed(waits: impl Future<Output: Send> + Send + 'static) -> Boxed {
        Box::pin(async { drop(waits.await) })
    }
    let (mutex, lock, seats) = (Mutex::new(()), RwLock::new(()), Semaphore::new(0));
    let locked = async move {
        let _first = mutex.lock().await;
        drop(mutex.lock().await);
    };
    let reads = async move {
        let _first = lock.write().await;
        drop(lock.read().await);
    };
    let (to, mut from) = mpsc::channel::<()>(1);
    let (full, keep) = mpsc::channel::<()>(1);
    let (tx, rx) = oneshot::channel::<()>();
    let (changer, mut changes) = watch::channel(());
    let (announce, mut heard) = broadcast::channel::<()>(1);
    vec![
        ("Mutex::lock", boxed(locked)),
        ("RwLock::read", boxed(reads)),
        ("Semaphore::acquire", boxed(async move { seats.acquire().await.is_ok() })),
        ("Notify::notified", boxed(async { Notify::new().notified().await })),
        ("Barrier::wait", boxed(async { Barrier::new(2).wait().await.is_leader() })),
        ("mpsc::Receiver::recv", boxed(async move { (from.recv().await, to).0 })),
        (
            "mpsc::Sender::send",
            boxed(async move {
                full.send(()).await.unwrap();
                (full.send(()).await.is_ok(), keep).0
            }),
        ),
        ("oneshot::Receiver", boxed(async move { (rx.await.is_ok(), tx).0 })),
        (
            "watch::Receiver::changed",
            boxed(async move { (changes.changed().await.is_ok(), changer).0 }),
        ),
        (
            "broadcast::Receiver::recv",
            boxed(async move { (heard.recv().await.is_ok(), announce).0 }),
        ),
        ("sleep", boxed(sleep(Duration::from_secs(90)))),
        ("JoinHandle", boxed(async { task::spawn(sleep(Duration::from_secs(90))).await.is_ok() })),
    ]
}

#[test]
fn a_spurious_poll_keeps_the_wait_also_within_a_timeout() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let mut tasks = task::JoinSet::new();
        for (twice, once) in all_kinds().into_iter().zip(all_kinds()) {
            let kind = twice.0;
            tasks.build_task().name(kind).spawn(polled_twice(twice.1)).unwrap();
            let within = timeout(Duration::from_secs(900), polled_twice(once.1));
            let name = format!("{kind} within");
            tasks.build_task().name(&name).spawn(async { drop(within.await) }).unwrap();
        }
        let dump = dump_at_rest().await;
        for (kind, _) in all_kinds() {
            for name in [kind.to_owned(), format!("{kind} within")] {
                let waiting = dump.find_named(&name).and_then(|task| task.waiting_on());
                let waiting = waiting.unwrap_or_else(|| panic!("{name}: {dump}"));
                assert_eq!((waiting.kind(), waiting.is_earlier()), (kind, false), "{name}: {dump}");
            }
        }
    });
}

/// Waits for a future of another crate, which holds the waker.
async fn foreign() {
    let (_keep, waits) = futures::channel::oneshot::channel::<()>();
    let _ = waits.await;
}

#[test]
fn a_finished_wait_is_not_listed() {
    let rt = Builder::new_current_thread().enable_all().block_on_name("block_on").build().unwrap();
    let lock = Arc::new(Mutex::new(()));
    let (held, theirs) = (rt.block_on(lock.clone().lock_owned()), lock.clone());
    let task = rt.block_on(async {
        let waits = async move {
            drop(theirs.lock().await);
            foreign().await;
        };
        let task = task::Builder::new().name("waits").spawn(waits).unwrap();
        let dump = dump_at_rest().await;
        let waiting = dump.find_named("waits").unwrap().waiting_on().unwrap();
        assert_eq!((waiting.kind(), waiting.is_earlier()), ("Mutex::lock", false), "{dump}");
        task.abort_handle()
    });
    drop(held);
    let dump = rt.block_on(dump_at_rest());
    let waiting = dump.find_named("waits").unwrap().waiting_on().unwrap();
    assert_eq!((waiting.kind(), waiting.is_earlier()), ("Mutex::lock", true), "{dump}");
    let text = dump.to_string();
    assert!(
        text.contains("not wakeful's own") && text.contains("before that for a lock"),
        "{text}"
    );
    assert!(dump.to_json().contains("\"earlier\":true"), "{}", dump.to_json());
    task.abort();
}

/// A task awaits a lock beside a timer and a notification. The dump names the lock.
#[test]
fn a_lock_tells_more_than_what_ends_the_wait_for_it() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let (lock, ends) = (Arc::new(Mutex::new(())), Arc::new(Notify::new()));
        let _held = lock.lock().await;
        for (name, lock_first) in [("lock first", true), ("lock last", false)] {
            let (lock, ends) = (lock.clone(), ends.clone());
            let waits = async move {
                let locked = async { drop(lock.lock().await) };
                let ended = async { ends.notified().await };
                let late = sleep(Duration::from_secs(90));
                if lock_first {
                    wakeful::select! { biased; () = locked => {} () = ended => {} () = late => {} }
                } else {
                    wakeful::select! { biased; () = late => {} () = ended => {} () = locked => {} }
                }
            };
            task::Builder::new().name(name).spawn(waits).unwrap();
        }
        let dump = dump_at_rest().await;
        for name in ["lock first", "lock last"] {
            let waiting = dump.find_named(name).unwrap().waiting_on().unwrap();
            assert_eq!((waiting.kind(), waiting.holders().len()), ("Mutex::lock", 1), "{dump}");
        }
    });
}

/// The owner of a lock is the task that polled the future last.
#[test]
fn a_lock_future_that_moved_holds_the_lock_in_its_new_task() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let (lock, seats) = (Arc::new(Mutex::new(())), Arc::new(Semaphore::new(1)));
        let held = (lock.lock().await, seats.acquire().await.unwrap());
        let (give, given) = oneshot::channel();
        let theirs = (lock.clone(), seats.clone());
        let first = async move {
            let (lock, seats) = (theirs.0.clone(), theirs.1.clone());
            let mut locks: Pin<Box<dyn Future<Output = ()> + Send>> =
                Box::pin(async move { std::mem::forget(lock.lock().await) });
            let mut sits: Pin<Box<dyn Future<Output = ()> + Send>> =
                Box::pin(async move { std::mem::forget(seats.acquire().await) });
            assert!(futures::poll!(&mut locks).is_pending());
            assert!(futures::poll!(&mut sits).is_pending());
            drop(give.send((locks, sits)));
        };
        let second = async move {
            let (mut locks, mut sits) = given.await.unwrap();
            assert!(futures::poll!(&mut locks).is_pending());
            assert!(futures::poll!(&mut sits).is_pending());
            task::may_wait_forever(std::future::pending::<()>()).await;
            drop((locks, sits));
        };
        task::Builder::new().name("first").spawn(first).unwrap();
        task::Builder::new().name("second").spawn(second).unwrap();
        dump_at_rest().await;
        drop(held);
        let (lock, seats) = (lock.clone(), seats.clone());
        let locks = async move { drop(lock.lock().await) };
        let sits = async move { drop(seats.acquire().await) };
        task::Builder::new().name("locks").spawn(locks).unwrap();
        task::Builder::new().name("sits").spawn(sits).unwrap();
        let dump = dump_at_rest().await;
        for name in ["locks", "sits"] {
            let waiting = dump.find_named(name).unwrap().waiting_on().unwrap();
            let holders: Vec<_> =
                waiting.holders().iter().map(|holder| holder.task()?.name()).collect();
            assert_eq!(holders, [Some("second")], "{dump}");
        }
    });
}

#[test]
fn the_one_worker_of_a_thread_polls_its_block_on_and_has_a_queue() {
    let rt = Builder::new_current_thread().block_on_name("the root").build().unwrap();
    let dump = rt.block_on(async {
        for _ in 0..5 {
            task::spawn(async {});
        }
        Handle::current().dump()
    });
    let worker = &dump.workers()[0];
    assert_eq!((worker.state(), worker.queued()), (WorkerState::Polling, 5), "{dump}");
    assert_eq!(worker.task().and_then(|who| who.name()), Some("the root"), "{dump}");
    let json = dump.to_json();
    let (_, number) = json.split_once("\"parent_block_on\":").unwrap();
    let (number, _) =
        number[number.find("parent_block_on\":").unwrap() + 17..].split_once(',').unwrap();
    assert!(json.contains(&format!("\"task\":null,\"block_on\":{number},")), "{json}");
    assert!(dump.to_string().contains("worker 0  polling block_on \"the root\""), "{dump}");

    let dump = rt.block_on(async {
        let asks = task::spawn(async { Handle::current().dump() });
        task::spawn(yield_now());
        asks.await.unwrap()
    });
    let worker = &dump.workers()[0];
    let running = dump.tasks().iter().find(|task| task.state() == TaskState::Running(Some(0)));
    assert_eq!(worker.task().and_then(|who| who.id()), running.unwrap().id(), "{dump}");
}

/// Returns a closure that blocks, and a closure that takes a dump while the first blocks and then releases it.
fn block() -> (impl FnOnce() + Send, impl FnOnce(&Handle) -> Dump + Send) {
    let (inside, is_inside) = channel();
    let (let_go, may_go) = channel::<()>();
    let blocks = move || {
        inside.send(()).unwrap();
        let _ = may_go.recv();
    };
    let looks = move |handle: &Handle| {
        is_inside.recv().unwrap();
        let dump = handle.dump();
        drop(let_go);
        dump
    };
    (blocks, looks)
}

#[track_caller]
fn assert_runs_without_a_worker(dump: &Dump, name: &str) {
    let state = dump.find_named(name).map(|task| task.state());
    assert_eq!(state, Some(TaskState::Running(None)), "{dump}");
}

#[test]
fn a_task_that_blocks_in_place_runs_without_a_worker() {
    let rt = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (blocks, looks) = block();
    let named = task::Builder::new().name("in place");
    let task = named.spawn_on(async { task::block_in_place(blocks) }, rt.handle()).unwrap();
    assert_runs_without_a_worker(&looks(rt.handle()), "in place");
    rt.block_on(task).unwrap();
}

#[test]
fn a_task_of_a_local_set_runs_without_a_worker() {
    let rt = Builder::new_current_thread().report_blocked_after(None).build().unwrap();
    let (blocks, looks) = block();
    let handle = rt.handle().clone();
    let looks = thread::spawn(move || looks(&handle));
    task::LocalSet::new().block_on(&rt, async {
        let named = task::Builder::new().name("local");
        named.spawn_local(async { blocks() }).unwrap().await.unwrap();
    });
    assert_runs_without_a_worker(&looks.join().unwrap(), "local");
}

#[test]
fn the_age_of_a_block_on_is_its_own() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async { sleep(Duration::from_secs(5)).await });
    let dump = rt.block_on(async { Handle::current().dump() });
    let root = dump.tasks().iter().find(|task| task.info().is_block_on()).unwrap();
    assert_eq!(root.age(), Duration::ZERO, "it had not to wait yet: {dump}");
}

/// A future that is itself the resource does not know where it is awaited.
#[test]
fn each_site_says_what_it_is() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let mut tasks = task::JoinSet::new();
        for (kind, waits) in all_kinds() {
            tasks.build_task().name(kind).spawn(waits).unwrap();
        }
        let mut ticks = wakeful::time::interval(Duration::from_secs(90));
        let start = ticks.tick().await;
        let late = Box::pin(async move { while ticks.tick().await > start {} });
        let (mut near, far) = wakeful::io::duplex(8);
        let by_call = Box::pin(async move { drop((near.read_u8().await, far)) });
        let (mut near, far) = wakeful::io::duplex(8);
        let by_poll = Box::pin(async move {
            let mut byte = [0];
            let mut buf = wakeful::io::ReadBuf::new(&mut byte);
            let mut read =
                poll_fn(|cx| wakeful::io::AsyncRead::poll_read(Pin::new(&mut near), cx, &mut buf));
            drop(((&mut read).await, &far));
        });
        let mut set = task::JoinSet::new();
        set.spawn(sleep(Duration::from_secs(90)));
        let any = Box::pin(async move { drop(set.join_next().await) });
        let others: [(_, Boxed); 4] =
            [("interval", late), ("by call", by_call), ("by poll", by_poll), ("any", any)];
        for (name, waits) in others {
            tasks.build_task().name(name).spawn(waits).unwrap();
        }
        let dump = dump_at_rest().await;
        let label = |name: &str| dump.find_named(name).unwrap().waiting_on().unwrap().site_label();
        for (name, expected) in [
            ("JoinHandle", "spawned at"),
            ("any", "awaited at"),
            ("oneshot::Receiver", "channel created at"),
            ("sleep", "created at"),
            ("interval", "created at"),
            ("by call", "awaited at"),
            ("by poll", "created at"),
        ] {
            assert_eq!(label(name), expected, "{name}: {dump}");
        }
        for (kind, _) in all_kinds() {
            if !matches!(kind, "JoinHandle" | "oneshot::Receiver" | "sleep") {
                assert_eq!(label(kind), "awaited at", "{kind}: {dump}");
            }
        }
        assert!(!dump.to_string().contains(", at "), "each site has a word: {dump}");
        let json = dump.to_json();
        assert!(json.contains(r#""site_label":"channel created at""#), "{json}");
    });
}
