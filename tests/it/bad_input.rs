//! Peers that are wrong, slow or hostile: each is told the protocol's error or cut off within its limit, and
//! another connection never notices.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader, write_frame},
    performative::{
        Attach, DeliveryState, Flow, Performative, SaslCode, SaslFrame, SaslResponse, Source, Target,
        Transfer,
    },
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};
use bytes::{Bytes, BytesMut};
use testkit::{Incoming, Script, Wire, WireError};

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    message::message,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// Sends bytes on an open connection, and demands a close with this condition.
fn closes_with(broker: &Broker, bytes: &[u8], condition: &str, case: &str) {
    let mut client = broker.plain();
    client.wire.script.raw(bytes);
    let error = client.wire.closed().unwrap_or_else(|error| panic!("{case}: {error}")).error;
    assert_eq!(error.expect(case).condition, condition, "{case}");
    // The socket ends too, whether the client answers or not.
    client.wire.stream().shutdown(Shutdown::Write).unwrap();
    client.wire.rest().unwrap();
}

#[test]
fn a_malformed_frame_header_is_a_framing_error() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    for size in 0..8_u8 {
        closes_with(&broker, &[0, 0, 0, size, 2, 0, 0, 0], "amqp:connection:framing-error", "size");
    }
    for doff in [0, 1, 3, 255] {
        closes_with(&broker, &[0, 0, 0, 8, doff, 0, 0, 0], "amqp:connection:framing-error", "doff");
    }
    for kind in [1, 2, 255] {
        closes_with(&broker, &[0, 0, 0, 8, 2, kind, 0, 0], "amqp:connection:framing-error", "type");
    }
    for size in [[0x00, 0x01, 0x00, 0x01], [0x7f, 0xff, 0xff, 0xff], [0xff; 4]] {
        let header = [&size[..], &[2, 0, 0, 0]].concat();
        closes_with(&broker, &header, "amqp:connection:framing-error", "larger than the limit");
    }
    closes_with(
        &broker,
        &[0, 0, 0, 8, 2, 0, 0xff, 0xff, 0, 0, 0, 8],
        "amqp:connection:framing-error",
        "channel",
    );
    innocent.works();
}

#[test]
fn a_body_that_is_no_performative_is_a_decode_error() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let nested: Vec<u8> = std::iter::repeat_n([0xd0, 0, 0, 0x7f, 0xff, 0, 0, 0, 1], 4000).flatten().collect();
    let deep = [&[0x00, 0x53, 0x12][..], &nested].concat();
    let described = [vec![0x00; 30_000], vec![0x53, 0x12, 0x45]].concat();
    let cases: [(&str, &[u8]); 10] = [
        ("no descriptor", &[0x45]),
        ("an unknown descriptor", &[0x00, 0x53, 0x7f, 0x45]),
        ("half a descriptor", &[0x00, 0x53]),
        ("no list", &[0x00, 0x53, 0x12, 0xa1, 1, b'x']),
        ("an attach without a name", &[0x00, 0x53, 0x12, 0x45]),
        (
            "a list of four thousand million items",
            &[0x00, 0x53, 0x12, 0xd0, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        ),
        ("a list longer than its frame", &[0x00, 0x53, 0x12, 0xd0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x40]),
        (
            "a map with a key too many",
            &[0x00, 0x53, 0x11, 0xc0, 14, 8, 0x40, 0x43, 0x43, 0x43, 0x43, 0x40, 0x40, 0xc1, 3, 1, 0xa3, 0],
        ),
        ("lists four thousand deep", &deep),
        ("descriptors thirty thousand deep", &described),
    ];
    for (case, body) in cases {
        let mut frame = BytesMut::new();
        write_frame(&mut frame, FrameKind::Amqp, 0, |out| out.extend_from_slice(body));
        closes_with(&broker, &frame, "amqp:decode-error", case);
    }
    innocent.works();
}

#[test]
fn frames_on_channels_beyond_the_limit_or_without_a_session_close_the_connection() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut script = Script::new();
    closes_with(&broker, &script.begin(60_000).take_output(), "amqp:connection:framing-error", "channel-max");
    closes_with(&broker, &script.begin(0).take_output(), "amqp:not-allowed", "a second begin");
    closes_with(&broker, &script.open("again").take_output(), "amqp:illegal-state", "a second open");
    innocent.works();
}

#[test]
fn endless_sasl_ends_at_its_first_wrong_frame() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let response = |script: &mut Script| {
        let mut body = BytesMut::new();
        SaslFrame::Response(SaslResponse { response: Bytes::from_static(b"once more") }).encode(&mut body);
        script.frame(FrameKind::Sasl, 0, &body);
    };
    // Wrong answers for ever; the writes fail once the broker has closed.
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.sasl("PLAIN", None);
    wire.script.take_output();
    wire.script.header(ProtocolHeader::Sasl);
    let mut init = BytesMut::new();
    SaslFrame::Init(amqp_codec::performative::SaslInit {
        mechanism: "PLAIN".into(),
        initial_response: None,
        hostname: None,
    })
    .encode(&mut init);
    wire.script.frame(FrameKind::Sasl, 0, &init);
    let mut challenges = 0;
    let ended = loop {
        match wire.next_incoming() {
            Ok(Incoming::Sasl(SaslFrame::Challenge(_))) => {
                challenges += 1;
                response(&mut wire.script);
            }
            Ok(Incoming::Sasl(SaslFrame::Outcome(outcome))) => {
                assert_eq!(outcome.code, SaslCode::Auth);
            }
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, WireError::Closed), "{ended:?}");
    assert!(challenges <= 1);
    // A frame larger than SASL may be, announced only.
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.header(ProtocolHeader::Sasl).raw(&[0x7f, 0xff, 0xff, 0xff, 2, 1, 0, 0]);
    wire.rest().unwrap();
    // An empty frame, which is a heartbeat only later.
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.header(ProtocolHeader::Sasl).raw(&[0, 0, 0, 8, 2, 1, 0, 0]);
    wire.rest().unwrap();
    innocent.works();
}

#[test]
fn wrong_passwords_and_unknown_mechanisms_are_an_auth_outcome() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let cases: [(&'static str, &[u8]); 6] = [
        ("PLAIN", b"\0RootManageSharedAccessKey\0wrong"),
        ("PLAIN", b"\0nobody\0SAS_KEY_VALUE"),
        ("PLAIN", b"\0RootManageSharedAccessKey"),
        ("PLAIN", b"\0\xff\xff\0x"),
        ("SCRAM-SHA-256", b""),
        ("EXTERNAL", b""),
    ];
    for (mechanism, response) in cases {
        let mut wire = Wire::connect(broker.address).unwrap();
        wire.script.sasl(mechanism, Some(response));
        assert_eq!(wire.sasl_outcome().unwrap().code, SaslCode::Auth, "{mechanism}");
        let rest = wire.rest().unwrap();
        assert_eq!(rest, [], "{mechanism}: nothing after a failed log-in");
    }
    innocent.works();
}

#[test]
fn half_open_connections_end_within_the_handshake_time_out() {
    let broker = Broker::with(|config| config.handshake_time_out = Duration::from_secs(2));
    let mut innocent = broker.innocent();
    let started = Instant::now();
    let said: [&[u8]; 6] = [
        b"",
        b"A",
        b"AMQP\x03\x01\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\xff\x02\x01\x00\x00",
        b"\x16\x03\x01",
    ];
    let mut wires: Vec<Wire> = said.iter().map(|_| Wire::connect(broker.address).unwrap()).collect();
    for (wire, said) in wires.iter_mut().zip(said) {
        wire.script.raw(said);
        wire.flush().unwrap();
    }
    // One has logged in and says no open.
    let mut silent = Wire::connect(broker.address).unwrap();
    silent.script.sasl("ANONYMOUS", None);
    wires.push(silent);
    for mut wire in wires {
        wire.rest().unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    innocent.works();
}

#[test]
fn a_receiver_that_stops_reading_holds_little_and_nobody_up() {
    const MESSAGES: u32 = 10_000;
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut slow = broker.plain();
    slow.receiver(1, QUEUE, None);
    slow.credit_on(0, 1, MESSAGES, false);
    slow.wire.flush().unwrap();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    let body = message(&"x".repeat(2048));
    for _ in 0..MESSAGES - 1 {
        sender.send(1, true, &body);
    }
    sender.accepted(1, &["last"]);
    innocent.works();
    // What waits for it is bounded, so most messages are still there for others.
    let mut other = broker.plain();
    other.receiver(1, QUEUE, None);
    let rest = other.drain(0, 1, MESSAGES);
    assert!(rest.len() > MESSAGES as usize / 2, "{} of {MESSAGES}", rest.len());
    innocent.works();
    // It wakes up and gets the remainder: none was lost, none is there twice.
    for _ in 0..MESSAGES as usize - rest.len() {
        slow.delivery(1);
    }
    slow.nothing_on(1);
}

#[test]
fn a_peer_that_reads_nothing_is_cut_off_and_its_place_is_given_back() {
    let broker = Broker::with(|config| {
        config.idle_time_out = Duration::from_secs(1);
        config.max_connections = 1;
    });
    let mut deaf = broker.plain();
    deaf.sender(1, QUEUE);
    deaf.receiver(2, QUEUE, None);
    deaf.credit_on(0, 2, u32::MAX >> 1, false);
    let body = message(&"x".repeat(60_000));
    deaf.wire.stream().set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    // It sends to itself, until the broker has had enough or holds more than fits into the sockets, and stays.
    for _ in 0..500 {
        deaf.send(1, true, &body);
        if deaf.wire.flush().is_err() {
            break;
        }
    }
    let asked = Instant::now();
    let again =
        std::iter::repeat_with(|| Wire::session(broker.address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).ok())
            .take_while(|_| asked.elapsed() < Duration::from_secs(60))
            .find_map(|session| session);
    assert!(again.is_some(), "the only place is never given back");
}

#[test]
fn a_client_that_writes_one_byte_at_a_time_is_served() {
    let broker = Broker::start();
    let mut script = Script::new();
    script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("slow").begin(0);
    script.attach_sender(0, 1, "s", Some(QUEUE)).transfer(0, 1, 0, false, &message("m"));
    let bytes = script.take_output();
    let mut wire = Wire::connect(broker.address).unwrap();
    for byte in &bytes {
        wire.stream().write_all(&[*byte]).unwrap();
    }
    assert_eq!(wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
}

/// Writes for as long as the broker takes it, on a thread of its own so that it may be answered.
fn writes_until_refused(stream: &TcpStream, mut next: impl FnMut(u32) -> Option<Bytes> + Send + 'static) {
    let mut stream = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut number = 0;
        while let Some(bytes) = next(number) {
            if stream.write_all(&bytes).is_err() {
                return;
            }
            number += 1;
        }
    });
}

#[test]
fn a_million_attaches_end_at_the_limit_of_links() {
    const LIMIT: u32 = 100;
    let broker = Broker::with(|config| config.core.max_links_per_client = u64::from(LIMIT));
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    writes_until_refused(client.wire.stream(), |handle| {
        (handle < 1_000_000).then(|| {
            let mut script = Script::new();
            script.attach_sender(0, handle, &format!("l{handle}"), Some(QUEUE)).take_output()
        })
    });
    let mut attached = 0;
    let closed = loop {
        match client.wire.next_frame().unwrap().performative {
            Performative::Attach(attach) => attached += u32::from(attach.target.is_some()),
            Performative::Close(close) => break close,
            _ => {}
        }
    };
    assert!(attached <= LIMIT, "{attached}");
    // A handle beyond handle-max (2.5.1 of the transport has no gentler answer).
    assert_eq!(closed.error.unwrap().condition, "amqp:connection:framing-error");
    innocent.works();
}

#[test]
fn links_beyond_the_limit_of_a_connection_are_refused_one_by_one() {
    const LIMIT: u32 = 10;
    let broker = Broker::with(|config| config.core.max_links_per_client = u64::from(LIMIT));
    let mut client = broker.plain();
    for handle in 0..LIMIT {
        client.sender(handle, QUEUE);
    }
    // Another session has handles left, the connection has no links left.
    client.begin(1);
    let mut attach = Attach::new("one more", 0, Role::Sender);
    (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(QUEUE)));
    attach.initial_delivery_count = Some(0);
    assert_eq!(client.refused(1, attach.clone()).condition, "amqp:resource-limit-exceeded");
    client.wire.script.detach(1, 0, true).detach(0, 3, true);
    client.wire.detached().unwrap();
    client.attach(1, attach);
}

/// The core counts links too, and its default is less than an operator may set.
#[test]
fn a_connection_may_have_as_many_links_as_the_operator_says() {
    const LIMIT: u32 = 5_002;
    let broker = Broker::with(|config| config.core.max_links_per_client = u64::from(LIMIT));
    let mut client = broker.plain();
    for handle in 0..LIMIT {
        client.sender(handle, QUEUE);
    }
}

#[test]
fn attaching_and_detaching_for_ever_without_reading_harms_nobody() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.wire.stream().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut script = Script::new();
    for number in 0..20 {
        script.attach_sender(0, 1, &format!("{number:01000}"), Some(QUEUE)).detach(0, 1, true);
    }
    let round = script.take_output();
    let mut taken = 0;
    // Either the broker stops reading, or it closes; it does not collect answers without end.
    while taken < 512 << 20 && client.wire.stream().write_all(&round).is_ok() {
        taken += round.len();
    }
    assert!(taken < 256 << 20, "{taken} bytes were taken");
    innocent.works();
}

#[test]
fn the_largest_credit_is_credit() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    let mut client = broker.plain();
    client.receiver(2, QUEUE, None);
    client.credit_on(0, 2, u32::MAX, false);
    for text in ["a", "b", "c"] {
        sender.accepted(1, &[text]);
        assert_eq!(client.delivery(2).text(), text);
    }
    innocent.works();
}

#[test]
fn a_disposition_over_all_numbers_costs_nothing() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    for (first, last) in [(0, u32::MAX), (u32::MAX, 0), (1 << 31, (1 << 31) - 1), (0, 1 << 30)] {
        let mut client = broker.plain();
        client.sender(1, QUEUE);
        client.accepted(1, &["a", "b", "c"]);
        client.receiver(2, QUEUE, SECOND);
        client.receive(2, 3);
        let started = Instant::now();
        for _ in 0..100 {
            client.wire.script.disposition(0, first, last, false, Some(DeliveryState::Accepted));
        }
        client.wire.script.end(0);
        client.wire.ended().unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        drop(client);
        let mut other = broker.plain();
        other.receiver(2, QUEUE, None);
        other.drain(0, 2, 3);
    }
    innocent.works();
}

#[test]
fn unknown_handles_end_the_session() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    let frames: [fn(&mut Script, u16); 2] = [
        |script, channel| {
            script.transfer(channel, 99, 0, false, b"");
        },
        |script, channel| {
            script.flow(channel, Flow { handle: Some(99), link_credit: Some(1), ..Flow::default() });
        },
    ];
    for (channel, frame) in (1..).zip(frames) {
        client.begin(channel);
        frame(&mut client.wire.script, channel);
        let error = client.wire.ended().unwrap().error.unwrap();
        assert_eq!(error.condition, "amqp:session:unattached-handle", "frame {channel}");
    }
    client.begin(9);
    client.wire.script.attach_sender(9, 1, "one", Some(QUEUE)).attach_sender(9, 1, "two", Some(QUEUE));
    assert_eq!(client.wire.ended().unwrap().error.unwrap().condition, "amqp:session:handle-in-use");
    innocent.works();
}

#[test]
fn a_link_is_stolen_by_another_of_its_name_and_direction() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.begin(1);
    client.wire.script.attach_sender(1, 5, "sender-1", Some(QUEUE));
    let stolen = client.wire.detached().unwrap();
    assert_eq!(stolen.error.unwrap().condition, "amqp:link:stolen");
    assert_eq!(client.wire.attached().unwrap().name, "sender-1");
    client.send_with(1, |id| Script::transfer_frame(5, id, false), &message("m"));
    assert_eq!(client.wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
    innocent.works();
}

/// A frame of an unsettled message on handle 1.
fn more(id: u32, more: bool) -> Transfer {
    Transfer { more, ..Script::transfer_frame(1, id, false) }
}

#[test]
fn a_message_above_the_limit_is_refused_in_one_frame_and_in_many() {
    let broker = Broker::with(|config| config.core.max_message_bytes = 4096);
    let mut innocent = broker.innocent();
    let large = message(&"x".repeat(5000));
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.send(1, false, &large);
    let Some(DeliveryState::Rejected(Some(error))) = client.wire.disposed().unwrap().state else { panic!() };
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    client.accepted(1, &["small"]);
    // In many frames it is refused once it is whole, and has cost no memory on the way.
    let id = client.send_with(0, |id| more(id, true), &large);
    for _ in 0..1000 {
        client.wire.script.transfer_with(0, more(id, true), &large);
    }
    client.wire.script.transfer_with(0, more(id, false), b"");
    client.count_sent(0, 1001);
    let answer = client.wire.disposed().unwrap();
    let Some(DeliveryState::Rejected(Some(error))) = answer.state else { panic!("{answer:?}") };
    assert_eq!(error.condition, "amqp:link:message-size-exceeded");
    // Sent settled there is no answer to refuse it with, so it costs the link.
    client.send(1, true, &large);
    let detach = client.wire.detached().unwrap();
    assert!(detach.closed);
    assert_eq!(detach.error.unwrap().condition, "amqp:link:message-size-exceeded");
    innocent.works();
}

#[test]
fn a_message_that_is_none_detaches_its_link() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let wrong: [&[u8]; 5] = [
        b"no sections",
        &[0x00, 0x53, 0x75, 0xb0, 0x7f, 0xff, 0xff, 0xff, 1],
        &[0x00, 0x53, 0x75, 0xa0, 1, b'x', 0x00, 0x53, 0x77, 0x40],
        &[0x00, 0x53, 0x74, 0xc1, 2, 1, 0x40],
        &[0x00, 0x53, 0x73, 0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff],
    ];
    for (handle, payload) in (1..).zip(wrong) {
        let mut client = broker.plain();
        client.sender(handle, QUEUE);
        client.send(handle, false, payload);
        let error = client.wire.detached().unwrap().error.unwrap();
        assert_eq!(error.condition, "amqp:decode-error", "{payload:x?}");
    }
    innocent.works();
}

#[test]
fn wrong_and_expired_tokens_open_nothing_and_leave_their_connection() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut sdk = crate::dialect::Sdk::connect(&broker, &crate::sdk_go::GO);
    let soon = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + 600;
    let signed = |key: &str, entity: &str, until: u64| {
        sign_token(&format!("amqp://localhost/{entity}"), DEVELOPMENT_KEY_NAME, &Secret::new(key), until)
    };
    let good = signed(DEVELOPMENT_KEY, QUEUE, soon);
    let cases = [
        ("another key", signed("another", QUEUE, soon)),
        ("another entity", signed(DEVELOPMENT_KEY, "innocent", soon)),
        ("its time is over", signed(DEVELOPMENT_KEY, QUEUE, soon - 3600)),
        ("a longer time than was signed", good.replace(&format!("se={soon}"), &format!("se={}", soon + 1))),
        ("cut", good[..good.len() / 2].to_owned()),
        ("no words", String::new()),
    ];
    for (what, token) in cases {
        assert_eq!(sdk.put("servicebus.windows.net:sastoken", QUEUE, token), 401, "{what}");
        let channel = sdk.session();
        let mut attach = Attach::new(what, 7, Role::Sender);
        (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(QUEUE)));
        attach.initial_delivery_count = Some(0);
        assert_eq!(sdk.client.refused(channel, attach).condition, "amqp:unauthorized-access", "{what}");
        innocent.works();
    }
    assert_eq!(sdk.put("servicebus.windows.net:sastoken", QUEUE, good), 202);
}

#[test]
fn a_token_that_ends_takes_its_links_along() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let mut sdk = crate::dialect::Sdk::connect(&broker, &crate::sdk_go::GO);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert_eq!(sdk.put_token(QUEUE, DEVELOPMENT_KEY, now + 3), 202);
    let channel = sdk.session();
    let mut attach = Attach::new("r", 3, Role::Receiver);
    attach.snd_settle_mode = Some(SenderSettleMode::Unsettled);
    (attach.source, attach.target) = (Some(Source::new(QUEUE)), Some(Target::new("here")));
    sdk.client.attach(channel, attach);
    let detach = sdk.client.wire.detached().unwrap();
    assert!(detach.closed);
    assert_eq!(detach.error.unwrap().condition, "amqp:unauthorized-access");
    // The connection and its `$cbs` links remain.
    sdk.authorize(QUEUE);
    innocent.works();
}

#[test]
fn amqp_without_sasl_is_shown_the_sasl_header() {
    let broker = Broker::start();
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.header(ProtocolHeader::Amqp).open("no SASL");
    assert_eq!(wire.rest().unwrap(), [Incoming::Header(ProtocolHeader::Sasl)]);
}

/// What the broker says to these bytes until it closes.
fn answer(broker: &Broker, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(broker.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    answer
}

#[test]
fn other_protocols_are_told_what_is_spoken_here() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let sasl = ProtocolHeader::Sasl.to_bytes();
    for other in [&b"AMQP\x00\x00\x09\x01"[..], b"MQTT\x05\x02\x00\x3c", b"AMQP\x02\x01\x00\x00"] {
        assert_eq!(answer(&broker, other), sasl, "{other:?}");
    }
    // HTTP is spoken here, for WebSocket and for those who operate the broker.
    let get = answer(&broker, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(get.starts_with(b"HTTP/1.1 4"), "{get:?}");
    // A TLS handshake where no certificate is configured.
    assert_eq!(answer(&broker, &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]), b"");
    innocent.works();
}

#[test]
fn a_client_that_vanishes_in_the_middle_of_a_message_leaves_nothing() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let mut transfer = Script::transfer_frame(1, 0, false);
    transfer.more = true;
    client.wire.script.transfer_with(0, transfer, &message("half")[..10]);
    client.wire.flush().unwrap();
    drop(client);
    let mut other = Client::plain(broker.address);
    other.receiver(1, QUEUE, None);
    other.nothing_on(1);
}
