//! Sockets: TCP servers and clients.

use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::time::{Duration, timeout};

use crate::guide::{Guide, runtime};

/// Starts an echo server that accepts `connections` connections, and returns its address.
async fn echo_server(connections: usize) -> io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    wakeful::spawn(async move {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().await?;
            wakeful::spawn(async move {
                let (mut read, mut write) = stream.split();
                io::copy(&mut read, &mut write).await
            });
        }
        io::Result::Ok(())
    });
    Ok(addr)
}

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "Connect and echo",
        "A server on this machine sends back what it receives, with one task per connection. 50 clients
         use it at the same time. A task that waits for a socket needs no thread.",
        |page| {
            let rt = runtime(2);
            let echoed = rt.block_on(async {
                let addr = echo_server(50).await?;
                let clients: Vec<_> = (0..50u32)
                    .map(|n| {
                        wakeful::spawn(async move {
                            let mut stream = TcpStream::connect(addr).await?;
                            let mut right = 0;
                            for round in 0..20 {
                                stream.write_u32(n * 100 + round).await?;
                                right += u32::from(stream.read_u32().await? == n * 100 + round);
                            }
                            io::Result::Ok(right)
                        })
                    })
                    .collect();
                let mut echoed = 0;
                for client in clients {
                    echoed += client.await??;
                }
                io::Result::Ok(echoed)
            });
            page.show(format!("{echoed:?} of 1000 messages came back as they were sent"));
            page.expect(matches!(echoed, Ok(1000)), "every message comes back");
        },
    );

    guide.chapter(
        "A read with a time-out",
        "The peer is silent. `timeout` drops the read when the time is up. No data is lost: the next
         read gets what arrives later.",
        |page| {
            let rt = runtime(1);
            let (first, second) = rt
                .block_on(async {
                    let addr = echo_server(1).await?;
                    let mut stream = TcpStream::connect(addr).await?;
                    let mut buf = [0; 5];
                    let limit = Duration::from_millis(10);
                    let first = timeout(limit, stream.read_exact(&mut buf)).await.is_err();
                    stream.write_all(b"hello").await?;
                    let second = stream.read_exact(&mut buf).await.map(|_| buf)?;
                    io::Result::Ok((first, second))
                })
                .expect("this machine talks to itself");
            page.show(format!("the first read timed out: {first}"));
            page.show(format!("the second got {:?}", String::from_utf8_lossy(&second)));
            page.expect(first && &second == b"hello", "a time-out loses nothing");
        },
    );
}
