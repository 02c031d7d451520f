//! Bugs of hosts whose clocks differ.

use super::Twin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wakeful::sim::{self, Sim, system_time};
use wakeful::time::sleep;

const LEASE: Duration = Duration::from_secs(10);

/// A storage to which only the holder of a lease may write.
#[derive(Default)]
struct Storage {
    /// The token of the newest lease, and the time until which it is valid.
    lease: Option<(u64, SystemTime)>,
    /// The token of the newest write.
    written: u64,
    /// Whether a write under an older lease came after one under a newer lease.
    has_stale_write: bool,
}

impl Storage {
    /// Grants a lease, unless another one is valid by the caller's clock.
    fn acquire(&mut self) -> Option<(u64, SystemTime)> {
        let now = system_time();
        let number = match self.lease {
            Some((_, until)) if until > now => return None,
            Some((number, _)) => number + 1,
            None => 1,
        };
        self.lease = Some((number, now + LEASE));
        self.lease
    }

    /// Writes for the holder of the lease with this token. The fixed twin refuses an old token.
    fn write(&mut self, token: u64, twin: Twin) {
        if token < self.written {
            if twin.is_fixed() {
                return;
            }
            self.has_stale_write = true;
        }
        self.written = token;
    }
}

/// Acquires leases, and writes while they are valid by the own clock.
async fn node(storage: Arc<Mutex<Storage>>, twin: Twin) {
    for _ in 0..20 {
        let lease = storage.lock().unwrap().acquire();
        let Some((token, until)) = lease else {
            sleep(Duration::from_secs(1)).await;
            continue;
        };
        while system_time() < until {
            storage.lock().unwrap().write(token, twin);
            sleep(Duration::from_secs(2)).await;
        }
    }
}

/// Two hosts write under leases. The wall clock of one of them may be ahead.
pub async fn expired_lease(sim: Sim, twin: Twin) {
    let storage = Arc::new(Mutex::new(Storage::default()));
    let seen = storage.clone();
    sim.always("no stale write", move || !seen.lock().unwrap().has_stale_write);
    let nodes = ["a", "b"].map(|name| sim.client(name, node(storage.clone(), twin)));
    sleep(Duration::from_secs(1)).await;
    let skew = Duration::from_secs(5 * sim::choose(4));
    sim.host_named("b").unwrap().clock().step(skew);
    for node in nodes {
        node.await;
    }
}
