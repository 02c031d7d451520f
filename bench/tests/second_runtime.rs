//! Connections between wakeful's sockets and tokio's, in one process.
#![cfg(feature = "wakeful")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Connections at a time. Over each go small messages, then more than fits into the buffers of both
/// sides, then the end of one direction before the other.
const CONNECTIONS: usize = 16;
const MESSAGES: u8 = 50;
const LARGE: usize = 3_000_000;
/// The time limit of the test. Only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(120);

fn large(connection: usize) -> Vec<u8> {
    (0..LARGE).map(|place| (place * 31 + connection) as u8).collect()
}

/// `side!(tokio)` is a server and a client of that crate.
macro_rules! side {
    ($name:ident) => {
        mod $name {
            use super::{CONNECTIONS, MESSAGES, SocketAddr, large, mpsc};
            use ::$name::io::{AsyncReadExt, AsyncWriteExt};
            use ::$name::net::{TcpListener, TcpStream};
            use ::$name::runtime::{Builder, Runtime};

            pub fn runtimes() -> [Runtime; 2] {
                let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build();
                let current = Builder::new_current_thread().enable_all().build();
                [multi.expect("it starts"), current.expect("it starts")]
            }

            /// Sends its address, and then echoes every connection to its end.
            pub async fn serve(addr: mpsc::Sender<SocketAddr>) {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
                addr.send(listener.local_addr().expect("it is bound"))
                    .expect("the client waits for the address");
                let mut tasks = Vec::new();
                for _ in 0..CONNECTIONS {
                    let (mut stream, _) = listener.accept().await.expect("a client connects");
                    tasks.push(::$name::spawn(async move {
                        let (mut read, mut write) = stream.split();
                        let copied = ::$name::io::copy(&mut read, &mut write).await;
                        copied.expect("the connection holds");
                        write.shutdown().await.expect("the connection holds");
                    }));
                }
                for task in tasks {
                    task.await.expect("it echoes to the end");
                }
            }

            pub async fn visit(addr: SocketAddr) {
                let tasks: Vec<_> = (0..CONNECTIONS)
                    .map(|connection| ::$name::spawn(talk(addr, connection)))
                    .collect();
                for task in tasks {
                    task.await.expect("it got its answers");
                }
            }

            async fn talk(addr: SocketAddr, connection: usize) {
                let mut stream = TcpStream::connect(addr).await.expect("the server listens");
                for message in 0..MESSAGES {
                    stream.write_all(&[message; 64]).await.expect("the connection holds");
                    let mut answer = [0; 64];
                    stream.read_exact(&mut answer).await.expect("an answer comes");
                    assert_eq!(answer, [message; 64]);
                }
                let sent = large(connection);
                let expected = sent.clone();
                let (mut read, mut write) = stream.into_split();
                let writer = ::$name::spawn(async move {
                    write.write_all(&sent).await.expect("the connection holds");
                    write.shutdown().await.expect("the connection holds");
                    write
                });
                let mut answer = Vec::new();
                read.read_to_end(&mut answer).await.expect("the answer has an end");
                assert!(answer == expected, "{} bytes came back", answer.len());
                let write = writer.await.expect("it wrote everything");
                read.reunite(write).expect("they belong together");
            }
        }
    };
}
side!(tokio);
side!(wakeful);

/// Runs a server and a client, each on a thread with its own runtime.
fn meet(
    serve: impl FnOnce(mpsc::Sender<SocketAddr>) + Send + 'static,
    visit: impl FnOnce(SocketAddr) + Send + 'static,
) {
    let (say_addr, addr) = mpsc::channel();
    let (say_done, done) = mpsc::channel();
    let done_too = say_done.clone();
    let server = thread::spawn(move || {
        serve(say_addr);
        say_done.send(()).expect("the test waits");
    });
    let addr = addr.recv_timeout(LIMIT).expect("the server starts");
    let client = thread::spawn(move || {
        visit(addr);
        done_too.send(()).expect("the test waits");
    });
    for _ in 0..2 {
        // A closed channel means that a thread panicked. The join below reports it.
        if done.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            panic!("they still talk after {LIMIT:?}");
        }
    }
    server.join().expect("the server ends well");
    client.join().expect("the client ends well");
}

#[test]
fn clients_of_tokio_visit_a_server_of_wakeful() {
    for (server, client) in wakeful::runtimes().into_iter().zip(tokio::runtimes()) {
        meet(
            move |addr| server.block_on(wakeful::serve(addr)),
            move |addr| client.block_on(tokio::visit(addr)),
        );
    }
}

#[test]
fn clients_of_wakeful_visit_a_server_of_tokio() {
    for (server, client) in tokio::runtimes().into_iter().zip(wakeful::runtimes()) {
        meet(
            move |addr| server.block_on(tokio::serve(addr)),
            move |addr| client.block_on(wakeful::visit(addr)),
        );
    }
}
