use std::time::Instant;
use wakeful::time::{Duration, sleep, timeout};
fn main() {
    for mt in [false, true] {
        let rt = if mt {
            wakeful::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap()
        } else {
            wakeful::runtime::Builder::new_current_thread().enable_all().build().unwrap()
        };
        let row = async move {
            for us in [300u64, 1700, 5200] {
                let mut late = vec![];
                for _ in 0..50 {
                    let d = Duration::from_micros(us);
                    let t = Instant::now();
                    sleep(d).await;
                    late.push((t.elapsed() - d).as_nanos() / 1000);
                }
                late.sort();
                println!("mt={mt} sleep {us}us late median {}us max {}us", late[25], late[49]);
            }
            for _ in 0..3 {
                let t = Instant::now();
                for _ in 0..1_000_000 {
                    timeout(Duration::from_secs(60), async {}).await.unwrap();
                }
                println!("mt={mt} timeout_ready {:?}", t.elapsed() / 1_000_000);
                let t = Instant::now();
                for _ in 0..1000 {
                    let hs: Vec<_> = (0..1000)
                        .map(|_| {
                            wakeful::spawn(async {
                                timeout(Duration::from_secs(60), wakeful::task::yield_now())
                                    .await
                                    .unwrap()
                            })
                        })
                        .collect();
                    for h in hs {
                        h.await.unwrap();
                    }
                }
                println!("mt={mt} timeout_never (with spawn) {:?}", t.elapsed() / 1_000_000);
                let t = Instant::now();
                for _ in 0..1_000_000 {
                    timeout(Duration::from_secs(60), wakeful::task::yield_now()).await.unwrap();
                }
                println!("mt={mt} timeout_never one {:?}", t.elapsed() / 1_000_000);
            }
            let t = Instant::now();
            let hs: Vec<_> = (0..200_000u64)
                .map(|i| {
                    wakeful::spawn(async move {
                        let d = Duration::from_millis(1 + i * 7919 % 1000);
                        let t = Instant::now();
                        sleep(d).await;
                        (t.elapsed() - d).as_nanos() as u64 / 1000
                    })
                })
                .collect();
            let mut late = vec![];
            for h in hs {
                late.push(h.await.unwrap());
            }
            late.sort();
            println!(
                "mt={mt} fire {:?} late med {} p99 {} max {}",
                t.elapsed(),
                late[100_000],
                late[198_000],
                late[199_999]
            );
        };
        rt.block_on(async move { wakeful::spawn(row).await.unwrap() });
        let s = rt.block_on(async {
            let t = Instant::now();
            sleep(Duration::from_millis(5)).await;
            t.elapsed()
        });
        println!("root sleep 5ms: {s:?}");
    }
}
