//! Files and directories.
//!
//! This module is the asynchronous counterpart of [`std::fs`]. A [`File`] is an open file; read and
//! write it with the traits in [`io`](crate::io), or at offsets.
//!
//! ```
//! use wakeful::fs::{self, File};
//! use wakeful::io::AsyncWriteExt;
//!
//! # #[wakeful::main]
//! # async fn main() -> std::io::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("wakeful-doc-fs-{}", std::process::id()));
//! fs::create_dir(&dir).await?;
//! let mut file = File::create(dir.join("a")).await?;
//! file.write_all(b"some bytes").await?;
//! file.flush().await?; // writes are buffered
//! assert_eq!(fs::read(dir.join("a")).await?, b"some bytes");
//! fs::remove_dir_all(&dir).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which thread does the work
//!
//! - Data, names and attributes of local files that are in the kernel's caches are read
//!   immediately, on the calling thread.
//! - All other operations go to io_uring, if the kernel supports and permits it.
//! - The blocking pool does the rest: operations that io_uring does not support
//!   ([`write`](fn@write), [`copy`], [`create_dir_all`]) or does not speed up ([`metadata`]). It
//!   also serves threads in a multi-thread runtime's `block_on`, which have no ring.
//!
//! [`Builder::file_backend`](crate::runtime::Builder::file_backend) changes this choice.
//! [`RuntimeMetrics::file_backend`](crate::runtime::RuntimeMetrics::file_backend) returns the
//! backend in use.
//!
//! # Worker threads do not block
//!
//! A worker thread never blocks in the kernel for a terminal, a pipe, a socket, a network file
//! system or a FUSE server. All files that are not regular files or directories of a local file
//! system are read and written by a kernel thread or the blocking pool. Except for pipes, they are
//! also closed there. So such a file may still be open shortly after its [`File`] was dropped.
//!
//! Local file systems are ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs, ramfs, squashfs,
//! EROFS, FAT, exFAT and overlays. The layers of an overlay are assumed to be local too.
//!
//! There are three exceptions:
//!
//! - A file that was passed to [`File::from_std`] shares its cursor. While another thread uses that
//!   cursor in a blocking call, the worker waits for the call.
//! - Closing a local file may free the blocks of a removed file, or start to write back a file that
//!   was truncated.
//! - On 9p, determining the type of an opened file asks the server.
//!
//! # Cancel safety and shutdown
//!
//! An operation owns its data while it runs, so its future and even the runtime may be dropped at
//! any time.
//!
//! Once started, a change to an open file or to a single path always completes. The runtime never
//! loses data that a write has accepted. If the future is dropped or the runtime shuts down, a file
//! may stay unopened. A function that takes several steps on the blocking pool may not run.
//!
//! # Errors
//!
//! Errors of the system are returned unchanged, so [`raw_os_error`](std::io::Error::raw_os_error)
//! has the error number. They do not contain the path.

// Module map: a function, or a method of `File`, first tries the operation inline (`page_cache`).
// If that is not possible, it makes an `op::Operation` (`fd_ops`, `path_ops`, `open_options`,
// `write_behind`) and awaits its `op_future::OpFuture`. Once started, the operation is an
// `in_flight::InFlightOp`: control leaves to the ring (`driver::uring`) or to the blocking pool,
// and comes back through `InFlightOp::complete` or `InFlightOp::finish`. A `descriptor::Descriptor`
// is an open file that operations share; `mounts` decides whether it may be accessed inline.

mod descriptor;
mod dir_builder;
mod directories;
mod fd_ops;
mod file;
mod file_times;
mod in_flight;
mod mounts;
mod op;
mod op_future;
mod open_options;
mod page_cache;
mod path_ops;
mod paths;
mod read_dir;
mod read_write;
mod write_behind;

pub use dir_builder::DirBuilder;
pub use directories::{create_dir, create_dir_all, remove_dir, remove_dir_all};
pub use file::{File, ReadAt, ReadExactAt, WriteAllAt, WriteAt};
pub use file_times::FileTimes;
pub use open_options::OpenOptions;
pub use paths::{
    canonicalize, hard_link, metadata, read_link, remove_file, rename, set_permissions, symlink,
    symlink_metadata, try_exists,
};
pub use read_dir::{DirEntry, ReadDir, read_dir};
pub use read_write::{copy, read, read_to_string, write};
