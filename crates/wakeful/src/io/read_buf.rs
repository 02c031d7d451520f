//! [`ReadBuf`]: the buffer that readers fill.
//!
//! ```text
//!   |———————————————————— capacity ————————————————————|
//!   |—— filled ——|————————— unfilled = remaining ——————|
//!   |———————— initialized ————————|
//! ```
//!
//! Rules:
//! - READBUF-1. `filled <= initialized <= buf.len()`.
//! - READBUF-2. The first `initialized` bytes of `buf` are initialized, and stay so while the
//!   `ReadBuf` lives.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;

/// A buffer that readers fill incrementally, and that need not be initialized first.
///
/// A `ReadBuf` tracks three parts of its memory: filled bytes, initialized but unfilled bytes, and
/// possibly uninitialized bytes, in this order. So memory is zeroed at most once, however many
/// reads fill it.
///
/// # Examples
///
/// ```
/// use wakeful::io::ReadBuf;
///
/// let mut memory = [0; 8];
/// let mut buf = ReadBuf::new(&mut memory);
/// buf.put_slice(b"abc");
/// assert_eq!(buf.filled(), b"abc");
/// assert_eq!(buf.remaining(), 5);
/// ```
pub struct ReadBuf<'a> {
    buf: &'a mut [MaybeUninit<u8>],
    filled: usize,
    initialized: usize,
}

impl<'a> ReadBuf<'a> {
    /// Creates a buffer over initialized memory.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut memory = [0; 8];
    /// let buf = wakeful::io::ReadBuf::new(&mut memory);
    /// assert_eq!((buf.capacity(), buf.filled().len()), (8, 0));
    /// ```
    #[inline]
    pub fn new(buf: &'a mut [u8]) -> ReadBuf<'a> {
        let initialized = buf.len();
        // SAFETY: the layout is the same. All bytes are initialized, and stay so (READBUF-2): only
        // the `unsafe` methods return them as `MaybeUninit`.
        let buf = unsafe { &mut *(&raw mut *buf as *mut [MaybeUninit<u8>]) };
        ReadBuf { buf, filled: 0, initialized }
    }

    /// Creates a buffer over memory that may be uninitialized.
    ///
    /// If a part is initialized, call [`assume_init`](Self::assume_init).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 8];
    /// let mut buf = ReadBuf::uninit(&mut memory);
    /// buf.put_slice(b"abc");
    /// assert_eq!(buf.initialized(), b"abc");
    /// ```
    #[inline]
    pub fn uninit(buf: &'a mut [MaybeUninit<u8>]) -> ReadBuf<'a> {
        ReadBuf { buf, filled: 0, initialized: 0 }
    }

    /// Returns the total capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// assert_eq!(ReadBuf::new(&mut memory).capacity(), 8);
    /// ```
    #[inline]
    pub fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// Returns the filled part.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// assert_eq!(buf.filled(), b"");
    /// buf.put_slice(b"abc");
    /// assert_eq!(buf.filled(), b"abc");
    /// ```
    #[inline]
    pub fn filled(&self) -> &[u8] {
        // SAFETY: READBUF-1, READBUF-2.
        unsafe { self.buf[..self.filled].assume_init_ref() }
    }

    /// Returns the filled part, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.put_slice(b"abc");
    /// buf.filled_mut().make_ascii_uppercase();
    /// assert_eq!(buf.filled(), b"ABC");
    /// ```
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        // SAFETY: READBUF-1, READBUF-2.
        unsafe { self.buf[..self.filled].assume_init_mut() }
    }

    /// Returns a buffer over the first `n` unfilled bytes, or over all of them if there are fewer.
    ///
    /// Filling it does not change the filled part of `self`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// assert_eq!(buf.take(3).capacity(), 3);
    /// assert_eq!(buf.take(100).capacity(), 8);
    /// ```
    #[inline]
    pub fn take(&mut self, n: usize) -> ReadBuf<'_> {
        let n = self.remaining().min(n);
        ReadBuf::uninit(&mut self.buf[self.filled..][..n])
    }

    /// Returns the initialized part, which includes the filled part.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 8];
    /// let mut buf = ReadBuf::uninit(&mut memory);
    /// buf.put_slice(b"abc");
    /// assert_eq!(buf.initialized(), b"abc");
    /// buf.initialize_unfilled();
    /// assert_eq!(buf.initialized(), b"abc\0\0\0\0\0");
    /// ```
    #[inline]
    pub fn initialized(&self) -> &[u8] {
        // SAFETY: READBUF-2.
        unsafe { self.buf[..self.initialized].assume_init_ref() }
    }

    /// Returns the initialized part, mutably.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [7; 4];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.initialized_mut().fill(0);
    /// assert_eq!(memory, [0; 4]);
    /// ```
    #[inline]
    pub fn initialized_mut(&mut self) -> &mut [u8] {
        // SAFETY: READBUF-2.
        unsafe { self.buf[..self.initialized].assume_init_mut() }
    }

    /// Returns the entire memory, including uninitialized bytes.
    ///
    /// # Safety
    ///
    /// The caller must not uninitialize bytes that are initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 8];
    /// let mut buf = ReadBuf::uninit(&mut memory);
    /// // SAFETY: the memory is only measured.
    /// assert_eq!(unsafe { buf.inner_mut() }.len(), 8);
    /// ```
    #[inline]
    pub unsafe fn inner_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        self.buf
    }

    /// Returns the unfilled part.
    ///
    /// After writing to its front, call [`assume_init`](Self::assume_init) and
    /// [`advance`](Self::advance).
    ///
    /// # Safety
    ///
    /// The caller must not uninitialize bytes that are initialized.
    ///
    /// # Examples
    ///
    /// A read that writes to the memory directly, as a system call does:
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 8];
    /// let mut buf = ReadBuf::uninit(&mut memory);
    /// // SAFETY: only initialized bytes are written, and only those are counted.
    /// unsafe {
    ///     buf.unfilled_mut()[..2].write_copy_of_slice(b"ok");
    ///     buf.assume_init(2);
    /// }
    /// buf.advance(2);
    /// assert_eq!(buf.filled(), b"ok");
    /// ```
    #[inline]
    pub unsafe fn unfilled_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.buf[self.filled..]
    }

    /// Returns the unfilled part as initialized bytes, zeroing those that are not.
    ///
    /// Use this for readers that need a `&mut [u8]`. Memory that is already initialized is not
    /// zeroed again. Call [`advance`](Self::advance) after writing.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.initialize_unfilled()[..2].copy_from_slice(b"ab");
    /// buf.advance(2);
    /// assert_eq!(buf.filled(), b"ab");
    /// ```
    #[inline]
    pub fn initialize_unfilled(&mut self) -> &mut [u8] {
        self.initialize_unfilled_to(self.remaining())
    }

    /// Returns the first `n` unfilled bytes as initialized bytes, zeroing those that are not.
    ///
    /// # Panics
    ///
    /// Panics if fewer than `n` bytes are unfilled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    /// use std::mem::MaybeUninit;
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 8];
    /// let mut buf = ReadBuf::uninit(&mut memory);
    /// let len = (&b"hello"[..]).read(buf.initialize_unfilled_to(4))?;
    /// buf.advance(len);
    /// assert_eq!(buf.filled(), b"hell");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn initialize_unfilled_to(&mut self, n: usize) -> &mut [u8] {
        assert!(n <= self.remaining(), "n overflows remaining");
        let end = self.filled + n;
        if self.initialized < end {
            self.buf[self.initialized..end].fill(MaybeUninit::new(0));
            self.initialized = end;
        }
        // SAFETY: READBUF-2 up to `end`, by the lines above.
        unsafe { self.buf[self.filled..end].assume_init_mut() }
    }

    /// Returns the number of unfilled bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.put_slice(b"abc");
    /// assert_eq!(buf.remaining(), 5);
    /// ```
    #[inline]
    pub fn remaining(&self) -> usize {
        self.buf.len() - self.filled
    }

    /// Clears the filled part. Initialized bytes stay initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.put_slice(b"abc");
    /// buf.clear();
    /// assert_eq!(buf.remaining(), 8);
    /// ```
    #[inline]
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Extends the filled part by `n` bytes, which must be initialized.
    ///
    /// # Panics
    ///
    /// Panics if the filled part would exceed the initialized part.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.initialize_unfilled()[..2].copy_from_slice(b"ok");
    /// buf.advance(2);
    /// assert_eq!(buf.filled(), b"ok");
    /// ```
    #[inline]
    #[track_caller]
    pub fn advance(&mut self, n: usize) {
        self.set_filled(self.filled.checked_add(n).expect("filled overflow"));
    }

    /// Sets the length of the filled part, which may shrink or grow.
    ///
    /// # Panics
    ///
    /// Panics if the filled part would exceed the initialized part.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.put_slice(b"hello\n");
    /// buf.set_filled(5); // cuts the line break off
    /// assert_eq!(buf.filled(), b"hello");
    /// ```
    #[inline]
    #[track_caller]
    pub fn set_filled(&mut self, n: usize) {
        assert!(n <= self.initialized, "filled must not become larger than initialized");
        self.filled = n;
    }

    /// Marks the first `n` unfilled bytes as initialized.
    ///
    /// Has no effect on bytes that are already known to be initialized.
    ///
    /// # Safety
    ///
    /// The first `n` unfilled bytes must be initialized.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 4];
    /// let mut buf = ReadBuf::uninit(&mut memory);
    /// // SAFETY: the two bytes are written first.
    /// unsafe {
    ///     buf.unfilled_mut()[..2].fill(MaybeUninit::new(7));
    ///     buf.assume_init(2);
    /// }
    /// assert_eq!(buf.initialized(), [7, 7]);
    /// ```
    #[inline]
    pub unsafe fn assume_init(&mut self, n: usize) {
        self.initialized = self.initialized.max(self.filled + n);
    }

    /// Appends `buf` to the filled part.
    ///
    /// # Panics
    ///
    /// Panics if `buf` is longer than [`remaining`](Self::remaining).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::ReadBuf;
    ///
    /// let mut memory = [0; 8];
    /// let mut buf = ReadBuf::new(&mut memory);
    /// buf.put_slice(b"ab");
    /// buf.put_slice(b"c");
    /// assert_eq!(buf.filled(), b"abc");
    /// ```
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

// SAFETY: `remaining_mut` is the length of the only chunk, and `advance_mut` removes bytes from its
// front.
unsafe impl bytes::BufMut for ReadBuf<'_> {
    fn remaining_mut(&self) -> usize {
        self.remaining()
    }

    // SAFETY: the caller upholds the contract of the trait.
    unsafe fn advance_mut(&mut self, cnt: usize) {
        // SAFETY: the caller initialized the first `cnt` bytes of the chunk.
        unsafe { self.assume_init(cnt) };
        self.advance(cnt);
    }

    fn chunk_mut(&mut self) -> &mut bytes::buf::UninitSlice {
        // SAFETY: READBUF-2 holds, because an `UninitSlice` can only be written with initialized
        // bytes.
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
