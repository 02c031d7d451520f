//! The numbers of resources in the texts of a run.
//!
//! Outside of simulations, a lock or a channel is shown by an address. Addresses differ between
//! processes, but two processes that make the same run have to print the same text. So a run counts the
//! resources that its texts show: the first one is `#1`.
//!
//! A thread makes one run at a time, so the numbers belong to the thread.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of each address.
#[derive(Default)]
struct Numbers(BTreeMap<u64, usize>);

thread_local! {
    /// The numbers of the present run. `None` outside of runs. Boxed, so that it has no words without a value:
    /// those would differ after each run (`sys::thread_image`).
    static SHOWN: RefCell<Option<Box<Numbers>>> = const { RefCell::new(None) };
}

/// Makes the calling thread count the resources that its texts show. Forgets those of an earlier run.
#[cfg(all(feature = "rt", feature = "sync"))]
pub(super) fn start_run() {
    SHOWN.set(Some(Box::default()));
}

/// Returns the text for the resource with this address: a count in a run, else the address.
pub(crate) fn text_of(address: u64) -> String {
    let count = |shown: &RefCell<Option<Box<Numbers>>>| {
        let mut shown = shown.borrow_mut();
        let shown = shown.as_mut()?;
        let next = shown.0.len() + 1;
        Some(*shown.0.entry(address).or_insert(next))
    };
    // A thread that ends shows addresses.
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
