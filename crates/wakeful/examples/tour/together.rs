//! Tasks that wait for each other, with the primitives of `wakeful::sync`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use wakeful::sync::{Notify, mpsc, oneshot};
use wakeful::time::{Duration, Instant, sleep};

use crate::guide::{Guide, runtime};

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "A delay built on Notify",
        "A thread notifies when the time is up. The task waits with `notified`, which keeps the waker
         up to date. A notification that comes first is not lost: it is stored as a permit.",
        |page| {
            let rt = runtime(1);
            let wait = Duration::from_millis(20);
            let started = Instant::now();
            rt.block_on(async {
                let bell = Arc::new(Notify::new());
                let ringer = {
                    let bell = bell.clone();
                    thread::spawn(move || {
                        thread::sleep(wait);
                        bell.notify_one();
                    })
                };
                bell.notified().await;
                ringer.join().expect("the ringer only sleeps and rings");
                // Notified beforehand: the next wait is ready at once.
                bell.notify_one();
                bell.notified().await;
            });
            let took = started.elapsed();
            page.show(format!("rung after {:.1} ms", took.as_secs_f64() * 1e3));
            page.expect(took >= wait, "a delay is never too short");
        },
    );

    guide.chapter(
        "A one-shot event",
        "One task computes a value, and another waits for it. If the sender is dropped without sending,
         the receiver gets an error instead of waiting forever.",
        |page| {
            let rt = runtime(2);
            let (answer, silence) = rt.block_on(async {
                let (tx, rx) = oneshot::channel();
                wakeful::spawn(async move { tx.send((1..=10).product::<u64>()) });
                let answer = rx.await;
                let (never, waits) = oneshot::channel::<u64>();
                wakeful::spawn(async move { drop(never) });
                (answer, waits.await)
            });
            page.show(format!("10! = {answer:?}"));
            page.show(format!("from a sender that was dropped: {silence:?}"));
            page.expect(answer == Ok(3_628_800), "the value arrives");
            page.expect(silence.is_err(), "a dropped sender is noticed");
        },
    );

    guide.chapter(
        "A bounded channel gives back-pressure",
        "A fast producer and a slow consumer share a channel with a capacity of 4. The producer waits
         in `send` while the channel is full, so it is never far ahead.",
        |page| {
            let rt = runtime(2);
            let (lead, received) = rt.block_on(async {
                let (send, mut receive) = mpsc::channel(4);
                let sent = Arc::new(AtomicUsize::new(0));
                let producer = wakeful::spawn({
                    let sent = sent.clone();
                    async move {
                        for n in 0..50 {
                            send.send(n).await.expect("the consumer takes them all");
                            sent.fetch_add(1, SeqCst);
                        }
                    }
                });
                let (mut received, mut lead) = (Vec::new(), 0);
                while let Some(n) = receive.recv().await {
                    lead = lead.max(sent.load(SeqCst).saturating_sub(received.len()));
                    received.push(n);
                    sleep(Duration::from_micros(200)).await;
                }
                producer.await.expect("it only sends");
                (lead, received)
            });
            page.show(format!("{} messages, the producer at most {lead} ahead", received.len()));
            page.expect(received == Vec::from_iter(0..50), "all arrive, in order");
            page.expect(lead <= 5, "never further ahead than the channel has room");
        },
    );
}
