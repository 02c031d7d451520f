//! Crates of channels that run on any runtime.
//!
//! async-channel, flume and kanal have channels for many receivers only, of
//! which the rows use one. Of crossfire these are the channels for one receiver.

use super::{Bounded, Primitives, Unbounded};

/// Defines a type for a crate. The arguments for each kind of channel: its constructor, its sender and
/// receiver, and their methods that send and receive.
macro_rules! channels {
    (
        $type:ident, $name:literal,
        bounded: $bounded:path, $sender:ty, $receiver:ty, $send:ident, $recv:ident,
        unbounded: $unbounded:path, $u_sender:ty, $u_receiver:ty, $u_send:ident, $u_recv:ident $(,)?
    ) => {
        pub struct $type;

        impl Primitives for $type {
            const NAME: &'static str = $name;
        }

        impl Bounded for $type {
            type Sender = $sender;
            type Receiver = $receiver;

            fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
                $bounded(capacity)
            }

            #[inline]
            async fn send(sender: &Self::Sender, message: u64) {
                sender.$send(message).await.expect("the receiver is there");
            }

            #[inline]
            async fn recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.$recv().await.ok()
            }
        }

        impl Unbounded for $type {
            type Sender = $u_sender;
            type Receiver = $u_receiver;

            fn unbounded() -> (Self::Sender, Self::Receiver) {
                $unbounded()
            }

            #[inline]
            fn send(sender: &Self::Sender, message: u64) {
                sender.$u_send(message).expect("the receiver is there, and there is no limit");
            }

            #[inline]
            async fn recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.$u_recv().await.ok()
            }
        }
    };
}

channels!(
    AsyncChannel, "async-channel",
    bounded: async_channel::bounded, async_channel::Sender<u64>, async_channel::Receiver<u64>, send, recv,
    unbounded: async_channel::unbounded, async_channel::Sender<u64>, async_channel::Receiver<u64>, try_send, recv,
);

channels!(
    Flume, "flume",
    bounded: flume::bounded, flume::Sender<u64>, flume::Receiver<u64>, send_async, recv_async,
    unbounded: flume::unbounded, flume::Sender<u64>, flume::Receiver<u64>, send, recv_async,
);

channels!(
    Kanal, "kanal",
    bounded: kanal::bounded_async, kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>, send, recv,
    unbounded: kanal_unbounded, kanal::Sender<u64>, kanal::AsyncReceiver<u64>, send, recv,
);

channels!(
    Crossfire, "crossfire",
    bounded: crossfire_bounded, crossfire::MAsyncTx<Array>, crossfire::AsyncRx<Array>, send, recv,
    unbounded: crossfire_unbounded, crossfire::MTx<List>, crossfire::AsyncRx<List>, send, recv,
);

type Array = crossfire::mpsc::Array<u64>;
type List = crossfire::mpsc::List<u64>;

/// A sender that doesn't wait, a receiver that does.
fn kanal_unbounded() -> (kanal::Sender<u64>, kanal::AsyncReceiver<u64>) {
    let (sender, receiver) = kanal::unbounded();
    (sender, receiver.to_async())
}

fn crossfire_bounded(capacity: usize) -> (crossfire::MAsyncTx<Array>, crossfire::AsyncRx<Array>) {
    // Its documentation asks for this at the start of a program.
    crossfire::detect_backoff_cfg();
    crossfire::mpsc::bounded_async(capacity)
}

fn crossfire_unbounded() -> (crossfire::MTx<List>, crossfire::AsyncRx<List>) {
    crossfire::detect_backoff_cfg();
    crossfire::mpsc::unbounded_async()
}
