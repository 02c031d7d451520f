//! Requests and answers as bytes, without sockets.

mod http1;
mod http2;
mod redis;
mod websocket;

pub use http1::Http1;
pub use http2::Http2;
pub use redis::Redis;
pub use websocket::WebSocket;

/// One connection's side of a protocol.
pub trait Protocol {
    /// Appends what opens a connection.
    fn open(&mut self, _out: &mut Vec<u8>) {}

    /// Whether requests can be sent.
    fn is_open(&self) -> bool {
        true
    }

    /// Appends a request, and returns its number.
    fn request(&mut self, out: &mut Vec<u8>) -> u32;

    /// Reads received bytes, and returns how many it has used. The others come again, with more.
    ///
    /// `done` gets the numbers of requests whose answers are complete, `out` what has to be sent in return.
    ///
    /// # Errors
    ///
    /// An answer other than the expected one.
    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        done: &mut Vec<u32>,
    ) -> Result<usize, String>;
}

/// Numbers of requests on a connection that answers in order.
#[derive(Default)]
struct InOrder {
    sent: u32,
    answered: u32,
}

impl InOrder {
    fn send(&mut self) -> u32 {
        self.sent += 1;
        self.sent
    }

    fn answer(&mut self, done: &mut Vec<u32>) {
        self.answered += 1;
        done.push(self.answered);
    }
}

/// The first bytes of an unexpected answer, for a message.
fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned()
}

/// Feeds `answer` to a protocol in two parts, split at each place, and checks that one request is done.
#[cfg(test)]
fn expect_one_answer(mut new: impl FnMut() -> Box<dyn Protocol>, answer: &[u8]) {
    for split in 0..=answer.len() {
        let mut protocol = new();
        let (mut out, mut done) = (Vec::new(), Vec::new());
        let number = protocol.request(&mut out);
        let used =
            protocol.receive(&answer[..split], &mut out, &mut done).expect("a part is no error");
        let rest = &answer[used..];
        let used =
            protocol.receive(rest, &mut out, &mut done).expect("the answer is the expected one");
        assert_eq!((used, done), (rest.len(), vec![number]), "split at {split}");
    }
}
