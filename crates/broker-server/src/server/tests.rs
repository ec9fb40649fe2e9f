use std::sync::atomic::Ordering;

use std::{io, path::PathBuf, sync::atomic::AtomicBool, time::Instant};

use broker_auth::{Anonymous, Authority, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_core::{CoreConfig, EntityKind, EntityPath, EntitySettings, Expiry, Message, SubQueue, Timestamp};
use broker_log::{DiskCall, DiskWorker, Durability, Faults, FaultyDisk, IoDone, JournalConfig};
use testkit::Wire;

use super::*;
use crate::runner::Runner;

fn config() -> ServerConfig {
    ServerConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        listen_tls: Vec::new(),
        listen_http: Vec::new(),
        tls: None,
        data_dir: PathBuf::new(),
        durability: Durability::None,
        segment_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        disk_reserve_bytes: 0,
        entities: Vec::new(),
        auto_create: false,
        expiry: Expiry::Prompt,
        authority: Arc::new(Authority::new(Credentials::development(Anonymous::Deny))),
        key_sources: Vec::new(),
        max_connections: 10,
        max_links_per_connection: 10,
        max_remembered_ids: 10,
        quotas: crate::Quotas::default(),
        max_message_bytes: 1 << 20,
        max_frame_bytes: 65_536,
        idle_time_out: Duration::from_secs(120),
        max_in_flight_bytes: 256 << 20,
        http_write_time_out: Duration::from_secs(30),
        handshake_time_out: Duration::from_secs(60),
        shutdown_time_out: Duration::from_secs(60),
        io_threads: 2,
        foreign_origins: false,
        testing: false,
        observe: crate::ObserveConfig::default(),
        container_id: "ferrybus".to_owned(),
    }
}

/// A node that panics as soon as somebody sends to the topic `t`.
fn fragile() -> Runner {
    let core = CoreConfig { describe: |_, _| panic!("as the test wants it"), ..CoreConfig::default() };
    Runner::new(broker_node::in_memory(JournalConfig::default(), core), Arc::default(), None)
}

fn send_to_topic() -> Item {
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
    Item::Batch(Batch { client: ClientId(77), commands }, 0)
}

#[test]
fn after_a_panic_in_the_node_connections_are_told_and_the_server_ends() {
    let server = Server::start(&config()).unwrap();
    server.inbox.begin(fragile());
    let mut wire = Wire::session(server.addresses()[0], DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    server.inbox.push(send_to_topic());
    let error = wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:internal-error");
    drop(wire);
    // Ends without a signal.
    assert_eq!(server.run_until_signal(), Outcome::Panicked);
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
fn on_a_failing_disk() -> (Runner, IoDone) {
    let (faults, now) = (SyncFails::default(), Timestamp::from_millis(1));
    let disk = FaultyDisk::new(faults.clone());
    let journal = JournalConfig { reserve_bytes: 0, ..JournalConfig::default() };
    let mut node = broker_node::recover(disk.clone(), journal, CoreConfig::default()).unwrap();
    let mut worker = DiskWorker::new(disk);
    faults.0.store(true, Ordering::Relaxed);
    let Item::Batch(batch, _) = send_to_topic() else { unreachable!("it is one") };
    node.handle_batch(now, batch);
    while node.work(now) {}
    let write = std::iter::from_fn(|| node.poll_io()).find(broker_log::IoRequest::is_write).unwrap();
    (Runner::new(node, Arc::default(), None), worker.perform(write))
}

#[test]
fn after_a_failed_sync_connections_are_told_nothing_is_acknowledged_and_the_server_ends() {
    let server = Server::start(&config()).unwrap();
    let (runner, failed) = on_a_failing_disk();
    server.inbox.begin(runner);
    let mut wire = Wire::session(server.addresses()[0], DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    assert!(!server.inbox.has_ended());
    server.inbox.push(Item::Io(failed));
    let error = wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:internal-error");
    assert!(server.inbox.has_ended(), "what is brought now is handled by nobody");
    drop(wire);
    assert_eq!(server.run_until_signal(), Outcome::JournalFailed);
}

#[test]
fn a_server_that_is_dropped_waits_for_no_goodbye() {
    let started = Instant::now();
    let server = Server::start(&config()).unwrap();
    let mut wire = Wire::session(server.addresses()[0], DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    let inbox = Arc::downgrade(&server.inbox);
    drop(server);
    assert!(inbox.upgrade().is_none(), "no thread is left that holds it");
    assert!(wire.rest().is_ok(), "the socket has ended");
    assert!(started.elapsed() < Duration::from_secs(30));
}
