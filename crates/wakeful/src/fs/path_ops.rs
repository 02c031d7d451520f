//! Operations on names: what rings have for them, and the system calls that do
//! the same.

use super::operation::Step;
use super::operation::{Operation, plain_operation};
use crate::task::header::WaitKind;
use io_uring::{opcode, squeue::Entry, types};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A name in both of its forms: the kernel's and std's.
pub(super) struct Name {
    path: PathBuf,
    /// None: there is a zero byte in it, which std complains about.
    c: Option<CString>,
}

impl Name {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), c: CString::new(path.as_os_str().as_bytes()).ok() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn pointer(&self) -> Option<*const libc::c_char> {
        self.c.as_ref().map(|c| c.as_ptr())
    }
}

pub(super) const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

plain_operation! {
    Rename { from: Name, to: Name }, RenameAt, changes: true,
    |op| opcode::RenameAt::new(HERE, op.from.pointer()?, HERE, op.to.pointer()?),
    |op| std::fs::rename(&op.from.path, &op.to.path)
}

plain_operation! {
    RemoveFile { name: Name }, UnlinkAt, changes: true,
    |op| opcode::UnlinkAt::new(HERE, op.name.pointer()?),
    |op| std::fs::remove_file(&op.name.path)
}

plain_operation! {
    RemoveDir { name: Name }, UnlinkAt, changes: true,
    |op| opcode::UnlinkAt::new(HERE, op.name.pointer()?).flags(libc::AT_REMOVEDIR),
    |op| std::fs::remove_dir(&op.name.path)
}

plain_operation! {
    CreateDir { name: Name, mode: u32 }, MkDirAt, changes: true,
    |op| opcode::MkDirAt::new(HERE, op.name.pointer()?).mode(op.mode),
    |op| {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().mode(op.mode).create(&op.name.path)
    }
}

plain_operation! {
    HardLink { original: Name, link: Name }, LinkAt, changes: true,
    |op| opcode::LinkAt::new(HERE, op.original.pointer()?, HERE, op.link.pointer()?),
    |op| std::fs::hard_link(&op.original.path, &op.link.path)
}

plain_operation! {
    Symlink { original: Name, link: Name }, SymlinkAt, changes: true,
    |op| opcode::SymlinkAt::new(HERE, op.original.pointer()?, op.link.pointer()?),
    |op| std::os::unix::fs::symlink(&op.original.path, &op.link.path)
}

/// Whether there is something of that name, links followed.
pub(super) struct Exists {
    name: Name,
    found: Box<std::mem::MaybeUninit<libc::statx>>,
}

impl Exists {
    pub(super) fn new(name: Name) -> Self {
        Self { name, found: Box::new(std::mem::MaybeUninit::uninit()) }
    }
}

impl Operation for Exists {
    type Output = bool;
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = false;
    const CODE: u8 = opcode::Statx::CODE;

    fn entry(&mut self) -> Option<Entry> {
        let found = self.found.as_mut_ptr().cast::<types::statx>();
        Some(opcode::Statx::new(HERE, self.name.pointer()?, found).build())
    }

    fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
        Step::Done(match result {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        })
    }

    fn run(self) -> io::Result<bool> {
        std::fs::exists(&self.name.path)
    }
}
