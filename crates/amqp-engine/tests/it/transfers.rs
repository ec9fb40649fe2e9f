use amqp_codec::performative::{Attach, DeliveryState, Flow, Open, Performative, Transfer};
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode, Role, SenderSettleMode};
use amqp_engine::{
    AttachReply, Config, DeliveryId, Event, IncomingDelivery, LinkKey, Origin, OutgoingDelivery,
};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::pair::*;

/// A pair with a link we receive on (their handle 0).
fn receiving(config: Config) -> (Pair, LinkKey) {
    let mut pair = Pair::begun(config);
    let link = pair.attach("in", 0, Role::Sender);
    pair.engine.grant_credit(link, 1_000);
    pair.read();
    (pair, link)
}

/// A pair with a link we send on (their handle 0), to a peer with the given frame size.
fn sending(max_frame_size: u32) -> (Pair, LinkKey) {
    let mut pair = Pair::open_as(plain(), Open { max_frame_size, ..Open::new("client") });
    pair.begin(0);
    let link = pair.attach("out", 0, Role::Receiver);
    pair.feed(&amqp(0, credit(0, 0, 100)));
    pair.events.clear();
    (pair, link)
}

fn more(handle: u32, id: u32) -> Transfer {
    Transfer { more: true, ..transfer(handle, id) }
}

fn tag(bytes: &[u8]) -> DeliveryTag {
    DeliveryTag::try_from(bytes).unwrap()
}

fn delivery(pair: &mut Pair) -> IncomingDelivery {
    match pair.take_event() {
        Event::Transfer(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_delivery_of_one_frame_is_a_slice_of_the_input() {
    let (mut pair, link) = receiving(plain());
    let state = Some(DeliveryState::Accepted);
    let frame = Transfer {
        message_format: Some(0x8001_3700),
        state: state.clone(),
        settled: Some(true),
        resume: true,
        ..transfer(0, 7)
    };
    let input = BytesMut::from(&amqp_with(0, frame, b"payload")[..]);
    let place = input[input.len() - 7..].as_ptr();
    pair.engine.handle_input(pair.now, input);
    pair.poll();
    let got = delivery(&mut pair);
    assert_eq!(got.payload.as_ptr(), place, "no copy");
    assert_eq!(
        got,
        IncomingDelivery {
            link,
            delivery_id: ids([7])[0],
            tag: tag(&7u32.to_be_bytes()),
            message_format: 0x8001_3700,
            settled: true,
            state,
            resume: true,
            rcv_settle_mode: ReceiverSettleMode::First,
            payload: Bytes::from_static(b"payload"),
        }
    );
}

#[test]
fn the_first_transfer_must_name_its_delivery() {
    let cases = [
        (Transfer { delivery_id: None, ..transfer(0, 0) }, "no delivery-id"),
        (Transfer { delivery_tag: None, ..transfer(0, 0) }, "no delivery-tag"),
    ];
    for (frame, what) in cases {
        let (mut pair, _) = receiving(plain());
        pair.feed(&amqp_with(0, frame, b"x"));
        assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:invalid-field"), "{what}");
        assert!(matches!(pair.take_event(), Event::LinkDetached { by: Origin::Engine, .. }), "{what}");
    }
    let (mut pair, _) = receiving(plain());
    pair.feed(&amqp_with(0, Transfer { message_format: None, ..transfer(0, 0) }, b"x"));
    assert_eq!(delivery(&mut pair).message_format, 0, "a format left out is the standard one");
}

#[test]
fn a_tag_longer_than_allowed_is_a_decode_error() {
    // The protocol allows 32 bytes; up to 64 are taken, because a client sends 36.
    for (more, expected) in [(0, None), (1, None), (4, None), (32, None), (33, Some("amqp:decode-error"))] {
        let (mut pair, _) = receiving(plain());
        let frame = amqp_with(0, Transfer { delivery_tag: Some(tag(&[7; 32])), ..transfer(0, 0) }, b"x");
        let at = frame.windows(2).position(|bytes| bytes == [0xa0, 32]).unwrap();
        let mut frame = [&frame[..at + 2], &vec![7; more.into()], &frame[at + 2..]].concat();
        frame[at + 1] += more;
        frame[3] += more;
        frame[12] += more;
        pair.feed(&frame);
        assert_eq!(closed_with(&pair.frames()).as_deref(), expected, "{more}");
    }
}

#[test]
fn deliveries_of_many_frames_are_gathered() {
    let (mut pair, _) = receiving(plain());
    let bare = |more| Transfer { handle: 0, more, ..Transfer::default() };
    let same_id = Transfer { delivery_id: Some(5), more: true, ..bare(true) };
    let same_tag = Transfer { delivery_tag: Some(tag(&5u32.to_be_bytes())), ..bare(true) };
    let empty = bare(true);
    pair.feed_all(&[
        amqp_with(0, more(0, 5), b"a"),
        amqp_with(0, same_id, b"b"),
        amqp_with(0, same_tag, b"c"),
        amqp_with(0, empty, b""),
        amqp_with(0, more(0, 5), b"d"),
    ]);
    assert!(pair.events.is_empty());
    pair.feed(&amqp_with(0, bare(false), b"e"));
    assert_eq!(delivery(&mut pair).payload, "abcde");
    // A stream may end with an empty frame.
    pair.feed_all(&[amqp_with(0, more(0, 6), b"x"), amqp_with(0, bare(false), b"")]);
    assert_eq!(delivery(&mut pair).payload, "x");
}

#[test]
fn deliveries_of_different_links_interleave() {
    let (mut pair, one) = receiving(plain());
    let two = pair.attach("two", 1, Role::Sender);
    let end = |handle| Transfer { handle, ..Transfer::default() };
    pair.feed_all(&[
        amqp_with(0, more(0, 0), b"1"),
        amqp_with(0, more(1, 1), b"2"),
        amqp_with(0, end(0), b"1"),
        amqp_with(0, end(1), b"2"),
    ]);
    let got: Vec<_> = pair
        .take_events()
        .into_iter()
        .map(|event| match event {
            Event::Transfer(delivery) => (delivery.link, delivery.payload),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(got, [(one, Bytes::from_static(b"11")), (two, Bytes::from_static(b"22"))]);
}

#[test]
fn a_transfer_that_contradicts_its_delivery_detaches_the_link() {
    let cases = [
        (more(0, 1), "amqp:not-allowed", "another delivery: interleaved on one link"),
        (Transfer { delivery_tag: Some(tag(b"other")), ..more(0, 0) }, "amqp:not-allowed", "another tag"),
        (Transfer { message_format: Some(1), ..more(0, 0) }, "amqp:invalid-field", "another format"),
    ];
    for (frame, condition, what) in cases {
        let (mut pair, _) = receiving(plain());
        pair.feed_all(&[amqp_with(0, more(0, 0), b"1"), amqp_with(0, frame, b"2")]);
        assert_eq!(detached_with(&pair.frames()).as_deref(), Some(condition), "{what}");
        assert!(matches!(pair.take_event(), Event::LinkDetached { .. }), "{what}");
        // The rest of both deliveries is ignored.
        pair.feed_all(&[amqp_with(0, transfer(0, 0), b"1"), amqp_with(0, transfer(0, 1), b"2")]);
        assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]), "{what}");
    }
}

#[test]
fn an_aborted_delivery_is_discarded() {
    let aborted = || Transfer { aborted: true, handle: 0, ..Transfer::default() };
    let (mut pair, link) = receiving(plain());
    pair.engine.grant_credit(link, 10);
    pair.feed_all(&[
        amqp_with(0, more(0, 0), b"gone"),
        // Whatever more says, and with whatever payload.
        amqp_with(0, Transfer { more: true, ..aborted() }, b"x"),
        amqp_with(0, more(0, 1), b"gone too"),
        amqp_with(0, aborted(), b""),
    ]);
    assert!(pair.events.is_empty());
    assert_eq!(pair.engine.link(link).credit_left(), 8, "each has used a credit");
    // Its tag is free, its id is used.
    pair.feed(&amqp_with(
        0,
        Transfer { delivery_tag: Some(tag(&0u32.to_be_bytes())), ..transfer(0, 2) },
        b"y",
    ));
    assert_eq!(delivery(&mut pair).payload, "y");
    // One that is aborted with its first frame, too.
    pair.feed_all(&[
        amqp_with(0, Transfer { aborted: true, ..transfer(0, 3) }, b""),
        amqp_with(0, transfer(0, 4), b"z"),
    ]);
    assert_eq!(delivery(&mut pair).payload, "z");
    assert_eq!(pair.engine.link(link).credit_left(), 5);
}

#[test]
fn settled_once_is_settled_for_good() {
    let cases = [
        // settled on the first, middle and last frame; what comes out
        (None, None, None, false),
        (Some(false), None, Some(true), true),
        (Some(true), None, None, true),
        (None, Some(true), Some(false), true),
    ];
    for case @ (first, middle, last, settled) in cases {
        let (mut pair, link) = receiving(plain());
        let end = Transfer { settled: last, handle: 0, ..Transfer::default() };
        pair.feed_all(&[
            amqp_with(0, Transfer { settled: first, ..more(0, 0) }, b"a"),
            amqp_with(0, Transfer { settled: middle, more: true, ..end.clone() }, b"b"),
            amqp_with(0, end, b"c"),
        ]);
        let got = delivery(&mut pair);
        assert_eq!(got.settled, settled, "{case:?}");
        pair.engine.settle_incoming(link.session(), got.delivery_id, DeliveryState::Accepted);
        assert_eq!(pair.dispositions().is_empty(), settled, "{case:?}: settled needs no answer");
    }
}

#[test]
fn deliveries_are_settled_as_the_link_demands() {
    use SenderSettleMode::{Mixed, Settled, Unsettled};
    let cases = [
        // mode, settled, accepted
        (Mixed, Some(true), true),
        (Mixed, None, true),
        (Settled, Some(true), true),
        (Settled, Some(false), false),
        (Settled, None, false),
        (Unsettled, Some(false), true),
        (Unsettled, None, true),
        (Unsettled, Some(true), false),
    ];
    for case @ (mode, settled, accepted) in cases {
        let mut pair = Pair::begun(plain());
        pair.attach_as(Attach { snd_settle_mode: Some(mode), ..attach("in", 0, Role::Sender) });
        pair.feed(&amqp_with(0, Transfer { settled, ..transfer(0, 0) }, b"x"));
        let condition = detached_with(&pair.frames());
        assert_eq!(condition.as_deref(), (!accepted).then_some("amqp:invalid-field"), "{case:?}");
        assert_eq!(matches!(pair.take_event(), Event::Transfer(_)), accepted, "{case:?}");
    }
}

#[test]
fn a_delivery_may_choose_mode_first_but_not_second() {
    use ReceiverSettleMode::{First, Second};
    let cases = [
        // the link's mode, the transfer's, what is in force
        (First, None, Some(First)),
        (First, Some(First), Some(First)),
        (First, Some(Second), None),
        (Second, None, Some(Second)),
        (Second, Some(First), Some(First)),
        (Second, Some(Second), Some(Second)),
    ];
    for case @ (mode, rcv_settle_mode, expected) in cases {
        let mut pair = Pair::begun(plain());
        pair.attach_as(Attach { rcv_settle_mode: Some(mode), ..attach("in", 0, Role::Sender) });
        pair.feed(&amqp_with(0, Transfer { rcv_settle_mode, ..transfer(0, 0) }, b"x"));
        let condition = detached_with(&pair.frames());
        assert_eq!(condition.as_deref(), expected.is_none().then_some("amqp:invalid-field"), "{case:?}");
        if let Event::Transfer(delivery) = pair.take_event() {
            assert_eq!(Some(delivery.rcv_settle_mode), expected, "{case:?}");
        }
    }
}

#[test]
fn a_tag_of_an_unsettled_delivery_may_not_be_used_again_on_its_link() {
    let same = |handle, id| Transfer { delivery_tag: Some(tag(b"same")), ..transfer(handle, id) };
    let (mut pair, link) = receiving(Config { strict_ids: true, ..plain() });
    pair.attach("other", 1, Role::Sender);
    pair.feed_all(&[
        amqp_with(0, same(0, 0), b"a"),
        amqp_with(0, same(1, 1), b"on another link"),
        amqp_with(0, Transfer { settled: Some(true), ..same(0, 2) }, b"settled"),
    ]);
    assert_eq!(pair.take_events().len(), 3);
    pair.engine.settle_incoming(link.session(), ids([0])[0], DeliveryState::Accepted);
    pair.feed(&amqp_with(0, same(0, 3), b"after settlement"));
    assert_eq!(delivery(&mut pair).payload, "after settlement");
    pair.read();
    pair.feed(&amqp_with(0, same(0, 4), b"too early"));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:not-allowed"));
}

#[test]
fn delivery_ids_go_up_over_all_links_of_a_session() {
    let (mut pair, _) = receiving(Config { strict_ids: true, ..plain() });
    pair.attach("two", 1, Role::Sender);
    pair.feed_all(&[
        amqp_with(0, transfer(0, 5), b"a"),
        amqp_with(0, transfer(1, 6), b"b"),
        amqp_with(0, transfer(0, 9), b"a gap is no harm"),
    ]);
    assert_eq!(pair.take_events().len(), 3);
    pair.feed(&amqp_with(0, Transfer { delivery_tag: Some(tag(b"new")), ..transfer(1, 9) }, b"b"));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:invalid-field"));
}

#[test]
fn threads_that_share_a_client_are_answered_by_the_ids_they_sent() {
    let (mut pair, link) = receiving(plain());
    // Three threads have read the same next id, and one was overtaken.
    let wires = [5, 5, 5, 9, 8];
    pair.feed_all(&wires.map(|id| amqp_with(0, transfer(0, id), b"x")));
    let got: Vec<_> = pair
        .take_events()
        .iter()
        .map(|event| match event {
            Event::Transfer(delivery) => delivery.delivery_id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(got.windows(2).all(|pair| pair[0] != pair[1]), "each is a delivery of its own: {got:?}");
    for id in got {
        pair.engine.settle_incoming(link.session(), id, DeliveryState::Accepted);
    }
    let told: Vec<_> = pair.dispositions().iter().map(|told| (told.first, told.last.unwrap())).collect();
    assert_eq!(told, [(5, 5), (5, 5), (5, 5), (9, 9), (8, 8)]);
}

#[test]
fn a_settled_message_beyond_the_largest_size_detaches_the_link() {
    let cases = [
        // the link's limit, frames, whether the message is taken
        (Some(10), vec![10], true),
        (Some(10), vec![11], false),
        (Some(10), vec![5, 5], true),
        (Some(10), vec![5, 5, 1], false),
        (Some(0), vec![1_000, 1_000], true),
        (None, vec![50], true),
        (None, vec![51], false),
    ];
    for case in cases {
        let (limit, frames, taken) = &case;
        let mut pair = Pair::begun(Config { max_message_size: 50, ..plain() });
        pair.answer = false;
        pair.feed(&amqp(0, attach("in", 0, Role::Sender)));
        let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
        pair.engine.accept_link(link, AttachReply { max_message_size: *limit, ..AttachReply::default() });
        let frame = pair.frames().remove(0);
        assert!(matches!(
            frame,
            Performative::Attach(attach) if attach.max_message_size == Some(limit.unwrap_or(50))
        ));
        for (i, &len) in frames.iter().enumerate() {
            let frame = Transfer { more: i + 1 < frames.len(), settled: Some(true), ..transfer(0, 0) };
            pair.feed(&amqp_with(0, frame, &vec![0; len]));
        }
        let condition = detached_with(&pair.frames());
        assert_eq!(condition.as_deref(), (!taken).then_some("amqp:link:message-size-exceeded"), "{case:?}");
        assert_eq!(matches!(pair.take_event(), Event::Transfer(_)), *taken, "{case:?}");
    }
}

#[test]
fn an_unsettled_message_beyond_the_largest_size_is_dropped_and_its_link_stays() {
    // The link's limit is 10 bytes.
    for frames in [vec![11], vec![5, 5, 1], vec![50, 5], vec![11, 0, 0, 0]] {
        let mut pair = Pair::begun(Config { max_message_size: 10, max_partial_bytes: 10, ..plain() });
        let link = pair.attach("in", 0, Role::Sender);
        pair.engine.grant_credit(link, 5);
        pair.read();
        for (i, &len) in frames.iter().enumerate() {
            assert_eq!(pair.events, [], "{frames:?}");
            let frame = Transfer { more: i + 1 < frames.len(), ..transfer(0, 0) };
            pair.feed(&amqp_with(0, frame, &vec![0; len]));
        }
        let Event::TooLarge { link: of, delivery_id, tag, bytes, limit, .. } = pair.take_event() else {
            panic!("{frames:?}")
        };
        assert_eq!((of, delivery_id, tag), (link, DeliveryId(0), transfer(0, 0).delivery_tag.unwrap()));
        assert_eq!((bytes, limit), (frames.iter().sum::<usize>() as u64, 10));
        // It has cost its credit, is settled as any other, and the next one is taken.
        assert_eq!((pair.engine.link(link).credit_left(), pair.read()), (4, vec![]));
        pair.engine.settle_incoming(link.session(), delivery_id, DeliveryState::Rejected(None));
        let answer = pair.dispositions().remove(0);
        assert_eq!((answer.role, answer.first, answer.settled), (Role::Receiver, 0, true));
        assert_eq!(answer.state, Some(DeliveryState::Rejected(None)));
        pair.feed(&amqp_with(0, transfer(0, 1), &[0; 10]));
        assert!(matches!(pair.take_event(), Event::Transfer(delivery) if delivery.payload.len() == 10));
    }
}

#[test]
fn a_message_that_is_too_large_may_be_aborted_and_may_not_be_settled_later() {
    let mut pair = Pair::begun(Config { max_message_size: 10, ..plain() });
    pair.attach("in", 0, Role::Sender);
    pair.feed(&amqp_with(0, more(0, 0), &[0; 11]));
    pair.feed(&amqp(0, Transfer { aborted: true, ..transfer(0, 0) }));
    pair.feed(&amqp_with(0, Transfer { aborted: true, ..transfer(0, 1) }, &[0; 11]));
    assert_eq!((pair.take_events(), pair.read()), (vec![], vec![]));
    pair.feed(&amqp_with(0, more(0, 2), &[0; 11]));
    pair.feed(&amqp(0, Transfer { settled: Some(true), ..transfer(0, 2) }));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:link:message-size-exceeded"));
}

#[test]
fn a_limit_that_is_raised_by_the_attach_does_not_bring_dropped_bytes_back() {
    for (settled, told) in [(None, true), (Some(true), false)] {
        let mut pair = Pair::begun(Config { max_message_size: 10, ..plain() });
        pair.answer = false;
        pair.feed(&amqp(0, attach("in", 0, Role::Sender)));
        let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
        pair.feed(&amqp_with(0, more(0, 0), &[0; 11]));
        let reply = AttachReply { max_message_size: Some(100), ..AttachReply::default() };
        pair.engine.accept_link(link, reply);
        pair.read();
        pair.feed(&amqp_with(0, Transfer { settled, ..transfer(0, 0) }, &[0; 5]));
        let event = pair.take_event();
        assert_eq!(matches!(event, Event::TooLarge { bytes: 16, limit: 10, .. }), told, "{event:?}");
        assert_eq!(detached_with(&pair.frames()).is_none(), told);
    }
}

#[test]
fn unfinished_deliveries_are_bounded_over_the_whole_connection() {
    let mut pair = Pair::begun(Config { max_partial_bytes: 1_000, max_message_size: 0, ..plain() });
    pair.attach("one", 0, Role::Sender);
    pair.attach("two", 1, Role::Sender);
    pair.feed_all(&[amqp_with(0, more(0, 0), &[0; 500]), amqp_with(0, more(1, 1), &[0; 500])]);
    assert_eq!(pair.read(), []);
    // One byte more is too much; what the link held is free again.
    pair.feed(&amqp_with(0, more(1, 1), &[0; 1]));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
    pair.events.clear();
    pair.feed(&amqp_with(0, more(0, 0), &[0; 500]));
    assert_eq!(pair.read(), []);
    // A delivery that ends needs no room.
    pair.feed(&amqp_with(0, transfer(0, 0), &[0; 500]));
    assert_eq!(delivery(&mut pair).payload.len(), 1_500);
    pair.feed(&amqp_with(0, Transfer { delivery_tag: Some(tag(b"n")), ..more(0, 2) }, &[0; 1_000]));
    assert_eq!(pair.read(), []);
}

#[test]
fn unfinished_deliveries_are_bounded_by_what_the_layer_above_leaves_them() {
    let mut pair = Pair::begun(Config { max_partial_bytes: 1_000, max_message_size: 0, ..plain() });
    for (handle, name) in ["one", "two", "three"].into_iter().enumerate() {
        pair.attach(name, u32::try_from(handle).unwrap(), Role::Sender);
    }
    pair.engine.limit_partial_bytes(600);
    pair.feed_all(&[amqp_with(0, more(0, 0), &[0; 500]), amqp_with(0, more(1, 1), &[0; 100])]);
    assert_eq!((pair.read(), pair.engine.partial_bytes()), (vec![], 600));
    pair.feed(&amqp_with(0, more(1, 1), &[0; 1]));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
    pair.events.clear();
    // Less than there is: what is there stays, and may end.
    pair.engine.limit_partial_bytes(0);
    pair.feed(&amqp_with(0, transfer(0, 0), &[0; 500]));
    assert_eq!(delivery(&mut pair).payload.len(), 1_000);
    assert_eq!(pair.engine.partial_bytes(), 0);
    // The configuration's bound holds in any case.
    pair.engine.limit_partial_bytes(5_000);
    pair.feed(&amqp_with(0, Transfer { delivery_tag: Some(tag(b"n")), ..more(2, 2) }, &[0; 1_001]));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
}

#[test]
fn an_unfinished_delivery_goes_with_its_link_or_session() {
    use amqp_codec::performative::{Detach, End};
    let mut pair = Pair::begun(Config { max_partial_bytes: 1_000, ..plain() });
    for round in 0..9u32 {
        let link = pair.attach("in", 0, Role::Sender);
        pair.feed(&amqp_with(0, more(0, round), &[0; 1_000]));
        assert_eq!(pair.read(), [], "round {round}");
        match round % 3 {
            0 => pair.feed(&amqp(0, Detach { handle: 0, closed: true, error: None })),
            1 => {
                pair.engine.detach(link, None);
                pair.feed(&amqp(0, Detach { handle: 0, closed: true, error: None }));
            }
            _ => pair.feed_all(&[amqp(0, End::default()), amqp(0, begin())]),
        }
        pair.read();
        pair.events.clear();
    }
}

#[test]
fn a_transfer_on_a_link_that_we_send_on_detaches_it() {
    let (mut pair, _) = sending(u32::MAX);
    pair.feed(&amqp_with(0, transfer(0, 0), b"x"));
    assert_eq!(detached_with(&pair.frames()).as_deref(), Some("amqp:not-allowed"));
}

#[test]
fn each_transfer_sent_carries_all_that_a_first_one_needs() {
    let (mut pair, link) = sending(u32::MAX);
    let mut sent = message(9, 100);
    sent.message_format = 5;
    sent.settled = true;
    sent.state = Some(DeliveryState::Released);
    sent.resume = true;
    let id = pair.engine.send(link, sent).unwrap();
    let transfers = pair.transfers();
    let [(got, payload)] = &transfers[..] else { panic!("{transfers:?}") };
    assert_eq!(payload.len(), 100);
    assert_eq!(
        *got,
        Transfer {
            handle: 0,
            delivery_id: Some(id.0),
            delivery_tag: Some(tag(&[9; 16])),
            message_format: Some(5),
            settled: Some(true),
            state: Some(DeliveryState::Released),
            resume: true,
            ..Transfer::default()
        }
    );
}

#[test]
fn transfers_stop_at_the_soft_limit_and_go_on() {
    let (mut pair, link) = sending(u32::MAX);
    for tag in 0..10 {
        pair.engine.send(link, message(tag, 1_000)).unwrap();
    }
    let mut out = BytesMut::new();
    pair.engine.poll_output(pair.now, &mut out, 2_500);
    assert!((2_500..3_600).contains(&out.len()), "{}", out.len());
    assert!(pair.engine.has_output());
    assert_eq!(pair.transfers().len(), 7);
    pair.engine.send(link, message(1, 1)).unwrap();
    pair.engine.poll_output(pair.now, &mut out, 0);
    assert!(pair.engine.has_output(), "a limit of nothing lets nothing go");
}

#[test]
fn waiting_deliveries_let_go_of_memory_that_they_share_and_go_out_whole() {
    // The first is half sent, the second waits behind it, and the third comes when that is known.
    let mut pair = Pair::open_as(plain(), Open { max_frame_size: 512, ..Open::new("client") });
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 1, ..begin() }));
    pair.events.clear();
    let link = pair.attach("out", 0, Role::Receiver);
    let stored: Vec<_> = (1..=3).map(|number| Bytes::from(vec![number; 900])).collect();
    let written = Bytes::from_static(b"sections").slice(..);
    let kept = |stored: &[Bytes]| stored.iter().map(|bytes| !bytes.is_unique()).collect::<Vec<_>>();
    let delivery = |number: u8| {
        let bare = stored[usize::from(number) - 1].slice(..);
        OutgoingDelivery::new(tag(&[number; 16]), written.clone(), bare)
    };
    pair.engine.send(link, delivery(1)).unwrap();
    pair.engine.send(link, delivery(2)).unwrap();
    let mut payload = pair.transfers().into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    assert_eq!(kept(&stored), [true, true, false]);
    pair.engine.compact_queued();
    assert_eq!(kept(&stored), [false; 3]);
    pair.engine.send(link, delivery(3)).unwrap();
    assert_eq!(kept(&stored), [false, false, true]);
    pair.engine.compact_queued();
    assert_eq!(kept(&stored), [false; 3]);
    let window = Flow { incoming_window: 100, next_incoming_id: Some(1), ..Flow::default() };
    pair.feed(&amqp(0, window));
    payload.extend(pair.transfers().into_iter().map(|(_, bytes)| bytes));
    let expected: Vec<u8> = stored.iter().flat_map(|bare| written.iter().chain(bare)).copied().collect();
    assert_eq!(payload.concat(), expected);
}

#[test]
fn a_link_detached_in_the_midst_of_a_delivery_does_not_disturb_the_next() {
    let mut pair = Pair::open_as(plain(), Open { max_frame_size: 512, ..Open::new("client") });
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 1, ..begin() }));
    pair.events.clear();
    let one = pair.attach("one", 0, Role::Receiver);
    let two = pair.attach("two", 1, Role::Receiver);
    let first = pair.engine.send(one, message(1, 2_000)).unwrap();
    pair.engine.send(two, message(2, 10)).unwrap();
    assert_eq!(pair.transfers().len(), 1);
    pair.engine.detach(one, None);
    pair.poll();
    assert_eq!(pair.take_event(), Event::Unsent { link: one, deliveries: vec![first] });
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(2), ..flow() }));
    let transfers = pair.transfers();
    assert_eq!(transfers[0].0.delivery_id, Some(2), "the half-sent delivery has used its id");
    assert_eq!((transfers.len(), transfers[0].1.len()), (1, 10));
}

proptest! {
    #[test]
    fn any_message_fits_any_frame_size(
        max_frame_size in 512u32..2_000,
        sections in 0usize..1_500,
        bare in 0usize..1_500,
        tag_len in 0usize..=32,
        txn_len in prop_oneof![Just(None), (0usize..300).prop_map(Some)],
    ) {
        let (mut pair, link) = sending(max_frame_size);
        let mut sent = message(0, sections + bare);
        let whole = [&sent.sections[..], &sent.bare[..]].concat();
        sent.sections = Bytes::copy_from_slice(&whole[..sections]);
        sent.bare = Bytes::copy_from_slice(&whole[sections..]);
        sent.tag = DeliveryTag::try_from(&vec![1; tag_len][..]).unwrap();
        sent.state = txn_len.map(|len| DeliveryState::Transactional {
            txn_id: Bytes::from(vec![1; len]).into(),
            outcome: Some(Box::new(DeliveryState::Accepted)),
        });
        pair.engine.send(link, sent).unwrap();
        let mut joined = Vec::new();
        let mut frames = 0;
        for (transfer, payload) in pair.transfers() {
            joined.extend_from_slice(&payload);
            let last = joined.len() == whole.len();
            prop_assert_eq!(transfer.more, !last);
            let len = amqp_with(0, transfer, &payload).len();
            prop_assert!(len <= max_frame_size as usize, "frame of {} bytes", len);
            frames += 1;
        }
        prop_assert_eq!(joined, whole);
        // No frame is wasted.
        let overhead = 60 + txn_len.map_or(0, |len| len + 40);
        let least = (sections + bare).div_ceil(max_frame_size as usize - overhead).max(1);
        prop_assert!(frames <= least + 1, "{} frames, {} would do", frames, least);
    }

    #[test]
    fn gathering_undoes_splitting(
        len in 0usize..3_000,
        cuts in proptest::collection::vec(0usize..1_000, 0..6),
    ) {
        let (mut pair, _) = receiving(plain());
        let whole: Vec<u8> = (0..len).map(|i| u8::try_from(i % 256).unwrap()).collect();
        let mut rest = &whole[..];
        for cut in cuts {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            pair.feed(&amqp_with(0, more(0, 0), now));
            rest = later;
        }
        pair.feed(&amqp_with(0, transfer(0, 0), rest));
        prop_assert_eq!(&delivery(&mut pair).payload[..], &whole[..]);
    }
}
