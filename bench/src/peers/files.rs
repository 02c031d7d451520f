//! The file operations that rows ask of a peer, each a whole batch, so that a peer can use its own API.
//!
//! wakeful reads at offsets. tokio, which has no positional reads, seeks and reads. The others pass
//! their buffers to the runtime and get them back. monoio has files on io_uring only.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Compio, Glommio, MonoioUring, OneThread, Peer};

/// Bytes per read and write.
pub const PAGE: usize = 4096;
/// Bytes per step of a copy, for peers that have no function to copy a file.
pub const CHUNK: usize = 1 << 20;

/// Offsets of pages in a pseudo-random order, the same for every peer.
pub struct Offsets {
    state: u64,
    pages: u64,
}

impl Offsets {
    pub fn new(seed: u64, pages: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, pages }
    }
}

impl Iterator for Offsets {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Some(self.state % self.pages * PAGE as u64)
    }
}

/// A peer with files.
pub trait Files: Peer {
    /// Opens the file and reads that many pages, one after the other.
    fn read_pages(
        path: PathBuf,
        offsets: Offsets,
        count: u64,
    ) -> impl Future<Output = ()> + Send + 'static;

    /// Makes the file and appends that many pages; with `sync`, each is brought to
    /// the disk before the next.
    fn append_pages(
        path: PathBuf,
        count: u64,
        sync: bool,
    ) -> impl Future<Output = ()> + Send + 'static;

    /// Asks for what is known of each file, and opens and closes it.
    fn open_and_stat(paths: Arc<[PathBuf]>) -> impl Future<Output = ()> + Send + 'static;

    fn copy(from: PathBuf, to: PathBuf) -> impl Future<Output = ()> + Send + 'static;
}

macro_rules! tokio_shaped_files {
    ($name:ident, $peer:ty, |$file:ident, $page:ident, $offset:ident| $read:expr) => {
        impl Files for $peer {
            async fn read_pages(path: PathBuf, offsets: Offsets, count: u64) {
                #[allow(unused_mut, unused_imports)]
                {
                    use ::$name::io::{AsyncReadExt, AsyncSeekExt};
                    let mut $file = ::$name::fs::File::open(path).await.expect("it is there");
                    let mut page = vec![0; PAGE];
                    for $offset in offsets.take(count as usize) {
                        let $page = &mut page[..];
                        let count = $read;
                        assert_eq!(count, PAGE);
                    }
                }
            }

            async fn append_pages(path: PathBuf, count: u64, sync: bool) {
                use ::$name::io::AsyncWriteExt;
                let mut file = ::$name::fs::File::create(path).await.expect("there is room");
                let page = vec![1; PAGE];
                for _ in 0..count {
                    file.write_all(&page).await.expect("there is room");
                    if sync {
                        file.sync_data().await.expect("the disk takes it");
                    }
                }
                file.flush().await.expect("there is room");
            }

            async fn open_and_stat(paths: Arc<[PathBuf]>) {
                for path in &*paths {
                    let metadata = ::$name::fs::metadata(path).await.expect("it is there");
                    assert!(metadata.is_file());
                    drop(::$name::fs::File::open(path).await.expect("it is there"));
                }
            }

            async fn copy(from: PathBuf, to: PathBuf) {
                ::$name::fs::copy(from, to).await.expect("there is room");
            }
        }
    };
}

#[cfg(feature = "wakeful")]
mod on_wakeful {
    use super::*;
    use crate::peers::on_wakeful::{Current, Multi};

    tokio_shaped_files!(wakeful, Multi, |file, page, offset| {
        file.read_at(page, offset).await.expect("it can be read")
    });
    tokio_shaped_files!(wakeful, Current, |file, page, offset| {
        file.read_at(page, offset).await.expect("it can be read")
    });
}

mod on_tokio {
    use super::*;
    use crate::peers::on_tokio::{Current, Multi};
    use std::io::SeekFrom;

    tokio_shaped_files!(tokio, Multi, |file, page, offset| {
        file.seek(SeekFrom::Start(offset)).await.expect("it is that long");
        file.read(page).await.expect("it can be read")
    });
    tokio_shaped_files!(tokio, Current, |file, page, offset| {
        file.seek(SeekFrom::Start(offset)).await.expect("it is that long");
        file.read(page).await.expect("it can be read")
    });
}

impl Files for MonoioUring {
    fn read_pages(
        path: PathBuf,
        offsets: Offsets,
        count: u64,
    ) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            let file = monoio::fs::File::open(path).await.expect("it is there");
            let mut page = vec![0; PAGE];
            for offset in offsets.take(count as usize) {
                let (count, back) = file.read_at(page, offset).await;
                assert_eq!(count.expect("it can be read"), PAGE);
                page = back;
            }
            file.close().await.expect("it was open");
        })
    }

    fn append_pages(
        path: PathBuf,
        count: u64,
        sync: bool,
    ) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            let file = monoio::fs::File::create(path).await.expect("there is room");
            let mut page = vec![1; PAGE];
            for number in 0..count {
                let (written, back) = file.write_all_at(page, number * PAGE as u64).await;
                written.expect("there is room");
                page = back;
                if sync {
                    file.sync_data().await.expect("the disk takes it");
                }
            }
            file.close().await.expect("it was open");
        })
    }

    fn open_and_stat(paths: Arc<[PathBuf]>) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            for path in &*paths {
                let file = monoio::fs::File::open(path).await.expect("it is there");
                assert!(file.metadata().await.expect("it is open").is_file());
                file.close().await.expect("it was open");
            }
        })
    }

    fn copy(from: PathBuf, to: PathBuf) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            let from = monoio::fs::File::open(from).await.expect("it is there");
            let to = monoio::fs::File::create(to).await.expect("there is room");
            let (mut chunk, mut at) = (vec![0; CHUNK], 0);
            loop {
                let (count, back) = from.read_at(chunk, at).await;
                let count = count.expect("it can be read");
                if count == 0 {
                    break;
                }
                chunk = back;
                chunk.truncate(count);
                let (written, back) = to.write_all_at(chunk, at).await;
                written.expect("there is room");
                (chunk, at) = (back, at + count as u64);
                chunk.resize(CHUNK, 0);
            }
            from.close().await.expect("it was open");
            to.close().await.expect("it was open");
        })
    }
}

impl Files for Compio {
    fn read_pages(
        path: PathBuf,
        offsets: Offsets,
        count: u64,
    ) -> impl Future<Output = ()> + Send + 'static {
        use compio::io::AsyncReadAt;
        OneThread(async move {
            let file = compio::fs::File::open(path).await.expect("it is there");
            let mut page = vec![0; PAGE];
            for offset in offsets.take(count as usize) {
                let compio::BufResult(count, back) = file.read_at(page, offset).await;
                assert_eq!(count.expect("it can be read"), PAGE);
                page = back;
            }
            file.close().await.expect("it was open");
        })
    }

    fn append_pages(
        path: PathBuf,
        count: u64,
        sync: bool,
    ) -> impl Future<Output = ()> + Send + 'static {
        use compio::io::AsyncWriteAtExt;
        OneThread(async move {
            let mut file = compio::fs::File::create(path).await.expect("there is room");
            let mut page = vec![1; PAGE];
            for number in 0..count {
                let compio::BufResult(written, back) =
                    file.write_all_at(page, number * PAGE as u64).await;
                written.expect("there is room");
                page = back;
                if sync {
                    file.sync_data().await.expect("the disk takes it");
                }
            }
            file.close().await.expect("it was open");
        })
    }

    fn open_and_stat(paths: Arc<[PathBuf]>) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            for path in &*paths {
                let metadata = compio::fs::metadata(path).await.expect("it is there");
                assert!(metadata.is_file());
                let file = compio::fs::File::open(path).await.expect("it is there");
                file.close().await.expect("it was open");
            }
        })
    }

    fn copy(from: PathBuf, to: PathBuf) -> impl Future<Output = ()> + Send + 'static {
        use compio::io::{AsyncReadAt, AsyncWriteAtExt};
        OneThread(async move {
            let from = compio::fs::File::open(from).await.expect("it is there");
            let mut to = compio::fs::File::create(to).await.expect("there is room");
            let (mut chunk, mut at) = (Vec::with_capacity(CHUNK), 0);
            loop {
                chunk.clear();
                let compio::BufResult(count, back) = from.read_at(chunk, at).await;
                let count = count.expect("it can be read");
                if count == 0 {
                    break;
                }
                let compio::BufResult(written, back) = to.write_all_at(back, at).await;
                written.expect("there is room");
                (chunk, at) = (back, at + count as u64);
            }
            from.close().await.expect("it was open");
            to.close().await.expect("it was open");
        })
    }
}

impl Files for Glommio {
    fn read_pages(
        path: PathBuf,
        offsets: Offsets,
        count: u64,
    ) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            let file = glommio::io::BufferedFile::open(path).await.expect("it is there");
            for offset in offsets.take(count as usize) {
                let page = file.read_at(offset, PAGE).await.expect("it can be read");
                assert_eq!(page.len(), PAGE);
            }
            file.close().await.expect("it was open");
        })
    }

    fn append_pages(
        path: PathBuf,
        count: u64,
        sync: bool,
    ) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            let file = glommio::io::BufferedFile::create(path).await.expect("there is room");
            for number in 0..count {
                let page = vec![1; PAGE];
                file.write_at(page, number * PAGE as u64).await.expect("there is room");
                if sync {
                    file.fdatasync().await.expect("the disk takes it");
                }
            }
            file.close().await.expect("it was open");
        })
    }

    fn open_and_stat(paths: Arc<[PathBuf]>) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            for path in &*paths {
                let file = glommio::io::BufferedFile::open(path).await.expect("it is there");
                file.file_size().await.expect("it is open");
                file.close().await.expect("it was open");
            }
        })
    }

    fn copy(from: PathBuf, to: PathBuf) -> impl Future<Output = ()> + Send + 'static {
        OneThread(async move {
            let from = glommio::io::BufferedFile::open(from).await.expect("it is there");
            let to = glommio::io::BufferedFile::create(to).await.expect("there is room");
            let mut at = 0;
            loop {
                let chunk = from.read_at(at, CHUNK).await.expect("it can be read");
                if chunk.is_empty() {
                    break;
                }
                let count = chunk.len() as u64;
                to.write_at(chunk.to_vec(), at).await.expect("there is room");
                at += count;
            }
            from.close().await.expect("it was open");
            to.close().await.expect("it was open");
        })
    }
}
