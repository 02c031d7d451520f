//! Operations on names: what rings have for them, and the system calls that do
//! the same.

use super::operation::Operation;
#[cfg(target_os = "linux")]
use super::operation::Step;
use crate::task::header::WaitKind;
#[cfg(target_os = "linux")]
use io_uring::{opcode, squeue::Entry, types};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A name in both of its forms: the kernel's and std's.
pub(super) struct Name {
    path: PathBuf,
    /// None: there is a zero byte in it, which std complains about.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for rings"))]
    c: Option<CString>,
}

impl Name {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), c: CString::new(path.as_os_str().as_bytes()).ok() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(target_os = "linux")]
    pub(super) fn pointer(&self) -> Option<*const libc::c_char> {
        self.c.as_ref().map(|c| c.as_ptr())
    }
}

#[cfg(target_os = "linux")]
pub(super) const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

/// What is over when the kernel says so.
#[cfg(target_os = "linux")]
pub(super) fn plain<T: Operation<Output = ()>>(result: Result<u32, Errno>) -> Step<T> {
    Step::Done(result.map(|_| ()).map_err(io::Error::from))
}

/// Defines an operation that gives nothing but success.
macro_rules! name_operation {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $type:ty),* }, $code:ident,
     |$entry:ident| $build:expr, |$run:ident| $call:expr) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $field: $type),*
        }

        impl Operation for $name {
            type Output = ();
            const KIND: WaitKind = WaitKind::FileOp;
            const MUST_FINISH: bool = true;
            #[cfg(target_os = "linux")]
            const CODE: u8 = opcode::$code::CODE;

            #[cfg(target_os = "linux")]
            fn entry(&mut self) -> Option<Entry> {
                let $entry = &*self;
                Some($build.build())
            }

            #[cfg(target_os = "linux")]
            fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
                plain(result)
            }

            fn run(self) -> io::Result<()> {
                let $run = &self;
                $call
            }
        }
    };
}

name_operation! {
    Rename { from: Name, to: Name }, RenameAt,
    |op| opcode::RenameAt::new(HERE, op.from.pointer()?, HERE, op.to.pointer()?),
    |op| std::fs::rename(&op.from.path, &op.to.path)
}

name_operation! {
    RemoveFile { name: Name }, UnlinkAt,
    |op| opcode::UnlinkAt::new(HERE, op.name.pointer()?),
    |op| std::fs::remove_file(&op.name.path)
}

name_operation! {
    RemoveDir { name: Name }, UnlinkAt,
    |op| opcode::UnlinkAt::new(HERE, op.name.pointer()?).flags(libc::AT_REMOVEDIR),
    |op| std::fs::remove_dir(&op.name.path)
}

name_operation! {
    CreateDir { name: Name, mode: u32 }, MkDirAt,
    |op| opcode::MkDirAt::new(HERE, op.name.pointer()?).mode(op.mode),
    |op| {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().mode(op.mode).create(&op.name.path)
    }
}

name_operation! {
    HardLink { original: Name, link: Name }, LinkAt,
    |op| opcode::LinkAt::new(HERE, op.original.pointer()?, HERE, op.link.pointer()?),
    |op| std::fs::hard_link(&op.original.path, &op.link.path)
}

name_operation! {
    Symlink { original: Name, link: Name }, SymlinkAt,
    |op| opcode::SymlinkAt::new(HERE, op.original.pointer()?, op.link.pointer()?),
    |op| std::os::unix::fs::symlink(&op.original.path, &op.link.path)
}

/// Whether there is something of that name, links followed.
pub(super) struct Exists {
    name: Name,
    #[cfg(target_os = "linux")]
    found: Box<std::mem::MaybeUninit<libc::statx>>,
}

impl Exists {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            #[cfg(target_os = "linux")]
            found: Box::new(std::mem::MaybeUninit::uninit()),
        }
    }
}

impl Operation for Exists {
    type Output = bool;
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = false;
    #[cfg(target_os = "linux")]
    const CODE: u8 = opcode::Statx::CODE;

    #[cfg(target_os = "linux")]
    fn entry(&mut self) -> Option<Entry> {
        let found = self.found.as_mut_ptr().cast::<types::statx>();
        Some(opcode::Statx::new(HERE, self.name.pointer()?, found).build())
    }

    #[cfg(target_os = "linux")]
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
