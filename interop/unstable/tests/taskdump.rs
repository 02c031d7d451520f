//! A program that prints tokio's task dumps runs on wakeful, and shows what tasks wait for.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::dump::{Dump, Task};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How long the task may take to begin to wait. Only a hang comes near it.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the text of each task, as tokio's documentation prints it.
fn traces(dump: &Dump) -> Vec<String> {
    let tasks = dump.tasks().iter();
    tasks.map(|task: &Task| format!("TASK {:?}:\n{}\n", task.id(), task.trace())).collect()
}

#[test]
fn a_trace_says_what_a_task_waits_for() {
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for rt in [current, multi] {
        rt.block_on(async {
            let lock = Arc::new(Mutex::new(()));
            let guard = lock.clone().lock_owned().await;
            let waits = tokio::spawn(async move { drop(lock.lock().await) });
            // A dump does not wait for the task, so the test does.
            let text = timeout(LIMIT, async {
                loop {
                    let dump = timeout(LIMIT, Handle::current().dump()).await;
                    let texts = traces(&dump.expect("a dump is ready at once"));
                    let start = format!("TASK {:?}:", Some(waits.id()));
                    let own = texts.into_iter().find(|text| text.starts_with(&start));
                    match own.expect("the task is alive") {
                        text if text.contains("Mutex::lock") => break text,
                        _ => yield_now().await,
                    }
                }
            })
            .await
            .expect("the task waits soon");
            assert!(text.contains("tests/taskdump.rs:"), "{text}");
            drop(guard);
            waits.await.unwrap();
        });
    }
}
