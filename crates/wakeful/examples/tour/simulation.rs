//! A chapter on simulation: finds a bug that appears in one of many orders.

use std::time::Duration;

use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sim::{Explorer, Sim};
use wakeful::time::sleep;

use crate::guide::{Guide, Page};

/// Returns whether the tour was started by a command that this chapter prints.
pub fn is_repeated() -> bool {
    ["WAKEFUL_SIM_SEED", "WAKEFUL_SIM_REPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "A simulation: a rare bug becomes a number",
        "A seed decides the order of the tasks and what the network does, and time is virtual. A client
         takes one read for one message, which works if all bytes arrive at once. The search runs one
         seed after the other, and shrinks the run that fails to the choices that matter.",
        simulation,
    );
}

/// A server sends a message after half an hour. A client takes the result of one read for the whole
/// message.
async fn one_read_one_message(sim: Sim) {
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        let (mut stream, _) = listener.accept().await?;
        sleep(Duration::from_secs(1_800)).await;
        stream.write_all(b"hello").await
    });
    sleep(Duration::from_millis(1)).await;
    let mut stream = TcpStream::connect("server:80").await.unwrap();
    let mut buf = [0; 64];
    let len = stream.read(&mut buf).await.unwrap();
    assert!(&buf[..len] == b"hello", "half a message");
}

fn simulation(page: &mut Page<'_>) {
    let explorer = Explorer::new("tour").seeds(200);
    let Err(error) = explorer.run(one_read_one_message) else {
        return page.expect(false, "the bug is found within 200 seeds");
    };
    page.show(&error);
    let text = error.to_string();
    page.expect(text.contains("half a message"), "the run fails as the program says");
    if is_repeated() {
        // A repeated run is not shrunk.
        return;
    }
    page.expect(text.contains("is short"), "the short read is named");
    page.expect(error.choices().is_some_and(|it| it <= 2), "few choices are left");
}
