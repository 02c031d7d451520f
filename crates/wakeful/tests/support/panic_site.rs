//! Catches a panic and returns its location, for tests of `#[track_caller]` and of macros.

use std::cell::{Cell, RefCell};
use std::panic::{self, UnwindSafe};
use std::sync::Once;

/// A caught panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanicSite {
    /// The file in the panic's location.
    pub file: String,
    /// The line in the panic's location.
    pub line: u32,
    /// The panic's message.
    pub message: String,
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<PanicSite>> = const { RefCell::new(None) };
}

/// Runs `action`, which must panic, and returns the location of the panic. Panics on other threads
/// print as usual.
pub fn panic_site<R>(action: impl FnOnce() -> R + UnwindSafe) -> PanicSite {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return usual(info);
            }
            let location = info.location().expect("std gives every panic a location");
            let message = info.payload_as_str().unwrap_or("<not a string>").to_owned();
            CAUGHT.set(Some(PanicSite {
                file: location.file().to_owned(),
                line: location.line(),
                message,
            }));
        }));
    });

    CATCHING.set(true);
    let outcome = panic::catch_unwind(action);
    CATCHING.set(false);
    assert!(outcome.is_err(), "this was expected to panic");
    CAUGHT.take().expect("the hook has seen the panic")
}
