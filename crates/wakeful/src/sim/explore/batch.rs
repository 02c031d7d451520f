//! A batch: the consecutive runs of a search that one thread makes.
//!
//! A new thread per run would cost more than most runs. But a program may leave values in its
//! thread-locals, which the next run on that thread would find. So a batch ends with the first run that
//! changes a thread-local ([`ThreadImage`]), except for those of wakeful and of the standard library.
//!
//! A batch also ends with a run that is compared with another one. The other run gets a new thread, so
//! the comparison notices state of the thread that its image does not show.

use super::files::SeedWriter;
use super::progress::Progress;
use super::seeds::Seeds;
use super::{Explored, Plan, Program, is_compared};
use crate::sim::api::{Outcome, Supervision};
use crate::sys::thread_image::{KnownWords, ThreadImage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The runs that one thread makes.
pub(super) struct Batch {
    pub(super) program: Program,
    pub(super) seeds: Box<dyn Seeds>,
    pub(super) writer: SeedWriter,
    pub(super) progress: Progress,
    pub(super) explored: Explored,
    /// The number of runs that the search has made.
    pub(super) made: Arc<AtomicU64>,
    pub(super) is_guarded: bool,
    /// The words that a run may change without ending the batch. `None` ends the batch after each run.
    pub(super) known: Option<&'static KnownWords>,
}

/// The state of a search after a batch.
pub(super) struct BatchEnd {
    pub(super) batch: Batch,
    /// The last run, which is not counted yet. `None` if all runs of the search are made.
    pub(super) outcome: Option<Outcome>,
    /// The number of runs that the thread made.
    pub(super) runs: u64,
}

impl Batch {
    /// Makes the runs on the calling thread.
    pub(super) fn run(mut self, supervision: &Supervision) -> BatchEnd {
        let known = self.known.and_then(|known| Some((ThreadImage::take()?, known)));
        let mut runs = 0;
        loop {
            let seed = self.seeds.seed();
            self.writer.write(seed);
            let (strategy, is_guarded) = (self.seeds.strategy(), self.is_guarded);
            let plan = Plan {
                seed,
                strategy,
                window: None,
                is_guarded,
                preemptions: None,
                timeline: None,
            };
            let outcome = (self.program)(plan, supervision);
            runs += 1;
            let number = self.seeds.number();
            let is_thread_new =
                known.as_ref().is_some_and(|(image, known)| image.is_unchanged_except(known));
            let is_over = !is_thread_new
                || outcome.failure().is_some()
                || number.is_some_and(is_compared)
                || supervision.is_abandoned();
            if is_over {
                return BatchEnd { batch: self, outcome: Some(outcome), runs };
            }
            if number.is_some() {
                self.explored.count(&outcome);
            }
            if !self.advance() {
                return BatchEnd { batch: self, outcome: None, runs };
            }
        }
    }

    /// Moves to the next run. Returns false at the end of the search.
    pub(super) fn advance(&mut self) -> bool {
        let made = self.made.fetch_add(1, Relaxed) + 1;
        self.progress.advance(made);
        self.seeds.advance()
    }
}
