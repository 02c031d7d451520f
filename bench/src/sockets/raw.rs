//! A server without a runtime: one thread, one epoll, level-triggered. Nothing that
//! waits for readiness can do much better, so this is the limit.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{BUFFER, Service, hello};

/// The key of the listener. Keys of connections count from zero.
const LISTENER: u64 = u64::MAX;

/// Serves forever.
pub fn serve(listener: TcpListener, service: Service) {
    let epoll = epoll::create(CreateFlags::CLOEXEC).expect("there is an epoll");
    let watch = |fd: &dyn AsFd, number| {
        epoll::add(&epoll, fd, EventData::new_u64(number), EventFlags::IN).expect("it is watched")
    };
    watch(&listener, LISTENER);
    let answer = hello::answer();
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None).expect("epoll waits");
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).expect("it can be non-blocking");
                    stream.set_nodelay(true).expect("it is a TCP socket");
                    watch(&stream, connections.len() as u64);
                    connections.push(Some(stream));
                }
                continue;
            }
            let place = &mut connections[number as usize];
            let stream = place.as_mut().expect("closed ones have no events");
            let done = match service {
                Service::Echo | Service::BusyEcho => echo(stream),
                Service::Http => respond(stream, &answer),
            };
            if done {
                *place = None;
            }
        }
    }
}

/// Echoes what has arrived. Returns whether the connection is at its end.
fn echo(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; BUFFER];
    match stream.read(&mut buffer) {
        Ok(0) => true,
        Ok(count) => send(stream, &buffer[..count]),
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Answers each read as one whole request, because wrk sends one at a time. Returns whether the
/// connection is at its end.
fn respond(stream: &mut TcpStream, answer: &[u8]) -> bool {
    let mut buffer = [0; BUFFER];
    match stream.read(&mut buffer) {
        Ok(0) => true,
        Ok(count) if buffer[..count].ends_with(b"\r\n\r\n") => send(stream, answer),
        Ok(_) => panic!("a request in pieces"),
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Sends an answer, which fits into the socket's buffer. Returns whether that failed.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_err()
}
