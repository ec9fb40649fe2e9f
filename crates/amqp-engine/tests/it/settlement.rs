use amqp_codec::performative::{Attach, DeliveryState, Disposition, Error, Modified, Transfer};
use amqp_codec::raw::RawMap;
use amqp_codec::types::{ReceiverSettleMode, Role};
use amqp_engine::{AttachReply, Config, DeliveryId, Event, LinkKey, Origin};

use crate::pair::*;

/// A pair with a link we receive on, and `count` unsettled deliveries on it, ids from 0.
fn received(count: u32) -> (Pair, LinkKey) {
    let mut pair = Pair::begun(plain());
    let link = pair.attach_as(Attach {
        rcv_settle_mode: Some(ReceiverSettleMode::Second),
        ..attach("in", 0, Role::Sender)
    });
    for id in 0..count {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
    }
    pair.events.clear();
    (pair, link)
}

/// A pair with a link we send on, and `count` deliveries sent on it, ids from 1.
fn sent(count: u8) -> (Pair, LinkKey) {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("out", 0, Role::Receiver);
    for tag in 0..count {
        pair.engine.send(link, message(tag, 10)).unwrap();
    }
    pair.read();
    (pair, link)
}

fn settle(pair: &mut Pair, link: LinkKey, id: u32, state: DeliveryState) {
    pair.engine.settle_incoming(link.session(), DeliveryId(id), state);
}

#[test]
fn settlements_are_sent_as_runs_of_equal_state() {
    let (mut pair, link) = received(10);
    for id in [0, 1, 2, 4, 5] {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    settle(&mut pair, link, 6, DeliveryState::Released);
    let got = pair.dispositions();
    let ranges: Vec<_> = got.iter().map(|d| (d.first, d.last.unwrap(), d.settled, d.role)).collect();
    assert_eq!(
        ranges,
        [(0, 2, true, Role::Receiver), (4, 5, true, Role::Receiver), (6, 6, true, Role::Receiver)]
    );
    assert_eq!(got[2].state, Some(DeliveryState::Released));
}

#[test]
fn one_disposition_spans_links() {
    let (mut pair, one) = received(1);
    let two = pair.attach("two", 1, Role::Sender);
    pair.feed(&amqp_with(0, transfer(1, 1), b"x"));
    settle(&mut pair, one, 0, DeliveryState::Accepted);
    settle(&mut pair, two, 1, DeliveryState::Accepted);
    assert_eq!(pair.dispositions(), [disposition(Role::Receiver, 0, 1, true)]);
}

#[test]
fn settled_and_unknown_deliveries_are_not_settled_again() {
    let (mut pair, link) = received(2);
    settle(&mut pair, link, 0, DeliveryState::Accepted);
    pair.read();
    for id in [0, 2, 1_000_000, u32::MAX] {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    pair.engine.propose_incoming(link.session(), DeliveryId(0), DeliveryState::Accepted);
    assert_eq!(pair.read(), []);
}

#[test]
fn a_settlement_behind_the_detach_is_not_told() {
    let (mut pair, link) = received(2);
    settle(&mut pair, link, 0, DeliveryState::Accepted);
    pair.engine.detach(link, None);
    settle(&mut pair, link, 1, DeliveryState::Accepted);
    let frames = pair.frames();
    // Settlements from before go out before the detach.
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!(frames[0], Body::from(disposition(Role::Receiver, 0, 0, true)).0);
}

#[test]
fn a_rejection_carries_its_error_with_all_fields() {
    let (mut pair, link) = received(1);
    let error = Error::new("amqp:resource-limit-exceeded", "queue is full");
    settle(&mut pair, link, 0, DeliveryState::Rejected(Some(Box::new(error.clone()))));
    let bytes = pair.read_bytes();
    // error list of three fields (rule 1): descriptor 0x1d, list, size, count 3.
    let at = bytes.windows(3).position(|w| w == [0, 0x53, 0x1d]).unwrap();
    let count = if bytes[at + 3] == 0xc0 { bytes[at + 5] } else { bytes[at + 11] };
    assert_eq!(count, 3);
}

#[test]
fn mode_second_is_settled_by_the_peer() {
    let (mut pair, link) = received(3);
    for id in 0..3 {
        pair.engine.propose_incoming(link.session(), DeliveryId(id), DeliveryState::Accepted);
    }
    assert_eq!(pair.dispositions(), [disposition(Role::Receiver, 0, 2, false)]);
    pair.feed(&amqp(0, disposition(Role::Sender, 0, 1, true)));
    assert_eq!(
        pair.take_event(),
        Event::SettledByPeer {
            session: link.session(),
            first: DeliveryId(0),
            last: DeliveryId(1),
            settled: true,
            state: Some(DeliveryState::Accepted),
        }
    );
    // The two are forgotten, the third is not.
    for id in 0..3 {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    assert_eq!(pair.dispositions(), [disposition(Role::Receiver, 2, 2, true)]);
}

#[test]
fn the_peer_settles_its_own_deliveries_in_runs_of_unsettled_ones() {
    let (mut pair, link) = received(6);
    settle(&mut pair, link, 2, DeliveryState::Accepted);
    pair.read();
    pair.feed(&amqp(0, Disposition { state: None, ..disposition(Role::Sender, 1, 100, false) }));
    let runs: Vec<_> = pair
        .take_events()
        .into_iter()
        .map(|event| match event {
            Event::SettledByPeer { first, last, settled: false, state: None, .. } => (first.0, last.0),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(runs, [(1, 1), (3, 5)]);
    settle(&mut pair, link, 1, DeliveryState::Accepted);
    assert_eq!(pair.dispositions().len(), 1, "told, but not settled");
}

#[test]
fn dispositions_of_the_peer_are_passed_on_for_deliveries_that_were_sent() {
    let rejected = DeliveryState::Rejected(Some(Box::new(Error::new("x:y", "z"))));
    let modified = DeliveryState::Modified(Box::new(Modified {
        delivery_failed: Some(true),
        undeliverable_here: None,
        message_annotations: None,
    }));
    let received = DeliveryState::Received { section_number: 1, section_offset: 2 };
    let cases = [
        // first, last, settled, state, what is told
        (1, Some(1), false, Some(DeliveryState::Accepted), Some((1, 1))),
        (2, None, true, Some(rejected), Some((2, 2))),
        (1, Some(5), true, Some(modified), Some((1, 5))),
        (3, Some(3), false, Some(received), Some((3, 3))),
        (4, Some(4), true, None, Some((4, 4))),
        (0, Some(9), true, None, Some((1, 5))),
        (0, Some(i32::MAX.cast_unsigned()), true, None, Some((1, 5))),
        (6, Some(9), true, None, None),
        (0, Some(u32::MAX), true, None, None),
        (5, Some(1), true, None, None),
    ];
    for (first, last, settled, state, told) in cases {
        let (mut pair, link) = sent(5);
        let frame =
            Disposition { role: Role::Receiver, first, last, settled, state: state.clone(), batchable: true };
        pair.feed(&amqp(0, frame));
        let events = pair.take_events();
        let expected = told.map(|(first, last)| Event::Disposition {
            session: link.session(),
            first: DeliveryId(first),
            last: DeliveryId(last),
            settled,
            state,
        });
        assert_eq!(events, expected.into_iter().collect::<Vec<_>>(), "{first}..{last:?}");
        assert_eq!(pair.read(), []);
    }
}

#[test]
fn an_outcome_that_does_not_settle_is_answered_by_settling() {
    let (mut pair, link) = sent(4);
    pair.feed(&amqp(0, disposition(Role::Receiver, 1, 3, false)));
    let Event::Disposition { first, last, settled: false, state, .. } = pair.take_event() else { panic!() };
    pair.engine.settle_outgoing_range(link.session(), first, last, state.clone());
    pair.engine.settle_outgoing(link.session(), DeliveryId(4), state);
    assert_eq!(pair.dispositions(), [disposition(Role::Sender, 1, 4, true)]);
}

#[test]
fn an_outcome_for_later_is_answered_without_settling_and_settled_later() {
    let (mut pair, link) = sent(4);
    let accepted = || DeliveryState::Accepted;
    for id in [1, 2, 4] {
        pair.engine.answer_outgoing(link.session(), DeliveryId(id), accepted());
    }
    let unsettled = |first, last| disposition(Role::Sender, first, last, false);
    assert_eq!(pair.dispositions(), [unsettled(1, 2), unsettled(4, 4)]);
    // Dispositions that settle and those that do not are never one frame.
    pair.engine.answer_outgoing(link.session(), DeliveryId(1), accepted());
    pair.engine.settle_outgoing(link.session(), DeliveryId(2), Some(accepted()));
    assert_eq!(pair.dispositions(), [unsettled(1, 1), disposition(Role::Sender, 2, 2, true)]);
}

#[test]
fn deliveries_that_were_not_sent_cannot_be_answered_or_settled() {
    let (mut pair, link) = sent(2);
    for id in [0, 3, 1_000] {
        pair.engine.settle_outgoing(link.session(), DeliveryId(id), None);
        pair.engine.answer_outgoing(link.session(), DeliveryId(id), DeliveryState::Accepted);
    }
    assert_eq!(pair.read(), []);
}

/// The same as [`received`], on a link whose peer settles what it sends in mode second.
fn received_for_the_peer_to_settle(modes: &[Option<ReceiverSettleMode>]) -> (Pair, LinkKey) {
    let mut pair = Pair::begun(plain());
    pair.answer = false;
    let asked = Attach { rcv_settle_mode: Some(ReceiverSettleMode::Second), ..attach("in", 0, Role::Sender) };
    pair.feed(&amqp(0, asked));
    let Event::LinkAttached { link, attach } = pair.take_event() else { panic!() };
    pair.engine.accept_link(link, AttachReply { settles_second: true, ..AttachReply::echo(&attach) });
    pair.engine.grant_credit(link, 100);
    pair.read();
    for (id, rcv_settle_mode) in (0u32..).zip(modes) {
        let transfer = Transfer { rcv_settle_mode: *rcv_settle_mode, ..transfer(0, id) };
        pair.feed(&amqp_with(0, transfer, b"x"));
    }
    pair.events.clear();
    (pair, link)
}

#[test]
fn a_peer_that_settles_second_is_told_the_outcome_first() {
    let (mut pair, link) = received_for_the_peer_to_settle(&[None; 3]);
    for id in 0..3 {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    assert_eq!(pair.dispositions(), [disposition(Role::Receiver, 0, 2, false)]);
    pair.feed(&amqp(0, disposition(Role::Sender, 0, 1, true)));
    pair.events.clear();
    // Two are forgotten, the third waits for its peer.
    for id in 0..3 {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    assert_eq!(pair.dispositions(), [disposition(Role::Receiver, 2, 2, false)]);
}

#[test]
fn a_delivery_may_be_in_mode_first_on_a_link_in_mode_second() {
    let modes = [None, Some(ReceiverSettleMode::First), Some(ReceiverSettleMode::Second)];
    let (mut pair, link) = received_for_the_peer_to_settle(&modes);
    for id in 0..3 {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    let told: Vec<_> = pair.dispositions().iter().map(|it| (it.first, it.last, it.settled)).collect();
    assert_eq!(told, [(0, Some(0), false), (1, Some(1), true), (2, Some(2), false)]);
}

#[test]
fn deliveries_that_the_peer_never_settles_are_forgotten_with_their_link() {
    let (mut pair, link) = received_for_the_peer_to_settle(&[None; 3]);
    settle(&mut pair, link, 0, DeliveryState::Accepted);
    pair.read();
    pair.feed(&amqp(0, amqp_codec::performative::Detach { handle: 0, closed: true, error: None }));
    pair.events.clear();
    pair.read();
    for id in 0..3 {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    assert_eq!(pair.read(), [], "all is forgotten with the link");
}

#[test]
fn unsettled_maps_are_exchanged_on_attach() {
    // One binary key with a null state: what the peer holds as unsettled.
    let map = RawMap::copy_from_slice(&[0xc1, 5, 2, 0xa0, 1, 7, 0x40]).unwrap();
    let mut pair = Pair::begun(plain());
    pair.answer = false;
    let asked = Attach { unsettled: Some(map.clone()), ..attach("in", 0, Role::Sender) };
    pair.feed(&amqp(0, asked));
    let Event::LinkAttached { link, attach: told } = pair.take_event() else { panic!() };
    assert_eq!(told.unsettled, Some(map.clone()));
    let reply =
        AttachReply { unsettled: Some(map.clone()), incomplete_unsettled: true, ..AttachReply::echo(&told) };
    pair.engine.accept_link(link, reply);
    let frame = pair.frames().remove(0);
    let amqp_codec::performative::Performative::Attach(answer) = frame else { panic!("{frame:?}") };
    assert_eq!((answer.unsettled, answer.incomplete_unsettled), (Some(map), true));

    // Until the rest is known only resumed deliveries may come.
    pair.feed(&amqp_with(0, Transfer { resume: true, ..transfer(0, 0) }, b"x"));
    assert!(matches!(pair.take_event(), Event::Transfer(delivery) if delivery.resume));
    pair.feed(&amqp_with(0, transfer(0, 1), b"x"));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:illegal-state"));
    assert!(matches!(pair.take_event(), Event::LinkDetached { by: Origin::Engine, .. }));
}

#[test]
fn a_link_attached_again_after_a_suspension_starts_anew() {
    let (mut pair, link) = received(3);
    pair.feed(&amqp(0, amqp_codec::performative::Detach { handle: 0, closed: false, error: None }));
    assert!(matches!(pair.take_event(), Event::LinkDetached { closed: false, .. }));
    pair.read();
    let new = pair.attach("in", 0, Role::Sender);
    assert_ne!(new, link);
    // The same tag comes again, resumed: it is the layer above that knows what became of it.
    let resumed = Transfer { resume: true, delivery_tag: transfer(0, 0).delivery_tag, ..transfer(0, 3) };
    pair.feed(&amqp_with(0, resumed, b"x"));
    assert!(matches!(pair.take_event(), Event::Transfer(delivery) if delivery.link == new));
}

#[test]
fn unsettled_deliveries_of_a_stalled_store_hold_the_window() {
    let mut pair = Pair::begun(Config { max_unsettled: 50, session_incoming_window: 40, ..plain() });
    let link = pair.attach("in", 0, Role::Sender);
    let mut sent = 0;
    let mut window = 40;
    // A peer that obeys.
    while window > 0 {
        pair.feed(&amqp_with(0, transfer(0, sent), b"x"));
        sent += 1;
        assert!(sent < 100, "{sent} deliveries are unsettled");
        window -= 1;
        if let Some(flow) = pair.flows().last() {
            window = flow.incoming_window;
        }
    }
    pair.events.clear();
    for id in 0..sent {
        settle(&mut pair, link, id, DeliveryState::Accepted);
    }
    assert!(!pair.flows().is_empty());
}
