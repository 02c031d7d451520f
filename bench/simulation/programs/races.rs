//! Bugs whose results depend on the order of the tasks: bugs 3, 6 and 7.

use crate::programs::{Either, System, Twin, race};
use crate::rt::{Mutex, mpsc, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Reads three bytes. The twin keeps the bytes that it has read for the next call.
async fn read_three(
    bytes: &mut mpsc::Receiver<u8>,
    kept: &mut Vec<u8>,
    twin: Twin,
) -> Option<Vec<u8>> {
    let mut own = Vec::new();
    let message = if twin.is_fixed() { kept } else { &mut own };
    while message.len() < 3 {
        message.push(bytes.recv().await?);
    }
    Some(std::mem::take(message))
}

/// A loop waits for a message of three bytes or for a tick. If a tick comes first, the bytes already
/// read are lost.
pub fn cancelled_read(twin: Twin) -> System {
    System::local(async move {
        let (wire, mut bytes) = mpsc::channel(4);
        let (clock, mut ticks) = mpsc::channel(1);
        spawn(async move {
            for byte in 0..6 {
                wire.send(byte).await.unwrap();
            }
        });
        spawn(async move {
            for _ in 0..2 {
                // The reader may have received all messages.
                if clock.send(()).await.is_err() {
                    return;
                }
            }
        });
        let mut kept = Vec::new();
        let mut messages = Vec::new();
        let mut has_ticks = true;
        loop {
            let message = if has_ticks {
                match race(read_three(&mut bytes, &mut kept, twin), ticks.recv()).await {
                    Either::First(message) => message,
                    Either::Second(tick) => {
                        has_ticks = tick.is_some();
                        continue;
                    }
                }
            } else {
                read_three(&mut bytes, &mut kept, twin).await
            };
            match message {
                Some(message) => messages.push(message),
                None => break,
            }
        }
        assert_eq!(messages, [[0, 1, 2], [3, 4, 5]]);
    })
}

/// One task creates an account, and another one pays into it. The receiver expects the account first.
///
/// The twin sends both messages from one task.
pub fn order_across_senders(twin: Twin) -> System {
    System::local(async move {
        let (create, mut messages) = mpsc::channel(4);
        let pay = create.clone();
        if twin.is_fixed() {
            spawn(async move {
                create.send("create").await.unwrap();
                pay.send("pay").await.unwrap();
            });
        } else {
            spawn(async move { create.send("create").await.unwrap() });
            spawn(async move { pay.send("pay").await.unwrap() });
        }
        let mut has_account = false;
        while let Some(message) = messages.recv().await {
            match message {
                "create" => has_account = true,
                _ => assert!(has_account, "a payment into an account that does not exist"),
            }
        }
    })
}

struct Account {
    balance: AtomicU32,
    lock: Mutex<()>,
    log: mpsc::Sender<u32>,
}

impl Account {
    async fn deposit(&self, twin: Twin) {
        let _held = match twin {
            Twin::Buggy => None,
            Twin::Fixed => Some(self.lock.lock().await),
        };
        let before = self.balance.load(SeqCst);
        self.log.send(before).await.unwrap();
        self.balance.store(before + 10, SeqCst);
    }
}

/// Two tasks read a balance, write a log line, and write the new balance, twice each.
///
/// The twin holds a lock while it does so.
pub fn lost_update(twin: Twin) -> System {
    System::local(async move {
        let (log, mut lines) = mpsc::channel(10);
        let account = Arc::new(Account { balance: AtomicU32::new(0), lock: Mutex::new(()), log });
        let tasks = [account.clone(), account.clone()].map(|account| {
            spawn(async move {
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
        assert_eq!(account.balance.load(SeqCst), 40, "a deposit is lost");
    })
}
