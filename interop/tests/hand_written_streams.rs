//! Streams written by hand that poll a new future each time and drop it, as tonic's TLS server does.
//!
//! The wait belongs to the `JoinSet` or the receiver, not to the future: a task is woken although the future is gone.

use futures_util::{Stream, StreamExt, stream};
use interop::on_every_runtime;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// The outputs of the tasks of a set, as they end.
struct Outputs(JoinSet<usize>);

impl Stream for Outputs {
    type Item = usize;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<usize>> {
        pin!(self.0.join_next()).poll(context).map(|next| next.map(Result::unwrap))
    }
}

#[test]
fn the_outputs_of_a_join_set() {
    on_every_runtime(|| async {
        let mut starts = Vec::new();
        let mut set = JoinSet::new();
        for number in 0..100 {
            let (start, is_started) = oneshot::channel::<()>();
            starts.push(start);
            set.spawn(async move {
                is_started.await.unwrap();
                number
            });
        }
        let mut outputs = Outputs(set);
        // Nothing is ready, so the first poll of each turn waits for a task that starts only then.
        for (number, start) in starts.into_iter().enumerate() {
            let first = futures_util::poll!(outputs.next());
            assert!(first.is_pending());
            start.send(()).unwrap();
            assert_eq!(outputs.next().await, Some(number));
        }
        assert_eq!(outputs.next().await, None);
    });
}

/// Two sources in one `select!`, made anew for each poll of the stream.
#[test]
fn a_select_that_is_made_anew_for_each_poll() {
    on_every_runtime(|| async {
        let (sender, mut receiver) = mpsc::channel::<usize>(1);
        let mut tasks = JoinSet::new();
        let mut merged = stream::poll_fn(move |context| {
            let next = async {
                tokio::select! {
                    Some(output) = tasks.join_next() => Some(output.unwrap()),
                    received = receiver.recv() => {
                        let number = received?;
                        tasks.spawn(async move {
                            tokio::task::yield_now().await;
                            number + 1000
                        });
                        Some(number)
                    }
                }
            };
            pin!(next).poll(context)
        });
        tokio::spawn(async move {
            for number in 0..100 {
                sender.send(number).await.unwrap();
                tokio::task::yield_now().await;
            }
            // The tasks' outputs have to come while the channel is open and empty.
            sender.closed().await;
        });
        let mut seen: Vec<usize> = merged.by_ref().take(200).collect().await;
        seen.sort_unstable();
        let expected: Vec<usize> = (0..100).chain(1000..1100).collect();
        assert_eq!(seen, expected);
    });
}
