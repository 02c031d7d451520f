//! sqlx with SQLite: a pool of connections, each on a thread of sqlx's own.

use futures_util::TryStreamExt;
use interop::{Folder, on_every_runtime};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Row, SqlitePool};
use tokio::task::JoinSet;

async fn pool(folder: &Folder) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("data.sqlite"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    sqlx::query("CREATE TABLE numbers (number INTEGER PRIMARY KEY, square INTEGER NOT NULL)")
        .execute(&pool)
        .await
        .unwrap();
    pool
}

async fn count(pool: &SqlitePool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM numbers").fetch_one(pool).await.unwrap()
}

#[test]
fn rows_from_many_tasks() {
    on_every_runtime(|| async {
        let folder = Folder::new();
        let pool = pool(&folder).await;
        let mut tasks = JoinSet::new();
        for number in 0..40i64 {
            let pool = pool.clone();
            tasks.spawn(async move {
                sqlx::query("INSERT INTO numbers VALUES (?, ?)")
                    .bind(number)
                    .bind(number * number)
                    .execute(&pool)
                    .await
                    .unwrap();
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let mut rows =
            sqlx::query("SELECT number, square FROM numbers ORDER BY number").fetch(&pool);
        let mut expected = 0i64;
        while let Some(row) = rows.try_next().await.unwrap() {
            let (number, square): (i64, i64) = (row.get(0), row.get(1));
            assert_eq!((number, square), (expected, expected * expected));
            expected += 1;
        }
        assert_eq!(expected, 40);
        drop(rows);
        pool.close().await;
    });
}

#[test]
fn a_transaction_that_is_dropped_leaves_nothing() {
    on_every_runtime(|| async {
        let folder = Folder::new();
        let pool = pool(&folder).await;
        for keep in [false, true] {
            let mut transaction = pool.begin().await.unwrap();
            for number in 0..10i64 {
                let insert = sqlx::query("INSERT INTO numbers VALUES (?, 0)").bind(number);
                insert.execute(&mut *transaction).await.unwrap();
            }
            if keep {
                transaction.commit().await.unwrap();
            } else {
                drop(transaction);
            }
            assert_eq!(count(&pool).await, if keep { 10 } else { 0 });
        }
        let twice = sqlx::query("INSERT INTO numbers VALUES (3, 3)").execute(&pool).await;
        assert!(twice.unwrap_err().as_database_error().unwrap().is_unique_violation());
        pool.close().await;
    });
}
