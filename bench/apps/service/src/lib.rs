//! The applications that are measured, built on tokio and on wakeful from this one source.
//!
//! A program takes a role and its arguments. It prints one line of JSON when it is ready. For each line on its
//! standard input it then prints the processor time that the process has taken so far, in nanoseconds. It ends
//! with its standard input, so that no server outlives the parent.
//!
//! | role | what it serves | file |
//! | --- | --- | --- |
//! | `http` | the axum service, over HTTP/1, HTTP/2 without TLS, and WebSocket | `http.rs` |
//! | `busy` | the axum service, beside tasks that compute | `busy.rs` |
//! | `tls` | the axum service over TLS | `tls.rs` |
//! | `postgres CONFIG` | rows of a PostgreSQL table, over HTTP/1 | `postgres.rs` |
//! | `proxy ADDR` | what the server at the address answers, over HTTP/1 | `proxy.rs` |
//! | `redis` | mini-redis | `redis.rs` |
//! | `grpc` | a tonic service | `grpc.rs` |
//! | `sleepers N` | nothing: it spawns tasks that sleep, joins them, and prints time and memory | `sleepers.rs` |

mod busy;
mod grpc;
mod http;
mod parent;
mod postgres;
mod proxy;
mod redis;
mod sleepers;
mod tls;

use std::any::type_name;
use std::error::Error;
use std::process::ExitCode;

use tokio::net::TcpListener;
use tokio::runtime::Builder;

/// What a role returns: servers never do, unless they fail.
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the role that the command line names, on a multi-thread runtime with the default number of workers.
pub fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(run(&words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{}: {error}", words.join(" "))),
    }
}

async fn run(words: &[&str]) -> Outcome {
    if let ["sleepers", count] = words {
        return sleepers::run(count.parse()?).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    match words {
        ["http"] => http::serve(listener).await,
        ["busy"] => busy::serve(listener).await,
        ["tls"] => tls::serve(listener).await,
        ["postgres", config] => postgres::serve(listener, config).await,
        ["proxy", upstream] => proxy::serve(listener, upstream).await,
        ["redis"] => redis::serve(listener).await,
        ["grpc"] => grpc::serve(listener).await,
        _ => Err("there is no such role; src/lib.rs lists them".into()),
    }
}

/// The crate that tokio's names lead to: `tokio` or `wakeful`.
fn runtime_name() -> &'static str {
    let name = type_name::<tokio::runtime::Runtime>();
    name.split("::").next().unwrap_or(name)
}

fn fail(complaint: &str) -> ExitCode {
    eprintln!("{}: {complaint}", runtime_name());
    ExitCode::FAILURE
}
