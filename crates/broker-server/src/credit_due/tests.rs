use super::*;
use crate::effect_queue::IN_FLIGHT_MAX;

const CLIENT: Client = (NamespaceId::DEFAULT, ClientId(7));

#[test]
fn each_batch_is_looked_at_once_and_those_of_a_client_that_waits_not_at_all() {
    const BATCHES: usize = 300;
    let effect_queue = Arc::new(EffectQueue::default());
    let mut credit_due = CreditDue::default();
    let mut looks = 0;
    for client in 0..200 {
        let client = (NamespaceId::DEFAULT, ClientId(client));
        for _ in 0..BATCHES {
            credit_due.add(client, &effect_queue, 1);
            credit_due.release(|_| {
                looks += 1;
                true
            });
        }
    }
    assert_eq!(looks, 200, "only the first batch of each is looked at");
}

#[test]
fn a_client_that_has_waited_gets_back_once_what_all_its_batches_weigh() {
    const BATCHES: usize = 300;
    let effect_queue = Arc::new(EffectQueue::default());
    let mut credit_due = CreditDue::default();
    for round in 0..BATCHES {
        effect_queue.handed_over(IN_FLIGHT_MAX);
        credit_due.add(CLIENT, &effect_queue, IN_FLIGHT_MAX);
        credit_due.release(|_| true);
        assert!(!effect_queue.may_read(), "round {round}");
    }
    // It was told of, and has sent more since.
    credit_due.on_caught_up(CLIENT, |_| true);
    assert!(!effect_queue.may_read());
    credit_due.on_caught_up(CLIENT, |_| false);
    assert!(effect_queue.may_read());
    // Nothing is left that could be given back twice.
    effect_queue.handed_over(IN_FLIGHT_MAX);
    credit_due.on_caught_up(CLIENT, |_| panic!("it does not wait"));
    credit_due.release(|_| panic!("nothing was sent"));
    assert!(!effect_queue.may_read());
}

#[test]
fn credit_is_released_at_once_to_clients_that_do_not_wait() {
    let queues = [(); 3].map(|()| Arc::new(EffectQueue::default()));
    let mut credit_due = CreditDue::default();
    for (client, effect_queue) in (0..).zip(&queues) {
        effect_queue.handed_over(IN_FLIGHT_MAX);
        credit_due.add((NamespaceId::DEFAULT, ClientId(client)), effect_queue, IN_FLIGHT_MAX);
    }
    let [first, second, third] = &queues;
    let may_read = || [first.may_read(), second.may_read(), third.may_read()];
    assert_eq!(may_read(), [false; 3]);
    credit_due.release(|(_, client)| client == ClientId(1));
    assert_eq!(may_read(), [true, false, true]);
    credit_due.on_caught_up((NamespaceId::DEFAULT, ClientId(1)), |_| false);
    assert_eq!(may_read(), [true; 3]);
}
