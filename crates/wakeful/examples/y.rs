use std::time::Instant;
fn main() {
    let workers: usize = std::env::args().nth(1).map_or(2, |a| a.parse().unwrap());
    let tasks: usize = std::env::args().nth(2).map_or(1000, |a| a.parse().unwrap());
    let rt = wakeful::runtime::Builder::new_multi_thread().worker_threads(workers).build().unwrap();
    rt.block_on(async move {
        wakeful::spawn(async move {
            for _ in 0..5 {
                let t = Instant::now();
                let hs: Vec<_> = (0..tasks)
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
                println!("yield {:?}", t.elapsed() / (tasks as u32 * 1000));
            }
        })
        .await
        .unwrap()
    });
}
