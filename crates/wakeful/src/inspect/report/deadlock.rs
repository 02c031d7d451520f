//! Tasks that wait for each other.

use crate::inspect::who::Who;
use crate::task::header::WaitKind;
use std::fmt;
use std::panic::Location;

/// One arrow of a cycle: a task waits for a thing that another one has.
#[derive(Clone, Debug)]
pub struct Edge {
    pub(crate) task: Who,
    pub(crate) kind: &'static str,
    pub(crate) phrase: &'static str,
    pub(crate) resource: u64,
    pub(crate) site: &'static Location<'static>,
    pub(crate) holder: Who,
    pub(crate) acquired_at: Option<&'static Location<'static>>,
    pub(crate) unpolled: bool,
    pub(crate) ahead: bool,
    pub(crate) may_be_aborted: bool,
}

impl Edge {
    /// The task that waits.
    pub fn task(&self) -> &Who {
        &self.task
    }

    /// What it waits for, by the name of the call: `"Mutex::lock"`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// A number for the thing, the same for all who wait for it.
    pub fn resource(&self) -> u64 {
        self.resource
    }

    /// Where it waits.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// The task that has the thing, or, for a JoinHandle, is awaited.
    pub fn holder(&self) -> &Who {
        &self.holder
    }

    /// Where that one got the thing, or, if it only [is ahead](Self::is_ahead), waits for it;
    /// `None` for a JoinHandle.
    pub fn acquired_at(&self) -> Option<&'static Location<'static>> {
        self.acquired_at
    }

    /// Whether that one has not got it either, but stands before the waiting task in the
    /// queue, and what is free is kept for it: a writer that waits for readers keeps further
    /// readers waiting.
    pub fn is_ahead(&self) -> bool {
        self.ahead
    }

    fn is_for(&self, kind: WaitKind) -> bool {
        self.kind == kind.name()
    }

    /// Whether the thing was handed to a future that was not polled since.
    pub fn is_unpolled(&self) -> bool {
        self.unpolled
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} waits for {} #{:x} at {},\n      {} {}",
            self.task,
            self.phrase,
            self.resource,
            self.site,
            match () {
                () if self.ahead => "behind",
                () if self.is_for(WaitKind::MpscSend) => "from which the last to receive was",
                () => "which is with",
            },
            self.holder
        )?;
        if let Some(site) = self.acquired_at {
            let how = match () {
                () if self.ahead => ", who waits for it",
                () if self.is_for(WaitKind::MpscSend) => ",",
                () => ", got",
            };
            write!(f, "{how} at {site}")?;
        }
        if self.unpolled {
            f.write_str(", by a future that was not polled since")?;
        }
        Ok(())
    }
}

/// The cycle itself: each edge's holder is the next edge's task, around.
#[derive(Clone, Debug)]
struct Cycle(Vec<Edge>);

impl Cycle {
    fn finding(&self) -> Vec<u64> {
        let mut tasks: Vec<u64> = self.0.iter().map(|edge| edge.task.number).collect();
        tasks.sort_unstable();
        // A thread's `block_on`s have one number.
        let mut resources: Vec<u64> = self.0.iter().map(|edge| edge.resource).collect();
        resources.sort_unstable();
        tasks.extend(resources);
        tasks
    }

    /// What could end it after all.
    fn unless(&self) -> &'static str {
        let is_semaphore = |edge: &Edge| edge.is_for(WaitKind::Semaphore);
        let may_be_aborted = self.0.iter().any(|edge| edge.may_be_aborted);
        match (self.0.iter().any(is_semaphore), may_be_aborted) {
            (false, false) => "",
            (true, false) => " unless somebody adds permits",
            (false, true) => " unless one of them is aborted",
            (true, true) => " unless one of them is aborted, or somebody adds permits",
        }
    }

    /// What to do about it.
    fn advice(&self) -> &'static str {
        let all_for = |kind| self.0.iter().all(|edge| edge.is_for(kind));
        let is_alone = self.0.len() == 1;
        match () {
            () if all_for(WaitKind::MpscSend) => {
                "Give the channels room for what is on its way, or receive while sending."
            }
            () if all_for(WaitKind::OnceCell) => {
                "A value cannot be computed from itself: let what computes it do without it."
            }
            () if all_for(WaitKind::Join) => {
                "A task cannot wait for its own end: let somebody else await one of the handles."
            }
            () if is_alone => {
                "Let go of the first guard or permit before waiting again (a block of its own will do), \
                 or pass it on. It may also be with another future of the same task, which is not \
                 polled meanwhile."
            }
            () => {
                "Take locks in the same order everywhere, let go of a guard before awaiting what needs \
                 the lock (a block of its own will do), and give channels room for what is on its way."
            }
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for edge in &self.0 {
            writeln!(f, "    {edge}")?;
        }
        Ok(())
    }
}

/// Tasks that wait for each other in a circle, over locks, semaphores, full channels,
/// once-cells and JoinHandles: none of them can ever run again.
#[derive(Clone, Debug)]
pub struct Deadlock(Cycle);

/// A circle in which something was handed to a future that its task does not poll
/// any more (it lies aside, borrowed by a `select!` that is over, say), so that nobody
/// takes it up, and nobody gives it back.
#[derive(Clone, Debug)]
pub struct Futurelock(Cycle);

impl Deadlock {
    pub(crate) fn new(edges: Vec<Edge>) -> Self {
        Self(Cycle(edges))
    }

    /// Who waits for whom, around the circle.
    pub fn edges(&self) -> &[Edge] {
        &self.0.0
    }

    pub(super) fn finding(&self) -> Vec<u64> {
        self.0.finding()
    }
}

impl Futurelock {
    pub(crate) fn new(edges: Vec<Edge>) -> Self {
        Self(Cycle(edges))
    }

    /// Who waits for whom, around the circle.
    pub fn edges(&self) -> &[Edge] {
        &self.0.0
    }

    pub(super) fn finding(&self) -> Vec<u64> {
        self.0.finding()
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.edges().len();
        if let [edge] = self.edges() {
            write!(f, "{} waits for itself, and can never run again", edge.task)?;
        } else {
            write!(f, "{tasks} tasks wait for each other, and can never run again")?;
        }
        writeln!(f, "{}:", self.0.unless())?;
        self.0.write(f)?;
        write!(f, "  {}", self.0.advice())
    }
}

impl fmt::Display for Futurelock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.edges().iter().find(|edge| edge.unpolled);
        match first {
            Some(edge) => writeln!(
                f,
                "{} was handed what others wait for, through a future that it does not poll any more:",
                edge.holder
            )?,
            None => writeln!(f, "something was handed to a future that is not polled any more:")?,
        }
        self.0.write(f)?;
        f.write_str(
            "  likely cause: a select! over `&mut future` took another branch, and that branch waits \
             for the same thing while the future still has its place in the queue. Drop the future \
             before waiting again (let select! own it), or go on polling it.",
        )
    }
}
