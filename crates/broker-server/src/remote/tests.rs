use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use hyper::Request;

use super::*;

#[test]
fn an_address_that_cannot_be_used_is_named_and_is_no_fault_of_tls() {
    let cases = [
        ("http://[", None, "it is not a URL"),
        ("collector:4318", None, "expected `http://host:port/path` or `https://host/path`"),
        ("ftp://collector/x", None, "expected `http://host:port/path` or `https://host/path`"),
        ("https://collector/x", None, "no authorities to trust are known"),
    ];
    for (url, authorities, reason) in cases {
        let error = Remote::new(url, authorities).err().unwrap();
        assert!(matches!(error, RemoteError::Url { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("`{url}` cannot be used: {reason}"));
    }
    let missing = Remote::new("https://collector/x", Some(Path::new("/no/ca.pem"))).err().unwrap();
    assert!(
        matches!(&missing, RemoteError::Tls(TlsError::File { path, .. }) if path == "/no/ca.pem"),
        "{missing:?}"
    );
}

#[test]
fn of_an_answer_no_more_is_read_than_is_allowed() {
    let cases = [
        ("200 OK", 3, Some("abc")),
        ("200 OK", 2, None),
        ("204 No Content", 2, Some("")),
        ("503 Busy", 9, None),
    ];
    for (status, most, expected) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys?x=1", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let body = if status.starts_with("204") { "" } else { "content-length: 3\r\n\r\nabc" };
            let end = if body.is_empty() { "\r\n" } else { "" };
            write!(stream, "HTTP/1.1 {status}\r\n{body}{end}").unwrap();
            String::from_utf8(head).unwrap()
        });
        let remote = Remote::new(&url, None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(remote.exchange(Request::get("/"), Bytes::new(), most));
        let head = serving.join().unwrap();
        assert!(
            head.starts_with("GET /keys?x=1 HTTP/1.1\r\n") && head.contains("host: 127.0.0.1:"),
            "{head}"
        );
        if status.starts_with("503") {
            assert_eq!(answer.unwrap_err().to_string(), "status 503 Service Unavailable");
        } else {
            assert_eq!(answer.unwrap().as_deref(), expected.map(str::as_bytes), "{status} {most}");
        }
    }
}
