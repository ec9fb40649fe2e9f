//! What a page of another site can make a browser ask of a broker, and what a name that is made to point to it can.

use std::{
    io::{Read as _, Write as _},
    sync::Arc,
};

use broker_auth::{Anonymous, Authority, Credentials, HostNames, NamedKey, Secret, sign_token};

use crate::{
    broker::Broker,
    http::{connect, whole_answer},
};

/// A broker that lets a client with this log-in do everything.
struct Guarded {
    broker: Broker,
    login: String,
    is_open: bool,
    what: &'static str,
}

impl Guarded {
    fn new(what: &'static str, key: &str, anonymous: Anonymous) -> Self {
        let key = NamedKey { name: "root".into(), primary: Secret::new(key), ..NamedKey::development() };
        let login = sign_token("http://localhost/", "root", &key.primary, u64::MAX / 2);
        let authority = Authority::new(Credentials { keys: vec![key], anonymous, ..Credentials::default() })
            .with_host_names(HostNames::from_iter(["broker.example.org"]));
        let is_open = authority.is_open();
        let broker = Broker::with(|config| config.authority = Arc::new(authority));
        Self { broker, login, is_open, what }
    }

    /// The status of a request with these lines in its header.
    fn ask(&self, request: &str, lines: &[&str]) -> u16 {
        let mut stream = connect(self.broker.http_address());
        let mut all = format!("{request} HTTP/1.1\r\nAuthorization: {}\r\n", self.login);
        if request.contains("websocket") {
            all.push_str(
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\n",
            );
        } else {
            all.push_str("Connection: close\r\n");
        }
        for line in lines {
            all.extend([line, "\r\n"]);
        }
        all.push_str("Content-Length: 0\r\n\r\n");
        stream.write_all(all.as_bytes()).unwrap();
        // A connection that has become a WebSocket stays.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        whole_answer(&mut &head[..]).0
    }
}

fn brokers() -> [Guarded; 3] {
    [
        Guarded::new("anonymous clients", "a secret of its own", Anonymous::Allow),
        Guarded::new("the development key", broker_auth::DEVELOPMENT_KEY, Anonymous::Deny),
        Guarded::new("a key of its own", "a secret of its own", Anonymous::Deny),
    ]
}

/// Every path that there is, with a request that reads and, where there is one, a request that changes something.
const PATHS: [(&str, Option<&str>); 11] = [
    ("GET /$ferrybus/limits", None),
    ("GET /$ferrybus/connections", Some("DELETE /$ferrybus/connections/99")),
    ("GET /$ferrybus/faults", Some("DELETE /$ferrybus/faults")),
    ("GET /$ferrybus/faults", Some("DELETE /$ferrybus/faults/7")),
    ("GET /$ferrybus/clock", Some("POST /$ferrybus/clock/advance")),
    ("GET /metrics", None),
    ("GET /healthz", Some("POST /readyz")),
    ("GET /health", None),
    ("GET /$ferrybus/nothing", Some("POST /$ferrybus/nothing")),
    ("GET /$Resources/queues?api-version=2021-05", Some("DELETE /innocent?api-version=2021-05")),
    ("GET /orders?api-version=2021-05", Some("PUT /new?api-version=2021-05")),
];
const WEB_SOCKET: &str = "GET /$servicebus/websocket";

#[test]
fn a_page_of_another_site_changes_nothing_on_any_path() {
    let origins =
        ["Origin: https://evil.example", "Origin: null", "Origin: http://localhost:3000", "Origin: \u{e9}"];
    for guarded in brokers() {
        for origin in origins {
            let lines = ["Host: localhost", origin];
            for (read, change) in PATHS {
                let status = guarded.ask(read, &lines);
                assert!(![403, 421].contains(&status), "{} {read} {origin}: {status}", guarded.what);
                if let Some(change) = change {
                    assert_eq!(guarded.ask(change, &lines), 403, "{} {change} {origin}", guarded.what);
                }
            }
        }
        // A page that the broker itself would have served may, on the same port.
        assert_ne!(
            guarded.ask(
                "DELETE /gone?api-version=2021-05",
                &["Host: localhost:5300", "Origin: http://localhost:5300"]
            ),
            403
        );
        assert_eq!(
            guarded.ask("GET /innocent?api-version=2021-05", &["Host: localhost"]),
            200,
            "it is still there"
        );
    }
}

#[test]
fn a_page_opens_a_web_socket_only_where_a_secret_is_needed_behind_it() {
    for guarded in brokers() {
        let other = if guarded.is_open { 403 } else { 101 };
        let cases = [
            (&["Host: localhost"][..], 101),
            (&["Host: localhost", "Origin: http://localhost"], 101),
            (&["Host: localhost:5300", "Origin: http://localhost:3000"], 101),
            // As Python's SDK asks, from another container.
            (&["Host: bus:5300", "Origin: http://bus:5300"], 101),
            (&["Host: localhost", "Origin: https://evil.example"], other),
            (&["Host: localhost", "Origin: null"], other),
            (&["Host: evil.example:5300", "Origin: http://evil.example:5300"], 421),
            (&["Host: broker.example.org", "Origin: http://broker.example.org"], 101),
        ];
        for (lines, expected) in cases {
            assert_eq!(guarded.ask(WEB_SOCKET, lines), expected, "{} {lines:?}", guarded.what);
        }
    }
}

#[test]
fn a_name_that_is_made_to_point_here_opens_no_path() {
    let rebound = "Host: evil.example:5300";
    for guarded in brokers() {
        let requests = PATHS.iter().flat_map(|(read, change)| [Some(*read), *change]).flatten();
        for request in requests.chain([WEB_SOCKET]) {
            for lines in [
                &[rebound, "Origin: http://evil.example:5300"][..],
                &[rebound, "Sec-Fetch-Site: same-origin"],
            ] {
                assert_eq!(guarded.ask(request, lines), 421, "{} {request} {lines:?}", guarded.what);
            }
            // Browsers do not mark each request, above all not those to plain HTTP.
            let status = guarded.ask(request, &[rebound]);
            assert_eq!(status == 421, guarded.is_open, "{} {request}: {status}", guarded.what);
        }
        // The target is what counts where it has a host.
        assert_eq!(
            guarded.ask("GET http://evil.example/healthz", &["Host: localhost", "Sec-Fetch-Site: none"]),
            421
        );
    }
}

#[test]
fn clients_reach_the_broker_by_address_service_name_and_its_own_names() {
    for guarded in brokers() {
        for host in [
            "localhost:5300",
            "127.0.0.1",
            "[::1]:1",
            "10.1.2.3:5300",
            "servicebus-emulator",
            "host.docker.internal:5300",
            "broker.example.org",
        ] {
            let host = format!("Host: {host}");
            for more in ["X-None: 1", "Sec-Fetch-Site: none"] {
                let lines = [host.as_str(), more];
                assert_eq!(guarded.ask("GET /healthz", &lines), 200, "{} {lines:?}", guarded.what);
                assert_eq!(
                    guarded.ask("GET /innocent?api-version=2021-05", &lines),
                    200,
                    "{} {lines:?}",
                    guarded.what
                );
            }
        }
    }
}
