//! tower: time-out, retry and rate limit, on a paused clock.

use interop::on_every_runtime;
use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::Instant;
use tower::retry::Policy;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

#[test]
fn a_service_that_does_not_answer_is_given_up() {
    on_every_runtime(|| async {
        let limit = Duration::from_millis(20);
        let mut slow = ServiceBuilder::new()
            .timeout(limit)
            .service(service_fn(|()| pending::<Result<(), Infallible>>()));
        let started = Instant::now();
        let error = slow.ready().await.unwrap().call(()).await.unwrap_err();
        assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
        assert!(started.elapsed() >= limit);
        let mut fast = ServiceBuilder::new()
            .timeout(Duration::from_secs(60))
            .service(service_fn(|number: u32| ready(Ok::<_, Infallible>(number + 1))));
        assert_eq!(fast.ready().await.unwrap().call(1).await.unwrap(), 2);
    });
}

/// A policy that retries up to this number of times.
#[derive(Clone)]
struct Tries(usize);

impl Policy<u32, u32, &'static str> for Tries {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut u32, result: &mut Result<u32, &'static str>) -> Option<Ready<()>> {
        if result.is_ok() || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &u32) -> Option<u32> {
        Some(*request)
    }
}

#[test]
fn a_service_that_fails_is_tried_again() {
    on_every_runtime(|| async {
        for (tries, outcome) in [(2, Err("not yet")), (3, Ok(42)), (9, Ok(42))] {
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = calls.clone();
            // The service fails three times, each time after a delay.
            let service = service_fn(move |number: u32| {
                let calls = counted.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if calls.fetch_add(1, SeqCst) < 3 { Err("not yet") } else { Ok(number) }
                }
            });
            let mut service = ServiceBuilder::new().retry(Tries(tries)).service(service);
            assert_eq!(service.ready().await.unwrap().call(42).await, outcome);
            assert_eq!(calls.load(SeqCst), tries.min(3) + 1);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_than_the_rate_allows() {
    let started = Instant::now();
    let mut service = ServiceBuilder::new()
        .rate_limit(2, Duration::from_secs(1))
        .service(service_fn(|()| ready(Ok::<_, Infallible>(Instant::now()))));
    let mut times = Vec::new();
    for _ in 0..6 {
        let time = service.ready().await.unwrap().call(()).await.unwrap();
        times.push((time - started).as_millis());
    }
    for (at, expected) in times.iter().zip([0, 0, 1000, 1000, 2000, 2000]) {
        // Timers are rounded up to the next tick.
        assert!((expected..expected + 10).contains(at), "{times:?}");
    }
}

#[test]
fn calls_beyond_the_limit_wait_for_the_others() {
    on_every_runtime(|| async {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let service = {
            let (running, most) = (running.clone(), most.clone());
            service_fn(move |()| {
                let (running, most) = (running.clone(), most.clone());
                async move {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, SeqCst);
                    Ok::<_, Infallible>(())
                }
            })
        };
        let service = ServiceBuilder::new().concurrency_limit(3).service(service);
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let mut service = service.clone();
                tokio::spawn(async move { service.ready().await.unwrap().call(()).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert!((1..=3).contains(&most.load(SeqCst)));
    });
}
