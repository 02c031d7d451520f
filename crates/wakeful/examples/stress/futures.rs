//! Futures of every kind are polled by hand and then kept, dropped or forgotten, with wakers that panic and reenter.
//! Oracle: a kept future is woken, whatever happened to its neighbours on the same resource.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use wakeful::runtime::Runtime;
use wakeful::task::yield_now;

use super::future_list::{BoxFuture, Case, FUTURES, Wakes};
use super::process_state::ProcessState;
use super::rng::TestRng;
use super::round::{Drops, Round, lock, quiet_panic, returns};
use super::watchdog;

/// Futures that were forgotten. They stay reachable, so the leak detector does not report them.
static FORGOTTEN: Mutex<Vec<ManuallyDrop<BoxFuture>>> = Mutex::new(Vec::new());

/// The futures that a hostile waker may poll or drop.
type Victims = Arc<Mutex<Vec<BoxFuture>>>;

/// A waker of one of four behaviors, which counts its wakes.
#[derive(Default)]
struct HostileWaker {
    wakes: AtomicUsize,
    panics_on_wake: bool,
    panics_on_drop: bool,
    victims: Option<Victims>,
}

impl Wake for HostileWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakes = self.wakes.fetch_add(1, SeqCst);
        if let Some(victims) = &self.victims {
            let victim = lock(victims).pop();
            let ends_well = returns(|| {
                if let (Some(mut victim), true) = (victim, wakes.is_multiple_of(2)) {
                    _ = victim.as_mut().poll(&mut Context::from_waker(&Waker::from(self.clone())));
                }
            });
            if !ends_well {
                // The panic goes to the caller, with a payload that may be forgotten.
                quiet_panic();
            }
        }
        if self.panics_on_wake {
            quiet_panic();
        }
    }
}

impl Drop for HostileWaker {
    fn drop(&mut self) {
        if self.panics_on_drop && !thread::panicking() {
            quiet_panic();
        }
    }
}

fn hostile(rng: &mut TestRng, victims: &Victims) -> Arc<HostileWaker> {
    let choice = rng.below(4);
    Arc::new(HostileWaker {
        wakes: AtomicUsize::new(0),
        panics_on_wake: choice == 1 || choice == 3 && rng.one_in(3),
        panics_on_drop: choice == 2,
        victims: (choice == 3).then(|| victims.clone()),
    })
}

/// A future that must be woken, its waker, and the number of wakes before its last poll.
struct Kept {
    future: BoxFuture,
    waker: Arc<HostileWaker>,
}

fn poll(future: &mut BoxFuture, waker: &Arc<HostileWaker>) -> Poll<()> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(waker.clone())))
}

/// Waits until the future is woken and ready. If the wake does not arrive, the watchdog ends the process.
fn finish(runtime: &Runtime, mut kept: Kept) {
    runtime.block_on(async {
        loop {
            while kept.waker.wakes.swap(0, SeqCst) == 0 {
                yield_now().await;
            }
            let mut is_pending = false;
            // A completed future wakes the next one of its resource, whose waker may panic.
            returns(|| is_pending = poll(&mut kept.future, &kept.waker).is_pending());
            if !is_pending {
                return;
            }
        }
    });
}

fn guarded(future: BoxFuture, drops: &Drops) -> BoxFuture {
    let guard = drops.guard();
    Box::pin(async move {
        let _guard = guard;
        future.await;
    })
}

/// Attacks the futures of one case. Returns the number of forgotten futures.
fn attack(round: &mut Round, runtime: &Runtime, case: Case, neighbours: &Victims) -> usize {
    let (mut kept, mut late, mut forgotten) = (Vec::new(), Vec::new(), 0);
    let mut is_first = true;
    let entered = runtime.enter();
    for future in case.futures {
        let mut future = guarded(future, &round.drops);
        let waker = hostile(&mut round.rng, neighbours);
        let mut is_pending = false;
        returns(|| is_pending = poll(&mut future, &waker).is_pending());
        returns(|| drop(waker));
        // The future is ready, or its poll panicked.
        if !is_pending {
            returns(|| drop(future));
            continue;
        }
        match round.rng.below(6) {
            0 => _ = returns(|| drop(future)),
            1 => drop(thread::spawn(move || drop(future)).join()),
            2 => {
                // The forgotten future's guard is not dropped.
                round.drops.forget_one();
                forgotten += 1;
                is_first = false;
                lock(&FORGOTTEN).push(ManuallyDrop::new(future));
            }
            3 => {
                is_first = false;
                late.push(future);
            }
            4 => {
                // A waker may drop or poll the future at any time from now on.
                is_first = false;
                lock(neighbours).push(future);
            }
            _ => {
                let waker = Arc::<HostileWaker>::default();
                let mut is_pending = false;
                // The hostile waker is replaced, and may panic when it is dropped.
                returns(|| is_pending = poll(&mut future, &waker).is_pending());
                if is_pending && (case.wakes == Wakes::All || is_first) {
                    kept.push(Kept { future, waker });
                }
                is_first = false;
            }
        }
    }
    returns(case.fire);
    drop(entered);
    kept.into_iter().for_each(|kept| finish(runtime, kept));
    late.into_iter().for_each(|future| _ = returns(|| drop(future)));
    forgotten
}

pub fn round(round: &mut Round) {
    let before = ProcessState::now();
    let runtime = round.runtime();
    let neighbours = Victims::default();
    let mut forgotten = 0;
    for _ in 0..8 {
        let (name, make) = FUTURES[round.rng.below(FUTURES.len())];
        let case = {
            let _entered = runtime.enter();
            make(1 + round.rng.below(4))
        };
        round.count("futures", case.futures.len());
        watchdog::waits_for(format!("for a wake: {name}"));
        forgotten += attack(round, &runtime, case, &neighbours);
    }
    round.count("forgotten", forgotten);
    let end =
        || assert!(returns(|| drop(runtime)), "the panic of a waker leaves the end of a runtime");
    if round.rng.one_in(2) {
        end();
        clear(&neighbours);
    } else {
        clear(&neighbours);
        end();
    }
    if forgotten > 0 {
        before.close_new_descriptors();
    }
}

/// Drops the futures that no waker took.
fn clear(neighbours: &Victims) {
    while let Some(victim) = { lock(neighbours).pop() } {
        returns(|| drop(victim));
    }
}
