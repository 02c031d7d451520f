//! The program of README's "Find the bug": two tasks lock two mutexes in opposite orders.

use std::{sync::Arc, time::Duration};
use wakeful::{sync::Mutex, time::sleep};

#[wakeful::main]
pub(crate) async fn main() {
    let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
    let add = |x: Arc<Mutex<i32>>, y: Arc<Mutex<i32>>| async move {
        let x = x.lock().await;
        sleep(Duration::from_millis(1)).await;
        *x + *y.lock().await
    };
    let sum = wakeful::spawn(add(a.clone(), b.clone()));
    let same = wakeful::spawn(add(b, a));
    assert_eq!(sum.await.unwrap(), same.await.unwrap());
}
