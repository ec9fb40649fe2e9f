use std::time::Duration;

use amqp_codec::performative::{Close, Flow, Open, Performative};
use amqp_codec::types::Role;
use amqp_engine::{Config, Event, Origin};

use crate::pair::*;

#[test]
fn a_malformed_frame_closes_the_connection() {
    let cases: [(&[u8], &str); 9] = [
        (&[0, 0, 0, 0, 2, 0, 0, 0], "size 0"),
        (&[0, 0, 0, 7, 2, 0, 0, 0], "size 7"),
        (&[0, 1, 0, 1, 2, 0, 0, 0], "one byte beyond max-frame-size"),
        (&[0xff; 8], "4 GiB"),
        (&[0, 0, 0, 8, 1, 0, 0, 0], "data offset inside of the header"),
        (&[0, 0, 0, 8, 3, 0, 0, 0], "data offset behind the end"),
        (&[0, 0, 0, 8, 2, 1, 0, 0], "SASL frame"),
        (&[0, 0, 0, 8, 2, 9, 0, 0], "unknown type"),
        (&[0, 0, 0, 8, 2, 0, 0x13, 0x88], "channel 5000, beyond channel-max"),
    ];
    for (bytes, what) in cases {
        let mut pair = Pair::open(plain());
        pair.feed(bytes);
        let frames = pair.frames();
        assert_eq!(closed_with(&frames).as_deref(), Some("amqp:connection:framing-error"), "{what}");
        assert!(matches!(pair.take_event(), Event::Closed { error: Some(_), by: Origin::Engine }), "{what}");
        assert!(pair.engine.is_closed(), "{what}: nothing that follows can be understood");
    }
}

#[test]
fn a_frame_of_exactly_the_largest_size_is_accepted() {
    let mut pair = Pair::begun(Config { max_frame_size: 512, ..plain() });
    let link = pair.attach("in", 0, Role::Sender);
    pair.engine.grant_credit(link, 1);
    let overhead = amqp(0, transfer(0, 0)).len();
    let frame = amqp_with(0, transfer(0, 0), &vec![7; 512 - overhead]);
    assert_eq!(frame.len(), 512);
    pair.feed(&frame);
    assert!(matches!(pair.take_event(), Event::Transfer(_)));
}

#[test]
fn performatives_that_cannot_be_read_close_the_connection() {
    let cases: [(&[u8], &str); 12] = [
        (&[0, 0x53, 0x11, 0x45], "begin without fields"),
        (&[0, 0x53, 0x12, 0x45], "attach without fields"),
        (&[0, 0x53, 0x13, 0x45], "flow without fields"),
        (&[0, 0x53, 0x14, 0x45], "transfer without handle"),
        (&[0, 0x53, 0x15, 0x45], "disposition without fields"),
        (&[0, 0x53, 0x16, 0x45], "detach without handle"),
        (&[0, 0x53, 0x19, 0x45], "unknown performative"),
        (&[0, 0x53, 0x14, 0x40], "null instead of a list"),
        (&[0, 0x53], "cut short"),
        (&[0x40], "no described value"),
        (&[0, 0x53, 0x14, 0xc0, 200, 5], "list longer than the frame"),
        (&[0, 0xa3, 3, b'a', b'b', b'c', 0x45], "unknown name"),
    ];
    for (body, what) in cases {
        let mut pair = Pair::begun(plain());
        pair.feed(&raw(0, body));
        assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:decode-error"), "{what}");
        assert!(matches!(pair.take_event(), Event::Closed { error: Some(_), .. }), "{what}");
        pair.feed(&amqp(0, Close::default()));
        assert!(pair.engine.is_closed(), "{what}");
    }
}

#[test]
fn only_transfers_have_a_payload() {
    for bytes in [
        amqp_with(0, flow(), b"x"),
        amqp_with(0, disposition(Role::Receiver, 0, 0, true), b"x"),
        amqp_with(1, begin(), b"x"),
        amqp_with(0, attach("a", 0, Role::Sender), b"x"),
        amqp_with(0, Close::default(), b"x"),
    ] {
        let mut pair = Pair::begun(plain());
        pair.feed(&bytes);
        assert_eq!(closed_with(&pair.frames()).as_deref(), Some("amqp:decode-error"), "{bytes:02x?}");
    }
}

#[test]
fn empty_frames_are_ignored_on_any_valid_channel() {
    let mut pair = Pair::begun(plain());
    for channel in [0, 1, 4_999] {
        pair.feed(&raw(channel, b""));
    }
    // With an extended header, too.
    pair.feed(&[0, 0, 0, 12, 3, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!((pair.read(), pair.take_events()), (vec![], vec![]));
}

#[test]
fn extended_headers_are_skipped() {
    let mut pair = Pair::open(plain());
    let frame = amqp(0, begin());
    let size = u8::try_from(frame.len() + 8).unwrap();
    let extended = [&[0, 0, 0, size, 4, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9][..], &frame[8..]].concat();
    pair.feed(&extended);
    assert!(matches!(pair.take_event(), Event::SessionBegun { .. }));
}

#[test]
fn a_heartbeat_goes_out_at_half_of_the_peers_time_out() {
    let cases = [
        // the peer's idle-time-out in ms, our silence in ms
        (None, 25_000),
        (Some(0), 25_000),
        (Some(60_000), 25_000),
        (Some(50_000), 25_000),
        (Some(30_000), 15_000),
        (Some(20), 10),
    ];
    for (idle_time_out, silence) in cases {
        let mut pair = Pair::open_as(plain(), Open { idle_time_out, ..Open::new("client") });
        pair.pass(Duration::from_millis(silence - 1));
        assert_eq!(pair.read(), [], "{idle_time_out:?}");
        pair.pass(Duration::from_millis(1));
        assert_eq!(pair.read(), [Got::Heartbeat], "{idle_time_out:?}");
        pair.pass(Duration::from_millis(silence * 3));
        assert_eq!(pair.read().len(), 3, "{idle_time_out:?}");
    }
}

#[test]
fn frames_written_anyway_put_the_heartbeat_off() {
    let mut pair = Pair::begun(plain());
    pair.pass(Duration::from_secs(20));
    pair.feed(&amqp(0, Flow { echo: true, ..flow() }));
    assert!(matches!(pair.read()[..], [Got::Frame(0, Performative::Flow(_), _)]));
    pair.pass(Duration::from_secs(24));
    assert_eq!(pair.read(), []);
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.read(), [Got::Heartbeat]);
}

#[test]
fn a_silent_peer_is_closed_after_twice_the_idle_time_out() {
    let config = Config { idle_time_out: Some(Duration::from_secs(10)), ..plain() };
    let mut pair = Pair::begun(config);
    for _ in 0..5 {
        pair.pass(Duration::from_millis(19_999));
        pair.feed(&raw(0, b""));
    }
    assert!(pair.events.is_empty(), "one byte in time is enough");
    pair.pass(Duration::from_secs(20));
    let frames = pair.frames();
    assert_eq!(closed_with(&frames).as_deref(), Some("amqp:resource-limit-exceeded"));
    assert!(matches!(pair.take_event(), Event::Closed { error: Some(_), by: Origin::Engine }));
    pair.pass(Config::default().close_timeout);
    assert!(pair.engine.is_closed());
}

#[test]
fn without_an_idle_time_out_a_silent_peer_stays() {
    for idle_time_out in [None, Some(Duration::ZERO)] {
        let mut pair = Pair::begun(Config { idle_time_out, ..plain() });
        pair.pass(Duration::from_secs(100_000));
        assert!(pair.events.is_empty());
    }
}
