//! What a server tells its parent: that it is ready, and how much processor time it has taken.

use std::io::{self, BufRead};
use std::process;
use std::thread;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{Outcome, runtime_name};

/// Prints the line that says where the server listens, and answers questions from then on.
///
/// `more` is added to the line; it is an object.
pub fn announce(listener: &TcpListener, more: Value) -> Outcome {
    let mut line = json!({ "runtime": runtime_name(), "port": listener.local_addr()?.port() });
    if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
    println!("{line}");
    // A thread of std, so that the answer costs the runtime nothing.
    thread::spawn(answer);
    Ok(())
}

fn answer() {
    for _ in io::stdin().lock().lines().map_while(Result::ok) {
        let taken = clock_gettime(ClockId::ProcessCPUTime);
        println!("{}", taken.tv_sec as u64 * 1_000_000_000 + taken.tv_nsec as u64);
    }
    process::exit(0);
}
