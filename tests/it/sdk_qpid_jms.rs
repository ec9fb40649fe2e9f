//! Qpid JMS on proton-j: every mode said, capabilities for the kind of each destination, a drain behind each stop,
//! `receiveNoWait` and browser, outcomes that are settled at once.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Begin, DeliveryState, Open, Source, Target, TargetTerminus, Transfer},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{Header, PropertyField, Sections},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
    value::Value,
};
use broker_core::{EntityKind, EntitySettings};
use broker_server::{EntityPlan, ServerConfig};
use bytes::Bytes;

use crate::{
    broker::{Broker, Folder, QUEUE, durable},
    dialect::modified,
    plain_cases,
    plain_sdks::{self, Peer, PlainSdk, anonymous_target, bare, source},
};

const JMS: PlainSdk = PlainSdk {
    open,
    begin,
    tag: |number| number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).chain([0]).collect(),
    sender,
    receiver,
    message: |text| message(text, QUEUE),
    // Its default is 1000.
    prefetch: 10,
    refill_at: 3,
};

const PRODUCER: &str = "ID:4f1c2e9a-0c62-4f7a-9d6b-3f0f6f3b7c11:1:1:1";

fn open() -> Open {
    let mut open = Open::new("ID:4f1c2e9a-0c62-4f7a-9d6b-3f0f6f3b7c11:1");
    open.hostname = Some("localhost".to_owned());
    (open.max_frame_size, open.channel_max, open.idle_time_out) = (1 << 20, 32_767, Some(30_000));
    let desired = ["sole-connection-for-container", "DELAYED_DELIVERY", "ANONYMOUS-RELAY", "SHARED-SUBS"];
    open.desired_capabilities = desired.map(Into::into).to_vec();
    open.properties = Some(RawMap::with_symbol_keys(&[
        ("product", AnnotationValue::Str("QpidJMS")),
        ("version", AnnotationValue::Str("2.7.0")),
        ("platform", AnnotationValue::Str("JVM: 21")),
    ]));
    open
}

fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 1,
        incoming_window: 2047,
        outgoing_window: i32::MAX.cast_unsigned(),
        handle_max: 65_535,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

fn sender(name: &str, address: &str) -> Attach {
    let mut attach = Attach::new(format!("qpid-jms:sender:{PRODUCER}:{name}"), 0, Role::Sender);
    (attach.snd_settle_mode, attach.rcv_settle_mode) =
        (Some(SenderSettleMode::Unsettled), Some(ReceiverSettleMode::First));
    let outcomes = ["amqp:accepted:list", "amqp:rejected:list"].map(Into::into).to_vec();
    attach.source = Some(Source { outcomes, ..Source::new(PRODUCER) });
    attach.target = Some(Target::Terminus(TargetTerminus {
        address: Some(address.into()),
        capabilities: vec!["queue".into()],
        ..TargetTerminus::default()
    }));
    attach.initial_delivery_count = Some(0);
    attach.desired_capabilities = vec!["DELAYED_DELIVERY".into()];
    attach
}

fn receiver(name: &str, address: &str) -> Attach {
    let mut attach = Attach::new(format!("qpid-jms:receiver:{PRODUCER}:{name}"), 0, Role::Receiver);
    (attach.snd_settle_mode, attach.rcv_settle_mode) =
        (Some(SenderSettleMode::Unsettled), Some(ReceiverSettleMode::First));
    let capabilities = vec!["queue".into()];
    attach.source = Some(Source { capabilities, ..source(address, Some(modified(Some(true), None))) });
    attach.target = Some(Target::Terminus(TargetTerminus::default()));
    attach
}

/// A text message with the annotations of the JMS mapping, whose numbers are of type `byte`.
fn message(text: &str, to: &str) -> Bytes {
    let byte = |value: &'static [u8]| AnnotationValue::Raw(RawValue::first(value).unwrap());
    let annotations = [("x-opt-jms-msg-type", byte(&[0x51, 5])), ("x-opt-jms-dest", byte(&[0x51, 0]))];
    MessageBuilder::new()
        .header(Header { durable: Some(true), ..Header::default() })
        .message_annotations(RawMap::with_symbol_keys(&annotations))
        .message_id(&format!("ID:{text}"))
        .to(to)
        .property(PropertyField::CreationTime, AnnotationValue::Timestamp(1_795_000_000_000))
        .body_value(&Value::String(text.into()))
        .build()
}

#[test]
fn scripted_jms_sends_and_receives() {
    plain_sdks::sends_and_receives(&JMS);
}

#[test]
fn scripted_jms_drains() {
    plain_sdks::drains(&JMS);
}

#[test]
fn scripted_jms_pipelines_a_thousand_sends() {
    plain_cases::pipelines(&JMS);
}

#[test]
fn scripted_jms_sends_settled_and_is_told_nothing() {
    plain_cases::sends_settled(&JMS);
}

#[test]
fn scripted_jms_counts_to_the_dead_letters() {
    plain_cases::counts_to_the_dead_letters(&JMS);
}

#[test]
fn scripted_jms_receivers_compete() {
    plain_cases::competes(&JMS);
}

#[test]
fn scripted_jms_settles_too_late_in_vain() {
    plain_cases::comes_too_late(&JMS);
}

#[test]
fn scripted_jms_settles_late_what_it_holds() {
    plain_cases::settles_late(&JMS);
}

#[test]
fn scripted_jms_is_refused_with_a_wrong_key() {
    plain_cases::is_refused_with_a_wrong_key(&JMS);
}

#[test]
fn scripted_jms_is_told_of_a_message_that_is_too_large() {
    plain_cases::is_told_of_a_size(&JMS);
}

#[test]
fn scripted_jms_settles_in_every_way() {
    plain_sdks::settles(&JMS);
}

#[test]
fn scripted_jms_consumers_give_back_what_they_leave_without_counting() {
    plain_sdks::gives_back_what_it_leaves(&JMS);
}

#[test]
fn scripted_jms_is_told_that_a_queue_is_missing() {
    plain_sdks::misses_a_queue(&JMS);
}

#[test]
fn scripted_jms_reads_its_annotations_as_it_wrote_them() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &JMS);
    peer.sender(QUEUE);
    peer.send(&["m"]);
    peer.receiver(QUEUE);
    let (_, payload) = peer.drain(1, 1).remove(0);
    let sections = Sections::scan(&payload).unwrap();
    let annotations = sections.message_annotations_view(&payload);
    for (key, bytes) in [("x-opt-jms-msg-type", [0x51, 5]), ("x-opt-jms-dest", [0x51, 0])] {
        assert_eq!(annotations.get(key).unwrap().bytes(), bytes, "{key}");
    }
    assert!(sections.read_header(&payload).unwrap().is_durable());
}

#[test]
fn scripted_jms_consumer_that_stops_gets_what_is_under_way_and_no_more() {
    let broker = Broker::start();
    let (mut producer, mut peer) = (Peer::connect(&broker, &JMS), Peer::connect(&broker, &JMS));
    producer.sender(QUEUE);
    peer.receiver(QUEUE);
    peer.flow(1, 10, false);
    producer.send(&["a", "b"]);
    // It drains with the credit that it believes to be left, and messages may cross that.
    let under_way: Vec<_> = (0..2).map(|_| peer.delivery()).collect();
    assert!(peer.drain(1, 8).is_empty());
    producer.send(&["later"]);
    for (transfer, _) in under_way {
        peer.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Accepted));
    }
    // Started again it gets the rest.
    peer.flow(1, 10, false);
    assert_eq!(bare(&peer.delivery().1), bare(&message("later", QUEUE)));
}

#[test]
fn scripted_jms_consumer_without_prefetch_pulls_with_one_credit_and_a_drain() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &JMS);
    peer.sender(QUEUE);
    peer.receiver(QUEUE);
    assert!(peer.drain(1, 1).is_empty(), "receiveNoWait finds nothing");
    peer.send(&["a", "b"]);
    for _ in 0..2 {
        // The credit first, the drain in a second flow.
        peer.flow(1, 1, false);
        let (transfer, _) = peer.delivery();
        peer.settle(transfer.delivery_id.unwrap(), Some(DeliveryState::Accepted));
    }
    assert!(peer.drain(1, 1).is_empty());
}

#[test]
fn scripted_jms_browser_sees_each_message_and_its_end() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &JMS);
    peer.sender(QUEUE);
    peer.send(&["a", "b"]);
    for handle in [3, 4] {
        let mut browser = receiver(&format!("browser {handle}"), QUEUE);
        browser.snd_settle_mode = Some(SenderSettleMode::Settled);
        browser.source =
            browser.source.map(|source| Source { distribution_mode: Some("copy".into()), ..source });
        let answer = peer.attach(handle, browser);
        assert_eq!(answer.source.unwrap().distribution_mode, Some("copy".into()));
        let seen = peer.drain(handle, 10);
        assert!(seen.iter().all(|(transfer, _)| transfer.settled == Some(true)));
        assert_eq!(seen.len(), 2);
        peer.close_link(handle);
    }
}

#[test]
fn scripted_jms_producer_without_destination_sends_by_the_to_of_each_message() {
    let broker = Broker::with(|config| config.auto_create = false);
    let mut peer = Peer::connect(&broker, &JMS);
    let mut anonymous = sender("anonymous", "");
    anonymous.target = Some(anonymous_target());
    peer.attach(7, anonymous);
    let id = peer.send_on(7, false, &message("m", QUEUE));
    assert_eq!(peer.outcome_of(id), DeliveryState::Accepted);
    let id = peer.send_on(7, false, &message("m", "nowhere"));
    let DeliveryState::Rejected(Some(error)) = peer.outcome_of(id) else { panic!() };
    assert_eq!(error.condition, "amqp:not-found");
    peer.close();
}

/// `createDurableConsumer` or `createSharedDurableConsumer`: the link is named after the subscription, and the filters have
/// descriptors, the second of which says list where a string follows.
fn durable_subscriber(name: &str, shared: bool, selector: Option<&str>) -> Attach {
    let described = |descriptor: &str, text: &str| {
        let mut value = vec![0x00, 0xa3, u8::try_from(descriptor.len()).unwrap()];
        value.extend_from_slice(descriptor.as_bytes());
        value.extend_from_slice(&[0xa1, u8::try_from(text.len()).unwrap()]);
        value.extend_from_slice(text.as_bytes());
        value
    };
    let no_local = described("apache.org:no-local-filter:list", "NoLocalFilter{}");
    let chosen = selector.map(|text| described("apache.org:selector-filter:string", text));
    let mut filters = vec![("no-local", AnnotationValue::Raw(RawValue::first(&no_local).unwrap()))];
    if let Some(value) = &chosen {
        filters.push(("jms-selector", AnnotationValue::Raw(RawValue::first(value).unwrap())));
    }
    let capabilities = if shared { vec!["topic".into(), "shared".into()] } else { vec!["topic".into()] };
    let mut attach = receiver(name, TOPIC);
    attach.name = name.to_owned();
    attach.source = attach.source.map(|source| Source {
        durable: 2,
        expiry_policy: Some("never".into()),
        distribution_mode: Some("copy".into()),
        filter: Some(RawMap::with_symbol_keys(&filters)),
        capabilities,
        ..source
    });
    attach
}

/// How `Session.unsubscribe` begins.
fn unsubscriber(name: &str) -> Attach {
    let mut attach = receiver(name, TOPIC);
    (attach.name, attach.source) = (name.to_owned(), None);
    attach
}

const TOPIC: &str = "news";

fn with_topic(config: &mut ServerConfig) {
    let (kind, settings) = (EntityKind::Topic, EntitySettings::default());
    config.entities.push(EntityPlan { name: TOPIC.into(), kind, settings, rules: None });
}

fn texts(received: &[(Transfer, Bytes)]) -> Vec<String> {
    let text = |payload: &Bytes| {
        let sections = Sections::scan(payload).unwrap();
        sections.body_value(payload).unwrap().as_string().unwrap().to_owned()
    };
    received.iter().map(|(_, payload)| text(payload)).collect()
}

#[test]
fn scripted_jms_finds_as_a_durable_subscriber_what_came_while_it_and_the_broker_were_away() {
    let folder = Folder::new();
    let mut config = durable(&folder.0);
    with_topic(&mut config);
    let broker = Broker::of(&config);
    let mut peer = Peer::connect(&broker, &JMS);
    assert!(peer.offered.contains(&"SHARED-SUBS".into()));
    let answer = peer.attach(1, durable_subscriber("headlines", false, Some("colour <> 'grey'")));
    let filters = answer.source.unwrap().filter.unwrap();
    assert!(filters.get("jms-selector").is_some() && filters.get("no-local").is_none());
    peer.detach_link(1);
    publish(&mut peer, &[("a", "red"), ("b", "grey")]);
    peer.close();
    broker.stop();

    let broker = Broker::of(&config);
    let mut peer = Peer::connect(&broker, &JMS);
    peer.attach(1, durable_subscriber("headlines", false, Some("colour <> 'grey'")));
    assert_eq!(texts(&peer.drain(1, 10)), ["a"]);
    peer.detach_link(1);
    // It unsubscribes, and is told when there is nothing.
    let found = peer.attach_lookup(2, unsubscriber("headlines"));
    assert_eq!(found.source.unwrap().address, Some(TOPIC.into()));
    peer.close_link(2);
    assert_eq!(peer.refused(3, unsubscriber("headlines")).condition, "amqp:not-found");
}

#[test]
fn scripted_jms_consumer_of_a_queue_gets_what_its_selector_takes() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &JMS);
    publish_to(&mut peer, QUEUE, "queue", &[("a", "red"), ("b", "grey"), ("c", "red")]);
    let chosen = durable_subscriber("any", false, Some("colour <> 'grey'")).source.unwrap().filter;
    let mut consumer = receiver("choosy", QUEUE);
    consumer.source = consumer.source.map(|source| source.with_filter(chosen));
    let answer = peer.attach(1, consumer);
    let filters = answer.source.unwrap().filter.unwrap();
    assert!(filters.get("jms-selector").is_some() && filters.get("no-local").is_none());
    assert_eq!(texts(&peer.drain(1, 10)), ["a", "c"]);
    peer.attach(2, receiver("other", QUEUE));
    assert_eq!(texts(&peer.drain(2, 10)), ["b"]);
}

#[test]
fn scripted_jms_consumers_share_a_durable_subscription() {
    let broker = Broker::with(with_topic);
    let (mut one, mut two) = (Peer::connect(&broker, &JMS), Peer::connect(&broker, &JMS));
    one.attach(1, durable_subscriber("jobs", true, None));
    two.attach(1, durable_subscriber("jobs|2", true, None));
    assert_eq!(two.refused(5, durable_subscriber("jobs", false, None)).condition, "amqp:resource-locked");
    publish(&mut one, &[("a", "red"), ("b", "red")]);
    let taken = [one.drain(1, 1), two.drain(1, 1)].concat();
    assert_eq!(texts(&taken), ["a", "b"]);
}

#[test]
fn scripted_jms_consumers_of_a_missing_topic_get_each_message() {
    let broker = Broker::with(|config| config.auto_create = true);
    let mut peer = Peer::connect(&broker, &JMS);
    for handle in [1, 2] {
        let mut consumer = receiver(&format!("listener {handle}"), "fresh");
        consumer.source =
            consumer.source.map(|source| Source { capabilities: vec!["topic".into()], ..source });
        peer.attach(handle, consumer);
    }
    publish_to(&mut peer, "fresh", "topic", &[("a", "red")]);
    for handle in [1, 2] {
        assert_eq!(texts(&peer.drain(handle, 10)), ["a"]);
    }
    // A sender that means a queue is told that there is a topic.
    assert_eq!(peer.refused(7, sender("mistaken", "fresh")).condition, "amqp:not-allowed");
}

/// Sends text messages with a property to the topic.
fn publish(peer: &mut Peer<'_>, messages: &[(&str, &str)]) {
    publish_to(peer, TOPIC, "topic", messages);
}

/// Sends text messages with a property to a node of a kind.
fn publish_to(peer: &mut Peer<'_>, target: &str, kind: &'static str, messages: &[(&str, &str)]) {
    let mut attach = sender("publisher", target);
    if let Some(Target::Terminus(terminus)) = &mut attach.target {
        terminus.capabilities = vec![kind.into()];
    }
    peer.attach(9, attach);
    for (text, colour) in messages {
        let message = MessageBuilder::new().message_id(&format!("ID:{text}")).to(target);
        let message = message.application_property("colour", AnnotationValue::Str(colour));
        let message = message.body_value(&Value::String((*text).into())).build();
        let id = peer.send_on(9, false, &message);
        assert_eq!(peer.outcome_of(id), DeliveryState::Accepted);
    }
    peer.close_link(9);
}
