//! Clients of plain AMQP 1.0 and what they may rely on.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader},
    performative::{Address, Attach, DeliveryState, Flow, Open, Performative, SaslCode, Source, Target},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use broker_auth::{Anonymous, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_server::Outcome;
use testkit::{Incoming, Script, Wire, WireError};

use crate::{
    broker::{Broker, QUEUE, authority},
    client::{Client, tag},
    message::{Delivery, long_text, message, message_to},
};

const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);

#[test]
fn the_anonymous_relay_sends_each_message_where_its_to_says() {
    let broker = Broker::with(|config| config.auto_create = false);
    let mut client = broker.plain();
    client.wire.script.attach_sender(0, 1, "relay", None);
    client.wire.flowed().unwrap();
    let cases = [
        (message_to(QUEUE, "m"), None),
        (message_to("/queues/orders", "m"), None),
        (message_to("nowhere", "m"), Some("amqp:not-found")),
        (message("m"), Some("amqp:precondition-failed")),
    ];
    for (payload, refusal) in cases {
        let id = client.send(1, false, &payload);
        let state = client.wire.disposed().unwrap().state;
        match (refusal, state) {
            (None, Some(DeliveryState::Accepted)) => {}
            (Some(condition), Some(DeliveryState::Rejected(Some(error)))) => {
                assert_eq!(error.condition, condition);
                let info = error.info.unwrap();
                assert_eq!(info.get("delivery-tag").unwrap().as_binary(), Some(&id.to_be_bytes()[..]));
            }
            (_, state) => panic!("{state:?}"),
        }
    }
    client.receiver(2, QUEUE, None);
    assert_eq!(client.receive(2, 2).len(), 2);
}

#[test]
fn one_name_serves_a_link_of_each_direction() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.wire.sender(1, "orders", QUEUE).unwrap();
    client.wire.receiver(2, "orders", QUEUE, FIRST).unwrap();
    client.accepted(1, &["m"]);
    let delivery = client.receive(2, 1).remove(0);
    client.complete(&delivery);
}

#[test]
fn links_of_two_connections_never_steal_each_other() {
    let broker = Broker::start();
    // The same container-id and the same names of links, as after a reconnect whose old socket is half-open.
    let (mut old, mut new) = (broker.plain(), broker.plain());
    for client in [&mut old, &mut new] {
        client.sender(1, QUEUE);
        client.receiver(2, QUEUE, FIRST);
    }
    old.accepted(1, &["a", "b"]);
    let held = old.receive(2, 1).remove(0);
    assert_eq!(held.text(), "a");
    // What the old link holds stays its own; the rest is for whoever asks.
    let taken = new.receive(2, 1).remove(0);
    assert_eq!(taken.text(), "b");
    new.nothing_on(2);
    old.complete(&held);
    new.complete(&taken);
    // A link that goes takes nothing of its namesake along.
    new.accepted(1, &["c"]);
    old.wire.script.detach(0, 2, true);
    assert_eq!(old.wire.detached().unwrap().error, None);
    assert_eq!(new.receive(2, 1)[0].text(), "c");
    old.close();
}

#[test]
fn sessions_of_a_connection_are_independent() {
    let broker = Broker::start();
    let mut client = broker.plain();
    for channel in 1..=20 {
        client.begin(channel);
        client.wire.script.attach_sender(channel, 1, &format!("s{channel}"), Some(QUEUE));
        client.wire.flowed().unwrap();
    }
    client.wire.script.end(7);
    client.wire.ended().unwrap();
    for channel in (1..=20).filter(|channel| *channel != 7) {
        client.send_with(channel, |id| Script::transfer_frame(1, id, false), &message("m"));
        assert_eq!(client.wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
    }
    client.close();
}

#[test]
fn a_session_carries_three_hundred_links() {
    let broker = Broker::start();
    let mut client = broker.plain();
    for handle in 0..300 {
        client.sender(handle, &format!("queue-{}", handle % 30));
    }
    for handle in 0..300 {
        client.accepted(handle, &["m"]);
    }
    for handle in 300..330 {
        client.receiver(handle, &format!("queue-{}", handle % 30), None);
        assert_eq!(client.drain(0, handle, 20).len(), 10);
    }
    client.close();
}

#[test]
fn a_link_that_was_detached_attaches_again() {
    let broker = Broker::start();
    let mut client = broker.plain();
    for closed in [false, true, false] {
        client.sender(1, QUEUE);
        client.accepted(1, &["m"]);
        client.wire.script.detach(0, 1, closed);
        let detach = client.wire.detached().unwrap();
        assert_eq!((detach.closed, detach.error), (closed, None), "in kind");
    }
    for closed in [false, true] {
        client.receiver(2, QUEUE, FIRST);
        client.receive(2, 1);
        client.wire.script.detach(0, 2, closed);
        assert_eq!(client.wire.detached().unwrap().closed, closed);
    }
    // A detached link resumes nothing: what it left unsettled is there for all.
    client.receiver(2, QUEUE, None);
    assert_eq!(client.receive(2, 3).len(), 3);
}

#[test]
fn a_drain_is_answered_on_an_empty_queue_half_way_and_again() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, None);
    client.nothing_on(2);
    client.accepted(1, &["a", "b"]);
    assert_eq!(client.drain(0, 2, 10).len(), 2);
    client.nothing_on(2);
    client.accepted(1, &["c"]);
    assert_eq!(client.receive(2, 1)[0].text(), "c");
}

#[test]
fn credit_is_kept_and_can_be_taken_back() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, None);
    client.credit_on(0, 2, 5, false);
    client.credit_on(0, 2, 0, false);
    client.accepted(1, &["a", "b", "c"]);
    assert_eq!(client.receive(2, 2).len(), 2);
    // Not one more than granted: the echo comes behind whatever was sent.
    client.wire.script.flow(
        0,
        Flow {
            incoming_window: 1000,
            next_outgoing_id: 3,
            outgoing_window: 1000,
            echo: true,
            ..Flow::default()
        },
    );
    assert!(matches!(client.wire.next_frame().unwrap().performative, Performative::Flow(_)));
}

#[test]
fn everything_up_to_the_first_message_may_be_said_at_once() {
    let broker = Broker::start();
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script
        .sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY)
        .open("pipelined")
        .begin(0)
        .attach_sender(0, 1, "s", Some(QUEUE))
        .transfer(0, 1, 0, false, &message("m"))
        .attach_receiver(0, 2, "r", QUEUE, None)
        .flow(
            0,
            Flow {
                incoming_window: 100,
                next_outgoing_id: 1,
                outgoing_window: 100,
                handle: Some(2),
                link_credit: Some(1),
                ..Flow::default()
            },
        );
    let (mut accepted, mut received) = (false, false);
    while !(accepted && received) {
        match wire.next_frame().unwrap().performative {
            Performative::Disposition(answer) => accepted = answer.state == Some(DeliveryState::Accepted),
            Performative::Transfer(_) => received = true,
            _ => {}
        }
    }
}

#[test]
fn a_message_may_be_split_anywhere() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let payload = message("split me");
    let splits = u32::try_from(payload.len() + 1).unwrap();
    for at in 0..splits {
        let (head, tail) = payload.split_at(at as usize);
        let mut first = Script::transfer_frame(1, at, false);
        first.more = true;
        client.wire.script.transfer_with(0, first, head);
        // A continuation may repeat what the first frame said, or leave it away.
        let mut last = Script::transfer_frame(1, at, false);
        if at % 2 == 0 {
            (last.delivery_id, last.delivery_tag, last.message_format, last.settled) =
                (None, None, None, None);
        }
        client.wire.script.transfer_with(0, last, tail);
        client.count_sent(0, 2);
    }
    // In frames of one byte, with an empty one at the end.
    for (index, byte) in payload.iter().enumerate() {
        let mut transfer = Script::transfer_frame(1, splits, false);
        transfer.more = true;
        client.wire.script.transfer_with(0, transfer, &payload[index..=index]);
        assert_eq!(payload[index], *byte);
    }
    client.wire.script.transfer_with(0, Script::transfer_frame(1, splits, false), b"");
    client.count_sent(0, splits);
    client.receiver(2, QUEUE, None);
    for delivery in client.receive(2, splits + 1) {
        assert_eq!(delivery.text(), "split me");
    }
}

#[test]
fn an_aborted_message_leaves_nothing() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let mut half = Script::transfer_frame(1, 0, false);
    half.more = true;
    let mut abort = Script::transfer_frame(1, 0, false);
    abort.aborted = true;
    client.wire.script.transfer_with(0, half, &message("never")[..5]).transfer_with(0, abort, b"");
    client.wire.script.transfer(0, 1, 1, false, &message("whole"));
    client.count_sent(0, 3);
    assert_eq!(client.wire.disposed().unwrap().first, 1);
    client.receiver(2, QUEUE, None);
    assert_eq!(client.receive(2, 1)[0].text(), "whole");
    client.nothing_on(2);
}

#[test]
fn large_messages_come_in_frames_that_the_client_takes() {
    for max_frame_size in [512, 4096, 1 << 20] {
        let broker = Broker::start();
        let mut sender = broker.plain();
        sender.sender(1, QUEUE);
        let text: String = "0123456789".repeat(5000);
        // The sender splits too: the broker's limit is 64 KiB.
        sender.accepted(1, &[&text[..30_000]]);
        let mut open = Open::new("small frames");
        open.max_frame_size = max_frame_size;
        let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
        let mut client = Client::connect(broker.address, "PLAIN", Some(response.as_bytes()), open);
        client.begin(0);
        client.receiver(1, QUEUE, None);
        let delivery = client.receive(1, 1).remove(0);
        assert_eq!(delivery.text(), &text[..30_000]);
        assert_eq!(delivery.frames > 60, max_frame_size == 512, "{}", delivery.frames);
    }
}

#[test]
fn large_messages_of_several_frames_arrive_whole_and_leave_in_the_frames_of_each_reader() {
    let broker = Broker::start();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    // Bodies that just fill a frame, and larger ones; a small one between.
    let texts = [65_536, 10, 200_000, 65_000, 131_072].map(long_text);
    let readers = [4096, 65_536, 1 << 20];
    let all = || readers.iter().flat_map(|_| &texts);
    for (id, text) in (0..).zip(all()) {
        let payload = message(text);
        let frames = payload.chunks(65_000);
        let last = frames.len() - 1;
        for (number, piece) in frames.enumerate() {
            let mut frame = Script::transfer_frame(1, id, false);
            frame.more = number < last;
            sender.wire.script.transfer_with(0, frame, piece);
            sender.count_sent(0, 1);
        }
    }
    let mut open = all().count();
    while open > 0 {
        let answer = sender.wire.disposed().unwrap();
        assert_eq!(answer.state, Some(DeliveryState::Accepted));
        open -= (answer.last.unwrap_or(answer.first) - answer.first) as usize + 1;
    }
    for max_frame_size in readers {
        let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
        let open = Open { max_frame_size, ..Open::new("reader") };
        let mut client = Client::connect(broker.address, "PLAIN", Some(response.as_bytes()), open);
        client.begin(0);
        client.receiver(1, QUEUE, None);
        let received = client.receive(1, 5);
        assert!(received.iter().map(Delivery::text).eq(texts.iter().cloned()), "{max_frame_size}");
        assert_eq!(received[2].frames > 1, max_frame_size < 200_000);
    }
}

#[test]
fn heartbeats_come_at_half_of_the_clients_idle_time_out() {
    let broker = Broker::start();
    let mut open = Open::new("idle");
    open.idle_time_out = Some(400);
    let started = Instant::now();
    let mut client = Client::connect(broker.address, "ANONYMOUS", None, open);
    let mut heartbeats = 0;
    while heartbeats < 3 {
        // `next_incoming` hides heartbeats, so the bytes are looked at.
        let mut frame = [0; 8];
        Read::read_exact(client.wire.stream(), &mut frame).unwrap();
        assert_eq!(frame, [0, 0, 0, 8, 2, 0, 0, 0]);
        heartbeats += 1;
    }
    // Three in more than one and less than a busy machine's many periods.
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());
}

#[test]
fn a_client_that_is_silent_beyond_the_idle_time_out_is_closed() {
    let broker = Broker::with(|config| config.idle_time_out = Duration::from_secs(1));
    let mut client = broker.plain();
    let closed = client.wire.closed().unwrap();
    assert_eq!(closed.error.unwrap().condition, "amqp:resource-limit-exceeded");
    // One that sends empty frames stays.
    let mut open = Open::new("alive");
    open.idle_time_out = Some(200);
    let mut client = Client::connect(broker.address, "ANONYMOUS", None, open);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
        let mut frame = [0; 8];
        // The broker's heartbeats are the clock.
        Read::read_exact(client.wire.stream(), &mut frame).unwrap();
        client.wire.script.heartbeat();
        client.wire.flush().unwrap();
    }
    client.begin(0);
}

#[test]
fn a_link_that_is_idle_for_its_time_out_is_detached_and_its_connection_goes_on() {
    let broker = Broker::with(|config| config.link_idle_time_out = Some(Duration::from_secs(1)));
    let mut client = broker.plain();
    let started = Instant::now();
    client.sender(1, QUEUE);
    let detach = client.wire.detached().unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(detach.error.unwrap().condition, "amqp:link:detach-forced");
    client.begin(1);
}

#[test]
fn a_graceful_shutdown_closes_every_connection_with_its_reason() {
    let broker = Broker::start();
    let mut clients: Vec<Client> = (0..5).map(|_| broker.plain()).collect();
    let half_open = Wire::connect(broker.address).unwrap();
    let stopping = std::thread::spawn(|| broker.stop());
    for client in &mut clients {
        let error = client.wire.closed().unwrap().error.unwrap();
        assert_eq!(error.condition, "amqp:connection:forced");
        client.wire.script.close(None);
        client.wire.rest().unwrap();
    }
    drop(half_open);
    assert_eq!(stopping.join().unwrap(), Outcome::Stopped);
}

#[test]
fn one_connection_more_than_the_limit_is_closed_and_room_is_given_back() {
    let broker = Broker::with(|config| config.max_connections = 3);
    let mut clients: Vec<Client> = (0..3).map(|_| broker.plain()).collect();
    // It is told why, before it has done anything; links and sessions do not help it.
    let mut surplus = Client::connect(broker.address, "ANONYMOUS", None, Open::new("one too many"));
    surplus.wire.script.begin(0).attach_sender(0, 1, "s", Some(QUEUE));
    let error = surplus.wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:resource-limit-exceeded");
    let description = error.description.unwrap();
    assert!(description.contains("ConnectionsQuotaExceeded") && description.contains('3'), "{description}");
    surplus.wire.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(surplus.wire.rest().unwrap(), []);
    clients.pop().unwrap().close();
    // The place is given back right behind the close, so a first try may come too early.
    let again =
        (0..1000).find_map(|_| Wire::session(broker.address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).ok());
    assert!(again.is_some());
}

#[test]
fn far_more_connections_than_the_limit_are_closed_without_a_word() {
    let broker = Broker::with(|config| config.max_connections = 1);
    let _client = broker.plain();
    // Each says nothing yet, and holds its place until it does.
    let silent: Vec<_> = (0..64).map(|_| Wire::connect(broker.address).unwrap()).collect();
    let mut unheard = Wire::connect(broker.address).unwrap();
    unheard.script.header(ProtocolHeader::Sasl);
    assert_eq!(unheard.rest().unwrap_or_default(), []);
    drop(silent);
}

#[test]
fn who_looks_after_the_broker_is_answered_when_it_has_no_room_for_others() {
    let broker = Broker::with(|config| config.max_connections = 1);
    let _client = broker.plain();
    let mut stream = TcpStream::connect(broker.address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn anonymous_clients_may_do_everything_where_the_operator_says_so() {
    let broker = Broker::with(|config| config.authority = authority(Anonymous::Allow));
    let mut client = Client::connect(broker.address, "ANONYMOUS", None, Open::new("anonymous"));
    client.begin(0);
    client.sender(1, QUEUE);
    client.accepted(1, &["m"]);
    // They need not even say that they are.
    let mut bare = Wire::connect(broker.address).unwrap();
    bare.script.header(ProtocolHeader::Amqp).open("no SASL").begin(0);
    bare.sender(1, "s", QUEUE).unwrap();
    let broker = Broker::start();
    let mut client = Client::connect(broker.address, "ANONYMOUS", None, Open::new("anonymous"));
    client.begin(0);
    let mut attach = Attach::new("s", 1, Role::Sender);
    (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(QUEUE)));
    attach.initial_delivery_count = Some(0);
    assert_eq!(client.refused(0, attach).condition, "amqp:unauthorized-access");
}

#[test]
fn a_plain_log_in_without_a_response_is_asked_for_it() {
    let broker = Broker::start();
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.header(ProtocolHeader::Sasl);
    let mut body = bytes::BytesMut::new();
    amqp_codec::performative::SaslFrame::Init(amqp_codec::performative::SaslInit {
        mechanism: "PLAIN".into(),
        initial_response: None,
        hostname: None,
    })
    .encode(&mut body);
    wire.script.frame(FrameKind::Sasl, 0, &body);
    loop {
        if let Incoming::Sasl(amqp_codec::performative::SaslFrame::Challenge(_)) =
            wire.next_incoming().unwrap()
        {
            break;
        }
    }
    let mut body = bytes::BytesMut::new();
    let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}").into();
    amqp_codec::performative::SaslFrame::Response(amqp_codec::performative::SaslResponse { response })
        .encode(&mut body);
    wire.script.frame(FrameKind::Sasl, 0, &body);
    assert_eq!(wire.sasl_outcome().unwrap().code, SaslCode::Ok);
}

#[test]
fn delivery_tags_of_any_length_up_to_thirty_two_bytes_are_taken() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    for length in 1..=32 {
        let transfer = |id| {
            let mut transfer = Script::transfer_frame(1, id, false);
            transfer.delivery_tag = tag(&vec![7; length]);
            transfer
        };
        client.send_with(0, transfer, &message("m"));
        assert_eq!(client.wire.disposed().unwrap().state, Some(DeliveryState::Accepted), "{length}");
    }
}

#[test]
fn a_browser_sees_each_message_and_takes_none() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["a", "b"]);
    for handle in [2, 3] {
        let mut attach = Attach::new(format!("browser-{handle}"), handle, Role::Receiver);
        attach.snd_settle_mode = Some(SenderSettleMode::Settled);
        attach.source = Some(Source {
            address: Some(Address::from(QUEUE)),
            distribution_mode: Some("copy".into()),
            ..Source::default()
        });
        attach.target = Some(Target::new("here"));
        client.attach(0, attach);
        let texts: Vec<String> = client.drain(0, handle, 10).iter().map(Delivery::text).collect();
        assert_eq!(texts, ["a", "b"]);
    }
}

#[test]
fn a_closed_socket_frees_its_place_and_its_messages() {
    let broker = Broker::start();
    let mut sender = broker.plain();
    sender.sender(1, QUEUE);
    sender.accepted(1, &["m"]);
    let mut first = broker.plain();
    first.receiver(1, QUEUE, FIRST);
    assert_eq!(first.receive(1, 1)[0].text(), "m");
    let mut second = broker.plain();
    second.receiver(1, QUEUE, FIRST);
    second.credit_on(0, 1, 1, false);
    drop(first);
    assert_eq!(second.delivery(1).text(), "m");
    // And nothing else is said about it.
    drop(sender);
    second.close();
}

#[test]
fn waiting_for_a_broker_that_is_gone_ends() {
    let broker = Broker::start();
    let address = broker.address;
    let mut client = broker.plain();
    client.wire.script.close(None);
    client.wire.closed().unwrap();
    assert!(matches!(client.wire.next_frame(), Err(WireError::Closed)));
    assert_eq!(broker.stop(), Outcome::Stopped);
    assert!(Wire::connect(address).is_err());
}
