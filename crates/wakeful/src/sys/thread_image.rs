//! The thread-locals of a thread as words of memory: whether code has left something in them.
//!
//! A thread-local of a program is a part of the block that its module has on each thread. A block that
//! is as it was when the thread began holds no trace of what has run on the thread.
//!
//! The blocks of the C library and of its loader do not count: their allocator and `errno` change with
//! every call. Neither does memory that a thread-local refers to. The reference is in the block.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};

/// The bytes of a word.
const WORD: usize = size_of::<u64>();

/// The thread-locals of the calling thread.
struct Block {
    start: *const u8,
    bytes: usize,
}

/// What the loader has told so far.
#[derive(Default)]
struct Found {
    block: Option<Block>,
    modules: usize,
}

/// Returns whether a module is the C library or its loader.
fn is_c_library(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"libc.so") || name.starts_with(b"ld-")
}

/// Notes the block of a module.
///
/// # Safety
///
/// `dl_iterate_phdr` calls it, with a [`Found`] as `found`.
unsafe extern "C" fn note_module(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: by contract; the loader passes a complete description of the module.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
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
    /// Returns the block of the calling thread. `None` if there are several, of several modules, or if
    /// the loader does not tell.
    fn find() -> Option<Self> {
        if cfg!(miri) {
            return None;
        }
        let mut found = Found::default();
        // SAFETY: the function has the type that is asked for, and gets what it expects.
        unsafe { libc::dl_iterate_phdr(Some(note_module), (&raw mut found).cast()) };
        let is_aligned =
            |block: &Self| !block.start.is_null() && block.start.addr().is_multiple_of(WORD);
        found.block.filter(|block| found.modules == 1 && is_aligned(block))
    }

    /// Returns a word of the block. The last one may be cut short.
    fn word(&self, index: usize) -> u64 {
        let at = index * WORD;
        // SAFETY: the block is memory of the calling thread as long as that lives, has these bytes, and is
        // aligned. They are read as the kernel or a debugger would, since other code owns what is in them.
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

/// The thread-locals of a thread, as they were.
pub(crate) struct ThreadImage {
    block: Block,
    words: Box<[u64]>,
}

/// The words in which two images may differ: those of this crate and of the standard library.
pub(crate) struct KnownWords(Box<[bool]>);

impl ThreadImage {
    /// Copies the thread-locals of the calling thread. `None` if they cannot be told.
    pub(crate) fn take() -> Option<Self> {
        let block = Block::find()?;
        let words = (0..block.bytes.div_ceil(WORD)).map(|index| block.word(index)).collect();
        Some(Self { block, words })
    }

    /// Returns the words that differ by now.
    pub(crate) fn changed(&self) -> KnownWords {
        let words = self.words.iter().enumerate();
        KnownWords(words.map(|(index, word)| self.block.word(index) != *word).collect())
    }

    /// Returns whether no other word differs by now.
    pub(crate) fn is_unchanged_but_for(&self, known: &KnownWords) -> bool {
        let is_alike = |(index, (word, is_known)): (usize, (&u64, &bool))| {
            *is_known || self.block.word(index) == *word
        };
        self.words.len() == known.0.len()
            && self.words.iter().zip(&known.0).enumerate().all(is_alike)
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

    /// Returns whether a new thread is as new after it has called `f`.
    fn is_new_after(f: fn()) -> bool {
        let run = move || {
            let image = ThreadImage::take().expect("the test has one module");
            f();
            image.is_unchanged_but_for(&KnownWords(vec![false; image.words.len()].into()))
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
            let is_alike = image.is_unchanged_but_for(&known);
            LIST.with_borrow_mut(|list| list.push(1));
            (is_alike, image.is_unchanged_but_for(&known))
        };
        assert_eq!(std::thread::spawn(run).join().unwrap(), (true, false));
    }
}
