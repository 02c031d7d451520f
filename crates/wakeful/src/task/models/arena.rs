//! Loom models of task memory: the return stack, reuse and walks of cells, and the end of an arena.

use crate::sys::sync::{UnsafeCell, thread};
use crate::task::arena::AllFreed;
use crate::task::context;
use crate::task::header::Header;
use crate::task::models::scheduler::{Entries, ModelScheduler, model, spawn, start};
use crate::task::runnable::Runnable;
use crate::task::stack::{Chain, Stack};
use crate::task::state::LIVE;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A mark that threads hand over together with a cell. loom reports missing synchronization.
struct Mark(UnsafeCell<u32>);

// SAFETY: loom checks the accesses.
unsafe impl Send for Mark {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for Mark {}

impl Mark {
    fn new() -> Arc<Mark> {
        Arc::new(Mark(UnsafeCell::new(0)))
    }

    fn touch(&self) {
        // SAFETY: loom checks that no other thread accesses the mark.
        self.0.with_mut(|mark| unsafe { *mark += 1 });
    }
}

fn numbers(entries: &Entries, chain: Chain) -> Vec<usize> {
    // SAFETY: each cell is pushed as its only entry, and taken out once.
    chain.map(|cell| entries.end(unsafe { Runnable::from_cell(cell) })).collect()
}

fn push(entries: &Entries, stack: &Stack, number: usize) -> Option<usize> {
    let cell: NonNull<Header> = entries.make(number).into_cell();
    // SAFETY: the entry was just created, and is in no list.
    let pushed = unsafe { stack.push(cell) };
    // SAFETY: the push failed, so the caller still owns the entry.
    pushed.err().map(|_| entries.end(unsafe { Runnable::from_cell(cell) }))
}

/// Two threads push while a third takes all cells, twice.
///
/// Detects a cell that is lost in concurrent pushes, an early read of a link, and two cells of one
/// pusher in the wrong order.
#[test]
fn stack_takes_all_during_pushes() {
    model(4, || {
        let (entries, stack) = (Entries::new(3), Arc::new(Stack::new()));
        let pushers = [vec![0, 1], vec![2]].map(|own| {
            let (entries, stack) = (entries.clone(), stack.clone());
            thread::spawn(move || {
                for number in own {
                    assert_eq!(push(&entries, &stack, number), None);
                }
            })
        });
        start();
        let mut taken: Vec<usize> = numbers(&entries, stack.take_all().reversed());
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        taken.extend(numbers(&entries, stack.take_all().reversed()));
        let at = |number| taken.iter().position(|&taken| taken == number);
        assert!(at(0) < at(1), "out of order: {taken:?}");
        entries.assert_ended(taken);
    });
}

/// Two threads push while a third closes the stack.
///
/// Detects a cell that is pushed to a closed stack, where no thread would take it.
#[test]
fn stack_closes_during_pushes() {
    model(5, || {
        let (entries, stack) = (Entries::new(2), Arc::new(Stack::new()));
        let pushers = [0, 1].map(|number| {
            let (entries, stack) = (entries.clone(), stack.clone());
            thread::spawn(move || push(&entries, &stack, number))
        });
        start();
        let mut ended = numbers(&entries, stack.close());
        ended.extend(pushers.into_iter().filter_map(|pusher| pusher.join().unwrap()));
        assert!(stack.is_empty() && stack.close().next().is_none());
        entries.assert_ended(ended);
    });
}

/// A cell is freed on another thread while the arena's owner allocates.
///
/// Detects a cell that is allocated while the other thread uses it, a cell that the return stack
/// loses, and a cell that two tasks get.
#[test]
fn cell_freed_on_another_thread_is_reused() {
    model(6, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        context::set_arena(allocator.arena());
        let mark = Mark::new();
        let (task, first) = spawn(&mut allocator, async {});
        let cell = task.into_cell();
        // SAFETY: `into_cell` just gave up this entry.
        unsafe { Runnable::from_cell(cell) }.run();
        let freeing = thread::spawn({
            let mark = mark.clone();
            move || {
                mark.touch();
                drop(first);
            }
        });
        start();
        let next = [(); 2].map(|()| {
            let (task, handle) = spawn(&mut allocator, async {});
            let again = task.into_cell();
            if again == cell {
                mark.touch();
            }
            // SAFETY: `into_cell` just gave up this entry.
            unsafe { Runnable::from_cell(again) }.run();
            (again, handle)
        });
        assert_ne!(next[0].0, next[1].0, "two tasks in one cell");
        drop(next);
        freeing.join().unwrap();
        context::set_arena(std::ptr::null());
        scheduler.close(allocator);
    });
}

/// An arena is closed while two threads free its last cells.
///
/// Detects an end that is reported twice (a double free), never (a leak), or before another thread
/// has finished with its cell.
#[test]
fn arena_closes_while_cells_are_freed() {
    model(5, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        let marks = [Mark::new(), Mark::new()];
        let handles = [(); 2].map(|()| {
            let (task, handle) = spawn(&mut allocator, async {});
            task.run();
            handle
        });
        let threads: Vec<_> = handles
            .into_iter()
            .zip(marks.clone())
            .map(|(handle, mark)| {
                thread::spawn(move || {
                    mark.touch();
                    drop(handle);
                })
            })
            .collect();
        start();
        let all_freed = matches!(allocator.close(), Some(AllFreed));
        if all_freed {
            marks.iter().for_each(|mark| mark.touch());
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let reported = scheduler.arena_ends.load(Relaxed);
        assert_eq!(
            usize::from(all_freed) + reported,
            1,
            "all freed: {all_freed}, reported: {reported}"
        );
    });
}

/// A thread walks the arena while a task ends and its cell is reused.
///
/// Detects a reference to a cell without a task, a reference that does not keep its task alive, and
/// a reference that is released without being counted.
#[test]
fn walk_while_a_cell_is_reused() {
    model(4, || {
        let (scheduler, mut allocator) = ModelScheduler::open();
        context::set_arena(allocator.arena());
        let (task, handle) = spawn(&mut allocator, async {});
        let walker = thread::spawn({
            let scheduler = scheduler.clone();
            move || {
                scheduler.arena().for_each(|task| {
                    let state = task.state();
                    assert!(state.has(LIVE) && state.handles() > 0, "not kept alive: {state:?}");
                });
            }
        });
        start();
        task.run();
        drop(handle);
        let (task, handle) = spawn(&mut allocator, async {});
        task.run();
        walker.join().unwrap();
        assert!(handle.is_finished());
        drop(handle);
        context::set_arena(std::ptr::null());
        scheduler.close(allocator);
    });
}
