//! Rows of the table in `dropped_futures.rs`: child processes, signals, the blocking pool.

use super::*;

/// Starts a program that ends when its standard input ends, which the test controls, and a listener for
/// SIGCHLD.
///
/// The kernel sends that signal after it has made descriptors of the process readable.
fn child() -> (Child, ChildStdin, Signal) {
    let ended = signal(SignalKind::child()).expect("it can be listened for");
    let mut command = Command::new("cat");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is `cat`");
    let stdin = child.stdin.take().expect("it was asked for");
    (child, stdin, ended)
}

/// Waits for the signal, and until the runtime has delivered all earlier events.
async fn has_ended(mut ended: Signal) {
    ended.recv().await.expect("the runtime is there");
    driver_has_turned().await;
}

/// Returns a command, and the writer of its standard input. Dropping the writer ends the input.
fn command() -> (Command, std::io::PipeWriter, Signal) {
    let ended = signal(SignalKind::child()).expect("it can be listened for");
    let (read, write) = std::io::pipe().expect("two descriptors are free");
    let mut command = Command::new("cat");
    command.stdin(Stdio::from(read)).stdout(Stdio::null());
    (command, write, ended)
}

pub fn processes(rows: &mut Vec<Row>) {
    // `Child::kill` is left out: the process may end before the first poll, which is then not pending. It sends
    // a signal and then waits like `Child::wait`.
    row!(
        rows,
        "Child::wait",
        {
            let (mut child, stdin, ended) = child();
        },
        child.wait(),
        drop(stdin),
        has_ended(ended).await
    );
    row!(
        rows,
        "Child::wait_with_output",
        {
            let (child, stdin, ended) = child();
        },
        child.wait_with_output(),
        drop(stdin),
        has_ended(ended).await
    );
    row!(
        rows,
        "Command::status",
        {
            let (mut command, write, ended) = command();
        },
        command.status(),
        drop((write, command.stdin(Stdio::null()))),
        has_ended(ended).await
    );
    row!(
        rows,
        "Command::output",
        {
            let (mut command, write, ended) = command();
        },
        command.output(),
        drop((write, command.stdin(Stdio::null()))),
        has_ended(ended).await
    );
    row!(
        rows,
        "ChildStdout, read",
        {
            let (mut child, mut stdin, ended) = child();
            let mut stdout = child.stdout.take().unwrap();
            let watch = Watch::read(&stdout);
            let mut bytes = [0; 4];
        },
        stdout.read(&mut bytes),
        stdin.write_all(b"x").await.unwrap(),
        {
            watch.has_fired().await;
            // No signal is left over for the next row.
            drop(stdin);
            has_ended(ended).await;
        }
    );
}

pub fn signals(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Signal::recv",
        {
            let mut signals = signal(SignalKind::user_defined1()).unwrap();
            let mut others = signal(SignalKind::user_defined1()).unwrap();
        },
        signals.recv(),
        send_signal(rustix::process::Signal::USR1),
        others.recv().await.unwrap()
    );
    row!(
        rows,
        "Signal::poll_recv",
        {
            let mut signals = signal(SignalKind::user_defined1()).unwrap();
            let mut others = signal(SignalKind::user_defined1()).unwrap();
        },
        std::future::poll_fn(|cx| signals.poll_recv(cx)),
        send_signal(rustix::process::Signal::USR1),
        others.recv().await.unwrap()
    );
    row!(
        rows,
        "ctrl_c",
        {
            let mut others = signal(SignalKind::interrupt()).unwrap();
        },
        rt::signal::ctrl_c(),
        send_signal(rustix::process::Signal::INT),
        others.recv().await.unwrap()
    );
}

pub fn pool(rows: &mut Vec<Row>) {
    row!(rows, "lookup_host", {}, rt::net::lookup_host("localhost:1"), (), pool_is_idle().await);
}
