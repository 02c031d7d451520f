//! Peers with tokio's API: tokio itself, and wakeful, which has its shape.
//!
//! One macro writes both adapters, so the two crates are called in exactly the
//! same way and a difference between their figures is theirs.

/// `tokio_shaped!(tokio, "tokio-mt", "tokio-ct", no_hooks)` makes a module of that crate's name with the peers
/// `Multi` and `Current`. The last argument is a function that sets hooks in a `Builder`.
macro_rules! tokio_shaped {
    ($name:ident, $multi:literal, $current:literal, $set_hooks:path) => {
        pub mod $name {
            use std::future::Future;
            use std::pin::Pin;
            use std::task::{Context, Poll};
            use std::time::Duration;

            use ::$name as crate_under_test;
            use crate_under_test::runtime::{Builder, Handle, Runtime};
            use crate_under_test::task::{JoinHandle, JoinSet};

            use crate::peers::{Blocking, Flavor, Peer, Remote, Sets, Timers, WORKERS};

            /// Resolves with the task's output instead of a `Result`.
            pub struct Join<T>(JoinHandle<T>);

            impl<T> Future for Join<T> {
                type Output = T;

                #[inline]
                fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
                    Pin::new(&mut self.0)
                        .poll(cx)
                        .map(|outcome| outcome.expect("a benchmark task panicked or was cancelled"))
                }
            }

            tokio_shaped!(@peer Multi, $multi, Flavor::Multi, {
                let mut builder = Builder::new_multi_thread();
                $set_hooks(&mut builder);
                builder.worker_threads(WORKERS).enable_all().build()
            });
            tokio_shaped!(@peer Current, $current, Flavor::Single, {
                let mut builder = Builder::new_current_thread();
                $set_hooks(&mut builder);
                builder.enable_all().build()
            });
        }
    };

    (@peer $peer:ident, $name:literal, $flavor:expr, $build:block) => {
        pub struct $peer(Runtime);

        impl Peer for $peer {
            const NAME: &'static str = $name;
            const FLAVOR: Flavor = $flavor;

            type Join<T: Send + 'static> = Join<T>;

            fn build() -> Self {
                Self($build.expect("the runtime starts"))
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                self.0.block_on(future)
            }

            #[inline]
            fn spawn<F>(future: F) -> Join<F::Output>
            where
                F: Future + Send + 'static,
                F::Output: Send + 'static,
            {
                Join(crate_under_test::spawn(future))
            }

            #[inline]
            fn yield_now() -> impl Future<Output = ()> + Send {
                crate_under_test::task::yield_now()
            }
        }

        impl Remote for $peer {
            type Spawner = Handle;

            fn spawner(&self) -> Handle {
                self.0.handle().clone()
            }

            #[inline]
            fn spawn_from<F>(spawner: &Handle, future: F)
            where
                F: Future<Output = ()> + Send + 'static,
            {
                drop(spawner.spawn(future));
            }
        }

        impl Blocking for $peer {
            #[inline]
            fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
            where
                F: FnOnce() + Send + 'static,
            {
                Join(crate_under_test::task::spawn_blocking(work))
            }
        }

        impl Sets for $peer {
            async fn spawn_and_join_set(tasks: u64) {
                let mut set = JoinSet::new();
                for _ in 0..tasks {
                    set.spawn(async {});
                }
                while let Some(outcome) = set.join_next().await {
                    outcome.expect("a benchmark task panicked or was cancelled");
                }
            }
        }

        impl Timers for $peer {
            #[inline]
            fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
                crate_under_test::time::sleep(duration)
            }

            #[inline]
            async fn timeout<F>(duration: Duration, future: F) -> bool
            where
                F: Future<Output = ()> + Send,
            {
                crate_under_test::time::timeout(duration, future).await.is_ok()
            }
        }
    };
}

/// Sets nothing: tokio's hooks need its unstable API.
fn no_hooks(_: &mut ::tokio::runtime::Builder) {}

tokio_shaped!(tokio, "tokio-mt", "tokio-ct", super::no_hooks);
#[cfg(feature = "wakeful")]
tokio_shaped!(wakeful, "wakeful-mt", "wakeful-ct", crate::peers::hooks::set);
