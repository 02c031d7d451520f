//! Bugs whose results depend on the order of the tasks.

use super::Twin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wakeful::sim::Sim;
use wakeful::sync::{Mutex, mpsc};
use wakeful::task::spawn_local;

/// One task creates an account, and another one pays into it. The receiver expects the account
/// first.
///
/// The fixed twin sends both messages from one task.
pub async fn order_across_senders(_sim: Sim, twin: Twin) {
    let (create, mut messages) = mpsc::channel(4);
    let pay = create.clone();
    if twin.is_fixed() {
        spawn_local(async move {
            create.send("create").await.unwrap();
            pay.send("pay").await.unwrap();
        });
    } else {
        spawn_local(async move { create.send("create").await.unwrap() });
        spawn_local(async move { pay.send("pay").await.unwrap() });
    }
    let mut has_account = false;
    while let Some(message) = messages.recv().await {
        match message {
            "create" => has_account = true,
            _ => assert!(has_account, "a payment into an account that does not exist"),
        }
    }
}

/// An account with a log of its deposits.
struct Account {
    balance: AtomicU32,
    deposits: AtomicU32,
    lock: Mutex<()>,
    log: mpsc::Sender<u32>,
}

impl Account {
    async fn deposit(&self, twin: Twin) {
        let _held = match twin {
            Twin::Buggy => None,
            Twin::Fixed => Some(self.lock.lock().await),
        };
        let before = self.balance.load(Relaxed);
        self.log.send(before).await.unwrap();
        self.balance.store(before + 10, Relaxed);
        self.deposits.fetch_add(1, Relaxed);
    }
}

/// Two tasks read a balance, write a log line, and write the new balance.
///
/// The fixed twin holds a lock while it does so.
pub async fn lost_update(sim: Sim, twin: Twin) {
    let (log, mut lines) = mpsc::channel(10);
    let (balance, deposits) = (AtomicU32::new(0), AtomicU32::new(0));
    let account = Arc::new(Account { balance, deposits, lock: Mutex::new(()), log });
    let seen = account.clone();
    sim.always("no deposit is lost", move || {
        seen.balance.load(Relaxed) == 10 * seen.deposits.load(Relaxed)
    });
    let tasks = [account.clone(), account].map(|account| {
        spawn_local(async move {
            account.deposit(twin).await;
            account.deposit(twin).await;
        })
    });
    for _ in 0..4 {
        lines.recv().await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
}
