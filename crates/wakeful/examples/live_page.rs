//! A demo service for the live page:
//!
//! ```sh
//! cargo run --release --example live_page                # prints the URL
//! cargo run --release --example live_page -- deadlock    # two tasks wait for each other
//! ```
//!
//! Each argument plants something to see, and several can be given: `deadlock`, `orphan`, `script`
//! (a task whose name is HTML), `crowd` (100,000 idle tasks) and `blocked` (every worker is blocked
//! for a minute). `runtimes` adds two more runtimes, and with `abort` the page may abort tasks.

use std::sync::Arc;
use std::time::Duration;
use wakeful::inspect::page;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::Builder;
use wakeful::sync::{Mutex, mpsc};
use wakeful::task;
use wakeful::time::{interval, sleep};

fn main() -> std::io::Result<()> {
    let planted: Vec<String> = std::env::args().skip(1).collect();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().block_on_name("main");
    let _page = if planted.iter().any(|it| it == "abort") {
        let page = page::Options::new("127.0.0.1:0").allow_abort(true).serve()?;
        eprintln!("wakeful: live page at {}", page.url());
        Some(page)
    } else {
        builder.page("127.0.0.1:0");
        None
    };
    builder.build()?.block_on(run(planted))
}

async fn run(planted: Vec<String>) -> std::io::Result<()> {
    serve().await?;
    for what in planted {
        match what.as_str() {
            "deadlock" => deadlock()?,
            "orphan" => drop(named("forgetful").spawn(std::future::pending::<()>())?),
            "script" => {
                let nap = sleep(Duration::from_secs(3600));
                drop(named("<script>alert(1)</script>").spawn(nap)?);
            }
            "crowd" => crowd(),
            "blocked" => block_workers(),
            "runtimes" => ["database", "mailer"].iter().try_for_each(|name| add_runtime(name))?,
            "abort" => drop(named("victim").spawn(sleep(Duration::from_secs(3600)))?),
            other => {
                let text = format!("{other:?} cannot be planted: see the top of live_page.rs");
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
            }
        }
    }
    sleep(Duration::from_secs(3600)).await;
    Ok(())
}

fn named(name: &str) -> task::Builder<'_> {
    task::Builder::new().name(name)
}

/// An echo server with clients that send periodically, and a job queue.
async fn serve() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    drop(named("accept").spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            wakeful::spawn(echo(connection));
        }
    })?);
    for number in 0..8_u64 {
        wakeful::spawn(async move {
            let mut connection = TcpStream::connect(address).await?;
            let mut pause = interval(Duration::from_millis(50 + 10 * number));
            loop {
                pause.tick().await;
                use wakeful::io::{AsyncReadExt, AsyncWriteExt};
                connection.write_all(b"are you there?").await?;
                let mut answer = [0; 14];
                connection.read_exact(&mut answer).await?;
            }
            #[allow(unreachable_code, reason = "gives the block its type")]
            Ok::<(), std::io::Error>(())
        });
    }
    let (jobs, mut queue) = mpsc::channel::<u64>(16);
    drop(named("jobs").spawn(async move {
        while let Some(job) = queue.recv().await {
            std::hint::black_box((0..job).sum::<u64>());
        }
    })?);
    drop(named("producer").spawn(async move {
        let mut pause = interval(Duration::from_millis(5));
        while jobs.send(10_000).await.is_ok() {
            pause.tick().await;
        }
    })?);
    Ok(())
}

async fn echo(mut connection: TcpStream) -> std::io::Result<()> {
    let (mut read, mut write) = connection.split();
    wakeful::io::copy(&mut read, &mut write).await?;
    Ok(())
}

/// Two tasks that lock two mutexes in opposite orders.
fn deadlock() -> std::io::Result<()> {
    let (accounts, audit) = (Arc::new(Mutex::new(100)), Arc::new(Mutex::new(Vec::<u64>::new())));
    let (accounts_2, audit_2) = (accounts.clone(), audit.clone());
    drop(named("transfer").spawn(async move {
        let mut accounts = accounts.lock().await;
        sleep(Duration::from_millis(20)).await;
        audit.lock().await.push(*accounts);
        *accounts -= 1;
    })?);
    drop(named("report").spawn(async move {
        let audit = audit_2.lock().await;
        sleep(Duration::from_millis(20)).await;
        println!("{} entries, {} left", audit.len(), accounts_2.lock().await);
    })?);
    Ok(())
}

fn crowd() {
    for number in 0..100_000_u64 {
        wakeful::spawn(async move { sleep(Duration::from_secs(3600 + number % 60)).await });
    }
}

fn block_workers() {
    for _ in 0..2 {
        wakeful::spawn(async { std::thread::sleep(Duration::from_secs(60)) });
    }
}

/// Starts another runtime, with a task that works periodically.
fn add_runtime(name: &'static str) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().name(name).build()?;
    let work = async {
        let mut pause = interval(Duration::from_millis(20));
        loop {
            pause.tick().await;
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
    };
    drop(task::Builder::new().name(&format!("{name} writer")).spawn_on(work, runtime.handle())?);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || runtime.block_on(async { sleep(Duration::from_secs(3600)).await }))?;
    Ok(())
}
