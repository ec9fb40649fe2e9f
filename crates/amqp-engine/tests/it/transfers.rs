use amqp_codec::performative::DeliveryState;
use amqp_codec::types::Role;
use amqp_engine::Event;

use crate::pair::*;

#[test]
fn consecutive_settlements_are_one_disposition() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("in", 0, Role::Sender);
    pair.engine.grant_credit(link, 100);
    for id in 0..10 {
        pair.feed(&amqp_with(0, transfer(0, id), b"body"));
    }
    let deliveries: Vec<_> = pair
        .take_events()
        .into_iter()
        .map(|event| match event {
            Event::Transfer(delivery) => delivery,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(deliveries.len(), 10);
    for delivery in deliveries {
        assert_eq!(&delivery.payload[..], b"body");
        pair.engine.settle_incoming(delivery.session(), delivery.delivery_id, DeliveryState::Accepted);
    }
    let dispositions = pair.dispositions();
    assert_eq!(dispositions, [disposition(Role::Receiver, 0, 9, true)]);
}

#[test]
fn a_message_larger_than_a_frame_is_split() {
    let mut open = amqp_codec::performative::Open::new("client");
    open.max_frame_size = 512;
    let mut pair = Pair::open_as(plain(), open);
    pair.begin(0);
    let link = pair.attach("out", 7, Role::Receiver);
    pair.feed(&amqp(0, credit(7, 0, 10)));
    let sent = message(1, 2_000);
    let whole: Vec<u8> = [&sent.sections[..], &sent.bare[..]].concat();
    pair.engine.send(link, sent).unwrap();
    let transfers = pair.transfers();
    assert!(transfers.len() > 3, "{}", transfers.len());
    let joined: Vec<u8> = transfers.iter().flat_map(|(_, payload)| payload.to_vec()).collect();
    assert_eq!(joined, whole);
    let more: Vec<bool> = transfers.iter().map(|(transfer, _)| transfer.more).collect();
    assert!(more[..more.len() - 1].iter().all(|&more| more) && !more[more.len() - 1]);
}
