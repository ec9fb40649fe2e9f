//! A broker that ends: who is waited for, and who is told what.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use amqp_codec::types::ReceiverSettleMode;
use broker_server::Outcome;

use crate::{
    broker::{Broker, Folder, QUEUE, durable},
    tls::Certificates,
};

/// What nobody should wait for, far more than a stop takes.
const LONG: Duration = Duration::from_secs(120);

fn connected(address: SocketAddr, first_words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(first_words).unwrap();
    stream
}

#[test]
fn a_stop_waits_for_nobody_who_has_not_said_what_he_wants() {
    let broker = Certificates::new().broker_with(|config| {
        config.handshake_time_out = LONG;
        config.shutdown_time_out = LONG;
    });
    let said: [(&str, SocketAddr, &[u8]); 7] = [
        ("nothing", broker.address, b""),
        ("nothing, on a TLS port", broker.tls_address(), b""),
        ("half a TLS record", broker.address, b"\x16\x03\x01"),
        ("half a protocol header", broker.address, b"AMQP"),
        ("half an HTTP request", broker.http_address(), b"GET /$ferrybus/clock HTTP/1.1\r\nHost:"),
        (
            "a request without its body",
            broker.http_address(),
            b"PUT /q HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        ),
        ("a request after which more may come", broker.http_address(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ];
    let mut streams: Vec<_> = said.iter().map(|(_, address, words)| connected(*address, words)).collect();
    // Somebody who speaks shows that the others have been taken in: they were accepted before.
    broker.innocent().works();
    let started = Instant::now();
    assert_eq!(broker.stop(), Outcome::Stopped);
    assert!(started.elapsed() < LONG / 4, "{:?}", started.elapsed());
    for ((case, ..), stream) in said.iter().zip(&mut streams) {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{case}"),
        }
    }
}

#[test]
fn a_client_that_says_no_goodbye_is_told_and_left_behind_in_time() {
    let limit = Duration::from_millis(500);
    let broker = Broker::with(|config| config.shutdown_time_out = limit);
    // It has a lock and an unsettled message on its way, and answers nothing from now on.
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    client.accepted(1, &["held"]);
    client.credit_on(0, 2, 1, false);
    client.wire.transferred().unwrap();
    let started = Instant::now();
    assert_eq!(broker.stop(), Outcome::Stopped);
    let took = started.elapsed();
    assert!(took >= limit && took < LONG / 4, "{took:?}");
    let error = client.wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:connection:forced");
}

/// What a probe of readiness is told, if anything.
fn probe(address: SocketAddr) -> Option<String> {
    let mut stream = connected(address, b"");
    let mut text = String::new();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    stream.read_to_string(&mut text).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

#[test]
fn who_looks_after_a_broker_is_told_that_it_ends_for_as_long_as_that_takes() {
    let broker = Broker::with(|config| config.shutdown_time_out = LONG);
    // It answers nothing, so the broker waits for it.
    let client = broker.plain();
    let address = broker.http_address();
    assert!(probe(address).is_some_and(|text| text.contains("\"ready\"")));
    let stopping = thread::spawn(move || broker.stop());
    let started = Instant::now();
    let told = loop {
        // Whoever asks in the moment of the stop may be left without an answer.
        match probe(address) {
            Some(text) if !text.contains("\"ready\"") => break text,
            _ => assert!(started.elapsed() < LONG / 4, "the broker does not say that it stops"),
        }
    };
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    assert!(told.ends_with(r#"{"reason":"the broker is stopping","status":"unavailable"}"#), "{told}");
    drop(client);
    assert_eq!(stopping.join().unwrap(), Outcome::Stopped);
    assert!(started.elapsed() < LONG / 4, "{:?}", started.elapsed());
}

#[test]
fn a_broker_that_is_dropped_leaves_its_folder_to_the_next() {
    let folder = Folder::new();
    let server = broker_server::Server::start(&durable(&folder.0)).unwrap();
    let mut client = crate::client::Client::plain(server.addresses()[0]);
    client.sender(1, QUEUE);
    client.accepted(1, &["kept"]);
    drop(server);
    client.wire.rest().unwrap();
    let broker = Broker::durable(&folder.0);
    let mut client = broker.plain();
    client.receiver(1, QUEUE, None);
    assert_eq!(client.receive(1, 1).remove(0).text(), "kept");
}
