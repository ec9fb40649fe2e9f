use std::{
    sync::atomic::AtomicU32,
    task::{Wake, Waker},
};

use super::*;

#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection at rest; false: it does not want to read more.
fn rests(effect_queue: &Arc<EffectQueue>, bell: &Arc<Bell>) -> bool {
    assert!(effect_queue.poll_take(&Context::from_waker(&Waker::from(Arc::clone(bell)))).is_pending());
    effect_queue.may_read()
}

#[test]
fn a_connection_reads_below_each_limit_and_not_at_it() {
    let cases = [
        // the limit of all, its own bytes, those of others, may it read
        (usize::MAX, IN_FLIGHT_MAX - 1, 0, true),
        (usize::MAX, IN_FLIGHT_MAX, 0, false),
        (100, 99, 0, true),
        (100, 100, 0, false),
        (100, 0, 99, true),
        (100, 0, 100, false),
        (100, 50, 50, false),
        (100, 50, 49, true),
    ];
    for case @ (limit, own, others, expected) in cases {
        let of_all = Arc::new(IngressCredit::new(limit));
        let effect_queues = [(); 2].map(|()| Arc::new(EffectQueue::new(Arc::clone(&of_all))));
        effect_queues[0].handed_over(own);
        effect_queues[1].handed_over(others);
        assert_eq!(effect_queues[0].may_read(), expected, "{case:?}");
    }
}

#[test]
fn all_waiting_tasks_are_woken_each_time_there_is_room() {
    let of_all = Arc::new(IngressCredit::new(100));
    let busy = EffectQueue::new(Arc::clone(&of_all));
    let bell = Arc::<Bell>::default();
    let waiting: Vec<_> = (0..3).map(|_| Arc::new(EffectQueue::new(Arc::clone(&of_all)))).collect();
    for round in 1..=3 {
        busy.handed_over(150);
        for effect_queue in &waiting {
            assert!(!rests(effect_queue, &bell));
            // It may be woken for other things, and then waits as before.
            assert!(!rests(effect_queue, &bell));
        }
        busy.processed(50);
        assert_eq!(bell.0.load(Ordering::Relaxed), 3 * (round - 1), "no room yet");
        busy.processed(1);
        assert_eq!(bell.0.load(Ordering::Relaxed), 3 * round);
        assert!(waiting.iter().all(EffectQueue::may_read));
        busy.processed(99);
    }
}
