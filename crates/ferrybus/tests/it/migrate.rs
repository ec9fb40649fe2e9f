//! `ferrybus journal migrate`: a data folder that ferrybus 0.1.0 wrote.
//!
//! The fixture was filled by the Python SDK: queues with and without sessions, partitions and duplicate detection, a topic with
//! rules and actions, messages that are scheduled, deferred, abandoned and dead-lettered, and a session's state. Beside it
//! stands what 0.1.0 itself showed of it, command by command.

use std::{fs, path::Path};

use broker_core::{Batch, ClientId, Command, CoreConfig, EntityPath, Message, SubQueue, Ticket, Timestamp};
use broker_log::{JournalConfig, RealDisk};
use broker_node::{NamespaceId, Node};
use bytes::Bytes;

use crate::support::{Broker, Folder, code, ferrybus, stderr, stdout};

const SERVE: [&str; 4] = ["--listen", "127.0.0.1:0", "--data", "data"];

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A folder with a copy of the fixture in `data`.
fn of_0_1(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir(folder.0.join("data")).unwrap();
    for entry in fs::read_dir(fixture("data-0.1.0")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.0.join("data").join(entry.file_name())).unwrap();
    }
    folder
}

/// Without the time of the last access, which looking at an entity changes.
fn without_access_times(text: &str) -> String {
    let line = |line: &str| match line.split_once("\"accessed_at\":\"") {
        Some((before, after)) => format!("{before}{}", after.split_once("\",").unwrap().1),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_broker_refuses_a_journal_of_0_1_and_says_how_to_migrate_it() {
    let folder = of_0_1("migrate-refused");
    let before = fs::read(folder.0.join("data/00000000.segment")).unwrap();
    let refused = ferrybus(&folder.0, &[&["serve"], &SERVE[..]].concat());
    assert_ne!(code(&refused), 0);
    assert!(stderr(&refused).contains("`ferrybus journal migrate`"), "{}", stderr(&refused));
    assert_eq!(fs::read(folder.0.join("data/00000000.segment")).unwrap(), before);
    // Its journal can be checked as it is.
    let checked = ferrybus(&folder.0, &["journal", "check", "data"]);
    assert_eq!(code(&checked), 0, "{}", stderr(&checked));
    assert!(stdout(&checked).contains("sound     72 records"), "{}", stdout(&checked));
}

#[test]
fn after_a_migration_a_broker_shows_what_0_1_showed() {
    let folder = of_0_1("migrate");
    let done = ferrybus(&folder.0, &["journal", "migrate", "data"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(stdout(&done).starts_with("copied    72 records of "), "{}", stdout(&done));
    assert!(folder.0.join("data/format-1/00000000.segment").exists());
    let checked = ferrybus(&folder.0, &["journal", "check", "data"]);
    assert_eq!(code(&checked), 0, "{}", stderr(&checked));

    // The second start reads what the first one wrote.
    for start in 1..=2 {
        let broker = Broker::start(&folder.0, &SERVE);
        let shown = fs::read_to_string(fixture("data-0.1.0.shown")).unwrap();
        let mut sections = 0;
        for section in shown.split("$ ").skip(1) {
            let (line, expected) = section.split_once('\n').unwrap();
            let mut words: Vec<&str> = line.split(' ').collect();
            words.extend(["--connection-string", &broker.connection_string]);
            let output = ferrybus(&folder.0, &words);
            assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
            let found = without_access_times(&stdout(&output));
            assert_eq!(found, without_access_times(expected), "start {start}: {line}");
            sections += 1;
        }
        assert_eq!(sections, 14);
        assert!(broker.stop().success());
    }
}

/// The node of this folder, which runs without the broker's clock.
fn node_of(folder: &Folder) -> Node {
    let disk = RealDisk::open(folder.0.join("data")).unwrap();
    broker_node::recover(disk, JournalConfig::default(), CoreConfig::default()).unwrap()
}

/// Messages of `once` after a client has sent one with this message-id.
fn messages_after_sending(node: &mut Node, now: Timestamp, message_id: &str) -> u64 {
    let message = Message {
        payload: Bytes::from_static(b"again"),
        message_id: Some(message_id.into()),
        ..Message::default()
    };
    let publish = Command::PublishTo {
        path: EntityPath { entity: "once".into(), sub_queue: SubQueue::Main },
        messages: vec![message],
        auto_create: false,
        ticket: Some(Ticket(1)),
    };
    let batch = Batch { client: ClientId(1), commands: vec![Command::Connect, publish] };
    node.handle_batch(now, NamespaceId::DEFAULT, batch);
    while node.work(now) {}
    node.core().entity("once").unwrap().active
}

#[test]
fn after_a_migration_duplicate_detection_knows_the_ids_of_0_1_until_their_window_ends() {
    // `id2` came at 2026-11-25T09:22:08.841Z, and the window of `once` is a day.
    const CAME: u64 = 1_795_598_528_841;
    const DAY: u64 = 24 * 60 * 60 * 1_000;
    let folder = of_0_1("migrate-duplicates");
    let done = ferrybus(&folder.0, &["journal", "migrate", "data"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let mut node = node_of(&folder);
    let at = Timestamp::from_millis;
    assert_eq!(messages_after_sending(&mut node, at(CAME + DAY - 1), "id2"), 3);
    assert_eq!(messages_after_sending(&mut node, at(CAME + DAY - 1), "id4"), 4);
    assert_eq!(messages_after_sending(&mut node, at(CAME + DAY + 1_000), "id2"), 5);
}

#[test]
fn a_folder_that_needs_no_migration_is_left_alone() {
    let folder = Folder::new("migrate-present");
    assert!(Broker::start(&folder.0, &SERVE).stop().success());
    let refused = ferrybus(&folder.0, &["journal", "migrate", "data"]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("does not have the format of ferrybus 0.1.0"), "{}", stderr(&refused));
    let nothing = ferrybus(&folder.0, &["journal", "migrate", "missing"]);
    assert_eq!(code(&nothing), 2, "{}", stderr(&nothing));
}
