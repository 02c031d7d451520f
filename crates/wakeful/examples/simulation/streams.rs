//! Bugs of programs that confuse byte streams with messages.

use super::Twin;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wakeful::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sim::Sim;
use wakeful::task::spawn_local;
use wakeful::time::{interval, sleep, timeout};

/// The time after which the servers listen.
const START: Duration = Duration::from_millis(1);

/// A sensor sends a number and a value, 20 times.
async fn sensor() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    let (mut stream, _) = listener.accept().await?;
    for number in 0..20_u32 {
        stream.write_u32(number).await?;
        stream.write_u32(number * number).await?;
        sleep(Duration::from_millis(7)).await;
    }
    Ok(())
}

/// A collector reads the values of a sensor, and does other work every 25 ms. If that happens between
/// the parts of a value, `read_exact` is dropped together with the bytes that it has read.
///
/// The fixed twin calls `read`, and keeps the number of bytes outside of `select!`.
/// The twin calls `read`, and keeps the number of bytes outside of `select!`.
pub async fn read_exact_in_select(sim: Sim, twin: Twin) {
    sim.host("sensor", sensor);
    sleep(START).await;
    let mut stream = TcpStream::connect("sensor:80").await.unwrap();
    let mut ticks = interval(Duration::from_millis(25));
    let (mut record, mut filled, mut numbers) = ([0; 8], 0, 0);
    while numbers < 20 {
        let read = async {
            match twin {
                Twin::Buggy => stream.read_exact(&mut record).await,
                Twin::Fixed => stream.read(&mut record[filled..]).await,
            }
        };
        wakeful::select! {
            len = read => filled += len.expect("the sensor sends everything"),
            _ = ticks.tick() => {}
        }
        if filled == record.len() {
            let (number, value) = record.split_at(4);
            let value = u32::from_be_bytes(value.try_into().unwrap());
            assert!(number == u32::to_be_bytes(numbers), "a record of the wrong number");
            assert!(value == numbers * numbers, "a wrong value");
            (filled, numbers) = (0, numbers + 1);
        }
    }
}

/// A client sends two commands, each in one `write_all`.
///
/// The server takes the result of one `read` for one command. The fixed twin reads to the end of the
/// line.
pub async fn one_read_one_message(sim: Sim, twin: Twin) {
    let server = sim.client("server", async move {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        let (mut stream, _) = listener.accept().await?;
        let mut commands = Vec::new();
        if twin.is_fixed() {
            let mut lines = BufReader::new(stream).lines();
            while let Some(line) = lines.next_line().await? {
                commands.push(line);
            }
            return io::Result::Ok(commands);
        }
        let mut buf = [0; 64];
        loop {
            match stream.read(&mut buf).await? {
                0 => return Ok(commands),
                len => commands.push(String::from_utf8_lossy(&buf[..len]).trim_end().to_owned()),
            }
        }
    });
    sleep(START).await;
    let mut stream = TcpStream::connect("server:80").await.unwrap();
    stream.write_all(b"create bob\n").await.unwrap();
    sleep(Duration::from_millis(1)).await;
    stream.write_all(b"pay bob 10\n").await.unwrap();
    drop(stream);
    let commands = server.await.unwrap();
    assert!(commands == ["create bob", "pay bob 10"], "other commands than those that were sent");
}

/// The state of a bank, which survives its connections.
#[derive(Default)]
struct Bank {
    balance: u32,
    /// The numbers of all payments that were made.
    made: BTreeSet<u32>,
}

impl Bank {
    fn pay(&mut self, number: u32, twin: Twin) {
        let is_new = self.made.insert(number);
        if is_new || !twin.is_fixed() {
            self.balance += 10;
        }
    }
}

/// Answers one payment per connection.
async fn bank(bank: Arc<Mutex<Bank>>, twin: Twin) -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let bank = bank.clone();
        spawn_local(async move {
            let number = stream.read_u32().await?;
            bank.lock().unwrap().pay(number, twin);
            // The client may have given up.
            stream.write_u32(number).await
        });
    }
}

async fn pay(number: u32) -> io::Result<u32> {
    let mut stream = TcpStream::connect("bank:80").await?;
    stream.write_u32(number).await?;
    stream.read_u32().await
}

/// A client repeats a payment if no answer comes within 100 ms. A lost packet is 200 ms late.
///
/// The fixed twin ignores a payment whose number it has seen before.
pub async fn applied_twice(sim: Sim, twin: Twin) {
    sim.network().loss(0.05);
    let state = Arc::new(Mutex::new(Bank::default()));
    let (seen, of_host) = (state.clone(), state.clone());
    sim.always("no payment is made twice", move || {
        let bank = seen.lock().unwrap();
        bank.balance == 10 * bank.made.len() as u32
    });
    sim.host("bank", move || bank(of_host.clone(), twin));
    sleep(START).await;
    for number in 0..5 {
        while !matches!(timeout(Duration::from_millis(100), pay(number)).await, Ok(Ok(_))) {}
    }
    assert_eq!(state.lock().unwrap().made.len(), 5);
}
