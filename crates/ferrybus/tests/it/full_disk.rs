//! The real process on a file system that is really full: one of its own in memory, so small that it fills up.
//!
//! Making it takes a name space of one's own (`unshare` of util-linux). Where the system forbids that, the tests fail.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File},
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use amqp_codec::{
    performative::{DeliveryState, Performative, Transfer},
    types::ReceiverSettleMode,
};
use testkit::Wire;

use crate::{
    memory::{address, log_in},
    support::{Broker, Folder, code, ferrybus, stderr, until},
};

/// So much is kept free for settlements and cleaning.
const RESERVE: &str = "disk_reserve_bytes = \"3 MiB\"";
const CONFIGURATION: &str = "durability = \"fsync\"\nlisten = [\"127.0.0.1:0\"]\n\
    [limits]\nshutdown_time_out = \"1s\"\n\
    [journal]\nsegment_bytes = \"1 MiB\"\ncache_bytes = \"1 MiB\"\ndisk_reserve_bytes = \"3 MiB\"\n\
    [[queue]]\nname = \"orders\"\n";
/// Of the file system, in MiB.
const SIZE: u32 = 16;
/// Of a message.
const BODY_BYTES: usize = 50_000;
/// Lines of the log: the disk is full, and it has room again.
const FULL: &str = "the disk is full: sends are refused";
const ROOM: &str = "the disk has room again: sends are accepted";
/// More messages than the file system has room for.
const MOST: u32 = 400;
/// Number of attempts of a client to send again.
const ATTEMPTS: u32 = 20_000;

/// A file system that lasts until it is dropped, whoever is killed meanwhile.
pub(crate) struct SmallDisk {
    holder: Child,
    root: PathBuf,
}

impl SmallDisk {
    pub(crate) fn new(folder: &Folder) -> Self {
        let place = folder.0.join("disk");
        fs::create_dir(&place).unwrap();
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", MOUNT])
            .args([&place, Path::new(&SIZE.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`unshare` of util-linux is there");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n", "users must be allowed to make name spaces and mount `tmpfs` in them");
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
        Self { holder, root: root.join(place.strip_prefix("/").unwrap()) }
    }

    /// A file that takes so many bytes.
    fn take(&self, bytes: usize) {
        fs::write(self.others(), vec![7; bytes]).unwrap();
    }

    /// A file that takes all that is left.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.others()).unwrap();
        let error = loop {
            if let Err(error) = file.write(&[7; 4096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    /// Gives back the disk space that was taken.
    pub(crate) fn relieve(&self) {
        fs::remove_file(self.others()).unwrap();
    }

    fn others(&self) -> PathBuf {
        self.root.join("of-somebody-else")
    }

    /// Folder of the journal.
    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The names of its files.
    fn files(&self) -> BTreeSet<OsString> {
        fs::read_dir(self.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    pub(crate) fn broker(&self, folder: &Folder) -> Broker {
        let data = self.data();
        let line = ["--data-dir", data.to_str().unwrap(), "--log-level", "info"];
        Broker::logged(&folder.0, &line, &folder.0.join("log"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

/// `cat` ends with the test that holds its input.
const MOUNT: &str = "mount -t tmpfs -o size=\"$1\"m,mode=700 tmpfs \"$0\" && echo mounted && exec cat";

fn body(number: u32) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(BODY_BYTES, 0x5a);
    body
}

/// Sends a message on link 1; whether it was accepted. There is one reason only not to.
pub(crate) fn is_accepted(wire: &mut Wire, id: u32, number: u32) -> bool {
    wire.script.transfer(0, 1, id, false, &testkit::data(&body(number)));
    match wire.disposed().unwrap().state {
        Some(DeliveryState::Accepted) => true,
        Some(DeliveryState::Rejected(Some(error))) => {
            assert_eq!(error.condition.as_str(), "amqp:resource-limit-exceeded", "{error:?}");
            false
        }
        other => panic!("{other:?}"),
    }
}

/// Receives these messages in this order, and completes each.
pub(crate) fn complete(broker: &Broker, numbers: Range<u32>) {
    let mut wire = log_in(address(broker));
    wire.receiver(1, "out", "orders", Some(ReceiverSettleMode::Second)).unwrap();
    for (count, number) in (0..).zip(numbers) {
        wire.script.credit(0, 1, count, 1, false);
        let received = wire.transferred().unwrap();
        let Performative::Transfer(Transfer { delivery_id: Some(id), more: false, .. }) =
            received.performative
        else {
            panic!("{:?}", received.performative)
        };
        assert!(received.payload.ends_with(&body(number)), "message {number} is another one");
        wire.script.disposition(0, id, id, false, Some(DeliveryState::Accepted));
        // The broker settles when the completion is durable.
        let settled = wire.disposed().unwrap();
        assert_eq!((settled.first, settled.state), (id, Some(DeliveryState::Accepted)));
    }
    wire.script.detach(0, 1, true);
    wire.detached().unwrap();
}

#[test]
fn a_full_disk_refuses_sends_and_loses_nothing() {
    let folder = Folder::new("full-disk");
    folder.write("ferrybus.toml", CONFIGURATION);
    let disk = SmallDisk::new(&folder);
    let broker = disk.broker(&folder);
    let mut wire = log_in(address(&broker));
    wire.sender(1, "in", "orders").unwrap();
    let stored = (0..MOST).find(|number| !is_accepted(&mut wire, *number, *number)).unwrap();
    assert!(stored > 50, "{stored} messages fit");
    disk.fill();
    assert!(!is_accepted(&mut wire, stored + 1, stored));
    let probe = |arguments: &[&str]| {
        let server = ["health", "--server", &broker.addresses[0]];
        code(&ferrybus(&folder.0, &[&server, arguments].concat()))
    };
    assert_eq!((probe(&[]), probe(&["--sends"]), probe(&["--live"])), (0, 1, 0));
    // A receiver that comes now is served, which is what empties the disk.
    complete(&broker, 0..10);
    let log = || fs::read_to_string(folder.0.join("log")).unwrap();
    until(|| log().contains(FULL));
    broker.kill();
    // Once, whatever was refused; with the place and the figures.
    let lines: Vec<String> = log().lines().filter(|line| line.contains(FULL)).map(Into::into).collect();
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    let path = format!("path={}", disk.data().display());
    for part in [" ERROR ", &path, "free_bytes=", "reserve_bytes=3145728"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!log().contains(ROOM), "{}", log());

    // Not a byte is free.
    let broker = disk.broker(&folder);
    let mut wire = log_in(address(&broker));
    wire.sender(1, "in", "orders").unwrap();
    assert!(!is_accepted(&mut wire, 0, stored));
    complete(&broker, 10..stored);
    // Completed messages have made room, though the other file is still there.
    let id = (1..ATTEMPTS).find(|id| is_accepted(&mut wire, *id, stored)).expect("sends are taken again");
    assert!(is_accepted(&mut wire, id + 1, stored + 1));
    until(|| log().contains(ROOM));
    assert!(log().lines().any(|line| line.contains(ROOM) && line.contains(" INFO ")), "{}", log());
    broker.kill();

    let broker = disk.broker(&folder);
    complete(&broker, stored..stored + 2);
    assert!(broker.stop().success());
}

#[test]
fn a_reserve_below_the_size_of_a_file_of_the_journal_keeps_room_for_one_file() {
    let folder = Folder::new("small-reserve");
    let small = CONFIGURATION.replace(RESERVE, "disk_reserve_bytes = \"64 KiB\"");
    folder.write("ferrybus.toml", &small.replace("segment_bytes = \"1 MiB\"", "segment_bytes = \"4 MiB\""));
    let disk = SmallDisk::new(&folder);
    let broker = disk.broker(&folder);
    let mut wire = log_in(address(&broker));
    wire.sender(1, "in", "orders").unwrap();
    let stored = (0..MOST).find(|number| !is_accepted(&mut wire, *number, *number)).unwrap();
    assert!(stored > 50, "{stored} messages fit");
    until(|| fs::read_to_string(folder.0.join("log")).unwrap().contains("reserve_bytes=4194304"));
    complete(&broker, 0..stored);
    let id = (stored + 1..ATTEMPTS).find(|id| is_accepted(&mut wire, *id, stored));
    assert!(id.is_some(), "sends are taken again");
    assert!(broker.stop().success());
}

#[test]
fn a_disk_that_is_full_without_a_reserve_ends_the_process_with_1_and_loses_nothing() {
    let folder = Folder::new("no-reserve");
    folder.write("ferrybus.toml", &CONFIGURATION.replace(RESERVE, "disk_reserve_bytes = 0"));
    let disk = SmallDisk::new(&folder);
    disk.take(4 << 20);
    let broker = disk.broker(&folder);
    let mut wire = log_in(address(&broker));
    wire.sender(1, "in", "orders").unwrap();
    let mut stored = 0;
    let sends = &mut |number| {
        wire.script.transfer(0, 1, number, false, &testkit::data(&body(number)));
        wire.next_frame().is_ok_and(|frame| {
            let answer = &frame.performative;
            matches!(answer, Performative::Disposition(it) if it.state == Some(DeliveryState::Accepted))
        })
    };
    while sends(stored) {
        stored += 1;
    }
    assert!((50..MOST).contains(&stored), "{stored} messages fit");
    assert_eq!(broker.end().code(), Some(1));
    let log = fs::read_to_string(folder.0.join("log")).unwrap();
    assert!(log.contains("no space left on its disk"), "{log}");

    // A supervisor starts it again and again: that leaves nothing behind.
    let files = disk.files();
    for _ in 0..3 {
        let failed = ferrybus(&folder.0, &["--data-dir", disk.data().to_str().unwrap()]);
        assert_eq!(code(&failed), 1, "{}", stderr(&failed));
        assert_eq!(disk.files(), files);
    }

    disk.relieve();
    let broker = disk.broker(&folder);
    complete(&broker, 0..stored);
    assert!(broker.stop().success());
}
