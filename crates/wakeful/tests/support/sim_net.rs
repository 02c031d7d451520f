//! Support for tests of the simulated network.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;
use wakeful::net::TcpListener;
use wakeful::sim::{Sim, Simulation};

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs the program in order of age and with several seeds. No run may fail.
pub fn runs<F, Fut>(program: F)
where
    F: Fn(Sim) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    Simulation::new(0).fifo().run(program.clone()).unwrap();
    for seed in 0..20 {
        Simulation::new(seed).run(program.clone()).unwrap();
    }
}

/// Echoes the bytes of every connection.
pub async fn echo() {
    let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        wakeful::spawn(async move {
            let (mut read, mut write) = stream.split();
            let _ = wakeful::io::copy(&mut read, &mut write).await;
        });
    }
}
