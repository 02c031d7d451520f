//! A job queue with bounded workers, retries and a shutdown: `cargo run --example job_queue`.
//!
//! What to look at:
//!
//! - [`JobQueue::submit`] waits while the queue is full, so a producer cannot outrun the workers.
//! - [`run_job`] tries a job several times, each time within a limit, and pauses longer after each
//!   failure. It holds a worker's permit only while an attempt runs, not during the pauses.
//! - [`JobQueue::shutdown`] refuses new jobs, lets submitted jobs finish, and aborts the rest after
//!   a limit.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wakeful::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use wakeful::task::{JoinError, JoinSet};
use wakeful::time::{sleep, timeout};

/// The limits of a queue and its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// The number of attempts that run at a time.
    pub(crate) workers: usize,
    /// The number of jobs in the queue: waiting, running, or between two attempts.
    pub(crate) capacity: usize,
    /// The number of attempts per job.
    pub(crate) attempts: u32,
    /// The time limit of one attempt.
    pub(crate) attempt_limit: Duration,
    /// The pause after the first failure. It doubles after each failure.
    pub(crate) backoff: Duration,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A later attempt may succeed.
    Temporary(String),
    /// No attempt will succeed.
    Permanent(String),
}

/// Why a job has no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobError {
    /// All attempts failed, or one failed permanently. `reason` is the last failure.
    Failed { attempts: u32, reason: String },
    /// The queue was shut down first, or the job panicked.
    Aborted,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Failed { attempts, reason } => {
                write!(f, "failed at attempt {attempts}: {reason}")
            }
            JobError::Aborted => f.write_str("aborted"),
        }
    }
}

/// The error of `submit` after the queue was shut down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// Awaits the output of one job.
pub(crate) struct Ticket<T>(oneshot::Receiver<Result<T, JobError>>);

impl<T> Ticket<T> {
    pub(crate) async fn output(self) -> Result<T, JobError> {
        // If the task was aborted or panicked, its sender was dropped without a value.
        self.0.await.unwrap_or(Err(JobError::Aborted))
    }
}

/// Runs jobs, a few at a time.
pub(crate) struct JobQueue {
    config: Config,
    /// One permit for each free place in the queue.
    room: Arc<Semaphore>,
    /// One permit for each attempt that may run.
    workers: Arc<Semaphore>,
    jobs: Mutex<JoinSet<()>>,
}

impl JobQueue {
    pub(crate) fn new(config: Config) -> Self {
        let room = Arc::new(Semaphore::new(config.capacity));
        let workers = Arc::new(Semaphore::new(config.workers));
        Self { config, room, workers, jobs: Mutex::default() }
    }

    fn jobs(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. Waits while the queue is full.
    ///
    /// `attempt` is called with 1, 2 and so on, until an attempt succeeds. Dropping the ticket does
    /// not cancel the job.
    ///
    /// # Errors
    ///
    /// If the queue was shut down.
    pub(crate) async fn submit<T, F, A>(&self, name: &str, attempt: F) -> Result<Ticket<T>, Closed>
    where
        T: Send + 'static,
        F: Fn(u32) -> A + Send + 'static,
        A: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let place = self.room.clone().acquire_owned().await.map_err(|_| Closed)?;
        let (tx, rx) = oneshot::channel();
        let job = run_job(self.config, self.workers.clone(), place, attempt, tx);
        let mut jobs = self.jobs();
        if self.room.is_closed() {
            return Err(Closed); // closed after the permit was acquired; `shutdown` has counted the jobs
        }
        // A set keeps the results of its tasks until they are taken.
        while let Some(ended) = jobs.try_join_next() {
            print_panic(ended);
        }
        jobs.build_task().name(name).spawn(job).expect("a runtime is there");
        Ok(Ticket(rx))
    }

    /// Refuses new jobs, and waits for the submitted jobs for at most `limit`.
    ///
    /// Returns the number of aborted jobs.
    pub(crate) async fn shutdown(&self, limit: Duration) -> usize {
        let mut jobs = {
            let mut jobs = self.jobs();
            self.room.close();
            std::mem::take(&mut *jobs)
        };
        let all_done = async {
            while let Some(ended) = jobs.join_next().await {
                print_panic(ended);
            }
        };
        if timeout(limit, all_done).await.is_ok() {
            return 0;
        }
        let left = jobs.len();
        jobs.shutdown().await;
        left
    }
}

/// Prints why a job panicked, because its ticket only reports an abort.
fn print_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        eprintln!("a job has ended early: {error}");
    }
}

/// Tries a job until it succeeds or fails permanently, and sends the result to its ticket.
async fn run_job<T, F, A>(
    config: Config,
    workers: Arc<Semaphore>,
    _place: OwnedSemaphorePermit, // released when the job ends, even by an abort or a panic
    attempt: F,
    tx: oneshot::Sender<Result<T, JobError>>,
) where
    F: Fn(u32) -> A,
    A: Future<Output = Result<T, Failure>>,
{
    let mut backoff = config.backoff;
    let mut attempts = 1;
    let output = loop {
        let worker = workers.acquire().await.expect("it is never closed");
        let tried = timeout(config.attempt_limit, attempt(attempts)).await;
        drop(worker);
        let reason = match tried {
            Ok(Ok(output)) => break Ok(output),
            Ok(Err(Failure::Permanent(reason))) => {
                break Err(JobError::Failed { attempts, reason });
            }
            Ok(Err(Failure::Temporary(reason))) => reason,
            Err(_) => format!("took longer than {:?}", config.attempt_limit),
        };
        if attempts == config.attempts {
            break Err(JobError::Failed { attempts, reason });
        }
        attempts += 1;
        sleep(backoff).await;
        backoff *= 2;
    };
    // The submitter may have dropped its ticket.
    let _ = tx.send(output);
}

/// Simulates a download. Page 13 does not exist, and two thirds of the pages need a retry.
async fn download(page: u32, attempt: u32) -> Result<usize, Failure> {
    sleep(Duration::from_millis(5)).await;
    match page {
        13 => Err(Failure::Permanent("no such page".to_owned())),
        page if attempt <= page % 3 => Err(Failure::Temporary("connection reset".to_owned())),
        page => Ok(100 * page as usize),
    }
}

/// Downloads twenty pages.
pub(crate) async fn download_all() {
    let (attempt_limit, backoff) = (Duration::from_secs(1), Duration::from_millis(10));
    let queue =
        JobQueue::new(Config { workers: 4, capacity: 8, attempts: 3, attempt_limit, backoff });
    let mut tickets = Vec::new();
    for page in 1..=20 {
        let job = move |attempt| download(page, attempt);
        tickets.push((
            page,
            queue.submit(&format!("page {page}"), job).await.expect("the queue is open"),
        ));
    }
    let mut bytes = 0;
    for (page, ticket) in tickets {
        match ticket.output().await {
            Ok(size) => bytes += size,
            Err(error) => println!("page {page} {error}"),
        }
    }
    assert_eq!(bytes, 100 * ((1..=20).sum::<usize>() - 13));
    assert_eq!(queue.shutdown(Duration::from_secs(1)).await, 0);
    println!("19 pages, {bytes} bytes");
}

#[wakeful::main]
async fn main() {
    download_all().await;
}
