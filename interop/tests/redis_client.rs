//! The crate `redis` against a real `redis-server`, which is started for it.

use futures_util::StreamExt;
use interop::{Folder, on_every_runtime};
use redis::AsyncCommands;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// A running server. Dropping it ends the process.
struct Server {
    url: String,
    _process: Child,
    _folder: Folder,
}

impl Server {
    async fn start() -> Self {
        let folder = Folder::new();
        let socket = folder.path().join("redis.sock");
        let mut process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("redis-server is installed: apt-get install redis-server");
        let mut lines = BufReader::new(process.stdout.take().expect("piped above")).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            // The server prints this when its socket listens.
            if line.contains("now ready to accept connections") {
                break;
            }
        }
        // Reads the rest of the output, so that the server does not block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            url: format!("redis+unix://{}", socket.display()),
            _process: process,
            _folder: folder,
        }
    }

    fn client(&self) -> redis::Client {
        redis::Client::open(self.url.as_str()).unwrap()
    }
}

#[test]
fn commands_from_many_tasks_over_one_connection() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
        let () = connection.set("greeting", "hello").await.unwrap();
        let greeting: String = connection.get("greeting").await.unwrap();
        assert_eq!(greeting, "hello");
        let nothing: Option<String> = connection.get("nothing").await.unwrap();
        assert_eq!(nothing, None);

        let mut tasks = JoinSet::new();
        for _ in 0..100 {
            let mut connection = connection.clone();
            tasks.spawn(async move {
                let _: i64 = connection.incr("count", 1).await.unwrap();
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let count: i64 = connection.get("count").await.unwrap();
        assert_eq!(count, 100);

        let large = vec![7u8; 3_000_000];
        let mut pipe = redis::pipe();
        pipe.atomic().set("large", &large).ignore().strlen("large").get("large");
        let (length, same): (usize, Vec<u8>) = pipe.query_async(&mut connection).await.unwrap();
        assert_eq!(length, large.len());
        assert!(same == large);
        let wrong: redis::RedisResult<i64> = connection.get("greeting").await;
        assert!(wrong.is_err());
    });
}

#[test]
fn published_messages_reach_subscribers() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let client = server.client();
        let mut listener = client.get_async_pubsub().await.unwrap();
        listener.subscribe("news").await.unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for number in 0..100 {
            let heard: usize = connection.publish("news", number).await.unwrap();
            assert_eq!(heard, 1);
        }
        let messages = listener.into_on_message();
        let numbers = messages.take(100).map(|message| message.get_payload::<i64>().unwrap());
        let got: Vec<i64> = numbers.collect().await;
        assert_eq!(got, (0..100).collect::<Vec<_>>());
    });
}
