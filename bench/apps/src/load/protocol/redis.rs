//! `GET` and `SET` of Redis's protocol.

use super::{InOrder, Protocol, excerpt};

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
const STORED: &[u8] = b"+OK\r\n";
const VALUE: &[u8] = b"$5\r\nvalue\r\n";

/// One command over a connection.
pub struct Redis {
    request: &'static [u8],
    answer: &'static [u8],
    is_open: bool,
    order: InOrder,
}

impl Redis {
    /// Reads a key, which it has stored when the connection is open.
    pub fn get() -> Self {
        Self { request: GET, answer: VALUE, is_open: false, order: InOrder::default() }
    }

    /// Stores a key.
    pub fn set() -> Self {
        Self { request: SET, answer: STORED, is_open: false, order: InOrder::default() }
    }
}

impl Protocol for Redis {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(SET);
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn request(&mut self, out: &mut Vec<u8>) -> u32 {
        out.extend_from_slice(self.request);
        self.order.send()
    }

    fn receive(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        done: &mut Vec<u32>,
    ) -> Result<usize, String> {
        let mut used = 0;
        loop {
            let expected = if self.is_open { self.answer } else { STORED };
            let rest = &input[used..];
            if !rest.starts_with(expected) {
                return match expected.starts_with(rest) {
                    true => Ok(used),
                    false => Err(format!("unexpected answer: {}", excerpt(rest))),
                };
            }
            used += expected.len();
            match self.is_open {
                true => self.order.answer(done),
                false => self.is_open = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect_one_answer;
    use super::*;

    #[test]
    fn an_answer_may_come_in_parts() {
        expect_one_answer(|| Box::new(Redis::get()), &[STORED, VALUE].concat());
        expect_one_answer(|| Box::new(Redis::set()), &[STORED, STORED].concat());
    }

    #[test]
    fn an_error_is_returned() {
        let failed = Redis::set().receive(b"-ERR no\r\n", &mut Vec::new(), &mut Vec::new());
        assert!(failed.unwrap_err().contains("-ERR no"));
    }
}
