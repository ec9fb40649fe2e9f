use amqp_codec::performative::{Attach, Close, DeliveryState, Detach, End, Flow, Open, Performative};
use amqp_codec::types::{ReceiverSettleMode, Role};
use amqp_engine::config::CONTROL_BACKLOG_HIGH;
use amqp_engine::{AttachReply, Config, Event, Origin};
use bytes::Bytes;

use crate::pair::*;

/// Feeds pieces until the engine no longer wants any; gives how many it took.
fn feed_while_wanted(pair: &mut Pair, mut piece: impl FnMut(u32) -> Vec<u8>) -> u32 {
    for n in 0..1_000_000 {
        if !pair.engine.wants_input() {
            return n;
        }
        pair.feed(&piece(n));
        pair.events.clear();
    }
    panic!("a million pieces were taken")
}

#[test]
fn a_million_attaches_that_are_not_read_stop_being_listened_to() {
    let mut pair = Pair::begun(plain());
    let cycle = |n: u32| {
        let attach = amqp(0, attach(&format!("link{n}"), 0, Role::Sender));
        [attach, amqp(0, Detach { handle: 0, closed: true, error: None })].concat()
    };
    feed_while_wanted(&mut pair, cycle);
    let backlog = pair.engine.pending_output_bytes();
    assert!(backlog < CONTROL_BACKLOG_HIGH + 1_000, "{backlog} bytes wait");
    pair.read();
    assert!(pair.engine.wants_input(), "the peer has read");
    feed_while_wanted(&mut pair, cycle);
}

#[test]
fn sessions_that_are_begun_and_ended_without_reading_stop_being_listened_to() {
    let mut pair = Pair::open(plain());
    feed_while_wanted(&mut pair, |_| [amqp(0, begin()), amqp(0, End::default())].concat());
}

#[test]
fn a_caller_that_does_not_stop_reading_is_bounded_by_force() {
    let mut pair = Pair::open(Config { max_control_backlog: 100_000, ..plain() });
    let cycle = [amqp(0, begin()), amqp(0, End::default())].concat();
    pair.feed(&cycle.repeat(10_000));
    assert!(matches!(pair.events.last(), Some(Event::Closed { by: Origin::Engine, error: Some(_) })));
    let frames = pair.frames();
    assert_eq!(closed_with(&frames).as_deref(), Some("amqp:resource-limit-exceeded"));
    assert_eq!(frames.len(), 1, "what was not taken is not sent either");
    assert!(pair.engine.is_closed());
}

#[test]
fn echoes_and_heartbeats_make_one_answer() {
    let mut pair = Pair::begun(plain());
    pair.attach("out", 0, Role::Receiver);
    let echo = amqp(0, Flow { echo: true, ..credit(0, 0, u32::MAX) });
    pair.feed(&echo.repeat(10_000));
    pair.feed(&raw(0, b"").repeat(10_000));
    assert_eq!(pair.take_events().len(), 10_000);
    assert_eq!(pair.frames().len(), 1);
}

#[test]
fn dispositions_over_the_widest_ranges_cost_nothing() {
    let mut pair = Pair::begun(plain());
    pair.attach("in", 0, Role::Sender);
    let link = pair.attach("out", 1, Role::Receiver);
    pair.feed(&amqp_with(0, transfer(0, 0), b"x"));
    pair.engine.send(link, message(1, 1)).unwrap();
    pair.read();
    pair.events.clear();
    let half = 0x7fff_ffff;
    for role in [Role::Sender, Role::Receiver] {
        for (first, last) in [(0, u32::MAX), (0, half), (half, u32::MAX), (u32::MAX - half, 0), (1, 0)] {
            for settled in [false, true] {
                pair.feed(&amqp(0, disposition(role, first, last, settled)));
            }
        }
    }
    for event in pair.take_events() {
        match event {
            Event::Disposition { first, last, .. } => assert_eq!((first.0, last.0), (1, 1)),
            Event::SettledByPeer { first, last, .. } => assert_eq!((first.0, last.0), (0, 0)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pair.read(), []);
}

#[test]
fn links_that_are_refused_and_never_detached_are_bounded() {
    let mut pair = Pair::begun(Config { handle_max: 9, ..plain() });
    pair.answer = false;
    for handle in 0..10 {
        pair.feed(&amqp(0, attach(&format!("l{handle}"), handle, Role::Sender)));
        let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
        pair.engine.refuse_link(link, amqp_codec::performative::Error::new("amqp:not-found", "no"));
        pair.read();
    }
    // All handles are taken by links that wait for the peer's detach.
    pair.feed(&amqp(0, attach("more", 10, Role::Sender)));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:connection:framing-error"));
}

#[test]
fn names_of_links_have_a_longest() {
    for (bytes, taken) in [(1, true), (421, true), (4096, true), (4097, false), (60_000, false)] {
        let mut pair = Pair::begun(plain());
        pair.answer = false;
        pair.feed(&amqp(0, attach(&"n".repeat(bytes), 0, Role::Sender)));
        let refused = detached_with(&pair.frames());
        assert_eq!(refused.as_deref(), (!taken).then_some("amqp:invalid-field"), "{bytes} bytes");
        let told = pair.take_events().iter().any(|event| matches!(event, Event::LinkAttached { .. }));
        assert_eq!(told, taken, "{bytes} bytes");
    }
}

#[test]
fn links_that_wait_for_a_detach_have_no_names() {
    const LINKS: u32 = 100;
    const NAME: usize = 4000;
    let mut pair = Pair::begun(plain());
    pair.answer = false;
    let mut refuse = |handle: u32| {
        pair.feed(&amqp(0, attach(&format!("{handle:0NAME$}"), handle, Role::Sender)));
        let Event::LinkAttached { link, .. } = pair.take_event() else { panic!() };
        pair.engine.refuse_link(link, amqp_codec::performative::Error::new("amqp:not-found", "no"));
        pair.read();
    };
    (0..LINKS).for_each(&mut refuse);
    let kept = allocation_counter::measure(|| (LINKS..2 * LINKS).for_each(&mut refuse)).bytes_current;
    let names = i64::from(LINKS) * 4000;
    assert!(kept < names / 4, "{kept} bytes are kept for links with names of {names}");
}

#[test]
fn refused_links_of_all_sessions_together_are_bounded() {
    let mut pair = Pair::begun(Config { max_links: 3, ..plain() });
    pair.begin(1);
    for handle in 0..6 {
        let (channel, name) = (u16::from(handle >= 3), format!("l{handle}"));
        pair.feed(&amqp(channel, attach(&name, handle, Role::Sender)));
        let refused = detached_with(&pair.frames());
        let expected = (handle >= 3).then_some("amqp:resource-limit-exceeded");
        assert_eq!(refused.as_deref(), expected, "{handle}");
    }
    pair.events.clear();
    // Three are attached, three wait for the peer's detach.
    pair.feed(&amqp(1, attach("more", 9, Role::Sender)));
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
    assert!(matches!(pair.take_event(), Event::SessionEnded { by: Origin::Engine, .. }));
    // The session took its links with it; a detach makes room as well.
    pair.feed(&amqp(0, Detach { handle: 0, closed: true, error: None }));
    pair.read();
    pair.events.clear();
    pair.attach("again", 0, Role::Sender);
}

#[test]
fn a_peer_that_does_not_read_why_it_is_rejected_is_not_listened_to() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("in", 0, Role::Sender);
    let text = "x".repeat(1_000);
    let mut sent = 0;
    while pair.engine.wants_input() {
        pair.feed(&amqp_with(0, transfer(0, sent), b"x"));
        // No two texts are equal, so no two go out together.
        let error = amqp_codec::performative::Error::new("amqp:not-allowed", format!("{sent} {text}"));
        let state = DeliveryState::Rejected(Some(Box::new(error)));
        pair.engine.settle_incoming(link.session(), ids([sent])[0], state);
        pair.events.clear();
        sent += 1;
        assert!(sent < 100);
    }
    assert!(sent > 50, "{sent}");
    assert_eq!(pair.dispositions().len(), sent as usize);
    assert!(pair.engine.wants_input(), "the peer has read");
}

#[test]
fn sessions_that_we_ended_and_the_peer_did_not_are_bounded() {
    let mut pair = Pair::open(Config { channel_max: 9, ..plain() });
    for channel in 0..10 {
        let session = pair.begin(channel);
        pair.engine.end_session(session, None);
    }
    pair.feed(&amqp(10, begin()));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:connection:framing-error"));
}

#[test]
fn deliveries_taken_back_too_often_end_the_session() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: 0, ..begin() }));
    pair.events.clear();
    let stays = pair.attach("stays", 0, Role::Receiver);
    let goes = pair.attach("goes", 1, Role::Receiver);
    let no_window = |frame| Flow { incoming_window: 0, ..frame };
    pair.feed(&amqp(0, no_window(credit(0, 0, u32::MAX))));
    let mut rounds = 0;
    while pair.engine.send(stays, message(1, 1)).is_some() {
        pair.feed(&amqp(0, no_window(credit(1, 0, 1))));
        pair.engine.send(goes, message(1, 1)).unwrap();
        pair.feed(&amqp(0, no_window(credit(1, 0, 0))));
        rounds += 1;
        assert!(rounds < 2_000);
    }
    assert_eq!(ended_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
}

#[test]
fn a_hostile_peer_cannot_hold_much_input() {
    // A frame that says it is large, and never comes.
    let mut pair = Pair::open(plain());
    pair.feed(&[0, 1, 0, 0, 2, 0, 0, 0]);
    for _ in 0..65_528 {
        assert!(pair.engine.wants_input());
        pair.engine.handle_input(pair.now, Bytes::from_static(&[0xff]));
    }
    pair.poll();
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:decode-error"));
}

#[test]
fn one_connection_does_not_end_another() {
    let mut good = Pair::begun(plain());
    let link = good.attach("in", 0, Role::Sender);
    let mut bad = Pair::begun(plain());
    bad.feed(&[0xff; 100]);
    assert!(!bad.frames().is_empty());
    good.feed(&amqp_with(0, transfer(0, 0), b"x"));
    assert!(matches!(good.take_event(), Event::Transfer(_)));
    good.engine.settle_incoming(link.session(), ids([0])[0], DeliveryState::Accepted);
    assert_eq!(good.dispositions().len(), 1);
}

#[test]
fn flows_and_dispositions_go_out_before_the_answer_to_a_close() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("in", 0, Role::Sender);
    pair.feed(&amqp_with(0, transfer(0, 0), b"x"));
    pair.engine.grant_credit(link, 5);
    pair.engine.settle_incoming(link.session(), ids([0])[0], DeliveryState::Accepted);
    pair.feed(&amqp(0, Close::default()));
    let frames = pair.frames();
    assert!(
        matches!(&frames[..], [Performative::Flow(_), Performative::Disposition(_), Performative::Close(_)]),
        "{frames:?}"
    );
}

#[test]
fn a_close_overtakes_waiting_transfers() {
    let mut pair = Pair::begun(plain());
    let link = pair.attach("out", 0, Role::Receiver);
    pair.engine.send(link, message(1, 10)).unwrap();
    pair.feed(&amqp(0, Close::default()));
    assert_eq!(pair.take_events()[0], Event::Unsent { link, deliveries: ids([1]) });
    // Even where there is room for nothing but the close.
    let mut out = bytes::BytesMut::new();
    pair.engine.poll_output(pair.now, &mut out, 0);
    assert_eq!(out, amqp(0, Close::default()));
    assert!(pair.engine.is_closed());
}

#[test]
fn everything_pipelined_up_to_the_close_is_answered_in_order() {
    let mut pair = Pair::new(plain());
    pair.feed_all(&[
        b"AMQP\0\x01\0\0".to_vec(),
        amqp(0, Open::new("client")),
        amqp(37, begin()),
        amqp(37, attach("in", 0, Role::Sender)),
        amqp_with(37, transfer(0, 0), b"x"),
        amqp(0, Close::default()),
    ]);
    let kinds: Vec<_> = pair.frames().iter().map(Performative::kind).collect();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["open", "begin", "attach", "close"]);
    let events = pair.take_events();
    assert!(matches!(events[3], Event::Transfer(_)), "{events:?}");
    assert!(matches!(events[4], Event::Closed { by: Origin::Peer, .. }));
}

#[test]
fn deliveries_that_their_peer_never_settles_are_bounded_for_all_sessions_together() {
    const SESSIONS: u16 = 20;
    let mut pair = Pair::begun(Config { max_unsettled: 100, ..plain() });
    pair.answer = false;
    let mut taken = 0;
    for channel in 0..SESSIONS {
        if channel > 0 {
            pair.begin(channel);
        }
        let asked = Attach {
            rcv_settle_mode: Some(ReceiverSettleMode::Second),
            ..attach(&format!("l{channel}"), 0, Role::Sender)
        };
        pair.feed(&amqp(channel, asked));
        let Event::LinkAttached { link, attach } = pair.take_event() else { panic!() };
        pair.engine.accept_link(link, AttachReply { settles_second: true, ..AttachReply::echo(&attach) });
        pair.engine.grant_credit(link, 1000);
        pair.read();
        pair.events.clear();
        for id in 0..90 {
            pair.feed(&amqp_with(channel, transfer(0, id), b"x"));
        }
        let got = pair.take_events();
        let refused = got.iter().any(|event| matches!(event, Event::LinkDetached { by: Origin::Engine, .. }));
        let came = got.iter().filter(|event| matches!(event, Event::Transfer(_))).count();
        assert_eq!((came, refused), if taken < 360 { (90, false) } else { (64, true) }, "session {channel}");
        let condition = detached_with(&pair.frames());
        assert_eq!(condition.as_deref(), refused.then_some("amqp:resource-limit-exceeded"));
        // A link that is detached takes its deliveries with it.
        taken += if refused { 0 } else { came };
    }
    assert_eq!(taken, 360);
    // Deliveries that the peer settles make room.
    pair.feed(&amqp(0, disposition(Role::Sender, 0, 89, true)));
    pair.read();
    pair.events.clear();
    for id in 90..180 {
        pair.feed(&amqp_with(0, transfer(0, id), b"x"));
    }
    let came = pair.take_events().iter().filter(|event| matches!(event, Event::Transfer(_))).count();
    assert_eq!(came, 90);
}
