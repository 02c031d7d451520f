//! HTTP/1.1 with `GET` and answers that have a length.

use super::{InOrder, Protocol, excerpt};

/// `GET` of one path over a connection that is kept.
pub struct Http1 {
    request: Vec<u8>,
    order: InOrder,
}

impl Http1 {
    pub fn new(path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
        Self { request, order: InOrder::default() }
    }
}

impl Protocol for Http1 {
    fn request(&mut self, out: &mut Vec<u8>) -> u32 {
        out.extend_from_slice(&self.request);
        self.order.send()
    }

    fn receive(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        done: &mut Vec<u32>,
    ) -> Result<usize, String> {
        let mut used = 0;
        while let Some(length) = head_length(&input[used..]) {
            let head = &input[used..used + length];
            if !head.starts_with(b"HTTP/1.1 200") {
                return Err(format!("an answer is not 200: {}", excerpt(head)));
            }
            let body = content_length(head)
                .ok_or_else(|| format!("an answer has no length: {}", excerpt(head)))?;
            if input.len() < used + length + body {
                break;
            }
            used += length + body;
            self.order.answer(done);
        }
        Ok(used)
    }
}

/// Bytes up to the end of the empty line, if it is there.
pub fn head_length(input: &[u8]) -> Option<usize> {
    input.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4)
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|&byte| byte == b'\n')
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))?;
    std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::expect_one_answer;
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\ndate: x\r\n\r\nhello";

    #[test]
    fn an_answer_may_come_in_parts() {
        expect_one_answer(|| Box::new(Http1::new("/")), ANSWER);
    }

    #[test]
    fn two_answers_at_once_are_two() {
        let mut http = Http1::new("/");
        let (mut out, mut done) = (Vec::new(), Vec::new());
        http.request(&mut out);
        http.request(&mut out);
        let used = http.receive(&ANSWER.repeat(2), &mut out, &mut done);
        assert_eq!((used, done), (Ok(ANSWER.len() * 2), vec![1, 2]));
    }

    #[test]
    fn other_answers_are_errors() {
        let receive = |answer: &[u8]| {
            Http1::new("/").receive(answer, &mut Vec::new(), &mut Vec::new()).unwrap_err()
        };
        assert!(receive(b"HTTP/1.1 500 No\r\n\r\n").contains("500"));
        assert!(receive(b"HTTP/1.1 200 OK\r\n\r\n").contains("length"));
    }
}
