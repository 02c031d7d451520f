//! tokio-util: frames over sockets and pipes in memory.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use interop::on_every_runtime;
use std::io;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::codec::{Decoder, Encoder, Framed, LengthDelimitedCodec, LinesCodec};

#[test]
fn lines_over_tcp() {
    on_every_runtime(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut lines = Framed::new(stream, LinesCodec::new());
            while let Some(line) = lines.next().await {
                lines.send(line.unwrap().to_uppercase()).await.unwrap();
            }
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let mut lines = Framed::new(stream, LinesCodec::new());
        for number in 0..500 {
            lines.send(format!("line {number}")).await.unwrap();
            assert_eq!(lines.next().await.unwrap().unwrap(), format!("LINE {number}"));
        }
        drop(lines);
        server.await.unwrap();
    });
}

#[test]
fn frames_with_a_length_over_a_unix_socket() {
    on_every_runtime(|| async {
        let (near, far) = UnixStream::pair().unwrap();
        let echo = tokio::spawn(async move {
            let (sink, stream) = Framed::new(far, LengthDelimitedCodec::new()).split();
            stream.map(|frame| frame.map(BytesMut::freeze)).forward(sink).await.unwrap();
        });
        let (mut sink, mut stream) = Framed::new(near, LengthDelimitedCodec::new()).split();
        let frame = |size: usize| Bytes::from(vec![size as u8; size]);
        let sizes = [0, 1, 100, 10_000, 1_000_000];
        let writer = tokio::spawn(async move {
            for size in sizes {
                sink.send(frame(size)).await.unwrap();
            }
            sink
        });
        for size in sizes {
            assert!(stream.next().await.unwrap().unwrap() == frame(size), "{size}");
        }
        drop((stream, writer.await.unwrap()));
        echo.await.unwrap();
    });
}

/// A number of four bytes.
struct Numbers;

impl Encoder<u32> for Numbers {
    type Error = io::Error;

    fn encode(&mut self, number: u32, out: &mut BytesMut) -> io::Result<()> {
        out.put_u32(number);
        Ok(())
    }
}

impl Decoder for Numbers {
    type Item = u32;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<u32>> {
        Ok((bytes.len() >= 4).then(|| bytes.get_u32()))
    }
}

#[test]
fn a_codec_of_ones_own_over_a_pipe_with_little_room() {
    on_every_runtime(|| async {
        // The pipe holds three bytes, less than a frame.
        let (near, far) = tokio::io::duplex(3);
        let writer = tokio::spawn(async move {
            let mut numbers = Framed::new(near, Numbers);
            for number in 0..1000 {
                numbers.feed(number).await.unwrap();
            }
            numbers.close().await.unwrap();
        });
        let got: Vec<u32> = Framed::new(far, Numbers).map(|number| number.unwrap()).collect().await;
        assert_eq!(got, (0..1000).collect::<Vec<_>>());
        writer.await.unwrap();
    });
}
