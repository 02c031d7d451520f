use std::time::Instant;
fn main() {
    for mt in [false, true] {
        let rt = if mt {
            wakeful::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
        } else {
            wakeful::runtime::Builder::new_current_thread().build().unwrap()
        };
        let row = async move {
            for _ in 0..3 {
                let t = Instant::now();
                let n = 1000u32;
                for _ in 0..n {
                    let hs: Vec<_> = (0..1000).map(|_| wakeful::spawn(async {})).collect();
                    for h in hs {
                        h.await.unwrap();
                    }
                }
                println!("mt={mt} spawn_join {:?}", t.elapsed() / 1_000_000);
                let t = Instant::now();
                for _ in 0..1_000_000 {
                    wakeful::spawn(async {}).await.unwrap();
                }
                println!("mt={mt} spawn_await {:?}", t.elapsed() / 1_000_000);
                let t = Instant::now();
                let hs: Vec<_> = (0..1000)
                    .map(|_| {
                        wakeful::spawn(async {
                            for _ in 0..1000 {
                                wakeful::task::yield_now().await
                            }
                        })
                    })
                    .collect();
                for h in hs {
                    h.await.unwrap();
                }
                println!("mt={mt} yield {:?}", t.elapsed() / 1_000_000);
                let t = Instant::now();
                for _ in 0..1_000_000 {
                    wakeful::task::yield_now().await
                }
                println!("mt={mt} yield_one {:?}", t.elapsed() / 1_000_000);
                let t = Instant::now();
                for _ in 0..10 {
                    let hs: Vec<_> =
                        (0..1000).map(|_| wakeful::task::spawn_blocking(|| {})).collect();
                    for h in hs {
                        h.await.unwrap();
                    }
                }
                println!("mt={mt} blocking_batch {:?}", t.elapsed() / 10_000);
                let t = Instant::now();
                for _ in 0..1000 {
                    wakeful::task::spawn_blocking(|| {}).await.unwrap();
                }
                println!("mt={mt} blocking_seq {:?}", t.elapsed() / 1_000);
            }
        };
        if mt {
            rt.block_on(async move { wakeful::spawn(row).await.unwrap() })
        } else {
            rt.block_on(row)
        }
        let t = Instant::now();
        for _ in 0..1_000_000 {
            rt.block_on(async {})
        }
        println!("mt={mt} block_on {:?}", t.elapsed() / 1_000_000);
        let t = Instant::now();
        drop(rt);
        println!("drop {:?}", t.elapsed());
    }
}
