//! The kinds of calls whose result may be final.

use std::time::Duration;

/// A call whose result is final: repeating the call returns the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FutileKind {
    /// The table entry is free.
    None,
    MpscRecv,
    MpscRecvMany,
    MpscTryRecv,
    OneshotTryRecv,
    BroadcastRecv,
    BroadcastTryRecv,
    WatchChanged,
    SemaphoreAcquire,
    JoinNext,
    Sleep,
    StreamRead,
    StreamTryRead,
    MemoryRead,
    FileRead,
    StdinRead,
    /// The error, as the kernel's number.
    Accept(i32),
}

impl FutileKind {
    /// Returns the name of the call.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            FutileKind::None => "nothing",
            FutileKind::MpscRecv => "mpsc::Receiver::recv",
            FutileKind::MpscRecvMany => "mpsc::Receiver::recv_many",
            FutileKind::MpscTryRecv => "mpsc::Receiver::try_recv",
            FutileKind::OneshotTryRecv => "oneshot::Receiver::try_recv",
            FutileKind::BroadcastRecv => "broadcast::Receiver::recv",
            FutileKind::BroadcastTryRecv => "broadcast::Receiver::try_recv",
            FutileKind::WatchChanged => "watch::Receiver::changed",
            FutileKind::SemaphoreAcquire => "Semaphore::acquire",
            FutileKind::JoinNext => "JoinSet::join_next",
            FutileKind::Sleep => "Sleep",
            FutileKind::StreamRead
            | FutileKind::MemoryRead
            | FutileKind::FileRead
            | FutileKind::StdinRead => "read",
            FutileKind::StreamTryRead => "try_read",
            FutileKind::Accept(_) => "accept",
        }
    }

    /// Returns whether the resource is a descriptor, identified by its number.
    pub(crate) fn is_for_descriptor(self) -> bool {
        matches!(self, FutileKind::StreamRead | FutileKind::StreamTryRead | FutileKind::Accept(_))
    }

    /// Returns whether the result counts only if it wins a `select!`, because a later call may
    /// return another result.
    pub(super) fn is_tentative(self) -> bool {
        self == FutileKind::JoinNext
    }

    /// Returns whether each call may wait for another thread, although its result is final.
    pub(super) fn may_wait(self) -> bool {
        matches!(self, FutileKind::FileRead | FutileKind::StdinRead)
    }

    /// Returns the CPU time between two results below which the loop counts as doing no other work.
    ///
    /// The time is far above that of the call itself in a debug build, and below that of a loop
    /// that works in each iteration.
    pub(super) fn longest_round(self) -> Duration {
        match self {
            // A loop that does work often checks for a message without waiting.
            FutileKind::MpscTryRecv | FutileKind::OneshotTryRecv | FutileKind::BroadcastTryRecv => {
                Duration::from_micros(2)
            }
            // A system call or a job on the blocking pool, and perhaps a line in a log.
            FutileKind::StreamRead
            | FutileKind::StreamTryRead
            | FutileKind::FileRead
            | FutileKind::StdinRead
            | FutileKind::Accept(_) => Duration::from_micros(50),
            _ => Duration::from_micros(10),
        }
    }

    /// Returns how many results a streak needs to be a loop.
    pub(super) fn fewest_results(self) -> u32 {
        if self.may_wait() { 2_000 } else { 10_000 }
    }
}
