//! Loops over results that cannot change any more, which burn a core.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use wakeful::inspect::Certainty::Suspected;
use wakeful::io::AsyncReadExt;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::select;
use wakeful::sync::{broadcast, mpsc, watch};
use wakeful::time::{interval, sleep};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// Receives from a channel that is closed, and never looks for the end.
async fn a_closed_channel(twin: Twin) {
    let (tx, mut rx) = mpsc::channel::<u32>(4);
    let consumer = named("consumer", async move {
        loop {
            match rx.recv().await {
                //@ again
                Some(n) => assert_eq!(n, 1),
                None if is_buggy(twin) => {}
                None => break,
            }
        }
    });
    tx.send(1).await.unwrap();
    drop(tx);
    consumer.await.unwrap();
}

/// A `select!` loop in which one branch is a closed channel.
async fn a_closed_channel_in_select(twin: Twin) {
    let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
    let actor = named("actor", async move {
        let mut tick = interval(Duration::from_millis(20));
        let mut count = 0;
        loop {
            select! {
                message = rx.recv() => match message { //@ again
                    Some(n) => count += n,
                    None if is_buggy(twin) => count += 0,
                    None => break,
                },
                _ = tick.tick() => count += 1,
            }
        }
        count
    });
    tx.send(1).unwrap();
    drop(tx);
    actor.await.unwrap();
}

/// Reads a socket whose other side is gone, and takes 0 bytes for an empty message.
async fn an_end_of_file(twin: Twin) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(client);
    let reader = named("reader", async move {
        let mut buf = [0; 64];
        let mut total = 0;
        loop {
            let n = stream.read(&mut buf).await.unwrap(); //@ again
            total += n;
            if n == 0 && !is_buggy(twin) {
                break total;
            }
        }
    });
    reader.await.unwrap();
}

/// Accepts in a loop that ignores errors, in a process that has no descriptor left.
async fn a_failing_accept(twin: Twin) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let clients = [TcpStream::connect(address).await.unwrap()];
    let mut files = Vec::new();
    let few = Rlimit { current: Some(256), maximum: Some(256) };
    setrlimit(Resource::Nofile, few).unwrap();
    while is_buggy(twin) {
        match std::fs::File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(_) => break,
        }
    }
    let server = named("server", async move {
        loop {
            match listener.accept().await {
                //@ again
                Ok(_) => break,
                Err(_) if is_buggy(twin) => {}
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    });
    server.await.unwrap();
    drop((files, clients));
}

/// Waits for changes of a watch whose sender is gone.
async fn a_closed_watch(twin: Twin) {
    let (tx, mut rx) = watch::channel(0);
    drop(tx);
    let reload = named("reload", async move {
        loop {
            let changed = rx.changed().await; //@ again
            if changed.is_err() && !is_buggy(twin) {
                break;
            }
        }
    });
    reload.await.unwrap();
}

/// Receives from a broadcast whose senders are gone, and takes every error for a lag.
async fn a_closed_broadcast(twin: Twin) {
    let (tx, mut rx) = broadcast::channel::<u32>(4);
    drop(tx);
    let feed = named("feed", async move {
        loop {
            match rx.recv().await {
                //@ again
                Ok(_) => {}
                Err(broadcast::error::RecvError::Closed) if !is_buggy(twin) => break,
                Err(_) => {}
            }
        }
    });
    feed.await.unwrap();
}

/// A `select!` loop polls a timer that has fired and is not reset.
async fn a_timer_that_is_not_reset(twin: Twin) {
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    let flusher = named("flusher", async move {
        let deadline = sleep(Duration::from_millis(5)); //@ again
        wakeful::pin!(deadline);
        loop {
            select! {
                () = &mut deadline => match is_buggy(twin) {
                    true => {}
                    false => break,
                },
                Some(_) = rx.recv() => {}
            }
        }
    });
    flusher.await.unwrap();
    drop(tx);
}

pub fn bugs() -> Vec<Bug> {
    let spins = |bug: Bug| bug.reports("futile_loop", Suspected).says("@again").busy().passes();
    vec![
        spins(bug!(a_closed_channel)).says("\"consumer\"").says("mpsc::Receiver::recv"),
        spins(bug!(a_closed_channel_in_select)).says("\"actor\""),
        spins(bug!(an_end_of_file)).says("\"reader\""),
        spins(bug!(a_failing_accept)).says("\"server\""),
        spins(bug!(a_closed_watch)).says("\"reload\""),
        spins(bug!(a_closed_broadcast)).says("\"feed\""),
        spins(bug!(a_timer_that_is_not_reset)).says("\"flusher\""),
    ]
}
