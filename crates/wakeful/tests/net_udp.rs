//! UDP on the real kernel, on both kinds of runtime.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use wakeful::io::{Interest, ReadBuf};
use wakeful::net::UdpSocket;
use wakeful::task::yield_now;

mod support {
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
    pub mod sockets;
}
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
use support::sockets::{poll_once, runtimes};

async fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

/// Two sockets that are connected to each other.
async fn pair() -> (UdpSocket, UdpSocket) {
    let ((a, addr_a), (b, addr_b)) = (socket().await, socket().await);
    a.connect(addr_b).await.unwrap();
    b.connect(addr_a).await.unwrap();
    (a, b)
}

/// A packet that can be told from others by its number.
fn packet(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize * 31 + at) as u8).collect()
}

#[test]
fn no_packet_is_lost_on_the_way_to_oneself_and_what_does_not_fit_is_cut_off() {
    let mut rng = TestRng::new(seed());
    for rt in runtimes() {
        let lens: Arc<[usize]> = (0..2_000).map(|_| rng.below(1_400)).collect();
        let mut rooms = rng.branch();
        rt.block_on(async {
            let ((near, near_addr), (far, far_addr)) = (socket().await, socket().await);
            let expected = lens.clone();
            let echo = wakeful::spawn(async move {
                let mut buf = vec![0; 2_000];
                for (number, &len) in expected.iter().enumerate() {
                    // Sometimes the buffer is too small for the packet.
                    let room = if rooms.one_in(4) { rooms.below(len + 1) } else { 2_000 };
                    let (count, sender) = far.recv_from(&mut buf[..room]).await.unwrap();
                    assert_eq!((count, sender), (len.min(room), near_addr));
                    assert_eq!(buf[..count], packet(number as u32, len)[..count]);
                    if number % 16 == 15 {
                        far.send_to(&[], sender).await.unwrap();
                    }
                }
            });
            for (number, &len) in lens.iter().enumerate() {
                let bytes = packet(number as u32, len);
                assert_eq!(near.send_to(&bytes, far_addr).await.unwrap(), len);
                // Keeps fewer packets in flight than the socket buffer surely holds.
                if number % 16 == 15 {
                    assert_eq!(near.recv(&mut [0; 8]).await.unwrap(), 0);
                }
            }
            echo.await.unwrap();
        });
    }
}

#[test]
fn all_peeks_and_receives_find_the_same_packet() {
    for rt in runtimes() {
        rt.block_on(async {
            let ((near, near_addr), (far, far_addr)) = (socket().await, socket().await);
            near.send_to(b"first", far_addr).await.unwrap();
            near.send_to(b"second", far_addr).await.unwrap();

            let mut buf = [0; 16];
            assert_eq!(far.peek_sender().await.unwrap(), near_addr);
            assert_eq!(far.try_peek_sender().unwrap(), near_addr);
            assert_eq!(poll_fn(|cx| far.poll_peek_sender(cx)).await.unwrap(), near_addr);
            assert_eq!(far.peek(&mut buf).await.unwrap(), 5);
            assert_eq!(far.try_peek(&mut buf[..3]).unwrap(), 3, "looking cuts off a copy");
            assert_eq!(far.peek_from(&mut buf).await.unwrap(), (5, near_addr));
            assert_eq!(far.try_peek_from(&mut buf).unwrap(), (5, near_addr));
            let mut read = ReadBuf::new(&mut buf);
            poll_fn(|cx| far.poll_peek(cx, &mut read)).await.unwrap();
            let sender = poll_fn(|cx| far.poll_peek_from(cx, &mut read)).await.unwrap();
            assert_eq!((read.filled(), sender), (&b"firstfirst"[..], near_addr));

            read.clear();
            let sender = poll_fn(|cx| far.poll_recv_from(cx, &mut read)).await.unwrap();
            poll_fn(|cx| far.poll_recv(cx, &mut read)).await.unwrap();
            assert_eq!((read.filled(), sender), (&b"firstsecond"[..], near_addr));
            let nothing = far.try_recv(&mut buf).unwrap_err();
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        });
    }
}

#[test]
fn a_buffer_that_grows_takes_one_packet_after_the_other() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, far) = pair().await;
            let sender = near.local_addr().unwrap();
            for text in ["a", "bc", "", "def"] {
                assert_eq!(near.send(text.as_bytes()).await.unwrap(), text.len());
            }
            let mut all = Vec::with_capacity(64);
            assert_eq!(far.recv_buf(&mut all).await.unwrap(), 1);
            assert_eq!(far.recv_buf_from(&mut all).await.unwrap(), (2, sender));
            assert_eq!(far.try_recv_buf(&mut all).unwrap(), 0);
            assert_eq!(far.try_recv_buf_from(&mut all).unwrap(), (3, sender));
            assert_eq!(all, b"abcdef");
        });
    }
}

#[test]
fn a_connected_socket_receives_only_from_its_peer() {
    for rt in runtimes() {
        rt.block_on(async {
            let ((near, near_addr), (other, _)) = (socket().await, socket().await);
            let (far, far_addr) = socket().await;
            assert_eq!(far.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
            let none: &[SocketAddr] = &[];
            assert_eq!(far.connect(none).await.unwrap_err().kind(), ErrorKind::InvalidInput);
            far.connect(near_addr).await.unwrap();
            assert_eq!(far.peer_addr().unwrap(), near_addr);

            other.send_to(b"stranger", far_addr).await.unwrap();
            near.send_to(b"friend", far_addr).await.unwrap();
            let mut buf = [0; 16];
            assert_eq!(far.recv(&mut buf).await.unwrap(), 6);
            assert_eq!(&buf[..6], b"friend");
            assert_eq!(far.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);

            assert_eq!(poll_fn(|cx| far.poll_send(cx, b"one")).await.unwrap(), 3);
            far.writable().await.unwrap();
            assert_eq!(far.try_send(b"two").unwrap(), 3);
            let poll_send_to = poll_fn(|cx| far.poll_send_to(cx, b"three", near_addr));
            assert_eq!(poll_send_to.await.unwrap(), 5);
            assert_eq!(far.try_send_to(b"four", near_addr).unwrap(), 4);
            for text in ["one", "two", "three", "four"] {
                let (count, sender) = near.recv_from(&mut buf).await.unwrap();
                assert_eq!((&buf[..count], sender), (text.as_bytes(), far_addr));
            }
        });
    }
}

#[test]
fn a_packet_that_comes_back_is_an_error_for_all_who_receive() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, _) = socket().await;
            let (gone, gone_addr) = socket().await;
            near.connect(gone_addr).await.unwrap();
            drop(gone);

            // Receives as a future, and with `poll_recv`.
            let mut buf = [0; 8];
            let mut recv = pin!(near.recv(&mut buf));
            assert!(poll_once(recv.as_mut()).await.is_pending());
            near.send(b"lost").await.unwrap();
            assert_eq!(recv.await.unwrap_err().kind(), ErrorKind::ConnectionRefused);

            let mut buf = [0; 8];
            let mut read = ReadBuf::new(&mut buf);
            let mut recv = pin!(poll_fn(|cx| near.poll_recv(cx, &mut read)));
            assert!(poll_once(recv.as_mut()).await.is_pending());
            near.send(b"lost").await.unwrap();
            assert_eq!(recv.await.unwrap_err().kind(), ErrorKind::ConnectionRefused);

            // The socket still works.
            let (back, back_addr) = socket().await;
            near.connect(back_addr).await.unwrap();
            near.send(b"found").await.unwrap();
            assert_eq!(back.recv(&mut [0; 8]).await.unwrap(), 5);

            // The socket does not count as closed: a sender without buffer space waits and does not spin. The kernel
            // may still report space that was freed before.
            let finds_no_room = || {
                let mut is_tried = false;
                let _ = near.try_io(Interest::WRITABLE, || {
                    is_tried = true;
                    Err::<(), _>(ErrorKind::WouldBlock.into())
                });
                is_tried
            };
            let mut looks = 0;
            while finds_no_room() {
                looks += 1;
                assert!(looks < 1_000, "what was seen is never taken back");
                yield_now().await;
            }
        });
    }
}

#[test]
fn many_tasks_receive_from_one_socket_and_each_packet_once() {
    const TASKS: usize = 8;
    const PACKETS: u32 = 1_000;
    for rt in runtimes() {
        rt.block_on(async {
            let ((near, near_addr), (far, far_addr)) = (socket().await, socket().await);
            let far = Arc::new(far);
            let receivers: Vec<_> = (0..TASKS)
                .map(|_| {
                    let far = far.clone();
                    wakeful::spawn(async move {
                        let mut numbers = Vec::new();
                        let mut buf = [0; 4];
                        loop {
                            let (_, sender) = far.recv_from(&mut buf).await.unwrap();
                            match u32::from_le_bytes(buf) {
                                u32::MAX => return numbers,
                                number => numbers.push(number),
                            }
                            far.send_to(&[1], sender).await.unwrap();
                        }
                    })
                })
                .collect();
            // At most sixteen packets are in flight.
            let mut answers = 0;
            for number in 0..PACKETS {
                near.send_to(&number.to_le_bytes(), far_addr).await.unwrap();
                if number >= 16 {
                    near.recv(&mut [0]).await.unwrap();
                    answers += 1;
                }
            }
            while answers < PACKETS {
                near.recv(&mut [0]).await.unwrap();
                answers += 1;
            }
            for _ in 0..TASKS {
                near.send_to(&u32::MAX.to_le_bytes(), far_addr).await.unwrap();
            }
            let mut all = Vec::new();
            for receiver in receivers {
                all.extend(receiver.await.unwrap());
            }
            all.sort_unstable();
            assert_eq!(all, Vec::from_iter(0..PACKETS), "sent from {near_addr}");
        });
    }
}

#[test]
fn a_receive_that_is_dropped_takes_nothing() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, far) = pair().await;
            for number in 0..200u8 {
                let mut first = [0];
                {
                    let mut dropped = pin!(far.recv(&mut first));
                    assert!(poll_once(dropped.as_mut()).await.is_pending());
                    near.send(&[number]).await.unwrap();
                    if number % 2 == 0 {
                        // The future was created, but not polled.
                        yield_now().await;
                    }
                }
                let mut byte = [0];
                far.readable().await.unwrap();
                assert_eq!(far.recv(&mut byte).await.unwrap(), 1);
                assert_eq!(byte, [number]);
            }
        });
    }
}

#[test]
fn readiness_wakes_every_task_that_waits_for_it() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, far) = pair().await;
            let far = Arc::new(far);
            poll_fn(|cx| near.poll_send_ready(cx)).await.unwrap();
            let ready = near.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
            assert!(ready.is_writable() && !ready.is_readable());

            let waiting: Vec<_> = (0..4)
                .map(|n| {
                    let far = far.clone();
                    wakeful::spawn(async move {
                        match n {
                            0 => poll_fn(|cx| far.poll_recv_ready(cx)).await.unwrap(),
                            1 => {
                                assert!(far.ready(Interest::READABLE).await.unwrap().is_readable())
                            }
                            _ => far.readable().await.unwrap(),
                        }
                    })
                })
                .collect();
            near.send(b"x").await.unwrap();
            for task in waiting {
                task.await.unwrap();
            }
            let mut buf = [0; 8];
            let by_hand = far.async_io(Interest::READABLE, || far.try_recv(&mut buf));
            assert_eq!(by_hand.await.unwrap(), 1);
            let tried = far.try_io(Interest::READABLE, || far.try_recv(&mut buf));
            assert_eq!(tried.unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    }
}

#[test]
fn a_socket_moves_from_one_runtime_to_another() {
    let [first, second, _third] = runtimes();
    let (near, far) = first.block_on(pair());
    let far = far.into_std().unwrap();
    drop(first.runtime);
    drop(first.reports);
    // The socket of the ended runtime returns errors and does not hang.
    second.block_on(async {
        assert!(near.recv(&mut [0]).await.is_err());
        assert!(near.readable().await.is_err());
        assert!(near.try_send(b"x").is_err());
        let far = UdpSocket::try_from(far).unwrap();
        let near = UdpSocket::from_std(near.into_std().unwrap()).unwrap();
        near.send(b"moved").await.unwrap();
        assert_eq!(far.recv(&mut [0; 8]).await.unwrap(), 5);
    });
}

#[test]
fn options_are_set_and_read_back() {
    let [rt, ..] = runtimes();
    rt.block_on(async {
        let (v4, _) = socket().await;
        for on in [true, false] {
            v4.set_broadcast(on).unwrap();
            assert_eq!(v4.broadcast().unwrap(), on);
            v4.set_multicast_loop_v4(on).unwrap();
            assert_eq!(v4.multicast_loop_v4().unwrap(), on);
        }
        v4.set_multicast_ttl_v4(7).unwrap();
        assert_eq!(v4.multicast_ttl_v4().unwrap(), 7);
        v4.set_ttl(33).unwrap();
        assert_eq!(v4.ttl().unwrap(), 33);
        v4.set_tos_v4(0x10).unwrap();
        assert_eq!(v4.tos_v4().unwrap(), 0x10);
        assert_eq!(v4.device().unwrap(), None);
        v4.bind_device(None).unwrap();
        assert!(v4.take_error().unwrap().is_none());

        let (group, here) = (Ipv4Addr::new(239, 1, 2, 3), Ipv4Addr::LOCALHOST);
        assert!(v4.leave_multicast_v4(group, here).is_err(), "not joined yet");
        v4.join_multicast_v4(group, here).unwrap();
        assert!(v4.join_multicast_v4(group, here).is_err(), "joined already");
        v4.leave_multicast_v4(group, here).unwrap();

        // The machine may have no IPv6.
        let Ok(v6) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).await else { return };
        for on in [false, true] {
            v6.set_multicast_loop_v6(on).unwrap();
            assert_eq!(v6.multicast_loop_v6().unwrap(), on);
        }
        v6.set_tclass_v6(0x20).unwrap();
        assert_eq!(v6.tclass_v6().unwrap(), 0x20);
        let group = "ff01::123".parse().unwrap();
        assert!(v6.leave_multicast_v6(&group, 1).is_err(), "not joined yet");
        v6.join_multicast_v6(&group, 1).unwrap();
        v6.leave_multicast_v6(&group, 1).unwrap();
    });
}

#[test]
fn members_of_a_multicast_group_receive_what_is_sent_to_it() {
    let [rt, ..] = runtimes();
    rt.block_on(async {
        let receiver = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let group = Ipv4Addr::new(239, 7, 7, 7);
        receiver.join_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket2::SockRef::from(&sender).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
        let port = receiver.local_addr().unwrap().port();
        sender.send_to(b"all", (group, port)).await.unwrap();
        let mut buf = [0; 8];
        let (count, from) = receiver.recv_from(&mut buf).await.unwrap();
        assert_eq!((&buf[..count], from), (&b"all"[..], sender.local_addr().unwrap()));
    });
}

#[test]
fn addresses_of_both_families_and_names_do() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, near_addr) = socket().await;
            near.send_to(b"me", ("localhost", near_addr.port())).await.unwrap_or(0);
            near.send_to(b"me", near_addr.to_string()).await.unwrap();
            assert_eq!(near.recv_from(&mut [0; 4]).await.unwrap(), (2, near_addr));

            let none: &[SocketAddr] = &[];
            let unsent = near.send_to(b"x", none).await.unwrap_err();
            assert_eq!(unsent.kind(), ErrorKind::InvalidInput);
            let unbound = UdpSocket::bind(none).await.unwrap_err();
            assert_eq!(unbound.kind(), ErrorKind::InvalidInput);
            let taken = UdpSocket::bind(near_addr).await.unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::AddrInUse);
            let second = UdpSocket::bind(&[near_addr, "127.0.0.1:0".parse().unwrap()][..]).await;
            assert_ne!(second.unwrap().local_addr().unwrap(), near_addr);

            // The machine may have no IPv6.
            let Ok(v6) = UdpSocket::bind("[::1]:0").await else { return };
            let v6_addr = v6.local_addr().unwrap();
            v6.send_to(b"six", v6_addr).await.unwrap();
            assert_eq!(v6.recv_from(&mut [0; 4]).await.unwrap(), (3, v6_addr));
        });
    }
}

#[test]
fn a_socket_that_blocks_is_refused_at_the_call() {
    let [rt, ..] = runtimes();
    let _inside = rt.enter();
    let blocking = net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let site = panic_site(move || UdpSocket::from_std(blocking));
    assert!(site.message.starts_with("Registering a blocking socket with the tokio runtime"));
    assert_eq!(site.file, file!());
    let outside = std::thread::spawn(|| {
        let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        panic_site(move || UdpSocket::from_std(socket))
    });
    let site = outside.join().unwrap();
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    assert_eq!(site.file, file!());
}

#[test]
fn a_task_that_always_finds_a_packet_lets_others_run() {
    let rt = support::sockets::current_thread();
    rt.block_on(async {
        let (me, addr) = socket().await;
        me.connect(addr).await.unwrap();
        let other = wakeful::spawn(async {});
        let mut rounds = 0;
        while !other.is_finished() {
            me.send(b"x").await.unwrap();
            me.recv(&mut [0]).await.unwrap();
            rounds += 1;
            assert!(rounds < 1_000, "the budget ends the turn");
        }
    });
}
