//! A core and a journal in memory, for all benches.
//!
//! The journal remembers the last records. Payloads have 16 bytes unless a
//! bench says otherwise: copying larger ones is the journal's affair.

use std::{collections::VecDeque, hint::black_box};

use broker_core::{
    Batch, ClientId, Command, Core, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, LockId,
    Message, Outcome, Output, Position, QueueId, SequenceNumber, StorageError, StoredRecord, SubQueue,
    Ticket, Timestamp,
};
use bytes::Bytes;

/// The one client.
pub(crate) const CLIENT: ClientId = ClientId(1);
/// Ticket of commands whose answers the benchmark ignores.
pub(crate) const NOBODY: Ticket = Ticket(1 << 40);
/// Bytes of journal that a waiting message of 16 bytes needs at most, until it is gone.
pub(crate) const JOURNAL_BYTES: u64 = 400;
/// When every bench begins.
const START: Timestamp = Timestamp::from_millis(1_763_000_000_000);

/// Bytes of a segment of the journal. No record lies in two of them.
const SEGMENT: usize = 1 << 20;

/// A journal of which the last segments are remembered. Where a record lies is computed, not searched.
pub(crate) struct Recent {
    segments: VecDeque<Vec<u8>>,
    /// Number of the first of them.
    first: u64,
    segments_max: usize,
    /// End of the committed records, which can be read.
    readable: u64,
    /// Deliveries that are not settled yet.
    pub(crate) delivered: Vec<(QueueId, SequenceNumber, LockId)>,
    /// Sessions that were granted.
    pub(crate) accepted: Vec<Box<str>>,
}

impl Recent {
    fn new(bytes: u64) -> Self {
        Self {
            segments: VecDeque::from([Vec::with_capacity(SEGMENT)]),
            first: 0,
            segments_max: usize::try_from(bytes / SEGMENT as u64).unwrap_or(usize::MAX).saturating_add(4),
            readable: 0,
            delivered: Vec::new(),
            accepted: Vec::new(),
        }
    }

    fn end(&self) -> u64 {
        let last = self.segments.back().map_or(0, Vec::len);
        (self.first + self.segments.len() as u64 - 1) * SEGMENT as u64 + last as u64
    }

    fn lying_at(&self, at: Position, length: u32) -> Option<&[u8]> {
        let (number, from) = (at.0 / SEGMENT as u64, at.0 % SEGMENT as u64);
        let segment = self.segments.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let from = usize::try_from(from).ok()?;
        segment.get(from..from.checked_add(length as usize)?)
    }

    fn commit(&mut self) {
        self.readable = self.end();
    }

    /// A segment with room for so many bytes: the oldest is used again.
    fn room(&mut self, length: usize) {
        if self.segments.back().is_some_and(|last| last.len() + length <= SEGMENT) {
            return;
        }
        let mut next = Vec::new();
        if self.segments.len() >= self.segments_max {
            next = self.segments.pop_front().unwrap_or_default();
            self.first += 1;
        }
        next.clear();
        next.reserve(SEGMENT);
        self.segments.push_back(next);
    }
}

impl Output for Recent {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let length = index.len() + rest.iter().map(|part| part.len()).sum::<usize>();
        self.room(length);
        let at = self.end();
        if let Some(segment) = self.segments.back_mut() {
            segment.extend_from_slice(index);
            for part in rest {
                segment.extend_from_slice(part);
            }
        }
        (Position(at), u32::try_from(length).unwrap_or(u32::MAX))
    }

    fn release(&mut self, at: Position, length: u32) {
        black_box((at, length));
    }

    fn effect(&mut self, _: ClientId, effect: Effect) {
        match &effect {
            Effect::Delivery(delivery) => {
                if let Some(lock) = delivery.lock {
                    self.delivered.push((delivery.queue, delivery.sequence, lock.id));
                }
            }
            Effect::ConsumerOpened { session: Some(grant), .. } => self.accepted.push(grant.id.clone()),
            _ => {}
        }
        drop(black_box(effect));
    }

    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError> {
        let record = self.lying_at(at, length).map(Bytes::copy_from_slice);
        record.ok_or_else(|| StorageError { at, reason: "not there".into() })
    }

    fn prefetch(&mut self, records: &[(Position, u32)]) {
        let mut found = [&[][..]; 32];
        for (place, (at, length)) in found.iter_mut().zip(records) {
            *place = self.lying_at(*at, *length).unwrap_or_default();
        }
        black_box(
            found.iter().flat_map(|record| record.iter().step_by(64)).fold(0, |sum: u8, byte| sum ^ byte),
        );
    }

    fn readable(&self) -> Position {
        Position(self.readable)
    }

    fn check_storage(&self) -> Result<(), broker_core::QuotaError> {
        Ok(())
    }
}

/// A core with its journal and its clock.
pub(crate) struct Broker {
    pub(crate) core: Core,
    pub(crate) recent: Recent,
    pub(crate) now: Timestamp,
}

impl Broker {
    /// A client is connected, and the journal remembers at least so many bytes.
    pub(crate) fn new(config: CoreConfig, bytes: u64) -> Self {
        let mut broker = Self { core: Core::new(config), recent: Recent::new(bytes), now: START };
        broker.tell(vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }]);
        broker
    }

    /// Makes a queue or a topic.
    pub(crate) fn create(&mut self, name: &str, kind: EntityKind, settings: EntitySettings) -> QueueId {
        let settings = Box::new(settings);
        self.tell(vec![Command::CreateEntity { name: name.into(), kind, settings, ticket: NOBODY }]);
        self.core.entity(name).map_or(QueueId(0), |view| view.queue)
    }

    /// One batch, whose records can be read afterwards.
    pub(crate) fn tell(&mut self, commands: Vec<Command>) {
        self.core.handle_batch(self.now, Batch { client: CLIENT, commands }, &mut self.recent);
        self.recent.commit();
    }

    /// Hands out all that can be handed out.
    pub(crate) fn deliver_all(&mut self) {
        while self.core.deliver(self.now, &mut self.recent) {}
        self.recent.commit();
    }

    /// A millisecond passes, and what is due is done.
    pub(crate) fn tick(&mut self) {
        self.now = Timestamp::from_millis(self.now.as_millis() + 1);
        while self.core.handle_deadline(self.now, &mut self.recent) {}
        self.recent.commit();
    }

    /// Completes what was delivered under a lock; says how many messages that were.
    pub(crate) fn complete(&mut self) -> usize {
        let mut tickets = NOBODY.0;
        let settle = |(queue, sequence, lock)| {
            tickets += 1;
            let ticket = Some(Ticket(tickets));
            Command::Settle { queue, sequence, lock, outcome: Outcome::Complete, ticket }
        };
        let commands: Vec<Command> = self.recent.delivered.drain(..).map(settle).collect();
        let count = commands.len();
        if count > 0 {
            self.tell(commands);
        }
        count
    }
}

/// The main part of an entity.
pub(crate) fn path(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::Main }
}

/// A message of 16 bytes.
pub(crate) fn message() -> Message {
    Message { payload: Bytes::from_static(b"sixteen bytes .."), ..Message::default() }
}
