//! The axum service beside tasks that compute: how late its answers become.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use crate::{Outcome, http};

/// Tasks that compute, and for how long between two yields. As in the row `echo_busy`.
const BURNERS: usize = 8;
const BURN: Duration = Duration::from_micros(200);

/// Serves until the process ends.
pub async fn serve(listener: TcpListener) -> Outcome {
    for _ in 0..BURNERS {
        tokio::spawn(async {
            loop {
                burn();
                tokio::task::yield_now().await;
            }
        });
    }
    http::serve(listener).await
}

/// Uses processor time for a while.
fn burn() {
    let started = Instant::now();
    while started.elapsed() < BURN {
        std::hint::black_box(());
    }
}
