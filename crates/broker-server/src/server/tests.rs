use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use broker_auth::{Anonymous, Authority, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_core::{
    Batch, ClientId, Command, CoreConfig, EntityKind, EntityPath, EntitySettings, Message, SubQueue, Ticket,
    Timestamp,
};
use broker_log::{DiskCall, DiskWorker, Durability, Faults, FaultyDisk, IoDone, JournalConfig};
use testkit::Wire;

use broker_node::NamespaceId;

use super::*;
use crate::{executor::ExecutorItem, node_driver::NodeDriver};

pub(crate) fn config() -> ServerConfig {
    ServerConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        journal: JournalConfig {
            durability: Durability::None,
            segment_bytes: 1 << 20,
            cache_bytes: 1 << 20,
            reserve_bytes: 0,
            ..JournalConfig::default()
        },
        core: CoreConfig { max_links_per_client: 10, max_history_ids: 10, ..CoreConfig::default() },
        authority: Arc::new(Authority::new(Credentials::development(Anonymous::Deny))),
        max_connections: 10,
        handshake_time_out: Duration::from_secs(60),
        shutdown_time_out: Duration::from_secs(60),
        io_threads: 2,
        ..ServerConfig::default()
    }
}

/// A node that panics as soon as somebody sends to the topic `t`.
fn fragile() -> NodeDriver {
    let core = CoreConfig { describe: |_, _| panic!("as the test wants it"), ..CoreConfig::default() };
    NodeDriver::new(broker_node::in_memory(JournalConfig::default(), core), Arc::default(), None)
}

fn send_to_topic() -> ExecutorItem {
    let path = EntityPath { entity: "t".into(), sub_queue: SubQueue::Main };
    let commands = vec![
        Command::Connect,
        Command::CreateEntity {
            name: "t".into(),
            kind: EntityKind::Topic,
            settings: Box::new(EntitySettings::default()),
            ticket: Ticket(1),
        },
        Command::PublishTo { path, messages: vec![Message::default()], auto_create: false, ticket: None },
    ];
    ExecutorItem::Batch(Batch { client: ClientId(77), commands }, 0)
}

/// The client of [`send_to_topic`].
fn register() -> ExecutorItem {
    ExecutorItem::Register(ClientId(77), NamespaceId::DEFAULT, Arc::default())
}

#[test]
fn after_a_panic_in_the_node_connections_are_told_and_the_server_ends() {
    let server = Server::start(&config()).unwrap();
    server.node.executor().begin(fragile());
    let mut wire = Wire::session(server.addresses()[0], DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    server.node.executor().push(register());
    server.node.executor().push(send_to_topic());
    let error = wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:internal-error");
    drop(wire);
    // Ends without a signal.
    assert_eq!(server.run_until_signal(), Outcome::Panicked);
}

#[test]
fn a_shard_that_panics_recovers_and_its_clients_connect_again() {
    let folder = std::env::temp_dir().join(format!("ferrybus-recovers-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    let mut config = config();
    config.journal.durability = Durability::Os;
    config.data_dir = folder.clone();
    config.entities = vec![crate::EntityPlan::queue("kept", EntitySettings::default())];
    // The journal panics where a caller does not keep to its limit, and the core has been told of a larger one.
    config.journal.max_record_bytes = 4_096;
    let server = Server::start(&config).unwrap();
    let address = server.addresses()[0];
    let mut wire = Wire::session(address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    let messages = vec![Message { payload: vec![7; 8_192].into(), ..Message::default() }];
    let path = EntityPath { entity: "kept".into(), sub_queue: SubQueue::Main };
    let publish = Command::PublishTo { path, messages, auto_create: false, ticket: None };
    server.node.executor().push(register());
    server.node.executor().push(ExecutorItem::Batch(
        Batch { client: ClientId(77), commands: vec![Command::Connect, publish] },
        0,
    ));
    let error = wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:connection:forced");
    let patience = Instant::now() + Duration::from_secs(60);
    while server.node.executor().has_ended() {
        assert!(Instant::now() < patience, "the shard does not recover");
        thread::yield_now();
    }
    let mut wire = Wire::session(address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    // The entity that the journal holds is there again.
    assert!(wire.sender(1, "to-kept", "kept").unwrap().target.is_some());
    drop(wire);
    assert_eq!(server.stop(), Outcome::Stopped);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A disk whose syncs all fail once there is a broker on it.
#[derive(Clone, Default)]
struct SyncFails(Arc<AtomicBool>);

impl Faults for SyncFails {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        let sync = matches!(call, DiskCall::SyncData(..));
        (sync && self.0.load(Ordering::Relaxed)).then_some(io::ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        false
    }
}

/// A node whose first write is on its way, and what will be reported of that write: its sync fails.
fn on_a_failing_disk() -> (NodeDriver, IoDone) {
    let (faults, now) = (SyncFails::default(), Timestamp::from_millis(1));
    let disk = FaultyDisk::new(faults.clone());
    let journal = JournalConfig { reserve_bytes: 0, ..JournalConfig::default() };
    let mut node = broker_node::recover(disk.clone(), journal, CoreConfig::default()).unwrap();
    let mut worker = DiskWorker::new(disk);
    faults.0.store(true, Ordering::Relaxed);
    let ExecutorItem::Batch(batch, _) = send_to_topic() else { unreachable!("it is one") };
    node.handle_batch(now, NamespaceId::DEFAULT, batch);
    while node.work(now) {}
    let write = std::iter::from_fn(|| node.poll_io()).find(broker_log::IoRequest::is_write).unwrap();
    (NodeDriver::new(node, Arc::default(), None), worker.perform(write))
}

#[test]
fn after_a_failed_sync_connections_are_told_nothing_is_acknowledged_and_the_server_ends() {
    let server = Server::start(&config()).unwrap();
    let (node_driver, failed) = on_a_failing_disk();
    server.node.executor().begin(node_driver);
    let mut wire = Wire::session(server.addresses()[0], DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    assert!(!server.node.executor().has_ended());
    server.node.executor().push(ExecutorItem::Io(failed));
    let error = wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:internal-error");
    assert!(server.node.executor().has_ended(), "what is brought now is handled by nobody");
    drop(wire);
    assert_eq!(server.run_until_signal(), Outcome::JournalFailed);
}

/// The same with a port for those who look after the broker, who may read its metrics.
fn watched() -> ServerConfig {
    let observe =
        crate::ObservabilityConfig { anonymous_metrics: true, ..crate::ObservabilityConfig::default() };
    ServerConfig { listen_http: vec!["127.0.0.1:0".parse().unwrap()], observe, ..config() }
}

/// Status and body of what somebody is told who asks without a log-in.
fn probe(server: &Server, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Demands that everybody is told this, each in their words.
fn everybody_is_told(server: &Server, reason: &str) {
    let unavailable = format!(r#"{{"reason":"{reason}","status":"unavailable"}}"#);
    let cases = [
        ("/healthz", unavailable.clone()),
        ("/readyz", unavailable.clone()),
        ("/readyz/sends", unavailable),
        ("/health", format!(r#"{{"message":"{reason}","status":"unhealthy"}}"#)),
        ("/metrics", format!(r#"{{"error":"{reason}"}}"#)),
    ];
    for (path, expected) in cases {
        assert_eq!(probe(server, path), (503, expected), "{path}");
    }
}

#[test]
fn a_broker_whose_journal_has_failed_says_so_to_its_end() {
    let server = Server::start(&watched()).unwrap();
    let (node_driver, failed) = on_a_failing_disk();
    server.node.executor().begin(node_driver);
    assert_eq!(probe(&server, "/readyz").0, 200);
    server.node.executor().push(ExecutorItem::Io(failed));
    let mut stop = server.stop.subscribe();
    assert_eq!(server.runtime.as_ref().unwrap().block_on(shutdown::ordered(&mut stop)), Shutdown::Failed);
    everybody_is_told(&server, "the journal failed, nothing is accepted until a restart");
    assert_eq!(server.run_until_signal(), Outcome::JournalFailed);
}

/// Locked, it holds up the node of [`slow`].
static HELD: Mutex<()> = Mutex::new(());

/// A node that is stuck with what is sent to the topic `t` while [`HELD`] is locked.
fn slow() -> NodeDriver {
    let describe = |_, payload: &bytes::Bytes| {
        drop(HELD.lock());
        Message { payload: payload.clone(), ..Message::default() }
    };
    let core = CoreConfig { describe, ..CoreConfig::default() };
    NodeDriver::new(broker_node::in_memory(JournalConfig::default(), core), Arc::default(), None)
}

#[test]
fn a_core_that_does_not_answer_is_told_from_one_that_does() {
    let server = Server::start(&watched()).unwrap();
    server.node.executor().begin(slow());
    assert_eq!(probe(&server, "/healthz").0, 200);
    let held = HELD.lock().unwrap();
    let executor = Arc::clone(server.node.executor());
    executor.push(register());
    let stuck = thread::spawn(move || executor.push(send_to_topic()));
    let patience = Instant::now() + Duration::from_secs(60);
    while probe(&server, "/healthz").0 == 200 {
        assert!(Instant::now() < patience, "the node is stuck, and nobody says so");
    }
    everybody_is_told(&server, "the broker did not answer within 2 s");
    drop(held);
    stuck.join().unwrap();
    while probe(&server, "/readyz").0 != 200 {
        assert!(Instant::now() < patience, "the node works, and nobody says so");
    }
    assert_eq!(probe(&server, "/metrics").0, 200);
    assert_eq!(server.stop(), Outcome::Stopped);
}

#[test]
fn a_server_that_is_dropped_waits_for_no_goodbye() {
    let started = Instant::now();
    let server = Server::start(&config()).unwrap();
    let mut wire = Wire::session(server.addresses()[0], DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    let executor = Arc::downgrade(server.node.executor());
    drop(server);
    // The threads of connections are not waited for: each lets go of what it has when it next runs.
    while executor.upgrade().is_some() {
        assert!(started.elapsed() < Duration::from_secs(30), "a thread that holds the executor is left");
        thread::yield_now();
    }
    assert!(wire.rest().is_ok(), "the socket has ended");
    assert!(started.elapsed() < Duration::from_secs(30));
}

mod marks;
mod shares;
