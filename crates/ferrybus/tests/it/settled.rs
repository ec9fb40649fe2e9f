//! Records that the real process writes for receivers that settle, and those that survive a kill.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Instant,
};

use amqp_codec::{
    performative::{DeliveryState, Performative},
    types::ReceiverSettleMode,
};
use testkit::Wire;

use crate::{
    memory::{address, log_in},
    support::{Broker, Folder},
};

/// With `fsync`, so that what waits for the disk waits for a sync.
const SERVE: [&str; 6] = ["--listen", "127.0.0.1:0", "--queue", "orders", "--data-dir", "data"];
const FIRST: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::First);
/// `RootManageSharedAccessKey:SAS_KEY_VALUE`.
const LOGIN: &str = "Authorization: Basic Um9vdE1hbmFnZVNoYXJlZEFjY2Vzc0tleTpTQVNfS0VZX1ZBTFVF\r\n";
/// Longest wait of an unawaited completion, in milliseconds.
const FLUSH_MS: u128 = 10;

/// So many syncs the journal has made.
fn syncs(broker: &Broker) -> u64 {
    let mut stream = TcpStream::connect(address(broker)).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{LOGIN}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("ferrybus_journal_syncs_total{shard=\"0\"} "));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

/// Sends messages that say their numbers, and waits until all are accepted.
fn send(broker: &Broker, count: u32) {
    let mut wire = log_in(address(broker));
    wire.sender(1, "in", "orders").unwrap();
    for number in 0..count {
        wire.script.transfer(0, 1, number, false, &testkit::data(&number.to_be_bytes()));
    }
    let mut accepted = 0;
    while accepted < count {
        let answer = wire.disposed().unwrap();
        assert_eq!(answer.state, Some(DeliveryState::Accepted));
        accepted += answer.last.unwrap_or(answer.first) - answer.first + 1;
    }
}

fn receiver(broker: &Broker, mode: Option<ReceiverSettleMode>) -> Wire {
    let mut wire = log_in(address(broker));
    wire.receiver(1, "out", "orders", mode).unwrap();
    wire
}

/// The next delivery's id and the number in it.
fn next(wire: &mut Wire) -> (u32, u32) {
    let frame = wire.transferred().unwrap();
    let Performative::Transfer(transfer) = frame.performative else { panic!() };
    let number = frame.payload.last_chunk().unwrap();
    (transfer.delivery_id.unwrap(), u32::from_be_bytes(*number))
}

#[test]
fn a_backlog_that_is_drained_with_settled_dispositions_hardly_syncs() {
    const MESSAGES: u32 = 1_000;
    let folder = Folder::new("settled-syncs");
    let broker = Broker::start(&folder.0, &SERVE);
    send(&broker, MESSAGES);
    let mut wire = receiver(&broker, FIRST);
    let (before, began) = (syncs(&broker), Instant::now());
    // One at a time: each settlement comes with the credit for the next message.
    wire.script.credit(0, 1, 0, 1, false);
    for received in 1..=MESSAGES {
        let (id, number) = next(&mut wire);
        assert_eq!(number, received - 1);
        wire.script.disposition(0, id, id, true, Some(DeliveryState::Accepted));
        wire.script.credit(0, 1, received, u32::from(received < MESSAGES), false);
    }
    // All of it has arrived when this is answered.
    wire.script.close(None);
    wire.closed().unwrap();
    let (made, millis) = (syncs(&broker) - before, began.elapsed().as_millis());
    // A few more for the journal's own needs.
    let most = u64::try_from(millis / FLUSH_MS).unwrap() + 5;
    assert!(made <= most, "{made} syncs in {millis} ms for {MESSAGES} settlements; {most} are due by time");
    assert!(broker.stop().success());
    let again = Broker::start(&folder.0, &SERVE);
    let mut wire = receiver(&again, None);
    wire.script.credit(0, 1, 0, 1, true);
    assert!(wire.until(|frame| !matches!(frame, Performative::Attach(_))).is_ok_and(|frame| {
        matches!(frame.performative, Performative::Flow(flow) if flow.drain && flow.link_credit == Some(0))
    }));
}

#[test]
fn a_kill_undoes_no_settlement_that_was_confirmed_and_no_message() {
    const EACH: u32 = 20;
    let folder = Folder::new("settled-kill");
    let broker = Broker::start(&folder.0, &SERVE);
    send(&broker, 4 * EACH);
    let mut wire = receiver(&broker, FIRST);
    wire.script.credit(0, 1, 0, 3 * EACH, false);
    let got: Vec<_> = (0..3 * EACH).map(|_| next(&mut wire)).collect();
    let mut deleting = receiver(&broker, None);
    deleting.script.credit(0, 1, 0, EACH, false);
    let mut gone: BTreeSet<u32> = (0..EACH).map(|_| next(&mut deleting).1).collect();
    let (mut maybe, mut left) = (BTreeSet::new(), BTreeSet::new());
    // In turn: settled at once, settled with an answer, left alone; the last word is an answer.
    let mut answers = 0;
    for (place, (id, number)) in got.into_iter().enumerate() {
        match place % 3 {
            0 => {
                wire.script.disposition(0, id, id, true, Some(DeliveryState::Accepted));
                maybe.insert(number);
            }
            1 => {
                wire.script.disposition(0, id, id, false, Some(DeliveryState::Accepted));
                gone.insert(number);
                answers += 1;
            }
            _ => {
                left.insert(number);
            }
        }
    }
    while answers > 0 {
        let answer = wire.disposed().unwrap();
        assert_eq!((answer.settled, answer.state), (true, Some(DeliveryState::Accepted)));
        answers -= answer.last.unwrap_or(answer.first) - answer.first + 1;
    }
    broker.kill();
    let broker = Broker::start(&folder.0, &SERVE);
    let mut wire = receiver(&broker, None);
    wire.script.credit(0, 1, 0, 8 * EACH, true);
    let mut back = BTreeSet::new();
    loop {
        let frame = wire.next_frame().unwrap();
        match frame.performative {
            Performative::Transfer(_) => {
                back.insert(u32::from_be_bytes(*frame.payload.last_chunk().unwrap()));
            }
            Performative::Flow(flow) if flow.drain => break,
            _ => {}
        }
    }
    assert!(back.is_disjoint(&gone), "confirmed, and back: {back:?}");
    assert!(back.is_superset(&left), "not settled, and gone: {back:?}");
    assert!(back.difference(&left).all(|number| maybe.contains(number)), "{back:?}");
}
