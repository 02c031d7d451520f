//! Silences the panics of a search, and remembers where they happened.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, Once};

use crate::sys::sync::ignore_poison;

/// The most panics of a run that are remembered.
const REMEMBERED: usize = 64;

/// The panics of one run: the first line of each message, and its location.
#[derive(Clone, Default)]
pub(super) struct Panics(Arc<Mutex<Vec<(String, String)>>>);

impl Panics {
    /// Collects the panics of the calling thread from now on instead of printing them.
    pub(super) fn collect(&self) {
        COLLECTED.set(Some(self.clone()));
    }

    /// Returns the location of the last panic whose message occurs in `text`.
    pub(super) fn site_in(&self, text: &str) -> Option<String> {
        let panics = ignore_poison(self.0.lock());
        let found = panics.iter().rev().find(|(message, _)| text.contains(message.as_str()));
        found.map(|(_, site)| site.clone())
    }

    fn add(&self, info: &PanicHookInfo<'_>) {
        let message = info.payload_as_str().and_then(|message| message.lines().next());
        // In the form in which a failure quotes it.
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

/// Installs a panic hook that passes panics which are not collected to the previous hook.
pub(super) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // While a thread drops its thread-locals, its panics are printed.
            let collected = COLLECTED.try_with(|collected| collected.borrow().clone());
            match collected.ok().flatten() {
                Some(panics) => panics.add(info),
                None => print(info),
            }
        }));
    });
}
