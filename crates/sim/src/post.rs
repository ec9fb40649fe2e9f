//! A broker with an entity of each kind, and a client that sends parcels through all of them while it is killed again
//! and again: topics and rules, sessions, schedules and their cancelling, duplicates, forwarding, transactions.
//!
//! The client speaks to the core directly: what engine and gateway make of bytes has its own world.
//!
//! Invariant: one seed gives one run.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use broker_core::{
    Batch, ClientId, Command, Delivery, Effect, LinkId, LockId, Message, Outcome, Properties, QueueId,
    ReceiveMode, SequenceNumber, SessionWanted, Ticket, UnsettledPolicy,
};

use crate::{
    disk::Mischief,
    parcel::{Id, Parcels, Place},
    plan::Plan,
    process::Process,
    rng::Rng,
    world::{Failure, Report},
};

mod entities;
mod send;

use entities::{entities, path};

/// Where messages are received. The first five take no sessions.
const PLACES: [&str; 6] =
    ["plain", "once", "end", "news/Subscriptions/all", "news/Subscriptions/odd", "steps"];
const PLAIN: Place = 0;
const ONCE: Place = 1;
const END: Place = 2;
const ALL: Place = 3;
const ODD: Place = 4;
const STEPS: Place = 5;
/// Each place without sessions has a receiver with the same number.
const PLACE_LINKS: u32 = 5;
/// Two receivers compete for sessions.
const SESSION_LINKS: [u32; 2] = [5, 6];
const HELD_MAX: usize = 60;

/// What a ticket stands for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// That the parcel was stored.
    Send(u64),
    /// The numbers of a schedule.
    Schedule(u64),
    /// That a schedule is gone.
    Cancel(u64),
    /// That a message was completed.
    Complete(Id, Place),
    /// That the parcel's transaction committed.
    Commit(u64),
}

/// A message under lock.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: Id,
    place: Place,
    queue: QueueId,
    sequence: SequenceNumber,
    lock: LockId,
    link: u32,
}

/// Where a session receiver stands.
#[derive(Clone, Debug, Default)]
enum Receiver {
    #[default]
    Closed,
    Opening,
    Open(String),
}

struct Post<'a> {
    plan: &'a Plan,
    rng: Rng,
    now: u64,
    process: Process,
    client: u64,
    tickets: BTreeMap<u64, Asked>,
    next_ticket: u64,
    next_transaction: u64,
    held: Vec<Held>,
    credit: BTreeMap<u32, u64>,
    received: BTreeMap<u32, u64>,
    receivers: BTreeMap<u32, Receiver>,
    scheduled: Vec<(u64, Vec<SequenceNumber>, &'static str)>,
    /// Payloads that may be sent once more.
    duplicates: Vec<(u64, Message)>,
    parcels: Parcels,
    report: Report,
    commands: Vec<Command>,
}

/// Virtual time of the start, in milliseconds since the epoch.
const EPOCH: u64 = 1_700_000_000_000;

/// Runs a plan's seed through all kinds of entities.
pub fn run_post(plan: &Plan) -> Result<Report, Failure> {
    // What is forwarded needs space before it gives space back: a full disk would hold it up for good.
    let plan = Plan { max_disk_bytes: None, ..plan.clone() };
    let mut post = Post::new(&plan);
    let mut step = 0;
    let failed = |step| move |what| Failure { step, what };
    post.boot().map_err(failed(step))?;
    while step < plan.steps {
        step += 1;
        post.step().map_err(failed(step))?;
    }
    post.drain().map_err(failed(step))?;
    post.report.accepted = post.parcels.accepted;
    post.report.delivered = post.parcels.delivered;
    post.report.disk_failures = post.process.mischief.failures.load(Ordering::Relaxed);
    Ok(post.report)
}

impl<'a> Post<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x0050_0575);
        let mischief = Mischief::new(rng.fork(), plan.disk_fails);
        Self {
            plan,
            now: EPOCH,
            process: Process::new(mischief),
            client: 0,
            tickets: BTreeMap::new(),
            next_ticket: 1,
            next_transaction: 1,
            held: Vec::new(),
            credit: BTreeMap::new(),
            received: BTreeMap::new(),
            receivers: BTreeMap::new(),
            scheduled: Vec::new(),
            duplicates: Vec::new(),
            parcels: Parcels::default(),
            report: Report::default(),
            commands: Vec::new(),
            rng,
        }
    }

    fn boot(&mut self) -> Result<(), String> {
        let setup = Batch { client: ClientId(0), commands: entities(self.plan.seed) };
        self.process.boot((self.plan, self.now), &mut self.rng, setup)?;
        self.client += 1;
        self.commands = vec![Command::Connect, Command::ByteBudget { limit: u64::MAX }];
        for (link, name) in (0..PLACE_LINKS).zip(PLACES) {
            self.commands.push(Command::OpenConsumer {
                consumer: LinkId(link),
                path: path(name),
                mode: ReceiveMode::PeekLock,
                unsettled: UnsettledPolicy::Release,
                session: None,
                auto_create: false,
            });
        }
        self.submit();
        Ok(())
    }

    fn submit(&mut self) {
        let commands = std::mem::take(&mut self.commands);
        self.process.submit(Batch { client: ClientId(self.client), commands });
    }

    fn ticket(&mut self, asked: Asked) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, asked);
        Ticket(ticket)
    }

    /// One event.
    fn step(&mut self) -> Result<(), String> {
        if self.rng.below(10_000) < self.plan.crash {
            self.crash();
            return self.boot();
        }
        match self.rng.below(20) {
            0..=4 => self.send(),
            5..=9 => self.take(),
            10..=14 => self.process.node_step(self.now, &mut self.rng),
            15..=18 => self.process.disk_step(&mut self.rng),
            _ => self.time_passes(),
        }
        self.submit();
        self.read()?;
        if self.process.is_broken() {
            // The process ends by itself, and is started again.
            self.crash();
            return self.boot();
        }
        Ok(())
    }

    /// A little, or to the next deadline of the node.
    fn time_passes(&mut self) {
        let deadline = self.process.deadline().unwrap_or(0);
        self.now = match self.rng.below(3) {
            0 if deadline > self.now && deadline < self.now + 10_000 => deadline,
            _ => self.now + self.rng.below(500),
        };
    }

    fn crash(&mut self) {
        self.report.crashes += 1;
        self.process.crash(&mut self.rng);
        for asked in std::mem::take(&mut self.tickets).into_values() {
            match asked {
                Asked::Send(parcel) | Asked::Schedule(parcel) | Asked::Commit(parcel) => {
                    self.parcels.unanswered(parcel);
                }
                // What was asked may have happened; both were noted when asked.
                Asked::Cancel(_) | Asked::Complete(..) => {}
            }
        }
        self.held.clear();
        self.credit.clear();
        self.received.clear();
        self.receivers.clear();
        self.commands.clear();
    }

    fn pick_held(&mut self) -> Option<Held> {
        let count = self.held.len() as u64;
        if count == 0 {
            return None;
        }
        let place = usize::try_from(self.rng.below(count)).ok()?;
        Some(self.held.swap_remove(place))
    }

    /// Asks for messages, or settles one.
    fn take(&mut self) {
        match self.rng.below(4) {
            0 => {
                let link = u32::try_from(self.rng.below(STEPS as u64)).unwrap_or(0);
                self.ask(link, 5);
            }
            1 => self.take_session(),
            _ => self.settle(),
        }
    }

    fn ask(&mut self, link: u32, more: u64) {
        if self.held.len() < HELD_MAX {
            let received = self.received.get(&link).copied().unwrap_or(0);
            let limit = received + 1 + self.rng.below(more);
            self.credit.insert(link, limit);
            self.commands.push(Command::Credit { consumer: LinkId(link), limit, drain: false });
        }
    }

    fn take_session(&mut self) {
        let link = if self.rng.chance(50) { SESSION_LINKS[0] } else { SESSION_LINKS[1] };
        match self.receivers.get(&link).cloned().unwrap_or_default() {
            Receiver::Opening => {}
            Receiver::Open(_) if self.rng.chance(15) => self.close_session(link),
            Receiver::Open(_) => self.ask(link, 3),
            Receiver::Closed => {
                self.receivers.insert(link, Receiver::Opening);
                self.received.insert(link, 0);
                self.commands.push(Command::OpenConsumer {
                    consumer: LinkId(link),
                    path: path("steps"),
                    mode: ReceiveMode::PeekLock,
                    unsettled: UnsettledPolicy::Release,
                    session: Some(SessionWanted::Next { patience: Duration::from_millis(300) }),
                    auto_create: false,
                });
            }
        }
    }

    fn close_session(&mut self, link: u32) {
        self.receivers.insert(link, Receiver::Closed);
        self.held.retain(|held| held.link != link);
        self.commands.push(Command::CloseConsumer { consumer: LinkId(link) });
    }

    fn settle(&mut self) {
        let Some(held) = self.pick_held() else { return };
        let Held { id, place, queue, sequence, lock, .. } = held;
        let (outcome, ticket) = if self.rng.chance(75) {
            self.parcels.completing(id, place);
            (Outcome::Complete, Some(self.ticket(Asked::Complete(id, place))))
        } else if self.rng.chance(50) {
            (Outcome::Release(Properties::default()), None)
        } else {
            (Outcome::Abandon(Properties::default()), None)
        };
        self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket });
    }

    /// Takes in what the broker says.
    fn read(&mut self) -> Result<(), String> {
        for released in self.process.released() {
            if released.client != ClientId(self.client) {
                continue;
            }
            for effect in released.effects {
                self.on_effect(effect)?;
            }
        }
        Ok(())
    }

    fn on_effect(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Published { first, last } | Effect::Settled { first, last } => {
                (first.0..=last.0).try_for_each(|ticket| self.done(ticket, None))
            }
            Effect::Scheduled { ticket, sequences } => self.done(ticket.0, Some(sequences)),
            Effect::TransactionDone { ticket } | Effect::EntityDone { ticket } => self.done(ticket.0, None),
            Effect::PublishRefused { ticket, .. }
            | Effect::TransactionRefused { ticket, .. }
            | Effect::RequestRefused { ticket, .. }
            | Effect::SettleRefused { ticket, .. } => {
                self.refused(ticket.0);
                Ok(())
            }
            Effect::Delivery(delivery) => self.on_delivery(&delivery),
            Effect::ConsumerOpened { consumer, session: Some(grant), .. } => {
                self.on_session(consumer.0, &grant.id)
            }
            Effect::AttachRefused { link, .. } | Effect::SessionLost { consumer: link, .. } => {
                self.receivers.insert(link.0, Receiver::Closed);
                self.held.retain(|held| held.link != link.0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_session(&mut self, link: u32, session: &str) -> Result<(), String> {
        let held = |receiver: &Receiver| matches!(receiver, Receiver::Open(other) if other == session);
        if self.receivers.iter().any(|(other, receiver)| *other != link && held(receiver)) {
            return Err(format!("session {session} has two holders"));
        }
        self.receivers.insert(link, Receiver::Open(session.to_owned()));
        Ok(())
    }

    fn done(&mut self, ticket: u64, sequences: Option<Vec<SequenceNumber>>) -> Result<(), String> {
        match self.tickets.remove(&ticket) {
            Some(Asked::Send(parcel) | Asked::Commit(parcel)) => self.parcels.accepted(parcel),
            Some(Asked::Schedule(parcel)) => {
                self.parcels.accepted(parcel);
                let known = self.scheduled.iter_mut().find(|(known, ..)| *known == parcel);
                if let (Some(known), Some(sequences)) = (known, sequences) {
                    known.1 = sequences;
                }
            }
            Some(Asked::Cancel(parcel)) => {
                self.parcels.cancelled(parcel).map_err(|broken| broken.to_string())?;
            }
            Some(Asked::Complete(id, place)) => self.parcels.completed(id, place),
            None => {}
        }
        Ok(())
    }

    fn refused(&mut self, ticket: u64) {
        match self.tickets.remove(&ticket) {
            Some(Asked::Send(parcel) | Asked::Schedule(parcel) | Asked::Commit(parcel)) => {
                self.parcels.refused(parcel);
            }
            Some(Asked::Cancel(parcel)) => self.parcels.not_cancelled(parcel),
            Some(Asked::Complete(..)) | None => {}
        }
    }

    fn on_delivery(&mut self, delivery: &Delivery) -> Result<(), String> {
        let link = delivery.consumer.0;
        let place = if SESSION_LINKS.contains(&link) { STEPS } else { link as Place };
        let id = read_id(&delivery.stored.payload).ok_or("a message without its id")?;
        *self.received.entry(link).or_default() += 1;
        let sequence = delivery.sequence.0;
        if place == STEPS {
            let Some(Receiver::Open(session)) = self.receivers.get(&link).cloned() else { return Ok(()) };
            self.parcels.in_session(&session, id, place, sequence).map_err(|broken| broken.to_string())?;
        }
        self.parcels.delivered(id, place, sequence, self.now).map_err(|broken| broken.to_string())?;
        if let Some(lock) = delivery.lock {
            let held =
                Held { id, place, queue: delivery.queue, sequence: delivery.sequence, lock: lock.id, link };
            self.held.push(held);
        }
        Ok(())
    }

    /// No more mischief: everything must come out, each at its places.
    fn drain(&mut self) -> Result<(), String> {
        self.crash();
        self.boot()?;
        self.process.mischief.calm.store(true, Ordering::Relaxed);
        // All schedules are due, all locks of the time before are over.
        self.now += 60_000;
        let mut idle_rounds = 0;
        while idle_rounds < 40 {
            let before = self.parcels.delivered;
            self.drain_round()?;
            self.now += 100;
            idle_rounds = if self.parcels.delivered == before { idle_rounds + 1 } else { 0 };
        }
        self.parcels.check_drained().map_err(|broken| broken.to_string())
    }

    fn drain_round(&mut self) -> Result<(), String> {
        while let Some(Held { id, place, queue, sequence, lock, .. }) = self.held.pop() {
            self.parcels.completing(id, place);
            let ticket = Some(self.ticket(Asked::Complete(id, place)));
            let outcome = Outcome::Complete;
            self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket });
        }
        for link in 0..PLACE_LINKS {
            self.ask(link, 20);
        }
        for link in SESSION_LINKS {
            match self.receivers.get(&link).cloned().unwrap_or_default() {
                Receiver::Closed => self.take_session(),
                Receiver::Open(_) if self.rng.chance(40) => self.close_session(link),
                Receiver::Open(_) => self.ask(link, 20),
                Receiver::Opening => {}
            }
        }
        self.submit();
        for _ in 0..2 {
            self.process.node_step(self.now, &mut self.rng);
            while self.process.is_busy() {
                self.process.node_step(self.now, &mut self.rng);
                self.process.disk_step(&mut self.rng);
            }
        }
        self.read()
    }
}

fn read_id(payload: &[u8]) -> Option<Id> {
    let sections = amqp_codec::sections::Sections::scan(payload).ok()?;
    let properties = sections.properties_view(payload);
    properties.get(amqp_codec::sections::PropertyField::MessageId)?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
