use std::time::Duration;

use amqp_codec::frame::ProtocolHeader;
use amqp_codec::performative::{
    Close, Error, Open, Performative, SaslChallenge, SaslCode, SaslFrame, SaslInit, SaslMechanisms,
    SaslOutcome, SaslResponse,
};
use amqp_codec::types::Symbol;
use amqp_engine::config::MAX_SASL_CHALLENGES;
use amqp_engine::{Config, Event, OpenReply, Origin};
use bytes::Bytes;

use crate::pair::*;

const AMQP: [u8; 8] = *b"AMQP\0\x01\0\0";
const SASL: [u8; 8] = *b"AMQP\x03\x01\0\0";

fn mechanisms(offered: &[&'static str]) -> Config {
    Config { sasl_mechanisms: offered.iter().copied().map(Symbol::from).collect(), ..Config::default() }
}

fn outcome(code: SaslCode) -> Got {
    Got::Sasl(SaslFrame::Outcome(SaslOutcome { code, additional_data: None }))
}

/// A connection that waits for the answer to a SASL init.
fn deciding() -> Pair {
    let mut pair = Pair::new(mechanisms(&["PLAIN"]));
    pair.feed_all(&[SASL.to_vec(), sasl(&init("PLAIN"))]);
    pair.read();
    pair.events.clear();
    pair
}

#[test]
fn open_is_answered_with_our_limits() {
    let config = Config { channel_max: 17, max_frame_size: 4_096, ..plain() };
    let mut pair = Pair::new(config);
    pair.feed_all(&[AMQP.to_vec(), amqp(0, Open::new("client"))]);
    let got = pair.read();
    assert_eq!(got[0], Got::Header(ProtocolHeader::Amqp));
    let Got::Frame(0, Performative::Open(open), _) = &got[1] else { panic!("{got:?}") };
    assert_eq!((open.max_frame_size, open.channel_max), (4_096, 17));
    assert_eq!(open.idle_time_out, Some(120_000));
    assert_eq!(got.len(), 2);
}

#[test]
fn the_answer_to_an_open_may_say_more_than_the_configuration() {
    let mut pair = Pair::new(plain());
    pair.answer = false;
    pair.feed_all(&[AMQP.to_vec(), amqp(0, Open { hostname: Some("h".into()), ..Open::new("client") })]);
    assert!(matches!(pair.take_event(), Event::Opened(open) if open.container_id == "client"));
    assert_eq!(pair.engine.peer().hostname.as_deref(), Some("h"));
    pair.engine.accept_open(OpenReply {
        container_id: Some("other".into()),
        offered_capabilities: Some(vec!["ANONYMOUS-RELAY".into()]),
        properties: None,
    });
    let frames = pair.frames();
    let [Performative::Open(open)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(open.container_id, "other");
    assert_eq!(open.offered_capabilities, [Symbol::from("ANONYMOUS-RELAY")]);
}

#[test]
fn a_header_that_is_not_served_is_answered_with_one_that_is() {
    let cases: [(&[u8; 8], bool, ProtocolHeader); 8] = [
        // header, whether SASL is required, answer
        (&AMQP, true, ProtocolHeader::Sasl),
        (b"AMQP\x02\x01\0\0", true, ProtocolHeader::Sasl),
        (b"AMQP\x02\x01\0\0", false, ProtocolHeader::Amqp),
        (b"AMQP\0\x02\0\0", false, ProtocolHeader::Amqp),
        (b"AMQP\0\0\x09\x01", true, ProtocolHeader::Sasl),
        (b"AMQP\x03\x01\x01\0", true, ProtocolHeader::Sasl),
        (b"GET / HT", true, ProtocolHeader::Sasl),
        (b"\0\0\0\x08\x02\0\0\0", false, ProtocolHeader::Amqp),
    ];
    for (header, require_sasl, answer) in cases {
        let mut pair = Pair::new(Config { require_sasl, ..Config::default() });
        pair.feed(header);
        assert!(!pair.engine.is_closed(), "the answer is not yet written");
        assert_eq!(pair.read(), [Got::Header(answer)], "{header:?}");
        assert!(pair.engine.is_closed(), "{header:?}");
        assert_eq!(pair.take_event(), Event::Closed { error: None, by: Origin::Engine });
    }
}

#[test]
fn sasl_comes_before_amqp_and_everything_may_be_pipelined() {
    let mut pair = Pair::new(mechanisms(&["PLAIN"]));
    let response = SaslInit {
        mechanism: "PLAIN".into(),
        initial_response: Some(Bytes::from_static(b"\0u\0p")),
        hostname: Some("h".into()),
    };
    pair.feed_all(&[
        SASL.to_vec(),
        sasl(&SaslFrame::Init(response)),
        AMQP.to_vec(),
        amqp(0, Open::new("client")),
        amqp(3, begin()),
    ]);
    assert_eq!(
        pair.take_event(),
        Event::SaslInit {
            mechanism: "PLAIN".into(),
            initial_response: Some(Bytes::from_static(b"\0u\0p")),
            hostname: Some("h".into()),
        }
    );
    assert!(!pair.engine.wants_input());
    let offered = SaslFrame::Mechanisms(SaslMechanisms { mechanisms: vec!["PLAIN".into()] });
    assert_eq!(pair.read(), [Got::Header(ProtocolHeader::Sasl), Got::Sasl(offered)]);
    pair.engine.sasl_outcome(SaslCode::Ok);
    pair.poll();
    let got = pair.read();
    assert_eq!(got[..2], [outcome(SaslCode::Ok), Got::Header(ProtocolHeader::Amqp)]);
    assert!(matches!(got[2], Got::Frame(0, Performative::Open(_), _)));
    assert!(matches!(got[3], Got::Frame(0, Performative::Begin(_), _)));
    assert_eq!(pair.engine.peer().sasl_mechanism, Some("PLAIN".into()));
    assert!(pair.engine.wants_input());
}

#[test]
fn an_absent_initial_response_is_not_an_empty_one() {
    for initial_response in [None, Some(Bytes::new())] {
        let mut pair = Pair::new(mechanisms(&["EXTERNAL"]));
        let frame = SaslInit {
            mechanism: "EXTERNAL".into(),
            initial_response: initial_response.clone(),
            hostname: None,
        };
        pair.feed_all(&[SASL.to_vec(), sasl(&SaslFrame::Init(frame))]);
        let Event::SaslInit { initial_response: got, .. } = pair.take_event() else { panic!() };
        assert_eq!(got, initial_response);
    }
}

#[test]
fn one_mechanism_is_still_an_array() {
    let mut pair = Pair::new(mechanisms(&["PLAIN"]));
    pair.feed(&SASL);
    let bytes = pair.read_bytes();
    // The list's only field: an array of one symbol.
    assert_eq!(bytes[8 + 8..8 + 11], [0, 0x53, 0x40]);
    assert!(matches!(bytes[8 + 14], 0xe0 | 0xf0), "{bytes:02x?}");
}

#[test]
fn authentication_that_fails_ends_the_connection_behind_its_outcome() {
    for code in [SaslCode::Auth, SaslCode::Sys, SaslCode::SysPerm, SaslCode::SysTemp] {
        let mut pair = deciding();
        pair.engine.sasl_outcome(code);
        assert_eq!(pair.read(), [outcome(code)]);
        assert!(pair.engine.is_closed());
    }
}

#[test]
fn an_unknown_mechanism_fails_without_asking() {
    let mut pair = Pair::new(mechanisms(&["PLAIN"]));
    pair.feed_all(&[SASL.to_vec(), sasl(&init("GSSAPI"))]);
    assert_eq!(pair.read().last(), Some(&outcome(SaslCode::Auth)));
    assert!(pair.engine.is_closed());
    assert!(matches!(pair.take_event(), Event::Closed { .. }));
}

#[test]
fn a_frame_that_is_not_due_in_sasl_ends_the_connection() {
    let bytes = Bytes::from_static(b"x");
    let long = |len: usize| {
        SaslFrame::Init(SaslInit {
            mechanism: "PLAIN".into(),
            initial_response: Some(Bytes::from(vec![0; len])),
            hostname: None,
        })
    };
    let cases = [
        sasl(&SaslFrame::Mechanisms(SaslMechanisms { mechanisms: vec!["PLAIN".into()] })),
        sasl(&SaslFrame::Challenge(SaslChallenge { challenge: bytes.clone() })),
        sasl(&SaslFrame::Response(SaslResponse { response: bytes })),
        sasl(&SaslFrame::Outcome(SaslOutcome { code: SaslCode::Ok, additional_data: None })),
        // An empty frame, an AMQP frame, a protocol header, a body that is no list, a frame too long.
        vec![0, 0, 0, 8, 2, 1, 0, 0],
        amqp(0, Open::new("client")),
        AMQP.to_vec(),
        vec![0, 0, 0, 12, 2, 1, 0, 0, 0, 0x53, 0x41, 0x40],
        sasl(&long(20_000)),
    ];
    for bytes in cases {
        let mut pair = Pair::new(mechanisms(&["PLAIN"]));
        pair.feed(&SASL);
        pair.read();
        pair.feed(&bytes);
        assert_eq!(pair.read(), [], "{bytes:02x?}");
        assert!(pair.engine.is_closed(), "{bytes:02x?}");
        assert_eq!(pair.take_event(), Event::Closed { error: None, by: Origin::Engine });
    }
    // Tokens are long.
    let mut pair = Pair::new(mechanisms(&["PLAIN"]));
    pair.feed_all(&[SASL.to_vec(), sasl(&long(16_000))]);
    assert!(matches!(pair.take_event(), Event::SaslInit { .. }));
}

#[test]
fn challenges_are_exchanged_until_the_outcome() {
    let mut pair = deciding();
    pair.engine.sasl_challenge(Bytes::from_static(b"c"));
    let challenge = SaslFrame::Challenge(SaslChallenge { challenge: Bytes::from_static(b"c") });
    assert_eq!(pair.read(), [Got::Sasl(challenge)]);
    pair.feed(&sasl(&SaslFrame::Response(SaslResponse { response: Bytes::from_static(b"r") })));
    assert_eq!(pair.take_event(), Event::SaslResponse(Bytes::from_static(b"r")));
    pair.engine.sasl_outcome(SaslCode::Ok);
    assert_eq!(pair.read(), [outcome(SaslCode::Ok)]);
}

#[test]
fn endless_sasl_ends() {
    let mut pair = deciding();
    let mut rounds = 0;
    while !pair.engine.is_closed() {
        pair.engine.sasl_challenge(Bytes::from_static(b"c"));
        pair.feed(&sasl(&SaslFrame::Response(SaslResponse { response: Bytes::new() })));
        pair.read();
        rounds += 1;
        assert!(rounds <= u32::from(MAX_SASL_CHALLENGES) + 1);
    }
}

#[test]
fn sasl_is_not_negotiated_twice() {
    let mut pair = deciding();
    pair.engine.sasl_outcome(SaslCode::Ok);
    pair.read();
    pair.feed(&SASL);
    assert_eq!(pair.read(), [Got::Header(ProtocolHeader::Amqp)]);
    assert!(pair.engine.is_closed());
}

#[test]
fn an_open_that_cannot_be_is_answered_by_open_and_close() {
    let open = || Open::new("client");
    let cases = [
        // the first frame, condition
        (amqp(1, open()), "amqp:connection:framing-error"),
        (amqp(0, Open { max_frame_size: 511, ..open() }), "amqp:connection:framing-error"),
        (amqp(0, Open { idle_time_out: Some(1), ..open() }), "amqp:not-allowed"),
        (amqp(0, begin()), "amqp:illegal-state"),
        (amqp(0, Close::default()), "amqp:illegal-state"),
        // An empty list, no list, another type, nothing that can be read.
        (raw(0, &[0, 0x53, 0x10, 0x45]), "amqp:decode-error"),
        (raw(0, &[0, 0x53, 0x10, 0x40]), "amqp:decode-error"),
        (raw(0, &[0, 0x53, 0x99, 0x45]), "amqp:decode-error"),
        (raw(0, &[0xff; 9]), "amqp:decode-error"),
        (amqp_with(0, open(), b"payload"), "amqp:connection:framing-error"),
        (vec![0, 0, 0, 7, 2, 0, 0, 0], "amqp:connection:framing-error"),
        (sasl(&init("PLAIN")), "amqp:connection:framing-error"),
    ];
    for (bytes, condition) in cases {
        let mut pair = Pair::new(plain());
        pair.feed_all(&[AMQP.to_vec(), bytes.clone()]);
        let frames = pair.frames();
        assert!(matches!(frames[0], Performative::Open(_)), "{bytes:02x?}: {frames:?}");
        assert_eq!(closed_with(&frames).as_deref(), Some(condition), "{bytes:02x?}");
        assert_eq!(frames.len(), 2);
        assert!(matches!(
            pair.take_event(),
            Event::Closed { error: Some(error), by: Origin::Engine } if error.condition == condition
        ));
    }
}

#[test]
fn an_open_at_its_limits_is_accepted() {
    for open in [
        Open { max_frame_size: 512, ..Open::new("client") },
        Open { idle_time_out: Some(20), ..Open::new("client") },
        Open { idle_time_out: Some(0), ..Open::new("client") },
        Open { channel_max: 0, ..Open::new("") },
    ] {
        let mut pair = Pair::new(plain());
        pair.feed_all(&[AMQP.to_vec(), amqp(0, open)]);
        assert!(matches!(pair.take_event(), Event::Opened(_)));
        assert_eq!(pair.frames().len(), 1);
    }
}

#[test]
fn empty_frames_before_the_open_do_no_harm() {
    let mut pair = Pair::new(plain());
    pair.feed_all(&[AMQP.to_vec(), raw(0, b""), amqp(0, Open::new("client"))]);
    assert!(matches!(pair.take_event(), Event::Opened(_)));
}

#[test]
fn an_open_that_is_refused_is_answered_and_then_closed() {
    let mut pair = Pair::new(plain());
    pair.answer = false;
    pair.feed_all(&[AMQP.to_vec(), amqp(0, Open::new("client"))]);
    pair.engine.refuse_open(Error::new("amqp:not-found", "no such host"));
    let frames = pair.frames();
    let Performative::Open(open) = &frames[0] else { panic!("{frames:?}") };
    let failed = open.properties.as_ref().unwrap();
    assert_eq!(failed.get("amqp:connection-establishment-failed").unwrap().as_bool(), Some(true));
    assert_eq!(closed_with(&frames).as_deref(), Some("amqp:not-found"));
    // The peer may answer, and may have gone on before it knew.
    pair.feed_all(&[amqp(0, begin()), amqp(0, Close::default())]);
    assert!(pair.engine.is_closed());
    assert_eq!(pair.read(), []);
}

#[test]
fn a_second_open_is_an_error() {
    let mut pair = Pair::open(plain());
    pair.feed(&amqp(0, Open::new("client")));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:illegal-state"));
}

#[test]
fn input_waits_for_the_answer_to_the_open_within_its_limit() {
    let config = Config { max_held_input: 70_000, ..plain() };
    let mut pair = Pair::new(config);
    pair.answer = false;
    pair.feed_all(&[AMQP.to_vec(), amqp(0, Open::new("client")), amqp(0, begin())]);
    pair.events.clear();
    assert!(!pair.engine.wants_input());
    pair.feed(&raw(0, &vec![0; 60_000]));
    assert!(!pair.engine.is_closing(), "within the limit");
    pair.feed(&raw(0, &vec![0; 60_000]));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:resource-limit-exceeded"));
    assert!(pair.engine.is_closed());
}

#[test]
fn a_peer_that_does_not_come_to_its_open_is_dropped_in_time() {
    let open_timeout = Config::default().open_timeout;
    let stages: [&[u8]; 4] = [b"", b"AMQP", &AMQP, &[AMQP, [0, 0, 0, 100, 2, 0, 0, 0]].concat()];
    for bytes in stages {
        let mut pair = Pair::new(plain());
        pair.feed(bytes);
        pair.pass(open_timeout.saturating_sub(Duration::from_millis(1)));
        assert!(pair.events.is_empty(), "{bytes:?}");
        pair.pass(Duration::from_millis(1));
        assert!(matches!(pair.take_event(), Event::Closed { by: Origin::Engine, .. }), "{bytes:?}");
        let frames = pair.frames();
        let expected = (bytes.len() >= 8).then_some("amqp:resource-limit-exceeded");
        assert_eq!(closed_with(&frames).as_deref(), expected);
        pair.pass(Config::default().close_timeout);
        assert!(pair.engine.is_closed());
    }
}

#[test]
fn a_peer_that_comes_to_its_open_byte_by_byte_has_no_more_time_than_others() {
    let open_timeout = Config::default().open_timeout;
    // A frame of 4 KiB begins and goes on: in SASL, and before the open.
    for (header, condition) in [(SASL, None), (AMQP, Some("amqp:resource-limit-exceeded"))] {
        let mut pair = Pair::new(if header == SASL { mechanisms(&["PLAIN"]) } else { plain() });
        pair.feed(&header);
        pair.feed(&[0, 0, 16, 0, 2, u8::from(header == SASL), 0, 0]);
        pair.read();
        for _ in 0..99 {
            pair.pass(open_timeout / 100);
            pair.feed(&[0]);
            assert!(pair.events.is_empty() && !pair.engine.is_closed(), "{header:?}");
        }
        pair.pass(open_timeout / 100);
        assert!(matches!(pair.take_event(), Event::Closed { by: Origin::Engine, .. }), "{header:?}");
        assert_eq!(closed_with(&pair.frames()).as_deref(), condition);
        pair.feed(&[0]);
        pair.pass(Config::default().close_timeout);
        assert!(pair.engine.is_closed(), "{header:?}");
    }
}

#[test]
fn a_close_is_answered_and_ends_everything() {
    let mut pair = Pair::begun(plain());
    pair.feed_all(&[amqp(0, Close::default()), amqp(0, begin()), vec![0xff; 50]]);
    let frames = pair.frames();
    assert_eq!(frames, [Performative::Close(Box::default())]);
    assert_eq!(pair.take_event(), Event::Closed { error: None, by: Origin::Peer });
    assert!(pair.engine.is_closed());
    assert_eq!(pair.engine.deadline(), None);
}

#[test]
fn the_error_of_a_close_is_told() {
    let mut pair = Pair::open(plain());
    let error = Error::new("amqp:internal-error", "oops");
    pair.feed(&amqp(0, Close { error: Some(error.clone()) }));
    assert_eq!(pair.take_event(), Event::Closed { error: Some(error), by: Origin::Peer });
    assert_eq!(pair.frames(), [Performative::Close(Box::default())]);
}

#[test]
fn behind_our_close_nothing_is_said_or_told() {
    let mut pair = Pair::begun(plain());
    pair.engine.close(Some(Error::new("amqp:connection:forced", "shutdown")));
    assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:connection:forced"));
    assert!(pair.engine.is_closing() && !pair.engine.is_closed());
    pair.feed_all(&[amqp(5, begin()), raw(0, b""), raw(0, &[1, 2, 3]), amqp(9_999, begin())]);
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]));
    pair.feed(&amqp(0, Close::default()));
    assert!(pair.engine.is_closed());
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]));
}

#[test]
fn the_answer_to_our_close_is_not_awaited_for_ever() {
    let config = plain();
    let timeout = config.close_timeout;
    let mut pair = Pair::open(config);
    pair.pass(Duration::from_secs(20));
    pair.engine.close(None);
    pair.read();
    pair.pass(timeout.saturating_sub(Duration::from_millis(1)));
    assert!(!pair.engine.is_closed());
    pair.pass(Duration::from_millis(1));
    assert!(pair.engine.is_closed());
}

#[test]
fn a_lost_transport_is_told_once() {
    let mut pair = Pair::begun(plain());
    pair.engine.handle_eof();
    pair.poll();
    assert_eq!(pair.take_event(), Event::Closed { error: None, by: Origin::Transport });
    assert!(pair.engine.is_closed());
    pair.engine.handle_eof();
    pair.feed(&amqp(0, begin()));
    assert_eq!(pair.take_events(), []);
}

#[test]
fn a_closed_connection_takes_no_commands() {
    let mut pair = Pair::begun(plain());
    pair.feed(&amqp(0, Close::default()));
    pair.read();
    pair.engine.close(None);
    pair.engine.accept_open(OpenReply::default());
    pair.engine.sasl_outcome(SaslCode::Ok);
    pair.engine.handle_deadline(pair.now + Duration::from_secs(3_600));
    assert!(pair.engine.is_closed());
    assert_eq!(pair.read(), []);
}
