use super::*;

#[test]
fn with_many_deferred_batches_each_entry_is_visited_once_in_a_step() {
    const CLIENTS: u64 = 200;
    let effect_queue = Arc::new(EffectQueue::default());
    let mut credit_due = CreditDue::default();
    let mut visits = 0;
    for client in 0..CLIENTS {
        credit_due.add((NamespaceId::DEFAULT, ClientId(client)), &effect_queue, 1);
        credit_due.on_handled(true, |_| {
            visits += 1;
            true
        });
    }
    credit_due.release(|_| {
        visits += 1;
        true
    });
    assert_eq!(visits, CLIENTS);
}

#[test]
fn credit_is_released_at_once_where_nothing_is_deferred_and_later_only_to_connections_that_do_not_wait() {
    let queues = [(); 3].map(|()| Arc::new(EffectQueue::default()));
    let mut credit_due = CreditDue::default();
    let limit = crate::effect_queue::IN_FLIGHT_MAX;
    for (client, effect_queue) in (0..).zip(&queues) {
        effect_queue.handed_over(limit);
        credit_due.add((NamespaceId::DEFAULT, ClientId(client)), effect_queue, limit);
        credit_due.on_handled(client > 0, |_| false);
    }
    let [first, second, third] = &queues;
    let may_read = || [first.may_read(), second.may_read(), third.may_read()];
    assert_eq!(may_read(), [true, false, false]);
    credit_due.release(|(_, client)| client == ClientId(1));
    assert_eq!(may_read(), [true, false, true]);
    credit_due.release(|_| false);
    assert_eq!(may_read(), [true; 3]);
}
