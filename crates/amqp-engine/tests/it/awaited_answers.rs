//! A layer above that takes its time to answer a SASL init and an open: input behind them waits, whatever it is.

use std::time::Duration;

use amqp_codec::performative::{Open, Performative, SaslCode};
use amqp_codec::types::{Role, Symbol};
use amqp_engine::{Config, Event, OpenReply, Origin};

use crate::pair::*;

const AMQP: [u8; 8] = *b"AMQP\0\x01\0\0";
const SASL: [u8; 8] = *b"AMQP\x03\x01\0\0";

fn with_sasl() -> Config {
    Config { sasl_mechanisms: vec![Symbol::from("PLAIN")], ..Config::default() }
}

/// A first segment with all that a client can say without waiting for anything: two messages are the last of it.
fn first_segment() -> Vec<u8> {
    let pieces = [
        SASL.to_vec(),
        sasl(&init("PLAIN")),
        AMQP.to_vec(),
        amqp(0, Open::new("client")),
        amqp(0, begin()),
        amqp(0, attach("out", 0, Role::Sender)),
        amqp_with(0, transfer(0, 0), b"first"),
        amqp_with(0, transfer(0, 1), b"second"),
    ];
    pieces.concat()
}

/// The layer above has nothing to say yet. Deadlines before that of the open change nothing.
fn wait(pair: &mut Pair, time: Duration) {
    pair.pass(time);
    pair.poll();
    assert_eq!(pair.take_events(), [], "nothing is looked at before the answer");
    assert!(!pair.engine.wants_input(), "the socket is not read meanwhile");
}

#[test]
fn a_first_segment_that_says_everything_waits_for_each_answer() {
    // Answers at once, and answers that take their time.
    for time in [Duration::ZERO, Duration::from_secs(5)] {
        let mut pair = Pair::new(with_sasl());
        pair.answer = false;
        pair.feed(&first_segment());
        assert!(matches!(pair.take_event(), Event::SaslInit { .. }));
        wait(&mut pair, time);
        pair.engine.sasl_outcome(SaslCode::Ok);
        pair.poll();
        assert!(matches!(pair.take_event(), Event::Opened(_)));
        wait(&mut pair, time);
        pair.answer = true;
        pair.engine.accept_open(OpenReply::default());
        pair.poll();
        let events = pair.take_events();
        assert!(
            matches!(events[..2], [Event::SessionBegun { .. }, Event::LinkAttached { .. }]),
            "{events:?}"
        );
        let payloads: Vec<_> = events[2..]
            .iter()
            .map(|event| match event {
                Event::Transfer(delivery) => &*delivery.payload,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(payloads, [b"first".as_slice(), b"second"]);
        assert!(pair.engine.wants_input());
        let kinds: Vec<_> = pair.frames().iter().map(|frame| frame.kind().to_string()).collect();
        assert_eq!(kinds[..3], ["open", "begin", "attach"], "{kinds:?}");
    }
}

#[test]
fn the_time_for_the_open_goes_on_while_an_answer_is_awaited() {
    let open_timeout = Config::default().open_timeout;
    for opens in [false, true] {
        let mut pair = Pair::new(with_sasl());
        pair.answer = false;
        pair.feed(&first_segment());
        if opens {
            pair.engine.sasl_outcome(SaslCode::Ok);
            pair.poll();
        }
        pair.take_events();
        wait(&mut pair, open_timeout.saturating_sub(Duration::from_millis(1)));
        pair.pass(Duration::from_millis(1));
        assert!(matches!(pair.take_event(), Event::Closed { by: Origin::Engine, .. }), "{opens}");
        // An answer that comes too late is worth nothing.
        pair.engine.sasl_outcome(SaslCode::Ok);
        pair.engine.accept_open(OpenReply::default());
        pair.poll();
        assert_eq!(pair.take_events(), [], "{opens}");
        let frames = pair.frames();
        let expected = opens.then_some("amqp:resource-limit-exceeded");
        assert_eq!(closed_with(&frames).as_deref(), expected, "{opens}");
        assert_eq!(frames.len(), if opens { 2 } else { 0 }, "an open and a close, or nothing: {frames:?}");
    }
}

#[test]
fn the_end_of_the_stream_ends_a_connection_that_waits_for_an_answer() {
    for opens in [false, true] {
        let mut pair = Pair::new(with_sasl());
        pair.answer = false;
        pair.feed(&first_segment());
        if opens {
            pair.engine.sasl_outcome(SaslCode::Ok);
            pair.poll();
        }
        pair.take_events();
        pair.engine.handle_eof();
        pair.poll();
        assert_eq!(pair.take_event(), Event::Closed { error: None, by: Origin::Transport }, "{opens}");
        pair.engine.sasl_outcome(SaslCode::Ok);
        pair.engine.accept_open(OpenReply::default());
        pair.poll();
        assert_eq!((pair.take_events(), pair.read()), (vec![], vec![]), "{opens}");
        assert!(pair.engine.is_closed(), "{opens}");
    }
}

#[test]
fn the_configuration_may_be_another_when_the_open_is_answered_and_at_no_other_time() {
    let small = || Config { channel_max: 3, max_frame_size: 600, ..plain() };
    let limits = |pair: &mut Pair| {
        let frames = pair.frames();
        let Some(Performative::Open(open)) = frames.first() else { panic!("{frames:?}") };
        (open.channel_max, open.max_frame_size)
    };
    let ours = (plain().channel_max, plain().max_frame_size);
    // Before the open it is too early.
    let mut pair = Pair::new(plain());
    pair.answer = false;
    pair.engine.set_config(small());
    pair.feed_all(&[AMQP.to_vec(), amqp(0, Open::new("client"))]);
    pair.engine.accept_open(OpenReply::default());
    assert_eq!(limits(&mut pair), ours);
    // Behind the open it is too late.
    pair.engine.set_config(small());
    pair.feed(&amqp(9, begin()));
    assert!(!pair.engine.is_closing(), "channel 9 is allowed");
    // In between, the new limits are told and hold, for what has come already too.
    let mut pair = Pair::new(plain());
    pair.answer = false;
    pair.feed_all(&[AMQP.to_vec(), amqp(0, Open::new("client")), amqp(9, begin())]);
    pair.engine.set_config(small());
    pair.engine.accept_open(OpenReply::default());
    pair.poll();
    let frames = pair.frames();
    let Some(Performative::Open(open)) = frames.first() else { panic!("{frames:?}") };
    assert_eq!((open.channel_max, open.max_frame_size), (3, 600));
    assert_eq!(closed_with(&frames).as_deref(), Some("amqp:connection:framing-error"));
}
