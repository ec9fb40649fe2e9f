//! The namespace that a connection or a request means: each host name alone, and host names that disagree. The namespaces live in
//! two shards.

use std::io::{Read, Write};

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader},
    performative::{Open, Performative, SaslFrame, SaslInit},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_core::NamespaceSettings;
use broker_server::NamespacePlan;
use bytes::BytesMut;
use serde_json::Value;
use testkit::Wire;

use crate::{
    broker::Broker,
    http::{answer, ask, connect},
    message::message,
    tls::Certificates,
    token_hosts,
    websocket::WebSocket,
};

/// Each namespace with its shard.
const NAMESPACES: [(&str, u64); 3] = [("default", 0), ("team-a", 1), ("team-b", 0)];
/// A host name of each, and one that leads nowhere; the certificate of the broker is for all of them.
const DEFAULT: &str = "default.bus.example";
const A: &str = "team-a.bus.example";
const B: &str = "team-b.bus.example";
const NOWHERE: &str = "nowhere.bus.example";
/// A host name that `team-a` lists.
const LISTED: &str = "orders.example";

/// The queue that the namespace alone has.
fn queue(namespace: &str) -> String {
    format!("of-{namespace}")
}

fn plan(name: &str, hostnames: &[&str]) -> NamespacePlan {
    let hostnames = hostnames.iter().map(|host| (*host).into()).collect();
    NamespacePlan {
        settings: NamespaceSettings { hostnames, ..NamespaceSettings::default() },
        ..token_hosts::plan(name)
    }
}

/// A broker with two shards. The development key opens each namespace.
fn broker(certificates: &Certificates, strict: bool) -> Broker {
    let broker = certificates.broker_with(|config| {
        config.shards = 2;
        config.strict_hostnames = strict;
        config.auto_create = false;
        config.entities = Vec::new();
        config.namespaces = vec![plan("team-a", &[LISTED]), plan("team-b", &[])];
    });
    let (status, text) = request(&mut connect(broker.address), DEFAULT, "GET /$ferrybus/namespaces", "");
    assert_eq!(status, 200, "{text}");
    let listed: Value = serde_json::from_str(&text).unwrap();
    let shards = listed["namespaces"].as_array().unwrap().iter();
    let shards: Vec<_> = shards.map(|found| (found["name"].as_str(), found["shard"].as_u64())).collect();
    assert_eq!(shards, NAMESPACES.map(|(name, shard)| (Some(name), Some(shard))));
    for ((name, _), host) in NAMESPACES.iter().zip([DEFAULT, A, B]) {
        let put = format!("PUT /{}?api-version=2021-05", queue(name));
        let (status, text) = request(&mut connect(broker.address), host, &put, DESCRIPTION);
        assert_eq!(status, 201, "{text}");
    }
    broker
}

/// Host names that a client says while it connects.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// TLS server name; without one it speaks no TLS.
    tls: Option<&'static str>,
    /// Host of the request by which it changes to AMQP over WebSocket.
    upgrade: Option<&'static str>,
    sasl: Option<&'static str>,
    open: Option<&'static str>,
}

/// The namespace of the connection, or the condition and the text with which it is closed.
type Led = Result<&'static str, (String, String)>;

fn led(broker: &Broker, certificates: &Certificates, said: Said) -> Led {
    match said.tls {
        None => led_over(connect(broker.address), said),
        Some(server) => led_over(certificates.stream_to(broker.tls_address(), None, server), said),
    }
}

fn led_over(stream: impl Read + Write, said: Said) -> Led {
    match said.upgrade {
        None => log_in(Wire::over(stream), said),
        Some(host) => {
            let path = "/$servicebus/websocket";
            log_in(Wire::over(WebSocket::upgrade_for(host, stream, path, "amqp", usize::MAX)), said)
        }
    }
}

fn log_in(mut wire: Wire<impl Read + Write>, said: Said) -> Led {
    let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
    let init = SaslInit {
        mechanism: "PLAIN".into(),
        initial_response: Some(response.into()),
        hostname: said.sasl.map(str::to_owned),
    };
    let mut body = BytesMut::new();
    SaslFrame::Init(init).encode(&mut body);
    wire.script.header(ProtocolHeader::Sasl).frame(FrameKind::Sasl, 0, &body).header(ProtocolHeader::Amqp);
    wire.script.open_with(Open { hostname: said.open.map(str::to_owned), ..Open::new("client") }).begin(0);
    let begun = |frame: &Performative| matches!(frame, Performative::Begin(_) | Performative::Close(_));
    if let Performative::Close(close) = wire.until(begun).unwrap().performative {
        let error = close.error.expect("a reason");
        return Err((error.condition.to_string(), error.description.unwrap_or_default()));
    }
    Ok(namespace_of(&mut wire))
}

/// The namespace whose queue is there. It takes a message, so that its shard has worked.
fn namespace_of(wire: &mut Wire<impl Read + Write>) -> &'static str {
    let mut found = Vec::new();
    for (handle, (name, _)) in (0..).zip(NAMESPACES) {
        wire.script.attach_sender(0, handle, name, Some(&queue(name)));
        if wire.attached().unwrap().target.is_some() {
            found.push((handle, name));
        }
    }
    let [(handle, name)] = found[..] else { panic!("{found:?}") };
    wire.script.transfer(0, handle, 0, false, &message("tea"));
    let state = wire.disposed().unwrap().state;
    assert_eq!(state, Some(amqp_codec::performative::DeliveryState::Accepted));
    name
}

/// Where the client is led without and with `strict_hostnames`. A namespace, or the host name for which there is none.
type Expected = [Result<&'static str, &'static str>; 2];

const fn both(name: &'static str) -> Expected {
    [Ok(name), Ok(name)]
}

/// The default namespace, or none where names are strict.
const fn no_name(host: &'static str) -> Expected {
    [Ok("default"), Err(host)]
}

fn check(said: impl IntoIterator<Item = (Said, Expected)>) {
    let certificates = Certificates::new();
    let brokers = [false, true].map(|strict| broker(&certificates, strict));
    for (said, expected) in said {
        for (broker, expected) in brokers.iter().zip(expected) {
            let found = led(broker, &certificates, said);
            match expected {
                Ok(name) => assert_eq!(found, Ok(name), "{said:?}"),
                Err(host) => {
                    let (condition, text) = found.expect_err("refused");
                    let expected = format!(
                        "The messaging entity '{host}' could not be found: no namespace has this host name."
                    );
                    assert_eq!(condition, "amqp:not-found", "{said:?}");
                    assert!(text.starts_with(&expected), "{said:?}: {text}");
                }
            }
        }
    }
}

fn tls(host: &'static str) -> Said {
    Said { tls: Some(host), ..Said::default() }
}

fn sasl(host: &'static str) -> Said {
    Said { sasl: Some(host), ..Said::default() }
}

fn open(host: &'static str) -> Said {
    Said { open: Some(host), ..Said::default() }
}

#[test]
fn each_host_name_alone_leads_to_its_namespace() {
    check([
        (Said::default(), both("default")),
        (tls(A), both("team-a")),
        (tls(B), both("team-b")),
        (tls(DEFAULT), both("default")),
        (tls(LISTED), both("team-a")),
        (tls(NOWHERE), no_name(NOWHERE)),
        (sasl(A), both("team-a")),
        (sasl(B), both("team-b")),
        (sasl(LISTED), both("team-a")),
        (sasl("vhost:team-a"), both("team-a")),
        (sasl(NOWHERE), no_name(NOWHERE)),
        (open(A), both("team-a")),
        (open(B), both("team-b")),
        (open(DEFAULT), both("default")),
        (open("Team-A.Bus.Example.:5671"), both("team-a")),
        (open(LISTED), both("team-a")),
        (open("vhost:team-a"), both("team-a")),
        (open("vhost:Team-B"), both("team-b")),
        (open("vhost:/"), both("default")),
        (open("vhost:default"), both("default")),
        (open(NOWHERE), no_name(NOWHERE)),
        (open("localhost"), no_name("localhost")),
        (open("127.0.0.1"), no_name("127.0.0.1")),
        // A virtual host is a name, so another one is never meant.
        (open("vhost:nobody"), [Err("vhost:nobody"); 2]),
        (open("vhost:team-a.bus.example"), [Err("vhost:team-a.bus.example"); 2]),
    ]);
}

#[test]
fn of_host_names_that_disagree_the_last_one_that_names_a_namespace_decides() {
    check([
        (Said { sasl: Some(B), ..tls(A) }, both("team-b")),
        (Said { open: Some(B), ..tls(A) }, both("team-b")),
        (Said { open: Some(A), ..tls(B) }, both("team-a")),
        (Said { open: Some(B), ..sasl(A) }, both("team-b")),
        (Said { open: Some(A), ..sasl(B) }, both("team-a")),
        (Said { sasl: Some(B), open: Some(A), ..tls(DEFAULT) }, both("team-a")),
        (Said { sasl: Some(A), open: Some(A), ..tls(B) }, both("team-a")),
        (Said { sasl: Some(A), open: Some("vhost:/"), ..tls(A) }, both("default")),
        (Said { open: Some(DEFAULT), ..sasl(A) }, both("default")),
        (Said { open: Some("vhost:team-a"), ..tls(B) }, both("team-a")),
        // One that names none leaves it to those before.
        (Said { open: Some(NOWHERE), ..tls(A) }, both("team-a")),
        (Said { open: Some(NOWHERE), ..sasl(A) }, both("team-a")),
        (Said { sasl: Some(NOWHERE), ..tls(A) }, both("team-a")),
        (Said { sasl: Some(A), open: Some("localhost"), ..tls(B) }, both("team-a")),
        (Said { open: Some(""), ..sasl(A) }, both("team-a")),
        // Where all of them lead nowhere, the close names the last one.
        (Said { open: Some("localhost"), ..tls(NOWHERE) }, no_name("localhost")),
        (Said { sasl: Some("localhost"), ..tls(NOWHERE) }, no_name("localhost")),
        // But a virtual host is exactly that one.
        (Said { open: Some("vhost:nobody"), ..tls(A) }, [Err("vhost:nobody"); 2]),
        (Said { open: Some("vhost:nobody"), ..sasl(A) }, [Err("vhost:nobody"); 2]),
        (Said { sasl: Some("vhost:nobody"), ..tls(A) }, [Err("vhost:nobody"); 2]),
    ]);
}

#[test]
fn over_websocket_the_host_of_the_request_stands_where_the_tls_server_name_does() {
    let upgrade = |host| Said { upgrade: Some(host), ..Said::default() };
    check([
        (upgrade(A), both("team-a")),
        (upgrade(LISTED), both("team-a")),
        (upgrade(DEFAULT), both("default")),
        (Said { tls: Some(A), ..upgrade(B) }, both("team-b")),
        (Said { tls: Some(A), ..upgrade(NOWHERE) }, both("team-a")),
        (Said { sasl: Some(B), ..upgrade(A) }, both("team-b")),
        (Said { open: Some(B), ..upgrade(A) }, both("team-b")),
        (Said { open: Some("vhost:/"), ..upgrade(A) }, both("default")),
        (Said { open: Some(NOWHERE), ..upgrade(A) }, both("team-a")),
        (Said { open: Some("vhost:nobody"), ..upgrade(A) }, [Err("vhost:nobody"); 2]),
    ]);
}

/// Body of a request that creates a queue.
const DESCRIPTION: &str = "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\">\
     <QueueDescription xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\"/></content></entry>";

/// Status and body of the answer to a request at this host.
fn request(stream: &mut (impl Read + Write), host: &str, request: &str, body: &str) -> (u16, String) {
    let login = STANDARD.encode(format!("{DEVELOPMENT_KEY_NAME}:{DEVELOPMENT_KEY}"));
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {login}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    answer(stream)
}

#[test]
fn a_request_is_for_the_namespace_of_its_host_and_else_for_that_of_the_tls_server_name() {
    let certificates = Certificates::new();
    let cases = [
        // TLS server name, host, and where it leads
        (None, A, both("team-a")),
        (None, B, both("team-b")),
        (None, "TEAM-A.bus.example:5300", both("team-a")),
        (None, LISTED, both("team-a")),
        (None, DEFAULT, both("default")),
        (None, NOWHERE, no_name(NOWHERE)),
        (None, "localhost", no_name("localhost")),
        (Some(A), A, both("team-a")),
        (Some(A), B, both("team-b")),
        (Some(B), DEFAULT, both("default")),
        (Some(A), NOWHERE, both("team-a")),
        (Some(NOWHERE), "localhost", no_name("localhost")),
    ];
    for strict in [false, true] {
        let broker = broker(&certificates, strict);
        for (server, host, expected) in cases {
            let get = "GET /$Resources/Queues?api-version=2021-05";
            let (status, text) = match server {
                None => request(&mut connect(broker.address), host, get, ""),
                Some(server) => {
                    request(&mut certificates.stream_to(broker.tls_address(), None, server), host, get, "")
                }
            };
            match expected[usize::from(strict)] {
                Ok(name) => {
                    assert_eq!(status, 200, "{server:?} {host}: {text}");
                    for (other, _) in NAMESPACES {
                        let is_there = text.contains(&format!(">{}<", queue(other)));
                        assert_eq!(is_there, other == name, "{server:?} {host}: {other} {text}");
                    }
                }
                Err(nowhere) => {
                    assert_eq!(status, 404, "{server:?} {host}: {text}");
                    assert!(text.contains(nowhere), "{text}");
                }
            }
        }
        // Health is that of the broker.
        assert_eq!(ask(broker.address, "GET /healthz", "").0, 200);
    }
}
