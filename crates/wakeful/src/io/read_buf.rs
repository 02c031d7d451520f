//! The memory that a reader reads into.
//!
//! ```text
//!   |———————————————————— capacity ————————————————————|
//!   |—— filled ——|————————— unfilled = remaining ——————|
//!   |———————— initialized ————————|
//! ```
//!
//! Rules:
//! - B1. `filled <= initialized <= buf.len()`.
//! - B2. The first `initialized` bytes of `buf` hold values, and nobody makes
//!   them lose those while the `ReadBuf` lives.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;

/// A buffer that is being filled, and that need not hold values before.
///
/// It knows of three parts of its memory: what was filled with data; what holds
/// any value because somebody wrote to it once (the filled part is the front of
/// that); and the rest, which may be uninitialised. So memory is cleared once at
/// most, however many reads it takes to fill it.
pub struct ReadBuf<'a> {
    buf: &'a mut [MaybeUninit<u8>],
    filled: usize,
    initialized: usize,
}

impl<'a> ReadBuf<'a> {
    /// A buffer over memory that holds values already.
    #[inline]
    pub fn new(buf: &'a mut [u8]) -> ReadBuf<'a> {
        let initialized = buf.len();
        // SAFETY: the same bytes. All are initialised, and stay so (B2): only the
        // `unsafe` methods lend them to somebody who could undo that.
        let buf = unsafe { &mut *(&raw mut *buf as *mut [MaybeUninit<u8>]) };
        ReadBuf { buf, filled: 0, initialized }
    }

    /// A buffer over memory that need not hold values. If it does, say so with
    /// [`assume_init`](Self::assume_init).
    #[inline]
    pub fn uninit(buf: &'a mut [MaybeUninit<u8>]) -> ReadBuf<'a> {
        ReadBuf { buf, filled: 0, initialized: 0 }
    }

    /// How many bytes it can hold in all.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// The data that is in it.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: B1, B2.
        unsafe { self.buf[..self.filled].assume_init_ref() }
    }

    /// The data that is in it, to be changed.
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        // SAFETY: B1, B2.
        unsafe { self.buf[..self.filled].assume_init_mut() }
    }

    /// A buffer over the first `n` bytes that are not filled, or all of them if
    /// there are fewer. What is put into it does not count as filled in `self`.
    #[inline]
    pub fn take(&mut self, n: usize) -> ReadBuf<'_> {
        let n = self.remaining().min(n);
        ReadBuf::uninit(&mut self.buf[self.filled..][..n])
    }

    /// The part that holds values; the filled part is the front of it.
    #[inline]
    pub fn initialized(&self) -> &[u8] {
        // SAFETY: B2.
        unsafe { self.buf[..self.initialized].assume_init_ref() }
    }

    /// The part that holds values, to be changed.
    #[inline]
    pub fn initialized_mut(&mut self) -> &mut [u8] {
        // SAFETY: B2.
        unsafe { self.buf[..self.initialized].assume_init_mut() }
    }

    /// All of the memory.
    ///
    /// # Safety
    ///
    /// What holds a value must go on to hold one.
    #[inline]
    pub unsafe fn inner_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        self.buf
    }

    /// The part that is not filled. After writing values to the front of it, call
    /// [`assume_init`](Self::assume_init) and [`advance`](Self::advance).
    ///
    /// # Safety
    ///
    /// What holds a value must go on to hold one.
    #[inline]
    pub unsafe fn unfilled_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.buf[self.filled..]
    }

    /// The part that is not filled, as bytes: those without a value are set to 0
    /// first. For readers that want a `&mut [u8]`; this costs nothing for memory
    /// that was initialised before.
    #[inline]
    pub fn initialize_unfilled(&mut self) -> &mut [u8] {
        self.initialize_unfilled_to(self.remaining())
    }

    /// The same for the first `n` bytes that are not filled.
    ///
    /// # Panics
    ///
    /// If there are fewer than `n`.
    #[inline]
    #[track_caller]
    pub fn initialize_unfilled_to(&mut self, n: usize) -> &mut [u8] {
        assert!(n <= self.remaining(), "n overflows remaining");
        let end = self.filled + n;
        if self.initialized < end {
            self.buf[self.initialized..end].fill(MaybeUninit::new(0));
            self.initialized = end;
        }
        // SAFETY: B2 up to `end`, by the lines above.
        unsafe { self.buf[self.filled..end].assume_init_mut() }
    }

    /// How many bytes can still be filled.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.buf.len() - self.filled
    }

    /// Nothing is filled any more. What holds values goes on to hold them.
    #[inline]
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// The next `n` bytes are data too. They must hold values already.
    ///
    /// # Panics
    ///
    /// If the filled part would reach behind the initialised one.
    #[inline]
    #[track_caller]
    pub fn advance(&mut self, n: usize) {
        self.set_filled(self.filled.checked_add(n).expect("filled overflow"));
    }

    /// The first `n` bytes are data, and no others. This can take data off the
    /// end as well as add some; what is added must hold values already.
    ///
    /// # Panics
    ///
    /// If the filled part would reach behind the initialised one.
    #[inline]
    #[track_caller]
    pub fn set_filled(&mut self, n: usize) {
        assert!(n <= self.initialized, "filled must not become larger than initialized");
        self.filled = n;
    }

    /// Says that the first `n` bytes that are not filled hold values. Takes
    /// nothing back from what is known to.
    ///
    /// # Safety
    ///
    /// They do.
    #[inline]
    pub unsafe fn assume_init(&mut self, n: usize) {
        self.initialized = self.initialized.max(self.filled + n);
    }

    /// Adds `buf` to the data.
    ///
    /// # Panics
    ///
    /// If there is no room for it.
    #[inline]
    #[track_caller]
    pub fn put_slice(&mut self, buf: &[u8]) {
        let (len, room) = (buf.len(), self.remaining());
        assert!(
            len <= room,
            "buf.len() must fit in remaining(); buf.len() = {len}, remaining() = {room}"
        );
        let end = self.filled + len;
        self.buf[self.filled..end].write_copy_of_slice(buf);
        self.initialized = self.initialized.max(end);
        self.filled = end;
    }
}

// SAFETY: `remaining_mut` is the length of the one chunk there is, and
// `advance_mut` takes bytes off its front.
unsafe impl bytes::BufMut for ReadBuf<'_> {
    fn remaining_mut(&self) -> usize {
        self.remaining()
    }

    // SAFETY: the caller keeps the trait's contract.
    unsafe fn advance_mut(&mut self, cnt: usize) {
        // SAFETY: the caller wrote values to that many bytes of the chunk.
        unsafe { self.assume_init(cnt) };
        self.advance(cnt);
    }

    fn chunk_mut(&mut self) -> &mut bytes::buf::UninitSlice {
        // SAFETY: B2, an `UninitSlice` takes values only.
        let unfilled = unsafe { self.unfilled_mut() };
        bytes::buf::UninitSlice::uninit(unfilled)
    }
}

impl fmt::Debug for ReadBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBuf")
            .field("filled", &self.filled)
            .field("initialized", &self.initialized)
            .field("capacity", &self.capacity())
            .finish()
    }
}
