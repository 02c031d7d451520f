//! Recognises the main thread of the standard test harness while it waits for its tests.
//!
//! `#[test]` functions run on threads of their own. The main thread starts them and waits for their
//! results. While it waits, it runs no code of a test and holds no object of one.
//!
//! The stack of the main thread shows this: the innermost frame outside the standard library and
//! the C library is the harness's `run_tests`. A test that runs on the main thread has other
//! frames, and so does the main thread of any other program. Without stacks or symbols no thread is
//! recognised.
//!
//! A program either is a test program or never becomes one. So the main thread of any other program
//! is interrupted for its stack only once.

use super::symbols::stack_of;
use crate::sys::thread_state;
use std::sync::OnceLock;

/// Whether the main thread runs a test harness. Empty until its stack has been captured.
static IS_TEST_PROGRAM: OnceLock<bool> = OnceLock::new();

/// Returns whether the stack of the main thread has shown that this is a test program.
pub(super) fn is_test_program() -> bool {
    IS_TEST_PROGRAM.get() == Some(&true)
}

/// Determines whether this is a test program, if that is unknown and `threads` contains the main thread.
pub(super) fn detect_test_program(threads: &[i32]) {
    if IS_TEST_PROGRAM.get().is_none() {
        threads.iter().any(|thread| detect_wait_for_tests(*thread));
    }
}

/// Captures the stack of the main thread, and returns whether it is a test harness waiting for its
/// tests.
///
/// Does nothing if `thread` is another thread. The first stack shows whether this is a test program.
pub(super) fn detect_wait_for_tests(thread: i32) -> bool {
    let is_main = i32::try_from(std::process::id()) == Ok(thread);
    if !is_main || IS_TEST_PROGRAM.get() == Some(&false) || !thread_state::is_blocked(thread) {
        return false;
    }
    let stack = stack_of(thread);
    if !stack.is_empty() {
        IS_TEST_PROGRAM.get_or_init(|| has_harness_frame(&stack));
    }
    is_in_run_tests(&stack)
}

/// Returns whether any frame belongs to the harness. The main thread of a test program always has one.
fn has_harness_frame(stack: &[String]) -> bool {
    stack.iter().any(|name| name.trim_start_matches('<').starts_with("test::"))
}

/// Returns whether the innermost frame outside of the libraries is `run_tests`.
fn is_in_run_tests(stack: &[String]) -> bool {
    let is_library = |name: &&String| {
        let name = name.trim_start_matches('<');
        name.starts_with("std::") || name.starts_with("core::") || !name.contains("::")
    };
    let function = stack.iter().find(|name| !is_library(name));
    function.is_some_and(|name| {
        matches!(&**name, "test::run_tests" | "test::console::run_tests_console")
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{detect_wait_for_tests, has_harness_frame, is_in_run_tests};
    use crate::sys::backtrace::current_tid;

    fn stack(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_the_waiting_harness_is_recognised() {
        let waits = ["syscall", "std::thread::park", "test::run_tests", "main"];
        assert!(is_in_run_tests(&stack(&waits)));
        let runs = ["syscall", "std::thread::park", "app::tests::it_works", "test::run_tests"];
        assert!(!is_in_run_tests(&stack(&runs)));
        let closure = ["syscall", "test::run_test::{{closure}}", "test::run_tests"];
        assert!(!is_in_run_tests(&stack(&closure)));
        assert!(!is_in_run_tests(&stack(&["syscall", "app::main", "main"])));
        assert!(!is_in_run_tests(&[]));
        assert!(has_harness_frame(&stack(&runs)) && has_harness_frame(&stack(&closure)));
        assert!(!has_harness_frame(&stack(&["syscall", "app::test::main", "main"])));
    }

    /// The harness runs this test too.
    #[test]
    #[cfg(all(target_env = "gnu", not(miri)))]
    fn the_main_thread_of_this_program_is_recognised() {
        let main = std::process::id() as i32;
        if current_tid() == main {
            return eprintln!("skipped: the harness runs its tests on the main thread");
        }
        let stack = || super::super::symbols::stack_of(main);
        while !detect_wait_for_tests(main) {
            std::thread::yield_now();
            assert!(!stack().is_empty(), "the system allows stack captures");
        }
        assert!(!detect_wait_for_tests(current_tid()));
    }
}
