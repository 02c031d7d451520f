//! Signals are raised while listeners come and go, on runtimes that end. Oracle: the signal wakes every listener that
//! existed before it. A listener whose runtime has ended reports the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use wakeful::runtime::Runtime;
use wakeful::signal::unix::{Signal, SignalKind, signal};

use super::rng::TestRng;
use super::round::Round;

/// SIGQUIT belongs to the watchdog, and SIGCHLD is ignored by default.
const SIGNALS: [i32; 4] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH, libc::SIGCHLD];

fn listen(runtime: &Runtime, number: i32) -> Signal {
    let _entered = runtime.enter();
    signal(SignalKind::from_raw(number)).expect("a signal that may be handled")
}

/// Sends a signal to the process or to the calling thread.
fn raise(number: i32, rng: &mut TestRng) {
    // SAFETY: the round has listened for the signal, so the signal does not end the process.
    unsafe {
        if rng.one_in(2) {
            libc::raise(number);
        } else {
            libc::kill(libc::getpid(), number);
        }
    }
}

pub fn round(round: &mut Round) {
    let mut runtimes: Vec<Runtime> = (0..1 + round.rng.below(3)).map(|_| round.runtime()).collect();
    let mut rng = round.rng.branch();
    // From now on the process handles all of them permanently.
    for number in SIGNALS {
        drop(listen(&runtimes[0], number));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let storm = rng.one_in(2).then(|| {
        let (stop, mut rng) = (stop.clone(), rng.branch());
        thread::spawn(move || {
            while !stop.load(SeqCst) {
                raise(SIGNALS[rng.below(4)], &mut rng);
                thread::yield_now();
            }
        })
    });
    let mut kept = Vec::new();
    for _ in 0..4 + rng.below(8) {
        let at = rng.below(runtimes.len());
        let runtime = &runtimes[at];
        let number = SIGNALS[rng.below(4)];
        let mut listener = listen(runtime, number);
        round.count("listeners", 1);
        let guard = round.drops.guard();
        match rng.below(4) {
            0 => drop(listener),
            1 => kept.push(listener),
            2 => {
                let waits = runtime.spawn(async move {
                    let received = listener.recv().await;
                    drop(guard);
                    received
                });
                if rng.one_in(3) {
                    waits.abort();
                    continue;
                }
                raise(number, &mut rng);
                assert_eq!(runtime.block_on(waits).unwrap(), Some(()), "signal {number} arrives");
            }
            _ => {
                // Raised on another thread, before the wait.
                let mut rng = rng.branch();
                thread::spawn(move || raise(number, &mut rng)).join().unwrap();
                let received = runtime.block_on(listener.recv());
                assert_eq!(received, Some(()), "signal {number} is kept for the listener");
            }
        }
        if runtimes.len() > 1 && rng.one_in(6) {
            round.end(runtimes.swap_remove(at));
        }
    }
    for runtime in runtimes {
        round.end(runtime);
    }
    stop.store(true, SeqCst);
    if let Some(storm) = storm {
        storm.join().unwrap();
    }
    // A signal from before the end may still be pending; the end follows it.
    for mut listener in kept {
        while futures::executor::block_on(listener.recv()).is_some() {}
    }
    // Handlers stay installed: a signal without listeners does not end the process.
    SIGNALS.into_iter().for_each(|number| raise(number, &mut rng));
}
