//! Transfers, locks and settlement from end to end: the statements `SET-1` to `SET-20` of `docs/requirements.md`.

use std::time::Duration;

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{Close, DeliveryState, Detach, End, Error, Performative, Transfer},
    raw::{AnnotationValue, RawMap},
    sections::PropertyField,
    types::{ReceiverSettleMode, TypeKind},
};
use broker_core::{EntityKind, EntitySettings, LockLifetime};
use broker_server::EntityPlan;
use testkit::Script;

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    dialect::modified,
    message::{Delivery, batch, message},
};

const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);
const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::text).collect()
}

fn reject(reason: &str) -> DeliveryState {
    let info = RawMap::with_symbol_keys(&[("DeadLetterReason", AnnotationValue::Str(reason))]);
    DeliveryState::Rejected(Some(Box::new(Error {
        condition: "com.microsoft:dead-letter".into(),
        description: None,
        info: Some(info),
    })))
}

#[test]
fn a_full_queue_refuses_with_a_condition_and_a_tracking_id() {
    let settings = EntitySettings { max_size_bytes: Some(4096), ..EntitySettings::default() };
    let broker = Broker::with_queue(settings);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let large = message(&"x".repeat(3000));
    client.send(1, false, &large);
    assert_eq!(client.wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
    client.send(1, false, &large);
    let Some(DeliveryState::Rejected(Some(error))) = client.wire.disposed().unwrap().state else { panic!() };
    assert_eq!(error.condition, "amqp:resource-limit-exceeded");
    assert!(error.description.unwrap().contains("TrackingId:"));
}

#[test]
fn a_send_may_bring_what_the_configuration_says() {
    let messages = batch(&vec![message("small"); 1_500]);
    for (most, fits) in [(8 << 10, false), (1 << 20, true)] {
        let broker = Broker::with(|config| {
            // One message alone fits whatever the limit, with all that may be stored beside it.
            config.core.max_message_bytes = 48 << 10;
            config.core.max_send_bytes = most;
        });
        let mut client = broker.plain();
        client.sender(1, QUEUE);
        let transfer =
            |id| Transfer { message_format: Some(BATCH_FORMAT), ..Script::transfer_frame(1, id, false) };
        client.send_with(0, transfer, &messages);
        is_taken_where_it_fits(client.wire.disposed().unwrap().state, fits, most);
    }
}

/// Demands that a send is accepted where it fits into the limit `most`, and refused where it does not.
fn is_taken_where_it_fits(state: Option<DeliveryState>, fits: bool, most: impl std::fmt::Display) {
    match state {
        Some(DeliveryState::Accepted) => assert!(fits, "{most}"),
        Some(DeliveryState::Rejected(Some(error))) => {
            assert!(!fits, "{most}: {error:?}");
            assert_eq!(error.condition, "amqp:resource-limit-exceeded");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_send_has_as_many_copies_as_the_configuration_says() {
    let plan = |name: &str, kind| EntityPlan { kind, ..EntityPlan::queue(name, EntitySettings::default()) };
    for (most, fits) in [(1, false), (2, true)] {
        let broker = Broker::with(|config| {
            config.entities = vec![
                plan("t", EntityKind::Topic),
                plan("t/Subscriptions/a", EntityKind::Subscription),
                plan("t/Subscriptions/b", EntityKind::Subscription),
            ];
            config.core.max_copies_per_send = most;
        });
        let mut client = broker.plain();
        client.sender(1, "t");
        client.send(1, false, &message("m"));
        is_taken_where_it_fits(client.wire.disposed().unwrap().state, fits, most);
    }
}

#[test]
fn sends_and_settlements_are_pipelined() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    // `accepted` sends all before it waits for the first answer.
    let numbers: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    client.accepted(1, &numbers.iter().map(String::as_str).collect::<Vec<_>>());
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 1000);
    assert_eq!(texts(&received), numbers);
    for delivery in &received {
        client.wire.script.disposition(0, delivery.id(), delivery.id(), false, Some(DeliveryState::Accepted));
    }
    let mut settled = 0;
    while settled < 1000 {
        let answer = client.wire.disposed().unwrap();
        assert_eq!(answer.state, Some(DeliveryState::Accepted));
        settled += answer.last.unwrap_or(answer.first) - answer.first + 1;
    }
    client.nothing_on(2);
}

#[test]
fn a_delivery_that_began_later_may_be_answered_first() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.sender(2, QUEUE);
    let long = message("long");
    let (head, rest) = long.split_at(long.len() / 2);
    let begun = |id| Transfer { more: true, ..Script::transfer_frame(1, id, false) };
    let first = client.send_with(0, begun, head);
    let second = client.send(2, false, &message("short"));
    let answered = |client: &mut Client| {
        let answer = client.wire.disposed().unwrap();
        assert_eq!(answer.state, Some(DeliveryState::Accepted));
        (answer.first, answer.last.unwrap_or(answer.first))
    };
    assert_eq!(answered(&mut client), (second, second));
    client.wire.script.transfer_with(0, Script::transfer_frame(1, first, false), rest);
    client.count_sent(0, 1);
    assert_eq!(answered(&mut client), (first, first));
    client.receiver(3, QUEUE, None);
    assert_eq!(texts(&client.receive(3, 2)), ["short", "long"]);
}

#[test]
fn settlements_may_come_in_any_order_and_as_ranges() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["a", "b", "c", "d", "e"]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 5);
    client.complete(&received[4]);
    client.complete(&received[0]);
    // The range names all five; two are settled already.
    let (first, last) = (received[0].id(), received[4].id());
    client.wire.script.disposition(0, first, last, false, Some(DeliveryState::Released));
    let mut released = 0;
    while released < 3 {
        let answer = client.wire.disposed().unwrap();
        assert_eq!(answer.state, Some(DeliveryState::Released));
        released += answer.last.unwrap_or(answer.first) - answer.first + 1;
    }
    assert_eq!(texts(&client.receive(2, 3)), ["b", "c", "d"]);
}

#[test]
fn a_settled_transfer_is_stored_and_never_answered() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.send(1, true, &message("quiet"));
    // The only disposition is that of the second.
    let id = client.send(1, false, &message("asked"));
    let answer = client.wire.disposed().unwrap();
    assert_eq!((answer.first, answer.last.unwrap_or(id)), (id, id));
    client.receiver(2, QUEUE, None);
    assert_eq!(texts(&client.receive(2, 2)), ["quiet", "asked"]);
}

#[test]
fn a_locked_message_is_hidden_and_others_take_the_next() {
    let broker = Broker::start();
    let mut one = broker.plain();
    one.sender(1, QUEUE);
    one.accepted(1, &["a", "b"]);
    one.receiver(2, QUEUE, SECOND);
    assert_eq!(texts(&one.receive(2, 1)), ["a"]);
    let mut other = broker.plain();
    other.receiver(2, QUEUE, SECOND);
    assert_eq!(texts(&other.receive(2, 1)), ["b"]);
    other.nothing_on(2);
}

#[test]
fn abandoned_and_released_messages_return_to_the_front_at_once() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["a", "b", "c"]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 2);
    client.outcome(0, received[0].id(), modified(Some(true), Some(false)));
    client.outcome(0, received[1].id(), DeliveryState::Released);
    let again = client.receive(2, 3);
    assert_eq!(texts(&again), ["a", "b", "c"]);
    let counts: Vec<u32> = again.iter().map(|each| each.header().delivery_count).collect();
    assert_eq!(counts, [1, 0, 0]);
}

#[test]
fn a_lock_that_ends_gives_the_message_to_the_next_and_refuses_the_first() {
    let settings = EntitySettings {
        lock_duration: Duration::from_millis(50),
        hold: LockLifetime::Lock,
        max_delivery_count: 1_000_000,
        ..EntitySettings::default()
    };
    let broker = Broker::with_queue(settings);
    let mut first = broker.plain();
    first.sender(1, QUEUE);
    first.accepted(1, &["m"]);
    first.receiver(2, QUEUE, SECOND);
    let delivery = first.receive(2, 1).remove(0);
    assert_eq!(delivery.header().delivery_count, 0);
    // That the second gets it is how the end of the lock is seen.
    let mut second = broker.plain();
    second.receiver(2, QUEUE, None);
    let again = second.receive(2, 1).remove(0);
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("m", 1));
    let answer = first.outcome(0, delivery.id(), DeliveryState::Accepted);
    let Some(DeliveryState::Rejected(Some(error))) = answer.state else { panic!("{answer:?}") };
    assert_eq!(error.condition, "com.microsoft:message-lock-lost");
}

#[test]
fn the_last_delivery_that_fails_makes_a_dead_letter() {
    let broker = Broker::with_queue(EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["m"]);
    client.receiver(2, QUEUE, SECOND);
    for count in 0..3 {
        let delivery = client.receive(2, 1).remove(0);
        assert_eq!(delivery.header().delivery_count, count);
        client.outcome(0, delivery.id(), modified(Some(true), None));
    }
    client.nothing_on(2);
    client.receiver(3, "orders/$DeadLetterQueue", SECOND);
    let letter = client.receive(3, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("MaxDeliveryCountExceeded"));
    client.complete(&letter);
    client.nothing_on(3);
}

#[test]
fn a_dead_letter_keeps_its_message_and_gains_its_reason() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let payload = MessageBuilder::new()
        .property(PropertyField::MessageId, AnnotationValue::Uuid([9; 16]))
        .application_property("kept", AnnotationValue::Str("yes"))
        .data(b"m")
        .build();
    client.send(1, false, &payload);
    client.wire.disposed().unwrap();
    client.receiver(2, QUEUE, SECOND);
    let delivery = client.receive(2, 1).remove(0);
    let answer = client.outcome(0, delivery.id(), reject("broken"));
    assert_eq!(answer.state, Some(DeliveryState::Rejected(None)));
    client.receiver(3, "orders/$DeadLetterQueue", None);
    let letter = client.receive(3, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    assert_eq!(letter.property("kept").as_deref(), Some("yes"));
    assert_eq!(letter.message_id().as_uuid(), Some([9; 16]));
    assert_eq!(letter.text(), "m");
}

#[test]
fn message_ids_arrive_as_they_were_sent() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, None);
    let cases = [
        (AnnotationValue::Str("name"), TypeKind::String),
        (AnnotationValue::Str(""), TypeKind::String),
        (AnnotationValue::Ulong(0), TypeKind::Ulong),
        (AnnotationValue::Ulong(u64::MAX), TypeKind::Ulong),
        (AnnotationValue::Uuid([0xab; 16]), TypeKind::Uuid),
        (AnnotationValue::Binary(&[0, 255]), TypeKind::Binary),
    ];
    for (id, kind) in cases {
        let payload = MessageBuilder::new().property(PropertyField::MessageId, id).data(b"m").build();
        client.send(1, true, &payload);
        let delivery = client.receive(2, 1).remove(0);
        let mut sent = bytes::BytesMut::new();
        id.write(&mut sent);
        assert_eq!(delivery.message_id().kind(), Some(kind));
        assert_eq!(delivery.message_id().bytes(), &sent[..], "{id:?}");
    }
}

#[test]
fn a_connection_that_ends_gives_up_its_locks() {
    let broker = Broker::start();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    sender.accepted(1, &["a", "b"]);
    let mut first = broker.plain();
    first.receiver(2, QUEUE, FIRST);
    assert_eq!(first.receive(2, 2).len(), 2);
    drop(first);
    let mut second = broker.plain();
    second.receiver(2, QUEUE, FIRST);
    assert_eq!(texts(&second.receive(2, 2)), ["a", "b"]);
}

#[test]
fn a_default_outcome_speaks_for_a_receiver_that_is_gone_and_not_for_one_that_leaves() {
    let failure = || Some(Error::new("amqp:internal-error", "it fails"));
    let detach = |closed, error| Performative::Detach(Box::new(Detach { handle: 2, closed, error }));
    let end = |error| Performative::End(Box::new(End { error }));
    let close = |error| Performative::Close(Box::new(Close { error }));
    let cases = [
        // The last that the receiver says, and how often its message has failed then.
        ("closes the link", Some(detach(true, None)), 0),
        ("detaches the link", Some(detach(false, None)), 0),
        ("ends the session", Some(end(None)), 0),
        ("closes the connection", Some(close(None)), 0),
        ("closes the link for an error", Some(detach(true, failure())), 1),
        ("detaches the link for an error", Some(detach(false, failure())), 1),
        ("ends the session for an error", Some(end(failure())), 1),
        ("closes the connection for an error", Some(close(failure())), 1),
        ("is gone", None, 1),
    ];
    for (case, last, count) in cases {
        let broker = Broker::start();
        let mut sender = broker.plain();
        sender.sender(1, QUEUE);
        sender.accepted(1, &["m"]);
        let mut jms = broker.plain();
        // Qpid JMS and ProtonJ2 ask for this one.
        jms.receiver_with(2, QUEUE, modified(Some(true), None));
        assert_eq!(jms.receive(2, 1)[0].header().delivery_count, 0, "{case}");
        if let Some(last) = last {
            jms.wire.script.send(0, &last, b"");
        }
        jms.wire.flush().unwrap();
        let mut second = broker.plain();
        second.receiver(2, QUEUE, FIRST);
        drop(jms);
        assert_eq!(second.receive(2, 1)[0].header().delivery_count, count, "{case}");
    }
}
