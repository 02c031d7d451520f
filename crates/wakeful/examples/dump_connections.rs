//! A server with 300 connections, whose dump docs/WHY.md shows. `WAKEFUL_DUMP_AFTER=500ms` prints it, Ctrl-C ends it.

use std::time::Duration;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sync::{mpsc, watch};
use wakeful::time::sleep;

#[wakeful::main(worker_threads = 2)]
pub(crate) async fn main() -> std::io::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let (log, mut lines) = mpsc::channel::<String>(8);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    wakeful::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            wakeful::spawn(serve(socket, stopped.clone(), log.clone()));
        }
    });
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(TcpStream::connect(address).await?);
    }
    clients[7].write_all(b"hello").await?;
    sleep(Duration::from_secs(3600)).await; // the bug: it does not receive
    stop.send_replace(true);
    while lines.recv().await.is_some() {}
    Ok(())
}

async fn serve(
    mut socket: TcpStream,
    mut stopped: watch::Receiver<bool>,
    log: mpsc::Sender<String>,
) {
    let mut buf = [0; 64];
    loop {
        wakeful::select! {
            read = socket.read(&mut buf) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => for line in 0..10 {
                    let _ = log.send(format!("line {line}")).await;
                },
            },
            _ = stopped.changed() => return,
            () = sleep(Duration::from_secs(60)) => return,
        }
    }
}
