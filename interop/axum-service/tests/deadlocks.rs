//! Deadlocks between handlers, on hyper connections that read their sockets at the same time.
//!
//! A handler's lock is then one of several events that its task waits for. The report must come all the same,
//! and name the places of the handler.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use wakeful::inspect::{Certainty, Deadlock, Edge, Report};
use wakeful::runtime::{Builder, Runtime};

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The state of a shop, and whether its handlers have the bugs.
#[derive(Default)]
struct Shop {
    stock: Mutex<u32>,
    ledger: Mutex<u32>,
    is_buggy: bool,
}

/// Returns the line of this file that ends with `//@ marker`.
fn line_of(marker: &str) -> u32 {
    let comment = format!("//@ {marker}");
    let mut lines = include_str!("deadlocks.rs").lines().zip(1..);
    lines.find(|(line, _)| line.ends_with(&comment)).expect("the marker is there").1
}

/// Counts the stock, with a helper that locks it once more.
async fn audit(State(shop): State<Arc<Shop>>) -> String {
    let stock = shop.stock.lock().await; //@ audit has
    if !shop.is_buggy {
        drop(stock);
    }
    let again = shop.stock.lock().await; //@ audit wants
    again.to_string()
}

/// Takes from the stock, and books it.
async fn buy(State(shop): State<Arc<Shop>>) -> String {
    let mut stock = shop.stock.lock().await; //@ buy has
    a_query().await;
    let mut ledger = shop.ledger.lock().await; //@ buy wants
    (*stock, *ledger) = (stock.wrapping_sub(1), ledger.wrapping_add(1));
    ledger.to_string()
}

/// Books, and gives back to the stock.
async fn refund(State(shop): State<Arc<Shop>>) -> String {
    if !shop.is_buggy {
        return buy(State(shop)).await;
    }
    let mut ledger = shop.ledger.lock().await; //@ refund has
    a_query().await;
    let mut stock = shop.stock.lock().await; //@ refund wants
    (*stock, *ledger) = (stock.wrapping_add(1), ledger.wrapping_sub(1));
    ledger.to_string()
}

/// Stands for a query of a database.
async fn a_query() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn runtimes() -> [(Runtime, mpsc::UnboundedReceiver<Report>); 2] {
    let mut multi = Builder::new_multi_thread();
    multi.worker_threads(2);
    [Builder::new_current_thread(), multi].map(|mut builder| {
        let (tx, rx) = mpsc::unbounded_channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        (builder.enable_all().on_report(hook).build().unwrap(), rx)
    })
}

/// Starts the service.
fn serve(rt: &Runtime, is_buggy: bool) -> SocketAddr {
    let shop = Arc::new(Shop { is_buggy, ..Shop::default() });
    let app = Router::new()
        .route("/audit", get(audit))
        .route("/buy", get(buy))
        .route("/refund", get(refund))
        .with_state(shop);
    let listener = rt.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    rt.spawn(async move { axum::serve(listener, app).await });
    address
}

/// Sends requests over one connection, one after the other, and returns how many were answered.
fn ask(address: SocketAddr, path: &str, times: usize) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\n\r\n");
    for nth in 0..times {
        // The service that hangs is dropped at the end of the test, and the connection with it.
        if stream.write_all(request.as_bytes()).is_err() {
            return nth;
        }
        match stream.read(&mut [0; 1024]) {
            Ok(0) | Err(_) => return nth,
            Ok(_) => {}
        }
    }
    times
}

/// Makes concurrent requests, each connection from a thread.
fn load(address: SocketAddr, paths: &[&'static str], times: usize) -> Vec<JoinHandle<usize>> {
    let ask = |path: &&'static str| {
        let path = *path;
        thread::spawn(move || ask(address, path, times))
    };
    paths.iter().map(ask).collect()
}

/// Waits for a report of a deadlock, which is only suspected: the client may close the connection.
fn deadlock(rt: &Runtime, reports: &mut mpsc::UnboundedReceiver<Report>) -> Deadlock {
    let report = rt.block_on(async { tokio::time::timeout(LIMIT, reports.recv()).await });
    let report = report.expect("a report comes").expect("the hook lives");
    println!("{report}\n");
    assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
    let Report::Deadlock(deadlock) = report else { panic!("{report}") };
    deadlock
}

#[test]
fn a_handler_that_locks_twice() {
    for (rt, mut reports) in runtimes() {
        let address = serve(&rt, true);
        let clients = load(address, &["/audit"], 1);
        let found = deadlock(&rt, &mut reports);
        let [edge] = found.edges() else { panic!("{found}") };
        assert_eq!(edge.kind(), "Mutex::lock");
        assert_eq!(edge.task(), edge.holder(), "{found}");
        let [has, wants] = ["audit has", "audit wants"].map(line_of);
        assert_eq!((edge.site().file(), edge.site().line()), (file!(), wants), "{found}");
        let acquired_at = edge.acquired_at().unwrap();
        assert_eq!((acquired_at.file(), acquired_at.line()), (file!(), has), "{found}");
        rt.shutdown_background();
        clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap(), 0));
    }
}

#[test]
fn two_handlers_in_opposite_orders_under_load() {
    for (rt, mut reports) in runtimes() {
        let address = serve(&rt, true);
        let clients = load(address, &["/buy", "/refund"].repeat(8), 10_000);
        let found = deadlock(&rt, &mut reports);
        // The other edge says where the task of this one has acquired what it holds.
        let has = |edge: &Edge| edge.acquired_at().unwrap().line();
        let mut edges: Vec<_> = (found.edges().iter().zip(found.edges().iter().rev()))
            .map(|(edge, other)| (edge.kind(), has(other), edge.site().line()))
            .collect();
        edges.sort_unstable();
        let mut wanted = [("buy has", "buy wants"), ("refund has", "refund wants")]
            .map(|(has, wants)| ("Mutex::lock", line_of(has), line_of(wants)));
        wanted.sort_unstable();
        assert_eq!(edges, wanted, "{found}");
        let [first, second] = found.edges() else { panic!("{found}") };
        assert_eq!((first.task(), second.task()), (second.holder(), first.holder()), "{found}");
        rt.shutdown_background();
        clients.into_iter().for_each(|client| assert!(client.join().unwrap() < 10_000));
    }
}

#[test]
fn handlers_in_one_order_are_silent_under_load() {
    for (rt, mut reports) in runtimes() {
        let address = serve(&rt, false);
        let paths = ["/buy", "/refund", "/audit"].repeat(4);
        let answered = Arc::new(AtomicUsize::new(0));
        let clients = load(address, &paths, 20);
        let count = answered.clone();
        let joins = thread::spawn(move || {
            for client in clients {
                count.fetch_add(client.join().unwrap(), Relaxed);
            }
        });
        rt.block_on(async {
            while !joins.is_finished() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        joins.join().unwrap();
        assert_eq!(answered.load(Relaxed), 20 * paths.len());
        assert!(reports.try_recv().is_err(), "nothing is wrong");
    }
}
