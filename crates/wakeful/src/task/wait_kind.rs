//! The kinds of waits that wakeful's own futures record.

use super::wait_target::WaitTarget;

/// The kind of resource or event that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WaitKind {
    /// The end of another task.
    Join = 1,
    /// The next poll, after a yield.
    Yield = 2,
    /// A deadline of a timer.
    Sleep = 3,
    /// A notification.
    Notified = 4,
    /// A mutex that another task holds.
    Mutex = 5,
    /// Shared access to a lock that a writer holds.
    RwLockRead = 6,
    /// Exclusive access to a lock that other tasks hold.
    RwLockWrite = 7,
    /// Permits that other tasks hold.
    Semaphore = 8,
    /// The other tasks at a barrier.
    Barrier = 9,
    /// A value that another task computes.
    OnceCell = 10,
    /// A value that another task is to set.
    SetOnce = 11,
    /// The value of a oneshot channel.
    OneshotRecv = 12,
    /// The drop or close of a oneshot's receiver.
    OneshotClosed = 13,
    /// A message from any sender of a channel.
    MpscRecv = 14,
    /// Capacity for a message.
    MpscSend = 15,
    /// The drop or close of a channel's receiver.
    MpscClosed = 16,
    /// A message of a broadcast channel.
    BroadcastRecv = 17,
    /// The drop of all receivers of a broadcast channel.
    BroadcastClosed = 18,
    /// A new value of a watch channel.
    WatchChanged = 19,
    /// The drop of all receivers of a watch channel.
    WatchClosed = 20,
    /// Data from a descriptor.
    IoRead = 21,
    /// Space in the send buffer of a descriptor.
    IoWrite = 22,
    /// Any readiness of a descriptor.
    IoReady = 23,
    /// An incoming connection.
    Accept = 24,
    /// The end of a connection attempt.
    Connect = 25,
    /// Data in an in-memory pipe.
    MemoryRead = 26,
    /// Space in an in-memory pipe.
    MemoryWrite = 27,
    /// A deadline of `timeout`, which ends the wait of the future inside.
    Timeout = 28,
    /// Data from a file.
    FileRead = 30,
    /// The end of a write to a file.
    FileWrite = 31,
    /// Any other operation on files.
    FileOp = 32,
    /// The exit of a child process.
    ChildExit = 40,
    /// A signal from the kernel.
    Signal = 41,
    /// Data from standard input.
    Stdin = 42,
    /// The end of a write to standard output or standard error.
    Stdout = 43,
    /// The end of a `block_on` that the task has called in its poll.
    BlockOn = 44,
    /// A thread of the blocking pool.
    PoolThread = 45,
    /// A future from outside wakeful; only the site is known.
    Unknown = 255,
}

impl WaitKind {
    /// Returns whether the target number of the wait is a file descriptor.
    pub(crate) fn is_for_descriptor(self) -> bool {
        (WaitKind::IoRead as u8..=WaitKind::Connect as u8).contains(&(self as u8))
    }

    /// Returns whether the target number of the wait is a timer tick.
    pub(crate) fn is_for_timer(self) -> bool {
        matches!(self, WaitKind::Sleep | WaitKind::Timeout)
    }

    /// Returns whether the wait is an exit: it can end without any task releasing a resource.
    ///
    /// Examples are a timer, a signal, a message, and readiness of a descriptor.
    pub(crate) fn is_exit(self) -> bool {
        let is_lock =
            matches!(self, WaitKind::Mutex | WaitKind::RwLockRead | WaitKind::RwLockWrite);
        let is_share =
            matches!(self, WaitKind::Semaphore | WaitKind::MpscSend | WaitKind::OnceCell);
        let is_end = matches!(self, WaitKind::Join | WaitKind::BlockOn | WaitKind::PoolThread);
        !(is_lock || is_share || is_end || matches!(self, WaitKind::Yield | WaitKind::Unknown))
    }

    /// Returns whether the end of the wait usually cancels the task's other waits.
    ///
    /// Examples are a time-out, a signal to shut down, and the end of the other side of a channel.
    pub(crate) fn is_cancellation(self) -> bool {
        matches!(self.rank(), 4 | 6)
    }

    /// Returns the sort rank of the wait in output; a wait that explains more has a lower rank.
    pub(super) fn rank(self) -> u8 {
        match self {
            WaitKind::Yield => 0,
            WaitKind::Mutex | WaitKind::RwLockRead | WaitKind::RwLockWrite => 1,
            WaitKind::Semaphore | WaitKind::MpscSend | WaitKind::Join | WaitKind::OnceCell => 1,
            WaitKind::Barrier | WaitKind::SetOnce => 2,
            WaitKind::Signal | WaitKind::Notified | WaitKind::WatchChanged => 4,
            WaitKind::OneshotClosed | WaitKind::MpscClosed => 4,
            WaitKind::BroadcastClosed | WaitKind::WatchClosed => 4,
            WaitKind::Sleep => 5,
            WaitKind::Timeout => 6,
            WaitKind::Unknown => 7,
            _ => 3,
        }
    }

    /// Returns the kind with this number, or `Unknown` for an unknown number.
    pub(super) fn from_u8(kind: u8) -> Self {
        match kind {
            1 => WaitKind::Join,
            2 => WaitKind::Yield,
            3 => WaitKind::Sleep,
            4 => WaitKind::Notified,
            5 => WaitKind::Mutex,
            6 => WaitKind::RwLockRead,
            7 => WaitKind::RwLockWrite,
            8 => WaitKind::Semaphore,
            9 => WaitKind::Barrier,
            10 => WaitKind::OnceCell,
            11 => WaitKind::SetOnce,
            12 => WaitKind::OneshotRecv,
            13 => WaitKind::OneshotClosed,
            14 => WaitKind::MpscRecv,
            15 => WaitKind::MpscSend,
            16 => WaitKind::MpscClosed,
            17 => WaitKind::BroadcastRecv,
            18 => WaitKind::BroadcastClosed,
            19 => WaitKind::WatchChanged,
            20 => WaitKind::WatchClosed,
            21 => WaitKind::IoRead,
            22 => WaitKind::IoWrite,
            23 => WaitKind::IoReady,
            24 => WaitKind::Accept,
            25 => WaitKind::Connect,
            26 => WaitKind::MemoryRead,
            27 => WaitKind::MemoryWrite,
            28 => WaitKind::Timeout,
            30 => WaitKind::FileRead,
            31 => WaitKind::FileWrite,
            32 => WaitKind::FileOp,
            40 => WaitKind::ChildExit,
            41 => WaitKind::Signal,
            42 => WaitKind::Stdin,
            43 => WaitKind::Stdout,
            44 => WaitKind::BlockOn,
            45 => WaitKind::PoolThread,
            _ => WaitKind::Unknown,
        }
    }

    /// Returns the name of the call that waits, for dumps.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WaitKind::Unknown => "unknown",
            WaitKind::Join => "JoinHandle",
            WaitKind::Yield => "yield_now",
            WaitKind::Sleep => "sleep",
            WaitKind::Timeout => "timeout",
            WaitKind::Notified => "Notify::notified",
            WaitKind::Mutex => "Mutex::lock",
            WaitKind::RwLockRead => "RwLock::read",
            WaitKind::RwLockWrite => "RwLock::write",
            WaitKind::Semaphore => "Semaphore::acquire",
            WaitKind::Barrier => "Barrier::wait",
            WaitKind::OnceCell => "OnceCell::get_or_init",
            WaitKind::SetOnce => "SetOnce::wait",
            WaitKind::OneshotRecv => "oneshot::Receiver",
            WaitKind::OneshotClosed => "oneshot::Sender::closed",
            WaitKind::MpscRecv => "mpsc::Receiver::recv",
            WaitKind::MpscSend => "mpsc::Sender::send",
            WaitKind::MpscClosed => "mpsc::Sender::closed",
            WaitKind::BroadcastRecv => "broadcast::Receiver::recv",
            WaitKind::BroadcastClosed => "broadcast::Sender::closed",
            WaitKind::WatchChanged => "watch::Receiver::changed",
            WaitKind::WatchClosed => "watch::Sender::closed",
            WaitKind::IoRead => "read",
            WaitKind::IoWrite => "write",
            WaitKind::IoReady => "ready",
            WaitKind::Accept => "accept",
            WaitKind::Connect => "connect",
            WaitKind::FileRead => "File::read",
            WaitKind::FileWrite => "File::write",
            WaitKind::FileOp => "fs",
            WaitKind::ChildExit => "Child::wait",
            WaitKind::Signal => "Signal::recv",
            WaitKind::Stdin => "Stdin::read",
            WaitKind::Stdout => "Stdout::write",
            WaitKind::BlockOn => "block_on",
            WaitKind::PoolThread => "spawn_blocking",
            WaitKind::MemoryRead => "in-memory read",
            WaitKind::MemoryWrite => "in-memory write",
        }
    }

    /// Returns a phrase that follows "waiting for" in reports and dumps.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            WaitKind::Unknown => "a future that is not wakeful's own",
            WaitKind::Join => "a task to end (JoinHandle)",
            WaitKind::Yield => "its next poll (yield_now)",
            WaitKind::Sleep => "a timer (sleep or interval)",
            WaitKind::Timeout => "a time-out (timeout)",
            WaitKind::Notified => "a notification (Notify)",
            WaitKind::Mutex => "a lock (Mutex::lock)",
            WaitKind::RwLockRead => "a shared lock (RwLock::read)",
            WaitKind::RwLockWrite => "an exclusive lock (RwLock::write)",
            WaitKind::Semaphore => "permits (Semaphore::acquire)",
            WaitKind::Barrier => "the other tasks to arrive (Barrier::wait)",
            WaitKind::OnceCell => "a value that another task computes (OnceCell)",
            WaitKind::SetOnce => "a value to be set (SetOnce)",
            WaitKind::OneshotRecv => "a value (oneshot::Receiver)",
            WaitKind::OneshotClosed => "the receiver to be dropped (oneshot::Sender::closed)",
            WaitKind::MpscRecv => "a message (mpsc::Receiver)",
            WaitKind::MpscSend => "capacity in a channel (mpsc::Sender)",
            WaitKind::MpscClosed => "the receiver to be dropped (mpsc::Sender::closed)",
            WaitKind::BroadcastRecv => "a message (broadcast::Receiver)",
            WaitKind::BroadcastClosed => "all receivers to be dropped (broadcast::Sender::closed)",
            WaitKind::WatchChanged => "a change (watch::Receiver)",
            WaitKind::WatchClosed => "all receivers to be dropped (watch::Sender::closed)",
            WaitKind::IoRead | WaitKind::MemoryRead => "data to read",
            WaitKind::IoWrite | WaitKind::MemoryWrite => "buffer space to write",
            WaitKind::IoReady => "a descriptor to become ready",
            WaitKind::Accept => "an incoming connection (accept)",
            WaitKind::Connect => "a connection attempt to finish (connect)",
            WaitKind::FileRead => "data from a file",
            WaitKind::FileWrite => "data to be written to a file",
            WaitKind::FileOp => "an operation on a file or directory",
            WaitKind::ChildExit => "a child process to exit (Child::wait)",
            WaitKind::Signal => "a signal",
            WaitKind::Stdin => "standard input",
            WaitKind::Stdout => "a write to standard output or error",
            WaitKind::BlockOn => "a nested block_on",
            WaitKind::PoolThread => "a thread of the blocking pool",
        }
    }

    /// Returns the words that precede the recorded site of a wait, such as "awaited at".
    ///
    /// `of_resource` says that the site is where the resource was created.
    pub(crate) fn site_label(self, target: WaitTarget, of_resource: bool) -> &'static str {
        match (self, target) {
            (WaitKind::Join, WaitTarget::Task(_)) => "spawned at",
            (WaitKind::OneshotRecv, _) => "channel created at",
            (WaitKind::Sleep | WaitKind::Timeout, _) => "created at",
            _ if of_resource => "created at",
            _ => "awaited at",
        }
    }
}
