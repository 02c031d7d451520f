//! quinn: QUIC connections with streams both ways, streams one way, and datagrams.

use bytes::Bytes;
use interop::on_every_runtime;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivateKeyDer;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, VarInt};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LARGE: usize = 500_000;

/// A server and a client that trusts it.
fn endpoints() -> (Endpoint, Endpoint) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let server = Endpoint::server(config, LOCAL).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut client = Endpoint::client(LOCAL).unwrap();
    client
        .set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots)).unwrap());
    (server, client)
}

/// Answers everything on one connection, until the client closes it.
async fn serve(connection: Connection) {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            Ok((mut sender, mut receiver)) = connection.accept_bi() => {
                answers.spawn(async move {
                    let request = receiver.read_to_end(LARGE).await.unwrap();
                    sender.write_all(&request).await.unwrap();
                    sender.finish().unwrap();
                });
            }
            Ok(mut receiver) = connection.accept_uni() => {
                let connection = connection.clone();
                answers.spawn(async move {
                    let length = receiver.read_to_end(LARGE).await.unwrap().len() as u64;
                    let mut sender = connection.open_uni().await.unwrap();
                    sender.write_all(&length.to_be_bytes()).await.unwrap();
                    sender.finish().unwrap();
                });
            }
            Ok(datagram) = connection.read_datagram() => connection.send_datagram(datagram).unwrap(),
            else => break,
        }
    }
    answers.join_all().await;
}

/// Sends a datagram until its answer arrives, since either may be lost.
async fn exchange_datagram(connection: &Connection, datagram: Bytes) {
    loop {
        connection.send_datagram(datagram.clone()).unwrap();
        let answer = tokio::time::timeout(Duration::from_millis(100), async {
            while connection.read_datagram().await.unwrap() != datagram {}
        });
        if answer.await.is_ok() {
            return;
        }
    }
}

async fn use_connection(connection: Connection) {
    let mut requests = JoinSet::new();
    for number in 0..20u8 {
        let connection = connection.clone();
        requests.spawn(async move {
            let request = vec![number; LARGE / 20 * usize::from(number)];
            let (mut sender, mut receiver) = connection.open_bi().await.unwrap();
            // The answer may be longer than what fits into the buffers on the way.
            let write = async {
                sender.write_all(&request).await.unwrap();
                sender.finish().unwrap();
            };
            let (answer, ()) = tokio::join!(receiver.read_to_end(LARGE), write);
            assert!(answer.unwrap() == request);
        });
    }
    requests.join_all().await;

    let mut sender = connection.open_uni().await.unwrap();
    sender.write_all(&[7; 12_345]).await.unwrap();
    sender.finish().unwrap();
    let mut receiver = connection.accept_uni().await.unwrap();
    let length = receiver.read_to_end(8).await.unwrap();
    assert_eq!(length, 12_345u64.to_be_bytes());

    for number in 0..20u8 {
        exchange_datagram(&connection, Bytes::from(vec![number; 1000])).await;
    }
}

#[test]
fn streams_and_datagrams_on_several_connections() {
    on_every_runtime(|| async {
        let (server, client) = endpoints();
        let address = server.local_addr().unwrap();
        let accepting = server.clone();
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Some(incoming) = accepting.accept().await {
                connections.spawn(async move { serve(incoming.await.unwrap()).await });
            }
            connections.join_all().await.len()
        });

        let mut clients = JoinSet::new();
        for _ in 0..3 {
            let connecting = client.connect(address, "localhost").unwrap();
            clients.spawn(async move {
                let connection = connecting.await.unwrap();
                use_connection(connection.clone()).await;
                connection.close(VarInt::from_u32(0), b"done");
            });
        }
        clients.join_all().await;
        client.wait_idle().await;
        server.close(VarInt::from_u32(0), b"done");
        assert_eq!(serving.await.unwrap(), 3);
        server.wait_idle().await;
    });
}
