//! The program of `on-tokio` and of `on-wakeful`.

use std::process::ExitCode;

fn main() -> ExitCode {
    service::main()
}
