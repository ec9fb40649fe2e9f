//! Work that the time brings, and forwarding, for messages that are read from the disk: nothing else waits for such a read, and
//! the core waits for none.

use super::harness::*;
use crate::{
    ClientId, Command, EntitySettings, LinkId, Outcome, ReceiveMode, UnsettledPolicy,
    store::reads_in_vain::READS_IN_VAIN_MAX,
};

/// Does what is due without letting the disk read.
fn work(broker: &mut Broker) {
    for _ in 0..100 {
        broker.journal.make_readable();
        if !broker.core.handle_deadline(broker.now, &mut broker.journal) {
            return broker.deliver_at_hand();
        }
    }
    panic!("there is always more to do");
}

/// One read is done, and so is what it makes possible.
fn read(broker: &mut Broker) {
    assert!(broker.finish_read(), "something is read");
    work(broker);
}

/// Moves the time without doing what is due.
fn pass(broker: &mut Broker, millis: u64) {
    broker.now = broker.now.after(std::time::Duration::from_millis(millis));
}

fn expiring() -> EntitySettings {
    EntitySettings { dead_letter_on_expiration: true, ..EntitySettings::default() }
}

fn count(broker: &Broker, name: &str) -> (u64, u64) {
    let view = broker.core.entity(name).unwrap();
    (view.active, view.dead_letter)
}

#[test]
fn a_message_expires_when_it_was_read_and_has_no_deadline_before() {
    let mut broker = Broker::with_queue(expiring());
    for text in ["a", "b"] {
        broker.publish(message_for(text, 100));
    }
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    assert!(broker.core.has_due_reads());
    assert_eq!(broker.core.deadline(), None, "the end of the read brings the work back, and no time");
    assert_eq!(count(&broker, "q"), (2, 0));
    read(&mut broker);
    assert_eq!(count(&broker, "q"), (1, 1));
    read(&mut broker);
    assert_eq!((count(&broker, "q"), broker.journal.waited), ((0, 2), 0));
    assert!(!broker.core.has_due_reads());
    broker.journal.is_on_disk = false;
    let reason = || Some("TTLExpiredException".to_owned());
    assert_eq!(broker.dead(), [("a".to_owned(), reason()), ("b".to_owned(), reason())]);
}

#[test]
fn messages_of_one_instant_expire_in_their_order_however_they_are_read() {
    let mut broker = Broker::with_queue(expiring());
    let texts: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    for text in &texts {
        broker.publish(message_for(text, 100));
    }
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    while broker.core.has_due_reads() {
        read(&mut broker);
    }
    broker.journal.is_on_disk = false;
    let dead: Vec<String> = broker.dead().into_iter().map(|(text, _)| text).collect();
    assert_eq!(dead, texts);
    assert_eq!(broker.journal.waited, 0);
}

#[test]
fn another_queue_does_what_is_due_meanwhile() {
    let mut broker = Broker::with_queue(expiring());
    broker.create("plain", EntitySettings::default());
    broker.publish(message_for("a", 100));
    let queue = broker.queue("plain");
    broker.tell(ME, Command::Publish { queue, message: message_for("b", 100), ticket: None });
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    assert_eq!((count(&broker, "q"), count(&broker, "plain")), ((1, 0), (0, 0)));
    // One that comes meanwhile is handed out.
    broker.journal.is_on_disk = false;
    broker.journal.make_readable();
    let open = Command::OpenConsumer {
        consumer: LinkId(1),
        path: main_path("plain"),
        mode: ReceiveMode::ReceiveAndDelete,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    let credit = Command::Credit { consumer: LinkId(1), limit: 5, drain: false };
    let publish = Command::Publish { queue, message: message("c"), ticket: None };
    for command in [open, credit, publish] {
        broker.core.handle(broker.now, ME, command, &mut broker.journal);
    }
    broker.deliver_at_hand();
    assert_eq!(texts(&broker.received(ME)), ["c"]);
    assert!(broker.core.has_due_reads());
}

#[test]
fn a_scheduled_message_arrives_when_it_was_read() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.schedule(&["a", "b"], 100);
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    assert_eq!((count(&broker, "q").0, broker.core.deadline()), (0, None));
    read(&mut broker);
    assert_eq!(count(&broker, "q").0, 1);
    read(&mut broker);
    assert_eq!((count(&broker, "q").0, broker.journal.waited), (2, 0));
}

#[test]
fn a_scheduled_message_that_cannot_be_read_is_passed_over() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.schedule(&["a", "b"], 100);
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    broker.journal.broken = broker.journal.pending.iter().copied().collect();
    read(&mut broker);
    read(&mut broker);
    let view = broker.core.entity("q").unwrap();
    assert_eq!((view.active, view.damaged), (1, 1));
}

#[test]
fn a_lock_that_ends_for_the_last_time_is_one_until_its_message_was_read() {
    let settings = EntitySettings { max_delivery_count: 1, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    broker.publish_all(&["a"]);
    let delivery = broker.lock_one();
    broker.journal.is_on_disk = true;
    pass(&mut broker, 1_000_000);
    work(&mut broker);
    assert_eq!((count(&broker, "q"), broker.journal.pending.len()), ((1, 0), 1));
    assert!(broker.settle(&delivery, Outcome::Complete).is_err(), "its time is over all the same");
    while broker.core.has_due_reads() {
        read(&mut broker);
    }
    work(&mut broker);
    assert_eq!((count(&broker, "q"), broker.journal.waited), ((0, 1), 0));
}

#[test]
fn locks_of_a_closed_receiver_end_while_others_are_read() {
    let settings = EntitySettings { max_delivery_count: 2, ..EntitySettings::default() };
    let mut broker = Broker::with_queue(settings);
    broker.publish_all(&["a", "b", "c"]);
    let failed = |broker: &mut Broker, count| {
        broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Fail);
        let got = broker.credit(ME, 1, count);
        assert_eq!(got.len() as u64, count);
    };
    failed(&mut broker, 1);
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(1) });
    failed(&mut broker, 3);
    broker.journal.is_on_disk = true;
    broker.journal.make_readable();
    // `a` has failed for the last time.
    broker.core.handle(broker.now, ME, Command::CloseConsumer { consumer: LinkId(1) }, &mut broker.journal);
    assert_eq!(count(&broker, "q"), (3, 0));
    assert_eq!(broker.core.deadline(), None, "b and c have returned");
    assert!(broker.core.has_due_reads());
    read(&mut broker);
    assert_eq!((count(&broker, "q"), broker.journal.waited), ((2, 1), 0));
    assert!(!broker.core.has_due_reads());
    broker.check_liveness();
}

#[test]
fn a_message_is_forwarded_when_it_was_read_and_others_are_forwarded_meanwhile() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for (name, next) in [("cold", "q"), ("hot", "q")] {
        broker.create(name, EntitySettings { forward_to: Some(next.into()), ..EntitySettings::default() });
    }
    let send = |broker: &mut Broker, name: &str, text: &str| {
        let queue = broker.queue(name);
        broker.journal.make_readable();
        let command = Command::Publish { queue, message: message(text), ticket: None };
        broker.core.handle(broker.now, ME, command, &mut broker.journal);
    };
    send(&mut broker, "cold", "a");
    send(&mut broker, "cold", "b");
    broker.journal.is_on_disk = true;
    work(&mut broker);
    assert_eq!((broker.journal.pending.len(), broker.core.deadline()), (1, None));
    broker.journal.is_on_disk = false;
    send(&mut broker, "hot", "c");
    work(&mut broker);
    assert_eq!(count(&broker, "q").0, 1);
    broker.journal.is_on_disk = true;
    read(&mut broker);
    read(&mut broker);
    assert_eq!((count(&broker, "q").0, count(&broker, "cold").0, broker.journal.waited), (3, 0, 0));
    broker.journal.is_on_disk = false;
    assert_eq!(broker.shown_texts(main_path("q")), ["c", "a", "b"]);
}

#[test]
fn a_queue_that_is_deleted_while_it_is_read_for_is_gone() {
    let mut broker = Broker::with_queue(expiring());
    broker.publish(message_for("a", 100));
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    let ticket = broker.ticket();
    broker.core.handle(
        broker.now,
        ME,
        Command::DeleteEntity { name: "q".into(), expected: None, ticket },
        &mut broker.journal,
    );
    read(&mut broker);
    broker.wait(1_000);
    assert!(broker.core.entity("q").is_none() && !broker.core.has_due_reads());
}

#[test]
fn due_work_whose_reads_bring_nothing_waits_for_the_disk() {
    let mut broker = Broker::with_queue(expiring());
    broker.publish(message_for("a", 100));
    broker.journal.is_on_disk = true;
    pass(&mut broker, 100);
    work(&mut broker);
    for reads in 1..=READS_IN_VAIN_MAX {
        assert_eq!((count(&broker, "q"), broker.journal.waited), ((1, 0), 0), "{reads}");
        assert!(broker.finish_read());
        broker.journal.forget_all();
        work(&mut broker);
    }
    assert_eq!(count(&broker, "q"), (0, 1));
    assert!(broker.journal.waited > 0);
}

#[test]
fn a_client_that_nobody_knows_waits_for_nothing() {
    let mut broker = Broker::with_queue(expiring());
    broker.core.handle_read_done(crate::ReadId(7));
    broker.journal.make_readable();
    broker.core.handle(broker.now, ClientId(99), Command::Disconnect, &mut broker.journal);
    assert!(!broker.core.has_due_reads());
}
