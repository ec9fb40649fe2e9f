//! Bytes in flight at `max_in_flight_bytes` of their namespace: looked at while its clients send far more, and its disk is slower than
//! they are.

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use broker_log::Durability;

use super::*;
use crate::{
    broker::{Broker, Folder, config},
    team::broker_with,
};

const LIMIT: u64 = 1 << 20;
/// Most bytes that a thread hands over at the limit, which it looks at before it reads: what it reads, a frame of which the rest came with
/// that, and what a command takes beside its message.
const ONE_READ: u64 = (256 + 64 + 16) << 10;
/// Longest wait for the clients to come near the limit.
const PATIENCE: Duration = Duration::from_secs(60);
/// Times to look.
const LOOKS: usize = 20;

/// Ends the clients, also where a look has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends all texts before it reads an answer, again and again until the end; says how many messages were accepted.
fn send_until_end<S: Read + Write>(peer: &mut Peer<'_, S>, texts: &[String], is_over: &AtomicBool) -> usize {
    let plain: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut accepted = 0;
    while !is_over.load(Ordering::Relaxed) {
        match peer {
            Peer::Plain(client) => client.accepted(2, &plain),
            Peer::Sdk(sdk, sender, _) => sdk.send_all(*sender, texts),
        }
        accepted += texts.len();
    }
    accepted
}

/// Begins a broker with a disk.
pub(crate) fn broker_on_disk(folder: &Folder) -> Broker {
    broker_with(|config| {
        config.data_dir.clone_from(&folder.0);
        config.journal.durability = Durability::Fsync;
    })
}

/// Has the clients of `team` send about thirty times as much as it may have in flight, and looks at what is in flight meanwhile, while a client of
/// `other` sends, too. Everything is accepted in the end.
pub(crate) fn look_while_clients_send<'d, S: Read + Write + Send>(
    (team, other): (&Team<'_>, &Team<'_>),
    connect: impl FnOnce() -> Vec<Peer<'d, S>>,
) {
    team.limit(&json!({ "max_in_flight_bytes": LIMIT }));
    assert_eq!(team.limit_metric("max_in_flight_bytes"), Some(LIMIT));
    let (mut clients, mut neighbour) = (connect(), Peer::new(other, Some(&DOTNET)));
    let texts = vec![long_text(60_000); 64];
    let is_over = AtomicBool::new(false);
    let bound = LIMIT + config().io_threads as u64 * ONE_READ;
    let accepted: usize = thread::scope(|scope| {
        let end = End(&is_over);
        let senders: Vec<_> =
            clients.iter_mut().map(|peer| scope.spawn(|| send_until_end(peer, &texts, &is_over))).collect();
        let (began, mut looks, mut highest) = (Instant::now(), 0, 0);
        while looks < LOOKS || highest < LIMIT / 2 {
            assert!(began.elapsed() < PATIENCE, "at most {highest} bytes were in flight");
            let bytes = team.metric("in_flight_bytes").unwrap();
            assert!(bytes <= bound, "{bytes} bytes are in flight, more than {bound}");
            assert_eq!(neighbour.offer(0, &message("m")), Some(DeliveryState::Accepted));
            (looks, highest) = (looks + 1, highest.max(bytes));
        }
        assert_eq!(other.metric("in_flight_bytes"), Some(0));
        drop(end);
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    assert_eq!((team.usage("in_flight_bytes"), team.metric("in_flight_bytes")), (0, Some(0)));
    let (status, text) = team.ask(&format!("GET /{QUEUE}?api-version=2021-05"), "");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains(&format!("ActiveMessageCount>{accepted}<")), "{accepted}: {text}");
}

#[test]
fn what_is_more_than_a_namespace_may_have_in_flight_is_not_read_and_taken_in_its_turn() {
    let folder = Folder::new();
    let broker = broker_on_disk(&folder);
    let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
    look_while_clients_send((&team, &other), || {
        dialects().chain(dialects()).map(|(_, dialect)| Peer::new(&team, dialect)).collect()
    });
}
