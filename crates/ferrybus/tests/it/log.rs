//! The log of the real process as an operator reads it: refused log-ins, connections, refusals, clients of other protocols.

mod namespaces;

use std::{
    fs::{self, File},
    io::Write,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use amqp_codec::{
    performative::{DeliveryState, Performative, Transfer},
    types::ReceiverSettleMode,
};
use broker_auth::{Secret, sign_token};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use testkit::{Script, Wire};

use crate::support::{Broker, Folder, code, command, ferrybus, put, stderr, stranger, swallow, until};

/// Secret that no line of the log may have.
const SECRET: &str = "pa55word-of-nobody";
const KEY: &str = "RootManageSharedAccessKey";

/// A broker whose log is in a file, as JSON.
struct Scene {
    folder: Folder,
    broker: Broker,
}

impl Scene {
    fn new(name: &str, config: &str, arguments: &[&str]) -> Self {
        Self::in_folder(Folder::new(name), config, arguments)
    }

    fn in_folder(folder: Folder, config: &str, arguments: &[&str]) -> Self {
        let config = format!("durability = \"none\"\nlisten = [\"127.0.0.1:0\"]\n{config}");
        folder.write("broker.toml", &config);
        let always = ["--config", "broker.toml", "--log-level", "info", "--log-format", "json"];
        let broker = Broker::logged(&folder.0, &[&always[..], arguments].concat(), &folder.0.join("log"));
        Self { folder, broker }
    }

    fn address(&self) -> SocketAddr {
        self.broker.addresses[0].parse().unwrap()
    }

    fn log(&self) -> PathBuf {
        self.folder.0.join("log")
    }

    fn metrics(&self) -> String {
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        String::from_utf8(exchange(TcpStream::connect(self.address()).unwrap(), request)).unwrap()
    }

    /// Ends the broker and reads its log.
    fn end(self) -> Vec<Value> {
        let Self { folder, broker } = self;
        assert!(broker.stop().success());
        read(&folder.0.join("log"))
    }
}

fn read(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn with_message<'v>(lines: &'v [Value], message: &str) -> Vec<&'v Value> {
    lines.iter().filter(|line| line["message"].as_str().unwrap().contains(message)).collect()
}

/// Sends these bytes and reads until the broker hangs up.
fn exchange(mut stream: impl std::io::Read + Write, bytes: &[u8]) -> Vec<u8> {
    // The broker may hang up before it has read everything.
    drop(stream.write_all(bytes));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

fn sasl(mechanism: &'static str, response: Option<&[u8]>) -> Vec<u8> {
    Script::new().sasl(mechanism, response).take_output().to_vec()
}

/// A TLS stream to the broker, with the client certificate of this folder if there is one.
fn over_tls(scene: &Scene, certificate: Option<(&Path, &str)>) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(scene.folder.0.join("certs/ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some((folder, name)) => {
            let file = |end: &str| folder.join(format!("client-{name}{end}"));
            let chain = vec![CertificateDer::from_pem_file(file(".pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(file("-key.pem")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(scene.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// A client that shows this token for the queue `orders`, and is refused.
fn put_token(scene: &Scene, token: &str) {
    let string = format!(
        "Endpoint=sb://localhost:{};SharedAccessSignature={token};UseDevelopmentEmulator=true",
        scene.address().port()
    );
    let refused =
        ferrybus(&scene.folder.0, &["send", "orders", "--body", "x", "--connection-string", &string]);
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
}

fn http(scene: &Scene, login: &str) {
    let request = format!("GET /orders HTTP/1.1\r\nHost: x\r\n{login}Connection: close\r\n\r\n");
    let answer = exchange(TcpStream::connect(scene.address()).unwrap(), request.as_bytes());
    assert!(answer.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&answer));
}

/// A broker that takes client certificates, and a folder with a certificate of another authority.
fn scene_of_log_ins() -> (Scene, PathBuf) {
    let folder = Folder::new("refused-log-ins");
    for (certs, client) in [("certs", "till"), ("others", "stranger")] {
        let made =
            ferrybus(&folder.0, &["cert", "dev", "--out", certs, "--host", "localhost", "--client", client]);
        assert_eq!(code(&made), 0, "{}", stderr(&made));
    }
    let others = folder.0.join("others");
    let config = "[tls]\ncertificate = \"certs/server.pem\"\nkey = \"certs/server-key.pem\"\nclient_ca = \"certs/ca.pem\"\n\
         [metrics]\nanonymous = true\n[[queue]]\nname = \"orders\"\n\
         [[key]]\nname = \"RootManageSharedAccessKey\"\nkey = \"a-key-that-nobody-knows\"\nrights = [\"manage\"]\n";
    (Scene::in_folder(folder, config, &["--listen-tls", "127.0.0.1:0"]), others)
}

#[test]
fn each_refused_log_in_has_one_audit_line_without_secrets_and_is_counted() {
    let (scene, others) = scene_of_log_ins();
    let plain = |bytes: &[u8]| drop(exchange(TcpStream::connect(scene.address()).unwrap(), bytes));
    let sas =
        |name: &str, key: &str, until| sign_token("sb://localhost/orders", name, &Secret::new(key), until);
    // {"alg":"RS256"} and {"iss":"https://elsewhere","sub":"app"}
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2Vsc2V3aGVyZSIsInN1YiI6ImFwcCJ9.AAAA";
    let soon = 4_000_000_000;
    let response = |name: &str| format!("\0{name}\0{SECRET}").into_bytes();
    // In this order, each with the fields of its line.
    plain(&sasl("PLAIN", Some(&response(KEY))));
    plain(&sasl("PLAIN", Some(&response("nobody"))));
    plain(&sasl("SCRAM-SHA-256", Some(SECRET.as_bytes())));
    plain(b"AMQP\x00\x01\x00\x00");
    drop(exchange(over_tls(&scene, Some((&scene.folder.0.join("certs"), "till"))), &sasl("EXTERNAL", None)));
    drop(exchange(over_tls(&scene, Some((&others, "stranger"))), &sasl("EXTERNAL", None)));
    for mechanism in ["ANONYMOUS", "MSSBCBS"] {
        let mut wire = Wire::connect(scene.address()).unwrap();
        wire.script.sasl(mechanism, None).open("nameless").begin(0).attach_sender(0, 1, "s", Some("orders"));
        wire.flush().unwrap();
        wire.detached().unwrap();
    }
    put_token(&scene, &sas(KEY, SECRET, soon));
    put_token(&scene, &sas("nobody", SECRET, soon));
    put_token(&scene, &sas(KEY, "a-key-that-nobody-knows", 1_000));
    // The command line takes no token of an identity provider.
    http(&scene, &format!("Authorization: Bearer {jwt}\r\n"));
    http(&scene, &format!("Authorization: {}\r\n", sas(KEY, SECRET, soon)));
    http(&scene, "");
    let metrics = scene.metrics();
    let token = sas(KEY, SECRET, soon);
    let signature = token.split('&').find(|part| part.starts_with("sig=")).unwrap().to_owned();
    let lines = scene.end();

    // Connections are served by several threads, whose lines may change places.
    let mut found: Vec<[&str; 3]> = lines
        .iter()
        .filter(|line| line["target"] == "ferrybus::audit")
        .map(|line| {
            let fields = ["action", "result", "who"].map(|field| line[field].as_str().unwrap());
            assert_eq!(fields, ["login", "refused", ""], "{line}");
            assert_eq!(line["level"], "WARN", "{line}");
            assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
            ["mechanism", "reason", "key"].map(|field| line[field].as_str().unwrap())
        })
        .collect();
    let mut expected = [
        ["plain", "wrong_key", KEY],
        ["plain", "unknown_key", "nobody"],
        ["other", "mechanism_not_offered", ""],
        ["none", "no_credentials", ""],
        ["external", "unknown_certificate", "CN=till"],
        ["tls", "untrusted_certificate", ""],
        ["anonymous", "no_credentials", ""],
        ["mssbcbs", "no_credentials", ""],
        ["cbs", "wrong_key", KEY],
        ["cbs", "unknown_key", "nobody"],
        ["cbs", "expired", KEY],
        ["http", "unknown_issuer", "https://elsewhere app"],
        ["http", "wrong_key", KEY],
        ["http", "no_credentials", ""],
    ];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for [mechanism, reason, _] in expected {
        let sample =
            format!("\nferrybus_logins_refused_total{{mechanism=\"{mechanism}\",reason=\"{reason}\"}} 1\n");
        assert!(metrics.contains(&sample), "{sample}: {metrics}");
    }
    let text = format!("{lines:?}");
    assert!(!text.contains(&signature) && !text.contains("a-key-that-nobody-knows"), "{text}");
}

#[test]
fn a_flood_of_refused_log_ins_writes_few_lines_and_each_is_counted() {
    const TRIES: u64 = 1_500;
    let config = "[log]\nrefused_attempts_per_minute = 5\n[metrics]\nanonymous = true\n";
    let scene = Scene::new("log-in-flood", config, &[]);
    let begun = Instant::now();
    let bytes = sasl("PLAIN", Some(format!("\0{KEY}\0{SECRET}").as_bytes()));
    for _ in 0..TRIES {
        exchange(TcpStream::connect(scene.address()).unwrap(), &bytes);
    }
    let metrics = scene.metrics();
    let lines = scene.end();
    let most = 5 + begun.elapsed().as_secs() / 12;
    let of = |action: &str| lines.iter().filter(|line| line["action"] == action).count() as u64;
    assert!((5..=most).contains(&of("login")), "{}", of("login"));
    assert!((1..=most).contains(&of("attempts-left-out")));
    let counted =
        format!("\nferrybus_logins_refused_total{{mechanism=\"plain\",reason=\"wrong_key\"}} {TRIES}\n");
    assert!(metrics.contains(&counted), "{metrics}");
    let left_out = format!("\nferrybus_audit_attempts_left_out_total {}\n", TRIES - of("login"));
    assert!(metrics.contains(&left_out), "{metrics}");
}

#[test]
fn a_completion_without_an_answer_that_comes_too_late_is_in_the_log_and_counted() {
    let config =
        "testing = true\n[metrics]\nanonymous = true\n[[queue]]\nname = \"orders\"\nhold = \"lock\"\n";
    let scene = Scene::new("late-completion", config, &[]);
    let string = scene.broker.connection_string.clone();
    let ask = |arguments: &[&str]| {
        let asked = ferrybus(&scene.folder.0, &[arguments, &["--connection-string", &string]].concat());
        assert_eq!(code(&asked), 0, "{}", stderr(&asked));
    };
    ask(&["send", "orders", "--body", "x"]);
    let mut wire = Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap();
    wire.receiver(0, "out", "orders", Some(ReceiverSettleMode::First)).unwrap();
    wire.script.credit(0, 0, 0, 1, false);
    let id = wire.transferred().unwrap().performative;
    let Performative::Transfer(Transfer { delivery_id: Some(id), .. }) = id else { panic!("{id:?}") };
    ask(&["clock", "advance", "2m"]);
    wire.script.disposition(0, id, id, true, Some(DeliveryState::Accepted));
    wire.flush().unwrap();
    let sample =
        "ferrybus_entity_late_completions_total{namespace=\"default\",entity=\"orders\",kind=\"queue\"} 1";
    until(|| scene.metrics().contains(sample));
    let lines = scene.end();
    let line = lines.iter().find(|line| line["condition"] == "com.microsoft:message-lock-lost").unwrap();
    assert_eq!((&line["level"], &line["message"]), (&"WARN".into(), &"refused".into()));
    let text = line["text"].as_str().unwrap();
    assert!(text.starts_with("message 1 of `orders` was completed by container"), "{text}");
}

/// Between any two sends of another client come a hundred tokens that nobody has signed.
#[test]
fn ten_thousand_refused_tokens_write_few_lines_and_others_are_served_between_them() {
    const SENDS: u32 = 100;
    const TOKENS: u32 = 100 * SENDS;
    let config =
        "[log]\nrefused_attempts_per_minute = 5\n[metrics]\nanonymous = true\n[[queue]]\nname = \"orders\"\n";
    let scene = Scene::new("token-flood", config, &[]);
    let token = "SharedAccessSignature sr=x&sig=eA%3D%3D&se=4000000000&skn=RootManageSharedAccessKey";
    let request = put(token, "sb://localhost/orders", "m");
    let begun = Instant::now();
    let mut flood = stranger(scene.address());
    swallow(flood.stream());
    let mut innocent = Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap();
    innocent.sender(1, "in", "orders").unwrap();
    for id in 0..TOKENS {
        flood.script.transfer(0, 0, id, true, &request);
        if id % 100 == 99 {
            flood.flush().unwrap();
            innocent.script.transfer(0, 1, id / 100, false, &testkit::data(b"tea"));
            assert_eq!(innocent.disposed().unwrap().state, Some(DeliveryState::Accepted));
        }
    }
    let counted =
        format!("\nferrybus_logins_refused_total{{mechanism=\"cbs\",reason=\"wrong_key\"}} {TOKENS}\n");
    until(|| scene.metrics().contains(&counted));
    let lines = scene.end();
    let most = 5 + begun.elapsed().as_secs() / 12;
    let written = lines.iter().filter(|line| line["action"] == "login").count() as u64;
    assert!((5..=most).contains(&written), "{written}");
}

#[test]
fn connections_that_are_opened_and_closed_are_in_the_log() {
    let scene = Scene::new("connections", "[[queue]]\nname = \"orders\"\n", &[]);
    // One that closes as it should, one that is gone, and a health check that says nothing.
    let mut wire = Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap();
    wire.script.close(None);
    wire.flush().unwrap();
    drop(exchange(wire.stream(), b""));
    drop(Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap());
    drop(TcpStream::connect(scene.address()).unwrap());
    let string = scene.broker.connection_string.clone();
    let sent = ferrybus(&scene.folder.0, &["send", "orders", "--body", "x", "--connection-string", &string]);
    assert_eq!(code(&sent), 0, "{}", stderr(&sent));
    let log = scene.log();
    until(|| with_message(&read(&log), "connection closed").len() == 3);
    let mut held = Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap();
    let lines = scene.end();
    drop(held.closed());

    let opened = with_message(&lines, "connection opened");
    assert_eq!(opened.len(), 4, "{lines:#?}");
    assert_eq!(with_message(&lines, "connection authenticated by token").len(), 1, "{lines:#?}");
    let closed = with_message(&lines, "connection closed");
    let mut reasons: Vec<&str> = Vec::new();
    for line in &closed {
        let opening = opened.iter().find(|opening| opening["id"] == line["id"]).unwrap();
        for field in ["from", "protocol", "namespace", "container_id"] {
            assert_eq!(line[field], opening[field], "{line}");
        }
        assert_eq!((line["level"].as_str(), line["protocol"].as_str()), (Some("INFO"), Some("amqp")));
        assert_eq!(line["namespace"], "default", "{line}");
        assert_eq!(line["user"], KEY, "by password or by token: {line}");
        assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        assert!(line["duration_ms"].is_u64(), "{line}");
        assert!(
            line["bytes_in"].as_u64().unwrap() > 50 && line["bytes_out"].as_u64().unwrap() > 50,
            "{line}"
        );
        reasons.push(line["reason"].as_str().unwrap());
    }
    reasons.sort_unstable();
    assert_eq!(reasons, ["closed by the client", "closed by the client", "connection lost", "shutdown"]);
}

#[test]
fn connections_beyond_the_limit_write_few_lines_and_each_is_counted() {
    const SURPLUS: u64 = 300;
    let scene = Scene::new("surplus", "[limits]\nmax_connections = 1\n[metrics]\nanonymous = true\n", &[]);
    let _held = Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap();
    let begun = Instant::now();
    for _ in 0..SURPLUS {
        exchange(TcpStream::connect(scene.address()).unwrap(), b"no protocol at all");
    }
    // The scrape is one too many itself.
    let counted =
        format!("ferrybus_connections_refused_total{{reason=\"connection_limit\"}} {}\n", SURPLUS + 1);
    let metrics = scene.metrics();
    assert!(metrics.contains(&counted), "{metrics}");
    let lines = with_message(&scene.end(), "refused: too many connections").len() as u64;
    assert!((60..=60 + 1 + begun.elapsed().as_secs()).contains(&lines), "{lines}");
}

#[test]
fn the_log_of_connections_can_be_turned_off() {
    for (config, arguments) in [
        ("[log]\nconnections = false\n", &[][..]),
        ("", &["--log-connections", "false"]),
        ("[log]\nconnections = true\n", &["--log-connections", "false"]),
    ] {
        let scene = Scene::new("connections-off", config, arguments);
        drop(Wire::session(scene.address(), KEY, "SAS_KEY_VALUE").unwrap());
        let lines = scene.end();
        assert_eq!(with_message(&lines, "connection").len(), 0, "{lines:#?}");
        assert_eq!(with_message(&lines, "serving").len(), 1, "{lines:#?}");
    }
}

#[test]
fn the_tracking_id_that_a_client_shows_is_in_the_log() {
    let scene = Scene::new("tracking-ids", "[[queue]]\nname = \"orders\"\n", &[]);
    let string = &scene.broker.connection_string;
    let over_amqp =
        ferrybus(&scene.folder.0, &["send", "missing", "--body", "x", "--connection-string", string]);
    // The development key as a Basic log-in.
    let login = "Authorization: Basic Um9vdE1hbmFnZVNoYXJlZEFjY2Vzc0tleTpTQVNfS0VZX1ZBTFVF\r\n";
    let request = format!(
        "DELETE /missing?api-version=2021-05 HTTP/1.1\r\nHost: x\r\n{login}Connection: close\r\n\r\n"
    );
    let over_http = exchange(TcpStream::connect(scene.address()).unwrap(), request.as_bytes());
    let told = [stderr(&over_amqp), String::from_utf8(over_http).unwrap()];
    let ids = told.map(|text| {
        let (_, id) = text.split_once("TrackingId:").unwrap_or_else(|| panic!("{text}"));
        id.split(['_', ',']).next().unwrap().to_owned()
    });
    let lines = scene.end();
    for id in ids {
        let with_id: Vec<&Value> = lines
            .iter()
            .filter(|line| line["text"].as_str().is_some_and(|text| text.contains(&id)))
            .collect();
        let [line] = with_id[..] else { panic!("{id}: {lines:#?}") };
        assert!(line["message"].as_str().unwrap().starts_with("refused"), "{line}");
    }
}

#[test]
fn clients_of_other_protocols_are_told_of_once_with_the_way_out() {
    let folder = Folder::new("wrong-protocols");
    assert_eq!(code(&ferrybus(&folder.0, &["cert", "dev", "--out", "certs"])), 0);
    let hello = {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.0.join("certs/ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut hello = Vec::new();
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
        hello
    };
    let older = b"AMQP\x00\x00\x09\x01";
    let scene = Scene::in_folder(folder, "[limits]\nhandshake_time_out = \"1h\"\n", &[]);
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(exchange(TcpStream::connect(scene.address()).unwrap(), &hello), b"");
        // A client of the older protocol expects the header of what is spoken instead.
        let answer = exchange(TcpStream::connect(scene.address()).unwrap(), older);
        assert!(answer.starts_with(b"AMQP"), "{answer:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "the broker hangs up at once");
    let lines = scene.end();
    for part in [
        "speaks TLS, this port is plain: configure a certificate, or add UseDevelopmentEmulator=true",
        "speaks AMQP 0-9-1 (RabbitMQ's older protocol); this broker speaks AMQP 1.0",
    ] {
        let [line] = with_message(&lines, part)[..] else { panic!("{part}: {lines:#?}") };
        assert_eq!(line["level"], "WARN");
        assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    }

    // On a port for TLS alone.
    let tls = "listen_tls = [\"127.0.0.1:0\"]\n[tls]\ncertificate = \"certs/server.pem\"\nkey = \"certs/server-key.pem\"\n";
    let folder = Folder::new("wrong-protocols-tls");
    assert_eq!(code(&ferrybus(&folder.0, &["cert", "dev", "--out", "certs"])), 0);
    let scene = Scene::in_folder(folder, tls, &[]);
    let tls_address = &scene.broker.addresses[1];
    for bytes in [older, b"AMQP\x00\x01\x00\x00"] {
        assert_eq!(exchange(TcpStream::connect(tls_address).unwrap(), bytes), b"");
    }
    let lines = scene.end();
    for part in ["speaks AMQP 0-9-1", "does not speak TLS, this port takes nothing else"] {
        assert_eq!(with_message(&lines, part).len(), 1, "{part}: {lines:#?}");
    }
}

#[test]
fn with_json_each_line_of_both_streams_is_json() {
    let folder = Folder::new("all-json");
    folder.write(
        "Config.json",
        "{ \"UserConfig\": { \"Namespaces\": [ { \"Name\": \"sbemulatorns\", \"Queues\": [] } ] } }",
    );
    // As the image of the emulator has it.
    folder.write(
        "emulator.toml",
        "durability = \"none\"\nlisten = [\"127.0.0.1:0\"]\n[log]\nformat = \"json\"\n\
         [[key]]\nname = \"RootManageSharedAccessKey\"\nkey = \"SAS_KEY_VALUE\"\nrights = [\"manage\"]\n",
    );
    let both = |words: &[&str], ends: bool| {
        let (out, log) = (folder.0.join("out"), folder.0.join("err"));
        let mut serve = command(&folder.0, words);
        serve.env("SQL_SERVER", "mssql").env("FERRYBUS_LOG", "debug").stdin(Stdio::null());
        serve.stdout(File::create(&out).unwrap()).stderr(File::create(&log).unwrap());
        let mut process = serve.spawn().unwrap();
        let texts = || (fs::read_to_string(&out).unwrap(), fs::read_to_string(&log).unwrap());
        if !ends {
            until(|| texts().0.contains('\n'));
            let asked = std::process::Command::new("kill").arg(process.id().to_string()).status().unwrap();
            assert!(asked.success());
        }
        assert_eq!(process.wait().unwrap().success(), !ends, "{:?}", texts());
        let (out, log) = texts();
        let parsed = |text: &str| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
        };
        (parsed(&out), parsed(&log))
    };
    let (out, log) = both(&["--config", "emulator.toml", "--emulator-config", "Config.json"], false);
    let [banner] = &out[..] else { panic!("{out:#?}") };
    assert!(banner["message"].as_str().unwrap().contains("Emulator Service is Successfully Up!"), "{banner}");
    assert!(
        banner["connection_string"].as_str().unwrap().contains("SharedAccessKey=SAS_KEY_VALUE;"),
        "{banner}"
    );
    assert!(log.iter().any(|line| line["message"].as_str().unwrap().contains("`SQL_SERVER` is ignored")));

    // A broker that does not start: the address is no address of this machine.
    let words = ["--config", "emulator.toml", "--listen", "203.0.113.1:1"];
    let (out, log) = both(&words, true);
    assert_eq!(out.len(), 0);
    let last = log.last().unwrap();
    assert_eq!(last["level"], "ERROR", "{last}");
    assert!(last["message"].as_str().unwrap().contains("cannot listen on 203.0.113.1:1"), "{last}");
    assert!(last["hint"].as_str().unwrap().contains("--listen"), "{last}");
    // One whose configuration cannot be read, where the arguments say how to say so.
    let (_, log) = both(&["--config", "missing.toml", "--log-format", "json"], true);
    assert!(log[0]["message"].as_str().unwrap().contains("missing.toml"), "{log:#?}");
}
