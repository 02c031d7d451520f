//! A WebSocket whose server echoes.

use super::http1::head_length;
use super::{InOrder, Protocol, excerpt};

/// Bytes of a message.
const SIZE: usize = 64;
/// A final frame with text, and the bit of a masked one.
const TEXT: u8 = 0x81;
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = *b"mask";

/// Messages of text over one WebSocket.
pub struct WebSocket {
    path: &'static str,
    is_open: bool,
    order: InOrder,
}

impl WebSocket {
    pub fn new(path: &'static str) -> Self {
        Self { path, is_open: false, order: InOrder::default() }
    }
}

impl Protocol for WebSocket {
    fn open(&mut self, out: &mut Vec<u8>) {
        let fields = "host: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                      sec-websocket-version: 13\r\nsec-websocket-key: d2FrZWZ1bCBhcHBzIGtleQ==";
        out.extend(format!("GET {} HTTP/1.1\r\n{fields}\r\n\r\n", self.path).into_bytes());
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn request(&mut self, out: &mut Vec<u8>) -> u32 {
        out.extend([TEXT, MASKED | SIZE as u8]);
        out.extend(MASK);
        out.extend((0..SIZE).map(|place| b'x' ^ MASK[place % MASK.len()]));
        self.order.send()
    }

    fn receive(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        done: &mut Vec<u32>,
    ) -> Result<usize, String> {
        let mut used = 0;
        if !self.is_open {
            let Some(length) = head_length(input) else { return Ok(0) };
            if !input.starts_with(b"HTTP/1.1 101") {
                return Err(format!("the server makes no WebSocket: {}", excerpt(input)));
            }
            self.is_open = true;
            used = length;
        }
        while let [kind, length, ..] = input[used..] {
            if (kind, length) != (TEXT, SIZE as u8) {
                return Err(format!("not the echo of a message: {kind:#x} {length}"));
            }
            let Some(message) = input[used + 2..].get(..SIZE) else { break };
            if message.iter().any(|&byte| byte != b'x') {
                return Err(format!("not the echo of a message: {}", excerpt(message)));
            }
            used += 2 + SIZE;
            self.order.answer(done);
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect_one_answer;
    use super::*;

    #[test]
    fn an_echo_may_come_in_parts() {
        let mut answer = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n".to_vec();
        answer.extend([TEXT, SIZE as u8]);
        answer.extend([b'x'; SIZE]);
        expect_one_answer(|| Box::new(WebSocket::new("/ws")), &answer);
    }

    #[test]
    fn other_answers_are_errors() {
        let mut socket = WebSocket::new("/ws");
        let refused = socket.receive(b"HTTP/1.1 404 No\r\n\r\n", &mut Vec::new(), &mut Vec::new());
        assert!(refused.unwrap_err().contains("404"));
        socket.is_open = true;
        assert!(socket.receive(&[0x88, 0], &mut Vec::new(), &mut Vec::new()).is_err(), "a close");
    }
}
