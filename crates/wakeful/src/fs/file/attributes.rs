//! Operations on a whole file: syncing, length, attributes.

use super::super::fd_ops::{Allocate, SetLen, SyncAll, SyncData};
use super::super::op_future::{OpFuture, change_on_pool, run_on_pool};
use super::super::{FileTimes, page_cache};
use super::File;
use std::fs::{Metadata, Permissions};
use std::future::poll_fn;
use std::io;
use std::panic::Location;
use std::time::SystemTime;

impl File {
    /// Waits until all data and metadata of the file are on disk.
    ///
    /// Includes data that was written but not flushed. The data survives a system crash.
    ///
    /// # Errors
    ///
    /// Returns the error of an earlier write, or the errors of [`std::fs::File::sync_all`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped, the data may or may not be on disk.
    /// Call the method again to be sure.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-sync-{}", std::process::id()));
    /// let mut file = File::create(&path).await?;
    /// file.write_all(b"important").await?;
    /// file.sync_all().await?;
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn sync_all(&self) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.wait_idle_and_check(site).await?;
            let file = self.descriptor.clone();
            OpFuture::new(SyncAll { file }, site).on_file(&self.queue).await
        }
    }

    /// Waits until all data of the file is on disk, with the metadata needed to read it.
    ///
    /// This may be faster than [`sync_all`](Self::sync_all), because it does not write metadata
    /// such as the time of the last change.
    ///
    /// # Errors
    ///
    /// Returns the error of an earlier write, or the errors of [`std::fs::File::sync_data`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped, the data may or may not be on disk.
    /// Call the method again to be sure.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-data-{}", std::process::id()));
    /// let mut log = File::create(&path).await?;
    /// log.write_all(b"record 1\n").await?;
    /// log.sync_data().await?;
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn sync_data(&self) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.wait_idle_and_check(site).await?;
            let file = self.descriptor.clone();
            OpFuture::new(SyncData { file }, site).on_file(&self.queue).await
        }
    }

    /// Truncates the file to `size` bytes, or extends it with zeros.
    ///
    /// The cursor does not move.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::set_len`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the length may or may not have
    /// changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-len-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// file.set_len(10).await?;
    /// assert_eq!(file.metadata().await?.len(), 10);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn set_len(&self, size: u64) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            poll_fn(|cx| self.poll_ready_to_change(cx, site)).await?;
            let file = self.descriptor.clone();
            OpFuture::new(SetLen { file, len: size }, site).on_file(&self.queue).await
        }
    }

    /// Reserves disk space for `len` bytes at `offset`.
    ///
    /// Later writes to that range do not fail for lack of space. A shorter file is extended with
    /// zeros.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough space, or if the file system does not support this.
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the space may or may not have been
    /// reserved.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-alloc-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// match file.allocate(0, 1 << 20).await {
    ///     Ok(()) => assert_eq!(file.metadata().await?.len(), 1 << 20),
    ///     Err(error) => println!("this file system cannot reserve space: {error}"),
    /// }
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn allocate(&self, offset: u64, len: u64) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            poll_fn(|cx| self.poll_ready_to_change(cx, site)).await?;
            let file = self.descriptor.clone();
            OpFuture::new(Allocate { file, offset, len }, site).on_file(&self.queue).await
        }
    }

    /// Returns the metadata of the file.
    ///
    /// May not reflect data that was written but not flushed.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::metadata`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = File::open("/").await?;
    /// assert!(file.metadata().await?.is_dir());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> {
        let site = Location::caller();
        async move {
            if page_cache::check_inline_allowed()? && self.descriptor.has_cached_metadata() {
                page_cache::spend_budget().await;
                return self.descriptor.std().metadata();
            }
            let file = self.descriptor.clone();
            run_on_pool(site, move || file.std().metadata()).on_file(&self.queue).await
        }
    }

    /// Changes the permissions of the file, once all previously written data is in the file.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::set_permissions`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the permissions may or may not
    /// have changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-perm-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// let mut permissions = file.metadata().await?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions).await?;
    /// assert!(file.metadata().await?.permissions().readonly());
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn set_permissions(&self, perm: Permissions) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            poll_fn(|cx| self.queue.poll_idle(cx, site)).await;
            let file = self.descriptor.clone();
            change_on_pool(site, move || file.std().set_permissions(perm))
                .on_file(&self.queue)
                .await
        }
    }

    /// Changes the times of the file, after all operations in flight.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::set_times`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the times may or may not have
    /// changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use wakeful::fs::{File, FileTimes};
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-times-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// let epoch = SystemTime::UNIX_EPOCH;
    /// file.set_times(FileTimes::new().set_accessed(epoch).set_modified(epoch)).await?;
    /// assert_eq!(file.metadata().await?.modified()?, epoch);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn set_times(&self, times: FileTimes) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.wait_idle(site).await;
            let (file, times) = (self.descriptor.clone(), times.into_std());
            change_on_pool(site, move || file.std().set_times(times)).on_file(&self.queue).await
        }
    }

    /// Changes the time of the last modification, after all operations in flight.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::set_modified`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the time may or may not have
    /// changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-mod-{}", std::process::id()));
    /// let file = File::create(&path).await?;
    /// file.set_modified(SystemTime::UNIX_EPOCH).await?;
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn set_modified(&self, time: SystemTime) -> impl Future<Output = io::Result<()>> {
        self.set_times(FileTimes::new().set_modified(time))
    }
}
