//! Rows of the table in `dropped_futures.rs`: locks, events, channels.

use super::*;

pub fn locks(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Mutex::lock",
        {
            let mutex = Mutex::new(());
            let guard = mutex.lock().await;
        },
        mutex.lock(),
        drop(guard)
    );
    row!(
        rows,
        "Mutex::lock_owned",
        {
            let mutex = Arc::new(Mutex::new(()));
            let guard = mutex.lock().await;
        },
        mutex.clone().lock_owned(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::read",
        {
            let lock = RwLock::new(());
            let guard = lock.write().await;
        },
        lock.read(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::write",
        {
            let lock = RwLock::new(());
            let guard = lock.read().await;
        },
        lock.write(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::read_owned",
        {
            let lock = Arc::new(RwLock::new(()));
            let guard = lock.write().await;
        },
        lock.clone().read_owned(),
        drop(guard)
    );
    row!(
        rows,
        "RwLock::write_owned",
        {
            let lock = Arc::new(RwLock::new(()));
            let guard = lock.read().await;
        },
        lock.clone().write_owned(),
        drop(guard)
    );
    row!(
        rows,
        "Semaphore::acquire",
        {
            let permits = Semaphore::new(0);
        },
        permits.acquire(),
        permits.add_permits(1)
    );
    row!(
        rows,
        "Semaphore::acquire, closed",
        {
            let permits = Semaphore::new(0);
        },
        permits.acquire(),
        permits.close()
    );
    row!(
        rows,
        "Semaphore::acquire_many",
        {
            let permits = Semaphore::new(1);
        },
        permits.acquire_many(2),
        permits.add_permits(1)
    );
    row!(
        rows,
        "Semaphore::acquire_owned",
        {
            let permits = Arc::new(Semaphore::new(0));
        },
        permits.clone().acquire_owned(),
        permits.add_permits(1)
    );
    row!(
        rows,
        "Semaphore::acquire_many_owned",
        {
            let permits = Arc::new(Semaphore::new(1));
        },
        permits.clone().acquire_many_owned(2),
        permits.add_permits(1)
    );
}

pub fn events(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Notify::notified, notify_one",
        {
            let notify = Notify::new();
        },
        notify.notified(),
        notify.notify_one()
    );
    row!(
        rows,
        "Notify::notified, notify_waiters",
        {
            let notify = Notify::new();
        },
        notify.notified(),
        notify.notify_waiters()
    );
    row!(
        rows,
        "Notify::notified_owned",
        {
            let notify = Arc::new(Notify::new());
        },
        notify.clone().notified_owned(),
        notify.notify_one()
    );
    row!(
        rows,
        "Barrier::wait",
        {
            let barrier = Barrier::new(2);
        },
        barrier.wait(),
        drop(poll_once(Box::pin(barrier.wait()).as_mut()))
    );
    row!(
        rows,
        "OnceCell::get_or_init",
        {
            let cell = OnceCell::new();
            let (open, opened) = gate();
            let mut first = Box::pin(cell.get_or_init(|| opened));
            assert!(poll_once(first.as_mut()).is_pending());
        },
        cell.get_or_init(async || ()),
        {
            open.send(()).unwrap();
            assert!(poll_once(first.as_mut()).is_ready());
        }
    );
    row!(
        rows,
        "OnceCell::get_or_try_init",
        {
            let cell = OnceCell::new();
            let (open, opened) = gate();
            let mut first = Box::pin(cell.get_or_init(|| opened));
            assert!(poll_once(first.as_mut()).is_pending());
        },
        cell.get_or_try_init(async || Ok::<_, ()>(())),
        {
            open.send(()).unwrap();
            assert!(poll_once(first.as_mut()).is_ready());
        }
    );
    row!(
        rows,
        "SetOnce::wait",
        {
            let cell = SetOnce::new();
        },
        cell.wait(),
        cell.set(1).unwrap()
    );
}

pub fn channels(rows: &mut Vec<Row>) {
    row!(
        rows,
        "mpsc::Receiver::recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        rx.recv(),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::Receiver::recv, last sender dropped",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        rx.recv(),
        drop(tx)
    );
    row!(
        rows,
        "mpsc::Receiver::recv_many",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            let mut buffer = Vec::new();
        },
        rx.recv_many(&mut buffer, 4),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::Receiver::poll_recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        std::future::poll_fn(|cx| rx.poll_recv(cx)),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::recv",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        },
        rx.recv(),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::recv, last sender dropped",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        },
        rx.recv(),
        drop(tx)
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::recv_many",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
            let mut buffer = Vec::new();
        },
        rx.recv_many(&mut buffer, 4),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::poll_recv",
        {
            let (tx, mut rx) = mpsc::unbounded_channel::<u32>();
        },
        std::future::poll_fn(|cx| rx.poll_recv(cx)),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::send",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.send(2),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::send_timeout",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.send_timeout(2, NEVER),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::reserve",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.reserve(),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::reserve_many",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(2);
            tx.try_send(1).unwrap();
        },
        tx.reserve_many(2),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::reserve_owned",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            tx.try_send(1).unwrap();
        },
        tx.clone().reserve_owned(),
        rx.try_recv().unwrap()
    );
    row!(
        rows,
        "mpsc::Sender::closed",
        {
            let (tx, rx) = mpsc::channel::<u32>(1);
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "mpsc::UnboundedSender::closed",
        {
            let (tx, rx) = mpsc::unbounded_channel::<u32>();
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "oneshot::Receiver, by reference",
        {
            let (tx, mut rx) = oneshot::channel::<u32>();
        },
        &mut rx,
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "oneshot::Receiver, by reference, sender dropped",
        {
            let (tx, mut rx) = oneshot::channel::<u32>();
        },
        &mut rx,
        drop(tx)
    );
    row!(
        rows,
        "oneshot::Sender::closed, receiver dropped",
        {
            let (mut tx, rx) = oneshot::channel::<u32>();
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "oneshot::Sender::closed, receiver closed",
        {
            let (mut tx, mut rx) = oneshot::channel::<u32>();
        },
        tx.closed(),
        rx.close()
    );
    row!(
        rows,
        "oneshot::Sender::poll_closed",
        {
            let (mut tx, rx) = oneshot::channel::<u32>();
        },
        std::future::poll_fn(|cx| tx.poll_closed(cx)),
        drop(rx)
    );
}

pub fn broadcast_and_watch(rows: &mut Vec<Row>) {
    row!(
        rows,
        "broadcast::Receiver::recv",
        {
            let (tx, mut rx) = broadcast::channel::<u32>(2);
        },
        rx.recv(),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "broadcast::Receiver::recv, last sender dropped",
        {
            let (tx, mut rx) = broadcast::channel::<u32>(2);
        },
        rx.recv(),
        drop(tx)
    );
    row!(
        rows,
        "broadcast::Sender::closed",
        {
            let (tx, rx) = broadcast::channel::<u32>(2);
        },
        tx.closed(),
        drop(rx)
    );
    row!(
        rows,
        "watch::Receiver::changed",
        {
            let (tx, mut rx) = watch::channel(0);
        },
        rx.changed(),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "watch::Receiver::changed, last sender dropped",
        {
            let (tx, mut rx) = watch::channel(0);
        },
        rx.changed(),
        drop(tx)
    );
    row!(
        rows,
        "watch::Receiver::wait_for",
        {
            let (tx, mut rx) = watch::channel(0);
        },
        rx.wait_for(|value| *value == 1),
        tx.send(1).unwrap()
    );
    row!(
        rows,
        "watch::Sender::closed",
        {
            let (tx, rx) = watch::channel(0);
        },
        tx.closed(),
        drop(rx)
    );
}
