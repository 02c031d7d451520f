//! Detects whether code has changed the thread-locals of a thread, by comparing their words of memory.
//!
//! A module's thread-locals are in one block on each thread. If the block is unchanged since the thread
//! began, no code that ran on the thread left state in it.
//!
//! The blocks of the C library and of its loader do not count, because the allocator and `errno` change
//! with every call. Memory that a thread-local refers to does not count either, but the reference is in
//! the block. C code may use `pthread_setspecific` instead, whose values count as further words.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// How many values of `pthread_setspecific` a thread has at least (`_POSIX_THREAD_KEYS_MAX`). The C
/// library hands out the lowest keys first.
const KEYS: u32 = 128;

/// The TLS block of the calling thread.
#[derive(PartialEq, Eq)]
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
    if info.dlpi_phdr.is_null() {
        return 0; // a static program whose kernel did not pass its headers
    }
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

    fn words(&self) -> impl Iterator<Item = u64> {
        (0..self.bytes.div_ceil(WORD)).map(|index| self.word(index))
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

/// Returns what the calling thread has stored for a key. Returns 0 if the key does not exist.
fn specific(key: u32) -> u64 {
    // SAFETY: the C libraries of Linux look the key up in a table with at least this many entries, and
    // return null for one that does not exist.
    unsafe { libc::pthread_getspecific(key) }.addr() as u64
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
        let words = block.words().chain((0..KEYS).map(specific)).collect();
        Some(Self { block, words })
    }

    /// Returns the words that have changed since the copy.
    pub(crate) fn changed(&self) -> KnownWords {
        KnownWords(self.words.iter().zip(self.words_now()).map(|(was, is)| *was != is).collect())
    }

    /// Returns whether only `known` words have changed since the copy.
    ///
    /// Returns false if a module with thread-locals was loaded meanwhile: the copy lacks its block.
    pub(crate) fn is_unchanged_except(&self, known: &KnownWords) -> bool {
        self.words.len() == known.0.len()
            && Block::find().as_ref() == Some(&self.block)
            && (self.words.iter().zip(self.words_now()).zip(&known.0))
                .all(|((was, is), is_known)| *is_known || *was == is)
    }

    /// Returns the words of the calling thread.
    fn words_now(&self) -> impl Iterator<Item = u64> {
        self.block.words().chain((0..KEYS).map(specific))
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
    fn thread_specific_data_is_found() {
        let is_new = is_new_after(|| {
            let mut key = 0;
            // SAFETY: the key is created before it is used, and its value is not used as a pointer.
            unsafe {
                assert_eq!(libc::pthread_key_create(&mut key, None), 0);
                assert_eq!(libc::pthread_setspecific(key, std::ptr::without_provenance(1)), 0);
            }
        });
        assert!(!is_new);
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
