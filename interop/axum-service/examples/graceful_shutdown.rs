//! A graceful shutdown that hangs on an idle keep-alive connection, and the report that says so.
//!
//! The server accepts connections by hand, as servers with TLS or a limit of their own do. After
//! Ctrl-C it accepts no more, and waits for the connections that it has. A client that keeps its
//! connection open between two requests keeps the server from ending. After the grace period the program
//! shuts the runtime down and prints what it waited for:
//!
//! ```sh
//! cargo run -p axum-service --example graceful_shutdown
//! ```
//!
//! Open http://127.0.0.1:3000 in a browser, which keeps the connection, and press Ctrl-C. With the
//! argument `fixed`, the server closes idle connections and ends at once.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wakeful::inspect::ShutdownReport;

/// What the server does about its connections when it is told to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// The bug: it waits until the clients close them.
    Wait,
    /// It answers what was asked, and closes them.
    Close,
}

/// Serves until `shutdown` is true and all connections have ended.
async fn serve(listener: TcpListener, shutdown: watch::Receiver<bool>, on_shutdown: Connections) {
    let mut begun = shutdown.clone();
    let app = Router::new().route("/", get(|| async { "hello\n" }));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(answer(stream, app.clone(), shutdown.clone(), on_shutdown));
            }
            Some(_) = connections.join_next() => {}
            _ = begun.wait_for(|begun| *begun) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Answers the requests of one connection.
async fn answer(
    stream: TcpStream,
    app: Router,
    mut shutdown: watch::Receiver<bool>,
    on_shutdown: Connections,
) {
    let service = TowerToHyperService::new(app);
    let mut connection =
        pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    if on_shutdown == Connections::Close {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = shutdown.wait_for(|begun| *begun) => connection.as_mut().graceful_shutdown(),
        }
    }
    // An error is the client's: it has closed the connection in the middle of a request.
    let _ = connection.await;
}

/// Runs the server until `shutdown` completes and then for `grace`. Shuts the runtime down.
///
/// Returns whether the server has ended by itself, and the report of the shutdown.
pub fn run(
    runtime: Runtime,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    grace: Duration,
    on_shutdown: Connections,
) -> (bool, ShutdownReport) {
    let (begin, begun) = watch::channel(false);
    let has_ended = runtime.block_on(async {
        let mut server = tokio::spawn(serve(listener, begun, on_shutdown));
        shutdown.await;
        begin.send_replace(true);
        // The server is kept, not dropped: its tasks are what the report is about.
        timeout(grace, &mut server).await.is_ok()
    });
    (has_ended, runtime.shutdown_with_report(Duration::from_secs(5)))
}

#[allow(dead_code, reason = "a test runs the server itself")]
fn main() -> std::io::Result<()> {
    let is_fixed = std::env::args().any(|argument| argument == "fixed");
    let on_shutdown = if is_fixed { Connections::Close } else { Connections::Wait };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:3000"))?;
    println!("http://{}; Ctrl-C ends it", listener.local_addr()?);
    let ctrl_c = async { tokio::signal::ctrl_c().await.expect("signals can be handled") };
    let (has_ended, report) = run(runtime, listener, ctrl_c, Duration::from_secs(3), on_shutdown);
    if !has_ended {
        eprintln!("the server did not end within 3 s\n{report}");
    }
    Ok(())
}
