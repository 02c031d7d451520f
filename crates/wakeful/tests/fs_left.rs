//! Operations on a file that nobody waits for any more, and what is done with the file after them.

use std::future::poll_fn;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use wakeful::fs::File;
use wakeful::io::AsyncReadExt;
use wakeful::sync::Semaphore;

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::everywhere;

/// Polls a future once. True: it is ready.
async fn once(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// All who wait for the end of a read that was given up are told of it.
#[test]
fn several_wait_for_a_read_that_was_given_up() {
    everywhere(|_folder| async {
        let (read, mut write) = std::io::pipe().unwrap();
        let mut file = File::from(std::os::fd::OwnedFd::from(read));
        assert!(!once(file.read(&mut [0; 4])).await);
        let file = Arc::new(file);
        let waiting = Arc::new(Semaphore::new(0));
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let (file, waiting) = (file.clone(), waiting.clone());
                wakeful::spawn(async move {
                    let mut sync = pin!(file.sync_all());
                    assert!(poll_fn(|cx| Poll::Ready(sync.as_mut().poll(cx).is_pending())).await);
                    waiting.add_permits(1);
                    sync.await.expect_err("a pipe has no disk");
                })
            })
            .collect();
        waiting.acquire_many(3).await.unwrap().forget();
        write.write_all(b"text").unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        let mut file = Arc::into_inner(file).unwrap();
        let mut text = [0; 4];
        file.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"text", "what the read has brought is kept");
    });
}
