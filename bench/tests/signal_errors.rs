//! Compares the numbers that `signal` refuses, and the errors, on tokio and on wakeful.
#![cfg(feature = "wakeful")]

use std::io;

/// The outcome for a signal number: `None`, or the error's kind and the kernel's number of it.
type Outcome = Option<(io::ErrorKind, Option<i32>)>;

/// Signal numbers: too small, forbidden, used by the C library, real-time, too large.
const NUMBERS: [i32; 19] =
    [i32::MIN, -1000, -1, 0, 4, 8, 9, 11, 19, 32, 33, 34, 63, 64, 65, 100, 128, 1000, i32::MAX];

/// `side!(tokio)` asks that crate.
macro_rules! side {
    ($name:ident) => {
        mod $name {
            use ::$name::runtime::Builder;
            use ::$name::signal::unix::{SignalKind, signal};

            pub fn outcome(number: i32) -> super::Outcome {
                let runtime = Builder::new_current_thread().enable_all().build();
                runtime.expect("it starts").block_on(async {
                    let error = signal(SignalKind::from_raw(number)).err()?;
                    Some((error.kind(), error.raw_os_error()))
                })
            }
        }
    };
}
side!(tokio);
side!(wakeful);

#[test]
fn a_number_is_refused_with_the_same_error() {
    for number in NUMBERS {
        // Asks twice, since a runtime may remember the first result.
        for _ in 0..2 {
            assert_eq!(wakeful::outcome(number), tokio::outcome(number), "signal {number}");
        }
    }
}
