use std::{
    pin::pin,
    task::{Context, Waker},
};

use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn others_are_at_work_until_nothing_has_come_for_a_while() {
    let begin = clock::instant();
    let mut traffic = Traffic::default();
    let almost = LINGER.saturating_sub(Duration::from_nanos(1));
    let looks: [(Duration, u64, bool); 8] = [
        (Duration::ZERO, 0, false),
        (LINGER, 1, true),
        (LINGER + almost, 1, true),
        (LINGER * 2, 1, false),
        (LINGER * 3, 1, false),
        (LINGER * 3, 2, true),
        (LINGER * 3 + almost, 9, true),
        (LINGER * 4, 9, true),
    ];
    for look @ (after, handed_over, expected) in looks {
        assert_eq!(traffic.goes_on(handed_over, begin + after), expected, "{look:?}");
    }
}

#[test]
fn under_traffic_the_pauses_of_all_scrapers_follow_each_other() {
    let (scrape_throttle, executor) = (ScrapeThrottle::default(), Executor::default());
    let look = || scrape_throttle.yield_to_traffic(&executor);
    executor.note_traffic();
    let begin = clock::instant();
    runtime().block_on(async { tokio::join!(look(), look(), look(), look()) });
    assert!(clock::instant() - begin >= PAUSE * 4);
}

#[test]
fn while_nobody_else_is_at_work_only_a_turn_is_given() {
    let (scrape_throttle, executor) = (ScrapeThrottle::default(), Executor::default());
    // Without a timer a pause would panic.
    let runtime = Builder::new_current_thread().build().unwrap();
    let look = || scrape_throttle.yield_to_traffic(&executor);
    runtime.block_on(async { tokio::join!(look(), look(), look(), look()) });
}

#[test]
fn a_scraper_that_leaves_in_a_pause_delays_no_other() {
    let (scrape_throttle, executor) = (ScrapeThrottle::default(), Executor::default());
    executor.note_traffic();
    runtime().block_on(async {
        {
            let mut gone = pin!(scrape_throttle.yield_to_traffic(&executor));
            assert!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        scrape_throttle.yield_to_traffic(&executor).await;
    });
}
