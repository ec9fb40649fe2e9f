//! `ProtonJ2`: credit before the attach is answered, the receiver's address as its target too, streams that end in an
//! empty transfer, outcomes that are settled at once.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Begin, DeliveryState, Flow, Open, Target},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
    value::Value,
};
use bytes::Bytes;

use crate::{
    broker::{Broker, QUEUE},
    dialect::modified,
    plain_cases,
    plain_sdks::{self, Peer, PlainSdk, bare, source},
};

const PROTONJ2: PlainSdk = PlainSdk {
    open,
    begin,
    // As few bytes as the number needs.
    tag: |number| match u8::try_from(number) {
        Ok(small) => vec![small],
        Err(_) => u16::try_from(number).unwrap().to_be_bytes().to_vec(),
    },
    sender,
    receiver,
    message,
    prefetch: 10,
    refill_at: 7,
};

const MODES: (Option<SenderSettleMode>, Option<ReceiverSettleMode>) =
    (Some(SenderSettleMode::Unsettled), Some(ReceiverSettleMode::First));

fn open() -> Open {
    let mut open = Open::new("ID:9b7a1f60-52aa-4b8e-8c4e-6e3f7d1f7c0a:1");
    open.hostname = Some("localhost".to_owned());
    (open.max_frame_size, open.channel_max, open.idle_time_out) = (65_536, 65_535, Some(30_000));
    open.desired_capabilities = vec!["ANONYMOUS-RELAY".into()];
    open
}

fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1600,
        outgoing_window: i32::MAX.cast_unsigned(),
        handle_max: 65_535,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

fn sender(name: &str, address: &str) -> Attach {
    let mut attach = Attach::new(format!("sender-{name}"), 0, Role::Sender);
    (attach.snd_settle_mode, attach.rcv_settle_mode) = MODES;
    attach.source = Some(source(name, None));
    attach.target = Some(Target::new(address));
    attach.initial_delivery_count = Some(0);
    attach
}

fn receiver(name: &str, address: &str) -> Attach {
    let mut attach = Attach::new(format!("receiver-{name}"), 0, Role::Receiver);
    (attach.snd_settle_mode, attach.rcv_settle_mode) = MODES;
    attach.source = Some(source(address, Some(modified(Some(true), Some(false)))));
    attach.target = Some(Target::new(address));
    attach
}

fn message(text: &str) -> Bytes {
    MessageBuilder::new().message_id(text).body_value(&Value::String(text.into())).build()
}

#[test]
fn scripted_protonj2_sends_and_receives() {
    plain_sdks::sends_and_receives(&PROTONJ2);
}

#[test]
fn scripted_protonj2_drains() {
    plain_sdks::drains(&PROTONJ2);
}

#[test]
fn scripted_protonj2_pipelines_a_thousand_sends() {
    plain_cases::pipelines(&PROTONJ2);
}

#[test]
fn scripted_protonj2_sends_settled_and_is_told_nothing() {
    plain_cases::sends_settled(&PROTONJ2);
}

#[test]
fn scripted_protonj2_counts_to_the_dead_letters() {
    plain_cases::counts_to_the_dead_letters(&PROTONJ2);
}

#[test]
fn scripted_protonj2_tells_why_it_rejects() {
    plain_cases::tells_why(&PROTONJ2);
}

#[test]
fn scripted_protonj2_receivers_compete() {
    plain_cases::competes(&PROTONJ2);
}

#[test]
fn scripted_protonj2_settles_too_late_in_vain() {
    plain_cases::comes_too_late(&PROTONJ2);
}

#[test]
fn scripted_protonj2_settles_late_what_it_holds() {
    plain_cases::settles_late(&PROTONJ2);
}

#[test]
fn scripted_protonj2_is_refused_with_a_wrong_key() {
    plain_cases::is_refused_with_a_wrong_key(&PROTONJ2);
}

#[test]
fn scripted_protonj2_is_told_of_a_message_that_is_too_large() {
    plain_cases::is_told_of_a_size(&PROTONJ2);
}

#[test]
fn scripted_protonj2_settles_in_every_way() {
    plain_sdks::settles(&PROTONJ2);
}

#[test]
fn scripted_protonj2_receivers_give_back_what_they_leave_without_counting() {
    plain_sdks::gives_back_what_it_leaves(&PROTONJ2);
}

#[test]
fn scripted_protonj2_is_told_that_a_queue_is_missing() {
    plain_sdks::misses_a_queue(&PROTONJ2);
}

#[test]
fn scripted_protonj2_grants_credit_before_its_attach_is_answered() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &PROTONJ2);
    peer.sender(QUEUE);
    peer.send(&["m"]);
    // The flow is behind the attach in one write, and still knows no delivery-count.
    let attach = Attach { handle: 1, ..receiver("early", QUEUE) };
    let flow = Flow {
        incoming_window: 1600,
        next_outgoing_id: 1,
        outgoing_window: 1600,
        handle: Some(1),
        link_credit: Some(10),
        ..Flow::default()
    };
    peer.wire.script.attach(0, attach).flow(0, flow);
    assert_eq!(peer.wire.attached().unwrap().initial_delivery_count, Some(0));
    assert_eq!(bare(&peer.wire.transferred().unwrap().payload), bare(&message("m")));
}

#[test]
fn scripted_protonj2_stream_ends_in_an_empty_transfer() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &PROTONJ2);
    peer.sender(QUEUE);
    let whole = message(&"stream ".repeat(100));
    for piece in whole.chunks(100) {
        let mut transfer = peer.transfer(0, false);
        transfer.more = true;
        peer.send_frame(transfer, piece);
    }
    let last = peer.transfer(0, false);
    let id = last.delivery_id.unwrap();
    peer.send_frame(last, b"");
    assert_eq!(peer.outcome_of(id), DeliveryState::Accepted);
    peer.receiver(QUEUE);
    assert_eq!(bare(&peer.drain(1, 1)[0].1), bare(&whole));
}

#[test]
fn scripted_protonj2_aborts_a_stream_which_leaves_nothing_and_its_id_is_used_up() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &PROTONJ2);
    peer.sender(QUEUE);
    let mut begun = peer.transfer(0, false);
    begun.more = true;
    peer.send_frame(begun, &message("never")[..5]);
    let mut aborted = peer.transfer(0, true);
    aborted.aborted = true;
    peer.send_frame(aborted, b"");
    peer.send(&["whole"]);
    peer.receiver(QUEUE);
    let came = peer.drain(1, 5);
    assert_eq!(came.len(), 1);
    assert_eq!(bare(&came[0].1), bare(&message("whole")));
}

#[test]
fn scripted_protonj2_receiver_of_settled_messages_is_told_nothing_more() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &PROTONJ2);
    peer.sender(QUEUE);
    peer.send(&["m"]);
    let mut at_most_once = receiver("at most once", QUEUE);
    at_most_once.snd_settle_mode = Some(SenderSettleMode::Settled);
    peer.attach(4, at_most_once);
    let came = peer.drain(4, 10);
    assert_eq!(came[0].0.settled, Some(true));
    peer.close_link(4);
    peer.receiver(QUEUE);
    assert!(peer.drain(1, 1).is_empty(), "it is gone");
}
