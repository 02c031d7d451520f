//! Counts the threads, descriptors and children of the process. A round must leave all of them as they were.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Threads that wakeful starts once for the whole process, and those of the stress program itself.
const PROCESS_WIDE: &[&str] = &["wakeful-watchdo", "wakeful-dump", "stress-watchdog"];

/// The threads and descriptors at one moment.
pub struct ProcessState {
    threads: BTreeSet<u32>,
    descriptors: BTreeSet<u32>,
}

impl ProcessState {
    pub fn now() -> Self {
        Self { threads: threads(), descriptors: descriptors() }
    }

    /// Describes the threads, descriptors and children that the process has gained since. `None`: it gained none.
    pub fn excess(&self) -> Option<String> {
        let mut excess = Vec::new();
        for thread in threads().difference(&self.threads) {
            // A thread that is gone meanwhile has no name.
            let Ok(name) = fs::read_to_string(format!("/proc/self/task/{thread}/comm")) else {
                continue;
            };
            if !PROCESS_WIDE.contains(&name.trim()) {
                excess.push(format!("thread {thread} ({})", name.trim()));
            }
        }
        for descriptor in descriptors().difference(&self.descriptors) {
            // Another thread may have closed it meanwhile.
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

    /// Closes every descriptor that the process did not have at this moment: those in futures that were forgotten.
    pub fn close_new_descriptors(&self) {
        for descriptor in descriptors().difference(&self.descriptors) {
            let target = fs::read_link(format!("/proc/self/fd/{descriptor}"));
            if target.is_ok_and(|target| is_report_file(&target)) {
                continue;
            }
            // SAFETY: what owns the descriptor was forgotten, so nothing uses it or closes it again.
            unsafe { libc::close(*descriptor as i32) };
        }
    }
}

/// The file that `WAKEFUL_REPORTS` names stays open once a report was made.
fn is_report_file(target: &Path) -> bool {
    let named = env::var_os("WAKEFUL_REPORTS").and_then(|path| fs::canonicalize(path).ok());
    named.is_some_and(|named| named == target)
}

fn numbers(folder: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(folder).expect("procfs is mounted");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The ids of all threads.
///
/// The kernel's list ends early if a thread ends while the kernel is at its entry. If two lists are equal, no thread of
/// the first has ended meanwhile, so the first is complete.
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
    // The descriptor that has listed them is closed by now.
    all.retain(|descriptor| fs::read_link(format!("/proc/self/fd/{descriptor}")).is_ok());
    all
}

/// Whether the process has a child, without taking its exit status.
pub fn has_children() -> bool {
    // SAFETY: a zeroed siginfo_t is valid, and the call only fills it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) == 0
    }
}
