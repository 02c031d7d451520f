//! Rows of the table in `dropped_futures.rs`: tasks, sets of tasks, time.

use super::*;

pub fn tasks(rows: &mut Vec<Row>) {
    row!(
        rows,
        "JoinHandle, by reference",
        {
            let (open, opened) = gate();
            let mut task = rt::spawn(opened);
            let abort = task.abort_handle();
        },
        &mut task,
        open.send(()).unwrap(),
        has_finished(&abort).await
    );
    row!(
        rows,
        "JoinHandle, by reference, aborted",
        {
            let (_open, opened) = gate();
            let mut task = rt::spawn(opened);
            let abort = task.abort_handle();
        },
        &mut task,
        abort.abort(),
        has_finished(&abort).await
    );
    row!(
        rows,
        "JoinHandle, by value",
        {
            let (open, opened) = gate();
            let task = rt::spawn(opened);
            let abort = task.abort_handle();
        },
        task,
        open.send(()).unwrap(),
        has_finished(&abort).await
    );
    row!(
        rows,
        "JoinHandle of spawn_blocking, by reference",
        {
            let (open, opened) = std_mpsc::channel::<()>();
            let mut task = spawn_blocking(move || opened.recv().unwrap());
        },
        &mut task,
        open.send(()).unwrap(),
        pool_is_idle().await
    );
    row!(
        rows,
        "LocalSet, by reference",
        {
            let mut set = LocalSet::new();
            let (open, opened) = gate();
            set.spawn_local(opened);
        },
        &mut set,
        open.send(()).unwrap()
    );
    row!(
        rows,
        "LocalSet, by reference, a task is spawned",
        {
            let mut set = LocalSet::new();
            let (_open, opened) = gate();
            set.spawn_local(opened);
            let (spawn, spawned) = std_mpsc::channel::<()>();
            let (open, opened) = gate();
            set.spawn_local(async move {
                opened.await;
                spawned.try_recv().unwrap();
            });
        },
        &mut set,
        {
            spawn.send(()).unwrap();
            open.send(()).unwrap()
        }
    );
    row!(
        rows,
        "LocalSet::run_until",
        {
            let set = LocalSet::new();
            let (open, opened) = gate();
            set.spawn_local(opened);
        },
        set.run_until(std::future::pending::<()>()),
        open.send(()).unwrap()
    );
    row!(
        rows,
        "LocalSet::run_until, its future's event",
        {
            let set = LocalSet::new();
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        set.run_until(rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(rows, "yield_now", {}, yield_now(), (), yield_now().await);
    row!(
        rows,
        "coop::consume_budget, none left",
        { while poll_once(Box::pin(coop::consume_budget()).as_mut()).is_ready() {} },
        coop::consume_budget(),
        (),
        yield_now().await
    );
    row!(
        rows,
        "coop::unconstrained over recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        coop::unconstrained(rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "coop::cooperative over recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        coop::cooperative(rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "LocalKey::scope over recv",
        {
            rt::task_local! { static NUMBER: u32; }
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        NUMBER.scope(1, rx.recv()),
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "select! over recv and join_next",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            let mut set = JoinSet::new();
            set.spawn(std::future::pending::<()>());
        },
        async {
            rt::select! {
                _ = rx.recv() => {}
                _ = set.join_next() => {}
            }
        },
        tx.try_send(1).unwrap()
    );
    row!(
        rows,
        "join! over two recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
            let (_other, mut never) = mpsc::channel::<u32>(1);
        },
        async { rt::join!(rx.recv(), never.recv()) },
        tx.try_send(1).unwrap()
    );
}

pub fn sets(rows: &mut Vec<Row>) {
    row!(
        rows,
        "JoinSet::join_next",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_next(),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::join_next, aborted",
        {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_next(),
        task.abort(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::join_next_with_id",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_next_with_id(),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::poll_join_next",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        std::future::poll_fn(|cx| set.poll_join_next(cx)),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::poll_join_next_with_id",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        std::future::poll_fn(|cx| set.poll_join_next_with_id(cx)),
        open.send(()).unwrap(),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::join_all",
        {
            let mut set = JoinSet::new();
            let (open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.join_all(),
        _ = open.send(()),
        has_finished(&task).await
    );
    row!(
        rows,
        "JoinSet::shutdown",
        {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            let task = set.spawn(opened);
        },
        set.shutdown(),
        (),
        has_finished(&task).await
    );
    // These two end the wait in another way, and have no run that keeps the future.
    rows.push((
        "JoinSet::join_next, then the set is dropped",
        run(async {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            let task = set.spawn(opened);
            let wakes = Arc::new(Wakes::default());
            wakes.poll("join_next", Box::pin(set.join_next()).as_mut());
            drop(set);
            has_finished(&task).await;
            wakes.any()
        }),
    ));
    rows.push((
        "JoinSet::join_next, then detach_all, then another task ends",
        run(async {
            let mut set = JoinSet::new();
            let (_open, opened) = gate();
            set.spawn(opened);
            let wakes = Arc::new(Wakes::default());
            wakes.poll("join_next", Box::pin(set.join_next()).as_mut());
            set.detach_all();
            let task = set.spawn(async {});
            has_finished(&task).await;
            wakes.any()
        }),
    ));
}

pub fn times(rows: &mut Vec<Row>) {
    row!(run_paused, rows, "sleep", {}, sleep(TICK), (), sleep(2 * TICK).await);
    row!(
        run_paused,
        rows,
        "sleep, by reference",
        {
            let mut sleep_once = Box::pin(sleep(TICK));
        },
        sleep_once.as_mut(),
        (),
        sleep(2 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "sleep_until",
        {},
        sleep_until(Instant::now() + TICK),
        (),
        sleep(2 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "Interval::tick",
        {
            let mut interval = interval(2 * TICK);
            interval.tick().await;
        },
        interval.tick(),
        (),
        sleep(4 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "Interval::poll_tick",
        {
            let mut interval = interval(2 * TICK);
            interval.tick().await;
        },
        std::future::poll_fn(|cx| interval.poll_tick(cx)),
        (),
        sleep(4 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "timeout, its time",
        {},
        timeout(TICK, std::future::pending::<()>()),
        (),
        sleep(2 * TICK).await
    );
    row!(
        run_paused,
        rows,
        "timeout_at, its time",
        {},
        timeout_at(Instant::now() + TICK, std::future::pending::<()>()),
        (),
        sleep(2 * TICK).await
    );
    row!(
        rows,
        "timeout over recv",
        {
            let (tx, mut rx) = mpsc::channel::<u32>(1);
        },
        timeout(NEVER, rx.recv()),
        tx.try_send(1).unwrap()
    );
}
