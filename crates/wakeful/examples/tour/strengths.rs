//! Chapters about the strengths of the runtime.

use std::collections::BTreeSet;
use std::future::{pending, poll_fn};
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, OrphanPolicy, worker_index};
use wakeful::task::{self, JoinHandle, may_wait_forever, spawn_blocking, yield_now};

use crate::MEMORY;
use crate::guide::{self, Guide, Page};

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "A million idle tasks",
        "A task is one allocation: state, future and output. A million tasks wait forever, which
         may_wait_forever allows. Then all of them are aborted.",
        million,
    );
    guide.chapter(
        "A task that can never run again is reported",
        "The runtime counts the wakers of each task. When a waiting task has no waker left, no event can
         wake it. Here one future stored no waker, and another lost its last one. Other runtimes hang in
         silence. With OrphanPolicy::Abort, as here, the task that awaits the orphan gets an error.",
        orphans,
    );
    guide.chapter(
        "A blocked worker harms only itself",
        "One of two workers is stuck in a poll, with a dozen tasks in its queue and one in its LIFO slot.
         The poll returns only after all of them have run, so other threads must run them.",
        blocked_worker,
    );
    guide.chapter(
        "Blocking work, in batches",
        "spawn_blocking runs closures on a pool of threads. Few threads run many short closures. When
         closures block, the pool grows until each has a thread.",
        blocking_batch,
    );
}

fn million(page: &mut Page<'_>) {
    const COUNT: usize = 1_000_000;
    let rt = guide::runtime(1);
    let mut tasks: Vec<JoinHandle<()>> = Vec::with_capacity(COUNT);
    let (before, started) = (MEMORY.bytes(), Instant::now());
    let spawner = rt.spawn(async move {
        while tasks.len() < COUNT {
            tasks.extend((0..200).map(|_| wakeful::spawn(may_wait_forever(pending()))));
            yield_now().await;
        }
        tasks
    });
    let tasks = rt.block_on(spawner).unwrap();
    let (bytes, spawned) = ((MEMORY.bytes() - before).div_ceil(COUNT), started.elapsed());
    page.show(format_args!(
        "{} tasks wait; {bytes} bytes each, spawned in {spawned:.0?}",
        tasks.len()
    ));
    page.expect(bytes <= 128, "an idle task with an empty future costs at most 128 bytes");
    tasks.iter().for_each(JoinHandle::abort);
    let ended = rt.block_on(async {
        let mut ended = 0;
        for task in tasks {
            ended += usize::from(task.await.is_err_and(|error| error.is_cancelled()));
        }
        ended
    });
    page.show(format_args!("{ended} were aborted, {} are left", rt.metrics().num_alive_tasks()));
    page.expect(ended == COUNT && rt.metrics().num_alive_tasks() == 0, "all are accounted for");
}

fn orphans(page: &mut Page<'_>) {
    let (report, reports) = mpsc::channel::<Report>();
    let rt = Builder::new_multi_thread()
        .worker_threads(2)
        .on_orphan(OrphanPolicy::Abort)
        .on_report(move |noticed| report.send(noticed.clone()).expect("the guide listens"))
        .build()
        .expect("threads can be started");

    // The classic mistake: returns `Pending` without storing the waker.
    let forgetful = async {
        yield_now().await;
        poll_fn(|_cx| Poll::<()>::Pending).await;
    };
    let named = task::Builder::new().name("forgetful");
    let forgetful = named.spawn_on(forgetful, rt.handle()).expect("a name is always accepted");
    let forgetful_id = forgetful.id();
    let error = rt.block_on(forgetful).unwrap_err();
    let Ok(Report::Orphan(orphan)) = reports.recv() else { unreachable!("a report came first") };
    page.show(&orphan);
    page.show(format_args!("and its JoinHandle says: {error}"));
    page.expect(
        orphan.id() == forgetful_id && error.is_orphaned(),
        "the orphan is reported and aborted",
    );
    page.expect(orphan.spawned_at().file().ends_with("strengths.rs"), "with its spawn location");

    // The waker was stored, and later dropped by a thread outside of the runtime.
    let (keep, kept) = mpsc::channel::<Waker>();
    let waiting = rt.spawn(poll_fn(move |cx| {
        keep.send(cx.waker().clone()).expect("the guide listens");
        Poll::<()>::Pending
    }));
    let waiting_id = waiting.id();
    thread::spawn(move || drop(kept.recv())).join().expect("it only drops a waker");
    let error = rt.block_on(waiting).unwrap_err();
    let named = matches!(reports.recv(), Ok(Report::Orphan(orphan)) if orphan.id() == waiting_id);
    page.show(format_args!(
        "task {waiting_id}, whose last waker another thread dropped: also reported"
    ));
    page.expect(named && error.is_orphaned(), "a waker that is lost later is noticed in its drop");
    page.expect(reports.try_recv().is_err(), "two orphans, two reports");
}

fn blocked_worker(page: &mut Page<'_>) {
    let rt = guide::runtime(2);
    let (ran, runs) = mpsc::channel::<(&'static str, Option<usize>)>();
    let (keep, kept) = mpsc::channel::<Waker>();
    let mut woken_once = false;
    let ran_next = ran.clone();
    let next_in_line = rt.spawn(poll_fn(move |cx| {
        if std::mem::replace(&mut woken_once, true) {
            ran_next.send(("next in the LIFO slot", worker_index())).expect("the guide listens");
            return Poll::Ready(());
        }
        keep.send(cx.waker().clone()).expect("the guide listens");
        Poll::Pending
    }));
    let waker = kept.recv().expect("it waits");
    let stuck = rt.spawn(async move {
        for _ in 0..12 {
            let ran = ran.clone();
            wakeful::spawn(async move { ran.send(("queued", worker_index())).unwrap() });
        }
        drop(ran);
        waker.wake();
        let started = Instant::now();
        // Blocks the worker's thread, which a task should never do.
        let ran: Vec<_> = (0..13).map(|_| runs.recv().expect("they run")).collect();
        (ran, worker_index(), started.elapsed())
    });
    let (ran, stuck_on, waited) = rt.block_on(stuck).unwrap();
    rt.block_on(next_in_line).unwrap();
    let others: BTreeSet<_> = ran.iter().filter_map(|(_, on)| *on).collect();
    page.show(format_args!(
        "worker {} was stuck for {waited:.0?}; {} tasks ran on {others:?} meanwhile",
        stuck_on.map_or("?".to_owned(), |index| index.to_string()),
        ran.len(),
    ));
    page.expect(ran.iter().all(|(_, on)| *on != stuck_on), "none ran on the stuck worker");
    page.expect(
        ran.iter().any(|(what, _)| *what == "next in the LIFO slot"),
        "also the task of the LIFO slot",
    );
}

fn blocking_batch(page: &mut Page<'_>) {
    const CLOSURES: u64 = 10_000;
    let rt = guide::runtime(2);
    let started = Instant::now();
    let (sum, threads) = rt.block_on(async {
        let closures: Vec<_> =
            (1..=CLOSURES).map(|n| spawn_blocking(move || (n, thread::current().id()))).collect();
        let (mut sum, mut threads) = (0, Vec::new());
        for closure in closures {
            let (n, thread) = closure.await.unwrap();
            sum += n;
            if !threads.contains(&thread) {
                threads.push(thread);
            }
        }
        (sum, threads.len())
    });
    let each = started.elapsed() / CLOSURES as u32;
    page.show(format_args!("{CLOSURES} short closures: {each:.1?} each; threads used: {threads}"));
    page.expect(sum == CLOSURES * (CLOSURES + 1) / 2, "every closure ran once");

    let meeting = std::sync::Arc::new(std::sync::Barrier::new(50));
    let started = Instant::now();
    let met = rt.block_on(async {
        let closures: Vec<_> = (0..50)
            .map(|_| {
                let meeting = meeting.clone();
                spawn_blocking(move || meeting.wait().is_leader())
            })
            .collect();
        let mut leaders = 0;
        for closure in closures {
            leaders += usize::from(closure.await.unwrap());
        }
        leaders
    });
    page.show(format_args!(
        "50 closures that wait for each other met after {:.1?}",
        started.elapsed()
    ));
    page.expect(met == 1, "all fifty had a thread at the same time");
}
