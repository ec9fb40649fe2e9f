use std::{
    collections::BTreeSet,
    future::pending,
    sync::mpsc::{self, Receiver},
    thread::ThreadId,
};

use tokio::sync::Notify;

use super::*;

/// Says, when asked, on which thread it is served; then it is served for ever.
fn probe(spawner: &Spawner) -> Receiver<ThreadId> {
    let (tell, told) = mpsc::channel();
    spawner.spawn(|_| async move {
        tell.send(thread::current().id()).ok();
        pending::<()>().await;
    });
    told
}

#[test]
fn futures_spread_over_the_threads() {
    let threads = Threads::start(2).unwrap();
    let spawner = threads.spawner();
    let first: BTreeSet<String> = (0..2).map(|_| format!("{:?}", probe(&spawner).recv().unwrap())).collect();
    assert_eq!(first.len(), 2, "one for each thread");
}

#[test]
fn a_pass_comes_back_when_every_future_that_was_woken_before_has_had_a_turn() {
    const FUTURES: usize = 100;
    let threads = Threads::start(2).unwrap();
    let spawner = threads.spawner();
    let (woken, turns) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (wait, waiting) = mpsc::channel();
    for _ in 0..FUTURES {
        let (woken, turns, wait) = (Arc::clone(&woken), Arc::clone(&turns), wait.clone());
        spawner.spawn(|_| async move {
            let mut notified = Box::pin(woken.notified());
            notified.as_mut().enable();
            wait.send(()).unwrap();
            notified.await;
            turns.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(waiting.iter().take(FUTURES).count(), FUTURES);
    woken.notify_waiters();
    Builder::new_current_thread().build().unwrap().block_on(spawner.pass());
    assert_eq!(turns.load(Ordering::Relaxed), FUTURES);
    drop(threads);
    // Nothing is served any more, and nobody waits for it.
    Builder::new_current_thread().build().unwrap().block_on(spawner.pass());
}

#[test]
fn served_connections_end_with_the_threads() {
    let threads = Threads::start(1).unwrap();
    let spawner = threads.spawner();
    let told = probe(&spawner);
    told.recv().unwrap();
    drop(threads);
    assert!(told.recv().is_err(), "the future is gone");
    assert!(probe(&spawner).recv().is_err(), "nothing is served any more");
}

#[test]
fn a_place_is_free_again_when_its_future_has_ended() {
    let threads = Threads::start(1).unwrap();
    let spawner = threads.spawner();
    let (done, waiting) = mpsc::channel::<()>();
    spawner.spawn(|_| async move { drop(done) });
    assert!(waiting.recv().is_err());
    drop(threads);
    assert_eq!(spawner.0.first().map(|lane| lane.serves.load(Ordering::Relaxed)), Some(0));
}
