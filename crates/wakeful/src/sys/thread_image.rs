//! Detects whether code has changed the thread-locals of a thread, by comparing their words of memory.
//!
//! A module's thread-locals are in one block on each thread. If the block is unchanged since the thread
//! began, no code that ran on the thread left state in it.
//!
//! The blocks of the C library and of its loader do not count, because the allocator and `errno` change
//! with every call. Memory that a thread-local refers to does not count either, but the reference is in
//! the block.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// The TLS block of the calling thread.
struct Block {
    start: *const u8,
    bytes: usize,
}

/// The TLS blocks found so far by `dl_iterate_phdr`.
#[derive(Default)]
struct TlsBlocks {
    block: Option<Block>,
    modules: usize,
}

/// Returns whether a module is the C library or its loader.
fn is_c_library(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"libc.so") || name.starts_with(b"ld-")
}

/// Records the TLS block of a module. A callback of `dl_iterate_phdr`.
///
/// # Safety
///
/// `dl_iterate_phdr` must call it, with a [`TlsBlocks`] as `found`.
unsafe extern "C" fn record_module(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: by contract. The loader passes a complete description of the module.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<TlsBlocks>()) };
    // SAFETY: the name ends with a zero byte, and the headers have this length.
    let (name, headers) = unsafe {
        let name = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
        (name, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let Some(tls) = headers.iter().find(|header| header.p_type == libc::PT_TLS) else { return 0 };
    if tls.p_memsz > 0 && !is_c_library(name.to_bytes()) {
        found.modules += 1;
        let (start, bytes) = (info.dlpi_tls_data.cast_const().cast(), tls.p_memsz as usize);
        found.block = Some(Block { start, bytes });
    }
    0
}

impl Block {
    /// Returns the block of the calling thread. Returns `None` if several modules have blocks, or if the
    /// loader does not report the block.
    fn find() -> Option<Self> {
        if cfg!(miri) {
            return None;
        }
        let mut found = TlsBlocks::default();
        // SAFETY: the function has the type that the loader expects, and gets a `TlsBlocks`.
        unsafe { libc::dl_iterate_phdr(Some(record_module), (&raw mut found).cast()) };
        let is_aligned =
            |block: &Self| !block.start.is_null() && block.start.addr().is_multiple_of(WORD);
        found.block.filter(|block| found.modules == 1 && is_aligned(block))
    }

    /// Returns a word of the block. The last word may have fewer bytes.
    fn word(&self, index: usize) -> u64 {
        let at = index * WORD;
        // SAFETY: the block is memory of the calling thread while the thread lives, has these bytes, and
        // is aligned. The bytes are read as the kernel or a debugger would, since other code owns the
        // values in them.
        unsafe {
            match self.bytes - at {
                WORD.. => self.start.add(at).cast::<u64>().read_volatile(),
                rest => (0..rest).fold(0, |word, nth| {
                    word << 8 | u64::from(self.start.add(at + nth).read_volatile())
                }),
            }
        }
    }
}

/// A copy of the thread-locals of a thread.
pub(crate) struct ThreadImage {
    block: Block,
    words: Box<[u64]>,
}

/// The words in which two images may differ: thread-locals of this crate and of the standard library.
pub(crate) struct KnownWords(Box<[bool]>);

impl ThreadImage {
    /// Copies the thread-locals of the calling thread. Returns `None` if they can't be determined.
    pub(crate) fn take() -> Option<Self> {
        let block = Block::find()?;
        let words = (0..block.bytes.div_ceil(WORD)).map(|index| block.word(index)).collect();
        Some(Self { block, words })
    }

    /// Returns the words that have changed since the copy.
    pub(crate) fn changed(&self) -> KnownWords {
        let words = self.words.iter().enumerate();
        KnownWords(words.map(|(index, word)| self.block.word(index) != *word).collect())
    }

    /// Returns whether only `known` words have changed since the copy.
    pub(crate) fn is_unchanged_except(&self, known: &KnownWords) -> bool {
        let is_unchanged_or_known = |(index, (word, is_known)): (usize, (&u64, &bool))| {
            *is_known || self.block.word(index) == *word
        };
        self.words.len() == known.0.len()
            && self.words.iter().zip(&known.0).enumerate().all(is_unchanged_or_known)
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
        static LIST: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns whether the thread-locals of a new thread are unchanged after `f`.
    fn is_new_after(f: fn()) -> bool {
        let run = move || {
            let image = ThreadImage::take().expect("the test has one module");
            f();
            image.is_unchanged_except(&KnownWords(vec![false; image.words.len()].into()))
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn what_is_left_in_a_thread_local_is_found() {
        assert!(is_new_after(|| ()));
        assert!(is_new_after(|| drop(std::hint::black_box(vec![1; 100]))));
        assert!(!is_new_after(|| COUNT.set(1)));
        assert!(is_new_after(|| COUNT.set(COUNT.replace(0))));
        assert!(!is_new_after(|| LIST.with_borrow_mut(|list| list.push(1))));
    }

    #[test]
    fn known_words_may_change() {
        let run = || {
            let image = ThreadImage::take().unwrap();
            COUNT.set(1);
            let known = image.changed();
            COUNT.set(2);
            let is_unchanged = image.is_unchanged_except(&known);
            LIST.with_borrow_mut(|list| list.push(1));
            (is_unchanged, image.is_unchanged_except(&known))
        };
        assert_eq!(std::thread::spawn(run).join().unwrap(), (true, false));
    }
}
