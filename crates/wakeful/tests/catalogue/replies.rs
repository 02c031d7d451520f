//! Actors that call each other: requests over `mpsc`, replies over `oneshot`.

use std::collections::HashMap;

use wakeful::select;
use wakeful::sync::{mpsc, oneshot};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A request, and where its reply goes.
struct Call {
    amount: u32,
    reply: oneshot::Sender<u32>,
}

type Mailbox = mpsc::Sender<Call>;

async fn call(actor: &Mailbox, amount: u32) -> u32 {
    let (reply, answer) = oneshot::channel(); //@ call
    actor.send(Call { amount, reply }).await.expect("the actor lives");
    answer.await.unwrap_or(0) //@ answer
}

/// Two actors, each of which asks the other while it serves a request.
async fn a_cycle_of_calls(twin: Twin) {
    let (stock, mut stock_box) = mpsc::channel::<Call>(4);
    let (price, mut price_box) = mpsc::channel::<Call>(4);
    let (ask_stock, ask_price) = (stock.clone(), price);
    named("stock", async move {
        while let Some(Call { amount, reply }) = stock_box.recv().await {
            let answer = match amount {
                0 => 1,
                more => call(&ask_price, more - 1).await,
            };
            let _ = reply.send(answer);
        }
    });
    named("price", async move {
        while let Some(Call { amount, reply }) = price_box.recv().await {
            let answer = match is_buggy(twin) {
                true => call(&ask_stock, amount).await,
                false => amount,
            };
            let _ = reply.send(answer);
        }
    });
    call(&stock, 2).await;
}

/// An actor asks itself.
async fn an_actor_that_calls_itself(twin: Twin) {
    let (own, mut mailbox) = mpsc::channel::<Call>(4);
    let myself = own.clone();
    named("counter", async move {
        while let Some(Call { amount, reply }) = mailbox.recv().await {
            let half = match amount {
                0 | 1 => 1,
                _ if !is_buggy(twin) => amount / 2,
                _ => call(&myself, amount / 2).await,
            };
            let _ = reply.send(half);
        }
    });
    call(&own, 8).await;
}

/// The replies wait in a table, and the entry of one answer has the wrong key.
async fn a_reply_that_is_kept(twin: Twin) {
    let (tx, mut rx) = mpsc::channel::<Call>(4);
    named("matcher", async move {
        let mut open = HashMap::new();
        while let Some(Call { amount, reply }) = rx.recv().await {
            open.insert(amount, reply);
            let key = if is_buggy(twin) { amount + 1 } else { amount };
            if let Some(reply) = open.remove(&key) {
                let _ = reply.send(amount);
            }
        }
    });
    call(&tx, 1).await;
}

/// A client waits for the reply of a connection that waits for the client's next request.
async fn both_sides_receive(twin: Twin) {
    let (requests, mut requested) = mpsc::channel::<u32>(1);
    let (replies, mut replied) = mpsc::channel::<u32>(1);
    let server = named("server", async move {
        while let Some(first) = requested.recv().await {
            //@ waits_request
            let second = if is_buggy(twin) { requested.recv().await } else { Some(0) }; //@ waits_second
            let _ = replies.send(first + second.unwrap_or(0)).await;
        }
    });
    let client = named("client", async move {
        requests.send(1).await.unwrap();
        replied.recv().await.unwrap() //@ waits_reply
    });
    client.await.unwrap();
    server.await.unwrap();
}

/// A supervisor waits for the health of a worker that waits for its supervisor, both in `select!`.
async fn health_checks(twin: Twin) {
    let (up, mut at_supervisor) = mpsc::channel::<Call>(1);
    let (down, mut at_worker) = mpsc::channel::<Call>(1);
    named("worker", async move {
        if is_buggy(twin) {
            select! {
                _ = call(&up, 1) => {}
                Some(Call { reply, .. }) = at_worker.recv(), if !is_buggy(twin) => drop(reply.send(1)),
            }
        }
        while let Some(Call { reply, .. }) = at_worker.recv().await {
            let _ = reply.send(1);
        }
    });
    let supervisor = named("supervisor", async move {
        call(&down, 1).await;
        while let Ok(Call { reply, .. }) = at_supervisor.try_recv() {
            let _ = reply.send(1);
        }
    });
    supervisor.await.unwrap();
}

pub fn bugs() -> Vec<Bug> {
    let stuck = |bug: Bug| bug.reports("stuck_block_on", super::PROVEN).only_alone();
    vec![
        stuck(bug!(a_cycle_of_calls)).says("\"stock\"").says("\"price\""),
        stuck(bug!(an_actor_that_calls_itself)).says("\"counter\""),
        stuck(bug!(a_reply_that_is_kept)).says("\"matcher\""),
        stuck(bug!(both_sides_receive)).says("@waits_second").says("@waits_reply"),
        stuck(bug!(health_checks)).says("\"worker\"").says("\"supervisor\""),
    ]
}
