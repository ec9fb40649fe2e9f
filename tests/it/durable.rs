//! What a restart keeps, and what it refuses.

use std::{fs, path::PathBuf};

use amqp_codec::types::ReceiverSettleMode;
use broker_server::{Outcome, Server};

use crate::{
    broker::{Broker, Folder, QUEUE, durable},
    message::{Delivery, message},
};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::text).collect()
}

/// Everything in the queue, removed.
fn everything(broker: &Broker) -> Vec<Delivery> {
    let mut client = broker.plain();
    client.receiver(1, QUEUE, None);
    client.drain(0, 1, 100_000)
}

#[test]
fn accepted_messages_survive_a_stop_and_a_crash_and_completed_ones_stay_gone() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["completed", "locked", "waiting"]);
    client.receiver(2, QUEUE, SECOND);
    let received = client.receive(2, 2);
    client.complete(&received[0]);
    // The files at this moment are what a crash would leave; nothing was closed.
    let image = folder.image();
    let crashed = Broker::durable(&image.0);
    assert_eq!(texts(&everything(&crashed)), ["locked", "waiting"], "after a crash");
    client.close();
    assert_eq!(broker.stop(), Outcome::Stopped);
    let restarted = Broker::durable(&folder.0);
    let left = everything(&restarted);
    assert_eq!(texts(&left), ["locked", "waiting"], "after a stop");
    assert_eq!(left[0].sequence_number(), received[1].sequence_number());
}

#[test]
fn a_restart_goes_on_counting_where_it_was() {
    let folder = Folder::new();
    let mut numbers = Vec::new();
    for round in 0..3 {
        let broker = Broker::durable(&folder.0);
        let mut client = broker.plain();
        client.sender(1, QUEUE);
        client.accepted(1, &["a", "b"]);
        // The last round leaves the queue empty, so that no message carries the number over.
        let received = everything(&broker);
        assert_eq!(received.len(), 2, "round {round}");
        numbers.extend(received.iter().map(Delivery::sequence_number));
        client.close();
        assert_eq!(broker.stop(), Outcome::Stopped);
    }
    let first = numbers[0];
    assert_eq!(numbers, (first..first + 6).collect::<Vec<_>>());
}

#[test]
fn a_restart_ends_all_locks() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["m"]);
    client.receiver(2, QUEUE, SECOND);
    client.receive(2, 1);
    let image = folder.image();
    let crashed = Broker::durable(&image.0);
    let mut client = crashed.plain();
    client.receiver(2, QUEUE, SECOND);
    let again = client.receive(2, 1).remove(0);
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("m", 0));
}

#[test]
fn a_queue_larger_than_the_cache_is_served_from_disk() {
    const MESSAGES: usize = 2000;
    let folder = Folder::new();
    let mut config = durable(&folder.0);
    (config.journal.cache_bytes, config.journal.segment_bytes) = (64 << 10, 256 << 10);
    let broker = Broker::of(&config);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let body = "x".repeat(1024);
    for number in 1..MESSAGES {
        client.send(1, true, &message(&format!("{number}:{body}")));
    }
    client.accepted(1, &["last"]);
    let half: Vec<String> = {
        let mut reader = broker.plain();
        reader.receiver(1, QUEUE, None);
        texts(&reader.receive(1, 1000))
    };
    assert!(half.iter().zip(1..).all(|(text, number)| text.starts_with(&format!("{number}:"))));
    client.close();
    assert_eq!(broker.stop(), Outcome::Stopped);
    let rest = texts(&everything(&Broker::of(&config)));
    assert_eq!(rest.len(), MESSAGES - 1000);
    assert!(
        rest.iter()
            .zip(1001..)
            .take(MESSAGES - 1001)
            .all(|(text, number)| text.starts_with(&format!("{number}:")))
    );
    assert_eq!(rest.last().map(String::as_str), Some("last"));
}

/// The files of a journal, largest names last.
fn files(folder: &Folder) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.is_file());
    files
}

#[test]
fn a_damaged_journal_is_refused_with_file_and_offset() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let needle = "find me in the file";
    for _ in 0..50 {
        client.accepted(1, &[needle]);
    }
    client.close();
    assert_eq!(broker.stop(), Outcome::Stopped);
    let (file, mut bytes, at) = files(&folder)
        .into_iter()
        .find_map(|file| {
            let bytes = fs::read(&file).unwrap();
            let at = bytes.windows(needle.len()).position(|window| window == needle.as_bytes())?;
            Some((file, bytes, at))
        })
        .expect("the message is in a file");
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = Server::start(&durable(&folder.0)).expect_err("a flipped bit is no journal").to_string();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name), "{error}");
    assert!(error.contains("offset"), "{error}");
}

#[test]
fn one_folder_serves_one_broker() {
    let folder = Folder::new();
    let _broker = Broker::durable(&folder.0);
    assert!(Server::start(&durable(&folder.0)).is_err());
}
