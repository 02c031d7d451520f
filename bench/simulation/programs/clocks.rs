//! Bugs of hosts whose clocks differ: bug 13.

use crate::programs::{System, Twin};
use crate::rt::{choose, sleep, spawn, system_time};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const LEASE: Duration = Duration::from_secs(10);

/// A storage to which only the holder of a lease may write.
#[derive(Default)]
struct Storage {
    /// The token of the newest lease, and the time until which it is valid.
    lease: Option<(u64, SystemTime)>,
    /// The token of the newest write.
    written: u64,
}

impl Storage {
    /// Grants a lease, unless another one is valid by the caller's clock.
    fn acquire(&mut self, now: SystemTime) -> Option<(u64, SystemTime)> {
        let number = match self.lease {
            Some((_, until)) if until > now => return None,
            Some((number, _)) => number + 1,
            None => 1,
        };
        self.lease = Some((number, now + LEASE));
        self.lease
    }

    /// Writes for the holder of the lease with this token. The twin refuses an old token.
    fn write(&mut self, token: u64, twin: Twin) {
        if token < self.written && twin.is_fixed() {
            return;
        }
        assert!(token >= self.written, "a stale write");
        self.written = token;
    }
}

/// Acquires leases, and writes while they are valid by the own clock.
async fn node(storage: Arc<Mutex<Storage>>, ahead: Arc<Mutex<Duration>>, twin: Twin) {
    let now = || system_time() + *ahead.lock().unwrap();
    for _ in 0..20 {
        let lease = storage.lock().unwrap().acquire(now());
        let Some((token, until)) = lease else {
            sleep(Duration::from_secs(1)).await;
            continue;
        };
        while now() < until {
            storage.lock().unwrap().write(token, twin);
            sleep(Duration::from_secs(2)).await;
        }
    }
}

/// Two tasks write under leases. The wall clock of one of them may be ahead. The program adds the
/// difference itself, since not every tool has a clock for each host.
pub fn expired_lease(twin: Twin) -> System {
    System::local(async move {
        let storage = Arc::new(Mutex::new(Storage::default()));
        let ahead = [(); 2].map(|()| Arc::new(Mutex::new(Duration::ZERO)));
        let nodes = ahead.clone().map(|ahead| spawn(node(storage.clone(), ahead, twin)));
        sleep(Duration::from_secs(1)).await;
        *ahead[1].lock().unwrap() = Duration::from_secs(5 * choose(4));
        for node in nodes {
            node.await.unwrap();
        }
    })
}
