//! Operations on open files: what rings have for them, and the system calls that
//! do the same.

use super::descriptor::Descriptor;
use super::operation::Step;
use super::operation::{Operation, plain_operation};
use crate::task::header::WaitKind;
use io_uring::{opcode, squeue::Entry, types};
use rustix::io::Errno;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At the file's own cursor, which moves.
    Cursor,
    /// From here.
    Offset(u64),
}

impl At {
    /// # Errors
    ///
    /// If no file reaches so far.
    pub(super) fn offset(offset: u64) -> io::Result<Self> {
        match i64::try_from(offset) {
            Ok(_) => Ok(At::Offset(offset)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no file has a byte number {offset}"),
            )),
        }
    }

    /// As the kernel wants it: its own cursor is minus one.
    pub(super) fn raw(self) -> u64 {
        match self {
            At::Cursor => u64::MAX,
            At::Offset(offset) => offset,
        }
    }

    pub(super) fn advance(&mut self, count: usize) {
        if let At::Offset(offset) = self {
            *offset += count as u64;
        }
    }
}

/// Keeps the cursor right when the ring reads or writes there.
///
/// If an entry moves some bytes at the cursor and then fails, it reports the bytes, but the
/// kernel leaves the cursor where it was. Without a correction, the next read would give
/// the same bytes again, and the next write would overwrite them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track {
    /// Where the cursor was before, if the file has one.
    from: Option<u64>,
    /// Where the cursor has to be set, by a thread that may wait.
    correction: Option<u64>,
}

impl Track {
    /// Notes where the cursor is. Gives nothing if the ring may not read or write here:
    /// others may move the cursor, or asking for it may wait.
    fn begin(&mut self, at: At, file: &Descriptor) -> Option<()> {
        *self = Self::default();
        if at == At::Cursor && file.has_cursor() {
            self.from = Some(file.position()?);
        }
        Some(())
    }

    /// The entry moved `count` of `len` bytes. Answers whether the cursor must be corrected.
    #[must_use]
    fn end(&mut self, file: &Descriptor, count: usize, len: usize) -> bool {
        let is_short = count > 0 && count < len;
        if let Some(from) = self.from.filter(|_| is_short)
            && file.position() == Some(from)
        {
            self.correction = Some(from + count as u64);
        }
        self.correction.is_some()
    }

    /// Corrects the cursor, on a thread that may wait.
    fn correct(self, file: &Descriptor) -> io::Result<()> {
        let Some(position) = self.correction else { return Ok(()) };
        file.at_cursor(|mut std| std.seek(SeekFrom::Start(position)).map(drop))
    }
}

/// What one entry can move.
const MAX_LEN: usize = 1 << 30;

/// Reads once, into a part of a buffer; gives the buffer back.
pub(super) struct Read {
    pub(super) file: Arc<Descriptor>,
    pub(super) buf: Vec<u8>,
    pub(super) part: Range<usize>,
    at: At,
    track: Track,
    /// What the ring has read, if only the cursor is left to be corrected.
    count: Option<usize>,
}

impl Read {
    pub(super) fn new(file: Arc<Descriptor>, buf: Vec<u8>, part: Range<usize>, at: At) -> Self {
        Self { file, buf, part, at, track: Track::default(), count: None }
    }
}

impl Operation for Read {
    type Output = (usize, Vec<u8>);
    const KIND: WaitKind = WaitKind::FileRead;
    const MUST_FINISH: bool = false;
    const CODE: u8 = opcode::Read::CODE;

    fn entry(&mut self) -> Option<Entry> {
        self.track.begin(self.at, &self.file)?;
        let part = &mut self.buf[self.part.clone()];
        let len = part.len().min(MAX_LEN) as u32;
        let read = opcode::Read::new(self.file.fd(), part.as_mut_ptr(), len);
        Some(read.offset(self.at.raw()).build())
    }

    fn may_wait(&self) -> bool {
        !self.file.reads_in_ring_at_once()
    }

    fn landed(mut self, result: Result<u32, Errno>) -> Step<Self> {
        let count = match result {
            Ok(count) => count as usize,
            Err(error) => return Step::Done(Err(error.into())),
        };
        if self.track.end(&self.file, count, self.part.len().min(MAX_LEN)) {
            self.count = Some(count);
            return Step::Elsewhere(self);
        }
        Step::Done(Ok((count, self.buf)))
    }

    fn run(self) -> io::Result<(usize, Vec<u8>)> {
        let Self { file, mut buf, part, at, track, count } = self;
        if let Some(count) = count {
            track.correct(&file)?;
            return Ok((count, buf));
        }
        loop {
            let part = &mut buf[part.clone()];
            let count = match at {
                At::Cursor => file.at_cursor(|mut std| std.read(part)),
                At::Offset(offset) => file.std().read_at(part, offset),
            };
            match count {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                count => return count.map(|count| (count, buf)),
            }
        }
    }
}

/// Writes all of a buffer.
pub(super) struct Write {
    pub(super) file: Arc<Descriptor>,
    pub(super) data: Vec<u8>,
    pub(super) done: usize,
    at: At,
    track: Track,
}

/// How far a write has come.
#[must_use]
pub(super) enum Written {
    All,
    Part,
    /// The ring cannot go on.
    RestInPool,
}

impl Write {
    pub(super) fn new(file: Arc<Descriptor>, data: Vec<u8>, at: At) -> Self {
        Self { file, data, done: 0, at, track: Track::default() }
    }

    pub(super) fn as_entry(&mut self) -> Option<Entry> {
        self.track.begin(self.at, &self.file)?;
        let rest = &self.data[self.done..];
        let len = rest.len().min(MAX_LEN) as u32;
        let write = opcode::Write::new(self.file.fd(), rest.as_ptr(), len);
        Some(write.offset(self.at.raw()).build())
    }

    /// The ring has written `count` bytes more.
    pub(super) fn advance(&mut self, count: usize) -> Written {
        let rest = self.data.len() - self.done;
        let is_off = self.track.end(&self.file, count, rest.min(MAX_LEN));
        self.done += count;
        self.at.advance(count);
        match self.done == self.data.len() {
            true => Written::All,
            // What cannot be written at all, std complains about.
            false if is_off || count == 0 => Written::RestInPool,
            false => Written::Part,
        }
    }

    /// Writes what is left.
    pub(super) fn write_rest(&self) -> io::Result<()> {
        self.track.correct(&self.file)?;
        let rest = &self.data[self.done..];
        match self.at {
            At::Cursor => self.file.at_cursor(|mut std| std.write_all(rest)),
            At::Offset(offset) => self.file.std().write_all_at(rest, offset),
        }
    }
}

impl Operation for Write {
    type Output = ();
    const KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;
    const CODE: u8 = opcode::Write::CODE;

    fn entry(&mut self) -> Option<Entry> {
        self.as_entry()
    }

    fn may_wait(&self) -> bool {
        !self.file.writes_in_ring_at_once()
    }

    fn landed(mut self, result: Result<u32, Errno>) -> Step<Self> {
        match result {
            Ok(count) => match self.advance(count as usize) {
                Written::All => Step::Done(Ok(())),
                Written::Part => Step::Again(self),
                Written::RestInPool => Step::Elsewhere(self),
            },
            Err(error) => Step::Done(Err(error.into())),
        }
    }

    fn run(self) -> io::Result<()> {
        self.write_rest()
    }
}

/// Moves the cursor.
pub(super) struct Seek {
    pub(super) file: Arc<Descriptor>,
    pub(super) position: SeekFrom,
}

impl Operation for Seek {
    type Output = u64;
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;

    fn run(self) -> io::Result<u64> {
        self.file.at_cursor(|mut std| std.seek(self.position))
    }
}

plain_operation! {
    /// Brings data, and all that is known of the file, to the disk.
    SyncAll { file: Arc<Descriptor> }, Fsync, changes: false,
    |op| opcode::Fsync::new(op.file.fd()),
    |op| op.file.std().sync_all()
}

plain_operation! {
    /// Brings data to the disk.
    SyncData { file: Arc<Descriptor> }, Fsync, changes: false,
    |op| opcode::Fsync::new(op.file.fd()).flags(types::FsyncFlags::DATASYNC),
    |op| op.file.std().sync_data()
}

plain_operation! {
    /// Cuts a file, or adds zeros.
    SetLen { file: Arc<Descriptor>, len: u64 }, Ftruncate, changes: true,
    |op| opcode::Ftruncate::new(op.file.fd(), op.len),
    |op| op.file.std().set_len(op.len)
}

plain_operation! {
    /// Reserves room on the disk.
    Allocate { file: Arc<Descriptor>, offset: u64, len: u64 }, Fallocate, changes: true,
    |op| opcode::Fallocate::new(op.file.fd(), op.len).offset(op.offset),
    |op| allocate(&op.file, op.offset, op.len)
}

fn allocate(file: &Descriptor, offset: u64, len: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::empty();
    Ok(rustix::fs::fallocate(file, flags, offset, len)?)
}
