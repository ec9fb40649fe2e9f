//! AMQP over WebSocket: on every port, plain and with TLS, however the bytes are cut.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use amqp_codec::{performative::Performative, types::ReceiverSettleMode};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use testkit::Wire;

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    http::{ask, connect},
    message::{Delivery, long_text},
    tls::Certificates,
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

/// A client's end, written out by hand: bytes in, frames out, and the other way round.
pub(crate) struct WebSocket<S> {
    stream: S,
    input: Vec<u8>,
    /// Bytes of one message at most.
    cut: usize,
    /// Whether each message is sent as two fragments with a ping between.
    fragments: bool,
}

impl<S: Read + Write> WebSocket<S> {
    fn upgrade(stream: S, protocol: &str, cut: usize) -> Self {
        Self::upgrade_at(stream, "/$servicebus/websocket", protocol, cut)
    }

    /// Asks for an upgrade at this path; messages are of `cut` bytes at most.
    pub(crate) fn upgrade_at(stream: S, path: &str, protocol: &str, cut: usize) -> Self {
        Self::upgrade_for("localhost", stream, path, protocol, cut)
    }

    /// The same of a request for this host.
    pub(crate) fn upgrade_for(host: &str, mut stream: S, path: &str, protocol: &str, cut: usize) -> Self {
        let (head, body) = handshake_for(host, &mut stream, path, protocol);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let head = head.to_ascii_lowercase();
        // The example of RFC 6455 section 1.3.
        assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        assert!(
            head.contains(&format!("sec-websocket-protocol: {}", protocol.to_ascii_lowercase())),
            "{head}"
        );
        Self { stream, input: body, cut, fragments: false }
    }

    /// Sends one frame, masked.
    fn frame(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
            length @ 126..65_536 => {
                frame.push(0xFE);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                frame.push(0xFF);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        let mask = [0x5A, 1, 0xFE, 0x33];
        frame.extend(mask);
        frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        self.stream.write_all(&frame)
    }

    /// The next frame: its first byte and its payload; nothing at the end.
    fn next(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let mut head = [0; 2];
        if let Err(error) = self.stream.read_exact(&mut head) {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
        }
        assert_eq!(head[1] & 0x80, 0, "a server does not mask");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length)?;
                u16::from_be_bytes(length).into()
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length)?;
                usize::try_from(u64::from_be_bytes(length)).unwrap()
            }
            length => length.into(),
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        Ok(Some((head[0], payload)))
    }
}

impl<S: Read + Write> Read for WebSocket<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.input.is_empty() {
            match self.next()? {
                None | Some((0x88, _)) => return Ok(0),
                Some((0x82, payload)) => self.input = payload,
                // A pong.
                Some((0x8A, _)) => {}
                Some((first, _)) => panic!("a frame that begins with {first:#x}"),
            }
        }
        let count = self.input.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.input[..count]);
        self.input.drain(..count);
        Ok(count)
    }
}

impl<S: Read + Write> Write for WebSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(self.cut)];
        if self.fragments {
            let (one, other) = piece.split_at(piece.len() / 2);
            self.frame(0x02, one)?;
            self.frame(0x89, b"still there?")?;
            self.frame(0x80, other)?;
        } else {
            self.frame(0x82, piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Asks for an upgrade: the head of the answer, and what followed it.
fn handshake(stream: &mut (impl Read + Write), path: &str, protocol: &str) -> (String, Vec<u8>) {
    handshake_for("localhost", stream, path, protocol)
}

/// The same for this host.
fn handshake_for(
    host: &str,
    stream: &mut (impl Read + Write),
    path: &str,
    protocol: &str,
) -> (String, Vec<u8>) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        said.extend(byte);
    }
    (String::from_utf8(said).unwrap(), Vec::new())
}

/// Logs in, sends, receives, settles and closes.
fn serves<S: Read + Write>(socket: WebSocket<S>) {
    let mut wire = Wire::over(socket);
    wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("websocket").begin(0);
    wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    let mut client = Client::on(wire);
    client.sender(1, QUEUE);
    let large = long_text(50_000);
    client.accepted(1, &["over a web socket", &large, "and the next", &large]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 4);
    let texts: Vec<String> = received.iter().map(Delivery::text).collect();
    assert_eq!(texts, ["over a web socket", &large, "and the next", &large]);
    for delivery in &received {
        client.complete(delivery);
    }
    client.close();
}

#[test]
fn amqp_runs_over_websocket_on_every_port_whatever_the_cut() {
    let broker = Broker::start();
    for address in [broker.http_address(), broker.address] {
        for (protocol, cut) in [("amqp", usize::MAX), ("AMQPWSB10", 1000), ("amqp", 7), ("AMQPWSB10", 1)] {
            serves(WebSocket::upgrade(connect(address), protocol, cut));
        }
    }
    let mut fragments = WebSocket::upgrade(connect(broker.address), "amqp", 500);
    fragments.fragments = true;
    serves(fragments);
}

#[test]
fn a_websocket_opens_at_each_path_that_is_not_the_brokers_own() {
    let broker = Broker::start();
    for path in ["/", "/amqp", "/amqp/", "/some/where?else=1", "/orders/$ferrybus", "/$servicebus/websocket/"]
    {
        serves(WebSocket::upgrade_at(connect(broker.address), path, "amqp", usize::MAX));
    }
    // Resources of the broker stay what they are.
    let (head, _) = handshake(&mut connect(broker.http_address()), "/healthz", "amqp");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

#[test]
fn amqp_runs_over_websocket_with_tls() {
    let certificates = Certificates::new();
    let broker = certificates.broker();
    for address in [broker.http_address(), broker.address, broker.tls_address()] {
        serves(WebSocket::upgrade(certificates.stream(address, None), "AMQPWSB10", usize::MAX));
    }
}

#[test]
fn a_websocket_ends_with_a_close_on_both_sides() {
    let broker = Broker::start();
    let mut socket = WebSocket::upgrade(connect(broker.address), "amqp", usize::MAX);
    socket.frame(0x88, &1000_u16.to_be_bytes()).unwrap();
    assert_eq!(socket.next().unwrap(), Some((0x88, 1000_u16.to_be_bytes().to_vec())));
    assert_eq!(socket.next().unwrap(), None);
    // And from the broker's side, after the close of AMQP.
    let socket = WebSocket::upgrade(connect(broker.address), "amqp", usize::MAX);
    let mut wire = Wire::over(socket);
    wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open("closing");
    wire.script.close(None);
    wire.closed().unwrap();
    assert_eq!(wire.stream().next().unwrap(), Some((0x88, Vec::new())));
}

#[test]
fn broken_rules_end_the_connection_and_nothing_else() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let large = vec![0; (1 << 20) + 1];
    let cases: [(&str, u8, &[u8], u16); 4] = [
        ("text", 0x81, b"AMQP", 1003),
        ("an unknown kind", 0x83, b"AMQP", 1002),
        ("a continuation of nothing", 0x80, b"AMQP", 1002),
        ("a message that is too large", 0x82, &large, 1009),
    ];
    for (what, first, payload, code) in cases {
        let mut socket = WebSocket::upgrade(connect(broker.address), "amqp", usize::MAX);
        // The broker hangs up as soon as it has seen enough.
        drop(socket.frame(first, payload));
        match socket.next() {
            Ok(Some((0x88, close))) => assert_eq!(close[..2], code.to_be_bytes(), "{what}"),
            // Input that was not read resets the connection, and the close may be lost on the way.
            Ok(None) | Err(_) => assert_eq!(code, 1009, "{what}"),
            Ok(Some(other)) => panic!("{what}: {other:?}"),
        }
        innocent.works();
    }
}

#[test]
fn who_is_upgraded_and_says_nothing_is_hung_up_on() {
    let broker = Broker::with(|config| config.handshake_time_out = Duration::from_secs(2));
    let mut socket = WebSocket::upgrade(connect(broker.address), "amqp", usize::MAX);
    while let Ok(Some(_)) = socket.next() {}
}

#[test]
fn upgrades_are_refused_with_the_right_status() {
    let broker = Broker::start();
    let address = broker.http_address();
    let refused = |path: &str, protocol: &str| {
        let mut stream: TcpStream = connect(address);
        handshake(&mut stream, path, protocol).0
    };
    assert!(refused("/$servicebus/websocket", "mqtt").starts_with("HTTP/1.1 400 "));
    assert!(refused("/amqp", "mqtt").starts_with("HTTP/1.1 400 "));
    assert!(refused("/$servicebus/web", "amqp").starts_with("HTTP/1.1 404 "));
    assert!(refused("/$ferrybus/amqp", "amqp").starts_with("HTTP/1.1 404 "));
    assert_eq!(ask(address, "GET /$servicebus/websocket", "").0, 426);
    assert_eq!(ask(address, "POST /$servicebus/websocket", "").0, 405);
}
