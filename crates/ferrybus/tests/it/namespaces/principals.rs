//! Log-ins that a configuration file gives to several namespaces: which each of them opens, before and after a reload, and that interfaces
//! leave them alone.

use std::net::TcpStream;

use amqp_codec::performative::{Open, Performative};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use testkit::Wire;

use super::served::{Service, good, refused};
use crate::support::{Folder, code, ferrybus, stderr, tls};

const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];

/// Namespaces with a queue each, TLS, and an administrator.
const BASE: &str = r#"
    listen = ["127.0.0.1:0"]
    listen_http = []
    listen_tls = []
    durability = "os"
    [tls]
    certificate = "certs/server.pem"
    key = "certs/server-key.pem"
    client_ca = "certs/ca.pem"
    [[namespace]]
    name = "team-a"
    [[namespace]]
    name = "team-b"
    [[queue]]
    name = "orders"
    [[queue]]
    name = "orders"
    namespace = "team-a"
    [[queue]]
    name = "orders"
    namespace = "team-b"
    [[admin]]
    name = "operator"
    password = "hush"
"#;

/// An entry of the file for these namespaces.
fn entry(table: &str, namespaces: &[&str], rest: &str) -> String {
    let rights = if table == "issuer" { "" } else { "rights = [\"manage\"]\n" };
    match (table, namespaces) {
        ("key", [namespace]) => format!("[[key]]\nnamespace = {namespace:?}\n{rights}{rest}\n"),
        _ => format!("[[{table}]]\nnamespaces = {namespaces:?}\n{rights}{rest}\n"),
    }
}

fn issuer(namespaces: &[&str]) -> String {
    let rest = "name = \"https://issuer.test\"\naudiences = [\"ferrybus\"]\nkeys_file = \"keys.json\"\n\
                [[issuer.grant]]\nclaim = \"sub\"\nvalue = \"robot\"\nrights = [\"send\"]";
    entry("issuer", namespaces, rest)
}

/// An identity provider with one key.
struct Provider(KeyPair);

impl Provider {
    fn new() -> Self {
        Self(KeyPair::generate().unwrap())
    }

    fn keys(&self) -> Value {
        let point = self.0.der_bytes();
        let [x, y] = [1..33, 33..65].map(|part| URL_SAFE_NO_PAD.encode(&point[part]));
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y }] })
    }

    /// The response of `OAUTHBEARER` with a token of its own.
    fn response(&self) -> Vec<u8> {
        let claims = json!({
            "iss": "https://issuer.test", "aud": "ferrybus", "sub": "robot", "exp": u32::MAX,
        });
        let parts = [json!({ "alg": "ES256", "kid": "1" }), claims];
        let text = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = URL_SAFE_NO_PAD.encode(fixed(&self.0.sign(text.as_bytes()).unwrap()));
        format!("n,,\x01auth=Bearer {text}.{signature}\x01\x01").into_bytes()
    }
}

/// The two numbers of an ECDSA signature, which is a sequence of two integers in DER, in 32 bytes each.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        let digits = &number[number.iter().take_while(|byte| **byte == 0).count()..];
        numbers.resize(numbers.len() + 32 - digits.len(), 0);
        numbers.extend(digits);
        rest = &rest[2 + length..];
    }
    numbers
}

/// Credentials that a client shows.
#[derive(Clone, Debug)]
enum Login {
    /// A key or a user.
    Plain(&'static str, &'static str),
    /// The certificate with this name.
    Certificate(&'static str),
    Token(Vec<u8>),
}

/// The file's broker.
struct World(Service);

impl World {
    fn start(name: &str, provider: &Provider, principals: &str) -> Self {
        let folder = Folder::new(name);
        let clients = ["--client", "till-7", "--client", "till-8"];
        let hosts = ["--host", "localhost", "--host", "team-a.localhost", "--host", "team-b.localhost"];
        let made = ferrybus(&folder.0, &[&["cert", "dev", "--out", "certs"][..], &clients, &hosts].concat());
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        folder.write("keys.json", &provider.keys().to_string());
        folder.write("ferrybus.toml", &format!("{BASE}{principals}"));
        Self(Service::start_in(folder, &[]))
    }

    fn reload(&self, principals: &str) {
        self.0.reload(&format!("{BASE}{principals}"));
    }

    /// A connection with TLS to the host of a namespace, whose client shows this certificate.
    fn connect(&self, namespace: &str, client: Option<&str>) -> StreamOwned<ClientConnection, TcpStream> {
        let host = match namespace {
            "default" => "localhost".to_owned(),
            namespace => format!("{namespace}.localhost"),
        };
        tls::connect(&self.0.folder.0, &self.0.broker.addresses[0], &host, client)
    }

    /// Whether this log-in lets a client send to the queue of a namespace.
    fn opens(&self, login: &Login, namespace: &str) -> bool {
        let (certificate, mechanism, response) = match login {
            Login::Plain(name, text) => (None, "PLAIN", format!("\0{name}\0{text}").into_bytes()),
            Login::Certificate(name) => (Some(*name), "EXTERNAL", Vec::new()),
            Login::Token(response) => (None, "OAUTHBEARER", response.clone()),
        };
        // Which mechanisms there are, the namespace of the TLS server name says.
        let mut wire = Wire::over(self.connect(namespace, certificate));
        let open = Open { hostname: Some(format!("vhost:{namespace}")), ..Open::new("client") };
        wire.script.sasl(mechanism, Some(&response)).open_with(open).begin(0);
        wire.script.attach_sender(0, 1, "out", Some("orders"));
        let ends = |frame: &Performative| matches!(frame, Performative::Attach(_) | Performative::Close(_));
        // A log-in that SASL refuses ends the connection without a frame more.
        match wire.until(ends) {
            Ok(frame) => {
                matches!(frame.performative, Performative::Attach(attach) if attach.target.is_some())
            }
            Err(_) => false,
        }
    }

    /// Demands that each log-in opens these namespaces and no other.
    fn check(&self, when: &str, cases: &[(Login, &[&str])]) {
        for (login, expected) in cases {
            let opened = NAMESPACES.into_iter().filter(|namespace| self.opens(login, namespace));
            assert_eq!(opened.collect::<Vec<_>>(), *expected, "{when}: {login:?}");
        }
    }
}

fn key(namespace: &str, text: &str) -> String {
    entry("key", &[namespace], &format!("name = \"root\"\nkey = {text:?}"))
}

fn user(name: &str, password: &str, namespaces: &[&str]) -> String {
    entry("user", namespaces, &format!("name = {name:?}\npassword = {password:?}"))
}

fn certificate(name: &str, namespaces: &[&str]) -> String {
    entry("certificate", namespaces, &format!("subject = \"CN={name}\""))
}

#[test]
fn each_log_in_of_the_file_opens_the_namespaces_that_it_names_before_and_after_a_reload() {
    let provider = Provider::new();
    let before = [
        key("default", "key of default"),
        key("team-a", "key of a"),
        key("team-b", "key of b"),
        user("worker", "worker of a", &["team-a"]),
        user("worker", "worker of b", &["team-b"]),
        user("auditor", "everywhere", &NAMESPACES),
        certificate("till-7", &["team-b"]),
        certificate("till-8", &["default", "team-a"]),
        issuer(&["team-a", "team-b"]),
    ];
    let world = World::start("principals", &provider, &before.concat());
    let plain = Login::Plain;
    let token = || Login::Token(provider.response());
    let foreign = || Login::Token(Provider::new().response());
    let [a, b, default] = [["team-a"], ["team-b"], ["default"]];
    world.check(
        "at the start",
        &[
            (plain("root", "key of default"), &default),
            (plain("root", "key of a"), &a),
            (plain("root", "key of b"), &b),
            (plain("root", "another key"), &[]),
            (plain("worker", "worker of a"), &a),
            (plain("worker", "worker of b"), &b),
            (plain("auditor", "everywhere"), &NAMESPACES),
            (Login::Certificate("till-7"), &b),
            (Login::Certificate("till-8"), &["default", "team-a"]),
            (token(), &["team-a", "team-b"]),
            (foreign(), &[]),
            // An administrator creates namespaces, and has no right to their messages.
            (plain("operator", "hush"), &[]),
        ],
    );
    let after = [
        key("default", "key of default"),
        key("team-a", "new key of a"),
        user("worker", "worker of b", &["team-b"]),
        user("auditor", "everywhere", &["team-b"]),
        certificate("till-7", &["team-a"]),
        issuer(&["default"]),
    ];
    world.reload(&after.concat());
    world.check(
        "after a reload",
        &[
            (plain("root", "key of default"), &default),
            (plain("root", "key of a"), &[]),
            (plain("root", "new key of a"), &a),
            (plain("root", "key of b"), &[]),
            (plain("worker", "worker of a"), &[]),
            (plain("worker", "worker of b"), &b),
            (plain("auditor", "everywhere"), &b),
            (Login::Certificate("till-7"), &a),
            (Login::Certificate("till-8"), &[]),
            (token(), &default),
            (foreign(), &[]),
        ],
    );
}

#[test]
fn an_administrator_of_the_file_reaches_all_namespaces_and_changes_nothing_that_the_file_names() {
    let provider = Provider::new();
    let principals = [key("default", "d"), key("team-a", "a"), user("worker", "w", &["team-b"])].concat();
    let world = World::start("principals-administrator", &provider, &principals);
    let service = &world.0;
    for namespace in NAMESPACES {
        assert_eq!(service.shown(namespace)["from_file"], namespace != "default", "{namespace}");
        good(&service.administer(&format!("namespace key list {namespace}")));
    }
    let of_file = |namespace: &str| {
        format!("the configuration file names the namespace `{namespace}`: change it there and send SIGHUP")
    };
    let key_of_file = |key: &str, namespace: &str| {
        format!(
            "the key `{key}` of the namespace `{namespace}` is one of the configuration: it is changed there, and not here"
        )
    };
    let attempts = [
        ("namespace set team-a --weight 2", of_file("team-a")),
        ("namespace set team-b --max-entities 9", of_file("team-b")),
        ("namespace set team-b --hostname b.test", of_file("team-b")),
        ("namespace delete team-a --yes", of_file("team-a")),
        ("namespace key create team-a root --rights send", key_of_file("root", "team-a")),
        ("namespace key delete team-a root", key_of_file("root", "team-a")),
        ("namespace key create team-b worker --rights send", key_of_file("worker", "team-b")),
        ("namespace key delete default root", key_of_file("root", "default")),
    ];
    for (line, reason) in attempts {
        refused(&service.administer(line), &reason);
    }
    world.check(
        "after the attempts",
        &[(Login::Plain("root", "a"), &["team-a"]), (Login::Plain("worker", "w"), &["team-b"])],
    );
    // A hold and a key of another name are not the file's, and stay when it is read again.
    good(&service.administer("namespace set team-b --hold"));
    good(&service.administer("namespace key create team-a app --rights send"));
    world.reload(&principals);
    assert_eq!(service.shown("team-b")["state"], "held");
    assert!(good(&service.administer("namespace key list team-a")).contains("app"));
    world.check("on a held namespace", &[(Login::Plain("worker", "w"), &[])]);
    good(&service.administer("namespace set team-b --no-hold"));
    world.check("once it is held no more", &[(Login::Plain("worker", "w"), &["team-b"])]);
}
