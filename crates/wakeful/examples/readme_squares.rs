//! The program of README's "Write programs".

#[wakeful::main]
async fn main() {
    let squares: Vec<_> = (1..=10).map(|n| wakeful::spawn(async move { n * n })).collect();

    let mut sum = 0;
    for square in squares {
        sum += square.await.expect("the task did not panic");
    }
    println!("{sum}"); // 385
}
