//! Sockets and their runtime: moved, gone, or missing.

use std::future::pending;
use std::net::{self};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::Builder;
use wakeful::task::yield_now;

use super::{listen, pair, runtimes};
use crate::support::panic_site::panic_site;
use crate::support::runtimes::TestRuntime;

#[test]
fn sockets_move_between_runtimes() {
    let [first, second, _] = runtimes();
    let (near, far) = first.block_on(pair());
    let near = near.into_std().unwrap();
    let task = second.spawn(async move {
        let mut near = TcpStream::from_std(near).unwrap();
        near.write_all(b"over").await.unwrap();
    });
    // This end is still registered with the first runtime.
    let mut far = far;
    let mut buf = [0; 4];
    first.block_on(far.read_exact(&mut buf)).unwrap();
    assert_eq!(&buf, b"over");
    second.block_on(task).unwrap();
}

#[test]
fn a_runtime_that_is_gone_answers_with_an_error() {
    for rt in runtimes() {
        let (near, mut far) = rt.block_on(pair());
        let TestRuntime { runtime, reports, .. } = rt;
        drop(runtime);
        let error = futures::executor::block_on(far.read(&mut [0; 4])).unwrap_err();
        assert!(error.to_string().contains("being shutdown"), "{error}");
        drop((near, far, reports));
    }
}

#[test]
fn outside_of_a_runtime_the_caller_is_told() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let panic = panic_site(move || TcpListener::from_std(listener));
    assert!(panic.message.starts_with("there is no reactor running"), "{panic:?}");
    assert_eq!(panic.file, file!());

    let rt = Builder::new_current_thread().build().unwrap();
    let _guard = rt.enter();
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let panic = panic_site(move || TcpListener::from_std(listener));
    assert!(panic.message.contains("Call `enable_io`"), "{panic:?}");
    assert_eq!(panic.file, file!());
}

/// A waker of no task. The count of its `Arc` says how often it is held.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_was_left_goes_with_the_socket() {
    for rt in runtimes() {
        rt.block_on(async {
            let (listener, addr) = listen().await;
            let idle = Arc::new(Idle);
            let waker = Waker::from(idle.clone());
            let wait = async || {
                let stream = TcpStream::connect(addr).await.unwrap();
                let mut cx = Context::from_waker(&waker);
                assert!(stream.poll_read_ready(&mut cx).is_pending());
                stream
            };
            let (near, other) = (wait().await, wait().await);
            let _far = [listener.accept().await.unwrap(), listener.accept().await.unwrap()];
            assert_eq!(Arc::strong_count(&idle), 2 + 2, "{}", rt.name);
            drop(near);
            assert_eq!(Arc::strong_count(&idle), 2 + 1, "{}", rt.name);
            let _taken_out = other.into_std().unwrap();
            assert_eq!(Arc::strong_count(&idle), 2, "{}", rt.name);
        });
    }
}

/// A task that waits for a connection forever is not an orphan: a client may connect.
#[test]
fn waiting_for_the_network_is_no_orphan() {
    for rt in runtimes() {
        rt.block_on(async {
            let (listener, _) = listen().await;
            let task = wakeful::spawn(async move {
                let _ = listener.accept().await;
                pending::<()>().await;
            });
            for _ in 0..100 {
                yield_now().await;
            }
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        });
    }
}

#[test]
fn nothing_is_opened_on_a_runtime_that_is_gone() {
    for TestRuntime { runtime, reports, name } in runtimes() {
        let _entered = runtime.enter();
        let early = TcpListener::bind("127.0.0.1:0");
        runtime.shutdown_background();
        for bind in [early, TcpListener::bind("127.0.0.1:0")] {
            let error = futures::executor::block_on(bind).unwrap_err();
            assert!(wakeful::runtime::is_rt_shutdown_err(&error), "{name}: {error}");
        }
        drop(reports);
    }
}
