//! Serves notes on 127.0.0.1:3000, or on the address that is given, until Ctrl-C or SIGTERM.

use axum_service::{Config, Service, run};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("http://{}/notes; Ctrl-C ends it", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = async move {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.expect("signals can be handled"),
            _ = terminate.recv() => {}
        }
    };
    run(Service::new(Config::default()), listener, shutdown).await?;
    println!("all requests were answered");
    Ok(())
}
