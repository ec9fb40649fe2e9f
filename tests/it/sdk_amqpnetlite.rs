//! AMQP.NET Lite: transfer-ids that start just before their wrap while delivery-ids start at 0, attaches without modes,
//! outcomes or a target address, tags of four bytes, credit that is added to or drained in one call.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Begin, DeliveryState, Open, Source, Target, TargetTerminus},
    types::{Role, SenderSettleMode},
    value::Value,
};
use bytes::Bytes;

use crate::{
    broker::{Broker, QUEUE},
    plain_cases,
    plain_sdks::{self, Peer, PlainSdk, bare},
};

const LITE: PlainSdk = PlainSdk {
    open,
    begin,
    tag: |number| number.to_be_bytes().to_vec(),
    sender,
    receiver,
    message,
    // Its default is 200; it fills up when half of it is settled.
    prefetch: 10,
    refill_at: 5,
};

fn open() -> Open {
    let mut open = Open::new("5f7d6b0e-5a3a-4f5e-9f38-0b0b5c4b2c11");
    open.hostname = Some("localhost".to_owned());
    (open.max_frame_size, open.channel_max, open.idle_time_out) = (256 * 1024, 255, None);
    open
}

fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: u32::MAX - 2,
        incoming_window: 2048,
        outgoing_window: 2048,
        handle_max: 1023,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

fn sender(name: &str, address: &str) -> Attach {
    let mut attach = Attach::new(name, 0, Role::Sender);
    attach.source = Some(Source::default());
    attach.target = Some(Target::new(address));
    attach.initial_delivery_count = Some(0);
    attach
}

fn receiver(name: &str, address: &str) -> Attach {
    let mut attach = Attach::new(name, 0, Role::Receiver);
    attach.source = Some(Source::new(address));
    attach.target = Some(Target::Terminus(TargetTerminus::default()));
    attach
}

fn message(text: &str) -> Bytes {
    MessageBuilder::new().message_id(text).subject("t").body_value(&Value::String(text.into())).build()
}

#[test]
fn scripted_lite_sends_and_receives_across_the_wrap_of_its_transfer_ids() {
    plain_sdks::sends_and_receives(&LITE);
}

#[test]
fn scripted_lite_drains() {
    plain_sdks::drains(&LITE);
}

#[test]
fn scripted_lite_pipelines_a_thousand_sends() {
    plain_cases::pipelines(&LITE);
}

#[test]
fn scripted_lite_sends_settled_and_is_told_nothing() {
    plain_cases::sends_settled(&LITE);
}

#[test]
fn scripted_lite_counts_to_the_dead_letters() {
    plain_cases::counts_to_the_dead_letters(&LITE);
}

#[test]
fn scripted_lite_tells_why_it_rejects() {
    plain_cases::tells_why(&LITE);
}

#[test]
fn scripted_lite_receivers_compete() {
    plain_cases::competes(&LITE);
}

#[test]
fn scripted_lite_settles_too_late_in_vain() {
    plain_cases::comes_too_late(&LITE);
}

#[test]
fn scripted_lite_settles_late_what_it_holds() {
    plain_cases::settles_late(&LITE);
}

#[test]
fn scripted_lite_is_refused_with_a_wrong_key() {
    plain_cases::is_refused_with_a_wrong_key(&LITE);
}

#[test]
fn scripted_lite_is_told_of_a_message_that_is_too_large() {
    plain_cases::is_told_of_a_size(&LITE);
}

#[test]
fn scripted_lite_settles_in_every_way() {
    plain_sdks::settles(&LITE);
}

#[test]
fn scripted_lite_receivers_give_back_what_they_leave_without_counting() {
    plain_sdks::gives_back_what_it_leaves(&LITE);
}

#[test]
fn scripted_lite_is_told_that_a_queue_is_missing() {
    plain_sdks::misses_a_queue(&LITE);
}

#[test]
fn scripted_lite_sends_settled_when_it_wants_no_answer() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &LITE);
    // The mode of the link is not said: each transfer says its own.
    peer.sender(QUEUE);
    peer.send_on(0, true, &message("unanswered"));
    peer.send(&["answered"]);
    peer.receiver(QUEUE);
    let texts = ["unanswered", "answered"];
    let came = peer.drain(1, 10);
    assert_eq!(came.len(), 2);
    for ((_, payload), text) in came.iter().zip(texts) {
        assert_eq!(bare(payload), bare(&message(text)));
    }
}

#[test]
fn scripted_lite_adds_credit_and_takes_it_back() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &LITE);
    peer.sender(QUEUE);
    peer.receiver(QUEUE);
    peer.flow(1, 2, false);
    peer.flow(1, 5, false);
    peer.flow(1, 0, false);
    peer.send(&["a", "b"]);
    peer.flow(1, 1, false);
    peer.delivery();
    // Not one more than it granted last: `delivery` and `drain` count each.
    assert_eq!(peer.drain(1, 3).len(), 1);
}

#[test]
fn scripted_lite_receiver_may_ask_for_settled_messages() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &LITE);
    peer.sender(QUEUE);
    peer.send(&["m"]);
    let attach = Attach { snd_settle_mode: Some(SenderSettleMode::Settled), ..receiver("settled", QUEUE) };
    peer.attach(3, attach);
    assert_eq!(peer.drain(3, 1)[0].0.settled, Some(true));
    peer.close_link(3);
    peer.receiver(QUEUE);
    assert!(peer.drain(1, 1).is_empty());
}

#[test]
fn scripted_lite_receiver_settles_a_range_out_of_order() {
    let broker = Broker::start();
    let mut peer = Peer::connect(&broker, &LITE);
    peer.sender(QUEUE);
    peer.send(&["a", "b", "c"]);
    peer.receiver(QUEUE);
    let ids: Vec<u32> = peer.drain(1, 3).iter().filter_map(|(transfer, _)| transfer.delivery_id).collect();
    for (id, state) in [
        (ids[2], DeliveryState::Accepted),
        (ids[0], DeliveryState::Released),
        (ids[1], DeliveryState::Accepted),
    ] {
        peer.settle(id, Some(state));
    }
    let again = peer.drain(1, 3);
    assert_eq!(again.len(), 1);
    assert_eq!(bare(&again[0].1), bare(&message("a")));
    peer.close();
}
