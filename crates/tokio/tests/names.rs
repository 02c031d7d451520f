//! The tokio shim has every public name of tokio 1.54.1 with the features `full` and `test-util`.
//!
//! The names are wakeful's own items, so that a program can use both crates on one runtime.
#![cfg(all(feature = "full", feature = "test-util"))]

/// Uses every name once, so that a missing one does not compile.
macro_rules! names {
    ($($module:ident: $path:path { $($name:ident)* })*) => {
        $(
            mod $module {
                #[allow(unused_imports, reason = "the import alone is the test")]
                use $path::{$($name),*};
            }
        )*
    };
}

#[cfg(tokio_unstable)]
names! {
    unstable_runtime: tokio::runtime {
        HistogramConfiguration HistogramScale InvalidHistogramConfiguration LogHistogram
        LogHistogramBuilder RngSeed TaskMeta UnhandledPanic
    }
    unstable_task: tokio::task {
        Builder
    }
}

#[cfg(all(tokio_unstable, feature = "taskdump"))]
names! {
    unstable_dump: tokio::runtime::dump {
        Dump Task Trace
    }
}

names! {
    root: tokio {
        join main pin select spawn task_local test try_join
    }
    fs: tokio::fs {
        DirBuilder DirEntry File FileTimes OpenOptions ReadDir canonicalize copy create_dir create_dir_all
        hard_link metadata read read_dir read_link read_to_string remove_dir remove_dir_all remove_file
        rename set_permissions symlink symlink_metadata try_exists write
    }
    io: tokio::io {
        AsyncBufRead AsyncBufReadExt AsyncRead AsyncReadExt AsyncSeek AsyncSeekExt AsyncWrite
        AsyncWriteExt BufReader BufStream BufWriter Chain DuplexStream Empty Error ErrorKind Interest Join
        Lines ReadBuf ReadHalf Ready Repeat Result SeekFrom SimplexStream Sink Split Stderr Stdin Stdout
        Take WriteHalf copy copy_bidirectional copy_bidirectional_with_sizes copy_buf duplex empty join
        repeat simplex sink split stderr stdin stdout
    }
    io_unix: tokio::io::unix {
        AsyncFd AsyncFdReadyGuard AsyncFdReadyMutGuard AsyncFdRegisterError TryIoError
    }
    net: tokio::net {
        TcpListener TcpSocket TcpStream ToSocketAddrs UdpSocket UnixDatagram UnixListener UnixSocket
        UnixStream lookup_host
    }
    net_tcp: tokio::net::tcp {
        OwnedReadHalf OwnedWriteHalf ReadHalf ReuniteError WriteHalf
    }
    net_unix: tokio::net::unix {
        OwnedReadHalf OwnedWriteHalf ReadHalf ReuniteError SocketAddr UCred WriteHalf gid_t pid_t uid_t
    }
    net_unix_pipe: tokio::net::unix::pipe {
        OpenOptions Receiver Sender pipe
    }
    process: tokio::process {
        Child ChildStderr ChildStdin ChildStdout Command
    }
    runtime: tokio::runtime {
        Builder EnterGuard Handle Id LocalOptions LocalRuntime Runtime RuntimeFlavor RuntimeMetrics
        TryCurrentError is_rt_shutdown_err worker_index
    }
    signal: tokio::signal {
        ctrl_c
    }
    signal_unix: tokio::signal::unix {
        Signal SignalKind signal
    }
    sync: tokio::sync {
        AcquireError Barrier BarrierWaitResult MappedMutexGuard Mutex MutexGuard Notify OnceCell
        OwnedMappedMutexGuard OwnedMutexGuard OwnedRwLockMappedWriteGuard OwnedRwLockReadGuard
        OwnedRwLockWriteGuard OwnedSemaphorePermit RwLock RwLockMappedWriteGuard RwLockReadGuard
        RwLockWriteGuard Semaphore SemaphorePermit SetError SetOnce SetOnceError TryAcquireError
        TryLockError
    }
    sync_broadcast: tokio::sync::broadcast {
        Receiver Sender WeakSender channel
    }
    sync_broadcast_error: tokio::sync::broadcast::error {
        RecvError SendError TryRecvError
    }
    sync_futures: tokio::sync::futures {
        Notified OwnedNotified
    }
    sync_mpsc: tokio::sync::mpsc {
        OwnedPermit Permit PermitIterator Receiver Sender UnboundedReceiver UnboundedSender WeakSender
        WeakUnboundedSender channel unbounded_channel
    }
    sync_mpsc_error: tokio::sync::mpsc::error {
        SendError SendTimeoutError TryRecvError TrySendError
    }
    sync_oneshot: tokio::sync::oneshot {
        Receiver Sender channel
    }
    sync_oneshot_error: tokio::sync::oneshot::error {
        RecvError TryRecvError
    }
    sync_watch: tokio::sync::watch {
        Receiver Ref Sender channel
    }
    sync_watch_error: tokio::sync::watch::error {
        RecvError SendError
    }
    task: tokio::task {
        AbortHandle Id JoinError JoinHandle JoinSet LocalEnterGuard LocalKey LocalSet block_in_place id
        spawn spawn_blocking spawn_local try_id yield_now
    }
    task_coop: tokio::task::coop {
        Coop RestoreOnPending Unconstrained consume_budget cooperative has_budget_remaining poll_proceed
        unconstrained
    }
    task_futures: tokio::task::futures {
        TaskLocalFuture
    }
    time: tokio::time {
        Duration Instant Interval MissedTickBehavior Sleep Timeout advance interval interval_at pause
        resume sleep sleep_until timeout timeout_at
    }
    time_error: tokio::time::error {
        Elapsed Error
    }
}

#[tokio::test]
async fn both_names_mean_the_same_runtime() {
    let (sender, receiver) = wakeful::sync::oneshot::channel();
    let receiver: tokio::sync::oneshot::Receiver<_> = receiver;
    let task: wakeful::task::JoinHandle<_> = tokio::spawn(async move {
        tokio::time::sleep(tokio::time::Duration::from_millis(1)).await;
        sender.send(wakeful::runtime::Handle::current().id()).unwrap();
    });
    assert_eq!(receiver.await.unwrap(), tokio::runtime::Handle::current().id());
    task.await.unwrap();
}
