//! Who is still there when a work-stealing scheduler shuts down: two counts that decide who
//! drops its tasks and who gives its memory back.
//!
//! Actors: *workers* have a seat from the start; *spares* take one while they may hold tasks; the
//! *monitor* is inside while it looks, and takes a seat while it moves tasks; a thread that *blocks
//! in place* gives its seat to another, or up, and stays inside until its poll has ended.
//!
//! ```text
//! diagram
//!            try_enter_inside()          try_take_seat()                stay_in_poll()
//!      outside ───────────────► inside ──────────────► seated, inside ──────────────► one more inside
//!         ▲                      │  ▲                       │                               │
//!         └── leave_inside() ◄───┘  └──── leave_seat() ◄────┘                               │
//!         └────────────────────────────────────────────────────────── leave_inside() ◄──────┘
//! ```
//!
//! - A1. Whoever moves tasks between queues is seated. The last to leave its seat closes the
//!   injector and drops what is in it, and every other future. So what is moved meanwhile is
//!   found: the monitor that rescues tasks from the ring of a worker puts them into an
//!   injector that is open, or is the last itself.
//! - A2. Whoever may touch a cell of the heaps is inside. The last of all to leave drops what
//!   is left, and closes the heaps. A poll that blocks in place may end after A1 and wants to
//!   put its task back: it finds the injector closed, cancels the task itself, unless the one of A1
//!   has come across it in the heap, and leaves then.
//! - A3. A count that has come to zero stays there: nobody enters any more.
//!
//! The race one fears: somebody enters while the last one leaves. Entering adds one to a count
//! that is not zero, in one step; so either the one who leaves is not the last, or the one who
//! wants to enter finds zero and stays outside. It enters `inside` first: found without a seat
//! to take, it has to leave again, and may be the last of all by then.
//!
//! - A4. No thread runs foreign code that may wait (closures of `block_in_place`, hooks for reports)
//!   while it has a seat: that code may wait for a timer, a descriptor or a task of this runtime,
//!   and these end only after the last thread has left its seat.
//!   The callbacks `on_thread_start`, `on_thread_park` and `on_thread_unpark` are the exception: the
//!   worker goes on to use its core. For these, the thread in `block_on` shuts the drivers itself
//!   (`MultiThread::park_in_block_on`).
//!
//! Orderings: every step acquires and releases, so the last to leave sees what all others did.

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};

pub(crate) struct ShutdownGate {
    seated: AtomicUsize,
    inside: AtomicUsize,
}

/// Who is left.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Others,
    /// Nobody: A1 or A2 is for the one who left.
    Nobody,
}

impl ShutdownGate {
    /// With so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { seated: AtomicUsize::new(workers), inside: AtomicUsize::new(workers) }
    }

    /// Comes inside, unless it is too late (A3).
    pub(crate) fn try_enter_inside(&self) -> bool {
        one_more(&self.inside)
    }

    /// Takes a seat, unless it is too late (A3). By a thread that is inside, and stays there if
    /// it gets none.
    pub(crate) fn try_take_seat(&self) -> bool {
        one_more(&self.seated)
    }

    /// Gives up a seat, and is still inside.
    pub(crate) fn leave_seat(&self) -> Left {
        one_less(&self.seated)
    }

    /// One more is inside: whoever calls is, and gives its seat to another.
    pub(crate) fn stay_in_poll(&self) {
        self.inside.fetch_add(1, AcqRel);
    }

    pub(crate) fn leave_inside(&self) -> Left {
        one_less(&self.inside)
    }
}

fn one_more(count: &AtomicUsize) -> bool {
    let more = |count: usize| (count > 0).then_some(count + 1);
    count.fetch_update(AcqRel, Acquire, more).is_ok()
}

fn one_less(count: &AtomicUsize) -> Left {
    match count.fetch_sub(1, AcqRel) {
        0 => unreachable!("who leaves was there"),
        1 => Left::Nobody,
        _ => Left::Others,
    }
}
