//! A shard that panics while others work, and the end of the process when one panics again and again.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex, Once,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use amqp_codec::{
    performative::{Error, Open, Performative},
    types::ReceiverSettleMode,
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_server::{Outcome, ServerConfig};
use testkit::Wire;
use tracing::Level;

use crate::{
    broker::{Broker, Folder, QUEUE, durable},
    client::Client,
    http::{answer, ask, ask_over, connect, root},
    message::{Delivery, long_text, message},
    token_hosts::plan,
};

mod recovering;

/// Longest record of the journal of these tests. The core knows nothing of it, and a longer one panics.
const RECORD_BYTES_MAX: u32 = 4_096;
/// Longest wait for a shard that recovers after a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker with so many shards, on the files in `dir`. Namespaces are created one after the other in the shards after the first, which
/// has the default namespace.
fn fragile(dir: &Path, shards: u16, namespaces: &[&str]) -> ServerConfig {
    let mut config = ServerConfig { shards, ..durable(dir) };
    config.journal.max_record_bytes = RECORD_BYTES_MAX;
    config.namespaces = namespaces.iter().map(|name| plan(name)).collect();
    config
}

/// Shard of a namespace.
fn shard_of(broker: &Broker, namespace: &str) -> Option<u64> {
    let (_, text) = ask(broker.address, &format!("GET /$ferrybus/namespaces/{namespace}"), "");
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["shard"].as_u64()
}

/// A client of this namespace, or the reason for which it is not let in.
fn enter(address: SocketAddr, namespace: &str) -> Result<Client, Error> {
    let mut wire = Wire::connect(address).unwrap();
    let open = Open { hostname: Some(format!("vhost:{namespace}")), ..Open::new("client") };
    wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open_with(open).begin(0);
    let begun = |frame: &Performative| matches!(frame, Performative::Begin(_) | Performative::Close(_));
    match wire.until(begun).unwrap().performative {
        Performative::Close(close) => Err(close.error.expect("a reason")),
        _ => Ok(Client::on(wire)),
    }
}

/// Tries until the namespace is there again, and is told each time that it recovers.
fn enter_again(address: SocketAddr, namespace: &str) -> Client {
    let end = Instant::now() + PATIENCE;
    loop {
        match enter(address, namespace) {
            Ok(client) => return client,
            Err(error) => says_recovers(&error, namespace),
        }
        assert!(Instant::now() < end, "{namespace} does not come back");
        thread::yield_now();
    }
}

fn says_recovers(error: &Error, namespace: &str) {
    assert_eq!(error.condition, "amqp:connection:forced");
    let expected =
        format!("The namespace '{namespace}' recovers from a failure of the broker. Connect again.");
    let text = error.description.as_deref().unwrap_or_default();
    assert!(text.starts_with(&expected), "{text}");
}

fn reason(client: &mut Client) -> Error {
    client.wire.closed().unwrap().error.expect("a reason")
}

/// Sends a message that is too long for the journal.
fn send_poison(client: &mut Client) {
    client.send(1, false, &message(&long_text(2 * RECORD_BYTES_MAX as usize)));
    client.wire.flush().unwrap();
}

/// Has the shard of this namespace panic.
fn poison(address: SocketAddr, namespace: &str) {
    let mut client = enter_again(address, namespace);
    client.sender(1, QUEUE);
    send_poison(&mut client);
    assert_eq!(reason(&mut client).condition, "amqp:connection:forced");
}

/// A client with a message that it has locked.
struct Worker {
    client: Client,
    locked: Delivery,
}

impl Worker {
    fn begin(address: SocketAddr, namespace: &str) -> Self {
        let mut client = enter(address, namespace).unwrap();
        client.sender(1, QUEUE);
        client.accepted(1, &["locked"]);
        client.receiver(2, QUEUE, Some(ReceiverSettleMode::Second));
        let locked = client.receive(2, 1).remove(0);
        assert_eq!(locked.text(), "locked");
        Self { client, locked }
    }

    /// Sends, receives and completes a message on the connection that it has.
    fn works(&mut self) {
        self.client.accepted(1, &["still here"]);
        let delivery = self.client.receive(2, 1).remove(0);
        assert_eq!(delivery.text(), "still here");
        self.client.complete(&delivery);
    }

    /// Completes the message that it has locked all the time.
    fn end(mut self) {
        self.client.complete(&self.locked);
        self.client.nothing_on(2);
        self.client.close();
    }
}

/// The messages that a namespace has, which are completed.
fn complete_all(mut client: Client, expected: &[&str]) {
    client.receiver(1, QUEUE, Some(ReceiverSettleMode::Second));
    let deliveries = client.receive(1, u32::try_from(expected.len()).unwrap());
    assert_eq!(deliveries.iter().map(Delivery::text).collect::<Vec<_>>(), expected);
    for delivery in &deliveries {
        client.complete(delivery);
    }
    client.nothing_on(1);
    client.close();
}

#[test]
fn while_a_shard_recovers_from_a_panic_those_of_another_go_on_and_nothing_accepted_is_lost() {
    let cases = [
        // namespaces of the shard that panics, and those of the other one
        (["team-a"].as_slice(), ["default", "team-b"].as_slice()),
        (&["default", "team-b"], &["team-a"]),
    ];
    for (failing, others) in cases {
        let folder = Folder::new();
        let broker = Broker::of(&fragile(&folder.0, 2, &["team-a", "team-b"]));
        let shards = ["default", "team-a", "team-b"].map(|name| shard_of(&broker, name));
        assert_eq!(shards, [Some(0), Some(1), Some(0)]);
        let address = broker.address;
        let mut victims: Vec<(&str, Worker)> =
            failing.iter().map(|name| (*name, Worker::begin(address, name))).collect();
        for (_, victim) in &mut victims {
            victim.client.accepted(1, &["one", "two", "three"]);
        }
        let mut neighbours: Vec<Worker> = others.iter().map(|name| Worker::begin(address, name)).collect();
        poison(address, failing[0]);
        for (name, victim) in &mut victims {
            says_recovers(&reason(&mut victim.client), name);
        }
        for (neighbour, name) in neighbours.iter_mut().zip(others) {
            neighbour.works();
            // Others are let in there meanwhile.
            enter(address, name).unwrap().close();
        }
        for name in failing {
            complete_all(enter_again(address, name), &["locked", "one", "two", "three"]);
            let mut again = Worker::begin(address, name);
            again.works();
            again.end();
        }
        for mut neighbour in neighbours {
            neighbour.works();
            neighbour.end();
        }
        let failed = shard_of(&broker, failing[0]).unwrap();
        let (_, text) = ask_over(&mut connect(broker.http_address()), "GET /metrics", Some(&root()), "");
        for shard in 0..2 {
            let sample =
                format!("ferrybus_shard_recoveries_total{{shard=\"{shard}\"}} {}", u8::from(shard == failed));
            assert!(text.lines().any(|line| line == sample), "{sample}: {text}");
        }
        assert_eq!(broker.stop(), Outcome::Stopped);
    }
}

/// Status and text of what is answered to somebody without a log-in.
fn probe(address: SocketAddr, path: &str) -> (u16, String) {
    ask_over(&mut connect(address), &format!("GET {path}"), None, "")
}

/// Says that all is over, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks until all is over and once more, after a first answer. One that is given several times in a row is one.
fn answers<A: PartialEq>(first: A, is_over: &AtomicBool, ask: impl Fn() -> A) -> Vec<A> {
    let mut answers = vec![first];
    while !is_over.load(Ordering::Relaxed) {
        answers.push(ask());
        answers.dedup();
    }
    answers.push(ask());
    answers.dedup();
    answers
}

#[test]
fn probes_say_that_a_shard_recovers_and_that_the_process_is_alive() {
    const REASON: &str = "a shard recovers from a failure, its clients connect again";
    let well = |status: &str| (200, format!(r#"{{"status":"{status}"}}"#));
    let ill = |code: u16, status: &str| (code, format!(r#"{{"reason":"{REASON}","status":"{status}"}}"#));
    let healthy = (200, r#"{"message":"Service is healthy.","status":"healthy"}"#.to_owned());
    let unhealthy = (503, format!(r#"{{"message":"{REASON}","status":"unhealthy"}}"#));
    let cases = |is_alone: bool| {
        let of_receivers = if is_alone { ill(503, "unavailable") } else { ill(200, "degraded") };
        [
            ("/healthz", vec![well("alive")]),
            ("/readyz", vec![well("ready"), of_receivers, well("ready")]),
            ("/readyz/sends", vec![well("ready"), ill(503, "unavailable"), well("ready")]),
            ("/health", vec![healthy.clone(), unhealthy.clone(), healthy.clone()]),
        ]
    };
    for shards in [1, 2] {
        let folder = Folder::new();
        let broker = Broker::of(&fragile(&folder.0, shards, &["team-a"]));
        let (address, is_over) = (broker.address, &AtomicBool::new(false));
        thread::scope(|scope| {
            let watchers = cases(shards == 1).map(|(path, expected)| {
                let first = probe(address, path);
                (path, expected, scope.spawn(move || answers(first, is_over, || probe(address, path))))
            });
            let over = Over(is_over);
            poison(address, "team-a");
            enter_again(address, "team-a").close();
            let end = Instant::now() + PATIENCE;
            while probe(address, "/readyz") != well("ready") {
                assert!(Instant::now() < end, "the shard works, and nobody says so");
            }
            drop(over);
            for (path, expected, watcher) in watchers {
                assert_eq!(watcher.join().unwrap(), expected, "{path} with {shards} shards");
            }
        });
        assert_eq!(broker.stop(), Outcome::Stopped);
    }
}

#[test]
fn requests_for_a_shard_that_recovers_are_to_be_sent_again() {
    let folder = Folder::new();
    let broker = Broker::of(&fragile(&folder.0, 2, &["team-a", "team-b"]));
    let namespaces = "/$ferrybus/namespaces";
    let requests = [
        // request, its body, and the reason of the refusal
        (
            format!("PUT {namespaces}/far"),
            r#"{"shard":1,"weight":3}"#,
            "a shard recovers from a failure, and the names that it has are not known: try again",
        ),
        (
            format!("PUT {namespaces}/far/keys/app"),
            r#"{"rights":["send"]}"#,
            "a shard recovers from a failure, its clients connect again",
        ),
    ];
    assert_eq!(ask(broker.address, &format!("PUT {namespaces}/near"), r#"{"shard":0}"#).0, 201);
    for (request, body, reason) in requests {
        poison(broker.address, "team-a");
        let end = Instant::now() + PATIENCE;
        for weight in (1..1000).cycle() {
            // The other shard takes changes meanwhile.
            let body_of_other = format!(r#"{{"weight":{weight}}}"#);
            let (other, text) = ask(broker.address, &format!("PUT {namespaces}/near"), &body_of_other);
            assert_eq!(other, 200, "{text}");
            let (found, text) = ask(broker.address, &request, body);
            if found == 201 {
                break;
            }
            assert_eq!(found, 503, "{request}: {text}");
            assert_eq!(text, format!(r#"{{"error":"{reason}"}}"#), "{request}");
            assert!(Instant::now() < end, "{request}: it is never done");
        }
    }
    assert_eq!(shard_of(&broker, "far"), Some(1));
    assert_eq!(broker.stop(), Outcome::Stopped);
}

/// Lines of the log, of all tests of this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From now on the log is kept.
fn keep_log() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let lines = tracing_subscriber::fmt().with_max_level(Level::WARN).with_ansi(false).without_time();
        tracing::subscriber::set_global_default(lines.with_writer(|| Log).finish()).unwrap();
        tracing::callsite::rebuild_interest_cache();
    });
}

/// Number of lines of the log with all these parts.
fn lines_with(parts: &[&str]) -> usize {
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
}

#[test]
fn the_third_panic_of_a_shard_in_a_minute_ends_the_process_and_loses_nothing() {
    // No other test of this process has a shard of this number.
    const SHARD: &str = "shard=2";
    keep_log();
    let folder = Folder::new();
    let broker = Broker::of(&fragile(&folder.0, 3, &["team-a", "team-b"]));
    assert_eq!(["team-a", "team-b"].map(|name| shard_of(&broker, name)), [Some(1), Some(2)]);
    let address = broker.address;
    let mut neighbours = ["default", "team-a"].map(|name| Worker::begin(address, name));
    let panics = || lines_with(&["ERROR", SHARD, "the broker has panicked"]);
    let recoveries = || lines_with(&["WARN", SHARD, "the shard has recovered from its journal"]);
    for (number, text) in ["one", "two", "three"].into_iter().enumerate() {
        let mut client = enter_again(address, "team-b");
        assert_eq!((panics(), recoveries()), (number, number));
        client.sender(1, QUEUE);
        client.accepted(1, &[text]);
        for neighbour in &mut neighbours {
            neighbour.works();
        }
        if number < 2 {
            poison(address, "team-b");
            says_recovers(&reason(&mut client), "team-b");
        } else {
            send_poison(&mut client);
            let all = neighbours.iter_mut().map(|neighbour| &mut neighbour.client).chain([&mut client]);
            for client in all {
                assert_eq!(reason(client).condition, "amqp:internal-error");
            }
        }
    }
    assert_eq!((panics(), recoveries()), (3, 2));
    assert_eq!(lines_with(&["ERROR", SHARD, "the shard is not recovered any more"]), 1);
    let reason = "the journal failed, nothing is accepted until a restart";
    let unavailable = format!(r#"{{"reason":"{reason}","status":"unavailable"}}"#);
    for path in ["/healthz", "/readyz", "/readyz/sends"] {
        assert_eq!(probe(broker.http_address(), path), (503, unavailable.clone()), "{path}");
    }
    let mut stream = connect(broker.http_address());
    io::Write::write_all(
        &mut stream,
        format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nConnection: close\r\n\r\n",
            root()
        )
        .as_bytes(),
    )
    .unwrap();
    assert_eq!(answer(&mut stream), (503, format!(r#"{{"error":"{reason}"}}"#)));
    drop(neighbours);
    assert_eq!(broker.stop(), Outcome::Panicked);
    // A start finds all that was accepted, in each shard.
    let broker = Broker::of(&fragile(&folder.0, 3, &["team-a", "team-b"]));
    complete_all(enter(broker.address, "team-b").unwrap(), &["one", "two", "three"]);
    for name in ["default", "team-a"] {
        complete_all(enter(broker.address, name).unwrap(), &["locked"]);
    }
    assert_eq!(broker.stop(), Outcome::Stopped);
}
