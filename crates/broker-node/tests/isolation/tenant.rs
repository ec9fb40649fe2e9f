//! The clients of one namespace at one node: they know its id, the messages that they have locks on, and the numbers of those
//! that are deferred or scheduled.

use std::{collections::BTreeMap, time::Duration};

use broker_core::{
    Batch, ClientId, Command, Delivery, Effect, EntityKind, EntityPath, EntitySettings, LinkId, LockId,
    LockToken, Message, Outcome, Properties, QueueId, ReceiveMode, SequenceNumber, SessionWanted, SubQueue,
    Ticket, Timestamp, TransactionId, UnsettledPolicy,
};
use broker_node::NamespaceId;
use bytes::Bytes;

use crate::plan::{How, Op};

/// The entities: a queue of each client, and those that both work with. The topic comes before its subscription, and the queue
/// that forwards to another one behind that.
pub(crate) const ENTITIES: [&str; 6] =
    ["orders", "bills", "visits", "news", "transit", "news/Subscriptions/all"];
/// The first ones are sent to by any request. What the next one forwards meets what is sent to its target, so that a send to it
/// is a request of its own.
pub(crate) const TAKING: usize = 4;
/// The queue with sessions.
pub(crate) const VISITS: usize = 2;
pub(crate) const NEWS: usize = 3;
/// The queue that forwards to the second one.
pub(crate) const TRANSIT: usize = 4;
/// The subscription.
pub(crate) const NEWS_COPIES: usize = 5;
pub(crate) const SESSIONS: usize = 2;
/// The one transaction of each client.
const TRANSACTION: TransactionId = TransactionId(1);

pub(crate) const SESSION_LINK: LinkId = LinkId(3);
pub(crate) const COPIES_LINK: LinkId = LinkId(4);
/// Receives the dead letters of the own queue of a client.
pub(crate) const DEAD_LETTER_LINK: LinkId = LinkId(5);

/// Messages of a queue are dead-lettered after so many deliveries.
const DELIVERIES_MAX: u32 = 3;

/// A client of a namespace: the one that receives from the queue with this number.
pub(crate) const fn client(number: usize) -> ClientId {
    ClientId(10 + number as u64)
}

/// The receiver of a client's own queue.
pub(crate) const fn own_link(number: usize) -> LinkId {
    if number == 0 { LinkId(1) } else { LinkId(2) }
}

pub(crate) fn path(place: usize) -> EntityPath {
    EntityPath { entity: ENTITIES[place].into(), sub_queue: SubQueue::Main }
}

pub(crate) fn session(number: usize) -> Box<str> {
    format!("s{number}").into()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) lock: LockId,
    pub(crate) token: LockToken,
    /// The entity.
    pub(crate) place: usize,
}

/// The entity that a receiver of this client receives from, or from whose dead letters.
fn place_of(number: usize, link: LinkId) -> usize {
    match link {
        SESSION_LINK => VISITS,
        COPIES_LINK => NEWS_COPIES,
        _ => number,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// `None`: the namespace does not exist.
    pub(crate) id: Option<NamespaceId>,
    /// The messages that each client has a lock on.
    pub(crate) held: [BTreeMap<(QueueId, SequenceNumber), Held>; 2],
    /// Deferred messages that each client has fetched.
    pub(crate) fetched: [Vec<(usize, LockToken)>; 2],
    /// Messages that were deferred, and those that were scheduled, by entity.
    pub(crate) deferred: Vec<(usize, SequenceNumber)>,
    pub(crate) scheduled: Vec<(usize, SequenceNumber)>,
    /// Entities of requests whose answers name messages.
    pub(crate) asked: BTreeMap<Ticket, usize>,
}

impl Tenant {
    /// All connections are gone.
    pub(crate) fn disconnected(&mut self) {
        *self = Self { id: self.id, ..Self::default() };
    }

    /// Commands with which the clients come back after that.
    pub(crate) fn connect(number: usize) -> Batch {
        let mut commands = vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }];
        commands.extend(open(number));
        Batch { client: client(number), commands }
    }

    /// The operations of one client at one time as commands of this namespace. Tickets count up from `ticket`.
    pub(crate) fn batch(
        &mut self,
        now: u64,
        number: usize,
        (ops, peek): (&[Op], bool),
        mut ticket: u64,
    ) -> Batch {
        let mut commands = Vec::new();
        let mut next = || {
            ticket += 1;
            Ticket(ticket)
        };
        for op in ops {
            commands.extend(self.commands(now, number, op, &mut next));
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

    fn commands(
        &mut self,
        now: u64,
        number: usize,
        op: &Op,
        next: &mut impl FnMut() -> Ticket,
    ) -> Vec<Command> {
        match *op {
            Op::CreateQueue => [create(number, next())].into_iter().chain(open(number)).collect(),
            Op::Open => open(number),
            Op::CreateOthers => {
                let others: &[usize] = if number == 0 { &[VISITS, NEWS, NEWS_COPIES] } else { &[TRANSIT] };
                let created = others.iter().map(|place| create(*place, next()));
                created.chain(open(number)).collect()
            }
            Op::Publish { queue, count, bytes, ttl_ms } => {
                vec![publish(queue, count, bytes, ttl_ms, next())]
            }
            Op::Settle { nth, how } => self.settle(number, nth, how, next()).into_iter().collect(),
            Op::SettleFetched { nth, how } => {
                self.settle_fetched(number, nth, how, next()).into_iter().collect()
            }
            Op::RenewLock { nth } => self.renew(number, nth, next()).into_iter().collect(),
            Op::Schedule { queue, count, in_ms } => {
                let ticket = next();
                self.asked.insert(ticket, queue);
                vec![schedule(queue, count, now + in_ms, ticket)]
            }
            Op::CancelScheduled { nth } => self.cancel(nth, next()).into_iter().collect(),
            Op::SetState { session: which, bytes } => {
                let state = bytes.map(|bytes| Bytes::from(vec![7; bytes]));
                let (path, session) = (path(VISITS), session(which));
                vec![Command::SetSessionState { path, session, state, ticket: next() }]
            }
            Op::Declare => vec![Command::Declare { transaction: TRANSACTION, ticket: next() }],
            Op::EnlistPublish { queue, count, bytes } => {
                vec![publish(queue, count, bytes, None, next()).within(TRANSACTION)]
            }
            Op::EnlistSettle { nth, how, settled } => {
                let enlisted = |command| Command::Enlist {
                    transaction: TRANSACTION,
                    command: Box::new(command),
                    settled,
                };
                self.settle(number, nth, how, next()).map(enlisted).into_iter().collect()
            }
            Op::Discharge { fail } => {
                vec![Command::Discharge { transaction: TRANSACTION, fail, ticket: Some(next()) }]
            }
        }
    }

    fn settle(&mut self, number: usize, nth: usize, how: How, ticket: Ticket) -> Option<Command> {
        let held = &mut self.held[number];
        let nth = nth.checked_rem(held.len())?;
        let key = *held.keys().nth(nth)?;
        let Held { lock, place, .. } = held.remove(&key)?;
        let (queue, sequence) = key;
        if matches!(how, How::Defer) {
            self.deferred.push((place, sequence));
        }
        Some(Command::Settle { queue, sequence, lock, outcome: how.outcome(), ticket: Some(ticket) })
    }

    fn settle_fetched(&mut self, number: usize, nth: usize, how: How, ticket: Ticket) -> Option<Command> {
        let fetched = &mut self.fetched[number];
        let (place, token) = fetched.swap_remove(nth.checked_rem(fetched.len())?);
        let (path, tokens, outcome) = (path(place), vec![token], how.outcome());
        Some(Command::SettleByToken { path, session: None, tokens, outcome, ticket })
    }

    fn renew(&self, number: usize, nth: usize, ticket: Ticket) -> Option<Command> {
        let nth = nth.checked_rem(self.held[number].len())?;
        let held = self.held[number].values().nth(nth)?;
        Some(Command::RenewLocks { path: path(held.place), tokens: vec![held.token], ticket })
    }

    fn cancel(&mut self, nth: usize, ticket: Ticket) -> Option<Command> {
        let (place, number) = self.scheduled.swap_remove(nth.checked_rem(self.scheduled.len())?);
        Some(Command::CancelScheduled { path: path(place), sequences: vec![number], ticket })
    }

    /// A client sees what comes.
    pub(crate) fn see(&mut self, number: usize, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Delivery(Delivery { consumer, queue, sequence, lock, .. }) => {
                    let (lock, place) = (lock.expect("a lock"), place_of(number, *consumer));
                    let held = Held { lock: lock.id, token: lock.token, place };
                    self.held[number].insert((*queue, *sequence), held);
                }
                Effect::Scheduled { ticket, sequences } => {
                    let place = self.asked.remove(ticket).expect("it was asked for");
                    self.scheduled.extend(sequences.iter().map(|number| (place, *number)));
                }
                Effect::Fetched { ticket, messages } => {
                    let place = self.asked.remove(ticket).expect("it was asked for");
                    let tokens = messages.iter().filter_map(|message| Some((place, message.lock?.token)));
                    self.fetched[number].extend(tokens);
                }
                _ => {}
            }
        }
    }
}

impl How {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Complete => Outcome::Complete,
            Self::Abandon => Outcome::Abandon(Properties::default()),
            Self::DeadLetter => Outcome::DeadLetter(Properties::default()),
            Self::Defer => Outcome::Defer(Properties::default()),
        }
    }
}

/// Receives under locks, all that there is.
pub(crate) fn receive(consumer: LinkId, path: EntityPath, session: Option<SessionWanted>) -> [Command; 2] {
    let open = Command::OpenConsumer {
        consumer,
        path,
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session,
        auto_create: false,
    };
    [open, Command::Credit { consumer, limit: u64::MAX, drain: false }]
}

/// Two receivers of one store would share its messages as the rounds have it, so each store has one at the most, and each session.
fn open(number: usize) -> Vec<Command> {
    let mut commands = Vec::from(receive(own_link(number), path(number), None));
    if number == 0 {
        commands.extend(receive(COPIES_LINK, path(NEWS_COPIES), None));
    }
    commands
}

/// Properties that an entity is created with.
pub(crate) fn settings(place: usize) -> EntitySettings {
    EntitySettings {
        max_delivery_count: if place == NEWS { 10 } else { DELIVERIES_MAX },
        requires_session: place == VISITS,
        forward_to: (place == TRANSIT).then(|| ENTITIES[1].into()),
        ..EntitySettings::default()
    }
}

pub(crate) fn create(place: usize, ticket: Ticket) -> Command {
    let kind = match place {
        NEWS => EntityKind::Topic,
        NEWS_COPIES => EntityKind::Subscription,
        _ => EntityKind::Queue,
    };
    Command::CreateEntity { name: ENTITIES[place].into(), kind, settings: Box::new(settings(place)), ticket }
}

/// A message that shows which one it is.
fn message(place: usize, bytes: usize, ticket: Ticket) -> Message {
    let text = ticket.0.to_le_bytes().into_iter().chain(std::iter::repeat_n(7, bytes));
    // The tickets of two sends differ.
    let of_session = usize::from(ticket.0 % 2 == 1);
    Message {
        payload: text.collect::<Bytes>(),
        session_id: (place == VISITS).then(|| session(of_session)),
        ..Message::default()
    }
}

pub(crate) fn publish(
    place: usize,
    count: usize,
    bytes: usize,
    ttl_ms: Option<u64>,
    ticket: Ticket,
) -> Command {
    let time_to_live = ttl_ms.map(Duration::from_millis);
    let messages = vec![Message { time_to_live, ..message(place, bytes, ticket) }; count];
    Command::PublishTo { path: path(place), messages, auto_create: false, ticket: Some(ticket) }
}

pub(crate) fn schedule(place: usize, count: usize, due: u64, ticket: Ticket) -> Command {
    let scheduled_enqueue_time = Some(Timestamp::from_millis(due));
    let messages = vec![Message { scheduled_enqueue_time, ..message(place, 60, ticket) }; count];
    Command::Schedule { path: path(place), messages, ticket }
}
