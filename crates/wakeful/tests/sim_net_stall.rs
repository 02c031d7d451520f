//! Streams whose route is blocked during a write, a connect or a close.

#[path = "support/sim_net.rs"]
mod support;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{echo, ms, runs, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpSocket, TcpStream};
use wakeful::sim::{FailureKind, Sim, Simulation};
use wakeful::time::{Instant, sleep, timeout};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Starts the host `server`, which accepts one stream and collects its bytes. `#` marks the end.
async fn start_sink(sim: &Sim) -> Bytes {
    let got = Bytes::default();
    let of_host = got.clone();
    sim.host("server", move || {
        let got = of_host.clone();
        async move {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buf = [0; 64];
            loop {
                let count = stream.read(&mut buf).await.unwrap();
                got.lock().unwrap().extend(&buf[..count]);
                if count == 0 {
                    return got.lock().unwrap().push(b'#');
                }
            }
        }
    });
    sleep(ms(1)).await;
    got
}

/// Starts the host `server`, which counts the accepted connections. Its queue has room for
/// `backlog` + 1.
async fn start_counting(sim: &Sim, backlog: u32) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let of_host = count.clone();
    sim.host("server", move || {
        let count = of_host.clone();
        async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("0.0.0.0:80".parse().unwrap()).unwrap();
            let listener = socket.listen(backlog).unwrap();
            let mut kept = Vec::new();
            loop {
                kept.push(listener.accept().await.unwrap());
                count.fetch_add(1, SeqCst);
            }
        }
    });
    sleep(ms(1)).await;
    count
}

/// Starts the host `server`, which listens with a backlog but never accepts.
async fn start_idle(sim: &Sim, backlog: u32) {
    sim.host("server", move || async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("0.0.0.0:80".parse().unwrap()).unwrap();
        let _listener = socket.listen(backlog).unwrap();
        sleep(secs(50_000)).await;
    });
    sleep(ms(1)).await;
}

/// Runs the program in order of age, for up to 100,000 simulated seconds.
fn runs_long<F, Fut>(program: F)
where
    F: FnOnce(Sim) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    Simulation::new(0).fifo().time_limit(secs(100_000)).run(program).unwrap();
}

#[test]
fn bytes_stay_in_order_while_a_link_flaps() {
    for seed in 0..50 {
        let run = move |sim: Sim| async move {
            sim.network().latency(ms(5)..ms(50));
            let got = start_sink(&sim).await;
            let mut stream = TcpStream::connect("server:80").await.unwrap();
            let flaps = sim.clone();
            wakeful::spawn(async move {
                loop {
                    sleep(ms(37)).await;
                    flaps.network().partition(["main"], ["server"]);
                    sleep(ms(61)).await;
                    flaps.network().heal_all();
                }
            });
            for number in 0..200_u8 {
                stream.write_all(&[number]).await.unwrap();
                sleep(ms(3)).await;
            }
            drop(stream);
            sleep(secs(60)).await;
            let want: Vec<u8> = (0..200).chain([b'#']).collect();
            assert_eq!(*got.lock().unwrap(), want, "{seed}");
        };
        Simulation::new(seed).run(run).unwrap();
    }
}

#[test]
fn a_later_write_does_not_overtake_one_that_was_under_way() {
    runs(|sim| async move {
        let got = start_sink(&sim).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sleep(secs(1)).await;
        sim.network().latency(ms(10)..ms(40));
        stream.write_all(b"AAA").await.unwrap();
        sleep(ms(1)).await;
        sim.network().partition(["main"], ["server"]);
        stream.write_all(b"BBB").await.unwrap();
        sleep(secs(1)).await;
        sim.network().heal_all();
        sleep(secs(1)).await;
        assert_eq!(*got.lock().unwrap(), b"AAABBB");
    });
}

#[test]
fn the_end_of_a_stream_does_not_overtake_its_bytes() {
    runs(|sim| async move {
        let got = start_sink(&sim).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sleep(secs(1)).await;
        sim.network().latency(ms(10)..ms(40));
        stream.write_all(b"AAA").await.unwrap();
        sleep(ms(1)).await;
        sim.network().hold("main", "server");
        stream.shutdown().await.unwrap();
        sleep(secs(1)).await;
        sim.network().release("main", "server");
        sleep(secs(1)).await;
        assert_eq!(*got.lock().unwrap(), b"AAA#");
    });
}

#[test]
fn the_reset_of_a_killed_host_comes_after_its_bytes() {
    runs(|sim| async move {
        sim.network().latency(ms(20)..ms(20));
        let host = sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            sleep(secs(1)).await;
            stream.write_all(b"under way, ").await.unwrap();
            sleep(ms(30)).await;
            stream.write_all(b"held").await.unwrap();
            sleep(secs(10_000)).await;
        });
        sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sleep(ms(1030)).await;
        sim.network().hold("main", "server");
        sleep(secs(1)).await;
        host.kill();
        sleep(secs(1)).await;
        sim.network().release("main", "server");
        let mut bytes = Vec::new();
        let error = stream.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(bytes, b"under way, held");
    });
}

#[test]
fn a_connect_whose_answer_is_cut_off_times_out() {
    runs_long(|sim| async move {
        sim.network().latency(ms(10)..ms(10));
        start_counting(&sim, 8).await;
        let cut = sim.clone();
        wakeful::spawn(async move {
            sleep(ms(15)).await;
            cut.network().partition(["main"], ["server"]);
        });
        let began = Instant::now();
        let error = TcpStream::connect("server:80").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, secs(127)));
    });
}

/// After 63 s, the listener's host drops the request. The client's host repeats it.
#[test]
fn a_connect_whose_answer_was_cut_off_is_repeated() {
    for seconds in [10, 62, 64, 120] {
        runs_long(move |sim| async move {
            sim.network().latency(ms(10)..ms(10));
            let count = start_counting(&sim, 8).await;
            let cut = sim.clone();
            wakeful::spawn(async move {
                sleep(ms(15)).await;
                cut.network().partition_one_way(["server"], ["main"]);
                sleep(secs(seconds)).await;
                cut.network().heal_all();
            });
            let began = Instant::now();
            let _stream = TcpStream::connect("server:80").await.unwrap();
            assert!(began.elapsed() < secs(seconds + 1));
            sleep(secs(1)).await;
            assert_eq!(count.load(SeqCst), 1);
        });
    }
}

#[test]
fn the_confirmation_does_not_pass_a_partition() {
    runs_long(|sim| async move {
        sim.network().latency(ms(10)..ms(10));
        let count = start_counting(&sim, 8).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sim.network().partition(["main"], ["server"]);
        sleep(secs(60)).await;
        assert_eq!(count.load(SeqCst), 0);
        sim.network().heal_all();
        sleep(secs(1)).await;
        assert_eq!(count.load(SeqCst), 1);
        // A longer partition ends a connection of which the server never knew that it was
        // established.
        let mut other = TcpStream::connect("server:80").await.unwrap();
        sim.network().partition(["main"], ["server"]);
        sleep(secs(64)).await;
        sim.network().heal_all();
        other.write_all(b"x").await.unwrap();
        let error = other.read_u8().await.unwrap_err();
        assert_eq!((error.kind(), count.load(SeqCst)), (ErrorKind::ConnectionReset, 1));
        stream.write_all(b"x").await.unwrap();
    });
}

#[test]
fn a_connect_to_a_full_backlog_times_out_whatever_happens_to_other_routes() {
    runs_long(|sim| async move {
        start_idle(&sim, 0).await;
        sim.host("x", || async {});
        sim.host("y", || async {});
        let _first = TcpStream::connect("server:80").await.unwrap();
        let other = sim.clone();
        wakeful::spawn(async move {
            sleep(secs(10)).await;
            other.network().partition(["x"], ["y"]);
            sleep(secs(10)).await;
            other.network().heal_all();
        });
        let began = Instant::now();
        let error = TcpStream::connect("server:80").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, secs(127)));
    });
}

#[test]
fn a_read_after_the_end_and_a_reset_returns_zero() {
    runs(|sim| async move {
        sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            drop(listener.accept().await.unwrap());
            sleep(secs(100)).await;
        });
        sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sleep(ms(100)).await;
        stream.write_all(b"x").await.unwrap();
        sleep(ms(100)).await;
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_connect_that_was_dropped_is_not_accepted() {
    runs(|sim| async move {
        let count = start_counting(&sim, 100).await;
        sim.network().partition(["main"], ["server"]);
        for _ in 0..50 {
            assert!(timeout(secs(1), TcpStream::connect("server:80")).await.is_err());
        }
        sim.network().heal_all();
        sleep(secs(10)).await;
        sim.network().latency(ms(10)..ms(10));
        for after in [ms(5), ms(15)] {
            assert!(timeout(after, TcpStream::connect("server:80")).await.is_err());
        }
        sleep(secs(10)).await;
        assert_eq!(count.load(SeqCst), 0);
        let _stream = TcpStream::connect("server:80").await.unwrap();
        sleep(secs(1)).await;
        assert_eq!(count.load(SeqCst), 1);
    });
}

#[test]
fn a_forgotten_request_gives_its_place_to_the_next() {
    runs_long(|sim| async move {
        sim.network().latency(ms(10)..ms(10));
        sim.host("a", || async {
            sleep(ms(1)).await;
            TcpStream::connect("server:80").await.map(drop).unwrap_err();
            sleep(secs(9_000)).await;
        });
        let count = start_counting(&sim, 0).await;
        // The request of `a` arrived at 11 ms, but the answer does not arrive.
        sleep(ms(14)).await;
        sim.network().partition(["a"], ["server"]);
        let began = Instant::now();
        let _stream = TcpStream::connect("server:80").await.unwrap();
        assert!(began.elapsed() > secs(60) && began.elapsed() < secs(64), "{:?}", began.elapsed());
        sleep(secs(1)).await;
        assert_eq!(count.load(SeqCst), 1);
    });
}

#[test]
fn a_writer_with_a_full_window_times_out() {
    // The partition begins before or during the write that waits.
    for (cut_at, limit) in [(secs(5), ms(924_600)), (secs(15), ms(929_600))] {
        runs_long(move |sim| async move {
            sim.host("server", || async {
                let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
                let (_stream, _) = listener.accept().await.unwrap();
                sleep(secs(50_000)).await;
            });
            sleep(ms(1)).await;
            let mut stream = TcpStream::connect("server:80").await.unwrap();
            stream.write_all(&[0; 64 * 1024]).await.unwrap();
            let cut = sim.clone();
            wakeful::spawn(async move {
                sleep(cut_at).await;
                cut.network().partition(["main"], ["server"]);
            });
            sleep(secs(10)).await;
            let began = Instant::now();
            let error = stream.write_all(b"x").await.unwrap_err();
            assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, limit));
        });
    }
}

#[test]
fn the_time_limit_of_a_healed_stall_does_not_delay_a_failure() {
    let outcome = Simulation::new(0).fifo().run(|sim| async move {
        sim.host("server", echo);
        sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sim.network().partition(["main"], ["server"]);
        stream.write_all(b"x").await.unwrap();
        sleep(secs(1)).await;
        sim.network().heal_all();
        stream.read_u8().await.unwrap();
        stream.read_u8().await.unwrap();
    });
    assert_eq!(outcome.failure(), Some(FailureKind::Deadlock));
    assert!(outcome.elapsed() < Duration::from_secs(2), "{:?}", outcome.elapsed());
}
