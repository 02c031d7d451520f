//! A system that refuses threads: the builder returns an error, or the runtime works with fewer threads.
//!
//! Each test runs itself again in a child process with a limited address space. Threads with huge stacks exhaust it
//! after the first.

use std::process::Command;
use std::time::Duration;

use wakeful::runtime::{Builder, Handle};
use wakeful::task::{block_in_place, yield_now};
use wakeful::time::sleep;

mod support {
    pub mod panic_site;
    pub mod runtimes;
}
use support::panic_site::panic_site;
use support::runtimes::{Reports, watch};

const CHILD: &str = "WAKEFUL_TEST_CHILD";
/// One of these fits into the child's address space, two do not.
const STACK_BYTES: usize = 900 << 20;
const LIMIT_KIB: usize = 1_500_000;

/// Runs `scenario` in a child process with little address space.
fn in_child(test: &str, scenario: fn()) {
    if std::env::var_os(CHILD).is_some() {
        return scenario();
    }
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let run = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {LIMIT_KIB} && exec \"$0\" --exact {test} --nocapture"))
        .arg(this)
        .env(CHILD, "1")
        .output()
        .expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "{}\n{}", text(&run.stdout), text(&run.stderr));
    assert!(text(&run.stdout).contains("1 passed"), "the child ran nothing");
}

#[test]
fn a_runtime_without_its_first_worker_is_not_built() {
    in_child("a_runtime_without_its_first_worker_is_not_built", || {
        let (reports, mut builder) = (Reports::new(), Builder::new_multi_thread());
        let built = builder.thread_stack_size(2 * STACK_BYTES).on_report(reports.hook()).build();
        assert!(built.is_err(), "two stacks in one do not fit");
    });
}

#[test]
fn one_worker_does_the_work_of_two() {
    in_child("one_worker_does_the_work_of_two", || {
        let mut builder = Builder::new_multi_thread();
        let rt =
            watch("short of threads", builder.worker_threads(2).thread_stack_size(STACK_BYTES));
        for round in 0..100u64 {
            let tasks: Vec<_> = (0..100)
                .map(|n| {
                    rt.spawn(async move {
                        yield_now().await;
                        n + round
                    })
                })
                .collect();
            let sum = rt.block_on(async {
                let mut sum = 0;
                for task in tasks {
                    sum += task.await.unwrap();
                }
                sum
            });
            assert_eq!(sum, 4_950 + 100 * round);
        }
    });
}

/// The worker's timers fire while its thread blocks and no other thread can replace it.
#[test]
fn a_thread_that_blocks_in_place_and_is_not_replaced_is_served() {
    in_child("a_thread_that_blocks_in_place_and_is_not_replaced_is_served", || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().thread_stack_size(STACK_BYTES).rescue_after(None);
        let rt = watch("short of threads", &mut builder);
        let moment = Duration::from_millis(1);
        for _ in 0..20 {
            let task = rt.spawn(async move {
                block_in_place(|| Handle::current().block_on(async { sleep(moment).await }));
                sleep(moment).await;
            });
            rt.block_on(task).unwrap();
            rt.block_on(async { sleep(moment).await });
        }
    });
}

#[test]
fn a_closure_that_gets_no_thread_panics_where_it_is_spawned() {
    in_child("a_closure_that_gets_no_thread_panics_where_it_is_spawned", || {
        let mut builder = Builder::new_current_thread();
        let rt = watch("no pool", builder.thread_stack_size(2 * STACK_BYTES));
        let handle = rt.handle().clone();
        let panic = panic_site(move || handle.spawn_blocking(|| ()));
        assert!(panic.message.starts_with("OS can't spawn worker thread"), "{panic:?}");
        assert_eq!(panic.file, file!());
        assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1, "all else goes on");
    });
}

#[test]
fn closures_make_do_with_the_threads_there_are() {
    in_child("closures_make_do_with_the_threads_there_are", || {
        let mut builder = Builder::new_current_thread();
        let rt = watch("one thread", builder.thread_stack_size(STACK_BYTES));
        let sum = rt.block_on(async {
            let closures: Vec<_> =
                (0..100u32).map(|n| wakeful::task::spawn_blocking(move || n)).collect();
            let mut sum = 0;
            for closure in closures {
                sum += closure.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 4_950);
    });
}
