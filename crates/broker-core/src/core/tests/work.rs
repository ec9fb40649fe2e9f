//! Work that one call may do: a call with a small budget does a part, and the calls together do the same.

use super::harness::*;
use crate::{EntityQuery, EntitySettings, ReceiveMode, Ticket, Work};

const MESSAGES: u64 = 40;

fn with_messages() -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for number in 0..MESSAGES {
        broker.publish(message(&format!("m{number}")));
    }
    broker
}

#[test]
fn a_peek_goes_on_in_the_next_call_and_its_answer_is_whole() {
    let mut broker = with_messages();
    let whole = broker.peek(main_path("q"), 0, 30);
    assert_eq!(whole.len(), 30);
    let calls = broker.journal.calls;
    broker.journal.work_of_call = Some(4 * Work::MESSAGE.0);
    let again = broker.peek(main_path("q"), 0, 30);
    let numbers = |peeked: &[crate::Peeked]| peeked.iter().map(|found| found.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(&again), numbers(&whole));
    let calls = broker.journal.calls - calls;
    assert!((10..=30).contains(&calls), "{calls} calls");
}

#[test]
fn deliveries_end_with_the_work_of_a_call_and_go_on_in_the_next_one() {
    let mut broker = with_messages();
    broker.open(ME, 1, main_path("q"), ReceiveMode::PeekLock);
    let calls = broker.journal.calls;
    broker.journal.work_of_call = Some(1);
    let got = broker.credit(ME, 1, MESSAGES);
    assert_eq!(got.len() as u64, MESSAGES);
    assert!(broker.journal.calls - calls >= MESSAGES, "each call delivers one message");
}

#[test]
fn work_that_is_due_ends_with_the_work_of_a_call_and_goes_on_in_the_next_one() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    for number in 0..MESSAGES {
        broker.publish(message_for(&format!("m{number}"), 1_000));
    }
    let calls = broker.journal.calls;
    broker.journal.work_of_call = Some(1);
    broker.wait(2_000);
    assert_eq!(broker.active(), 0);
    assert!(broker.journal.calls - calls >= MESSAGES / 2, "two messages in a call at the most");
}

#[test]
fn requests_are_charged_by_what_they_look_at() {
    let mut broker = with_messages();
    for number in 0..20 {
        broker.create(&format!("other-{number}"), EntitySettings::default());
    }
    let mut cost = |ask: &mut dyn FnMut(&mut Broker)| {
        let before = broker.journal.work;
        ask(&mut broker);
        Work(broker.journal.work.0 - before.0)
    };
    let list = |top| crate::Command::Describe {
        query: EntityQuery::All { after: "".into(), top },
        ticket: Ticket(77),
    };
    let (few, many) = (
        cost(&mut |broker| drop(broker.tell(ME, list(2)))),
        cost(&mut |broker| drop(broker.tell(ME, list(20)))),
    );
    assert_eq!(many.0 - few.0, Work::LIST_ENTRY.times(18).0);
    let (few, many) = (
        cost(&mut |broker| drop(broker.peek(main_path("q"), 0, 2))),
        cost(&mut |broker| drop(broker.peek(main_path("q"), 0, 32))),
    );
    assert!(many.0 - few.0 >= Work::MESSAGE.times(30).0, "{few:?} {many:?}");
}
