use std::time::Instant;
fn main() {
    let t = Instant::now();
    for _ in 0..1_000_000 {
        std::hint::spin_loop();
    }
    println!("pause {:?}", t.elapsed() / 1_000_000);
    for mt in [false, true] {
        let rt = if mt {
            wakeful::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
        } else {
            wakeful::runtime::Builder::new_current_thread().build().unwrap()
        };
        let row = async move {
            for _ in 0..5 {
                let t = Instant::now();
                for _ in 0..10000 {
                    wakeful::task::spawn_blocking(|| {}).await.unwrap();
                }
                println!("mt={mt} blocking_seq {:?}", t.elapsed() / 10_000);
            }
        };
        rt.block_on(async move { wakeful::spawn(row).await.unwrap() });
    }
}
