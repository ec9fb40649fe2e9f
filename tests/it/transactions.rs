//! Transactions through the whole broker: as the SDKs that have them speak, and over a crash.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Declare, DeliveryState, Discharge, Error, Source, Target, Transfer, TxnId},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, Symbol},
};
use broker_core::{EntityKind, EntitySettings};
use broker_server::EntityPlan;
use bytes::BytesMut;
use testkit::Script;

use crate::{
    broker::{Broker, Folder, QUEUE},
    client::Client,
    dialect::{Dialect, Sdk},
    message::{Delivery, message},
};

const OTHER: &str = "innocent";
const CONTROL: u32 = 30;
const FIRST_SENDER: u32 = 31;
const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// A target that begins transactions.
fn coordinator() -> Target {
    Target::Coordinator { capabilities: vec![Symbol::from("amqp:local-transactions")] }
}

pub(crate) fn coordinate(client: &mut Client, channel: u16, source: Source) {
    let mut attach = Attach::new("0f8fad5bd9cb469fa16570867728950e", CONTROL, Role::Sender);
    (attach.source, attach.target) = (Some(source), Some(coordinator()));
    attach.initial_delivery_count = Some(0);
    let answer = client.attach(channel, attach);
    assert!(matches!(answer.target, Some(Target::Coordinator { .. })), "{answer:?}");
    assert!(client.wire.flowed().unwrap().link_credit.is_some_and(|credit| credit > 0));
}

/// Sends to the coordinator and says its answer.
fn control(client: &mut Client, channel: u16, encode: impl FnOnce(&mut BytesMut)) -> DeliveryState {
    let mut body = BytesMut::new();
    encode(&mut body);
    let body = MessageBuilder::new().body_raw(RawValue::first(&body).unwrap()).build();
    let id = client.send_with(channel, |id| Script::transfer_frame(CONTROL, id, false), &body);
    let mut answer = client.wire.disposed().unwrap();
    while answer.role == Role::Sender {
        // A commit settles what its receivers have not.
        assert!(answer.settled && matches!(answer.state, Some(DeliveryState::Transactional { .. })));
        answer = client.wire.disposed().unwrap();
    }
    assert_eq!((answer.role, answer.settled, answer.first), (Role::Receiver, true, id));
    answer.state.expect("an answer has a state")
}

pub(crate) fn declare(client: &mut Client, channel: u16) -> TxnId {
    match control(client, channel, |body| Declare::default().encode(body)) {
        DeliveryState::Declared { txn_id } => txn_id,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn discharge(client: &mut Client, channel: u16, txn_id: &TxnId, fail: bool) -> DeliveryState {
    let discharge = Discharge { txn_id: txn_id.clone(), fail };
    control(client, channel, |body| discharge.encode(body))
}

pub(crate) fn within(txn_id: &TxnId, outcome: Option<DeliveryState>) -> DeliveryState {
    DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: outcome.map(Box::new) }
}

/// Sends a message in a transaction, and demands the answer that the SDKs look for.
fn send(client: &mut Client, channel: u16, handle: u32, txn_id: &TxnId, text: &str) {
    let transfer = |id| {
        let mut transfer = Script::transfer_frame(handle, id, false);
        transfer.state = Some(within(txn_id, None));
        transfer
    };
    client.send_with(channel, transfer, &message(text));
    let answer = client.wire.disposed().unwrap();
    assert!(answer.settled);
    assert_eq!(answer.state, Some(within(txn_id, Some(DeliveryState::Accepted))));
}

fn complete(client: &mut Client, channel: u16, delivery: &Delivery, txn_id: &TxnId) {
    let state = within(txn_id, Some(DeliveryState::Accepted));
    assert_eq!(client.outcome_within(channel, delivery.id(), state.clone()).state, Some(state));
}

/// The error of a refused message in a transaction.
pub(crate) fn refusal_within(txn_id: &TxnId, state: Option<DeliveryState>) -> Error {
    match state {
        Some(DeliveryState::Transactional { txn_id: of, outcome: Some(outcome) }) if of == *txn_id => {
            let DeliveryState::Rejected(Some(error)) = *outcome else { panic!("{outcome:?}") };
            *error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transaction_holds_as_many_bytes_as_the_configuration_says() {
    for (most, fits) in [(200, false), (1 << 20, true)] {
        let broker = Broker::with(|config| config.core.max_transaction_bytes = most);
        let mut client = broker.plain();
        coordinate(&mut client, 0, Source::new("me"));
        client.sender(1, QUEUE);
        let txn = declare(&mut client, 0);
        let state = within(&txn, None);
        let transfer = |id| Transfer { state: Some(state), ..Script::transfer_frame(1, id, false) };
        client.send_with(0, transfer, &message("m"));
        let answer = client.wire.disposed().unwrap().state;
        if fits {
            assert_eq!(answer, Some(within(&txn, Some(DeliveryState::Accepted))), "{most}");
        } else {
            assert_eq!(refusal_within(&txn, answer).condition, "amqp:resource-limit-exceeded", "{most}");
        }
    }
}

/// Everything in a queue, removed.
fn everything(broker: &Broker, queue: &str) -> Vec<String> {
    let mut client = broker.plain();
    client.receiver(1, queue, None);
    client.drain(0, 1, 1_000).iter().map(Delivery::text).collect()
}

/// A broker with two messages to work on.
fn filled(broker: &Broker) {
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["work", "more work"]);
    client.close();
}

/// An SDK with cross-entity transactions: everything on one session, the coordinator first.
pub(crate) fn cross_entity(dialect: &Dialect, source: fn() -> Source) {
    for fail in [false, true] {
        let broker = Broker::start();
        filled(&broker);
        let mut sdk = Sdk::connect(&broker, dialect);
        let channel = sdk.session();
        coordinate(&mut sdk.client, channel, source());
        for entity in [QUEUE, OTHER] {
            sdk.authorize(entity);
        }
        sdk.receiver_on(channel, QUEUE, 3);
        sdk.sender_on(channel, OTHER, FIRST_SENDER, None);
        let delivery = sdk.receive(channel, 3, 1).remove(0);
        let client = &mut sdk.client;
        let txn = declare(client, channel);
        complete(client, channel, &delivery, &txn);
        send(client, channel, FIRST_SENDER, &txn, "done");
        assert_eq!(everything(&broker, OTHER), [""; 0], "nobody sees it yet");
        assert_eq!(discharge(client, channel, &txn, fail), DeliveryState::Accepted);
        assert_eq!(everything(&broker, OTHER), if fail { vec![] } else { vec!["done"] });
        // Another receiver gets what is neither gone nor locked.
        assert_eq!(everything(&broker, QUEUE), ["more work"]);
        if fail {
            settle_after_a_rollback(&mut sdk, channel, &delivery);
        }
    }
}

/// After a rollback .NET settles the same delivery again, as the recordings of it show: in another transaction, and then,
/// when that is rolled back too, outside of one. Both are answered.
fn settle_after_a_rollback(sdk: &mut Sdk, channel: u16, delivery: &Delivery) {
    let txn = declare(&mut sdk.client, channel);
    complete(&mut sdk.client, channel, delivery, &txn);
    assert_eq!(discharge(&mut sdk.client, channel, &txn, true), DeliveryState::Accepted);
    let answer = sdk.client.outcome(channel, delivery.id(), DeliveryState::Accepted);
    assert_eq!(answer.state, Some(DeliveryState::Accepted));
}

/// An SDK without them: each link has its session, and a transaction is on one entity; another is reached through it.
pub(crate) fn one_entity_and_send_via(dialect: &Dialect, source: fn() -> Source) {
    let broker = Broker::start();
    filled(&broker);
    let mut sdk = Sdk::connect(&broker, dialect);
    let control = sdk.session();
    coordinate(&mut sdk.client, control, source());
    sdk.authorize(OTHER);
    let receiving = sdk.receiver(QUEUE, 3, dialect.locking);
    let delivery = sdk.receive(receiving, 3, 1).remove(0);
    let sending = sdk.session();
    sdk.sender_on(sending, OTHER, FIRST_SENDER, None);
    sdk.sender_on(sending, QUEUE, FIRST_SENDER + 1, Some(OTHER));
    let client = &mut sdk.client;

    let txn = declare(client, control);
    complete(client, receiving, &delivery, &txn);
    let transfer = |id| {
        let mut transfer = Script::transfer_frame(FIRST_SENDER, id, false);
        transfer.state = Some(within(&txn, None));
        transfer
    };
    client.send_with(sending, transfer, &message("straight"));
    let error = refusal_within(&txn, client.wire.disposed().unwrap().state);
    assert_eq!(error.condition, "amqp:not-allowed", "{error:?}");
    let DeliveryState::Rejected(Some(error)) = discharge(client, control, &txn, false) else { panic!() };
    assert_eq!(error.condition, "amqp:transaction:rollback");

    let second = sdk.receive(receiving, 3, 1).remove(0);
    let client = &mut sdk.client;
    let txn = declare(client, control);
    complete(client, receiving, &second, &txn);
    send(client, sending, FIRST_SENDER + 1, &txn, "through the first");
    assert_eq!(discharge(client, control, &txn, false), DeliveryState::Accepted);
    assert_eq!(everything(&broker, OTHER), ["through the first"]);
    assert_eq!(everything(&broker, QUEUE), [""; 0], "one is gone, one is locked");
}

/// `update-disposition` names the transaction on its transfer, and every outcome is repeated inside of it.
pub(crate) fn settles_in_transactions(dialect: &Dialect, source: fn() -> Source) {
    let broker = Broker::start();
    let texts = ["completed", "abandoned", "deferred", "dead", "by token"];
    let mut publisher = broker.plain();
    publisher.sender(1, QUEUE);
    publisher.accepted(1, &texts);
    let mut sdk = Sdk::connect(&broker, dialect);
    let control = sdk.session();
    coordinate(&mut sdk.client, control, source());
    let receiving = sdk.receiver(QUEUE, 3, dialect.locking);
    let deliveries = sdk.receive(receiving, 3, 5);
    let management = sdk.management();
    let txn = declare(&mut sdk.client, control);
    let outcomes = [DeliveryState::Accepted, (dialect.abandon)(), (dialect.defer)(), (dialect.dead_letter)()];
    for (delivery, outcome) in deliveries.iter().zip(outcomes) {
        let said = within(&txn, Some(outcome.clone()));
        let answer = sdk.client.outcome_within(receiving, delivery.id(), said).state;
        let echo = match outcome {
            // An error would mean failure.
            DeliveryState::Rejected(_) => DeliveryState::Rejected(None),
            other => other,
        };
        assert_eq!(answer, Some(within(&txn, Some(echo))));
    }
    let update = crate::message::update(deliveries[4].lock_token(), "completed");
    let state = within(&txn, None);
    let reply = sdk.manage_in(management, "com.microsoft:update-disposition", &update, &state);
    assert_eq!(reply.status("statusCode"), 200);
    assert_eq!(everything(&broker, QUEUE), [""; 0]);
    assert_eq!(everything(&broker, "orders/$DeadLetterQueue"), [""; 0]);
    assert_eq!(discharge(&mut sdk.client, control, &txn, false), DeliveryState::Accepted);
    assert_eq!(everything(&broker, QUEUE), ["abandoned"]);
    assert_eq!(everything(&broker, "orders/$DeadLetterQueue"), ["dead"]);
}

const TOPIC: &str = "events";
const ONE: &str = "events/Subscriptions/one";
const TWO: &str = "events/Subscriptions/two";

/// A topic with two subscriptions, each of which has a message.
fn with_topic() -> Broker {
    let plan = |(name, kind)| EntityPlan { kind, ..EntityPlan::queue(name, EntitySettings::default()) };
    let entities =
        [(TOPIC, EntityKind::Topic), (ONE, EntityKind::Subscription), (TWO, EntityKind::Subscription)];
    let broker = Broker::with(|config| config.entities = entities.map(plan).to_vec());
    let mut client = broker.plain();
    client.sender(1, TOPIC);
    client.accepted(1, &["work"]);
    client.close();
    broker
}

/// A message of a subscription is completed and another one sent to the topic: each subscription has its copy at the
/// commit and not before. Without the option for several entities too, for a topic and its subscriptions are one.
pub(crate) fn topics_and_subscriptions(dialect: &Dialect, source: fn() -> Source) {
    for (fail, one_session) in [(false, true), (true, true), (false, false), (true, false)] {
        let broker = with_topic();
        let mut sdk = Sdk::connect(&broker, dialect);
        let control = sdk.session();
        coordinate(&mut sdk.client, control, source());
        for entity in [TOPIC, ONE] {
            sdk.authorize(entity);
        }
        let receiving = if one_session { control } else { sdk.session() };
        sdk.receiver_on(receiving, ONE, 3);
        let sending = if one_session { control } else { sdk.session() };
        sdk.sender_on(sending, TOPIC, FIRST_SENDER, None);
        let delivery = sdk.receive(receiving, 3, 1).remove(0);
        let client = &mut sdk.client;
        let txn = declare(client, control);
        complete(client, receiving, &delivery, &txn);
        send(client, sending, FIRST_SENDER, &txn, "done");
        assert_eq!(everything(&broker, TWO), ["work"], "nobody sees it yet");
        assert_eq!(discharge(client, control, &txn, fail), DeliveryState::Accepted);
        let copies: &[&str] = if fail { &[] } else { &["done"] };
        assert_eq!(everything(&broker, TWO), copies, "fail {fail}");
        // After a rollback the first message is still locked by its receiver.
        assert_eq!(everything(&broker, ONE), copies, "fail {fail}");
        // After a rollback the delivery is as it was, and its lock may be used as well.
        let node = sdk.management_of(ONE);
        let update = crate::message::update(delivery.lock_token(), "completed");
        let status = sdk.manage(node, "com.microsoft:update-disposition", &update).status("statusCode");
        assert_eq!(status, if fail { 200 } else { 410 });
    }
}

#[test]
fn a_crash_leaves_all_of_a_transaction_or_nothing() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    filled(&broker);
    let mut client = broker.plain();
    coordinate(&mut client, 0, Source::new("here"));
    client.sender(1, QUEUE);
    client.sender(2, OTHER);
    client.receiver(3, QUEUE, SECOND);
    let work = client.receive(3, 1).remove(0);
    let txn = declare(&mut client, 0);
    complete(&mut client, 0, &work, &txn);
    for text in ["a", "b", "c"] {
        send(&mut client, 0, 1, &txn, text);
        send(&mut client, 0, 2, &txn, text);
    }
    // The files at this moment are what a crash would leave; nothing was closed.
    let image = folder.image();
    let before = Broker::durable(&image.0);
    assert_eq!((everything(&before, QUEUE), everything(&before, OTHER)), (two(), vec![]));
    assert_eq!(discharge(&mut client, 0, &txn, false), DeliveryState::Accepted);
    let image = folder.image();
    let after = Broker::durable(&image.0);
    let committed = ["more work", "a", "b", "c"].map(str::to_owned).to_vec();
    let other = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!((everything(&after, QUEUE), everything(&after, OTHER)), (committed, other));
}

fn two() -> Vec<String> {
    ["work", "more work"].map(str::to_owned).to_vec()
}

#[test]
fn a_lost_connection_rolls_its_transactions_back() {
    let broker = Broker::start();
    filled(&broker);
    let mut client = broker.plain();
    coordinate(&mut client, 0, Source::new("here"));
    client.sender(1, OTHER);
    client.receiver(3, QUEUE, SECOND);
    let work = client.receive(3, 2);
    let txn = declare(&mut client, 0);
    complete(&mut client, 0, &work[0], &txn);
    send(&mut client, 0, 1, &txn, "never");
    drop(client);
    let mut other = broker.plain();
    other.receiver(1, QUEUE, SECOND);
    let mut again: Vec<String> = other.receive(1, 2).iter().map(Delivery::text).collect();
    again.sort_unstable();
    assert_eq!(again, ["more work", "work"]);
    assert_eq!(everything(&broker, OTHER), [""; 0]);
}

#[test]
fn what_is_on_its_way_when_the_broker_detaches_a_link_is_not_left_out_of_a_commit() {
    for settled in [false, true] {
        let broker = Broker::start();
        let mut client = broker.plain();
        coordinate(&mut client, 0, Source::new("here"));
        client.sender(1, QUEUE);
        client.sender(2, OTHER);
        let txn = declare(&mut client, 0);
        send(&mut client, 0, 1, &txn, "debit");
        send(&mut client, 0, 2, &txn, "credit");
        for inside in ["<Status>SendDisabled</Status>", ""] {
            crate::live_changes::update(&broker, inside);
        }
        // The client has not read the detach yet, and says everything that it has to say.
        for (handle, text) in [(1, "second debit"), (2, "second credit")] {
            let transfer = |id| {
                let mut transfer = Script::transfer_frame(handle, id, settled);
                transfer.state = Some(within(&txn, None));
                transfer
            };
            client.send_with(0, transfer, &message(text));
        }
        let mut body = BytesMut::new();
        Discharge { txn_id: txn.clone(), fail: false }.encode(&mut body);
        let body = MessageBuilder::new().body_raw(RawValue::first(&body).unwrap()).build();
        let id = client.send_with(0, |id| Script::transfer_frame(CONTROL, id, false), &body);
        let answer = loop {
            let answer = client.wire.disposed().unwrap();
            if answer.last.unwrap_or(answer.first) == id {
                break answer.state.unwrap();
            }
        };
        let DeliveryState::Rejected(Some(error)) = answer else { panic!("{answer:?}") };
        assert_eq!(error.condition, "amqp:transaction:rollback");
        assert_eq!((everything(&broker, QUEUE), everything(&broker, OTHER)), (vec![], vec![]), "{settled}");
        // The connection has its other link, and a new transaction is a new one.
        let next = declare(&mut client, 0);
        send(&mut client, 0, 2, &next, "done");
        assert_eq!(discharge(&mut client, 0, &next, false), DeliveryState::Accepted);
        assert_eq!(everything(&broker, OTHER), ["done"]);
    }
}

/// The attach property that names the final destination of what is sent through another entity.
pub(crate) fn sent_via(destination: &str) -> RawMap {
    let destination = AnnotationValue::Str(destination);
    RawMap::with_symbol_keys(&[("com.microsoft:transfer-destination-address", destination)])
}
