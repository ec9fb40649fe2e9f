use amqp_codec::performative::{
    Begin, DeliveryState, Detach, Disposition, End, Error, Flow, Open, Performative,
};
use amqp_codec::types::Role;
use amqp_engine::{Config, Event, Origin};

use crate::pair::*;

fn narrow() -> Config {
    Config { session_incoming_window: 4, ..plain() }
}

#[test]
fn begin_is_answered_on_a_channel_of_ours() {
    let mut pair = Pair::open(plain());
    pair.feed_all(&[amqp(37, begin()), amqp(4_999, begin())]);
    let got = pair.read();
    for (i, theirs) in [37, 4_999].into_iter().enumerate() {
        let Got::Frame(ours, Performative::Begin(answer), _) = &got[i] else { panic!("{got:?}") };
        assert_eq!((usize::from(*ours), answer.remote_channel), (i, Some(theirs)));
        assert_eq!((answer.incoming_window, answer.handle_max), (5_000, 4_095));
    }
    assert_eq!(pair.take_events().len(), 2);
}

#[test]
fn a_begin_that_cannot_be_closes_the_connection() {
    let with_remote = Begin { remote_channel: Some(0), ..begin() };
    let cases = [
        (amqp(0, begin()), "amqp:not-allowed"),
        (amqp(1, with_remote), "amqp:invalid-field"),
        (amqp(5_000, begin()), "amqp:connection:framing-error"),
    ];
    for (bytes, condition) in cases {
        let mut pair = Pair::begun(plain());
        pair.feed(&bytes);
        assert_eq!(closed_with(&pair.frames()).as_deref(), Some(condition));
    }
}

#[test]
fn sessions_end_where_the_peers_channels_do() {
    let mut pair = Pair::open_as(plain(), Open { channel_max: 1, ..Open::new("client") });
    pair.begin(10);
    pair.begin(20);
    pair.feed(&amqp(30, begin()));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
}

#[test]
fn an_end_is_answered_and_its_channels_are_free_again() {
    let mut pair = Pair::begun(plain());
    let old = pair.attach("in", 0, Role::Sender);
    let error = Error::new("amqp:internal-error", "oops");
    pair.feed_all(&[amqp(0, End { error: Some(error.clone()) }), amqp(0, begin())]);
    // The answer to the end comes before the begin that takes the channel again.
    let got = pair.read();
    assert!(matches!(
        &got[..],
        [Got::Frame(0, Performative::End(end), _), Got::Frame(0, Performative::Begin(_), _)] if end.error.is_none()
    ));
    let events = pair.take_events();
    let Event::SessionEnded { session, error: told, by: Origin::Peer } = &events[0] else { panic!() };
    assert_eq!((*session, told.as_ref()), (old.session(), Some(&error)));
    let Event::SessionBegun { session } = events[1] else { panic!() };
    assert_ne!(session, old.session(), "same channel, another session");
    // The ids of the old session name nothing.
    pair.engine.grant_credit(old, 10);
    pair.engine.detach(old, None);
    pair.engine.end_session(old.session(), None);
    assert!(pair.engine.send(old, message(1, 1)).is_none());
    assert_eq!(pair.read(), []);
}

#[test]
fn frames_behind_our_end_are_ignored_until_the_peers() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("in", 0, Role::Sender);
    pair.engine.end_session(link.session(), Some(Error::new("amqp:not-allowed", "no")));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:not-allowed"));
    pair.feed_all(&[
        amqp_with(0, transfer(0, 0), b"x"),
        amqp_with(0, transfer(99, 0), b"x"),
        amqp(0, flow()),
        amqp(0, credit(7, 0, 1)),
        amqp(0, attach("b", 0, Role::Sender)),
        amqp(0, disposition(Role::Sender, 0, 9, true)),
        amqp(0, Detach { handle: 5, ..Detach::default() }),
        amqp(0, End::default()),
    ]);
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]), "nor is the end answered again");
    pair.begin(0);
}

#[test]
fn frames_behind_the_peers_own_end_do_no_harm() {
    // The Python SDK detaches links of a session that it has ended.
    let mut pair = Pair::begun(plain());
    pair.feed(&amqp(0, End::default()));
    pair.read();
    pair.events.clear();
    pair.feed_all(&[
        amqp(0, Detach { handle: 1, ..Detach::default() }),
        amqp(0, End::default()),
        amqp(0, flow()),
        amqp(0, disposition(Role::Receiver, 0, 1, true)),
    ]);
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]));
    // A frame that starts something needs a session.
    for bytes in [amqp(0, attach("a", 0, Role::Sender)), amqp_with(0, transfer(0, 0), b"x")] {
        let mut pair = Pair::open(plain());
        pair.feed(&bytes);
        assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:illegal-state"));
    }
}

#[test]
fn a_transfer_beyond_the_window_ends_the_session() {
    let config = Config { max_unsettled: 0, ..narrow() };
    let mut pair = Pair::begun(config);
    let link = pair.attach("in", 0, Role::Sender);
    for id in 0..4 {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
    }
    assert_eq!(pair.take_events().len(), 4);
    assert_eq!(pair.read(), [], "the window is not renewed while too much is unsettled");
    pair.feed(&amqp_with(0, transfer(0, 4), b"x"));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:session:window-violation"));
    assert!(matches!(
        pair.take_event(),
        Event::SessionEnded { session, error: Some(_), by: Origin::Engine } if session == link.session()
    ));
}

#[test]
fn the_window_is_renewed_before_it_is_used_up() {
    let mut pair = Pair::begun(narrow());
    pair.attach("in", 0, Role::Sender);
    for id in 0..100u32 {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
        let flows = pair.flows();
        if id % 2 == 1 {
            assert_eq!(flows.len(), 1, "after {id}");
            assert_eq!((flows[0].next_incoming_id, flows[0].incoming_window), (Some(id + 1), 4));
            assert_eq!(flows[0].handle, None);
        } else {
            assert_eq!(flows, [], "after {id}");
        }
    }
}

#[test]
fn a_settlement_reopens_a_window_that_was_held_back() {
    let config = Config { max_unsettled: 3, ..narrow() };
    let mut pair = Pair::begun(config);
    let link = pair.attach("in", 0, Role::Sender);
    for id in 0..4 {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
    }
    pair.read();
    for id in 0..2 {
        pair.engine.settle_incoming(link.session(), ids([id])[0], DeliveryState::Accepted);
    }
    assert_eq!(pair.flows()[0].incoming_window, 4);
}

#[test]
fn whatever_settles_reopens_a_window_that_was_held_back() {
    let held = || {
        let mut pair = Pair::begun(Config { max_unsettled: 3, ..narrow() });
        let link = pair.attach("in", 0, Role::Sender);
        let mut renewed = 0;
        for id in 0..6 {
            pair.feed(&amqp_with(0, transfer(0, id), b"x"));
            renewed += pair.flows().len();
        }
        assert_eq!(renewed, 1, "while less than three are unsettled, then no more");
        pair.events.clear();
        (pair, link)
    };
    let (mut pair, _) = held();
    pair.feed(&amqp(0, disposition(Role::Sender, 0, 7, true)));
    assert_eq!(pair.flows()[0].incoming_window, 4, "the peer settles");
    let (mut pair, _) = held();
    pair.feed(&amqp(0, Detach { handle: 0, closed: true, error: None }));
    assert_eq!(pair.flows()[0].incoming_window, 4, "the link goes");
    let (mut pair, link) = held();
    pair.engine.detach(link, None);
    assert_eq!(pair.flows()[0].incoming_window, 4, "we detach");
}

#[test]
fn transfers_wait_for_the_peers_window() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, Begin { incoming_window: 2, ..begin() }));
    pair.read();
    let link = pair.attach("out", 0, Role::Receiver);
    pair.events.clear();
    for tag in 0..5 {
        pair.engine.send(link, message(tag, 10)).unwrap();
    }
    assert_eq!(pair.transfers().len(), 2);
    assert!(!pair.engine.has_output(), "what cannot go out is no output");
    assert_eq!(pair.engine.session(link.session()).unsent_deliveries(), 3);
    // The peer has seen one of the two: one more may go.
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(2), incoming_window: 2, ..flow() }));
    let transfers = pair.transfers();
    assert_eq!(transfers.len(), 1);
    assert_eq!(transfers[0].0.delivery_id, Some(3));
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(4), incoming_window: 100, ..flow() }));
    assert_eq!(pair.transfers().len(), 2);
}

#[test]
fn a_window_counts_frames_and_a_delivery_may_wait_half_sent() {
    let mut pair = Pair::open_as(plain(), Open { max_frame_size: 512, ..Open::new("client") });
    pair.feed(&amqp(0, Begin { incoming_window: 2, ..begin() }));
    pair.read();
    let link = pair.attach("out", 0, Role::Receiver);
    let sent = message(1, 1_500);
    let whole = [&sent.sections[..], &sent.bare[..]].concat();
    pair.engine.send(link, sent).unwrap();
    let mut got = pair.transfers();
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|(transfer, _)| transfer.more));
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(3), incoming_window: 100, ..flow() }));
    got.extend(pair.transfers());
    assert!(!got.last().unwrap().0.more);
    assert!(got.iter().all(|(transfer, _)| transfer.delivery_id == Some(1)));
    let joined: Vec<u8> = got.iter().flat_map(|(_, payload)| payload.to_vec()).collect();
    assert_eq!(joined, whole);
}

#[test]
fn window_ids_that_cannot_be_end_the_session() {
    let cases = [
        (Flow { next_incoming_id: Some(2), ..flow() }, "next-incoming-id ahead of what was sent"),
        (Flow { next_outgoing_id: u32::MAX, ..flow() }, "next-outgoing-id rewound"),
    ];
    for (frame, what) in cases {
        let mut pair = Pair::begun(Config { strict_ids: true, ..plain() });
        pair.feed(&amqp(0, frame));
        assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:session:window-violation"), "{what}");
    }
}

#[test]
fn a_peer_that_counts_deliveries_instead_of_frames_is_endured() {
    // The Python SDK advances its next-outgoing-id by one for a delivery of many frames.
    let mut pair = Pair::begun(Config { strict_ids: true, ..plain() });
    pair.attach("in", 0, Role::Sender);
    for more in [true, true, false] {
        let frame = amqp_codec::performative::Transfer { more, ..transfer(0, 0) };
        pair.feed(&amqp_with(0, frame, b"x"));
    }
    pair.events.clear();
    pair.feed(&amqp(0, Flow { next_outgoing_id: 1, echo: true, ..flow() }));
    assert_eq!(pair.flows()[0].next_incoming_id, Some(3));
    // Less than its deliveries is a lie.
    pair.feed(&amqp(0, Flow { next_outgoing_id: 0, ..flow() }));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:session:window-violation"));
}

#[test]
fn every_delivery_that_is_over_counts_for_the_peers_next_id() {
    // However a delivery ends, the peer's next-outgoing-id must be past it.
    use amqp_codec::performative::Transfer;
    let aborted = || Transfer { aborted: true, ..transfer(0, 0) };
    let cases = [
        (vec![transfer(0, 0)], "whole"),
        (vec![aborted()], "aborted with its first frame"),
        (vec![Transfer { more: true, ..transfer(0, 0) }, aborted()], "aborted later"),
        (vec![Transfer { more: true, ..transfer(0, 0) }, transfer(0, 0)], "of two frames"),
    ];
    for (frames, what) in cases {
        let mut pair = Pair::begun(Config { strict_ids: true, ..plain() });
        pair.attach("in", 0, Role::Sender);
        for frame in frames {
            pair.feed(&amqp_with(0, frame, b"x"));
        }
        pair.feed(&amqp(0, Flow { next_outgoing_id: 1, ..flow() }));
        assert_eq!(pair.read(), [], "{what}");
        pair.feed(&amqp(0, Flow { next_outgoing_id: 0, ..flow() }));
        let condition = ended_with(&pair.frames());
        assert_eq!(condition.as_deref(), Some("amqp:session:window-violation"), "{what}");
    }
}

#[test]
fn deliveries_on_a_link_that_is_no_longer_count_too() {
    use amqp_codec::performative::Transfer;
    let mut pair = Pair::begun(Config { strict_ids: true, ..plain() });
    let link = pair.attach("in", 0, Role::Sender);
    pair.engine.detach(link, None);
    pair.feed(&amqp_with(0, transfer(0, 0), b"x"));
    pair.feed(&amqp_with(0, Transfer { more: true, ..transfer(0, 1) }, b"x"));
    pair.feed(&amqp_with(0, Transfer { more: true, aborted: true, ..transfer(0, 1) }, b""));
    pair.read();
    pair.feed(&amqp(0, Flow { next_outgoing_id: 2, ..flow() }));
    assert_eq!(pair.read(), []);
    pair.feed(&amqp(0, Flow { next_outgoing_id: 1, ..flow() }));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:session:window-violation"));
}

#[test]
fn the_first_ids_that_we_send_are_0() {
    let mut pair = Pair::open(Config { require_sasl: false, ..Config::default() });
    pair.feed(&amqp(0, begin()));
    let frames = pair.frames();
    let Some(Performative::Begin(answer)) = frames.first() else { panic!("{frames:?}") };
    assert_eq!(answer.next_outgoing_id, 0);
    let link = pair.attach("out", 0, Role::Receiver);
    pair.engine.send(link, message(1, 10)).unwrap();
    let sent = pair.transfers();
    assert_eq!(sent[0].0.delivery_id, Some(0));
}

#[test]
fn a_flow_from_before_our_begin_counts_from_our_first_id() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, Begin { incoming_window: 0, ..begin() }));
    pair.read();
    let link = pair.attach("out", 0, Role::Receiver);
    for tag in 0..5 {
        pair.engine.send(link, message(tag, 10)).unwrap();
    }
    assert_eq!(pair.transfers().len(), 0);
    pair.feed(&amqp(0, Flow { next_incoming_id: None, incoming_window: 3, ..flow() }));
    assert_eq!(pair.transfers().len(), 3);
    pair.feed(&amqp(0, Flow { next_incoming_id: None, incoming_window: 4, ..flow() }));
    assert_eq!(pair.transfers().len(), 1);
}

#[test]
fn echo_is_answered_once_without_echo() {
    let mut pair = Pair::begun(plain());
    pair.feed_all(&[amqp(0, Flow { echo: true, ..flow() }), amqp(0, Flow { echo: true, ..flow() })]);
    let flows = pair.flows();
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].echo, flows[0].handle), (false, None));
    assert_eq!((flows[0].next_incoming_id, flows[0].next_outgoing_id), (Some(0), 1));
}

#[test]
fn ids_wrap_on_both_sides() {
    let config = Config { initial_outgoing_id: u32::MAX - 1, ..plain() };
    let mut pair = Pair::open(config);
    pair.feed(&amqp(0, Begin { next_outgoing_id: u32::MAX - 1, ..begin() }));
    pair.read();
    let input = pair.attach("in", 0, Role::Sender);
    let output = pair.attach("out", 1, Role::Receiver);
    pair.feed(&amqp(
        0,
        Flow { next_incoming_id: Some(u32::MAX - 1), next_outgoing_id: u32::MAX - 1, ..credit(1, 0, 10) },
    ));
    pair.events.clear();
    for n in 0..4u32 {
        pair.feed(&amqp_with(0, transfer(0, (u32::MAX - 1).wrapping_add(n)), b"x"));
        pair.engine.send(output, message(u8::try_from(n).unwrap(), 10)).unwrap();
    }
    let sent: Vec<_> = pair.transfers().iter().map(|(t, _)| t.delivery_id.unwrap()).collect();
    assert_eq!(sent, [u32::MAX - 1, u32::MAX, 0, 1]);
    for event in pair.take_events() {
        let Event::Transfer(delivery) = event else { panic!("{event:?}") };
        pair.engine.settle_incoming(input.session(), delivery.delivery_id, DeliveryState::Accepted);
    }
    assert_eq!(pair.dispositions(), [disposition(Role::Receiver, u32::MAX - 1, 1, true)]);
    pair.feed(&amqp(0, Flow { next_incoming_id: Some(2), next_outgoing_id: 2, echo: true, ..flow() }));
    let flows = pair.flows();
    assert_eq!((flows[0].next_incoming_id, flows[0].next_outgoing_id), (Some(2), 2));
    pair.feed(&amqp(0, disposition(Role::Receiver, u32::MAX, 0, true)));
    let Event::Disposition { first, last, .. } = pair.take_event() else { panic!() };
    assert_eq!([first, last], ids([u32::MAX, 0])[..]);
}

#[test]
fn sessions_take_turns_with_their_transfers() {
    let mut pair = Pair::open(plain());
    let mut links = Vec::new();
    for channel in 0..2 {
        pair.begin(channel);
        pair.feed(&amqp(channel, attach(&format!("out{channel}"), 0, Role::Receiver)));
        let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
        links.push(link);
    }
    pair.read();
    for link in &links {
        for tag in 0..10 {
            pair.engine.send(*link, message(tag, 1_000)).unwrap();
        }
    }
    let mut out = bytes::BytesMut::new();
    let mut turns = Vec::new();
    while pair.engine.has_output() {
        out.clear();
        pair.engine.poll_output(pair.now, &mut out, 3_000);
        assert!(out.len() < 3_000 + 1_200, "{} bytes", out.len());
        turns.push(out[7]);
    }
    assert_eq!(turns[..4], [0, 1, 0, 1], "{turns:?}");
}

#[test]
fn an_unmapped_disposition_of_a_sender_is_ignored() {
    let mut pair = Pair::begun(plain());
    pair.feed(&amqp(0, Disposition { state: None, ..disposition(Role::Sender, 0, u32::MAX, true) }));
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]));
}
