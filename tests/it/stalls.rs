//! Clients that wait for a timer of TCP where the broker does not help: those with small socket buffers on loopback, as for
//! .NET, and those that leave Nagle's algorithm on, as for Java and Node.js.
//!
//! Bounds are several times what a slow machine needs, and a fraction of what the stalls would take.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use amqp_codec::{performative::Performative, types::ReceiverSettleMode};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_server::ServerConfig;
use socket2::SockRef;
use testkit::Wire;

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    message::long_text,
    tls::Certificates,
    websocket::WebSocket,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// A socket of a client for .NET: both buffers are of 8 KiB, set after the connect.
fn small(stream: TcpStream) -> TcpStream {
    let socket = SockRef::from(&stream);
    socket.set_recv_buffer_size(8 << 10).unwrap();
    socket.set_send_buffer_size(8 << 10).unwrap();
    stream
}

/// A connected socket with Nagle's algorithm on.
fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Logs in and begins a session.
fn session<S: Read + Write>(stream: S) -> Client<S> {
    let mut wire = Wire::over(stream);
    wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("small").begin(0);
    wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    Client::on(wire)
}

/// Sends messages of these sizes, receives them, and says how long each half took.
fn passes<S: Read + Write>(client: &mut Client<S>, sizes: &[usize]) -> (Duration, Duration) {
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, SECOND);
    let texts: Vec<String> = sizes.iter().map(|&size| long_text(size)).collect();
    let begun = Instant::now();
    for text in &texts {
        client.accepted(1, &[text]);
    }
    let sent = begun.elapsed();
    let begun = Instant::now();
    for text in &texts {
        let delivery = client.receive(2, 1).remove(0);
        assert!(delivery.text() == *text, "another message");
        client.complete(&delivery);
    }
    (sent, begun.elapsed())
}

/// Sizes of messages: the first and all others must pass in time.
fn sizes(count: usize) -> Vec<usize> {
    [60_000, 200_000, 1_000].into_iter().cycle().take(count).collect()
}

/// Each message of the scripted client is one frame.
fn takes_large_frames(config: &mut ServerConfig) {
    config.max_frame_bytes = 1 << 20;
}

fn within(limit: Duration, took: (Duration, Duration)) {
    assert!(took.0 < limit && took.1 < limit, "sent and received in {took:?}");
}

#[test]
fn large_messages_pass_through_small_socket_buffers_without_a_stall() {
    // Without help to receive them takes 26 × 0.6 s + 25 × 2.5 s.
    let broker = Broker::with(takes_large_frames);
    let mut client = session(small(connected(broker.address)));
    within(Duration::from_secs(8), passes(&mut client, &sizes(76)));
}

#[test]
fn large_messages_pass_through_small_socket_buffers_over_tls_without_a_stall() {
    let certificates = Certificates::new();
    let broker = certificates.broker_with(takes_large_frames);
    let mut stream = certificates.stream(broker.tls_address(), None);
    stream.sock = small(stream.sock);
    let mut client = session(stream);
    within(Duration::from_secs(8), passes(&mut client, &sizes(76)));
}

#[test]
fn large_messages_pass_through_small_socket_buffers_over_websocket_without_a_stall() {
    let broker = Broker::with(takes_large_frames);
    let stream = small(connected(broker.http_address()));
    let mut client = session(WebSocket::upgrade_at(stream, "/$servicebus/websocket", "amqp", 64 << 10));
    within(Duration::from_secs(8), passes(&mut client, &sizes(76)));
}

#[test]
fn a_frame_behind_one_that_needs_no_answer_does_not_wait_for_an_acknowledgement() {
    // Nagle's algorithm keeps the second frame back until the first is acknowledged: 40 ms each time, 8 s.
    let broker = Broker::start();
    let mut client = session(connected(broker.address));
    client.sender(1, QUEUE);
    client.receiver(2, "innocent", SECOND);
    let begun = Instant::now();
    for _ in 0..200 {
        client.credit_on(0, 2, 1, false);
        client.wire.flush().unwrap();
        client.accepted(1, &["behind a flow"]);
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn a_bound_on_segments_of_tcp_holds_for_connections_that_are_accepted() {
    let broker = Broker::with(|config| {
        takes_large_frames(config);
        config.tcp_max_segment = Some(1_000);
    });
    let mut client = session(connected(broker.address));
    let segment = SockRef::from(&*client.wire.stream()).tcp_mss().unwrap();
    assert!(segment <= 1_000, "{segment}");
    passes(&mut client, &sizes(3));
}
