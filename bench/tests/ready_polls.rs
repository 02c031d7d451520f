//! Counts the polls of an always-ready operation until it yields, on tokio and on wakeful.
//!
//! A loop over an operation that never yields starves its worker. Where tokio's operation yields,
//! wakeful's must. Two operations are left out, as they cannot be ready twice within one poll of a
//! task: signals, which the driver delivers, and `yield_now`.
#![cfg(feature = "wakeful")]

/// This number of ready polls in one poll of a task counts as "never".
const NEVER: usize = 10_000;

/// What was counted for each operation.
type Table = Vec<(&'static str, usize)>;

/// `side!(tokio)` counts on that crate.
macro_rules! side {
    ($name:ident) => {
        mod $name {
            use super::{NEVER, Table};
            use ::$name::fs::{self, File};
            use ::$name::io::unix::AsyncFd;
            use ::$name::io::{
                self, AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader,
                BufStream, BufWriter, Interest, SeekFrom,
            };
            use ::$name::net::{
                TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
            };
            use ::$name::process::Command;
            use ::$name::runtime::Builder;
            use ::$name::sync::{
                Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce, broadcast, mpsc,
                oneshot, watch,
            };
            use ::$name::task::{self, JoinSet};
            use ::$name::time::{self, Duration, Instant};
            use std::future::poll_fn;
            use std::io::Cursor;
            use std::pin::pin;
            use std::sync::Arc;
            use std::task::Poll;

            /// Polls an operation, made anew each time, until it is pending.
            async fn count(mut operation: impl AsyncFnMut()) -> usize {
                // With a full budget.
                task::yield_now().await;
                let mut ready = 0;
                poll_fn(|cx| {
                    while ready < NEVER {
                        if pin!(operation()).as_mut().poll(cx).is_pending() {
                            break;
                        }
                        ready += 1;
                    }
                    Poll::Ready(ready)
                })
                .await
            }

            pub fn table() -> Table {
                let runtime = Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("it starts");
                runtime.block_on(async {
                    let tasks = [
                        task::spawn(locks()),
                        task::spawn(channels()),
                        task::spawn(other_sync()),
                        task::spawn(time_and_tasks()),
                        task::spawn(memory()),
                        task::spawn(buffered()),
                        task::spawn(sockets()),
                        task::spawn(files()),
                        task::spawn(processes()),
                    ];
                    let mut table = Table::new();
                    for task in tasks {
                        table.extend(task.await.expect("it counts to the end"));
                    }
                    table
                })
            }

            /// `row!(table, "what", operation)`.
            macro_rules! row {
                ($table:ident, $what:literal, $operation:expr) => {
                    $table.push(($what, count(async || _ = $operation).await))
                };
            }

            async fn locks() -> Table {
                let mut table = Table::new();
                let mutex = Arc::new(Mutex::new(0));
                row!(table, "Mutex::lock", mutex.lock().await);
                row!(table, "Mutex::lock_owned", mutex.clone().lock_owned().await);
                let lock = Arc::new(RwLock::new(0));
                row!(table, "RwLock::read", lock.read().await);
                row!(table, "RwLock::write", lock.write().await);
                row!(table, "RwLock::read_owned", lock.clone().read_owned().await);
                row!(table, "RwLock::write_owned", lock.clone().write_owned().await);
                let permits = Arc::new(Semaphore::new(5));
                row!(table, "Semaphore::acquire", permits.acquire().await);
                row!(table, "Semaphore::acquire_many", permits.acquire_many(3).await);
                row!(table, "Semaphore::acquire_owned", permits.clone().acquire_owned().await);
                row!(table, "Semaphore::acquire_many_owned", {
                    permits.clone().acquire_many_owned(2).await
                });
                permits.close();
                row!(table, "Semaphore::acquire, closed", permits.acquire().await);
                table
            }

            async fn channels() -> Table {
                let mut table = Table::new();
                let (tx, mut rx) = mpsc::channel(2 * NEVER);
                row!(table, "mpsc::Sender::send", tx.send(0).await);
                row!(table, "mpsc::Receiver::recv", rx.recv().await);
                row!(table, "mpsc::Sender::reserve", tx.reserve().await);
                row!(table, "mpsc::Sender::reserve_many", tx.reserve_many(3).await);
                row!(table, "mpsc::Sender::reserve_owned", tx.clone().reserve_owned().await);
                while rx.try_recv().is_ok() {}
                (0..NEVER).for_each(|value| tx.try_send(value).expect("there is room"));
                let mut many = Vec::new();
                row!(table, "mpsc::Receiver::recv_many", rx.recv_many(&mut many, 1).await);
                row!(table, "mpsc::Receiver::recv_many of none", {
                    rx.recv_many(&mut Vec::new(), 0).await
                });
                row!(table, "mpsc::Sender::send_timeout", {
                    tx.send_timeout(0, Duration::from_secs(1)).await
                });
                rx.close();
                while rx.try_recv().is_ok() {}
                row!(table, "mpsc::Receiver::recv, closed", rx.recv().await);
                row!(table, "mpsc::Sender::send, closed", tx.send(0).await);
                row!(table, "mpsc::Sender::closed", tx.closed().await);
                let (tx, mut rx) = mpsc::unbounded_channel();
                (0..NEVER).for_each(|value| tx.send(value).expect("it is open"));
                row!(table, "mpsc::UnboundedReceiver::recv", rx.recv().await);
                (0..NEVER).for_each(|value| tx.send(value).expect("it is open"));
                row!(table, "mpsc::UnboundedReceiver::recv_many", {
                    rx.recv_many(&mut many, 1).await
                });
                drop(rx);
                row!(table, "mpsc::UnboundedSender::closed", tx.closed().await);
                row!(table, "oneshot::Receiver", {
                    let (tx, rx) = oneshot::channel();
                    tx.send(0).expect("it is open");
                    rx.await
                });
                row!(table, "oneshot::Sender::closed", {
                    let (mut tx, rx) = oneshot::channel::<u8>();
                    drop(rx);
                    tx.closed().await
                });
                let (tx, mut rx) = broadcast::channel(NEVER);
                (0..NEVER).for_each(|value| drop(tx.send(value)));
                row!(table, "broadcast::Receiver::recv", rx.recv().await);
                drop(rx);
                row!(table, "broadcast::Sender::closed", tx.closed().await);
                let (tx, mut rx) = watch::channel(true);
                row!(table, "watch::Receiver::changed", {
                    tx.send(true).expect("it is open");
                    rx.changed().await
                });
                row!(table, "watch::Receiver::wait_for", rx.wait_for(|value| *value).await);
                drop(rx);
                row!(table, "watch::Sender::closed", tx.closed().await);
                let mut rx = tx.subscribe();
                drop(tx);
                row!(table, "watch::Receiver::changed, closed", rx.changed().await);
                table
            }

            async fn other_sync() -> Table {
                let mut table = Table::new();
                let notify = Arc::new(Notify::new());
                row!(table, "Notify::notified with a permit", {
                    notify.notify_one();
                    notify.notified().await
                });
                row!(table, "Notify::notified_owned with a permit", {
                    notify.notify_one();
                    notify.clone().notified_owned().await
                });
                let barrier = Barrier::new(1);
                row!(table, "Barrier::wait of one", barrier.wait().await);
                let cell = OnceCell::new_with(Some(0));
                row!(table, "OnceCell::get_or_init", cell.get_or_init(async || 0).await);
                row!(table, "OnceCell::get_or_init of a new one", {
                    let cell = OnceCell::new();
                    cell.get_or_init(async || 0).await;
                });
                row!(table, "OnceCell::get_or_try_init", {
                    cell.get_or_try_init(async || Err(())).await
                });
                let set = SetOnce::new_with(Some(0));
                row!(table, "SetOnce::wait", set.wait().await);
                table
            }

            async fn time_and_tasks() -> Table {
                let mut table = Table::new();
                let past = Instant::now();
                row!(table, "sleep of zero", time::sleep(Duration::ZERO).await);
                row!(table, "sleep_until the past", time::sleep_until(past).await);
                row!(table, "timeout of a ready future", {
                    time::timeout(Duration::from_secs(1), async {}).await
                });
                row!(table, "timeout of zero", {
                    time::timeout(Duration::ZERO, std::future::pending::<()>()).await
                });
                row!(table, "timeout_at the past", {
                    time::timeout_at(past, std::future::pending::<()>()).await
                });
                let mut ticks = time::interval_at(past, Duration::from_nanos(1));
                row!(table, "Interval::tick", ticks.tick().await);

                let mut handles: Vec<_> = (0..NEVER).map(|_| task::spawn(async {})).collect();
                while handles.iter().any(|handle| !handle.is_finished()) {
                    task::yield_now().await;
                }
                row!(table, "JoinHandle", handles.pop().expect("there are enough").await);
                let mut set = JoinSet::new();
                let finished = Arc::new(std::sync::atomic::AtomicUsize::new(0));
                for _ in 0..NEVER {
                    let finished = finished.clone();
                    set.spawn(
                        async move { finished.fetch_add(1, std::sync::atomic::Ordering::SeqCst) },
                    );
                }
                while finished.load(std::sync::atomic::Ordering::SeqCst) < NEVER {
                    task::yield_now().await;
                }
                row!(table, "JoinSet::join_next", set.join_next().await);
                row!(table, "JoinSet::join_next_with_id", set.join_next_with_id().await);
                let mut none = JoinSet::<()>::new();
                row!(table, "JoinSet::join_next of an empty one", none.join_next().await);
                row!(table, "consume_budget", task::consume_budget().await);
                row!(table, "unconstrained", task::unconstrained(task::consume_budget()).await);
                row!(table, "join! of ready futures", ::$name::join!(async {}, async {}));
                row!(table, "select! of a ready future", {
                    ::$name::select! { () = async {} => (), () = async {} => () }
                });
                row!(table, "lookup_host of an address", {
                    drop(::$name::net::lookup_host("127.0.0.1:80").await)
                });
                table
            }

            async fn memory() -> Table {
                let mut table = Table::new();
                let (mut byte, data) = ([0; 1], vec![b'x'; 3 * NEVER]);
                let mut bytes = &data[..];
                row!(table, "read of a slice", bytes.read(&mut byte).await);
                let mut cursor = Cursor::new(data.clone());
                row!(table, "read of a Cursor", cursor.read(&mut byte).await);
                row!(table, "write to a Cursor", cursor.write(&byte).await);
                row!(table, "seek of a Cursor", cursor.seek(SeekFrom::Start(0)).await);
                row!(table, "rewind of a Cursor", cursor.rewind().await);
                row!(table, "stream_position of a Cursor", cursor.stream_position().await);
                row!(table, "read_u8", cursor.read_u8().await);
                row!(table, "write_u8", cursor.write_u8(0).await);
                row!(table, "read_exact", cursor.read_exact(&mut byte).await);
                row!(table, "read_to_end", (&data[..]).read_to_end(&mut Vec::new()).await);
                row!(
                    table,
                    "read_to_string",
                    (&data[..1]).read_to_string(&mut String::new()).await
                );
                row!(table, "read_buf", (&data[..1]).read_buf(&mut Vec::with_capacity(4)).await);
                row!(table, "flush of a Vec", Vec::new().flush().await);
                row!(table, "shutdown of a Vec", Vec::new().shutdown().await);
                row!(table, "write to a Vec", Vec::new().write(&byte).await);
                row!(table, "write_all to a Vec", Vec::new().write_all(&byte).await);
                row!(table, "read of empty", io::empty().read(&mut byte).await);
                row!(table, "fill_buf of empty", io::empty().fill_buf().await);
                row!(table, "write to empty", io::empty().write(&byte).await);
                row!(table, "flush of empty", io::empty().flush().await);
                row!(table, "shutdown of empty", io::empty().shutdown().await);
                row!(table, "seek in empty", io::empty().seek(SeekFrom::Start(0)).await);
                row!(table, "read of repeat", io::repeat(0).read(&mut byte).await);
                row!(table, "write to sink", io::sink().write(&byte).await);
                row!(table, "flush of sink", io::sink().flush().await);
                row!(table, "shutdown of sink", io::sink().shutdown().await);
                let (mut one, mut other) = io::duplex(3 * NEVER);
                row!(table, "write to a duplex", one.write(&byte).await);
                row!(table, "read of a duplex", other.read(&mut byte).await);
                row!(table, "flush of a duplex", one.flush().await);
                row!(table, "shutdown of a duplex", one.shutdown().await);
                let (mut reader, mut writer) = io::simplex(3 * NEVER);
                row!(table, "write to a simplex", writer.write(&byte).await);
                row!(table, "read of a simplex", reader.read(&mut byte).await);
                let (mut reader, mut writer) = io::split(other);
                row!(table, "write to half of a split", writer.write(&byte).await);
                row!(table, "flush of half of a split", writer.flush().await);
                one = io::duplex(1).0;
                drop(one);
                row!(table, "read of half of a split, at the end", reader.read(&mut byte).await);
                row!(table, "take", io::repeat(0).take(1).read(&mut byte).await);
                row!(table, "chain", io::empty().chain(io::repeat(0)).read(&mut byte).await);
                row!(
                    table,
                    "chain of slices",
                    (&data[..1]).chain(&data[..1]).read(&mut byte).await
                );
                row!(table, "join", io::join(io::repeat(0), io::sink()).read(&mut byte).await);
                table
            }

            async fn buffered() -> Table {
                let mut table = Table::new();
                let (mut byte, data) = ([0; 1], b"x\n".repeat(2 * NEVER));
                let mut reader = BufReader::new(&data[..]);
                row!(table, "read of a BufReader", reader.read(&mut byte).await);
                row!(table, "fill_buf of a BufReader", reader.fill_buf().await);
                row!(table, "read_until", reader.read_until(b'\n', &mut Vec::new()).await);
                row!(table, "read_line", reader.read_line(&mut String::new()).await);
                let mut lines = (&data[..]).lines();
                row!(table, "Lines::next_line", lines.next_line().await);
                let mut parts = AsyncBufReadExt::split(&data[..], b'\n');
                row!(table, "Split::next_segment", parts.next_segment().await);
                let mut reader = BufReader::new(Cursor::new(&data[..]));
                row!(table, "seek of a BufReader", reader.seek(SeekFrom::Start(0)).await);
                row!(table, "stream_position of a BufReader", reader.stream_position().await);
                let mut reader = BufReader::with_capacity(1, io::repeat(0));
                row!(table, "read of a BufReader of repeat", reader.read(&mut byte).await);
                let mut writer = BufWriter::new(Vec::new());
                row!(table, "write to a BufWriter", writer.write(&byte).await);
                row!(table, "flush of a BufWriter", writer.flush().await);
                row!(table, "shutdown of a BufWriter", writer.shutdown().await);
                let mut stream = BufStream::new(Cursor::new(vec![0; 3 * NEVER]));
                row!(table, "read of a BufStream", stream.read(&mut byte).await);
                row!(table, "seek of a BufStream", stream.seek(SeekFrom::Start(0)).await);
                row!(table, "copy of nothing", io::copy(&mut io::empty(), &mut io::sink()).await);
                row!(table, "copy of a slice to a Vec", {
                    io::copy(&mut &data[..2], &mut Vec::new()).await
                });
                row!(table, "copy_buf of nothing", {
                    io::copy_buf(&mut io::empty(), &mut io::sink()).await
                });
                row!(table, "copy_buf of a slice to a Vec", {
                    io::copy_buf(&mut &data[..2], &mut Vec::new()).await
                });
                row!(table, "copy_bidirectional of nothing", {
                    io::copy_bidirectional(&mut io::empty(), &mut io::empty()).await
                });
                table
            }

            async fn sockets() -> Table {
                let mut table = Table::new();
                let mut byte = [0; 1];
                let socket = TcpSocket::new_v4().expect("there are descriptors");
                socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
                let listener = socket.listen(1024).expect("it is bound");
                let address = listener.local_addr().expect("it is bound");
                let connect = TcpStream::connect(address).await;
                let mut client = connect.expect("it listens");
                let (mut server, _) = listener.accept().await.expect("it was connected to");
                client.write_all(&vec![0; 3 * NEVER]).await.expect("it fits");
                server.readable().await.expect("it is open");
                row!(table, "TcpStream::read", server.read(&mut byte).await);
                row!(table, "TcpStream::peek", server.peek(&mut byte).await);
                row!(table, "TcpStream::readable", server.readable().await);
                row!(table, "TcpStream::writable", server.writable().await);
                row!(table, "TcpStream::ready", server.ready(Interest::WRITABLE).await);
                row!(table, "TcpStream::write", server.write(&byte).await);
                row!(table, "TcpStream::flush", server.flush().await);
                row!(table, "TcpStream::read of half", server.split().0.read(&mut byte).await);
                row!(table, "TcpStream::write of half", server.split().1.write(&byte).await);
                row!(table, "TcpStream::shutdown", server.shutdown().await);
                let backlog: Vec<_> = (0..300)
                    .map(|_| std::net::TcpStream::connect(address).expect("it listens"))
                    .collect();
                task::yield_now().await;
                row!(table, "TcpListener::accept (of 300)", listener.accept().await);
                drop(backlog);

                let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
                udp.connect(udp.local_addr().expect("it is bound")).await.expect("to itself");
                udp.send(&byte).await.expect("it fits");
                udp.readable().await.expect("it is open");
                row!(table, "UdpSocket::peek", udp.peek(&mut byte).await);
                row!(table, "UdpSocket::readable", udp.readable().await);
                row!(table, "UdpSocket::writable", udp.writable().await);
                row!(table, "UdpSocket::send and recv", {
                    udp.send(&byte).await.expect("it fits");
                    drop(udp.recv(&mut byte).await)
                });
                row!(table, "UdpSocket::send", udp.send(&byte).await);

                let (mut one, mut other) = UnixStream::pair().expect("there are descriptors");
                other.write_all(&vec![0; 2 * NEVER]).await.expect("it fits");
                one.readable().await.expect("it is open");
                row!(table, "UnixStream::read", one.read(&mut byte).await);
                row!(table, "UnixStream::readable", one.readable().await);
                row!(table, "UnixStream::writable", one.writable().await);
                row!(table, "UnixStream::write", one.write(&byte).await);
                let (one, other) = UnixDatagram::pair().expect("there are descriptors");
                one.writable().await.expect("it is open");
                row!(table, "UnixDatagram::send and recv", {
                    one.send(&byte).await.expect("it fits");
                    drop(other.recv(&mut byte).await)
                });
                row!(table, "UnixDatagram::writable", one.writable().await);
                let folder = std::env::temp_dir();
                let path =
                    folder.join(format!("ready-{}-{}", stringify!($name), std::process::id()));
                let listener = UnixListener::bind(&path).expect("the name is free");
                let backlog: Vec<_> = (0..100)
                    .map(|_| std::os::unix::net::UnixStream::connect(&path).expect("it listens"))
                    .collect();
                task::yield_now().await;
                row!(table, "UnixListener::accept (of 100)", listener.accept().await);
                row!(table, "UnixStream::connect", UnixStream::connect(&path).await);
                drop(backlog);
                std::fs::remove_file(&path).expect("it was made");

                let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
                one.set_nonblocking(true).expect("it can");
                use std::io::Write;
                (&other).write_all(&byte).expect("it fits");
                // SAFETY: the stream keeps its descriptor open for as long as it lives.
                let fd = unsafe { AsyncFd::register(one) }.expect("it can be watched");
                let _ = fd.readable().await.expect("it is readable");
                row!(table, "AsyncFd::readable", fd.readable().await);
                row!(table, "AsyncFd::writable", fd.writable().await);
                row!(table, "AsyncFd::async_io", fd.async_io(Interest::READABLE, |_| Ok(())).await);
                use ::$name::net::unix::pipe;
                let (mut tx, mut rx) = pipe::pipe().expect("there are descriptors");
                row!(table, "pipe::Sender::write", tx.write(&byte).await);
                rx.readable().await.expect("it is open");
                row!(table, "pipe::Receiver::read", rx.read(&mut byte).await);
                row!(table, "pipe::Sender::writable", tx.writable().await);
                table
            }

            async fn files() -> Table {
                let mut table = Table::new();
                let mut byte = [0; 1];
                let folder = std::env::temp_dir();
                let name = format!("ready-files-{}-{}", stringify!($name), std::process::id());
                let folder = folder.join(name);
                fs::create_dir(&folder).await.expect("the name is free");
                let path = folder.join("file");
                fs::write(&path, vec![0; 3 * NEVER]).await.expect("there is room");
                let opened = fs::OpenOptions::new().read(true).write(true).open(&path).await;
                let mut file = opened.expect("it was written");
                row!(table, "File::read", file.read(&mut byte).await);
                row!(table, "File::seek", file.seek(SeekFrom::Start(0)).await);
                row!(table, "File::seek to the end", file.seek(SeekFrom::End(0)).await);
                row!(table, "File::rewind", file.rewind().await);
                row!(table, "File::stream_position", file.stream_position().await);
                row!(table, "File::write", file.write(&byte).await);
                row!(table, "File::flush", file.flush().await);
                row!(table, "File::shutdown", file.shutdown().await);
                row!(table, "File::metadata", file.metadata().await);
                row!(table, "File::set_len", file.set_len(1).await);
                row!(table, "File::sync_data", file.sync_data().await);
                row!(table, "File::try_clone", file.try_clone().await);
                row!(table, "File::open", File::open(&path).await);
                row!(table, "File::open of nothing", File::open(folder.join("no")).await);
                row!(table, "fs::read", fs::read(&path).await);
                row!(table, "fs::read_to_string", fs::read_to_string(&path).await);
                row!(table, "fs::write", fs::write(&path, &byte).await);
                row!(table, "fs::metadata", fs::metadata(&path).await);
                row!(table, "fs::try_exists", fs::try_exists(&path).await);
                row!(table, "fs::canonicalize", fs::canonicalize(&path).await);
                for number in 0..300 {
                    std::fs::write(folder.join(number.to_string()), "").expect("there is room");
                }
                let mut entries = fs::read_dir(&folder).await.expect("it is there");
                drop(entries.next_entry().await);
                row!(table, "ReadDir::next_entry (of 300)", entries.next_entry().await);
                while let Ok(Some(_)) = entries.next_entry().await {}
                row!(table, "ReadDir::next_entry at the end", entries.next_entry().await);
                let mut entries = fs::read_dir(&folder).await.expect("it is there");
                let entry =
                    entries.next_entry().await.expect("it can be read").expect("it is there");
                row!(table, "DirEntry::file_type", entry.file_type().await);
                row!(table, "DirEntry::metadata", entry.metadata().await);
                std::fs::remove_dir_all(&folder).expect("it was made");
                table
            }

            async fn processes() -> Table {
                let mut table = Table::new();
                let mut child = Command::new("true").spawn().expect("there is such a program");
                child.wait().await.expect("it ends");
                row!(table, "Child::wait after the end", child.wait().await);
                table
            }
        }
    };
}
side!(tokio);
side!(wakeful);

#[test]
fn what_gives_way_on_tokio_gives_way_here() {
    let (peer, own) = (tokio::table(), wakeful::table());
    assert_eq!(peer.len(), own.len());
    let text = |count: usize| match count {
        NEVER => "never".to_owned(),
        count => count.to_string(),
    };
    let mut starving = Vec::new();
    println!("{:<42} {:>8} {:>8}", "ready polls before it gives way", "tokio", "wakeful");
    for ((what, peer), (_, own)) in peer.into_iter().zip(own) {
        println!("{what:<42} {:>8} {:>8}", text(peer), text(own));
        if peer < NEVER && own == NEVER {
            starving.push(what);
        }
    }
    assert!(starving.is_empty(), "these give way on tokio, and never here: {starving:?}");
}
