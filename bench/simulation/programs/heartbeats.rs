//! Hosts that send each other a datagram every second.

use crate::programs::{Host, System};
use crate::rt::{UdpSocket, lookup, send, sleep, spawn};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 9_000;

async fn node(own: usize, names: Arc<Vec<&'static str>>) {
    let socket = Arc::new(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).await.unwrap());
    let receiver = socket.clone();
    spawn(async move {
        let mut heard = 0_u64;
        loop {
            let (len, _) = receiver.recv_from(&mut [0; 16]).await.unwrap();
            heard += len as u64;
            std::hint::black_box(heard);
        }
    });
    // Each host is listening now.
    sleep(Duration::from_secs(1)).await;
    let mut others = Vec::new();
    for (number, name) in names.iter().enumerate() {
        if number != own {
            others.push(lookup(name, PORT).await);
        }
    }
    loop {
        for other in &others {
            send(&socket, own as u8, *other).await;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Returns `hosts` hosts that send heartbeats to all others, for this time.
pub fn heartbeats(hosts: usize, simulated: Duration) -> System {
    // Names live until the program ends.
    let names: Arc<Vec<&'static str>> =
        Arc::new((0..hosts).map(|number| &*format!("host{number}").leak()).collect());
    let mut system = System::local(async move { sleep(simulated).await });
    for (own, name) in names.iter().enumerate() {
        let names = names.clone();
        let program =
            Box::new(move || -> crate::programs::Job { Box::pin(node(own, names.clone())) });
        system.hosts.push(Host { name, program });
    }
    system
}
