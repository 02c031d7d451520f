//! The data of a task in dumps and reports: a reference, its text, and its deferred drop.
//!
//! Formatting and dropping the data runs user code. The text is made once, outside the runtime's
//! locks: by `Handle::dump`, when a report is delivered, or when it is first written. Later changes
//! of the data do not show. A scan that holds a lock drops references inside [`defer_drops`].

use crate::sys::unwind::catch_and_forget;
use crate::task::data::TaskData;
use crate::task::header::Header;
use std::any::Any;
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

/// A reference to the data of a task, with the text that was made of it.
#[derive(Clone)]
pub(super) struct DataRef {
    /// `None` only during drop.
    data: Option<Arc<dyn TaskData>>,
    /// Shared by all clones.
    text: Arc<OnceLock<Option<String>>>,
}

// Its methods are called inside of `catch_unwind`.
impl UnwindSafe for DataRef {}
impl RefUnwindSafe for DataRef {}

thread_local! {
    /// References that are dropped when the outermost `defer_drops` of this thread returns.
    static DEFERRED: RefCell<Option<Vec<Arc<dyn TaskData>>>> = const { RefCell::new(None) };
}

impl DataRef {
    pub(super) fn of_task(header: &Header) -> Option<Self> {
        Some(Self::new(header.attached()?.data()?))
    }

    fn new(data: Arc<dyn TaskData>) -> Self {
        Self { data: Some(data), text: Arc::default() }
    }

    pub(super) fn downcast<T: TaskData>(&self) -> Option<&T> {
        let data: &dyn Any = self.data.as_deref()?;
        data.downcast_ref()
    }

    /// Returns the text of the data, on one line. `None` if it is empty.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.get_or_init(|| self.write_text()).as_deref()
    }

    fn write_text(&self) -> Option<String> {
        let (mut text, data) = (OneLine(String::new()), self.data.as_deref()?);
        let written = catch_and_forget(|| write!(text, "{data}"));
        match written {
            Some(Ok(())) => Some(text.0).filter(|text| !text.is_empty()),
            _ => Some("its Display panicked or failed".to_owned()),
        }
    }
}

impl Drop for DataRef {
    fn drop(&mut self) {
        let mut data = self.data.take();
        // A thread that ends has no list any more, and runs no scan.
        let _ = DEFERRED.try_with(|deferred| {
            if let Some(list) = &mut *deferred.borrow_mut() {
                list.extend(data.take());
            }
        });
        catch_and_forget(|| drop(data));
    }
}

impl fmt::Debug for DataRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text().unwrap_or_default(), f)
    }
}

/// Runs `f`, which holds a lock. Data whose last reference `f` drops is dropped afterwards.
pub(crate) fn defer_drops<R>(f: impl FnOnce() -> R) -> R {
    struct DropDeferred;
    impl Drop for DropDeferred {
        fn drop(&mut self) {
            let deferred = DEFERRED.take();
            for data in deferred.into_iter().flatten() {
                catch_and_forget(|| drop(data));
            }
        }
    }
    if DEFERRED.with_borrow(Option::is_some) {
        return f();
    }
    DEFERRED.set(Some(Vec::new()));
    let _drop_deferred = DropDeferred;
    f()
}

/// Escapes control characters, which would break the lines of a report.
struct OneLine(String);

impl fmt::Write for OneLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                char if char.is_control() => self.0.extend(char.escape_default()),
                char => self.0.push(char),
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    struct Counted(Arc<AtomicU32>);

    impl fmt::Display for Counted {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a\tb")
        }
    }

    impl TaskData for Counted {}

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn drops_are_deferred_to_the_end_of_the_outermost_scan() {
        let drops = Arc::new(AtomicU32::new(0));
        let data = || DataRef::new(Arc::new(Counted(drops.clone())));
        drop(data());
        assert_eq!(drops.load(Relaxed), 1);
        defer_drops(|| {
            drop(data());
            defer_drops(|| drop(data()));
            assert_eq!(drops.load(Relaxed), 1);
        });
        assert_eq!(drops.load(Relaxed), 3);
        assert!(
            std::panic::catch_unwind(|| defer_drops(|| {
                let _data = data();
                std::panic::resume_unwind(Box::new("planted"));
            }))
            .is_err()
        );
        assert_eq!(drops.load(Relaxed), 4);
        drop(data());
        assert_eq!(drops.load(Relaxed), 5);
    }

    #[test]
    fn a_text_is_one_line() {
        let data = DataRef::new(Arc::new(Counted(Arc::default())));
        assert_eq!(data.text(), Some("a\\tb"));
        assert_eq!(format!("{data:?}"), r#""a\\tb""#);
        assert!(data.downcast::<Counted>().is_some());
    }
}
