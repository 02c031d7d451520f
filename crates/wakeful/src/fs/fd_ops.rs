//! Operations on open files: their io_uring entries, and the equivalent system calls.

use super::descriptor::Descriptor;
use super::op::{Operation, Step, simple_operation};
use crate::task::wait_kind::WaitKind;
use io_uring::{opcode, squeue::Entry, types};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The position in a file at which to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// At the file's cursor, which advances.
    Cursor,
    /// At this offset. The cursor does not move.
    Offset(u64),
}

impl Position {
    /// Checks an offset.
    ///
    /// # Errors
    ///
    /// Fails if the offset is beyond the largest possible file.
    pub(super) fn offset(offset: u64) -> io::Result<Self> {
        match i64::try_from(offset) {
            Ok(_) => Ok(Position::Offset(offset)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("offset {offset} is beyond the largest possible file"),
            )),
        }
    }

    /// Converts to the kernel's form, in which -1 is the cursor.
    pub(super) fn raw(self) -> u64 {
        match self {
            Position::Cursor => u64::MAX,
            Position::Offset(offset) => offset,
        }
    }

    pub(super) fn advance(&mut self, count: usize) {
        if let Position::Offset(offset) = self {
            *offset += count as u64;
        }
    }
}

/// Corrects the cursor after io_uring read or wrote there.
///
/// If an entry transfers some bytes at the cursor and then fails, the kernel reports the bytes but
/// does not move the cursor. Without a correction, the next read would return the same bytes again,
/// and the next write would overwrite them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CursorFix {
    /// The cursor before the entry, if the file has a cursor.
    start: Option<u64>,
    /// The position to which a thread that may block has to move the cursor.
    correction: Option<u64>,
}

impl CursorFix {
    /// Records the cursor before an entry is submitted.
    ///
    /// `None` if io_uring must not be used: other descriptors may move the cursor, or reading the
    /// cursor may block.
    fn begin(&mut self, at: Position, file: &Descriptor) -> Option<()> {
        *self = Self::default();
        if at == Position::Cursor && file.has_cursor() {
            self.start = Some(file.position()?);
        }
        Some(())
    }

    /// Processes an entry that transferred `count` of `len` bytes. Returns whether the cursor must
    /// be corrected.
    #[must_use]
    fn end(&mut self, file: &Descriptor, count: usize, len: usize) -> bool {
        let is_short = count > 0 && count < len;
        if let Some(start) = self.start.filter(|_| is_short)
            && file.position() == Some(start)
        {
            self.correction = Some(start + count as u64);
        }
        self.correction.is_some()
    }

    /// Corrects the cursor after a read. May block.
    fn correct(self, file: &Descriptor) -> io::Result<()> {
        let Some(position) = self.correction else { return Ok(()) };
        file.with_cursor(|mut std| std.seek(SeekFrom::Start(position)).map(drop))
    }

    /// Corrects the cursor after a write. May block.
    ///
    /// In a file that is open for appending, the bytes are at the end, regardless of the cursor.
    fn correct_written(self, file: &Descriptor) -> io::Result<()> {
        let appends = || fcntl_getfl(file.std()).is_ok_and(|flags| flags.contains(OFlags::APPEND));
        if self.correction.is_none() || !appends() {
            return self.correct(file);
        }
        file.with_cursor(|mut std| std.seek(SeekFrom::End(0)).map(drop))
    }
}

/// The maximum number of bytes that one entry transfers.
const MAX_LEN: usize = 1 << 30;

/// Reads once into a part of a buffer. Returns the count and the buffer.
pub(super) struct Read {
    pub(super) file: Arc<Descriptor>,
    pub(super) buf: Vec<u8>,
    pub(super) part: Range<usize>,
    at: Position,
    cursor_fix: CursorFix,
    /// The number of bytes that io_uring has read, if only the cursor is left to be corrected.
    count: Option<usize>,
}

impl Read {
    pub(super) fn new(
        file: Arc<Descriptor>,
        buf: Vec<u8>,
        part: Range<usize>,
        at: Position,
    ) -> Self {
        Self { file, buf, part, at, cursor_fix: CursorFix::default(), count: None }
    }
}

impl Operation for Read {
    type Output = (usize, Vec<u8>);
    const WAIT_KIND: WaitKind = WaitKind::FileRead;
    const MUST_FINISH: bool = false;
    const OPCODE: u8 = opcode::Read::CODE;

    fn submission_entry(&mut self) -> Option<Entry> {
        self.cursor_fix.begin(self.at, &self.file)?;
        let part = &mut self.buf[self.part.clone()];
        let len = part.len().min(MAX_LEN) as u32;
        let read = opcode::Read::new(self.file.fd(), part.as_mut_ptr(), len);
        Some(read.offset(self.at.raw()).build())
    }

    fn may_block(&self) -> bool {
        !self.file.can_submit_reads()
    }

    fn completed(mut self, result: Result<u32, Errno>) -> Step<Self> {
        let count = match result {
            Ok(count) => count as usize,
            Err(error) => return Step::Done(Err(error.into())),
        };
        if self.cursor_fix.end(&self.file, count, self.part.len().min(MAX_LEN)) {
            self.count = Some(count);
            return Step::RunOnPool(self);
        }
        Step::Done(Ok((count, self.buf)))
    }

    fn run(self) -> io::Result<(usize, Vec<u8>)> {
        let Self { file, mut buf, part, at, cursor_fix, count } = self;
        if let Some(count) = count {
            cursor_fix.correct(&file)?;
            return Ok((count, buf));
        }
        loop {
            let part = &mut buf[part.clone()];
            let count = match at {
                Position::Cursor => file.with_cursor(|mut std| std.read(part)),
                Position::Offset(offset) => file.std().read_at(part, offset),
            };
            match count {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                count => return count.map(|count| (count, buf)),
            }
        }
    }
}

/// Writes a whole buffer.
pub(super) struct Write {
    pub(super) file: Arc<Descriptor>,
    pub(super) data: Vec<u8>,
    pub(super) done: usize,
    at: Position,
    cursor_fix: CursorFix,
}

/// The progress of a write.
#[must_use]
pub(super) enum WriteProgress {
    All,
    Part,
    /// io_uring cannot continue. The rest needs a thread that may block.
    RestOnPool,
}

impl Write {
    pub(super) fn new(file: Arc<Descriptor>, data: Vec<u8>, at: Position) -> Self {
        Self { file, data, done: 0, at, cursor_fix: CursorFix::default() }
    }

    /// Builds the submission entry for the remaining data.
    pub(super) fn entry(&mut self) -> Option<Entry> {
        self.cursor_fix.begin(self.at, &self.file)?;
        let rest = &self.data[self.done..];
        let len = rest.len().min(MAX_LEN) as u32;
        let write = opcode::Write::new(self.file.fd(), rest.as_ptr(), len);
        Some(write.offset(self.at.raw()).build())
    }

    /// Processes the completion of an entry that wrote `count` bytes.
    pub(super) fn advance(&mut self, count: usize) -> WriteProgress {
        let rest = self.data.len() - self.done;
        let needs_fix = self.cursor_fix.end(&self.file, count, rest.min(MAX_LEN));
        self.done += count;
        self.at.advance(count);
        match self.done == self.data.len() {
            true => WriteProgress::All,
            // For a write of 0 bytes, std returns an error.
            false if needs_fix || count == 0 => WriteProgress::RestOnPool,
            false => WriteProgress::Part,
        }
    }

    /// Writes the remaining data. May block.
    pub(super) fn write_rest(&self) -> io::Result<()> {
        self.cursor_fix.correct_written(&self.file)?;
        let rest = &self.data[self.done..];
        match self.at {
            Position::Cursor => self.file.with_cursor(|mut std| std.write_all(rest)),
            Position::Offset(offset) => self.file.std().write_all_at(rest, offset),
        }
    }
}

impl Operation for Write {
    type Output = ();
    const WAIT_KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;
    const OPCODE: u8 = opcode::Write::CODE;

    fn submission_entry(&mut self) -> Option<Entry> {
        self.entry()
    }

    fn may_block(&self) -> bool {
        !self.file.can_submit_writes()
    }

    fn completed(mut self, result: Result<u32, Errno>) -> Step<Self> {
        match result {
            Ok(count) => match self.advance(count as usize) {
                WriteProgress::All => Step::Done(Ok(())),
                WriteProgress::Part => Step::Resubmit(self),
                WriteProgress::RestOnPool => Step::RunOnPool(self),
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
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;

    fn run(self) -> io::Result<u64> {
        self.file.with_cursor(|mut std| std.seek(self.position))
    }
}

simple_operation! {
    /// Writes the data and metadata of a file to the disk.
    SyncAll { file: Arc<Descriptor> }, Fsync, changes_file: false,
    |op| opcode::Fsync::new(op.file.fd()),
    |op| op.file.std().sync_all()
}

simple_operation! {
    /// Writes the data of a file to the disk.
    SyncData { file: Arc<Descriptor> }, Fsync, changes_file: false,
    |op| opcode::Fsync::new(op.file.fd()).flags(types::FsyncFlags::DATASYNC),
    |op| op.file.std().sync_data()
}

simple_operation! {
    /// Truncates a file, or extends it with zeros.
    SetLen { file: Arc<Descriptor>, len: u64 }, Ftruncate, changes_file: true,
    |op| opcode::Ftruncate::new(op.file.fd(), op.len),
    |op| op.file.std().set_len(op.len)
}

simple_operation! {
    /// Reserves space on the disk.
    Allocate { file: Arc<Descriptor>, offset: u64, len: u64 }, Fallocate, changes_file: true,
    |op| opcode::Fallocate::new(op.file.fd(), op.len).offset(op.offset),
    |op| allocate(&op.file, op.offset, op.len)
}

fn allocate(file: &Descriptor, offset: u64, len: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::empty();
    Ok(rustix::fs::fallocate(file, flags, offset, len)?)
}
