//! Files and folders.
//!
//! The functions are those of [`std::fs`]; [`File`] is read and written through
//! the traits of [`io`](crate::io), or at offsets.
//!
//! ```
//! use wakeful::fs::{self, File};
//! use wakeful::io::AsyncWriteExt;
//!
//! # #[wakeful::main]
//! # async fn main() -> std::io::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("wakeful-doc-fs-{}", std::process::id()));
//! fs::create_dir(&folder).await?;
//! let mut file = File::create(folder.join("a")).await?;
//! file.write_all(b"some bytes").await?;
//! file.flush().await?; // writes are deferred
//! assert_eq!(fs::read(folder.join("a")).await?, b"some bytes");
//! fs::remove_dir_all(&folder).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who does the work
//!
//! What the kernel has in memory of a local file system, names as well as data, is taken
//! from there at once, on the thread that asks. Everything else goes to io_uring where
//! that is there and permitted, and to the blocking pool otherwise. To the pool goes also
//! what io_uring has no single operation for ([`write`](fn@write), [`copy`], whole
//! folders) or does no faster ([`metadata`]), and what the thread of a multi-thread
//! `block_on` asks for, which has no ring of its own.
//!
//! A worker never waits inside the kernel for a terminal, a pipe, a socket, a network
//! file system or a FUSE server: reads, writes, seeks and closing of everything that is
//! not a regular file of a local file system are carried out by a thread of the kernel or
//! of the pool. So a file of that kind may be closed a moment after it was dropped. Local
//! are ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs, ramfs, squashfs, EROFS, FAT,
//! exFAT, and overlays, whose layers are taken to be local too. There are three limits: a
//! file from [`File::from_std`] whose cursor another thread uses at the same moment by a
//! blocking call makes the worker wait for that call if the file is local; closing a
//! local file may free the room of a removed one, or begin to write one back that was
//! emptied; and 9p asks its server what kind of file it has opened. See
//! [`Builder::file_backend`](crate::runtime::Builder::file_backend) for other
//! choices, and [`RuntimeMetrics::file_backend`](crate::runtime::RuntimeMetrics::file_backend)
//! for what is used.
//!
//! Whoever does it owns the data meanwhile: a future may be dropped at any moment,
//! and so may the runtime. A change to a file that is open, or to a single name, is
//! brought to its end all the same once it has begun; a write that was accepted is
//! never lost by us. Opening, and what takes the blocking pool several steps, may
//! not happen if its future is dropped or the runtime shuts down.
//!
//! # Errors
//!
//! An error of the system is returned as the system gave it, so
//! [`raw_os_error`](std::io::Error::raw_os_error) has its number. It does not name
//! the path: a program that wants that adds it.

// Inside: a function or a method of `File` makes an `operation::Operation`
// (`by_name`, `by_file`, `open_options`, `writer`), after it was tried `inline`;
// `operation::Perform` waits for it. A `descriptor::Descriptor` is an open file, as
// operations share it. Control leaves into the room `driver` (the ring) or the
// blocking pool, and comes back by `operation::Flight`.

mod descriptor;
mod dir_builder;
mod fd_ops;
mod file;
mod file_times;
mod mounts;
mod open_options;
mod operation;
mod page_cache;
mod path_ops;
mod paths;
mod read_dir;
mod read_write;
mod write_behind;

pub use dir_builder::DirBuilder;
pub use file::{File, ReadAt, ReadExactAt, WriteAllAt, WriteAt};
pub use file_times::FileTimes;
pub use open_options::OpenOptions;
pub use paths::{
    canonicalize, create_dir, create_dir_all, hard_link, metadata, read_link, remove_dir,
    remove_dir_all, remove_file, rename, set_permissions, symlink, symlink_metadata, try_exists,
};
pub use read_dir::{DirEntry, ReadDir, read_dir};
pub use read_write::{copy, read, read_to_string, write};
