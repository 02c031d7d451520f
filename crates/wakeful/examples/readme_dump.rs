//! The program whose dump README and docs/WHY.md show. `WAKEFUL_DUMP_AFTER=500ms` prints it; Ctrl-C ends it.

use std::{sync::Arc, thread, time::Duration};
use wakeful::io::AsyncReadExt;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::{sync::Mutex, task::Builder, time::sleep};

#[wakeful::main(worker_threads = 2)]
pub(crate) async fn main() -> std::io::Result<()> {
    let log = Arc::new(Mutex::new(String::new()));

    let (held, wanted) = (log.clone(), log);
    let report = Builder::new().name("report").spawn(async move {
        let _log = held.lock().await;
        sleep(Duration::from_millis(20)).await;
        thread::sleep(Duration::from_secs(3600)); // the bug: it blocks a worker
    })?;
    sleep(Duration::from_millis(10)).await;
    let writer = Builder::new().name("writer").spawn(async move {
        wanted.lock().await.push_str("done");
    })?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let _client = TcpStream::connect(listener.local_addr()?).await?;
    let (mut server, _) = listener.accept().await?;
    Builder::new().name("reader").spawn(async move { server.read_u8().await })?;

    report.await?;
    writer.await?;
    Ok(())
}
