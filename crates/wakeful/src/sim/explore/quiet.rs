//! Silences the panics of a search, which has many runs that fail, and remembers where they were.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, Once};

use crate::sys::sync::ignore_poison;

/// The number of panics of a run that are remembered.
const REMEMBERED: usize = 64;

/// The panics of one run: the first line of each message, and where it was.
#[derive(Clone, Default)]
pub(super) struct Panics(Arc<Mutex<Vec<(String, String)>>>);

impl Panics {
    /// Collects the panics of the calling thread from now on, and does not print them.
    pub(super) fn collect(&self) {
        COLLECTED.set(Some(self.clone()));
    }

    /// Returns where the last panic was whose message the text has.
    pub(super) fn site_in(&self, text: &str) -> Option<String> {
        let panics = ignore_poison(self.0.lock());
        let found = panics.iter().rev().find(|(message, _)| text.contains(message.as_str()));
        found.map(|(_, site)| site.clone())
    }

    fn add(&self, info: &PanicHookInfo<'_>) {
        let message = info.payload_as_str().and_then(|message| message.lines().next());
        // As a failure quotes it.
        let message = message.unwrap_or_default().escape_debug().to_string();
        let site = info.location().map(ToString::to_string).unwrap_or_default();
        let mut panics = ignore_poison(self.0.lock());
        if panics.len() < REMEMBERED && !message.is_empty() {
            panics.push((message, site));
        }
    }
}

thread_local! {
    static COLLECTED: RefCell<Option<Panics>> = const { RefCell::new(None) };
}

/// Puts a panic hook in front of the present one, which gets the panics that are not collected.
pub(super) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A thread that drops its thread-locals prints its panics.
            let collected = COLLECTED.try_with(|collected| collected.borrow().clone());
            match collected.ok().flatten() {
                Some(panics) => panics.add(info),
                None => print(info),
            }
        }));
    });
}
