//! Clients that wait for a timer of TCP where the broker does not help: those with small socket buffers on loopback, as for
//! .NET, and those that leave Nagle's algorithm on, as for Java and Node.js.
//!
//! A step that waits for a timer takes 40 ms at least. On a busy machine another step may take as long now and then: so a
//! quarter of them may, and all together a fraction of what the stalls would take.

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

/// Sends messages of these sizes, receives them, and says how long each step of the two halves took.
fn passes<S: Read + Write>(client: &mut Client<S>, sizes: &[usize]) -> [Vec<Duration>; 2] {
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, SECOND);
    let texts: Vec<String> = sizes.iter().map(|&size| long_text(size)).collect();
    let sent = texts.iter().map(|text| timed(|| client.accepted(1, &[text]))).collect();
    let received = texts.iter().map(|text| {
        timed(|| {
            let delivery = client.receive(2, 1).remove(0);
            assert!(delivery.text() == *text, "another message");
            client.complete(&delivery);
        })
    });
    [sent, received.collect()]
}

fn timed<T>(step: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    step();
    begun.elapsed()
}

/// Sizes of messages: the first and all others must pass in time.
fn sizes(count: usize) -> Vec<usize> {
    [60_000, 200_000, 1_000].into_iter().cycle().take(count).collect()
}

/// Each message of the scripted client is one frame.
fn takes_large_frames(config: &mut ServerConfig) {
    config.max_frame_bytes = 1 << 20;
}

/// Longest time of all steps.
const LIMIT: Duration = Duration::from_secs(8);
/// Shortest stall: a delayed acknowledgement.
const STALL: Duration = Duration::from_millis(40);

/// Few steps took as long as a stall, and all together no longer than `limit`.
fn without_stalls(limit: Duration, steps: &[Duration]) {
    let slow = steps.iter().filter(|&&step| step >= STALL).count();
    let all: Duration = steps.iter().sum();
    assert!(slow * 4 < steps.len() && all < limit, "{slow} slow steps in {all:?}: {steps:?}");
}

#[test]
fn large_messages_pass_through_small_socket_buffers_without_a_stall() {
    // Without help to receive them takes 26 × 0.6 s + 25 × 2.5 s.
    let broker = Broker::with(takes_large_frames);
    let mut client = session(small(connected(broker.address)));
    for steps in passes(&mut client, &sizes(76)) {
        without_stalls(LIMIT, &steps);
    }
}

#[test]
fn large_messages_pass_through_small_socket_buffers_over_tls_without_a_stall() {
    let certificates = Certificates::new();
    let broker = certificates.broker_with(takes_large_frames);
    let mut stream = certificates.stream(broker.tls_address(), None);
    stream.sock = small(stream.sock);
    let mut client = session(stream);
    for steps in passes(&mut client, &sizes(76)) {
        without_stalls(LIMIT, &steps);
    }
}

#[test]
fn large_messages_pass_through_small_socket_buffers_over_websocket_without_a_stall() {
    let broker = Broker::with(takes_large_frames);
    let stream = small(connected(broker.http_address()));
    let mut client = session(WebSocket::upgrade_at(stream, "/$servicebus/websocket", "amqp", 64 << 10));
    for steps in passes(&mut client, &sizes(76)) {
        without_stalls(LIMIT, &steps);
    }
}

#[test]
fn a_frame_behind_one_that_needs_no_answer_does_not_wait_for_an_acknowledgement() {
    // Nagle's algorithm keeps the second frame back until the first is acknowledged: 40 ms each time, 8 s.
    let broker = Broker::start();
    let mut client = session(connected(broker.address));
    client.sender(1, QUEUE);
    client.receiver(2, "innocent", SECOND);
    let steps = (0..200).map(|_| {
        timed(|| {
            client.credit_on(0, 2, 1, false);
            client.wire.flush().unwrap();
            client.accepted(1, &["behind a flow"]);
        })
    });
    without_stalls(LIMIT / 2, &steps.collect::<Vec<_>>());
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
