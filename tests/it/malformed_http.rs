//! Requests that RFC 9112 refuses, and that an intermediary in front of the broker could read otherwise than the broker.

use std::io::Write as _;

use crate::{
    broker::Broker,
    http::{ask, connect, root, whole_answer},
};

const GOOD: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Everything that the broker answers to these bytes until it closes, and how many answers that are.
fn said(broker: &Broker, request: &str) -> (u16, usize, String) {
    let mut stream = connect(broker.http_address());
    drop(stream.write_all(request.as_bytes()));
    let (status, head, body) = whole_answer(&mut stream);
    let whole = format!("{head}{body}");
    (status, whole.matches("HTTP/1.1 ").count(), whole)
}

#[test]
fn each_malformed_request_is_400_and_ends_the_connection() {
    let broker = Broker::start();
    let put = format!("PUT /orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n", root());
    let cases = [
        ("no host", "GET /healthz HTTP/1.1\r\n\r\n".to_owned()),
        ("two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned()),
        ("a host that is none", "GET /healthz HTTP/1.1\r\nHost: local host\r\n\r\n".to_owned()),
        ("a bare line feed behind the request", "GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n".to_owned()),
        ("a bare line feed behind a field", "GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n".to_owned()),
        ("a bare line feed at the end", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n".to_owned()),
        ("a folded field", "GET /healthz HTTP/1.1\r\nX: a\r\n b\r\nHost: localhost\r\n\r\n".to_owned()),
        (
            "a length and an encoding",
            format!("{put}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ),
        (
            "an encoding and a length",
            format!("{put}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        ),
        ("two equal lengths", format!("{put}Content-Length: 0\r\nContent-Length: 0\r\n\r\n")),
        ("two lengths", format!("{put}Content-Length: 0\r\nContent-Length: 5\r\n\r\n")),
        ("a list of lengths", format!("{put}Content-Length: 0, 0\r\n\r\n")),
        ("a length with a sign", format!("{put}Content-Length: +0\r\n\r\n")),
        ("another encoding", format!("{put}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")),
        (
            "two encodings",
            format!("{put}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ),
    ];
    for (what, request) in cases {
        // A request that is smuggled behind it is not answered.
        let (status, answers, whole) = said(&broker, &format!("{request}{GOOD}"));
        assert_eq!((status, answers), (400, 1), "{what}: {whole}");
        // The first of the connection may have been good.
        let first = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (status, answers, whole) = said(&broker, &format!("{first}{request}{GOOD}"));
        assert_eq!((status, answers), (200, 2), "{what}: {whole}");
        assert!(whole.contains("HTTP/1.1 400 "), "{what}: {whole}");
    }
    assert_eq!(ask(broker.http_address(), "GET /missing?api-version=2021-05", "").0, 200, "an empty feed");
    assert_eq!(broker.stop(), broker_server::Outcome::Stopped);
}

#[test]
fn a_malformed_chunk_is_400_and_ends_the_connection() {
    let broker = Broker::start();
    let head = format!(
        "PUT /new?api-version=2021-05 HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        root()
    );
    for chunks in ["2\nab\r\n0\r\n\r\n", "x\r\n", "2\r\nabc\r\n0\r\n\r\n", "\r\n0\r\n\r\n"] {
        let (status, answers, whole) = said(&broker, &format!("{head}{chunks}{GOOD}"));
        assert_eq!((status, answers), (400, 1), "{chunks:?}: {whole}");
    }
}

#[test]
fn well_formed_requests_are_answered_one_after_the_other() {
    let broker = Broker::start();
    let requests = [
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n",
        "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nab\n\n\r\n\r\n",
        "POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\na\n\n\r\n0\r\nX: y\r\n\r\n",
        "GET http://localhost/healthz HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        GOOD,
    ];
    let (status, answers, whole) = said(&broker, &requests.concat());
    assert_eq!((status, answers), (200, requests.len()), "{whole}");
    assert_eq!(whole.matches("HTTP/1.1 405 ").count(), 2, "{whole}");
    let (status, _, whole) = said(&broker, "GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(status, 421, "a broker with the development key wants to know its host: {whole}");
    // An upgrade that does not happen is the last request of its connection.
    let upgrade = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n";
    let (status, answers, whole) = said(&broker, &format!("{upgrade}{GOOD}"));
    assert_eq!((status, answers), (200, 1), "{whole}");
    assert!(whole.to_ascii_lowercase().contains("connection: close"), "{whole}");
}
