//! What every Service Bus SDK does with messages, in the dialect of each.

use std::{collections::BTreeSet, time::Duration};

use amqp_codec::{
    message::BATCH_FORMAT,
    performative::{Attach, DeliveryState, Disposition, Performative, Source, Target},
    raw::RawValue,
    types::{Role, TypeKind},
};
use broker_auth::DEVELOPMENT_KEY;
use broker_core::EntitySettings;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    message::{Delivery, batch, message, peek, renewal, update},
    testing::advance,
};

/// A broker with these messages in its queue.
pub(crate) fn filled(texts: &[&str]) -> Broker {
    let broker = Broker::start();
    fill(&broker, texts);
    broker
}

/// Puts messages of these texts into the queue.
fn fill(broker: &Broker, texts: &[&str]) {
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, texts);
    client.close();
}

/// 1,000 sends are on their way before the first answer is read; all are accepted, and come in their order.
pub(crate) fn pipelines(dialect: &Dialect) {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.sender(QUEUE);
    let texts: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    sdk.send_all(channel, &texts);
    let mut reader = broker.plain();
    reader.receiver(1, QUEUE, None);
    let received = reader.receive(1, 1000);
    assert_eq!(received.iter().map(Delivery::text).collect::<Vec<_>>(), texts);
    sdk.client.close();
}

/// A message that is abandoned as often as it may be is found among the dead letters, with the reason.
pub(crate) fn counts_to_the_dead_letters(dialect: &Dialect) {
    let broker = Broker::with_queue(EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
    fill(&broker, &["poison"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    for count in 0..3 {
        let delivery = sdk.receive(channel, RECEIVER, 1).remove(0);
        delivery.is_locked_for_service_bus(count);
        sdk.settle(channel, &delivery, (dialect.abandon)());
    }
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    let channel = sdk.receiver(&format!("{QUEUE}/$DeadLetterQueue"), RECEIVER + 10, dialect.locking);
    let letter = sdk.receive(channel, RECEIVER + 10, 1).remove(0);
    assert_eq!(letter.text(), "poison");
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("MaxDeliveryCountExceeded"));
    assert!(letter.property("DeadLetterErrorDescription").is_some());
    sdk.settle(channel, &letter, DeliveryState::Accepted);
    sdk.client.close();
}

/// Two receivers get different messages, and all of them.
pub(crate) fn competes(dialect: &Dialect) {
    let texts = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let broker = filled(&texts);
    let mut receivers = [Sdk::connect(&broker, dialect), Sdk::connect(&broker, dialect)];
    let channels = receivers.each_mut().map(|sdk| sdk.receiver(QUEUE, RECEIVER, dialect.locking));
    let mut seen = BTreeSet::new();
    for (sdk, channel) in receivers.iter_mut().zip(channels) {
        for delivery in sdk.receive(channel, RECEIVER, 5) {
            seen.insert(delivery.text());
            sdk.settle(channel, &delivery, DeliveryState::Accepted);
        }
    }
    assert_eq!(seen, texts.map(str::to_owned).into());
    for (sdk, channel) in receivers.iter_mut().zip(channels) {
        assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    }
}

/// A settlement after the end of its lock is answered on the link by the error for it; the message comes again.
pub(crate) fn loses_a_lock(dialect: &Dialect) {
    let broker = filled(&["slow"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    let delivery = sdk.receive(channel, RECEIVER, 1).remove(0);
    advance(broker.address, Duration::from_secs(61));
    let answer = sdk.client.outcome(channel, delivery.id(), DeliveryState::Accepted);
    let Some(DeliveryState::Rejected(Some(error))) = answer.state else { panic!("{answer:?}") };
    assert_eq!(error.condition, "com.microsoft:message-lock-lost");
    let again = sdk.receive(channel, RECEIVER, 1).remove(0);
    again.is_locked_for_service_bus(1);
    sdk.settle(channel, &again, DeliveryState::Accepted);
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    sdk.client.close();
}

/// A message that is too large is rejected with the error for it, and the link goes on.
pub(crate) fn is_told_of_a_size(dialect: &Dialect) {
    let broker = Broker::with(|config| config.core.max_message_bytes = 4096);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.sender(QUEUE);
    let Some(DeliveryState::Rejected(Some(error))) = sdk.offer(channel, 0, &message(&"x".repeat(5000)))
    else {
        panic!()
    };
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    sdk.send(channel, 0, &message("small"));
    sdk.client.close();
}

/// One message and a batch are accepted and become messages in order.
pub(crate) fn sends_and_batches(dialect: &Dialect) {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.sender(QUEUE);
    sdk.send(channel, 0, &message("one"));
    sdk.send(channel, BATCH_FORMAT, &batch(&["two", "three"].map(message)));
    let mut reader = broker.plain();
    reader.receiver(1, QUEUE, None);
    let received = reader.receive(1, 3);
    assert_eq!(received.iter().map(Delivery::text).collect::<Vec<_>>(), ["one", "two", "three"]);
    let first = received[0].sequence_number();
    assert_eq!(received.iter().map(|each| each.sequence_number() - first).collect::<Vec<_>>(), [0, 1, 2]);
    sdk.client.close();
}

/// Each settlement is answered in kind and has its effect.
pub(crate) fn settles(dialect: &Dialect) {
    let broker = filled(&["complete", "abandon", "defer", "dead-letter"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    let received = sdk.receive(channel, RECEIVER, 4);
    for delivery in &received {
        delivery.is_locked_for_service_bus(0);
    }
    sdk.settle(channel, &received[0], DeliveryState::Accepted);
    sdk.settle(channel, &received[1], (dialect.abandon)());
    sdk.settle(channel, &received[2], (dialect.defer)());
    sdk.settle(channel, &received[3], (dialect.dead_letter)());
    let again = sdk.receive(channel, RECEIVER, 1).remove(0);
    assert_eq!(again.text(), "abandon");
    again.is_locked_for_service_bus(1);
    assert_ne!(again.lock_token(), received[1].lock_token());
    sdk.settle(channel, &again, DeliveryState::Accepted);
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    let dead = format!("{QUEUE}/$DeadLetterQueue");
    let channel = sdk.receiver(&dead, RECEIVER + 10, dialect.locking);
    let letter = sdk.receive(channel, RECEIVER + 10, 1).remove(0);
    letter.is_locked_for_service_bus(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    assert_eq!(letter.property("DeadLetterErrorDescription").as_deref(), Some("cannot be read"));
    sdk.settle(channel, &letter, DeliveryState::Accepted);
    sdk.client.close();
}

/// Messages come settled; what some SDKs say about them afterwards does no harm.
pub(crate) fn receives_and_deletes(dialect: &Dialect) {
    let broker = filled(&["a", "b"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.deleting);
    let received = sdk.receive(channel, RECEIVER, 2);
    for delivery in &received {
        assert_eq!(delivery.transfer.settled, Some(true));
        assert_eq!(delivery.transfer.message_format, Some(0));
        assert_eq!(delivery.header().delivery_count, 0);
        let disposition = Disposition {
            role: Role::Receiver,
            first: delivery.id(),
            last: None,
            settled: true,
            state: Some(DeliveryState::Accepted),
            batchable: false,
        };
        sdk.client.wire.script.send(channel, &Performative::Disposition(disposition), b"");
    }
    assert!(sdk.client.drain(channel, RECEIVER, 3).is_empty());
    sdk.client.close();
}

/// A lock is renewed and settled by its token alone, once, though link and connection are gone.
pub(crate) fn renews_and_settles_by_token(dialect: &Dialect) {
    let broker = filled(&["m"]);
    let mut first = Sdk::connect(&broker, dialect);
    let channel = first.receiver(QUEUE, RECEIVER, dialect.locking);
    let delivery = first.receive(channel, RECEIVER, 1).remove(0);
    let until = delivery.annotation("x-opt-locked-until", TypeKind::Timestamp).as_timestamp().unwrap();
    first.client.close();

    // Time that the new lock has and the first had not.
    let later = Duration::from_secs(20);
    advance(broker.address, later);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let token = delivery.lock_token();
    let renewed = sdk.manage(channel, "com.microsoft:renew-lock", &renewal(&[token]));
    assert_eq!(renewed.status("statusCode"), 200);
    let body = renewed.body();
    let expirations = body.get("expirations").unwrap();
    assert_eq!(expirations.kind(), Some(TypeKind::Array));
    let expiration = expirations.to_items().unwrap().remove(0);
    let gained = RawValue::first(&expiration).unwrap().as_timestamp().unwrap() - until;
    assert!(gained >= i64::try_from(later.as_millis()).unwrap(), "{gained} ms");
    let settled = sdk.manage(channel, "com.microsoft:update-disposition", &update(token, "completed"));
    assert_eq!((settled.status("statusCode"), settled.error_condition()), (200, None));
    for (operation, body) in
        [("update-disposition", update(token, "completed")), ("renew-lock", renewal(&[token]))]
    {
        let lost = sdk.manage(channel, &format!("com.microsoft:{operation}"), &body);
        assert_eq!(lost.status("statusCode"), 410, "{operation}");
        assert_eq!(lost.error_condition().as_deref(), Some("com.microsoft:message-lock-lost"));
    }
    sdk.client.close();
}

/// A peek shows what is there, in pages, without lock or effect; past the end there is no content.
pub(crate) fn peeks(dialect: &Dialect) {
    let broker = filled(&["a", "b", "c"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let channel = sdk.management();
    let mut from = 1;
    for texts in [vec!["a", "b"], vec!["c"]] {
        let page = sdk.manage(channel, "com.microsoft:peek-message", &peek(from, 2));
        assert_eq!(page.status("statusCode"), 200);
        let body = page.body();
        let messages: Vec<Delivery> = body
            .get("messages")
            .unwrap()
            .as_list()
            .unwrap()
            .map(|entry| {
                let entry = entry.as_map().unwrap();
                let payload = entry.get("message").unwrap().as_binary().unwrap();
                Delivery { payload: bytes::Bytes::copy_from_slice(payload), ..page.clone() }
            })
            .collect();
        assert_eq!(messages.iter().map(Delivery::text).collect::<Vec<_>>(), texts);
        for message in &messages {
            assert_eq!(message.header().delivery_count, 0);
            assert_eq!(message.annotation("x-opt-message-state", TypeKind::Int).as_i64(), Some(0));
            from = message.sequence_number() + 1;
        }
    }
    let end = sdk.manage(channel, "com.microsoft:peek-message", &peek(from, 2));
    assert_eq!(end.status("statusCode"), 204);
    sdk.client.close();
}

/// A missing entity is told by the sentence that JavaScript and Java look for; the connection goes on.
pub(crate) fn misses_an_entity(dialect: &Dialect) {
    let broker = Broker::with(|config| config.auto_create = false);
    let mut sdk = Sdk::connect(&broker, dialect);
    sdk.authorize("nowhere");
    for role in [Role::Sender, Role::Receiver] {
        let channel = sdk.session();
        let mut attach = Attach::new("link", 7, role);
        let address = (dialect.address)("nowhere");
        (attach.source, attach.target) = (Some(Source::new(address.as_str())), Some(Target::new(address)));
        attach.initial_delivery_count = Some(0);
        let error = sdk.client.refused(channel, attach);
        assert_eq!(error.condition, "amqp:not-found");
        let text = error.description.unwrap();
        let rest = text.split_once("The messaging entity ").expect(&text).1;
        assert!(rest.contains(" could not be found"), "{text}");
        // The SDK answers the detach; that is not answered again.
        sdk.client.wire.script.detach(channel, 7, true).end(channel);
        sdk.client.wire.ended().unwrap();
    }
    sdk.authorize(QUEUE);
    sdk.client.close();
}

/// The token for an entity that is missing is refused with 404; those for the namespace and for what is there are taken.
pub(crate) fn misses_an_entity_by_its_token(dialect: &Dialect) {
    let broker = Broker::with(|config| config.auto_create = false);
    let mut sdk = Sdk::connect(&broker, dialect);
    for (entity, status) in [
        ("nowhere", 404),
        ("nowhere/$management", 404),
        ("nowhere/Subscriptions/s", 404),
        ("", 202),
        (QUEUE, 202),
        ("nowhere", 404),
    ] {
        let told = sdk.put_token(entity, DEVELOPMENT_KEY, u64::from(u32::MAX));
        assert_eq!(told, status, "{entity}");
    }
    sdk.client.close();
}

/// Tokens of a wrong key, and tokens whose time is over, are refused; links without a claim, too.
pub(crate) fn is_refused_without_a_good_token(dialect: &Dialect) {
    let broker = Broker::start();
    let mut sdk = Sdk::connect(&broker, dialect);
    assert_eq!(sdk.put_token(QUEUE, "another key", u64::from(u32::MAX)), 401);
    assert_eq!(sdk.put_token(QUEUE, DEVELOPMENT_KEY, 1_600_000_000), 401);
    let channel = sdk.session();
    let mut attach = Attach::new("link", 7, Role::Sender);
    attach.source = Some(Source::new("identifier"));
    attach.target = Some(Target::new((dialect.address)(QUEUE)));
    attach.initial_delivery_count = Some(0);
    assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:unauthorized-access");
    sdk.client.close();
}
