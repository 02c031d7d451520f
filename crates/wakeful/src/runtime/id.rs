//! Ids of runtimes and local sets.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The id of a runtime or `LocalSet`, unique in the process.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Handle;
///
/// # #[wakeful::main]
/// # async fn main() {
/// println!("runtime {}", Handle::current().id());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(NonZeroU64);

impl Id {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Relaxed);
        Self(NonZeroU64::new(id).expect("the count starts at 1 and does not wrap in practice"))
    }

    pub(crate) fn as_u64(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
