//! The clients of one namespace at one node: they know its id and the messages that they have locks on.

use std::{collections::BTreeMap, time::Duration};

use broker_core::{
    Batch, ClientId, Command, Delivery, Effect, EntityKind, EntityPath, EntitySettings, LinkId, LockId,
    LockToken, Message, Outcome, Properties, QueueId, ReceiveMode, SequenceNumber, SubQueue, Ticket,
    UnsettledPolicy,
};
use broker_node::NamespaceId;
use bytes::Bytes;

use crate::plan::{How, Op};

pub(crate) const QUEUES: [&str; 2] = ["orders", "bills"];
/// Messages of a queue are dead-lettered after so many deliveries.
const DELIVERIES_MAX: u32 = 3;

/// A client of a namespace: the one that receives from the queue with this number.
pub(crate) const fn client(number: usize) -> ClientId {
    ClientId(10 + number as u64)
}

pub(crate) fn path(queue: usize) -> EntityPath {
    EntityPath { entity: QUEUES[queue].into(), sub_queue: SubQueue::Main }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) lock: LockId,
    pub(crate) token: LockToken,
}

#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// `None`: the namespace does not exist.
    pub(crate) id: Option<NamespaceId>,
    /// The messages that each client has a lock on.
    pub(crate) held: [BTreeMap<(QueueId, SequenceNumber), Held>; 2],
}

impl Tenant {
    /// All connections are gone.
    pub(crate) fn disconnected(&mut self) {
        self.held = Default::default();
    }

    /// Commands with which the clients come back after that.
    pub(crate) fn connect(number: usize) -> Batch {
        let mut commands = vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }];
        commands.extend(open(number));
        Batch { client: client(number), commands }
    }

    /// The operations of one client as commands of this namespace. Tickets count up from `ticket`.
    pub(crate) fn batch(&mut self, number: usize, ops: &[Op], peek: bool, mut ticket: u64) -> Batch {
        let mut commands = Vec::new();
        let mut next = || {
            ticket += 1;
            Ticket(ticket)
        };
        for op in ops {
            match *op {
                Op::CreateQueue => {
                    commands.push(create(number, next()));
                    commands.extend(open(number));
                }
                Op::Open => commands.extend(open(number)),
                Op::Publish { queue, count, bytes, ttl_ms } => {
                    let ticket = next();
                    commands.push(publish(queue, count, bytes, ttl_ms, ticket));
                }
                Op::Settle { nth, how } => commands.extend(self.settle(number, nth, how, next())),
            }
        }
        if peek {
            commands.push(Command::Peek {
                path: path(number),
                session: None,
                from: SequenceNumber(0),
                count: 100,
                bytes: u64::MAX,
                ticket: next(),
            });
        }
        Batch { client: client(number), commands }
    }

    fn settle(&mut self, number: usize, nth: usize, how: How, ticket: Ticket) -> Option<Command> {
        let held = &mut self.held[number];
        let nth = nth.checked_rem(held.len())?;
        let key = *held.keys().nth(nth)?;
        let lock = held.remove(&key)?.lock;
        let outcome = match how {
            How::Complete => Outcome::Complete,
            How::Abandon => Outcome::Abandon(Properties::default()),
            How::DeadLetter => Outcome::DeadLetter(Properties::default()),
            How::Defer => Outcome::Defer(Properties::default()),
        };
        let (queue, sequence) = key;
        Some(Command::Settle { queue, sequence, lock, outcome, ticket: Some(ticket) })
    }

    /// A client sees what comes.
    pub(crate) fn see(&mut self, number: usize, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Delivery(Delivery { queue, sequence, lock, .. }) = effect {
                let lock = lock.expect("a lock");
                self.held[number].insert((*queue, *sequence), Held { lock: lock.id, token: lock.token });
            }
        }
    }
}

fn open(number: usize) -> [Command; 2] {
    let consumer = [LinkId(1), LinkId(2)][number];
    let open = Command::OpenConsumer {
        consumer,
        path: path(number),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    [open, Command::Credit { consumer, limit: u64::MAX, drain: false }]
}

pub(crate) fn create(number: usize, ticket: Ticket) -> Command {
    let settings = EntitySettings { max_delivery_count: DELIVERIES_MAX, ..EntitySettings::default() };
    Command::CreateEntity {
        name: QUEUES[number].into(),
        kind: EntityKind::Queue,
        settings: Box::new(settings),
        ticket,
    }
}

pub(crate) fn publish(
    queue: usize,
    count: usize,
    bytes: usize,
    ttl_ms: Option<u64>,
    ticket: Ticket,
) -> Command {
    // A message that shows which one it is.
    let text = ticket.0.to_le_bytes().into_iter().chain(std::iter::repeat_n(7, bytes));
    let message = Message {
        payload: text.collect::<Bytes>(),
        time_to_live: ttl_ms.map(Duration::from_millis),
        ..Message::default()
    };
    let messages = vec![message; count];
    Command::PublishTo { path: path(queue), messages, auto_create: false, ticket: Some(ticket) }
}
