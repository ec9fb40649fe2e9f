//! A broker with an entity of each kind, and a client that sends send groups through all of them while it is killed again
//! and again: topics and rules, sessions, schedules and their cancelling, duplicates, forwarding, transactions.
//!
//! The client speaks to the core directly, so most of its steps are work of the core, and sends via another entity,
//! operations in any order and unanswered completions come in every run. The world over AMQP connections spends most
//! steps on frames and finds faults of engine and gateway. Both run the same process, and both models build on the same
//! send groups. They differ in what a client sees: one without frames sees no links, holders or ends of locks, so
//! `core_model` checks what is left, that each group arrives as a whole at each of its entities.
//!
//! Invariant: one seed gives one run.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use broker_core::{
    Batch, ClientId, Command, Effect, EntityKind, EntitySettings, LinkId, LockId, Message, Profile, QueueId,
    ReceiveMode, SequenceNumber, Ticket, UnsettledPolicy,
};

use crate::{
    core_model::CoreModel,
    disk::DiskFaults,
    model::{EntityIndex, Id},
    plan::{Plan, PlantedFault},
    process::{NamespaceSetup, Process, Residence},
    rng::Rng,
    world::{Failure, Report},
};

mod entities;
mod receive;
mod requester;
mod send;

use entities::{entities, path};
use requester::Requester;

/// Addresses from which messages are received. The last one requires sessions. Messages sent to `closed` via `plain`
/// become transfer dead letters of `plain`.
const ENTITIES: [&str; 7] =
    ["plain", "once", "end", "news/Subscriptions/all", "news/Subscriptions/odd", "plain/$Transfer", "steps"];
const PLAIN: EntityIndex = 0;
const ONCE: EntityIndex = 1;
const END: EntityIndex = 2;
const ALL: EntityIndex = 3;
const ODD: EntityIndex = 4;
const TRANSFER: EntityIndex = 5;
const STEPS: EntityIndex = 6;
/// Each entity without sessions has a receiver with the same number.
const PLACE_LINKS: u32 = 6;
/// Two receivers compete for sessions.
const SESSION_LINKS: [u32; 2] = [6, 7];
const HELD_MAX: usize = 60;

/// Names under which required refusals are counted.
const BASIC_HAS_NO_TOPICS: &str = "topics refused in the basic tier";
const EMULATOR_DELIVERS_TEN_TIMES: &str = "eleven deliveries refused in the emulator's profile";
const ROLLED_BACK_IS_NEVER_SCHEDULED: &str =
    "schedules of rolled back transactions that could not be cancelled";

/// Request that waits for its answer under a ticket.
#[derive(Clone, Copy, Debug)]
enum PendingRequest {
    /// That the send group was stored.
    Send(u64),
    /// The numbers of a schedule.
    Schedule(u64),
    /// That a schedule is gone.
    Cancel(u64),
    /// That a message was completed.
    Complete(Id, EntityIndex),
    /// That the send group's transaction committed.
    Commit(u64),
    /// The numbers of what is scheduled in a transaction that will be rolled back.
    Void,
    /// The broker must refuse the request; the text names the counter.
    Never(&'static str),
}

/// A message under lock.
#[derive(Clone, Copy, Debug)]
struct HeldMessage {
    id: Id,
    entity: EntityIndex,
    queue: QueueId,
    sequence: SequenceNumber,
    lock: LockId,
    link: u32,
}

/// State of a receiver of sessions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum Receiver {
    #[default]
    Closed,
    Opening,
    Open(String),
}

struct CoreWorld<'a> {
    plan: &'a Plan,
    rng: Rng,
    now: u64,
    process: Process,
    client: u64,
    tickets: BTreeMap<u64, PendingRequest>,
    next_ticket: u64,
    next_transaction: u64,
    held: Vec<HeldMessage>,
    credit: BTreeMap<u32, u64>,
    received: BTreeMap<u32, u64>,
    receivers: BTreeMap<u32, Receiver>,
    scheduled: Vec<(u64, Vec<SequenceNumber>, &'static str)>,
    /// Numbers of `plain` that a rollback left to nobody.
    void: Vec<SequenceNumber>,
    /// Payloads that may be sent once more.
    duplicates: Vec<(u64, Message)>,
    /// The client with dynamic nodes.
    requester: Requester,
    model: CoreModel,
    report: Report,
    commands: Vec<Command>,
}

/// Virtual time of the start, in milliseconds since the epoch.
const EPOCH: u64 = 1_700_000_000_000;

/// Runs a plan's seed through all kinds of entities.
pub fn run_core_world(plan: &Plan) -> Result<Report, Failure> {
    // Forwarding writes the copy before it frees the original: a full disk would block it for good.
    let plan =
        Plan { max_disk_bytes: None, shards: 1, inputs_per_round: 1, round_work: None, ..plan.clone() };
    let mut core = CoreWorld::new(&plan);
    let mut step = 0;
    let failed = |step| move |what| Failure { step, what };
    core.boot().map_err(failed(step))?;
    while step < plan.steps {
        step += 1;
        core.step().map_err(failed(step))?;
    }
    core.drain().map_err(failed(step))?;
    core.report.accepted = core.model.accepted;
    core.report.delivered = core.model.delivered;
    core.report.events.append(&mut core.process.events);
    core.report.journal = core.process.journal();
    core.report.disk_failures = core.process.disk_faults.failures.load(Ordering::Relaxed);
    Ok(core.report)
}

impl<'a> CoreWorld<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x0050_0575);
        let disk_faults = DiskFaults::new(rng.fork(), plan.disk_fails);
        Self {
            plan,
            now: EPOCH,
            process: Process::new(disk_faults, plan.seed ^ 0x0050_0575),
            client: 0,
            tickets: BTreeMap::new(),
            next_ticket: 1,
            next_transaction: 1,
            held: Vec::new(),
            credit: BTreeMap::new(),
            received: BTreeMap::new(),
            receivers: BTreeMap::new(),
            scheduled: Vec::new(),
            void: Vec::new(),
            duplicates: Vec::new(),
            requester: Requester::new(Rng::new(plan.seed ^ 0x0D1A_3105)),
            model: CoreModel::default(),
            report: Report::default(),
            commands: Vec::new(),
            rng,
        }
    }

    fn boot(&mut self) -> Result<(), String> {
        // A new profile changes no existing entity.
        self.process.profile = match self.rng.below(5) {
            0 if self.client > 0 => Profile::BASIC,
            1 if self.client > 0 => Profile::EMULATOR,
            _ => Profile::STANDARD,
        };
        let mut setup = Batch { client: ClientId(0), commands: entities(self.plan.seed) };
        if !self.plan.topology.is_free_of(PlantedFault::DynamicNodesStay) {
            setup = requester::left_behind();
        }
        self.process.boot((self.plan, self.now), &mut self.rng, &[NamespaceSetup::of_default(setup)])?;
        if self.process.has_dynamic_nodes() {
            return Err("a dynamic node was there after a start".into());
        }
        self.client += 1;
        self.commands = vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }];
        for (link, name) in (0..PLACE_LINKS).zip(ENTITIES) {
            self.commands.push(Command::OpenConsumer {
                consumer: LinkId(link),
                path: path(name),
                mode: ReceiveMode::PeekLock,
                unsettled: UnsettledPolicy::Release,
                session: None,
                auto_create: false,
            });
        }
        self.request_unsupported();
        self.submit();
        Ok(())
    }

    /// Asks for what goes beyond the profile.
    fn request_unsupported(&mut self) {
        let forbidden = if self.process.profile == Profile::BASIC {
            Some((EntityKind::Topic, 10, BASIC_HAS_NO_TOPICS))
        } else if self.process.profile == Profile::EMULATOR {
            Some((EntityKind::Queue, 11, EMULATOR_DELIVERS_TEN_TIMES))
        } else {
            None
        };
        let Some((kind, max_delivery_count, why)) = forbidden else { return };
        let settings = Box::new(EntitySettings { max_delivery_count, ..EntitySettings::default() });
        let ticket = self.ticket(PendingRequest::Never(why));
        self.commands.push(Command::CreateEntity { name: "beyond".into(), kind, settings, ticket });
    }

    fn submit(&mut self) {
        let commands = std::mem::take(&mut self.commands);
        self.process.submit(Residence::default(), Batch { client: ClientId(self.client), commands });
    }

    /// Notes that something happened that a run is made for.
    fn count(&mut self, event: &'static str) {
        *self.report.events.entry(event).or_default() += 1;
    }

    fn ticket(&mut self, requested: PendingRequest) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, requested);
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
            10..=14 => self.process.node_step(self.now, &mut self.rng)?,
            15..=18 => self.process.disk_step(&mut self.rng),
            _ => self.time_passes(),
        }
        self.submit();
        self.run_requester()?;
        self.read()?;
        if self.process.is_broken() {
            // The process ends by itself, and is started again.
            self.crash();
            return self.boot();
        }
        Ok(())
    }

    /// The client with dynamic nodes does something, or has left none.
    fn run_requester(&mut self) -> Result<(), String> {
        if self.requester.is_away() && !self.process.is_busy() && self.process.has_dynamic_nodes() {
            return Err("a dynamic node was there without its connection".into());
        }
        if let Some((batch, counts)) = self.requester.act(self.now) {
            if let Some(event) = counts {
                self.count(event);
            }
            self.process.submit(Residence::default(), batch);
        }
        Ok(())
    }

    /// Advances the clock a little, or to the next deadline of the node.
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
        for requested in std::mem::take(&mut self.tickets).into_values() {
            match requested {
                PendingRequest::Send(group)
                | PendingRequest::Schedule(group)
                | PendingRequest::Commit(group) => {
                    self.model.unanswered(group);
                }
                // The broker may have performed it before the crash; the model noted it when it was requested.
                PendingRequest::Cancel(_)
                | PendingRequest::Complete(..)
                | PendingRequest::Void
                | PendingRequest::Never(_) => {}
            }
        }
        if self.requester.on_crash() {
            self.count(requester::CRASHED);
        }
        self.held.clear();
        self.credit.clear();
        self.received.clear();
        self.receivers.clear();
        self.commands.clear();
        // These numbers were never written down: others may get them now.
        self.void.clear();
    }

    /// Takes in what the broker says.
    fn read(&mut self) -> Result<(), String> {
        if self.process.hides_messages_of_sessions(Residence::default()) {
            self.model.passing_hidden();
        }
        for (_, released) in self.process.released() {
            if released.client == self.requester.client() {
                self.tell_requester(released.effects)?;
                continue;
            }
            if released.client != ClientId(self.client) {
                continue;
            }
            for effect in released.effects {
                self.on_effect(effect)?;
            }
        }
        Ok(())
    }

    fn tell_requester(&mut self, effects: Vec<Effect>) -> Result<(), String> {
        for effect in effects {
            if let Some((batch, event)) = self.requester.on_effect(effect)? {
                self.count(event);
                self.process.submit(Residence::default(), batch);
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
            | Effect::SettleRefused { ticket, .. } => self.refused(ticket.0),
            Effect::Delivery(delivery) => self.on_delivery(&delivery),
            Effect::ConsumerOpened { consumer, session: Some(grant), .. } => {
                self.on_session(consumer.0, &grant.id)
            }
            Effect::AttachRefused { link, .. } => {
                self.receivers.insert(link.0, Receiver::Closed);
                Ok(())
            }
            Effect::SessionLost { consumer: link, .. } => {
                // It may come late, when the link was closed and has asked for another session.
                if self.receivers.get(&link.0) != Some(&Receiver::Opening) {
                    self.receivers.insert(link.0, Receiver::Closed);
                    self.held.retain(|held| held.link != link.0);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn done(&mut self, ticket: u64, sequences: Option<Vec<SequenceNumber>>) -> Result<(), String> {
        match self.tickets.remove(&ticket) {
            Some(PendingRequest::Commit(_)) if self.process.profile == Profile::BASIC => {
                return Err("the basic tier has no transactions".into());
            }
            Some(PendingRequest::Send(group)) => self.model.accepted(group),
            Some(PendingRequest::Commit(group)) => {
                self.count("transactions committed in the core");
                self.model.accepted(group);
            }
            Some(PendingRequest::Void) => self.void.extend(sequences.into_iter().flatten()),
            Some(PendingRequest::Never(why)) => return Err(format!("this has to be refused: {why}")),
            Some(PendingRequest::Schedule(group)) => {
                self.model.accepted(group);
                let known = self.scheduled.iter_mut().find(|(known, ..)| *known == group);
                if let (Some(known), Some(sequences)) = (known, sequences) {
                    known.1 = sequences;
                }
            }
            Some(PendingRequest::Cancel(group)) => {
                self.model.cancelled(group).map_err(|broken| broken.to_string())?;
            }
            Some(PendingRequest::Complete(id, entity)) => self.model.completed(id, entity),
            None => {}
        }
        Ok(())
    }

    fn refused(&mut self, ticket: u64) -> Result<(), String> {
        match self.tickets.remove(&ticket) {
            Some(
                PendingRequest::Send(group) | PendingRequest::Schedule(group) | PendingRequest::Commit(group),
            ) => {
                self.model.refused(group).map_err(|broken| broken.to_string())?;
            }
            Some(PendingRequest::Cancel(group)) => self.model.not_cancelled(group),
            Some(PendingRequest::Never(why)) => self.count(why),
            Some(PendingRequest::Complete(..) | PendingRequest::Void) | None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
