//! The closed and the open loop over a number of connections.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::backlog::{Backlog, Measured};
use super::connection::{Connection, Target};
use super::histogram::Histogram;
use super::schedule::Schedule;

/// A server that is silent for this long under a closed loop is broken.
const SILENCE: Duration = Duration::from_secs(10);

/// Connections to one server.
pub struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Requests in flight on a connection at most.
    depth: usize,
    events: Vec<Event>,
    scratch: Vec<u8>,
    answered: Vec<u64>,
}

/// What a closed loop has measured.
pub struct Closed {
    pub latencies: Histogram,
    pub seconds: f64,
}

impl Load {
    /// Opens the connections.
    pub fn new(target: &Target, connections: usize, depth: usize) -> Result<Self, String> {
        let failed = |error: io::Error| format!("epoll: {error}");
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let connections: Vec<_> =
            (0..connections).map(|_| Connection::open(target)).collect::<Result<_, _>>()?;
        for (number, connection) in connections.iter().enumerate() {
            let number = EventData::new_u64(number as u64);
            epoll::add(&epoll, connection.stream(), number, EventFlags::IN)
                .map_err(|error| failed(error.into()))?;
        }
        // By default the kernel may end a sleep 50 µs late. If it keeps doing so, the lags show it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            epoll,
            connections,
            depth,
            events: Vec::with_capacity(256),
            scratch: vec![0; 64 * 1024],
            answered: Vec::new(),
        })
    }

    /// Keeps `depth` requests in flight on every connection for a while, and waits for the last answers.
    pub fn closed(&mut self, seconds: f64) -> Result<Closed, String> {
        let started = Instant::now();
        let now_ns = || started.elapsed().as_nanos() as u64;
        let mut latencies = Histogram::default();
        let mut in_flight = 0;
        for connection in &mut self.connections {
            for _ in 0..self.depth {
                connection.send(now_ns())?;
                in_flight += 1;
            }
        }
        while in_flight > 0 {
            if !self.wait(SILENCE)? {
                return Err(format!("{in_flight} requests were never answered"));
            }
            for event in &self.events {
                let connection = &mut self.connections[event.data.u64() as usize];
                connection.receive(&mut self.scratch, &mut self.answered)?;
                let now_ns = now_ns();
                for sent_ns in self.answered.drain(..) {
                    latencies.record(now_ns - sent_ns);
                    if (now_ns as f64) < seconds * 1e9 {
                        connection.send(now_ns)?;
                    } else {
                        in_flight -= 1;
                    }
                }
            }
        }
        Ok(Closed { latencies, seconds: started.elapsed().as_secs_f64() })
    }

    /// Starts requests by a schedule, and waits for the last answers for at most `patience`.
    ///
    /// A connection takes one request after the other, in turn. If none is free, requests wait. After a loop with
    /// requests that have no answer, the connections cannot be used any more.
    pub fn open(
        &mut self,
        per_s: f64,
        seconds: f64,
        patience: Duration,
    ) -> Result<Measured, String> {
        let end_ns = (Duration::from_secs_f64(seconds) + patience).as_nanos() as u64;
        let mut backlog = Backlog::new(Schedule::new(per_s, seconds));
        // A connection stands here once for each request that it can take.
        let count = self.connections.len();
        let mut free: VecDeque<usize> = (0..count * self.depth).map(|slot| slot % count).collect();
        let started = Instant::now();
        let now_ns = || started.elapsed().as_nanos() as u64;
        loop {
            let now = now_ns();
            backlog.advance(now);
            while let Some(&place) = free.front()
                && let Some(due_ns) = backlog.take(now)
            {
                free.pop_front();
                self.connections[place].send(due_ns)?;
            }
            if backlog.is_done() || now >= end_ns {
                break;
            }
            let until = backlog.next_due_ns().unwrap_or(end_ns).saturating_sub(now_ns());
            self.wait(Duration::from_nanos(until))?;
            for event in &self.events {
                let place = event.data.u64() as usize;
                self.connections[place].receive(&mut self.scratch, &mut self.answered)?;
                let now = now_ns();
                for due_ns in self.answered.drain(..) {
                    backlog.complete(due_ns, now);
                    free.push_back(place);
                }
            }
        }
        let now = now_ns();
        for due_ns in self.connections.iter().flat_map(Connection::unanswered) {
            backlog.give_up(due_ns, now);
        }
        Ok(backlog.finish(now))
    }

    /// Waits for events, and returns false if none came in time. There may be none after a signal too.
    fn wait(&mut self, at_most: Duration) -> Result<bool, String> {
        let timeout = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(format!("epoll: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::super::protocol::Redis;
    use super::*;

    /// A server of `SET` for a number of connections. It answers the first `limit` requests of each, and ends
    /// with the connections.
    fn start_server(connections: usize, limit: usize) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for _ in 0..connections {
                let (stream, _) = listener.accept().expect("a connection comes");
                thread::spawn(move || answer(stream, limit));
            }
        });
        Target { addr, tls: None, protocol: || Box::new(Redis::set()) }
    }

    fn answer(mut stream: TcpStream, mut limit: usize) {
        let mut buffer = [0; 4096];
        // Every request ends with the only `e` that a line end follows, and none is split: they are short.
        while let Ok(count) = stream.read(&mut buffer)
            && count > 0
        {
            let requests = buffer[..count].windows(3).filter(|bytes| bytes == b"e\r\n").count();
            let answers = requests.min(limit);
            limit -= answers;
            if stream.write_all(&b"+OK\r\n".repeat(answers)).is_err() {
                return;
            }
        }
    }

    #[test]
    fn an_open_loop_sends_the_whole_schedule() {
        let target = start_server(4, usize::MAX);
        let mut load = Load::new(&target, 4, 1).expect("the server is there");
        let measured = load.open(2000.0, 0.1, Duration::from_secs(60)).expect("all goes well");
        let scheduled = Schedule::new(2000.0, 0.1).count() as u64;
        assert_eq!((measured.latencies.count(), measured.unanswered), (scheduled, 0));
        assert_eq!(measured.lags.count(), scheduled);
    }

    #[test]
    fn a_server_that_stops_leaves_every_due_request_unanswered() {
        // The first answer opens the connection.
        let target = start_server(2, 1);
        let mut load = Load::new(&target, 2, 1).expect("the server is there");
        let measured = load.open(2000.0, 0.05, Duration::ZERO).expect("silence is no error");
        let scheduled = Schedule::new(2000.0, 0.05).count() as u64;
        assert_eq!((measured.latencies.count(), measured.unanswered), (scheduled, scheduled));
    }

    #[test]
    fn a_closed_loop_waits_for_its_answers() {
        let target = start_server(3, usize::MAX);
        let mut load = Load::new(&target, 3, 2).expect("the server is there");
        let closed = load.closed(0.02).expect("all goes well");
        assert!(closed.latencies.count() >= 6, "at least one for each place");
        assert!(closed.seconds >= 0.02);
        let again = load.closed(0.0).expect("the connections can be used again");
        assert_eq!(again.latencies.count(), 6);
    }
}
