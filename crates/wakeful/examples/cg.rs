fn main() {
    let row = std::env::args().nth(1).unwrap();
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let mt = std::env::args().nth(3).is_some();
    let rt = if mt {
        wakeful::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    } else {
        wakeful::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    };
    let work = async move {
        match row.as_str() {
            "spawn_join" => {
                for _ in 0..n / 1000 {
                    let hs: Vec<_> = (0..1000).map(|_| wakeful::spawn(async {})).collect();
                    for h in hs {
                        h.await.unwrap();
                    }
                }
            }
            "spawn_await" => {
                for _ in 0..n {
                    wakeful::spawn(async {}).await.unwrap();
                }
            }
            "yield" => {
                let hs: Vec<_> = (0..100)
                    .map(|_| {
                        wakeful::spawn(async move {
                            for _ in 0..n / 100 {
                                wakeful::task::yield_now().await
                            }
                        })
                    })
                    .collect();
                for h in hs {
                    h.await.unwrap();
                }
            }
            "yield_one" => {
                for _ in 0..n {
                    wakeful::task::yield_now().await
                }
            }
            "timeout_never" => for _ in 0..n { wakeful::time::timeout(std::time::Duration::from_secs(60), wakeful::task::yield_now()).await.unwrap() },
            "timeout_ready" => for _ in 0..n { wakeful::time::timeout(std::time::Duration::from_secs(60), async {}).await.unwrap() },
            _ => panic!(),
        }
    };
    rt.block_on(async move { wakeful::spawn(work).await.unwrap() });
}
