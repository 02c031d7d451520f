//! Cycles in the wait graph: deadlocks and futurelocks.

use super::edge::Edge;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::{Certainty, Content, Exit};
use crate::inspect::task_info::TaskInfo;
use crate::sys::sort::sort_by_key;
use crate::task::wait_kind::WaitKind;
use std::fmt;

/// The proof or assumption behind the claim that a cycle does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Each task only joins the next one.
    OnlyJoins,
    /// No code of the process can run.
    NothingRuns,
    /// Assumed: each resource is still held by the task that acquired it.
    Acquisition,
    /// Assumed: each resource is still held by the task that acquired it. Some tasks also have
    /// exits.
    Exits,
}

/// A cycle of tasks in which each task waits for the next, and the last for the first.
#[derive(Clone, Debug)]
struct Cycle {
    /// Grouped by task, in the order of the cycle. The first edge of a group leads to the next task.
    edges: Vec<Edge>,
    basis: Basis,
    stamp: Stamp,
}

impl Cycle {
    fn new(mut edges: Vec<Edge>, basis: Basis) -> Self {
        edges.iter_mut().flat_map(|edge| &mut edge.exits).for_each(Exit::describe_descriptor);
        Self { edges, basis, stamp: Stamp::now() }
    }

    /// Returns the edges of each task, in the order of the cycle.
    fn tasks(&self) -> impl Iterator<Item = &[Edge]> {
        self.edges.chunk_by(|edge, next| edge.task == next.task)
    }

    /// Returns whether the cycle is one task that waits for itself.
    fn is_self_cycle(&self) -> bool {
        self.tasks().count() == 1
    }

    fn certainty(&self) -> Certainty {
        match self.basis {
            Basis::OnlyJoins | Basis::NothingRuns => Certainty::Proven,
            Basis::Acquisition | Basis::Exits => Certainty::Suspected,
        }
    }

    fn repeat_key(&self) -> Vec<u64> {
        let mut tasks: Vec<u64> = self.edges.iter().map(|edge| edge.task.id).collect();
        sort_by_key(&mut tasks, |task| *task);
        // Nested `block_on`s of one thread share an id. The resources distinguish them.
        let mut resources: Vec<u64> = self.edges.iter().map(|edge| edge.resource_id).collect();
        sort_by_key(&mut resources, |resource| *resource);
        tasks.extend(resources);
        tasks
    }

    fn has(&self, kind: WaitKind) -> bool {
        self.edges.iter().any(|edge| edge.is_for(kind))
    }

    /// Returns what is assumed not to have moved, as a noun phrase and as a sentence.
    fn assumed(&self) -> (&'static str, &'static str) {
        let guards = [WaitKind::Mutex, WaitKind::RwLockRead, WaitKind::RwLockWrite];
        let has_guards = guards.into_iter().any(|kind| self.has(kind));
        let (permits, receivers) = (self.has(WaitKind::Semaphore), self.has(WaitKind::MpscSend));
        match (has_guards, permits, receivers) {
            _ if self.edges.iter().any(|edge| edge.unpolled) => (
                "a future",
                "each future that was granted a resource is still owned by the task that polled it",
            ),
            (true, false, false) => {
                ("a guard", "each guard is still held by the task that acquired it")
            }
            (false, true, false) => {
                ("a permit", "each permit is still held by the task that acquired it")
            }
            (false, false, true) => (
                "a receiver",
                "each receiver is still owned by the task that last received from it",
            ),
            (false, false, false) => (
                "that future",
                "the future that computes the value is still owned by the task that polled it",
            ),
            _ => (
                "a guard, permit or receiver",
                "each guard, permit and receiver is still held by the task that acquired or last used it",
            ),
        }
    }

    /// Returns whether all tasks wait for the same resource.
    fn has_single_resource(&self) -> bool {
        self.edges.iter().all(|edge| edge.resource_id == self.edges[0].resource_id)
    }

    /// Returns whether all waits are joins, or closures that wait for a pool thread.
    fn is_pool_only(&self) -> bool {
        let kinds = [WaitKind::Join, WaitKind::BlockOn, WaitKind::PoolThread];
        self.has(WaitKind::PoolThread) && self.edges.iter().all(|it| kinds.contains(&it.wait))
    }

    /// Writes the reasons, and what could end the cycle.
    fn write_why(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (they, one) = match self.is_self_cycle() {
            true => ("it", "the task"),
            false => ("they", "one of them"),
        };
        match self.basis {
            Basis::OnlyJoins if self.is_self_cycle() => f.write_str(
                "  why: the task only joins itself, so it can never run again unless it is aborted.\n",
            ),
            Basis::OnlyJoins => writeln!(
                f,
                "  why: each task only joins the next, so they can never run again unless one of them is aborted."
            ),
            Basis::NothingRuns => writeln!(
                f,
                "  why: no code of this process can run: everything waits, there is no timer, no descriptor, no \
                 closure that can continue, and no other thread. So {they} can never run again unless {one} is aborted."
            ),
            Basis::Acquisition if self.is_pool_only() => {
                writeln!(f, "  why: each task or closure waits only for the next.")?;
                writeln!(f, "  assumes: no other closure of the blocking pool ends.")?;
                writeln!(f, "  ends if: a closure of the pool ends, or {one} is aborted.")
            }
            Basis::Acquisition | Basis::Exits => {
                let (moved, assumed) = self.assumed();
                if self.basis == Basis::Exits {
                    self.write_exits(f)?;
                } else {
                    writeln!(f, "  why: {}.", self.queued())?;
                }
                writeln!(f, "  assumes: {assumed}.")?;
                let ends = if self.basis == Basis::Exits { "also ends if" } else { "ends if" };
                write!(f, "  {ends}: {moved} was moved to another task or thread")?;
                if self.has(WaitKind::Semaphore) {
                    f.write_str(", permits are added")?;
                }
                write!(f, ", or {one} is aborted")?;
                f.write_str(match self.edges.iter().any(|edge| edge.may_be_aborted) {
                    true => " (a handle that can abort it is alive).\n",
                    false => ".\n",
                })
            }
        }
    }

    /// Returns the clause that says where the tasks' wakers are queued.
    fn queued(&self) -> &'static str {
        let has_one_wait = self.tasks().all(|edges| edges.len() == 1);
        match (self.is_self_cycle(), has_one_wait) {
            (true, true) => "the task's only waker is queued at the resource that it waits for",
            (true, false) => "each waker of the task is queued at a resource that it waits for",
            (false, true) => {
                "the only waker of each task is queued at the resource that it waits for"
            }
            (false, false) => {
                "each waker of these tasks is queued at a resource that its task waits for"
            }
        }
    }

    /// Writes the exits of all tasks. Nothing else can end the cycle.
    fn write_exits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The edges of one task have the same exits.
        let all = self.tasks().flat_map(|edges| &edges[0].exits).map(Exit::to_string);
        // Tasks that run the same code have equal exits.
        let mut exits: Vec<String> = Vec::new();
        for exit in all {
            if !exits.contains(&exit) {
                exits.push(exit);
            }
        }
        let exits = match &*exits {
            [all @ .., last] if !all.is_empty() => format!("{}; or {last}", all.join("; ")),
            exits => exits.concat(),
        };
        writeln!(f, "  why: only this can end it: {exits}.")
    }

    /// Returns the text after `fix: `.
    fn fix(&self) -> &'static str {
        let all_for = |kind| self.edges.iter().all(|edge| edge.is_for(kind));
        let is_alone = self.is_self_cycle();
        match () {
            () if all_for(WaitKind::MpscSend) => {
                "give the channels enough capacity, or receive while sending."
            }
            () if self.edges.iter().all(Edge::is_for_stream) => {
                "let one side write before it reads, flush buffered writers, or shut down the write half \
                 after the last message."
            }
            () if all_for(WaitKind::OnceCell) => {
                "compute the value without reading it from the same cell."
            }
            () if all_for(WaitKind::Join) && is_alone => {
                "await the handle of a task in another task."
            }
            () if all_for(WaitKind::Join) => {
                "do not join a task from a task that it joins: await one of the handles in a third task."
            }
            () if self.has(WaitKind::PoolThread) => {
                "do not wait in a closure for another closure of the same pool, or raise \
                 Builder::max_blocking_threads."
            }
            () if is_alone && self.edges.len() > 1 => {
                "futures of one task wait for each other, in join! for example: let each of them acquire in the \
                 same order, or drop a guard or permit before it waits again."
            }
            () if is_alone => {
                "drop the first guard or permit before waiting again, for example by ending its block. Another \
                 future of the same task may hold it."
            }
            () if all_for(WaitKind::Semaphore) && self.has_single_resource() => {
                "acquire all permits that a task needs in one call (acquire_many), or release the first one before \
                 waiting for the next."
            }
            () => {
                "acquire locks in the same order everywhere, drop a guard before awaiting a task that needs the lock, \
                 and give channels enough capacity."
            }
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_alone = self.is_self_cycle();
        let indent = if is_alone { "    " } else { "      " };
        for edges in self.tasks() {
            if !is_alone {
                writeln!(f, "    {}", edges[0].task)?;
            }
            for edge in edges {
                edge.write_wait(f, indent, &self.edges)?;
            }
            edges[0].write_origin(f, indent)?;
        }
        Ok(())
    }
}

/// Tasks that wait for each other in a cycle of locks, semaphores, full channels, once-cells and joins.
///
/// A deadlock is [proven](Certainty::Proven) if all of its tasks wait for `JoinHandle`s, or if no
/// code of the process can run any more. Otherwise it is [suspected](Certainty::Suspected): the
/// report assumes that guards, permits and receivers are still held by the tasks that acquired or
/// last used them.
///
/// A task in `select!` or `timeout` can be part of a deadlock. The other branches that the task
/// waits for are then its [exits](Edge::exits), and the deadlock is reported after two seconds
/// without a poll.
///
/// # Examples
///
/// Two tasks that lock two mutexes in opposite order:
///
/// ```
/// use std::sync::Arc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Mutex;
/// use wakeful::task::yield_now;
///
/// # Builder::new_current_thread().on_report(|_| {}).build()?.block_on(async {
/// let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
/// let tasks = [(a.clone(), b.clone()), (b, a)].map(|(first, second)| {
///     wakeful::spawn(async move {
///         let _first = first.lock().await;
///         yield_now().await;
///         let _second = second.lock().await;
///     })
/// });
/// yield_now().await;
/// yield_now().await;
///
/// let found = Handle::current().diagnose();
/// let Report::Deadlock(deadlock) = &found[0] else { panic!("{found:?}") };
/// assert_eq!(deadlock.edges().len(), 2);
/// assert!(deadlock.to_string().starts_with("deadlock (suspected): 2 tasks wait for each other"));
/// # tasks.map(|task| task.abort());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Deadlock(Cycle);

/// A deadlock in which a resource was granted to a future that its task no longer polls.
///
/// For example, a `select!` borrows a `lock()` future, takes another branch, and the future
/// outlives the `select!`. The future then neither uses the lock nor releases it.
///
/// A futurelock is [proven](Certainty::Proven) if no code of the process can run any more.
/// Otherwise it is [suspected](Certainty::Suspected): the program may have moved the future to
/// another task or thread.
///
/// # Examples
///
/// A `select!` that borrows a `lock()` future and takes another branch:
///
/// ```
/// use std::pin::pin;
/// use std::sync::Arc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Mutex;
/// use wakeful::task::yield_now;
///
/// # Builder::new_current_thread().on_report(|_| {}).build()?.block_on(async {
/// let lock = Arc::new(Mutex::new(()));
/// let guard = lock.lock().await;
/// let clone = lock.clone();
/// let task = wakeful::spawn(async move {
///     let mut waiting = pin!(clone.lock());
///     wakeful::select! {
///         _ = &mut waiting => {}
///         _ = yield_now() => drop(clone.lock().await),
///     }
/// });
/// yield_now().await;
/// yield_now().await;
/// drop(guard); // grants the lock to `waiting`, which is not polled any more
/// yield_now().await;
///
/// let found = Handle::current().diagnose();
/// let Report::Futurelock(report) = &found[0] else { panic!("{found:?}") };
/// assert!(report.edges()[0].is_unpolled());
/// # task.abort();
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Futurelock(Cycle);

impl Deadlock {
    pub(crate) fn new(edges: Vec<Edge>, basis: Basis) -> Self {
        Self(Cycle::new(edges, basis))
    }

    /// Returns the edges in the order of the cycle.
    ///
    /// A task that waits for several resources of the cycle, in `join!` for example, has several edges
    /// in a row. The first of them leads to the next task.
    pub fn edges(&self) -> &[Edge] {
        &self.0.edges
    }

    pub(super) fn certainty(&self) -> Certainty {
        self.0.certainty()
    }

    pub(super) fn repeat_key(&self) -> Vec<u64> {
        self.0.repeat_key()
    }

    /// Describes the resources of a task that waits for itself.
    fn own_resource(&self) -> &'static str {
        let is_proven = self.certainty() == Certainty::Proven;
        match self.edges()[0].wait {
            _ if self.edges().len() > 1 && is_proven => "several resources that it already holds",
            _ if self.edges().len() > 1 => "several resources that it acquired itself",
            WaitKind::Join => "its own end",
            WaitKind::OnceCell => "a value that it computes itself",
            WaitKind::Semaphore if is_proven => "permits that it already holds",
            WaitKind::Semaphore => "permits that it acquired itself",
            WaitKind::Mutex if is_proven => "a mutex that it already holds",
            WaitKind::Mutex => "a mutex that it acquired itself",
            _ if is_proven => "a lock that it already holds",
            _ => "a lock that it acquired itself",
        }
    }
}

impl Futurelock {
    pub(crate) fn new(edges: Vec<Edge>, basis: Basis) -> Self {
        Self(Cycle::new(edges, basis))
    }

    /// Returns the edges in the order of the cycle.
    ///
    /// A task that waits for several resources of the cycle, in `join!` for example, has several edges
    /// in a row. The first of them leads to the next task.
    pub fn edges(&self) -> &[Edge] {
        &self.0.edges
    }

    pub(super) fn certainty(&self) -> Certainty {
        self.0.certainty()
    }

    pub(super) fn repeat_key(&self) -> Vec<u64> {
        self.0.repeat_key()
    }
}

impl Content for Deadlock {
    fn stamp(&self) -> &Stamp {
        &self.0.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        self.0.tasks().map(|edges| edges[0].task()).collect()
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        self.edges().iter().flat_map(Edge::sites).collect()
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock ({}): ", self.certainty().name())?;
        match self.0.tasks().count() {
            1 => writeln!(f, "{} waits for {}", self.edges()[0].task, self.own_resource())?,
            tasks => writeln!(f, "{tasks} tasks wait for each other")?,
        }
        self.0.write(f)?;
        self.0.write_why(f)?;
        write!(f, "  fix: {}", self.0.fix())
    }
}

impl Content for Futurelock {
    fn stamp(&self) -> &Stamp {
        &self.0.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        self.0.tasks().map(|edges| edges[0].task()).collect()
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        self.edges().iter().flat_map(Edge::sites).collect()
    }
}

impl fmt::Display for Futurelock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "futurelock ({}): ", self.certainty().name())?;
        match self.edges().iter().find(|edge| edge.unpolled) {
            Some(Edge { holder, .. }) => writeln!(
                f,
                "{holder} was granted the resource through a future that it no longer polls"
            )?,
            None => writeln!(f, "the resource was granted to a future that is no longer polled")?,
        }
        self.0.write(f)?;
        self.0.write_why(f)?;
        f.write_str(
            "  likely cause: a select! over `&mut future` took another branch, and that branch waits for the same \
             resource while the future is still queued for it.\n  \
             fix: drop the future before waiting again (let select! own it), or keep polling it.",
        )
    }
}
