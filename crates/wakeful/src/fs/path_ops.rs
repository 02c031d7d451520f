//! Operations on paths: their io_uring entries, and the equivalent system calls.

use super::op::{Operation, Step, simple_operation};
use crate::task::wait_kind::WaitKind;
use io_uring::{opcode, squeue::Entry, types};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path in both std's and the kernel's form.
pub(super) struct OpPath {
    path: PathBuf,
    /// `None` if the path contains a zero byte, for which std returns an error.
    c_path: Option<CString>,
}

impl OpPath {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), c_path: CString::new(path.as_os_str().as_bytes()).ok() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn as_ptr(&self) -> Option<*const libc::c_char> {
        self.c_path.as_ref().map(|path| path.as_ptr())
    }
}

/// The descriptor value that selects the current directory.
pub(super) const CWD: types::Fd = types::Fd(libc::AT_FDCWD);

simple_operation! {
    Rename { from: OpPath, to: OpPath }, RenameAt, changes_file: true,
    |op| opcode::RenameAt::new(CWD, op.from.as_ptr()?, CWD, op.to.as_ptr()?),
    |op| std::fs::rename(&op.from.path, &op.to.path)
}

simple_operation! {
    RemoveFile { path: OpPath }, UnlinkAt, changes_file: true,
    |op| opcode::UnlinkAt::new(CWD, op.path.as_ptr()?),
    |op| std::fs::remove_file(&op.path.path)
}

simple_operation! {
    RemoveDir { path: OpPath }, UnlinkAt, changes_file: true,
    |op| opcode::UnlinkAt::new(CWD, op.path.as_ptr()?).flags(libc::AT_REMOVEDIR),
    |op| std::fs::remove_dir(&op.path.path)
}

simple_operation! {
    CreateDir { path: OpPath, mode: u32 }, MkDirAt, changes_file: true,
    |op| opcode::MkDirAt::new(CWD, op.path.as_ptr()?).mode(op.mode),
    |op| {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().mode(op.mode).create(&op.path.path)
    }
}

simple_operation! {
    HardLink { original: OpPath, link: OpPath }, LinkAt, changes_file: true,
    |op| opcode::LinkAt::new(CWD, op.original.as_ptr()?, CWD, op.link.as_ptr()?),
    |op| std::fs::hard_link(&op.original.path, &op.link.path)
}

simple_operation! {
    Symlink { original: OpPath, link: OpPath }, SymlinkAt, changes_file: true,
    |op| opcode::SymlinkAt::new(CWD, op.original.as_ptr()?, op.link.as_ptr()?),
    |op| std::os::unix::fs::symlink(&op.original.path, &op.link.path)
}

/// Checks whether a path exists, following symbolic links.
pub(super) struct Exists {
    path: OpPath,
    statx: Box<std::mem::MaybeUninit<libc::statx>>,
}

impl Exists {
    pub(super) fn new(path: OpPath) -> Self {
        Self { path, statx: Box::new(std::mem::MaybeUninit::uninit()) }
    }
}

impl Operation for Exists {
    type Output = bool;
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = false;
    const OPCODE: u8 = opcode::Statx::CODE;

    fn submission_entry(&mut self) -> Option<Entry> {
        let statx = self.statx.as_mut_ptr().cast::<types::statx>();
        Some(opcode::Statx::new(CWD, self.path.as_ptr()?, statx).build())
    }

    fn completed(self, result: Result<u32, Errno>) -> Step<Self> {
        Step::Done(match result {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        })
    }

    fn run(self) -> io::Result<bool> {
        std::fs::exists(&self.path.path)
    }
}
