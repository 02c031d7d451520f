//! Operations on open files: what rings have for them, and the system calls that
//! do the same.

use super::descriptor::Descriptor;
#[cfg(target_os = "linux")]
use super::operation::Step;
use super::operation::{Operation, plain_operation};
use crate::task::header::WaitKind;
#[cfg(target_os = "linux")]
use io_uring::{opcode, squeue::Entry, types};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use std::io::{self, Read as _, Write as _};
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
    #[cfg(target_os = "linux")]
    pub(super) fn raw(self) -> u64 {
        match self {
            At::Cursor => u64::MAX,
            At::Offset(offset) => offset,
        }
    }

    /// Whether the ring may read or write here.
    #[cfg(target_os = "linux")]
    fn is_for_ring(self, file: &Descriptor) -> bool {
        self != At::Cursor || file.owns_cursor()
    }

    pub(super) fn advance(&mut self, count: usize) {
        if let At::Offset(offset) = self {
            *offset += count as u64;
        }
    }
}

/// What one entry can move.
#[cfg(target_os = "linux")]
const MAX_LEN: usize = 1 << 30;

/// Reads once, into a part of a buffer; gives the buffer back.
pub(super) struct Read {
    pub(super) file: Arc<Descriptor>,
    pub(super) buf: Vec<u8>,
    pub(super) part: Range<usize>,
    pub(super) at: At,
}

impl Operation for Read {
    type Output = (usize, Vec<u8>);
    const KIND: WaitKind = WaitKind::FileRead;
    const MUST_FINISH: bool = false;
    #[cfg(target_os = "linux")]
    const CODE: u8 = opcode::Read::CODE;

    #[cfg(target_os = "linux")]
    fn entry(&mut self) -> Option<Entry> {
        if !self.at.is_for_ring(&self.file) {
            return None;
        }
        let part = &mut self.buf[self.part.clone()];
        let len = part.len().min(MAX_LEN) as u32;
        let read = opcode::Read::new(self.file.fd(), part.as_mut_ptr(), len);
        Some(read.offset(self.at.raw()).build())
    }

    #[cfg(target_os = "linux")]
    fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
        Step::Done(match result {
            Ok(count) => Ok((count as usize, self.buf)),
            Err(error) => Err(error.into()),
        })
    }

    fn run(self) -> io::Result<(usize, Vec<u8>)> {
        let Self { file, mut buf, part, at } = self;
        loop {
            let part = &mut buf[part.clone()];
            let count = match at {
                At::Cursor => file.std().read(part),
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
    pub(super) at: At,
}

impl Write {
    pub(super) fn new(file: Arc<Descriptor>, data: Vec<u8>, at: At) -> Self {
        Self { file, data, done: 0, at }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn as_entry(&self) -> Option<Entry> {
        if !self.at.is_for_ring(&self.file) {
            return None;
        }
        let rest = &self.data[self.done..];
        let len = rest.len().min(MAX_LEN) as u32;
        let write = opcode::Write::new(self.file.fd(), rest.as_ptr(), len);
        Some(write.offset(self.at.raw()).build())
    }

    /// So much more is written. True: that was all.
    #[cfg(target_os = "linux")]
    pub(super) fn advance(&mut self, count: usize) -> bool {
        self.done += count;
        self.at.advance(count);
        self.done == self.data.len()
    }

    /// Writes what is left.
    pub(super) fn write_rest(&self) -> io::Result<()> {
        let rest = &self.data[self.done..];
        match self.at {
            At::Cursor => self.file.std().write_all(rest),
            At::Offset(offset) => self.file.std().write_all_at(rest, offset),
        }
    }
}

impl Operation for Write {
    type Output = ();
    const KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;
    #[cfg(target_os = "linux")]
    const CODE: u8 = opcode::Write::CODE;

    #[cfg(target_os = "linux")]
    fn entry(&mut self) -> Option<Entry> {
        self.as_entry()
    }

    #[cfg(target_os = "linux")]
    fn landed(mut self, result: Result<u32, Errno>) -> Step<Self> {
        match result {
            // What cannot be written at all, std complains about.
            Ok(0) if !self.data.is_empty() => Step::Elsewhere(self),
            Ok(count) => match self.advance(count as usize) {
                true => Step::Done(Ok(())),
                false => Step::Again(self),
            },
            Err(error) => Step::Done(Err(error.into())),
        }
    }

    fn run(self) -> io::Result<()> {
        self.write_rest()
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

#[cfg(target_os = "linux")]
fn allocate(file: &Descriptor, offset: u64, len: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::empty();
    Ok(rustix::fs::fallocate(file, flags, offset, len)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &Descriptor, offset: u64, len: u64) -> io::Result<()> {
    let end = offset.saturating_add(len);
    if file.std().metadata()?.len() < end { file.std().set_len(end) } else { Ok(()) }
}
