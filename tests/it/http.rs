//! HTTP on every port: told apart, bounded, refused with the right status.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};

use crate::broker::Broker;

/// A log-in with the development key.
pub(crate) fn root() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    sign_token("http://localhost/", DEVELOPMENT_KEY_NAME, &Secret::new(DEVELOPMENT_KEY), now + 600)
}

/// Makes one request over `stream`, and gives the status and the body.
pub(crate) fn ask_over(
    stream: &mut (impl Read + Write),
    request: &str,
    login: Option<&str>,
    body: &str,
) -> (u16, String) {
    ask_host(stream, "localhost", request, login, body)
}

/// The same at this host.
pub(crate) fn ask_host(
    stream: &mut (impl Read + Write),
    host: &str,
    request: &str,
    login: Option<&str>,
    body: &str,
) -> (u16, String) {
    let login = login.map(|login| format!("Authorization: {login}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{request} HTTP/1.1\r\nHost: {host}\r\n{login}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    // The broker may have refused it, and hung up, before all was written.
    drop(stream.write_all(request.as_bytes()));
    answer(stream)
}

/// Reads an answer to the end of its stream: status and body.
pub(crate) fn answer(stream: &mut impl Read) -> (u16, String) {
    let (status, _, body) = whole_answer(stream);
    (status, body)
}

/// The same with what stands above the body.
pub(crate) fn whole_answer(stream: &mut impl Read) -> (u16, String, String) {
    let mut text = Vec::new();
    // A peer that hangs up in the middle of what it was told has said what it had to.
    drop(stream.read_to_end(&mut text));
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status: {text:?}"));
    (status, format!("{head}\r\n"), body.to_owned())
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Asks with the log-in of [`root`].
pub(crate) fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    ask_over(&mut connect(address), request, Some(&root()), body)
}

#[test]
fn http_and_amqp_are_served_on_the_same_ports() {
    let broker = Broker::start();
    for address in [broker.address, broker.http_address()] {
        assert_eq!(ask(address, "GET /$ferrybus/clock", "").0, 200);
        assert_eq!(ask(address, "GET /$ferrybus/nothing", "").0, 404);
        crate::client::Client::plain(address).close();
    }
}

#[test]
fn requests_are_refused_with_the_right_status() {
    let broker = Broker::start();
    let advance = "/$ferrybus/clock/advance";
    let sign = |place: &str| sign_token(place, DEVELOPMENT_KEY_NAME, &Secret::new(DEVELOPMENT_KEY), 1);
    let cases: [(&str, String, Option<String>, &str, u16); 16] = [
        ("an unknown path", "GET /$ferrybus/orders".into(), Some(root()), "", 404),
        ("a missing entity", "GET /missing".into(), Some(root()), "", 200),
        ("an entity and no log-in", "GET /orders".into(), None, "", 401),
        ("a deletion and no log-in", "DELETE /orders".into(), None, "", 401),
        ("a deletion of what is missing", "DELETE /missing".into(), Some(root()), "", 404),
        ("another method", format!("GET {advance}"), Some(root()), "", 405),
        ("a method that nobody knows", format!("BREW {advance}"), Some(root()), "", 405),
        ("no log-in", format!("POST {advance}"), None, r#"{"by_ms":1}"#, 401),
        (
            "an expired token",
            format!("POST {advance}"),
            Some(sign("http://localhost/")),
            r#"{"by_ms":1}"#,
            401,
        ),
        ("no body", format!("POST {advance}"), Some(root()), "", 400),
        ("no JSON", format!("POST {advance}"), Some(root()), "5m", 400),
        ("another field", format!("POST {advance}"), Some(root()), r#"{"by":1}"#, 400),
        ("a negative time", format!("POST {advance}"), Some(root()), r#"{"by_ms":-1}"#, 400),
        ("too far", format!("POST {advance}"), Some(root()), r#"{"by_ms":99999999999999}"#, 400),
        ("another version", "GET /$ferrybus/clock HTTP/9.9\r\nX:".into(), Some(root()), "", 400),
        ("a path trick", "GET /../$ferrybus/clock".into(), Some(root()), "", 400),
    ];
    for (what, request, login, body, status) in cases {
        let (said, text) = ask_over(&mut connect(broker.http_address()), &request, login.as_deref(), body);
        assert_eq!(said, status, "{what}: {text}");
    }
    let (_, time) = ask(broker.http_address(), "GET /$ferrybus/clock", "");
    assert!(time.contains(r#""ahead_ms":0"#), "nothing has changed: {time}");
}

#[test]
fn headers_and_bodies_are_bounded() {
    let broker = Broker::start();
    let mut innocent = broker.innocent();
    let long = "x".repeat(1 << 20);
    let many = "X: y\r\n".repeat(200);
    let cases = [
        ("a long path", format!("GET /{long} HTTP/1.1\r\n\r\n"), [414, 431].as_slice()),
        ("a long header", format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), &[431]),
        ("many headers", format!("GET / HTTP/1.1\r\n{many}\r\n"), &[431]),
    ];
    for (what, request, expected) in cases {
        let mut stream = connect(broker.http_address());
        drop(stream.write_all(request.as_bytes()));
        let (status, _) = answer(&mut stream);
        assert!(expected.contains(&status), "{what}: {status}");
    }
    let body = format!(r#"{{"by_ms":1,"x":"{long}"}}"#);
    assert_eq!(ask(broker.http_address(), "POST /$ferrybus/clock/advance", &body).0, 413);
    innocent.works();
}

#[test]
fn who_dawdles_is_hung_up_on() {
    let broker = Broker::with(|config| config.handshake_time_out = Duration::from_secs(2));
    let mut stream = connect(broker.http_address());
    stream.write_all(b"GET /$ferrybus/cl").unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or_default(), 0, "half a request gets no answer");
    let mut stream = connect(broker.http_address());
    let login = root();
    let begun = format!(
        "POST /$ferrybus/clock/advance HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login}\r\n\
         Connection: close\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(begun.as_bytes()).unwrap();
    assert_eq!(answer(&mut stream).0, 408);
}

#[test]
fn several_requests_share_a_connection_and_a_stop_ends_it() {
    let broker = Broker::start();
    let mut stream = connect(broker.http_address());
    for _ in 0..3 {
        let login = root();
        write!(stream, "GET /$ferrybus/clock HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login}\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        while !text.contains('}') {
            let mut piece = [0; 1024];
            let count = stream.read(&mut piece).unwrap();
            assert_ne!(count, 0, "{text}");
            text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
        }
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }
    broker.stop();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_peer_that_does_not_read_its_answers_is_cut_off_and_its_place_is_given_back() {
    let broker = Broker::with(|config| {
        config.http_write_time_out = Duration::from_millis(300);
        config.max_connections = 1;
    });
    let mut deaf = TcpStream::connect(broker.http_address()).unwrap();
    // Far longer than the broker's patience: who is not cut off fails the test by this.
    deaf.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let requests = "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let error = loop {
        if let Err(error) = deaf.write_all(requests.as_bytes()) {
            break error.kind();
        }
    };
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?}");
    drop(deaf);
    let begun = Instant::now();
    while !is_served(&broker) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the place is free again");
    }
}

/// Whether the broker has a place for one more.
fn is_served(broker: &Broker) -> bool {
    let mut stream = connect(broker.http_address());
    let mut first = [0];
    let asked = stream.write_all(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    asked.is_ok() && stream.read(&mut first).is_ok_and(|count| count == 1)
}
