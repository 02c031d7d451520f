//! deadpool and tokio-postgres against a real PostgreSQL server, which is started for them.

use deadpool_postgres::{Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Timeouts};
use interop::{Folder, on_every_runtime};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// The folder of `initdb` and `postgres`. Debian's is not in the path.
fn programs() -> PathBuf {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&in_path)
        .chain(versions.map(|version| version.path().join("bin")))
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .expect("a PostgreSQL server is installed: apt-get install postgresql")
}

/// Returns the id that the program `id` prints: of the user `postgres`, or of the current user.
async fn id(arguments: &[&str]) -> u32 {
    let output = Command::new("id").args(arguments).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().expect("PostgreSQL's package makes the user postgres")
}

/// A running server. Dropping it ends the process.
struct Server {
    process: Child,
    folder: Folder,
}

impl Server {
    async fn start() -> Self {
        let folder = Folder::new();
        // PostgreSQL does not run as root. Another user must be able to write here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let root = id(&["-u"]).await == 0;
        let user = if root {
            Some((id(&["-u", "postgres"]).await, id(&["-g", "postgres"]).await))
        } else {
            None
        };
        let data = folder.path().join("data");
        let command = |program: &str| {
            let mut command = Command::new(programs().join(program));
            command.arg("-D").arg(&data).current_dir(folder.path()).stdin(Stdio::null());
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let made = command("initdb")
            .args(["--username=interop", "--auth=trust", "--no-sync", "--locale=C"])
            .output()
            .await
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut process = command("postgres")
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(folder.path())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().expect("piped above")).lines();
        loop {
            let line = lines.next_line().await.unwrap().expect("the server does not end");
            if line.contains("ready to accept connections") {
                break;
            }
        }
        // Reads the rest of the log, so that the server does not block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { process, folder }
    }

    fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.folder.path()).user("interop").dbname("postgres");
        config
    }

    fn pool(&self, size: usize) -> Pool {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        let manager = Manager::from_config(self.config(), NoTls, config);
        let pool = Pool::builder(manager).max_size(size);
        pool.runtime(deadpool_postgres::Runtime::Tokio1).build().unwrap()
    }

    /// Shuts the server down with SIGTERM, which waits for all clients.
    async fn stop(mut self) {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").arg(id).status().await.unwrap().success());
        assert!(self.process.wait().await.unwrap().success());
    }
}

#[test]
fn many_tasks_share_few_connections() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let pool = server.pool(4);
        let client = pool.get().await.unwrap();
        client
            .batch_execute("CREATE TABLE counts (name text PRIMARY KEY, value bigint NOT NULL)")
            .await
            .unwrap();
        client.execute("INSERT INTO counts VALUES ('all', 0)", &[]).await.unwrap();
        drop(client);

        // Transactions that wait for each other's row.
        let mut tasks = JoinSet::new();
        for number in 0..40i64 {
            let pool = pool.clone();
            tasks.spawn(async move {
                let mut client = pool.get().await.unwrap();
                let transaction = client.transaction().await.unwrap();
                let select = "SELECT value FROM counts WHERE name = $1 FOR UPDATE";
                let select = transaction.prepare_cached(select).await.unwrap();
                let value: i64 = transaction.query_one(&select, &[&"all"]).await.unwrap().get(0);
                let update = "UPDATE counts SET value = $1";
                let update = transaction.prepare_cached(update).await.unwrap();
                transaction.execute(&update, &[&(value + number)]).await.unwrap();
                // Half of the transactions are dropped without a commit.
                if number % 2 == 0 {
                    transaction.commit().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        assert!(pool.status().size <= 4, "{:?}", pool.status());
        let client = pool.get().await.unwrap();
        let row = client.query_one("SELECT value FROM counts", &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), (0..40).step_by(2).sum::<i64>());

        // Many rows, and an error that leaves the connection usable.
        let rows = client.query("SELECT * FROM generate_series(1, 10000)", &[]).await.unwrap();
        let numbers: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(numbers, (1..=10_000).collect::<Vec<_>>());
        let error = client.query("SELECT 1 / 0", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);

        drop(client);
        pool.close();
        drop(pool);
        server.stop().await;
    });
}

#[test]
fn a_pool_that_is_empty_and_a_query_that_is_cancelled() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let pool = server.pool(1);
        let client = pool.get().await.unwrap();
        let wait = Timeouts { wait: Some(Duration::from_millis(1)), ..Timeouts::default() };
        let refused = pool.timeout_get(&wait).await.err().unwrap();
        assert!(matches!(refused, PoolError::Timeout(_)), "{refused}");

        let cancel = client.cancel_token();
        let mut query =
            tokio::spawn(
                async move { client.batch_execute("SELECT pg_sleep(600)").await.unwrap_err() },
            );
        // The server ignores a cancel request that arrives before the query, so the request is repeated.
        let error = loop {
            cancel.cancel_query(NoTls).await.unwrap();
            let pause = Duration::from_millis(20);
            if let Ok(ended) = tokio::time::timeout(pause, &mut query).await {
                break ended.unwrap();
            }
        };
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));

        // The end of the task has returned the connection to the pool.
        assert_eq!(
            pool.get().await.unwrap().query_one("SELECT 2", &[]).await.unwrap().get::<_, i32>(0),
            2
        );
        pool.close();
        drop(pool);
        server.stop().await;
    });
}
