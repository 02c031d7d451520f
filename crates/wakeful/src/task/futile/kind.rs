//! The kinds of results that cannot change.

use std::time::Duration;

/// A call whose result stays the same, however often it is repeated.
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
    /// The name of the call.
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

    /// Whether the resource is a descriptor, and its number the id.
    pub(crate) fn is_for_descriptor(self) -> bool {
        matches!(self, FutileKind::StreamRead | FutileKind::StreamTryRead | FutileKind::Accept(_))
    }

    /// Whether each call may wait for another thread, although its result is known.
    pub(super) fn may_wait(self) -> bool {
        matches!(self, FutileKind::FileRead | FutileKind::StdinRead)
    }

    /// The CPU time between two results up to which the loop does nothing else.
    ///
    /// It is far above what the call itself takes in a debug build, and below what a loop takes that
    /// does work in each round.
    pub(super) fn longest_round(self) -> Duration {
        match self {
            // Loops that work often ask without waiting whether there is a message.
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

    /// How many results make a loop.
    pub(super) fn fewest_results(self) -> u32 {
        if self.may_wait() { 2_000 } else { 10_000 }
    }
}
