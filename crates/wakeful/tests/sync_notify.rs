//! `Notify`: the permit, the order of notifications, and notifications of dropped futures.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::executor;
use wakeful::sync::Notify;
use wakeful::sync::futures::{Notified, OwnedNotified};
use wakeful::task::yield_now;

mod support {
    pub mod manual_poll;
    pub mod rng;
    pub mod runtimes;
}
use support::manual_poll::ManualPoll;
use support::rng::{TestRng, seed};
use support::runtimes::{multi_thread, runtimes};

static NOTIFY: Notify = Notify::const_new();

#[test]
fn a_static_one_stores_one_permit() {
    for _ in 0..3 {
        NOTIFY.notify_one();
    }
    executor::block_on(NOTIFY.notified());
    assert!(ManualPoll::new(NOTIFY.notified()).poll().is_pending());
    NOTIFY.notify_last();
    executor::block_on(NOTIFY.notified());
}

#[test]
fn first_come_first_served_and_the_last_if_asked_for() {
    let notify = Notify::default();
    let mut waits: Vec<_> = (0..4).map(|_| ManualPoll::pending(notify.notified())).collect();
    let expect =
        [(Notify::notify_one as fn(&Notify), 0), (Notify::notify_last, 3), (Notify::notify_one, 1)];
    for (call, number) in expect {
        call(&notify);
        let wakes: Vec<_> = waits.iter().map(ManualPoll::take_wakes).collect();
        assert_eq!(wakes.iter().position(|&wakes| wakes == 1), Some(number));
        assert_eq!(wakes.iter().sum::<usize>(), 1);
        waits[number].ready();
    }
    assert!(waits[2].poll().is_pending());
}

#[test]
fn a_ready_future_stays_ready() {
    let notify = Arc::new(Notify::new());
    notify.notify_one();
    let mut wait = ManualPoll::new(notify.clone().notified_owned());
    wait.ready();
    wait.ready();
    assert!(wait.as_mut().enable());
    assert!(ManualPoll::new(notify.notified()).poll().is_pending(), "it took one permit only");
}

#[test]
fn notify_waiters_includes_futures_that_were_never_polled() {
    let notify = Notify::new();
    let (mut polled, mut unpolled) =
        (ManualPoll::pending(notify.notified()), ManualPoll::new(notify.notified()));
    notify.notify_waiters();
    let mut late = ManualPoll::new(notify.notified());
    assert_eq!(polled.take_wakes(), 1);
    polled.ready();
    unpolled.ready();
    assert!(late.poll().is_pending(), "no permit is stored");
}

#[test]
fn notify_waiters_leaves_the_permit() {
    let notify = Notify::new();
    let mut unpolled = ManualPoll::new(notify.notified());
    notify.notify_one();
    notify.notify_waiters();
    unpolled.ready();
    ManualPoll::new(notify.notified()).ready();
    assert!(ManualPoll::new(notify.notified()).poll().is_pending());
}

#[test]
fn more_than_a_batch_is_woken_in_order() {
    let notify = Notify::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    struct Numbered(usize, Arc<Mutex<Vec<usize>>>);
    impl Wake for Numbered {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let mut waits: Vec<_> = (0..100).map(|_| ManualPoll::new(notify.notified())).collect();
    for (number, wait) in waits.iter_mut().enumerate() {
        let waker = Waker::from(Arc::new(Numbered(number, order.clone())));
        assert!(wait.poll_with(&waker).is_pending());
    }
    notify.notify_waiters();
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    waits.iter_mut().for_each(ManualPoll::ready);
}

/// Calls a function when it is woken.
struct OnWake<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// `notify_waiters` wakes a hundred waiters. During that, the waker of the first adds two waiters and calls
/// `notify_one`.
#[test]
fn notify_waiters_skips_waiters_that_came_during_the_call() {
    let notify = Arc::new(Notify::new());
    let late = Arc::new(Mutex::new(None));
    let waker = Waker::from(Arc::new(OnWake({
        let (notify, late) = (notify.clone(), late.clone());
        move || {
            let first = ManualPoll::pending(notify.clone().notified_owned());
            let second = ManualPoll::pending(notify.clone().notified_owned());
            notify.notify_one();
            *late.lock().unwrap() = Some((first, second));
        }
    })));
    let mut first = ManualPoll::new(notify.notified());
    assert!(first.poll_with(&waker).is_pending());
    let mut crowd: Vec<_> = (0..100).map(|_| ManualPoll::pending(notify.notified())).collect();
    notify.notify_waiters();
    assert!(crowd.iter().all(|wait| wait.take_wakes() == 1));
    crowd.iter_mut().for_each(ManualPoll::ready);
    let (mut one, mut none) = late.lock().unwrap().take().expect("the first one was woken");
    assert_eq!((one.take_wakes(), none.take_wakes()), (1, 0));
    one.ready();
    assert!(none.poll().is_pending());
}

/// A waker that panics does not keep other waiters from being notified.
#[test]
fn a_waker_that_panics_harms_no_other_waiter() {
    let notify = Arc::new(Notify::new());
    let waker = Waker::from(Arc::new(OnWake({
        let notify = notify.clone();
        move || {
            // This notifies a waiter behind waiters that are not yet woken.
            notify.notify_one();
            panic!("a foreign waker");
        }
    })));
    let mut bad: Vec<_> = (0..2).map(|_| ManualPoll::new(notify.notified())).collect();
    bad.iter_mut().for_each(|wait| assert!(wait.poll_with(&waker).is_pending()));
    let mut crowd: Vec<_> = (0..100).map(|_| ManualPoll::pending(notify.notified())).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| notify.notify_waiters())).is_err());
    assert!(crowd.iter().all(|wait| wait.take_wakes() == 1));
    crowd.iter_mut().chain(&mut bad).for_each(ManualPoll::ready);
    ManualPoll::new(notify.notified()).ready();
    assert!(ManualPoll::new(notify.notified()).poll().is_pending());
}

#[test]
fn a_waker_may_drop_waiting_futures() {
    let notify = Arc::new(Notify::new());
    let others = Arc::new(Mutex::new(Vec::<ManualPoll<OwnedNotified>>::new()));
    let waker = Waker::from(Arc::new(OnWake({
        let others = others.clone();
        move || drop(std::mem::take(&mut *others.lock().unwrap()))
    })));
    let mut first = ManualPoll::new(notify.notified());
    assert!(first.poll_with(&waker).is_pending());
    *others.lock().unwrap() =
        (0..100).map(|_| ManualPoll::pending(notify.clone().notified_owned())).collect();
    notify.notify_waiters();
    first.ready();
    assert!(ManualPoll::new(notify.notified()).poll().is_pending());
}

#[test]
fn another_task_may_go_on_polling() {
    let notify = Notify::new();
    let mut wait = ManualPoll::pending(notify.notified());
    let other = ManualPoll::pending(std::future::pending::<()>());
    let waker = Waker::from(other.wake_count());
    assert!(wait.poll_with(&waker).is_pending());
    assert_eq!(wait.wakers(), 0, "the old waker stays behind");
    drop(waker);
    notify.notify_one();
    assert_eq!((wait.take_wakes(), other.take_wakes()), (0, 1));
    wait.ready();
}

#[test]
fn debug_says_what_there_is() {
    let notify = Notify::new();
    assert_eq!(format!("{notify:?}"), "Notify { permit: false, waiting: false }");
    notify.notify_one();
    assert_eq!(format!("{notify:?}"), "Notify { permit: true, waiting: false }");
    assert!(format!("{:?}", notify.notified()).starts_with("Notified"));
}

/// The waiters that a notification is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    First,
    Last,
    All,
}

/// The state of one future in the naive model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naive {
    Made { called: bool },
    Queued { polled: bool },
    Notified(For),
    Done,
}

#[derive(Default)]
struct Model {
    permit: bool,
    /// The keys of waiting futures.
    queue: VecDeque<usize>,
    futures: Vec<Option<Naive>>,
    /// The futures that the last step must have woken.
    woken: Vec<usize>,
}

impl Model {
    fn notify(&mut self, whom: For) {
        let key = match whom {
            For::First => self.queue.pop_front(),
            For::Last => self.queue.pop_back(),
            For::All => return self.notify_waiters(),
        };
        match key {
            Some(key) => self.answer(key, whom),
            None => self.permit = true,
        }
    }

    fn notify_waiters(&mut self) {
        while let Some(key) = self.queue.pop_front() {
            self.answer(key, For::All);
        }
        for future in self.futures.iter_mut().flatten() {
            if let Naive::Made { called } = future {
                *called = true;
            }
        }
    }

    fn answer(&mut self, key: usize, whom: For) {
        let before = self.futures[key].replace(Naive::Notified(whom));
        if before == Some(Naive::Queued { polled: true }) {
            self.woken.push(key);
        }
    }

    /// Polls a future of the model. Returns whether it is ready.
    fn poll(&mut self, key: usize, with_waker: bool) -> bool {
        let future = self.futures[key].as_mut().expect("it is there");
        match future {
            Naive::Made { called: true } => {}
            Naive::Made { called: false } if std::mem::take(&mut self.permit) => {}
            Naive::Made { .. } => {
                *future = Naive::Queued { polled: with_waker };
                self.queue.push_back(key);
                return false;
            }
            Naive::Queued { polled } => {
                *polled |= with_waker;
                return false;
            }
            Naive::Notified(_) | Naive::Done => {}
        }
        *future = Naive::Done;
        true
    }

    fn drop(&mut self, key: usize) {
        match self.futures[key].take() {
            Some(Naive::Notified(whom @ (For::First | For::Last))) => self.notify(whom),
            Some(Naive::Queued { .. }) => self.queue.retain(|&other| other != key),
            _ => {}
        }
    }
}

#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..50 {
        let notify = Notify::new();
        let mut model = Model::default();
        let mut futures: Vec<Option<ManualPoll<Notified<'_>>>> = Vec::new();
        for _ in 0..400 {
            let there: Vec<usize> =
                (0..futures.len()).filter(|&key| futures[key].is_some()).collect();
            let any = (!there.is_empty()).then(|| there[rng.below(there.len().max(1))]);
            match (rng.below(10), any) {
                (0, _) => {
                    notify.notify_one();
                    model.notify(For::First);
                }
                (1, _) => {
                    notify.notify_last();
                    model.notify(For::Last);
                }
                (2, _) if rng.one_in(2) => {
                    notify.notify_waiters();
                    model.notify(For::All);
                }
                (3 | 4, _) | (_, None) => {
                    futures.push(Some(ManualPoll::new(notify.notified())));
                    model.futures.push(Some(Naive::Made { called: false }));
                }
                (5, Some(key)) => {
                    let enabled = futures[key].as_mut().unwrap().as_mut().enable();
                    assert_eq!(enabled, model.poll(key, false));
                }
                (6, Some(key)) => {
                    futures[key] = None;
                    model.drop(key);
                }
                (_, Some(key)) => {
                    let polled = futures[key].as_mut().unwrap().poll();
                    assert_eq!(polled.is_ready(), model.poll(key, true));
                }
            }
            for (key, future) in futures.iter().enumerate() {
                let Some(future) = future else { continue };
                assert_eq!(
                    future.take_wakes(),
                    usize::from(model.woken.contains(&key)),
                    "of {key}"
                );
                let waits = model.futures[key] == Some(Naive::Queued { polled: true });
                assert_eq!(future.wakers(), usize::from(waits), "wakers of {key}");
            }
            model.woken.clear();
        }
    }
}

/// A queue with many consumers. Some of them drop their wait.
#[derive(Default)]
struct Line {
    items: Mutex<VecDeque<usize>>,
    arrived: Notify,
    taken: AtomicUsize,
    sum: AtomicUsize,
}

impl Line {
    fn push(&self, item: usize) {
        self.items.lock().unwrap().push_back(item);
        self.arrived.notify_one();
    }

    async fn pop(&self, total: usize, rng: &mut TestRng) -> Option<usize> {
        loop {
            let mut arrival = pin!(self.arrived.notified());
            arrival.as_mut().enable();
            if self.taken.load(SeqCst) == total {
                return None;
            }
            let item = self.items.lock().unwrap().pop_front();
            if let Some(item) = item {
                return Some(item);
            }
            if rng.one_in(3) {
                // Drops the arrival after one poll, notified or not.
                let polled = std::future::poll_fn(|cx| Poll::Ready(arrival.as_mut().poll(cx)));
                let _ = polled.await;
                yield_now().await;
            } else {
                arrival.await;
            }
        }
    }

    async fn work(&self, total: usize, mut rng: TestRng) {
        while let Some(item) = self.pop(total, &mut rng).await {
            self.sum.fetch_add(item, SeqCst);
            if self.taken.fetch_add(1, SeqCst) + 1 == total {
                self.arrived.notify_waiters();
            }
        }
    }
}

#[test]
fn nothing_is_lost_between_threads() {
    let mut rng = TestRng::new(seed());
    let runtime = multi_thread(2);
    const EACH: usize = 3_000;
    const TOTAL: usize = 2 * EACH;
    let line = Arc::new(Line::default());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (line, rng) = (line.clone(), rng.branch());
            runtime.spawn(async move { line.work(TOTAL, rng).await })
        })
        .collect();
    let producers: Vec<_> = (0..2)
        .map(|half| {
            let line = line.clone();
            thread::spawn(move || (half * EACH..(half + 1) * EACH).for_each(|item| line.push(item)))
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    for worker in workers {
        runtime.block_on(worker).unwrap();
    }
    assert_eq!(line.taken.load(SeqCst), TOTAL);
    assert_eq!(line.sum.load(SeqCst), TOTAL * (TOTAL - 1) / 2);
}

#[test]
fn tasks_on_every_runtime_take_turns() {
    for runtime in runtimes() {
        let pair = Arc::new((Notify::new(), Notify::new()));
        let ping = runtime.spawn({
            let pair = pair.clone();
            async move {
                for _ in 0..1_000 {
                    pair.0.notify_one();
                    pair.1.notified().await;
                }
            }
        });
        let pong = runtime.spawn(async move {
            for _ in 0..1_000 {
                pair.0.notified().await;
                pair.1.notify_one();
            }
        });
        runtime.block_on(async {
            ping.await.unwrap();
            pong.await.unwrap();
        });
    }
}

/// A notified future that is dropped unpolled leaves its notification to the next.
#[test]
fn a_notification_survives_the_future_that_got_it() {
    let notify = Notify::new();
    let wait = ManualPoll::pending(notify.notified());
    notify.notify_one();
    drop(wait);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(notify.notified()).poll(&mut cx).is_ready());
}
