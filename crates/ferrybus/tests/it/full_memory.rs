//! The real process with a limit of its memory.

use std::fs;

use testkit::Wire;

use crate::{
    full_disk::{complete, is_accepted},
    memory::{MIB, address, log_in, of_process},
    support::{Broker, Folder, code, ferrybus, until},
};

/// Without a disk each message lies in the memory.
const CONFIGURATION: &str = "durability = \"none\"\nlisten = [\"127.0.0.1:0\"]\n\
    [limits]\nshutdown_time_out = \"1s\"\nmax_memory = \"96 MiB\"\n\
    [journal]\nsegment_bytes = \"1 MiB\"\ncache_bytes = \"1 MiB\"\n\
    [[queue]]\nname = \"orders\"\n";
const LIMIT: u64 = 96 * MIB;
/// Bytes that a sender which waits for each answer sends between two looks at the memory.
const BETWEEN: u64 = 24 * MIB;
/// Lines of the log.
const FULL: &str = "the memory is full: sends and new entities are refused";
const ROOM: &str = "the memory has room again: sends are accepted";
/// More messages of 50 KB than have room.
const MOST: u32 = 4_000;
/// Attempts of a client to send again.
const ATTEMPTS: u32 = 200_000;

fn fill(wire: &mut Wire, from: u32) -> u32 {
    (from..from + MOST).find(|id| !is_accepted(wire, *id, *id)).expect("sends are refused")
}

#[test]
fn a_process_at_its_memory_limit_refuses_sends_until_receivers_have_emptied_it() {
    let folder = Folder::new("full-memory");
    folder.write("ferrybus.toml", CONFIGURATION);
    let log_file = folder.0.join("log");
    let broker = Broker::logged(&folder.0, &["--log-level", "info"], &log_file);
    let log = || fs::read_to_string(&log_file).unwrap();
    let mut wire = log_in(address(&broker));
    wire.sender(1, "in", "orders").unwrap();
    let stored = fill(&mut wire, 0);
    assert!(stored > 200, "{stored} messages have room");
    until(|| log().contains(FULL));
    let sends = || {
        let server = ["health", "--server", &broker.addresses[0]];
        (
            code(&ferrybus(&folder.0, &server)),
            code(&ferrybus(&folder.0, &[&server[..], &["--sends"]].concat())),
        )
    };
    assert_eq!(sends(), (0, 1));
    // A receiver that comes now is served, which is what empties the memory.
    complete(&broker, 0..stored);
    let again =
        (stored + 1..ATTEMPTS).find(|id| is_accepted(&mut wire, *id, *id)).expect("sends are taken again");
    until(|| log().contains(ROOM));
    assert_eq!(sends(), (0, 0));
    // The same once more: nothing of the first time is left.
    let stored_again = fill(&mut wire, again + 1) - again;
    assert!(stored_again > stored / 2, "{stored_again} of {stored} messages have room");
    complete(&broker, again..again + stored_again);
    let peak = of_process(&broker, "VmHWM:");
    assert!(peak < LIMIT + BETWEEN, "{} MiB", peak / MIB);
    assert!(broker.stop().success());
}
