//! Counts of `RuntimeMetrics` that are derived from rare events: they are exact nevertheless.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use wakeful::runtime::{
    Builder, Handle, HistogramConfiguration, LogHistogram, Runtime, RuntimeMetrics,
};
use wakeful::task::{block_in_place, consume_budget, join_set::JoinSet, spawn_blocking, yield_now};

mod support {
    pub mod runtimes;
}
use support::runtimes::{TestRuntime, current_thread, multi_thread, serial_builders, watch};

/// Returns the sum of a metric over all workers.
fn sum(metrics: &RuntimeMetrics, of: impl Fn(&RuntimeMetrics, usize) -> u64) -> u64 {
    (0..metrics.num_workers()).map(|worker| of(metrics, worker)).sum()
}

fn local_schedules(metrics: &RuntimeMetrics) -> u64 {
    sum(metrics, RuntimeMetrics::worker_local_schedule_count)
}

fn polls(metrics: &RuntimeMetrics) -> u64 {
    sum(metrics, RuntimeMetrics::worker_poll_count)
}

/// Returns a runtime of every kind, without rescue. A wake-up on a spare worker would count as remote.
fn runtimes() -> [TestRuntime; 3] {
    let mut builders = [(); 3].map(|()| Builder::new_multi_thread());
    builders[0] = Builder::new_current_thread();
    let names = ["current_thread", "one worker", "two workers"];
    let mut built = std::iter::zip(names, builders).enumerate().map(|(n, (name, mut builder))| {
        watch(name, builder.worker_threads(n.max(1)).rescue_after(None))
    });
    std::array::from_fn(|_| built.next().unwrap())
}

/// Runs `main` as a task and drops the runtime, so that all counts are final.
fn run(runtime: Runtime, main: impl Future<Output = ()> + Send + 'static) -> RuntimeMetrics {
    let metrics = runtime.metrics();
    runtime.block_on(runtime.spawn(main)).unwrap();
    drop(runtime);
    metrics
}

/// Each schedule is local or remote. It leads to one poll, or the task ends without one.
#[test]
fn each_schedule_is_local_or_remote() {
    for rt in runtimes() {
        let name = rt.name;
        let metrics = run(rt.runtime, async {
            let mut tasks = JoinSet::new();
            for _ in 0..1000 {
                tasks.spawn(async {
                    yield_now().await;
                    wakeful::spawn(yield_now()).await.unwrap();
                });
            }
            tasks.join_all().await;
        });
        // The main task is spawned by this thread, on a current-thread runtime as well.
        assert_eq!(metrics.remote_schedule_count(), 1, "{name}");
        assert_eq!(local_schedules(&metrics), polls(&metrics) - 1, "{name}");
    }
}

/// Returns when all workers sleep.
fn wait_until_asleep(metrics: &RuntimeMetrics) {
    let is_asleep = |worker| metrics.worker_park_unpark_count(worker) % 2 == 1;
    while !(0..metrics.num_workers()).all(is_asleep) {
        thread::yield_now();
    }
}

#[test]
fn wakes_from_other_threads_are_remote() {
    for rt in runtimes() {
        let name = rt.name;
        let metrics = run(rt.runtime, async {
            for _ in 0..10 {
                let (wake, woken) = oneshot::channel();
                let metrics = Handle::current().metrics();
                let thread = thread::spawn(move || {
                    wait_until_asleep(&metrics);
                    wake.send(()).unwrap();
                });
                woken.await.unwrap();
                thread.join().unwrap();
            }
        });
        assert_eq!(metrics.remote_schedule_count(), 11, "{name}");
        assert_eq!(local_schedules(&metrics), 0, "{name}");
    }
}

/// A ring that overflows, a second worker that steals, and tasks that are dropped at shutdown: none is counted twice.
#[test]
fn schedules_are_counted_once_on_rare_ways() {
    const TASKS: u64 = 5000;
    let [.., rt] = runtimes();
    let metrics = run(rt.runtime, async {
        for _ in 0..TASKS {
            wakeful::spawn(yield_now());
        }
        let metrics = Handle::current().metrics();
        assert!(sum(&metrics, RuntimeMetrics::worker_overflow_count) >= 1);
    });
    assert_eq!(metrics.spawned_tasks_count(), TASKS + 1);
    assert_eq!(metrics.remote_schedule_count(), 1);
    let counted = local_schedules(&metrics);
    // Each spawn, and a yield of each task that was polled before the runtime was dropped.
    assert!((TASKS..=2 * TASKS).contains(&counted), "{counted}");
}

#[test]
fn a_local_schedule_count_never_falls() {
    let rt = multi_thread(1);
    let metrics = rt.metrics();
    let mut last = 0;
    for round in 0..200 {
        let (task, external) = (rt.spawn(yield_now()), rt.spawn(async { yield_now().await }));
        let now = metrics.worker_local_schedule_count(0);
        assert!(now >= last, "{last}, then {now} in round {round}");
        last = now;
        rt.block_on(async { (task.await.unwrap(), external.await.unwrap()) });
    }
}

#[test]
fn stolen_tasks_are_counted_one_by_one() {
    let rt =
        watch("no LIFO slot", Builder::new_multi_thread().worker_threads(2).disable_lifo_slot());
    let metrics = run(rt.runtime, async {
        let (send, receive) = mpsc::channel();
        wakeful::spawn(async move { send.send(()).unwrap() });
        // This worker is stuck here, so another one has to take the task.
        receive.recv().unwrap();
    });
    let stolen = sum(&metrics, RuntimeMetrics::worker_steal_count);
    let steals = sum(&metrics, RuntimeMetrics::worker_steal_operations);
    // None is stolen if the watchdog has moved the task to the injector first.
    assert!([(1, 1), (0, 0)].contains(&(stolen, steals)), "{stolen} tasks in {steals} steals");
}

#[test]
fn depth_of_a_workers_queue() {
    let rt = current_thread();
    rt.block_on(async {
        let metrics = Handle::current().metrics();
        let tasks: Vec<_> = (0..100).map(|_| wakeful::spawn(async {})).collect();
        assert_eq!(metrics.worker_local_queue_depth(0), 100);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(metrics.worker_local_queue_depth(0), 0);
    });
    let mut builder = Builder::new_multi_thread();
    let rt = watch("no rescue", builder.worker_threads(1).rescue_after(None));
    run(rt.runtime, async {
        let metrics = Handle::current().metrics();
        (0..100).for_each(|_| drop(wakeful::spawn(async {})));
        assert_eq!(metrics.worker_local_queue_depth(0), 99, "the newest is in the LIFO slot");
    });
}

#[test]
fn threads_of_workers() {
    let rt = current_thread();
    let metrics = rt.metrics();
    assert_eq!(metrics.worker_thread_id(0), None);
    let on_this_thread = || {
        rt.block_on(async {});
        assert_eq!(metrics.worker_thread_id(0), Some(thread::current().id()));
    };
    on_this_thread();
    thread::scope(|scope| scope.spawn(on_this_thread).join().unwrap());
    on_this_thread();

    let rt = multi_thread(1);
    run(rt.runtime, async {
        let metrics = Handle::current().metrics();
        let thread = thread::current().id();
        assert_eq!(metrics.worker_thread_id(0), Some(thread));
        block_in_place(|| {
            // Another thread becomes the worker.
            while metrics.worker_thread_id(0) == Some(thread) {
                thread::yield_now();
            }
        });
    });
}

/// A future that spends its budget twice in one poll is counted once.
#[test]
fn polls_that_spend_their_budget() {
    async fn until_yield() {
        let mut spend = std::pin::pin!(async {
            loop {
                consume_budget().await;
            }
        });
        poll_fn(|cx| {
            let pending: Poll<()> = spend.as_mut().poll(cx);
            assert!(pending.is_pending());
            Poll::Ready(())
        })
        .await;
    }
    for rt in runtimes() {
        let metrics = rt.metrics();
        rt.block_on(rt.spawn(async {
            until_yield().await;
            until_yield().await;
            yield_now().await;
            until_yield().await;
        }))
        .unwrap();
        assert_eq!(metrics.budget_forced_yield_count(), 2, "{}", rt.name);
        rt.block_on(until_yield());
        assert_eq!(metrics.budget_forced_yield_count(), 3, "{}", rt.name);
    }
}

#[test]
fn the_blocking_pool() {
    for (_, mut builder) in serial_builders() {
        let rt = watch("one pool thread", builder.max_blocking_threads(1));
        let metrics = rt.metrics();
        let lock = Arc::new(Mutex::new(()));
        let locked = lock.lock().unwrap();
        let _entered = rt.enter();
        let closures =
            [lock.clone(), lock.clone()].map(|lock| spawn_blocking(move || drop(lock.lock())));
        assert!(metrics.blocking_queue_depth() >= 1);
        assert_eq!((metrics.num_blocking_threads(), metrics.num_idle_blocking_threads()), (1, 0));
        drop(locked);
        for closure in closures {
            rt.block_on(closure).unwrap();
        }
        assert_eq!(metrics.blocking_queue_depth(), 0);
        while metrics.num_idle_blocking_threads() == 0 {
            thread::yield_now();
        }
        assert_eq!((metrics.spawned_tasks_count(), metrics.spawned_tasks()), (0, 2));
        drop(_entered);
        drop(rt);
        assert_eq!(metrics.num_idle_blocking_threads(), 0);
    }
}

#[test]
fn wake_ups_without_work() {
    let rt = current_thread();
    let before = rt.metrics().worker_noop_count(0);
    let (wake, woken) = oneshot::channel();
    let metrics = rt.metrics();
    let thread = thread::spawn(move || {
        wait_until_asleep(&metrics);
        wake.send(()).unwrap();
    });
    rt.block_on(woken).unwrap();
    thread.join().unwrap();
    assert!(rt.metrics().worker_noop_count(0) > before);
    let rt = multi_thread(2);
    assert_eq!(rt.metrics().worker_noop_count(1), 1, "it has no thread yet");
}

#[test]
fn an_exact_histogram_counts_each_poll() {
    for (name, mut builder) in serial_builders() {
        let rt = watch(
            "exact",
            builder.enable_metrics_poll_time_histogram().metrics_poll_time_histogram_configuration(
                HistogramConfiguration::log(LogHistogram::default()),
            ),
        );
        assert!(rt.metrics().poll_time_histogram_enabled());
        let metrics = run(rt.runtime, async {
            for _ in 0..1000 {
                wakeful::spawn(yield_now()).await.unwrap();
            }
        });
        let buckets = metrics.poll_time_histogram_num_buckets();
        assert_eq!(buckets, 119);
        let counted: u64 =
            (0..buckets).map(|bucket| metrics.poll_time_histogram_bucket_count(0, bucket)).sum();
        assert_eq!(counted, metrics.worker_poll_count(0), "{name}");
        assert!(counted > 2000);
        assert!(!watch("sampled", &mut builder_of(name)).metrics().poll_time_histogram_enabled());
    }
}

fn builder_of(name: &str) -> Builder {
    serial_builders().into_iter().find(|(other, _)| *other == name).unwrap().1
}

/// Each poll follows one schedule.
#[test]
fn an_exact_histogram_counts_each_schedule() {
    for rt in [
        watch(
            "one thread",
            Builder::new_current_thread().enable_metrics_schedule_latency_histogram(),
        ),
        watch(
            "two workers",
            Builder::new_multi_thread()
                .worker_threads(2)
                .enable_metrics_schedule_latency_histogram(),
        ),
    ] {
        let name = rt.name;
        let metrics = run(rt.runtime, async {
            let mut tasks = JoinSet::new();
            (0..100).for_each(|_| _ = tasks.spawn(async { wakeful::spawn(yield_now()).await }));
            tasks.join_all().await;
        });
        assert!(metrics.schedule_latency_histogram_enabled());
        let count = |metrics: &RuntimeMetrics, worker| {
            let buckets = 0..metrics.schedule_latency_histogram_num_buckets();
            buckets.map(|it| metrics.schedule_latency_histogram_bucket_count(worker, it)).sum()
        };
        assert_eq!(sum(&metrics, count), polls(&metrics), "{name}");
    }
}

/// Without the histogram, a configuration of its buckets has no effect.
#[test]
fn a_histogram_that_is_not_enabled() {
    let metrics = Builder::new_current_thread()
        .metrics_poll_time_histogram_configuration(HistogramConfiguration::linear(
            Duration::from_micros(1),
            3,
        ))
        .build()
        .unwrap()
        .metrics();
    assert!(!metrics.poll_time_histogram_enabled());
    assert_eq!(metrics.poll_time_histogram_num_buckets(), 0);
    assert_eq!(metrics.poll_time_histogram_bucket_count(0, 7), 0);
    assert!(metrics.poll_time_histogram_bucket_range(7).is_empty());
}

#[test]
#[expect(deprecated)]
fn old_settings_of_histograms() {
    let metrics = Builder::new_current_thread()
        .enable_metrics_poll_count_histogram()
        .metrics_poll_count_histogram_scale(wakeful::runtime::HistogramScale::Log)
        .metrics_poll_count_histogram_resolution(Duration::from_micros(50))
        .metrics_poll_count_histogram_buckets(3)
        .build()
        .unwrap()
        .metrics();
    let us = |us: f64| Duration::from_nanos((us * 1000.0) as u64);
    assert_eq!(metrics.poll_count_histogram_num_buckets(), 3);
    assert_eq!(metrics.poll_count_histogram_bucket_range(0), us(0.0)..us(65.536));
    assert_eq!(metrics.poll_count_histogram_bucket_range(1), us(65.536)..us(131.072));
    assert_eq!(metrics.poll_count_histogram_bucket_range(2).start, us(131.072));
    assert_eq!(metrics.poll_count_histogram_bucket_count(0, 2), 0);
}

#[wakeful::test]
async fn descriptors_and_events() {
    use wakeful::io::{AsyncReadExt, AsyncWriteExt};
    let metrics = Handle::current().metrics();
    let (mut near, mut far) = wakeful::net::UnixStream::pair().unwrap();
    assert_eq!(metrics.io_driver_fd_registered_count(), 2);
    near.write_all(b"x").await.unwrap();
    far.read_u8().await.unwrap();
    assert!(metrics.io_driver_ready_count() >= 1);
    drop(near);
    assert_eq!(metrics.io_driver_fd_deregistered_count(), 1);
    drop(far);
    assert_eq!(metrics.io_driver_fd_deregistered_count(), 2);
    assert_eq!(metrics.io_driver_fd_registered_count(), 2);
}
