//! Deliveries and requests for messages that are read from the disk: what waits for a read, and what does not. The random tests of
//! queues, sessions, selectors and of all commands run on a disk as well.

use super::harness::*;
use crate::{
    Batch, Command, Delivery, Effect, EntityKind, EntitySettings, LinkId, Message, Outcome, ReceiveMode,
    SequenceNumber, SessionWanted, UnsettledPolicy, store::reads_in_vain::READS_IN_VAIN_MAX,
};

/// Gives commands and delivers what is at hand, without letting the disk read.
fn ask(broker: &mut Broker, commands: Vec<Command>) -> Vec<Effect> {
    broker.journal.make_readable();
    broker.core.handle_batch(broker.now, Batch { client: ME, commands }, &mut broker.journal);
    broker.deliver_at_hand();
    broker.take(ME)
}

/// One read is done, and what it brings is delivered.
fn read(broker: &mut Broker) -> Vec<Effect> {
    assert!(broker.finish_read(), "something is read");
    broker.deliver_at_hand();
    broker.take(ME)
}

fn credit(link: u32, limit: u64, drain: bool) -> Command {
    Command::Credit { consumer: LinkId(link), limit, drain }
}

/// A queue with these messages on the disk.
fn on_disk(messages: &[&str]) -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(messages);
    broker.journal.is_on_disk = true;
    broker
}

fn text_of(told: Vec<Effect>) -> Vec<String> {
    texts(&deliveries(told))
}

#[test]
fn a_message_keeps_its_place_while_it_is_read_and_is_locked_when_it_is_there() {
    let mut broker = on_disk(&["a", "b", "c"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert!(ask(&mut broker, vec![credit(1, 2, false)]).is_empty());
    assert_eq!(broker.journal.pending.len(), 1, "the others come after it");
    // It is no work, and a message that comes meanwhile overtakes nothing.
    broker.journal.make_readable();
    assert!(!broker.core.deliver(broker.now, &mut broker.journal));
    let publish = Command::Publish { queue: broker.queue("q"), message: message("d"), ticket: None };
    assert!(ask(&mut broker, vec![publish]).is_empty());
    let got: Vec<Delivery> = (0..2).flat_map(|_| deliveries(read(&mut broker))).collect();
    assert_eq!(texts(&got), ["a", "b"]);
    assert!(broker.journal.pending.is_empty(), "the credit is used");
    assert!(got.iter().all(|delivery| delivery.lock.is_some() && delivery.stored.delivery_count == 0));
    for delivery in &got {
        assert_eq!(broker.settle(delivery, Outcome::Complete), Ok(()));
    }
    broker.check_liveness();
}

#[test]
fn another_queue_is_delivered_from_meanwhile() {
    let mut broker = on_disk(&["cold"]);
    broker.create_kind("hot", EntityKind::Queue, EntitySettings::default());
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    broker.open(ME, 2, main_path("hot"), ReceiveMode::PeekLock);
    assert!(ask(&mut broker, vec![credit(1, 9, false), credit(2, 9, false)]).is_empty());
    broker.journal.is_on_disk = false;
    let publish = Command::Publish { queue: broker.queue("hot"), message: message("hot"), ticket: None };
    assert_eq!(text_of(ask(&mut broker, vec![publish])), ["hot"]);
    broker.journal.is_on_disk = true;
    assert_eq!(text_of(read(&mut broker)), ["cold"]);
}

#[test]
fn a_drain_is_answered_after_what_is_read_for_it() {
    let mut broker = on_disk(&["a", "b"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    assert!(ask(&mut broker, vec![credit(1, 5, true)]).is_empty());
    assert_eq!(text_of(read(&mut broker)), ["a"]);
    let told = read(&mut broker);
    assert!(matches!(&told[..], [Effect::Delivery(_), Effect::Drained { count: 5, .. }]), "{told:?}");
}

#[test]
fn a_receiver_that_closes_meanwhile_leaves_the_message_to_another() {
    let mut broker = on_disk(&["a"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::ReceiveAndDelete);
    ask(&mut broker, vec![credit(1, 5, false), Command::CloseConsumer { consumer: LinkId(1) }]);
    broker.open(ME, 2, main_path("q"), ReceiveMode::ReceiveAndDelete);
    ask(&mut broker, vec![credit(2, 5, false)]);
    assert_eq!(text_of(read(&mut broker)), ["a"]);
    assert_eq!(broker.active(), 0);
    broker.check_liveness();
}

#[test]
fn a_queue_that_is_deleted_meanwhile_is_gone() {
    let mut broker = on_disk(&["a"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    ask(&mut broker, vec![credit(1, 5, false)]);
    let ticket = broker.ticket();
    ask(&mut broker, vec![Command::DeleteEntity { name: "q".into(), expected: None, ticket }]);
    assert!(read(&mut broker).is_empty());
    broker.wait(1_000);
    broker.check_liveness();
}

#[test]
fn a_message_that_cannot_be_read_is_passed_over_when_that_is_known() {
    let mut broker = on_disk(&["a", "b"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    ask(&mut broker, vec![credit(1, 5, false)]);
    broker.journal.broken = broker.journal.pending.iter().copied().collect();
    assert!(read(&mut broker).is_empty());
    assert_eq!(text_of(read(&mut broker)), ["b"]);
    assert_eq!(broker.core.entity("q").unwrap().damaged, 1);
}

#[test]
fn sessions_are_read_side_by_side() {
    let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    for text in ["a1", "b1", "a2", "b2"] {
        broker.publish(Message { session_id: Some(text[..1].into()), ..message(text) });
    }
    broker.journal.is_on_disk = true;
    for (link, session) in [(1, "a"), (2, "b")] {
        let open = Command::OpenConsumer {
            consumer: LinkId(link),
            path: main_path("q"),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::KeepLocks,
            session: Some(SessionWanted::Named(session.into())),
            auto_create: false,
        };
        broker.tell(ME, open);
    }
    assert!(ask(&mut broker, vec![credit(1, 9, false), credit(2, 9, false)]).is_empty());
    assert_eq!(broker.journal.pending.len(), 2);
    // The harness reads the last one first: its session goes on alone.
    assert_eq!(text_of(read(&mut broker)), ["b1"]);
    assert_eq!(text_of(read(&mut broker)), ["b2"]);
    assert_eq!(text_of(read(&mut broker)), ["a1"]);
    assert_eq!(text_of(read(&mut broker)), ["a2"]);
}

#[test]
fn a_browser_keeps_its_place_while_the_disk_is_read() {
    let mut broker = on_disk(&["a", "b"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::Browse);
    ask(&mut broker, vec![credit(1, 9, false)]);
    assert_eq!(text_of(read(&mut broker)), ["a"]);
    assert_eq!(text_of(read(&mut broker)), ["b"]);
    assert_eq!(broker.active(), 2);
}

#[test]
fn peeks_go_on_where_the_disk_stopped_them_and_are_answered_in_turn() {
    let mut broker = on_disk(&["a", "b", "c"]);
    let peek = |broker: &mut Broker, count| Command::Peek {
        path: main_path("q"),
        session: None,
        from: SequenceNumber(0),
        count,
        bytes: u64::MAX,
        ticket: broker.ticket(),
    };
    let commands = vec![peek(&mut broker, 3), peek(&mut broker, 1)];
    assert!(ask(&mut broker, commands).is_empty());
    let shown = |told: Vec<Effect>| match &told[..] {
        [Effect::Peeked { messages, .. }] => messages.len(),
        [] => 0,
        other => panic!("{other:?}"),
    };
    let answers: Vec<usize> = (0..4).map(|_| shown(read(&mut broker))).collect();
    assert_eq!(answers, [0, 0, 3, 1]);
    assert!(!broker.core.deliver(broker.now, &mut broker.journal));
}

#[test]
fn deferred_messages_are_read_at_once_and_taken_together() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    for delivery in broker.lock(2) {
        broker.settle(&delivery, Outcome::Defer(properties(&[]))).unwrap();
    }
    broker.journal.is_on_disk = true;
    let ticket = broker.ticket();
    let command = Command::ReceiveDeferred {
        path: main_path("q"),
        session: None,
        sequences: vec![SequenceNumber(1), SequenceNumber(2)],
        delete: false,
        bytes: 1 << 20,
        ticket,
    };
    assert!(ask(&mut broker, vec![command]).is_empty());
    assert_eq!(broker.journal.pending.len(), 2);
    assert!(read(&mut broker).is_empty());
    let told = read(&mut broker);
    assert!(matches!(&told[..], [Effect::Fetched { messages, .. }] if messages.len() == 2), "{told:?}");
}

#[test]
fn a_store_whose_reads_bring_nothing_waits_for_the_disk() {
    let mut broker = on_disk(&["a"]);
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    ask(&mut broker, vec![credit(1, 5, false)]);
    let mut reads = 0;
    let got = loop {
        reads += 1;
        let told = text_of(read_in_vain(&mut broker));
        if !told.is_empty() {
            break told;
        }
    };
    assert_eq!((got, reads), (vec!["a".to_owned()], READS_IN_VAIN_MAX));
    // The next one is read as ever.
    let publish = Command::Publish { queue: broker.queue("q"), message: message("b"), ticket: None };
    assert!(ask(&mut broker, vec![publish]).is_empty());
    assert_eq!(text_of(read(&mut broker)), ["b"]);
}

/// A read is done, and what it has brought is gone before anybody asks for it.
fn read_in_vain(broker: &mut Broker) -> Vec<Effect> {
    assert!(broker.finish_read());
    broker.journal.forget_all();
    broker.deliver_at_hand();
    broker.take(ME)
}
