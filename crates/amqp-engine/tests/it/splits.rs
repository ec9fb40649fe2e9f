//! The events and output of the engine depend on the bytes alone, never on how the network cut them; and no
//! bytes make it panic.

use amqp_codec::frame::ProtocolHeader;
use amqp_codec::performative::{
    Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Flow, Open, Transfer,
};
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode, Role, SenderSettleMode};
use amqp_engine::{AttachReply, Config, Event, LinkKey, OpenReply};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::pair::{Body, Pair, amqp_with, begin, message, plain, raw, transfer};
use crate::wire::Wire;

/// Small numbers, and now and then one at an edge.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..6, 1 => Just(u32::MAX), 1 => Just(0x7fff_ffff), 1 => any::<u32>()]
}

fn maybe<T: std::fmt::Debug + Clone>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![1 => Just(None), 4 => strategy.prop_map(Some)]
}

fn role() -> impl Strategy<Value = Role> {
    any::<bool>().prop_map(Role::from)
}

fn an_attach() -> impl Strategy<Value = Attach> {
    (0u8..4, number(), role(), maybe(0u8..3), maybe(0u8..2), maybe(number())).prop_map(
        |(name, handle, role, snd, rcv, initial_delivery_count)| Attach {
            snd_settle_mode: snd.and_then(SenderSettleMode::from_code),
            rcv_settle_mode: rcv.and_then(ReceiverSettleMode::from_code),
            initial_delivery_count,
            ..Attach::new(format!("link{name}"), handle, role)
        },
    )
}

fn a_transfer() -> impl Strategy<Value = Transfer> {
    let flags = (any::<bool>(), any::<bool>(), prop_oneof![9 => Just(false), 1 => Just(true)]);
    let state = prop_oneof![4 => Just(None), 1 => any::<u8>().prop_map(|name| Some(in_transaction(name)))];
    (number(), maybe(number()), maybe(0u8..8), maybe(any::<bool>()), flags, state).prop_map(
        |(handle, delivery_id, tag, settled, (more, resume, aborted), state)| Transfer {
            state,
            handle,
            delivery_id,
            delivery_tag: tag.map(|tag| DeliveryTag::try_from(&[tag][..]).unwrap()),
            settled,
            more,
            resume,
            aborted,
            ..Transfer::default()
        },
    )
}

fn in_transaction(name: u8) -> DeliveryState {
    DeliveryState::Transactional { txn_id: (&[name][..]).into(), outcome: None }
}

fn a_flow() -> impl Strategy<Value = Flow> {
    let link = (maybe(number()), maybe(number()), maybe(number()));
    (maybe(number()), number(), number(), link, any::<bool>(), any::<bool>()).prop_map(
        |(next_incoming_id, incoming_window, next_outgoing_id, link, drain, echo)| Flow {
            next_incoming_id,
            incoming_window,
            next_outgoing_id,
            outgoing_window: 0,
            handle: link.0,
            delivery_count: link.1,
            link_credit: link.2,
            available: None,
            drain,
            echo,
            properties: None,
        },
    )
}

fn a_disposition() -> impl Strategy<Value = Disposition> {
    let state = prop_oneof![Just(None), Just(Some(DeliveryState::Accepted)), Just(Some(in_transaction(7)))];
    (role(), number(), maybe(number()), any::<bool>(), state).prop_map(
        |(role, first, last, settled, state)| Disposition {
            role,
            first,
            last,
            settled,
            state,
            batchable: false,
        },
    )
}

/// A frame of a peer that mostly knows the protocol.
fn a_frame() -> impl Strategy<Value = Vec<u8>> {
    let channel = prop_oneof![4 => Just(0u16), 2 => Just(1), 1 => any::<u16>()];
    let body = prop_oneof![
        2 => (number(), number()).prop_map(|(next_outgoing_id, incoming_window)| {
            Body::from(Begin { next_outgoing_id, incoming_window, ..begin() })
        }),
        5 => an_attach().prop_map(Body::from),
        8 => a_transfer().prop_map(Body::from),
        5 => a_flow().prop_map(Body::from),
        4 => a_disposition().prop_map(Body::from),
        2 => (number(), any::<bool>())
            .prop_map(|(handle, closed)| Body::from(Detach { handle, closed, error: None })),
        1 => Just(()).prop_map(|()| Body::from(End::default())),
    ];
    let payload = prop_oneof![2 => Just(Vec::new()), 2 => proptest::collection::vec(any::<u8>(), 0..40)];
    prop_oneof![
        30 => (channel, body, payload).prop_map(|(channel, body, payload)| {
            let is_transfer = matches!(body.0, amqp_codec::performative::Performative::Transfer(_));
            amqp_with(channel, body, if is_transfer { &payload } else { b"" })
        }),
        1 => Just(raw(0, b"")),
        1 => proptest::collection::vec(any::<u8>(), 0..30).prop_map(|body| raw(0, &body)),
    ]
}

/// The layer above: answers everything at once, by rules that depend on the events alone.
fn react(pair: &mut Pair, event: &Event) {
    let engine = &mut pair.engine;
    match event {
        Event::SaslInit { .. } | Event::SaslResponse(_) => {
            engine.sasl_outcome(amqp_codec::performative::SaslCode::Ok);
        }
        Event::Opened(_) => engine.accept_open(OpenReply::default()),
        Event::LinkAttached { link, attach } => {
            if attach.handle == 5 {
                engine.refuse_link(*link, amqp_codec::performative::Error::new("a:b", "c"));
            } else {
                let settles_second = attach.handle % 2 == 1;
                engine.accept_link(*link, AttachReply { settles_second, ..AttachReply::echo(attach) });
                engine.grant_credit(*link, 3);
            }
        }
        Event::LinkFlow { link, limit, credit, drain, .. } => {
            react_to_flow(pair, *link, (*limit, *credit), *drain);
        }
        Event::Transfer(delivery) if delivery.delivery_id.0 % 3 == 0 => {
            engine.propose_incoming(delivery.session(), delivery.delivery_id, DeliveryState::Accepted);
        }
        Event::Transfer(delivery) => {
            engine.settle_incoming(delivery.session(), delivery.delivery_id, DeliveryState::Accepted);
        }
        Event::TooLarge { link, delivery_id, .. } => {
            engine.settle_incoming(link.session(), *delivery_id, DeliveryState::Rejected(None));
        }
        Event::Disposition { session, first, settled: false, state: Some(state), .. } if first.0 % 2 == 0 => {
            engine.answer_outgoing(*session, *first, state.clone());
        }
        Event::Disposition { session, first, last, settled: false, state } => {
            engine.settle_outgoing_range(*session, *first, *last, state.clone());
        }
        _ => {}
    }
}

fn react_to_flow(pair: &mut Pair, link: LinkKey, (limit, credit): (u64, u32), drain: bool) {
    for tag in 0..u8::try_from(credit.min(5)).unwrap() {
        pair.engine.send(link, message(tag, 700));
    }
    if drain {
        pair.engine.drained(link, limit);
    }
}

/// Everything that the engine tells and writes for the given pieces of input.
fn run(config: Config, pieces: &[&[u8]]) -> (Vec<Event>, Bytes) {
    let mut pair = Pair::new(config);
    pair.answer = false;
    let mut events = Vec::new();
    for piece in pieces {
        pair.engine.handle_input(pair.now, Bytes::copy_from_slice(piece));
        while let Some(event) = pair.engine.poll_event() {
            react(&mut pair, &event);
            events.push(event);
        }
    }
    // Output is taken at the end, for when it is taken does depend on the cuts.
    let mut out = BytesMut::new();
    while pair.engine.has_output() {
        let before = out.len();
        pair.engine.poll_output(pair.now, &mut out, before + 100_000);
        assert!(out.len() > before, "has output, but writes nothing");
    }
    (events, out.freeze())
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for &cut in cuts {
        let (now, later) = rest.split_at(cut.min(rest.len()));
        pieces.push(now);
        rest = later;
    }
    pieces.push(rest);
    pieces
}

fn small() -> Config {
    Config {
        require_sasl: false,
        session_incoming_window: 12,
        max_unsettled: 6,
        max_partial_bytes: 100,
        max_message_size: 60,
        handle_max: 0x8000_0000,
        initial_outgoing_id: 0,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_the_input_gives_the_same_events_and_output(
        frames in proptest::collection::vec(a_frame(), 0..40),
        max_frame_size in prop_oneof![Just(512u32), Just(u32::MAX)],
        cuts in proptest::collection::vec(0usize..120, 0..60),
        close: bool,
    ) {
        let open = Open { max_frame_size, ..Open::new("peer") };
        let mut input = ProtocolHeader::Amqp.to_bytes().to_vec();
        input.extend(amqp_with(0, open, b""));
        input.extend(amqp_with(0, begin(), b""));
        input.extend(frames.concat());
        if close {
            input.extend(amqp_with(0, Close::default(), b""));
        }
        let whole = run(small(), &[&input]);
        let pieces = run(small(), &cut(&input, &cuts));
        prop_assert_eq!(&whole.0, &pieces.0);
        prop_assert_eq!(&whole.1, &pieces.1);
        Wire::new(max_frame_size).read(whole.1);
    }

    #[test]
    fn the_engine_writes_only_frames_that_a_strict_peer_allows(
        frames in proptest::collection::vec(a_frame(), 0..60),
        takes in proptest::collection::vec(0usize..4_000, 60),
        max_frame_size in prop_oneof![Just(512u32), Just(u32::MAX)],
    ) {
        let mut pair = Pair::new(small());
        pair.answer = false;
        let mut wire = Wire::new(max_frame_size);
        let open = Open { max_frame_size, ..Open::new("peer") };
        let start = [
            ProtocolHeader::Amqp.to_bytes().to_vec(),
            amqp_with(0, open, b""),
            amqp_with(0, begin(), b""),
        ];
        for (frame, take) in start.into_iter().chain(frames).zip(takes) {
            pair.engine.handle_input(pair.now, Bytes::from(frame));
            while let Some(event) = pair.engine.poll_event() {
                react(&mut pair, &event);
            }
            // Now and then the socket takes nothing.
            if take > 1_000 {
                let mut out = BytesMut::new();
                pair.engine.poll_output(pair.now, &mut out, take);
                wire.read(out.freeze());
            }
        }
        wire.read(pair.read_bytes());
    }

    #[test]
    fn no_bytes_make_it_panic(
        prefix in 0usize..4,
        bytes: Vec<u8>,
        cuts in proptest::collection::vec(0usize..20, 0..10),
    ) {
        let start: [&[u8]; 4] = [b"", b"AMQP\x03\x01\0\0", b"AMQP\0\x01\0\0", b"AMQP\0\x01\0\0\0\0\0\x11\x02\0\0\0"];
        let input = [start[prefix], &bytes].concat();
        let whole = run(small(), &[&input]);
        let pieces = run(small(), &cut(&input, &cuts));
        prop_assert_eq!(whole, pieces);
    }
}

#[test]
fn a_loop_may_stop_between_two_frames_and_go_on_later() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("out", 0, Role::Sender);
    pair.engine.grant_credit(link, 10);
    let mut input = [amqp_with(0, transfer(0, 0), b"one"), amqp_with(0, transfer(0, 1), b"two")].concat();
    let half = amqp_with(0, transfer(0, 2), b"three");
    input.extend_from_slice(&half[..half.len() / 2]);
    pair.engine.handle_input(pair.now, &input[..]);
    assert_eq!(pair.engine.poll_queued_event(), None, "nothing was looked at");
    for text in [&b"one"[..], b"two"] {
        assert!(pair.engine.has_unread_input());
        let Some(Event::Transfer(delivery)) = pair.engine.poll_event() else { panic!() };
        assert_eq!(delivery.payload, text);
        assert_eq!(pair.engine.poll_queued_event(), None, "the next frame is not looked at");
    }
    assert_eq!(pair.engine.poll_event(), None);
    assert!(!pair.engine.has_unread_input(), "half a frame has to wait for its end");
    pair.engine.handle_input(pair.now, &half[half.len() / 2..]);
    let Some(Event::Transfer(delivery)) = pair.engine.poll_event() else { panic!() };
    assert_eq!(&delivery.payload[..], b"three");
    pair.engine.handle_input(pair.now, &amqp_with(0, transfer(0, 3), b"four")[..]);
    pair.engine.handle_eof();
    assert!(!pair.engine.has_unread_input(), "the end forgets what was not looked at");
}
