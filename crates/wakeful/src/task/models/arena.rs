//! Models of the memory of tasks: the stack that cells come home on, a cell that
//! is freed on one thread and reused on another, a walk through all cells meanwhile,
//! and the end of a heap.

use crate::sys::sync::{UnsafeCell, thread};
use crate::task::arena::AllFreed;
use crate::task::context;
use crate::task::header::Header;
use crate::task::models::scheduler::{Entries, TestHome, model, spawn, start};
use crate::task::runnable::Runnable;
use crate::task::stack::{Chain, Stack};
use crate::task::state::LIVE;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A mark that two threads hand over to each other together with a cell; loom
/// reports if they do so without synchronisation.
struct Mark(UnsafeCell<u32>);

// SAFETY: that is what loom checks.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    fn new() -> Arc<Mark> {
        Arc::new(Mark(UnsafeCell::new(0)))
    }

    fn touch(&self) {
        // SAFETY: loom checks that nobody else is at it.
        self.0.with_mut(|mark| unsafe { *mark += 1 });
    }
}

fn numbers(entries: &Entries, chain: Chain) -> Vec<usize> {
    // SAFETY: pushed as the one entry of each cell, taken out once.
    chain.map(|cell| entries.end(unsafe { Runnable::from_cell(cell) })).collect()
}

fn push(entries: &Entries, stack: &Stack, number: usize) -> Option<usize> {
    let cell: NonNull<Header> = entries.make(number).into_cell();
    // SAFETY: made just now, in no list.
    let pushed = unsafe { stack.push(cell) };
    // SAFETY: refused, so it is still ours.
    pushed.err().map(|_| entries.end(unsafe { Runnable::from_cell(cell) }))
}

/// Two threads push, a third takes everything twice. Catches a cell that is
/// lost when two pushes meet, a link that is read before it is written, and a
/// pusher's second cell that overtakes its first.
#[test]
fn two_push_and_one_takes_all() {
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

/// Two threads push while a third closes the stack. Catches a cell that is
/// pushed onto a closed stack, where nobody would ever find it.
#[test]
fn two_push_and_one_closes() {
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

/// A cell is freed on another thread while its owner allocates the next one.
/// Catches a cell that is handed out before the other thread is done with it,
/// one that gets lost on its way home, and one that two tasks get.
#[test]
fn a_cell_freed_elsewhere_comes_home() {
    model(6, || {
        let (home, mut allocator) = TestHome::open();
        context::set_arena(allocator.arena());
        let mark = Mark::new();
        let (task, first) = spawn(&mut allocator, async {});
        let cell = task.into_cell();
        // SAFETY: taken out of the runnable just now.
        unsafe { Runnable::from_cell(cell) }.run();
        let elsewhere = thread::spawn({
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
            // SAFETY: as above.
            unsafe { Runnable::from_cell(again) }.run();
            (again, handle)
        });
        assert_ne!(next[0].0, next[1].0, "two tasks in one cell");
        drop(next);
        elsewhere.join().unwrap();
        context::set_arena(std::ptr::null());
        home.close(allocator);
    });
}

/// A heap is closed while two threads free its last cells. Catches an end that
/// is announced twice (the memory would be freed twice) or never (it leaks), and
/// one that is announced before the other thread is done with its cell.
#[test]
fn a_heap_closes_while_cells_are_freed() {
    model(5, || {
        let (home, mut allocator) = TestHome::open();
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
        let all_gone = matches!(allocator.close(), Some(AllFreed));
        if all_gone {
            marks.iter().for_each(|mark| mark.touch());
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let told = home.heap_gone.load(Relaxed);
        assert_eq!(usize::from(all_gone) + told, 1, "all gone: {all_gone}, told: {told}");
    });
}

/// Somebody walks the heap while a task ends and its cell is used again. Catches a
/// reference to a cell without a task, one that keeps nothing, and one that is given
/// back although it was never taken.
#[test]
fn a_walk_while_a_cell_is_used_again() {
    model(4, || {
        let (home, mut allocator) = TestHome::open();
        context::set_arena(allocator.arena());
        let (task, handle) = spawn(&mut allocator, async {});
        let walker = thread::spawn({
            let home = home.clone();
            move || {
                home.heap().for_each(|task| {
                    let state = task.state();
                    assert!(state.has(LIVE) && state.handles() > 0, "not kept: {state:?}");
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
        home.close(allocator);
    });
}
