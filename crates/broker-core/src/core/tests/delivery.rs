//! Messages go out: order, turns, credit, budget, drain, browse, peek (requirements SET-6 to SET-10).

use super::harness::*;
use crate::{
    ClientId, Command, CoreConfig, Effect, EntitySettings, LinkId, Outcome, ReceiveMode, SequenceNumber,
    UnsettledPolicy,
};

fn queue_of(texts: &[&str]) -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(texts);
    broker
}

fn drain(broker: &mut Broker, client: ClientId, link: u32, limit: u64) -> (Vec<String>, Vec<u64>) {
    let told = broker.tell(client, Command::Credit { consumer: LinkId(link), limit, drain: true });
    let counts = told.iter().filter_map(|effect| match effect {
        Effect::Drained { consumer, count } if *consumer == LinkId(link) => Some(*count),
        _ => None,
    });
    let counts = counts.collect();
    let counts: Vec<u64> = counts;
    let is_last = matches!(told.last(), Some(Effect::Drained { .. }));
    assert_eq!(is_last, !counts.is_empty(), "drained comes after the deliveries");
    (texts(&deliveries(told)), counts)
}

#[test]
fn a_message_goes_in_and_out_and_is_gone_after_complete() {
    let mut broker = queue_of(&["a", "b"]);
    let got = broker.lock(10);
    assert_eq!(texts(&got), ["a", "b"]);
    for delivery in &got {
        assert_eq!(broker.settle(delivery, Outcome::Complete), Ok(()));
    }
    assert_eq!(broker.active(), 0);
    assert!(broker.lock(10).is_empty());
    broker.check_liveness();
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn receive_and_delete_hands_out_once_and_records_it_first() {
    let mut broker = queue_of(&["a", "b", "c"]);
    let got = broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 2);
    assert_eq!(texts(&got), ["a", "b"]);
    assert!(got.iter().all(|delivery| delivery.lock.is_none()));
    assert_eq!(texts(&broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9)), ["c"]);
    broker.check_liveness();
    broker.restart();
    assert!(broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9).is_empty());
}

#[test]
fn consumers_take_turns() {
    let mut broker = queue_of(&["a", "b", "c", "d", "e"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::PeekLock);
    let both = vec![
        Command::Credit { consumer: LinkId(1), limit: 0, drain: false },
        Command::Credit { consumer: LinkId(1), limit: 10, drain: false },
    ];
    broker.core.handle_batch(broker.now, crate::Batch { client: OTHER, commands: both }, &mut broker.journal);
    let mine = broker.credit(ME, 1, 2);
    assert_eq!(texts(&mine), ["b", "d"]);
    assert_eq!(texts(&broker.received(OTHER)), ["a", "c", "e"]);
}

#[test]
fn credit_is_an_absolute_count_that_may_go_down() {
    let mut broker = queue_of(&["a", "b", "c", "d"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(texts(&broker.credit(ME, 1, 2)), ["a", "b"]);
    assert!(broker.credit(ME, 1, 2).is_empty());
    assert!(broker.credit(ME, 1, 1).is_empty());
    assert_eq!(texts(&broker.credit(ME, 1, 3)), ["c"]);
    assert_eq!(texts(&broker.credit(ME, 1, u64::MAX)), ["d"]);
    assert!(broker.credit(ME, 1, 0).is_empty());
    broker.publish(message("e"));
    assert!(broker.received(ME).is_empty());
}

#[test]
fn a_waiting_consumer_gets_a_published_message() {
    let mut broker = queue_of(&[]);
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.credit(OTHER, 1, 2);
    broker.publish_all(&["a", "b", "c"]);
    assert_eq!(texts(&broker.received(OTHER)), ["a", "b"]);
}

#[test]
fn a_client_without_byte_budget_waits_and_the_others_are_served() {
    let mut broker = queue_of(&["aaaa", "bbbb", "cccc", "dddd"]);
    broker.tell(ME, Command::ByteBudget { limit: 5, min_bytes: 0 });
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(
        texts(&broker.credit(ME, 1, 10)),
        ["aaaa", "bbbb"],
        "the message that passes the limit still goes"
    );
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(texts(&broker.credit(OTHER, 1, 1)), ["cccc"]);
    assert!(broker.tell(ME, Command::ByteBudget { limit: 8, min_bytes: 0 }).is_empty());
    let told = broker.tell(ME, Command::ByteBudget { limit: 9, min_bytes: 0 });
    assert_eq!(texts(&deliveries(told)), ["dddd"]);
}

#[test]
fn a_short_payload_counts_as_the_least_that_the_client_says() {
    let mut broker = queue_of(&["a", "bbbbbb", "c", "d"]);
    broker.tell(ME, Command::ByteBudget { limit: 10, min_bytes: 4 });
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(texts(&broker.credit(ME, 1, 10)), ["a", "bbbbbb"], "4 and 6 bytes");
    let told = broker.tell(ME, Command::ByteBudget { limit: 11, min_bytes: 4 });
    assert_eq!(texts(&deliveries(told)), ["c"]);
    assert!(broker.tell(ME, Command::ByteBudget { limit: 14, min_bytes: 4 }).is_empty());
}

#[test]
fn a_new_client_has_no_budget() {
    let mut broker = queue_of(&["a"]);
    let stranger = ClientId(9);
    broker.tell(stranger, Command::Connect);
    broker.open(stranger, 1, main_path("q"), ReceiveMode::PeekLock);
    assert!(broker.credit(stranger, 1, 1).is_empty());
    assert_eq!(deliveries(broker.tell(stranger, Command::ByteBudget { limit: 1, min_bytes: 0 })).len(), 1);
}

#[test]
fn drain_is_answered_once_after_all_ready_messages_were_delivered() {
    let mut broker = queue_of(&["a", "b"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(drain(&mut broker, ME, 1, 5), (vec!["a".into(), "b".into()], vec![5]));
    broker.publish(message("c"));
    assert!(broker.received(ME).is_empty(), "the credit was given up");
    assert_eq!(drain(&mut broker, ME, 1, 6), (vec!["c".into()], vec![6]));
    assert_eq!(drain(&mut broker, ME, 1, 6), (vec![], vec![6]), "no credit: answered all the same");
    assert_eq!(drain(&mut broker, ME, 1, 9), (vec![], vec![9]), "an empty queue");
}

#[test]
fn drain_waits_for_the_byte_budget_while_there_are_messages() {
    let mut broker = queue_of(&["aaaa", "bbbb"]);
    broker.tell(ME, Command::ByteBudget { limit: 1, min_bytes: 0 });
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(drain(&mut broker, ME, 1, 5), (vec!["aaaa".into()], vec![]));
    let told = broker.tell(ME, Command::ByteBudget { limit: 100, min_bytes: 0 });
    assert!(matches!(told.as_slice(), [Effect::Delivery(_), Effect::Drained { count: 5, .. }]), "{told:?}");
}

#[test]
fn drain_ends_when_another_consumer_took_the_last_message() {
    let mut broker = queue_of(&["aaaa", "bbbb"]);
    broker.tell(ME, Command::ByteBudget { limit: 1, min_bytes: 0 });
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(drain(&mut broker, ME, 1, 5), (vec!["aaaa".into()], vec![]));
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(broker.credit(OTHER, 1, 1).len(), 1);
    let told = broker.tell(ME, Command::ByteBudget { limit: 100, min_bytes: 0 });
    assert!(matches!(told.as_slice(), [Effect::Drained { count: 5, .. }]), "{told:?}");
}

#[test]
fn new_credit_without_drain_takes_an_unanswered_drain_back() {
    let mut broker = queue_of(&["aaaa", "bbbb"]);
    broker.tell(ME, Command::ByteBudget { limit: 1, min_bytes: 0 });
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert_eq!(drain(&mut broker, ME, 1, 5).1, [0; 0]);
    broker.credit(ME, 1, 5);
    let told = broker.tell(ME, Command::ByteBudget { limit: 100, min_bytes: 0 });
    assert!(matches!(told.as_slice(), [Effect::Delivery(_)]), "{told:?}");
}

#[test]
fn locked_messages_are_passed_over_and_released_ones_come_before_later_ones() {
    let mut broker = queue_of(&["a", "b", "c", "d"]);
    let got = broker.lock(2);
    assert_eq!(texts(&broker.lock(1)), ["c"], "others get the next available (SET-9)");
    broker.settle(&got[0], Outcome::Release(properties(&[]))).unwrap();
    let again = broker.lock(2);
    assert_eq!(texts(&again), ["a", "d"], "it returns to its place (SET-10)");
    assert_eq!(again[0].stored.delivery_count, 0);
    assert!(again[0].stored.acquired_before && !again[1].stored.acquired_before);
}

#[test]
fn browsing_shows_every_message_once_and_leaves_it() {
    let mut broker = queue_of(&["a", "b", "c"]);
    let locked = broker.lock_one();
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::Browse);
    let shown = broker.credit(OTHER, 1, 2);
    assert_eq!(texts(&shown), ["a", "b"]);
    assert!(shown.iter().all(|delivery| delivery.lock.is_none()));
    assert_eq!(texts(&broker.credit(OTHER, 1, 10)), ["c"]);
    broker.publish(message("d"));
    assert_eq!(texts(&broker.received(OTHER)), ["d"]);
    assert_eq!(drain(&mut broker, OTHER, 1, 20), (vec![], vec![20]));
    assert_eq!(broker.settle(&locked, Outcome::Complete), Ok(()));
    assert_eq!(texts(&broker.lock(10)), ["b", "c", "d"]);
}

#[test]
fn browsing_obeys_budget_and_passes_over_deferred_messages() {
    let mut broker = queue_of(&["a", "b", "c", "d"]);
    let first = broker.lock_one();
    broker.settle(&first, Outcome::Defer(properties(&[]))).unwrap();
    broker.tell(OTHER, Command::ByteBudget { limit: 2, min_bytes: 0 });
    broker.open(OTHER, 1, main_path("q"), ReceiveMode::Browse);
    assert_eq!(texts(&broker.credit(OTHER, 1, 10)), ["b", "c"]);
    let told = broker.tell(OTHER, Command::ByteBudget { limit: 3, min_bytes: 0 });
    assert_eq!(texts(&deliveries(told)), ["d"]);
}

#[test]
fn peek_shows_all_states_in_order_of_number_and_touches_nothing() {
    let mut broker = queue_of(&["a", "b", "c", "d"]);
    let got = broker.lock(2);
    broker.settle(&got[0], Outcome::Defer(properties(&[]))).unwrap();
    let show =
        |peeked: &crate::Peeked| (peeked.sequence.0, peeked.stored.state, peeked.stored.delivery_count);
    let seen: Vec<_> = broker.peek(main_path("q"), 0, 10).iter().map(show).collect();
    assert_eq!(seen, [(1, 1, 1), (2, 0, 0), (3, 0, 0), (4, 0, 0)]);
    assert_eq!(broker.peek(main_path("q"), 3, 1).iter().map(show).collect::<Vec<_>>(), [(3, 0, 0)]);
    assert!(broker.peek(main_path("q"), 5, 10).is_empty());
    assert!(broker.peek(main_path("q"), u64::MAX, 10).is_empty());
    assert!(broker.peek(dead_letters("Q"), 0, 10).is_empty());
    assert_eq!(texts(&broker.lock(10)), ["c", "d"]);
}

#[test]
fn peek_stops_before_its_bytes_are_exceeded_but_shows_one() {
    let mut broker = queue_of(&["aaaa", "bbbb", "cccc"]);
    for (bytes, shown) in [(0, 1), (7, 1), (8, 2), (100, 3)] {
        let ticket = broker.ticket();
        let (path, from) = (main_path("q"), SequenceNumber(0));
        let told = broker.tell(ME, Command::Peek { path, session: None, from, count: 10, bytes, ticket });
        assert!(matches!(&told[..], [Effect::Peeked { messages, .. }] if messages.len() == shown), "{bytes}");
    }
    let ticket = broker.ticket();
    let (path, from) = (main_path("nowhere"), SequenceNumber(0));
    let told = broker.tell(ME, Command::Peek { path, session: None, from, count: 1, bytes: 1, ticket });
    assert!(matches!(&told[..], [Effect::RequestRefused { .. }]), "{told:?}");
}

#[test]
fn one_call_of_pump_is_bounded_in_messages_and_bytes() {
    for (messages, bytes, first) in [(3, 1_000, 3), (1_000, 7, 2), (1_000, 8, 2), (1_000, 9, 3)] {
        let mut broker = Broker::with(CoreConfig {
            deliver_messages_max: messages,
            deliver_bytes_max: bytes,
            ..CoreConfig::default()
        });
        broker.create("q", EntitySettings::default());
        broker.publish_all(&["aaaa", "bbbb", "cccc", "dddd", "eeee"]);
        broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
        let credit = Command::Credit { consumer: LinkId(1), limit: 10, drain: true };
        broker.core.handle(broker.now, ME, credit, &mut broker.journal);
        assert!(broker.core.deliver(broker.now, &mut broker.journal), "there is more to do");
        assert_eq!(broker.received(ME).len(), first, "{messages} messages, {bytes} bytes");
        broker.deliver_all();
        let rest = broker.take(ME);
        assert!(matches!(rest.last(), Some(Effect::Drained { count: 10, .. })));
        assert_eq!(rest.len(), 5 - first + 1);
    }
}

#[test]
fn a_long_queue_does_not_keep_another_waiting() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.create("short", EntitySettings::default());
    for _ in 0..2_000 {
        broker.publish(message("long"));
    }
    let short = broker.queue("short");
    broker.tell(ME, Command::Publish { queue: short, message: message("short"), ticket: None });
    let links = [(1, "q"), (2, "short")];
    for (link, name) in links {
        broker.open(ME, link, main_path(name), ReceiveMode::PeekLock);
    }
    for (link, _) in links {
        let credit = Command::Credit { consumer: LinkId(link), limit: 10_000, drain: false };
        broker.core.handle(broker.now, ME, credit, &mut broker.journal);
    }
    assert!(broker.core.deliver(broker.now, &mut broker.journal));
    assert!(texts(&broker.received(ME)).contains(&"short".to_owned()));
}

#[test]
fn closing_consumers_leaves_nothing_behind() {
    let mut broker = queue_of(&["a", "b"]);
    broker.tell(OTHER, Command::ByteBudget { limit: 0, min_bytes: 0 });
    for (client, link, mode) in
        [(ME, 1, ReceiveMode::PeekLock), (OTHER, 2, ReceiveMode::PeekLock), (OTHER, 3, ReceiveMode::Browse)]
    {
        broker.open_with(client, link, main_path("q"), mode, UnsettledPolicy::Release);
        broker.credit(client, link, 10);
    }
    assert_eq!(broker.core.entity("q").unwrap().links, 3);
    broker.tell(OTHER, Command::Disconnect);
    broker.tell(ME, Command::Disconnect);
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.links, view.locked, view.active), (0, 0, 2));
    broker.tell(ME, Command::Connect);
    broker.tell(ME, Command::ByteBudget { limit: 100, min_bytes: 0 });
    assert_eq!(texts(&broker.lock(5)), ["a", "b"]);
}

#[test]
fn peeks_of_one_round_do_not_cut_each_other_short() {
    let mut broker = Broker::with(CoreConfig { deliver_messages_max: 3, ..CoreConfig::default() });
    broker.create("q", EntitySettings::default());
    broker.publish_all(&["a", "b", "c", "d"]);
    let peek = |broker: &mut Broker| {
        let (path, from, ticket) = (main_path("q"), SequenceNumber(1), broker.ticket());
        Command::Peek { path, session: None, from, count: 2, bytes: 100, ticket }
    };
    let commands = vec![peek(&mut broker), peek(&mut broker), peek(&mut broker)];
    let told = broker.tell_all(ME, commands);
    let shown =
        |effect: &Effect| if let Effect::Peeked { messages, .. } = effect { messages.len() } else { 0 };
    assert_eq!(told.iter().map(shown).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn consumers_that_left_while_they_waited_are_passed_over() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for link in 1..=9 {
        let mode = if link % 3 == 0 { ReceiveMode::Browse } else { ReceiveMode::PeekLock };
        broker.open(OTHER, link, main_path("q"), mode);
        assert!(broker.credit(OTHER, link, 5).is_empty());
    }
    for link in [1, 3, 4] {
        broker.tell(OTHER, Command::CloseConsumer { consumer: LinkId(link) });
    }
    broker.publish_all(&["a", "b"]);
    let to: Vec<(u32, String)> = broker.received(OTHER).iter().map(|d| (d.consumer.0, text(d))).collect();
    let expected = [(2, "a"), (6, "a"), (9, "a"), (5, "b"), (6, "b"), (9, "b")];
    assert_eq!(to, expected.map(|(link, text)| (link, text.to_owned())));
}
