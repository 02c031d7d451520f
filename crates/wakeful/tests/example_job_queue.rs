//! The example `job_queue`: its program, and its guarantees on a paused clock.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::sync::{Barrier, Notify};
use wakeful::task::may_wait_forever;
use wakeful::time::{Instant, sleep};

#[path = "../examples/job_queue.rs"]
#[allow(dead_code, reason = "its main function has a runtime of its own")]
mod job_queue;
mod support {
    pub mod runtimes;
}
use job_queue::{Closed, Config, Failure, JobError, JobQueue};
use support::runtimes::{TestRuntime, watch};

const CONFIG: Config = Config {
    workers: 2,
    capacity: 4,
    attempts: 3,
    attempt_limit: Duration::from_secs(10),
    backoff: Duration::from_secs(1),
};

/// A runtime whose clock jumps to the next timer when all tasks wait.
fn paused() -> TestRuntime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_orphan(OrphanPolicy::Panic);
    watch("paused", &mut builder)
}

#[test]
fn its_program_runs() {
    let rt = paused();
    rt.block_on(job_queue::download_all());
}

/// Each attempt waits at a barrier for a second attempt. So the jobs end only if two attempts run at the same time.
#[test]
fn concurrent_attempts_are_limited() {
    const JOBS: usize = 100;
    // The wait for the second attempt takes as long as a busy machine needs.
    let config = Config { attempt_limit: Duration::from_secs(3_600), ..CONFIG };
    let mut multi = Builder::new_multi_thread();
    multi.worker_threads(2).enable_all().on_orphan(OrphanPolicy::Panic);
    for rt in [paused(), watch("multi_thread", &mut multi)] {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let pairs = Arc::new(Barrier::new(config.workers));
        assert_eq!(JOBS % config.workers, 0, "no attempt is left alone at the barrier");
        rt.block_on(async {
            let queue = JobQueue::new(config);
            let mut tickets = Vec::new();
            for n in 0..JOBS {
                let (running, most, pairs) = (running.clone(), most.clone(), pairs.clone());
                let job = move |_| {
                    let (running, most, pairs) = (running.clone(), most.clone(), pairs.clone());
                    async move {
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        pairs.wait().await;
                        running.fetch_sub(1, SeqCst);
                        Ok(n)
                    }
                };
                tickets.push(queue.submit("count", job).await.unwrap());
            }
            for (n, ticket) in tickets.into_iter().enumerate() {
                assert_eq!(ticket.output().await, Ok(n));
            }
            assert_eq!(queue.shutdown(Duration::from_secs(60)).await, 0);
        });
        assert_eq!((running.load(SeqCst), most.load(SeqCst)), (0, config.workers), "{}", rt.name);
    }
}

#[test]
fn a_full_queue_makes_the_producer_wait() {
    let rt = paused();
    rt.block_on(async {
        let (queue, start) = (JobQueue::new(CONFIG), Instant::now());
        let job = |_| async {
            sleep(Duration::from_secs(5)).await;
            Ok(())
        };
        for _ in 0..CONFIG.capacity {
            queue.submit("slow", job).await.unwrap();
        }
        assert_eq!(start.elapsed().as_secs(), 0);
        queue.submit("one too many", job).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 5, "the first jobs had to end");
        assert_eq!(queue.shutdown(Duration::from_secs(60)).await, 0);
        assert_eq!(start.elapsed().as_secs(), 15, "five jobs, two at a time");
    });
}

#[test]
fn a_failure_is_retried_with_longer_and_longer_pauses() {
    let rt = paused();
    rt.block_on(async {
        let (queue, start) = (JobQueue::new(CONFIG), Instant::now());
        let job = |attempt| async move {
            if attempt < 3 { Err(Failure::Temporary("not yet".to_owned())) } else { Ok(attempt) }
        };
        assert_eq!(queue.submit("third time lucky", job).await.unwrap().output().await, Ok(3));
        assert_eq!(start.elapsed().as_secs(), 1 + 2);

        let job = |_| async { Err::<(), _>(Failure::Temporary("never".to_owned())) };
        let error = queue.submit("unlucky", job).await.unwrap().output().await;
        assert_eq!(error, Err(JobError::Failed { attempts: 3, reason: "never".to_owned() }));

        let job = |_| async { Err::<(), _>(Failure::Permanent("no such page".to_owned())) };
        let error = queue.submit("hopeless", job).await.unwrap().output().await.unwrap_err();
        assert_eq!(error.to_string(), "failed at attempt 1: no such page");
    });
}

#[test]
fn an_attempt_has_a_limit_and_a_pause_holds_no_worker() {
    let rt = paused();
    rt.block_on(async {
        let (queue, start) = (JobQueue::new(Config { workers: 1, ..CONFIG }), Instant::now());
        let hangs =
            queue.submit("hangs", |_| may_wait_forever(pending::<Result<(), _>>())).await.unwrap();
        let quick = queue.submit("quick", |_| async { Ok(()) }).await.unwrap();
        assert_eq!(quick.output().await, Ok(()));
        assert_eq!(
            start.elapsed().as_secs(),
            10,
            "one attempt of the job before it, not its pause"
        );
        let reason = "took longer than 10s".to_owned();
        assert_eq!(hangs.output().await, Err(JobError::Failed { attempts: 3, reason }));
        assert_eq!(start.elapsed().as_secs(), 10 + 1 + 10 + 2 + 10);
    });
}

#[test]
fn a_shutdown_finishes_what_it_can_and_aborts_the_rest() {
    let rt = paused();
    rt.block_on(async {
        let (queue, start) = (Arc::new(JobQueue::new(CONFIG)), Instant::now());
        let job = |_| async {
            sleep(Duration::from_secs(5)).await;
            Ok("done")
        };
        let mut tickets = Vec::new();
        for _ in 0..CONFIG.capacity {
            tickets.push(queue.submit("slow", job).await.unwrap());
        }
        let (producer, waits) = (queue.clone(), Arc::new(Notify::new()));
        let says = waits.clone();
        let producer = wakeful::spawn(async move {
            says.notify_one();
            producer.submit("late", job).await.err()
        });
        waits.notified().await;
        assert_eq!(queue.shutdown(Duration::from_secs(7)).await, 2);
        assert_eq!(start.elapsed().as_secs(), 7);
        assert_eq!(producer.await.unwrap(), Some(Closed));
        assert_eq!(queue.submit("too late", job).await.err(), Some(Closed));
        let mut outputs = Vec::new();
        for ticket in tickets {
            outputs.push(ticket.output().await);
        }
        assert_eq!(
            outputs,
            [Ok("done"), Ok("done"), Err(JobError::Aborted), Err(JobError::Aborted)]
        );
    });
}

#[test]
fn a_panic_ends_its_job_only() {
    let rt = paused();
    rt.block_on(async {
        let queue = JobQueue::new(Config { capacity: 1, ..CONFIG });
        let job = |_| async { panic!("the page has no title") };
        let panics = queue.submit::<(), _, _>("panics", job).await.unwrap();
        assert_eq!(panics.output().await, Err(JobError::Aborted));
        let next = queue.submit("next", |_| async { Ok(7) }).await.unwrap();
        assert_eq!(next.output().await, Ok(7), "there is room again, and a worker");
    });
}
