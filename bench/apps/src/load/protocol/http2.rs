//! HTTP/2 without TLS, by prior knowledge, as much of it as one kind of request needs.
//!
//! Requests have bodies of a few bytes, and few of them are in flight, so the generator does not keep count of the
//! server's windows. It opens its own windows as far as they go. Header blocks are not decoded: the server's
//! encoder writes the status 200 as one byte, and an answer must have a body.

use super::{Protocol, excerpt};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
/// The highest window, and what a connection lacks of it at first.
const WINDOW: u32 = (1 << 31) - 1;
const MISSING: u32 = WINDOW - 65_535;
/// The window is opened again after this many bytes.
const REFILL: u32 = 1 << 30;
/// `:status: 200` in HPACK's static table.
const STATUS_200: u8 = 0x88;

/// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// Flags.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// One kind of request over streams of a connection.
pub struct Http2 {
    header_block: Vec<u8>,
    body: Vec<u8>,
    next_stream: u32,
    /// Streams whose answers have a body by now.
    with_body: Vec<u32>,
    /// Streams whose answers began with status 200.
    with_status: Vec<u32>,
    received: u32,
}

impl Http2 {
    /// `GET` of a path.
    pub fn get(path: &str) -> Self {
        // `:method: GET` is a byte of HPACK's static table.
        Self::new(0x82, path, &[], Vec::new())
    }

    /// A unary gRPC call whose message is already encoded.
    pub fn grpc(path: &str, message: &[u8]) -> Self {
        let mut body = vec![0];
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(message);
        let fields = [("content-type", "application/grpc"), ("te", "trailers")];
        Self::new(0x83, path, &fields, body)
    }

    fn new(method: u8, path: &str, fields: &[(&str, &str)], body: Vec<u8>) -> Self {
        // `:scheme: http`, then literals that the table does not keep: `:path` and `:authority` by their index.
        let mut block = vec![method, 0x86, 0x04];
        push_string(&mut block, path);
        block.push(0x01);
        push_string(&mut block, "localhost");
        for (name, value) in fields {
            block.push(0x00);
            push_string(&mut block, name);
            push_string(&mut block, value);
        }
        Self {
            header_block: block,
            body,
            next_stream: 1,
            with_body: Vec::new(),
            with_status: Vec::new(),
            received: 0,
        }
    }

    fn on_data(&mut self, stream: u32, length: u32, out: &mut Vec<u8>) {
        self.received += length;
        if self.received >= REFILL {
            push_frame(out, WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
        if length > 0 && !self.with_body.contains(&stream) {
            self.with_body.push(stream);
        }
    }

    fn on_headers(&mut self, stream: u32, flags: u8, payload: &[u8]) -> Result<(), String> {
        if flags & END_HEADERS == 0 {
            return Err("a header block takes more than one frame".into());
        }
        // The second block of a stream has the trailers.
        if self.with_status.contains(&stream) {
            return Ok(());
        }
        if payload.first() != Some(&STATUS_200) {
            return Err(format!("an answer is not 200: {}", excerpt(payload)));
        }
        self.with_status.push(stream);
        Ok(())
    }

    fn on_end(&mut self, stream: u32, done: &mut Vec<u32>) -> Result<(), String> {
        let is_complete =
            forget(&mut self.with_status, stream) && forget(&mut self.with_body, stream);
        if !is_complete {
            return Err("an answer has no body, which gRPC's errors have not either".into());
        }
        done.push(stream);
        Ok(())
    }
}

impl Protocol for Http2 {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        // No pushes, and the initial window.
        let mut settings = vec![0, 2, 0, 0, 0, 0, 0, 4];
        settings.extend(WINDOW.to_be_bytes());
        push_frame(out, SETTINGS, 0, 0, &settings);
        push_frame(out, WINDOW_UPDATE, 0, 0, &MISSING.to_be_bytes());
    }

    fn request(&mut self, out: &mut Vec<u8>) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let end = if self.body.is_empty() { END_STREAM } else { 0 };
        push_frame(out, HEADERS, END_HEADERS | end, stream, &self.header_block);
        if !self.body.is_empty() {
            push_frame(out, DATA, END_STREAM, stream, &self.body);
        }
        stream
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        done: &mut Vec<u32>,
    ) -> Result<usize, String> {
        let mut used = 0;
        while let Some(&[a, b, c, kind, flags, s0, s1, s2, s3]) = input[used..].first_chunk() {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(payload) = input[used + FRAME_HEAD..].get(..length) else { break };
            let stream = u32::from_be_bytes([s0, s1, s2, s3]) & WINDOW;
            used += FRAME_HEAD + length;
            match kind {
                DATA => self.on_data(stream, length as u32, out),
                HEADERS => self.on_headers(stream, flags, payload)?,
                SETTINGS if flags & ACK == 0 => push_frame(out, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => push_frame(out, PING, ACK, 0, payload),
                RESET | GO_AWAY => return Err(format!("the server ends a stream: {payload:?}")),
                _ => {}
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                self.on_end(stream, done)?;
            }
        }
        Ok(used)
    }
}

/// A string without Huffman coding.
fn push_string(block: &mut Vec<u8>, text: &str) {
    assert!(text.len() < 127, "the length fits into one byte");
    block.push(text.len() as u8);
    block.extend_from_slice(text.as_bytes());
}

fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Removes a stream, and returns whether it was there.
fn forget(streams: &mut Vec<u32>, stream: u32) -> bool {
    let found = streams.iter().position(|&known| known == stream);
    found.map(|place| streams.swap_remove(place)).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::expect_one_answer;
    use super::*;

    fn answer(stream: u32, with_trailers: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, HEADERS, END_HEADERS, stream, &[STATUS_200, 0x5c]);
        let end = if with_trailers { 0 } else { END_STREAM };
        push_frame(&mut bytes, DATA, end, stream, b"hello");
        if with_trailers {
            push_frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, stream, &[0x40]);
        }
        bytes
    }

    #[test]
    fn an_answer_may_come_in_parts() {
        expect_one_answer(|| Box::new(Http2::get("/")), &answer(1, false));
        expect_one_answer(|| Box::new(Http2::grpc("/a/b", &[8, 21])), &answer(1, true));
    }

    #[test]
    fn streams_may_end_in_another_order() {
        let mut http = Http2::get("/");
        let (mut out, mut done) = (Vec::new(), Vec::new());
        assert_eq!((http.request(&mut out), http.request(&mut out)), (1, 3));
        let bytes = [answer(3, false), answer(1, false)].concat();
        assert_eq!(http.receive(&bytes, &mut out, &mut done), Ok(bytes.len()));
        assert_eq!(done, [3, 1]);
    }

    #[test]
    fn settings_and_pings_are_answered() {
        let mut input = Vec::new();
        push_frame(&mut input, SETTINGS, 0, 0, &[]);
        push_frame(&mut input, PING, 0, 0, b"12345678");
        let mut out = Vec::new();
        let used = Http2::get("/").receive(&input, &mut out, &mut Vec::new());
        let mut expected = Vec::new();
        push_frame(&mut expected, SETTINGS, ACK, 0, &[]);
        push_frame(&mut expected, PING, ACK, 0, b"12345678");
        assert_eq!((used, out), (Ok(input.len()), expected));
    }

    #[test]
    fn errors_are_returned() {
        let receive = |kind, flags, payload: &[u8]| {
            let mut input = Vec::new();
            push_frame(&mut input, kind, flags, 1, payload);
            Http2::get("/").receive(&input, &mut Vec::new(), &mut Vec::new())
        };
        assert!(receive(RESET, 0, &[0, 0, 0, 1]).is_err());
        assert!(receive(HEADERS, END_HEADERS, &[0x8d]).unwrap_err().contains("200"));
        let trailers_only = receive(HEADERS, END_HEADERS | END_STREAM, &[STATUS_200]);
        assert!(trailers_only.unwrap_err().contains("body"));
    }
}
