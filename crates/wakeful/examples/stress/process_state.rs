//! Counts the threads, descriptors and children of the process. Each round must leave all counts unchanged.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Threads that wakeful starts once per process, and threads of the stress program itself.
const PROCESS_WIDE: &[&str] = &["wakeful-watchdo", "wakeful-dump", "stress-watchdog"];

/// The threads and descriptors of the process at one moment.
pub struct ProcessState {
    threads: BTreeSet<u32>,
    descriptors: BTreeSet<u32>,
}

impl ProcessState {
    pub fn now() -> Self {
        Self { threads: threads(), descriptors: descriptors() }
    }

    /// Describes the threads, descriptors and children that the process has gained since. Returns `None` if it gained
    /// none.
    pub fn excess(&self) -> Option<String> {
        let mut excess = Vec::new();
        for thread in threads().difference(&self.threads) {
            // A thread that has ended in the meantime has no name.
            let Ok(name) = fs::read_to_string(format!("/proc/self/task/{thread}/comm")) else {
                continue;
            };
            if !PROCESS_WIDE.contains(&name.trim()) {
                excess.push(format!("thread {thread} ({})", name.trim()));
            }
        }
        for descriptor in descriptors().difference(&self.descriptors) {
            // Another thread may have closed the descriptor in the meantime.
            if let Ok(target) = fs::read_link(format!("/proc/self/fd/{descriptor}"))
                && !is_report_file(&target)
            {
                excess.push(format!("descriptor {descriptor} ({})", target.display()));
            }
        }
        if has_children() {
            excess.push("a child process, running or not waited for".to_owned());
        }
        (!excess.is_empty()).then(|| excess.join(", "))
    }

    /// Closes all descriptors that were opened since this moment: they belong to forgotten futures.
    pub fn close_new_descriptors(&self) {
        for descriptor in descriptors().difference(&self.descriptors) {
            let target = fs::read_link(format!("/proc/self/fd/{descriptor}"));
            if target.is_ok_and(|target| is_report_file(&target)) {
                continue;
            }
            // SAFETY: the owner of the descriptor was forgotten, so no code uses it or closes it again.
            unsafe { libc::close(*descriptor as i32) };
        }
    }
}

/// Returns whether this is the file of `WAKEFUL_REPORTS`, which stays open after the first report.
fn is_report_file(target: &Path) -> bool {
    let named = env::var_os("WAKEFUL_REPORTS").and_then(|path| fs::canonicalize(path).ok());
    named.is_some_and(|named| named == target)
}

fn numbers(folder: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(folder).expect("procfs is mounted");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the ids of all threads.
///
/// The kernel's list ends early if a thread ends while the kernel is at its entry. If two lists are equal, no thread
/// of the first one ended in between, so the first list is complete.
fn threads() -> BTreeSet<u32> {
    let mut last = numbers("/proc/self/task");
    loop {
        let next = numbers("/proc/self/task");
        if next == last {
            return last;
        }
        last = next;
    }
}

fn descriptors() -> BTreeSet<u32> {
    let mut all = numbers("/proc/self/fd");
    // The descriptor that was used for the listing is closed now.
    all.retain(|descriptor| fs::read_link(format!("/proc/self/fd/{descriptor}")).is_ok());
    all
}

/// Returns whether the process has a child, without taking its exit status.
pub fn has_children() -> bool {
    // SAFETY: a zeroed siginfo_t is valid, and the call only fills it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) == 0
    }
}
