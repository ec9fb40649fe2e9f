//! The real process on a disk that fails. No file of it may grow beyond a limit, so the write of a large message fails as
//! on a broken disk: in the midst, and for good.

use std::{fs, process::Command};

use amqp_codec::performative::{DeliveryState, Performative, Transfer};
use amqp_codec::types::ReceiverSettleMode;
use testkit::Script;

use crate::{
    memory::{address, log_in},
    support::{Broker, Folder, command},
};

const CONFIGURATION: &str = "durability = \"fsync\"\nlisten = [\"127.0.0.1:0\"]\n\
    [limits]\nmax_message_bytes = \"8 MiB\"\nshutdown_time_out = \"1s\"\n\
    [journal]\nsegment_bytes = \"1 MiB\"\n\
    [[queue]]\nname = \"orders\"\n";
/// `ulimit` counts in units of 512 bytes: 4 MiB, more than a segment and less than the message.
const LIMITED: &str = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" \"$@\"";

/// The command line of the broker, under the limit.
fn limited(folder: &Folder) -> Command {
    let broker = command(&folder.0, &[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", LIMITED]).arg(broker.get_program()).current_dir(&folder.0);
    for (name, value) in broker.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stdin(std::process::Stdio::null());
    limited
}

#[test]
fn a_failed_write_ends_the_process_with_1_and_loses_nothing_that_was_acknowledged() {
    let folder = Folder::new("failing-disk");
    folder.write("ferrybus.toml", CONFIGURATION);
    let log = folder.0.join("log");
    let broker = Broker::ready(limited(&folder).stderr(fs::File::create(&log).unwrap()));
    let mut wire = log_in(address(&broker));
    wire.sender(1, "in", "orders").unwrap();
    wire.script.transfer(0, 1, 0, false, &testkit::data(b"acknowledged"));
    assert_eq!(wire.disposed().unwrap().state, Some(DeliveryState::Accepted));
    let large = testkit::data(&vec![7; 6 << 20]);
    let mut pieces = large.chunks(60_000).peekable();
    while let Some(piece) = pieces.next() {
        let more = pieces.peek().is_some();
        wire.script.transfer_with(0, Transfer { more, ..Script::transfer_frame(1, 1, false) }, piece);
        wire.flush().unwrap();
    }
    // The connection is told and closed, or just closed; nothing is acknowledged on it.
    while let Ok(frame) = wire.next_frame() {
        assert!(!matches!(frame.performative, Performative::Disposition(_)), "{:?}", frame.performative);
        if let Performative::Close(close) = frame.performative {
            assert!(close.error.is_some());
            break;
        }
    }
    drop(wire);
    assert_eq!(broker.end().code(), Some(1));
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("the journal failed, nothing more was acknowledged"), "{log}");

    let broker = Broker::start(&folder.0, &[]);
    let mut wire = log_in(address(&broker));
    wire.receiver(2, "out", "orders", Some(ReceiverSettleMode::First)).unwrap();
    wire.script.credit(0, 2, 0, 1, false);
    let received = wire.transferred().unwrap();
    assert!(received.payload.ends_with(b"acknowledged"), "{:?}", received.payload);
    assert!(broker.stop().success());
}
