use proptest::prelude::*;

use super::*;

/// The bytes that pass the check when they arrive cut like this, and the fault found in them.
fn examined(bytes: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<FramingFault>) {
    let mut framing = Framing::default();
    let mut out = bytes.to_vec();
    let mut rest = &mut out[..];
    for piece in pieces {
        let (now, later) = rest.split_at_mut((*piece).min(rest.len()));
        framing.examine(now);
        rest = later;
    }
    framing.examine(rest);
    (out, framing.fault())
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A request, what is wrong with it, and how many of its bytes stay readable (`None`: no matter, or all).
const CASES: [(&str, Option<FramingFault>, Option<usize>); 28] = [
    (GET, None, None),
    ("GET / HTTP/1.0\r\n\r\n", None, None),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", None, None),
    ("GET / HTTP/1.1\r\nhOsT: [::1]:5300\r\n\r\n", None, None),
    ("GET / HTTP/1.1\r\n\r\n", Some(FramingFault::NoHost), Some(17)),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Some(FramingFault::TwoHosts), None),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Some(FramingFault::BadHost), None),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Some(FramingFault::BadHost), None),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Some(FramingFault::BadHost), None),
    ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Some(FramingFault::BadHost), None),
    ("GET / HTTP/1.1\nHost: a\r\n\r\n", Some(FramingFault::LineEnd), Some(14)),
    ("GET / HTTP/1.1\r\nHost: a\n\r\n", Some(FramingFault::LineEnd), None),
    ("GET / HTTP/1.1\r\nHost: a\r\n\n", Some(FramingFault::LineEnd), None),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n Host: b\r\n\r\n", Some(FramingFault::Folded), None),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", None, None),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        Some(FramingFault::TwoLengths),
        None,
    ),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\nab", Some(FramingFault::BadLength), None),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\nab", Some(FramingFault::BadLength), None),
    ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", Some(FramingFault::BadLength), None),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        Some(FramingFault::BadLength),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Some(FramingFault::LengthAndEncoding),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\ncontent-length: 2\r\n\r\n0\r\n\r\n",
        Some(FramingFault::LengthAndEncoding),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        Some(FramingFault::Encoding),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        Some(FramingFault::Encoding),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        Some(FramingFault::ChunkSize),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        Some(FramingFault::ChunkSize),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n",
        Some(FramingFault::LineEnd),
        None,
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        Some(FramingFault::ChunkEnd),
        None,
    ),
];

#[test]
fn each_fault_of_a_request_is_found_and_the_rest_made_unreadable() {
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(600));
    let long = [(long.as_str(), Some(FramingFault::Long), None)];
    for (request, fault, readable) in CASES.into_iter().chain(long) {
        let (out, found) = examined(request.as_bytes(), &[]);
        assert_eq!(found, fault, "{request:?}");
        let good = out.iter().zip(request.as_bytes()).take_while(|(one, other)| one == other).count();
        assert!(out[good..].iter().all(|byte| *byte == UNREADABLE), "{request:?}");
        assert_eq!(good == request.len(), fault.is_none(), "{request:?}");
        assert!(readable.is_none_or(|bytes| bytes == good), "{request:?}: {good}");
    }
}

#[test]
fn bodies_are_skipped_unread_and_the_next_request_is_checked() {
    let bodies = [
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nGET / HTTP/1.1\n\n\n\nab",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\n\n\n\n\n\r\n0a;x=y\r\n0123456789\r\n0\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\nTrailer: x\r\nHost: b\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for body in bodies {
        let (out, fault) = examined(format!("{body}{GET}").as_bytes(), &[]);
        assert_eq!((out, fault), (format!("{body}{GET}").into_bytes(), None), "{body:?}");
        let (_, fault) = examined(format!("{body}GET / HTTP/1.1\r\n\r\n").as_bytes(), &[]);
        assert_eq!(fault, Some(FramingFault::NoHost), "behind {body:?}");
    }
}

#[test]
fn bytes_that_may_be_another_protocol_are_not_touched() {
    for head in
        ["GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"]
    {
        let bytes = [head.as_bytes(), b"\x82\x01\n\n\0\n"].concat();
        assert_eq!(examined(&bytes, &[]), (bytes.clone(), None));
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("GET / HTTP/1.1\r\n"), Just("Host: a\r\n"), Just("\r\n"), Just("\n"), Just("Content-Length: 3\r\n"),
                Just("Transfer-Encoding: chunked\r\n"), Just("3\r\n"), Just("abc"), Just("0\r\n"), Just("x"), Just("Upgrade: h2c\r\n"),
            ],
            0..14,
        ),
        pieces in proptest::collection::vec(1_usize..9, 0..40),
    ) {
        let bytes = parts.concat().into_bytes();
        prop_assert_eq!(examined(&bytes, &pieces), examined(&bytes, &[]));
    }

    #[test]
    fn any_bytes_are_bounded_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let mut framing = Framing::default();
        framing.examine(&mut bytes.clone());
        prop_assert!(framing.line.kept.len() <= LINE_KEPT);
    }
}
