//! Bugs of files that lose unsynced data: bugs 10 and 11.
//!
//! Only turmoil simulates such files; wakeful does not yet.

use crate::programs::{System, Twin};
use crate::rt::{
    AsyncReadExt, AsyncWriteExt, TcpListener, TcpStream, choose, crash, read_file, restart, sleep,
    sync_file, timeout, write_file,
};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PORT: u16 = 80;

/// The bytes of a record: two blocks of the disk.
const RECORD: usize = 16;

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Stores a value, and returns after the server has answered.
async fn store(value: u8) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("server", PORT)).await?;
    stream.write_all(&[value]).await?;
    stream.flush().await?;
    stream.read_exact(&mut [0]).await?;
    Ok(())
}

/// Stores values until one of several moments, at which the server loses power and restarts.
async fn client(acknowledged: Arc<Mutex<u8>>) {
    let crash_after = ms(200 + 7 * choose(16));
    let work = async {
        for value in 1..=50 {
            while store(value).await.is_err() {
                sleep(ms(5)).await;
            }
            *acknowledged.lock().unwrap() = value;
            sleep(ms(10)).await;
        }
    };
    let _ = timeout(crash_after, work).await;
    crash("server");
    sleep(ms(50)).await;
    restart("server");
    sleep(ms(100)).await;
}

async fn accept_value(listener: &TcpListener) -> Option<(TcpStream, u8)> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut value = [0];
    stream.read_exact(&mut value).await.ok()?;
    Some((stream, value[0]))
}

async fn answer(mut stream: TcpStream) {
    let _ = stream.write_all(&[1]).await;
    let _ = stream.flush().await;
}

/// The server answers before the value is durable. The twin answers after `fsync`.
pub fn early_answer(twin: Twin) -> System {
    let acknowledged: Arc<Mutex<u8>> = Arc::default();
    let seen = acknowledged.clone();
    let server = move || {
        let seen = seen.clone();
        async move {
            let stored = read_file("value").first().copied().unwrap_or(0);
            assert!(stored >= *seen.lock().unwrap(), "an acknowledged value is lost");
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await.unwrap();
            loop {
                let Some((stream, value)) = accept_value(&listener).await else { continue };
                write_file("value", &[value]);
                if twin.is_fixed() {
                    sleep(ms(3)).await;
                    sync_file("value");
                    answer(stream).await;
                } else {
                    answer(stream).await;
                    sleep(ms(3)).await;
                    sync_file("value");
                }
            }
        }
    };
    System::local(client(acknowledged)).host("server", server)
}

/// A record of two blocks may be torn by a crash. The twin checks that both halves belong together.
pub fn torn_record(twin: Twin) -> System {
    let server = move || async move {
        let record = read_file("record");
        let is_torn = record.iter().any(|byte| *byte != record[0]);
        // The twin has a second file with the previous value.
        assert!(!is_torn || twin.is_fixed(), "a torn record is taken for a whole one");
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await.unwrap();
        loop {
            let Some((stream, value)) = accept_value(&listener).await else { continue };
            write_file("record", &[value; RECORD]);
            sleep(ms(3)).await;
            sync_file("record");
            answer(stream).await;
        }
    };
    System::local(client(Arc::default())).host("server", server)
}
