//! Tasks that wait for each other: the primitives of `wakeful::sync` at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use wakeful::sync::{Notify, mpsc, oneshot};
use wakeful::time::{Duration, Instant, sleep};

use crate::guide::{Guide, runtime};

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "A delay built on Notify",
        "A thread rings when the time is up; the task waits for the ring with `notified`, which
         keeps the waker up to date by itself. A ring that comes first is not lost: it is stored.",
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
                // Rung beforehand: the next one who waits is through at once.
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
        "One task computes, another waits for the value. If the sender goes away without a word,
         the receiver is told so instead of waiting for ever.",
        |page| {
            let rt = runtime(2);
            let (answer, silence) = rt.block_on(async {
                let (tell, told) = oneshot::channel();
                wakeful::spawn(async move { tell.send((1..=10).product::<u64>()) });
                let answer = told.await;
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
        "A fast producer and a slow consumer share a channel with room for 4. The producer waits
         in `send` whenever the channel is full, so it is never far ahead, whatever it would like.",
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
