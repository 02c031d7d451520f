//! Numbers resources in the texts of a run.
//!
//! Outside of simulations, a lock or a channel is shown by its address. Addresses differ between processes,
//! but two processes that make the same run must print the same text. So a run numbers the resources that its
//! texts show, starting with `#1`.
//!
//! A thread makes one run at a time, so the numbers are thread-local.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of each address.
#[derive(Default)]
struct Numbers(BTreeMap<u64, usize>);

thread_local! {
    /// The numbers of the current run, or `None` outside of runs. Boxed, so that it has no uninitialized
    /// words, which would differ after each run (`sys::thread_image`).
    static SHOWN: RefCell<Option<Box<Numbers>>> = const { RefCell::new(None) };
}

/// Starts numbering the resources that the calling thread's texts show. Forgets the numbers of earlier runs.
#[cfg(all(feature = "rt", feature = "sync"))]
pub(super) fn start_run() {
    SHOWN.set(Some(Box::default()));
}

/// Returns the text for the resource with this address: its number in a run, otherwise the address.
pub(crate) fn text_of(address: u64) -> String {
    let count = |shown: &RefCell<Option<Box<Numbers>>>| {
        let mut shown = shown.borrow_mut();
        let shown = shown.as_mut()?;
        let next = shown.0.len() + 1;
        Some(*shown.0.entry(address).or_insert(next))
    };
    // A thread that is exiting shows addresses.
    let number = SHOWN.try_with(count).ok().flatten();
    number.map_or_else(|| format!("#{address:x}"), |number| format!("#{number}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_resources_and_other_threads_show_addresses() {
        let in_run = || {
            start_run();
            [0xabc, 0x7f0, 0xabc].map(text_of)
        };
        assert_eq!(text_of(0xabc), "#abc");
        assert_eq!(std::thread::spawn(in_run).join().unwrap(), ["#1", "#2", "#1"]);
    }
}
