//! TCP under refusals, interruptions and time limits.

use std::env;
use std::fs::File;
use std::future::{pending, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::net::{self, SocketAddr};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wakeful::inspect::Report;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::sync::mpsc::unbounded_channel;
use wakeful::sync::{Barrier, Mutex};
use wakeful::task::{JoinSet, yield_now};
use wakeful::time::timeout;

mod support {
    pub mod runtimes;
    pub mod sockets;
}
use support::runtimes::watch;
use support::sockets::{current_thread, poll_once, runtimes};

/// The time limit of a test. Only a bug reaches it.
const LIMIT: Duration = Duration::from_secs(600);
/// The number of attempts after which a test fails.
const ATTEMPTS: usize = 256;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Returns the number of polls of a future, and its output.
async fn polls<F: Future>(mut future: Pin<&mut F>) -> (usize, F::Output) {
    let mut polls = 0;
    let output = poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    });
    let output = output.await;
    (polls, output)
}

/// Runs in a child process, since the limit holds for the whole process.
#[test]
fn without_descriptors_accepting_says_so_and_loses_no_connection() {
    const CHILD: &str = "WAKEFUL_TEST_WITHOUT_DESCRIPTORS";
    if env::var_os(CHILD).is_none() {
        let name = "without_descriptors_accepting_says_so_and_loses_no_connection";
        let mut child = Command::new(env::current_exe().unwrap());
        let output = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    for rt in runtimes() {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        rt.block_on(async {
            let (listener, addr) = listen().await;
            let clients: Vec<_> = (0..4).map(|_| net::TcpStream::connect(addr).unwrap()).collect();
            setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
            let mut taken: Vec<File> =
                (0..64).map_while(|_| File::open("/dev/null").ok()).collect();
            for _ in 0..3 {
                let (polls, accepted) = polls(pin!(listener.accept())).await;
                let error = accepted.map(drop).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                assert!(error.to_string().contains("Too many open files"), "{error}");
                // `accept` does not retry inside. It returns the error to the caller.
                assert!(polls <= 2, "{polls} polls");
            }
            // Without a new event, the connections are still in the queue.
            taken.truncate(taken.len() - 4);
            for _ in &clients {
                listener.accept().await.unwrap();
            }
        });
    }
}

#[test]
fn a_storm_of_connections_is_accepted_to_the_last() {
    const THREADS: usize = 4;
    const EACH: usize = 200;
    for rt in runtimes() {
        let served = rt.block_on(async {
            let (listener, addr) = listen().await;
            let listener = Arc::new(listener);
            let clients: Vec<_> =
                (0..THREADS).map(|_| thread::spawn(move || storm(addr, EACH))).collect();
            let accepted = Arc::new(AtomicUsize::new(0));
            let mut acceptors = JoinSet::new();
            for _ in 0..3 {
                let (listener, accepted) = (listener.clone(), accepted.clone());
                acceptors.spawn(async move {
                    let mut served = 0;
                    while accepted.fetch_add(1, SeqCst) < THREADS * EACH {
                        let (mut stream, _) = listener.accept().await.unwrap();
                        let mut byte = [0];
                        // Every fourth client has reset its connection already.
                        if stream.read_exact(&mut byte).await.is_ok() {
                            stream.write_all(&byte).await.unwrap();
                            served += 1;
                        }
                    }
                    served
                });
            }
            let served: usize = acceptors.join_all().await.into_iter().sum();
            for client in clients {
                client.join().unwrap();
            }
            served
        });
        assert_eq!(served, THREADS * EACH * 3 / 4, "{}", rt.name);
    }
}

/// Connects again and again; every fourth time it hangs up at once.
fn storm(addr: SocketAddr, count: usize) {
    for nth in 0..count {
        let mut stream = net::TcpStream::connect(addr).unwrap();
        if nth % 4 == 0 {
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            continue;
        }
        stream.write_all(&[nth as u8]).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [nth as u8]);
    }
}

/// A listener with a full queue does not answer. The caller's `timeout` ends the wait, and so does the
/// kernel's time-out.
#[test]
fn a_connection_without_an_answer_times_out() {
    current_thread().block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let gave_up = loop {
            assert!(queued.len() < ATTEMPTS, "the queue is never full");
            match timeout(Duration::from_millis(200), TcpStream::connect(addr)).await {
                Ok(stream) => queued.push(stream.unwrap()),
                Err(elapsed) => break elapsed,
            }
        };
        assert_eq!(gave_up.to_string(), "deadline has elapsed");
        let socket = TcpSocket::new_v4().unwrap();
        // The kernel retransmits after a second, sees that the time is up, and fails the connection.
        socket2::SockRef::from(&socket)
            .set_tcp_user_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let error = socket.connect(addr).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    });
}

#[test]
fn signals_interrupt_nothing() {
    static SIGNALS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, SeqCst);
    }
    // SAFETY: a valid handler with one atomic operation, for a signal that no other code of this
    // process uses. Without SA_RESTART, so calls that wait end with EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    // SAFETY: always works.
    let this_thread = unsafe { libc::pthread_self() };
    let is_done = Arc::new(AtomicBool::new(false));
    let sender = thread::spawn({
        let is_done = is_done.clone();
        move || {
            while !is_done.load(SeqCst) {
                // SAFETY: the thread waits for this one before it ends.
                assert_eq!(unsafe { libc::pthread_kill(this_thread, libc::SIGUSR1) }, 0);
                thread::yield_now();
            }
        }
    });
    // From here on signals arrive until the end.
    while SIGNALS.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let rt = current_thread();
    rt.block_on(async {
        let (listener, addr) = listen().await;
        let client = thread::spawn(move || {
            let mut stream = net::TcpStream::connect(addr).unwrap();
            let mut answer = [0; 3];
            for _ in 0..2000 {
                stream.write_all(b"you").unwrap();
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"you");
            }
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.split();
        let echoed = wakeful::io::copy(&mut read, &mut write).await.unwrap();
        assert_eq!(echoed, 6000);
        client.join().unwrap();
    });
    is_done.store(true, SeqCst);
    sender.join().unwrap();
}

/// One `yield_now` lets the worker poll its driver, so that the task sees data that has arrived.
///
/// This holds if the worker polls its own driver. While the watchdog polls the driver of a worker that it takes to be
/// stuck, the watchdog delivers the event, perhaps after the yield. So this test turns rescue off. It uses a Unix
/// socket: its data is readable when the write returns. A kernel thread may deliver the data of a TCP socket later.
#[test]
fn one_yield_is_enough_to_see_arrived_data() {
    async fn hears() {
        let (near, far) = StdUnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(near).unwrap();
        let mut buf = [0; 8];
        for nth in 0..ATTEMPTS {
            let empty = stream.try_read(&mut buf).unwrap_err();
            assert_eq!(empty.kind(), ErrorKind::WouldBlock);
            (&far).write_all(&[nth as u8; 3]).unwrap();
            yield_now().await;
            assert_eq!(stream.try_read(&mut buf).unwrap(), 3);
            assert_eq!(buf[..3], [nth as u8; 3]);
        }
    }
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        builder.worker_threads(1).enable_all().on_orphan(OrphanPolicy::Panic).rescue_after(None);
        let rt = watch("one thread", &mut builder);
        rt.block_on(rt.spawn(hears())).unwrap();
    }
    // The `block_on` future of a current-thread runtime sees the data too.
    current_thread().block_on(hears());
}

#[test]
fn a_report_names_the_socket_and_its_address() {
    let rt = watch("current_thread", Builder::new_current_thread().enable_all());
    let (addr, task) = rt.block_on(async {
        let (listener, addr) = listen().await;
        let task = wakeful::spawn(async move {
            assert!(poll_once(pin!(listener.accept())).await.is_pending());
            // The waker went with the future.
            pending::<()>().await;
        });
        yield_now().await;
        (addr, task)
    });
    let orphan = rt.reports.wait_for_one();
    let words = orphan.last_waited_on().expect("it waited for the listener");
    assert!(words.ends_with(&format!("({addr})")), "{words}");
    assert!(orphan.to_string().contains(words), "{orphan}");
    drop(task);
}

/// The worker polls its driver although tasks keep it busy with long polls and its queue is never empty.
#[test]
fn busy_tasks_do_not_keep_sockets_waiting_for_long() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        builder.worker_threads(1).enable_all().on_orphan(OrphanPolicy::Panic);
        let rt = watch("one thread", &mut builder);
        // All tasks run on one thread, so a task runs only when the others yield or wait.
        let all = rt.spawn(async {
            let is_done = Arc::new(AtomicBool::new(false));
            let turns = Arc::new(AtomicUsize::new(0));
            let mut busy = JoinSet::new();
            for _ in 0..4 {
                let (is_done, turns) = (is_done.clone(), turns.clone());
                busy.spawn(async move {
                    while !is_done.load(SeqCst) {
                        turns.fetch_add(1, SeqCst);
                        let started = std::time::Instant::now();
                        while started.elapsed() < Duration::from_micros(300) {}
                        yield_now().await;
                    }
                });
            }
            let (listener, addr) = listen().await;
            let server = wakeful::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (mut read, mut write) = stream.split();
                wakeful::io::copy(&mut read, &mut write).await.unwrap()
            });
            let mut client = TcpStream::connect(addr).await.unwrap();
            let before = turns.load(SeqCst);
            let mut answer = [0; 4];
            for _ in 0..20 {
                client.write_all(b"ping").await.unwrap();
                client.read_exact(&mut answer).await.unwrap();
            }
            // Each round trip needs about three driver polls, with one poll of each of the four
            // tasks between. If the driver were polled by poll count only, it would be sixty each.
            let turns = turns.load(SeqCst) - before;
            assert!(turns < 20 * 3 * 30, "{turns} polls of others");
            drop(client);
            server.await.unwrap();
            is_done.store(true, SeqCst);
            busy.join_all().await;
        });
        rt.block_on(all).unwrap();
    }
}

/// The watchdog finds a deadlock after a quiet period, even if a thread in its I/O driver was woken
/// repeatedly before.
#[test]
fn a_deadlock_beside_open_sockets_is_found() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let (tx, mut rx) = unbounded_channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        let rt = builder.worker_threads(2).enable_all().on_report(hook).build().unwrap();
        let report = rt.block_on(async {
            let (listener, addr) = listen().await;
            let mut client = TcpStream::connect(addr).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            for _ in 0..100 {
                client.write_all(b"ping").await.unwrap();
                server.read_exact(&mut [0; 4]).await.unwrap();
            }
            let locks = [Arc::new(Mutex::new(())), Arc::new(Mutex::new(()))];
            let both_hold = Arc::new(Barrier::new(2));
            for first in 0..2 {
                let (mine, other) = (locks[first].clone(), locks[1 - first].clone());
                let both_hold = both_hold.clone();
                wakeful::spawn(async move {
                    let _mine = mine.lock().await;
                    both_hold.wait().await;
                    let _other = other.lock().await;
                });
            }
            let report = timeout(LIMIT, rx.recv()).await.expect("it is found");
            report.expect("the hook holds the sender")
        });
        let Report::Deadlock(deadlock) = &report else { panic!("{report}") };
        assert_eq!(deadlock.edges().len(), 2, "{report}");
        rt.shutdown_background();
    }
}

/// Refuses IPv6 sockets to the calling thread. Returns false if the kernel does not allow that.
fn go_without_ipv6() -> bool {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JUMP, BPF_K, BPF_LD, BPF_RET, BPF_STMT, BPF_W};
    let load = (BPF_LD | BPF_W | BPF_ABS) as u16;
    let is = (BPF_JMP | BPF_JEQ | BPF_K) as u16;
    let answer = (BPF_RET | BPF_K) as u16;
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
    // SAFETY: they make plain data of plain data.
    let mut program = unsafe {
        [
            BPF_STMT(load, 0), // the number of the call
            BPF_JUMP(is, libc::SYS_socket as u32, 0, 3),
            BPF_STMT(load, 16), // its first argument
            BPF_JUMP(is, libc::AF_INET6 as u32, 0, 1),
            BPF_STMT(answer, refusal),
            BPF_STMT(answer, libc::SECCOMP_RET_ALLOW),
        ]
    };
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is there while the call reads it; it concerns this thread only.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

#[test]
fn an_address_without_sockets_of_its_kind_is_passed_over() {
    let test = || {
        if !go_without_ipv6() {
            return eprintln!("skipped: the system has no seccomp filters");
        }
        current_thread().block_on(async {
            let (_listener, four) = listen().await;
            let six = SocketAddr::from((net::Ipv6Addr::LOCALHOST, four.port()));
            let error = TcpStream::connect(six).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EAFNOSUPPORT));
            let stream = TcpStream::connect(&[six, four][..]).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), four);
        });
    };
    // A new thread, because the filter stays on its thread for good.
    thread::spawn(test).join().unwrap();
}
