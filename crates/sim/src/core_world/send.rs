//! Sending: plain, scheduled and duplicate messages, messages sent via another entity, and transactions.
//!
//! Invariant: the model knows every message, and the entities that it must reach, before it is sent.

use broker_core::{Command, Message, Outcome, Ticket, Timestamp, TransactionId};
use bytes::Bytes;
use testkit::{application_properties, data, message, properties};

use super::{
    ALL, CoreWorld, END, HeldMessage, ODD, ONCE, PLAIN, PendingRequest, ROLLED_BACK_IS_NEVER_SCHEDULED,
    STEPS, TRANSFER, entities::path,
};
use crate::model::{EntityIndex, Id};

/// Address to send to, and the entities that it reaches; with none, those of the topic's subscriptions.
type Address = (&'static str, &'static [EntityIndex]);

/// Destinations of sends via another queue; the last one is closed.
const VIA: [Address; 3] = [("end", &[END]), ("news", &[]), ("closed", &[TRANSFER])];
/// Entities that take scheduled messages.
const SCHEDULES: [Address; 3] = [("plain", &[PLAIN]), ("way", &[END]), ("news", &[])];

impl CoreWorld<'_> {
    /// Sends something.
    pub(super) fn send(&mut self) {
        match self.rng.below(10) {
            0 => self.send_to(("plain", &[PLAIN]), None),
            1 => self.send_once(),
            2 => self.send_to(("way", &[END]), None),
            3 | 4 => self.send_to(("news", &[]), None),
            5 => {
                let session = format!("s{}", self.rng.below(3));
                self.send_to(("steps", &[STEPS]), Some(&session));
            }
            6 => self.schedule(),
            7 => self.cancel(),
            8 => self.send_via(),
            _ => self.transact(),
        }
    }

    /// One of three.
    fn one_of(&mut self, addresses: &[Address; 3]) -> Address {
        let [first, second, third] = *addresses;
        match self.rng.below(3) {
            0 => first,
            1 => second,
            _ => third,
        }
    }

    /// One message's entities: `fixed`, or those of the topic's subscriptions for its number.
    fn entities(fixed: &[EntityIndex], number: u64) -> Vec<EntityIndex> {
        if !fixed.is_empty() {
            return fixed.to_vec();
        }
        let mut entities = vec![ALL, END];
        if number % 2 == 1 {
            entities.push(ODD);
        }
        entities
    }

    /// So many more messages of a send group.
    fn new_messages(
        &mut self,
        group: u64,
        fixed: &[EntityIndex],
        count: u64,
        due: Option<u64>,
        session: Option<&str>,
    ) -> Vec<Message> {
        let mut messages = Vec::new();
        for _ in 0..count {
            let number = self.rng.below(10);
            let id = self.model.put(group, &Self::entities(fixed, number), due.unwrap_or(0));
            let payload = write(id, number, self.rng.below(self.plan.body_max));
            let described = amqp_gateway::describe(Timestamp::from_millis(self.now), &payload);
            messages.push(Message {
                session_id: session.map(Box::from),
                message_id: Some(id.to_string().into()),
                scheduled_enqueue_time: due.map(Timestamp::from_millis),
                ..described
            });
        }
        messages
    }

    fn send_to(&mut self, (name, fixed): Address, session: Option<&str>) {
        let group = self.model.new_send_group();
        let count = 1 + self.rng.below(3);
        let messages = self.new_messages(group, fixed, count, None, session);
        let ticket = Some(self.ticket(PendingRequest::Send(group)));
        self.commands.push(Command::PublishTo { path: path(name), messages, auto_create: false, ticket });
    }

    /// To the queue that drops duplicates: something new, or something that was sent before.
    fn send_once(&mut self) {
        let again = !self.duplicates.is_empty() && self.rng.chance(50);
        let (group, message) = if again {
            let index = usize::try_from(self.rng.below(self.duplicates.len() as u64)).unwrap_or(0);
            let Some(known) = self.duplicates.get(index).cloned() else { return };
            self.model.sending_again(known.0);
            known
        } else {
            let group = self.model.new_send_group();
            let Some(message) = self.new_messages(group, &[ONCE], 1, None, None).pop() else { return };
            self.duplicates.push((group, message.clone()));
            (group, message)
        };
        let ticket = Some(self.ticket(PendingRequest::Send(group)));
        let path = path("once");
        self.commands.push(Command::PublishTo { path, messages: vec![message], auto_create: false, ticket });
    }

    /// Through the plain queue, where it must not show.
    fn send_via(&mut self) {
        let (name, fixed) = self.one_of(&VIA);
        let group = self.model.new_send_group();
        let count = 1 + self.rng.below(2);
        let messages = self.new_messages(group, fixed, count, None, None);
        let ticket = Some(self.ticket(PendingRequest::Send(group)));
        let (path, via) = (path(name), path("plain"));
        self.commands.push(Command::PublishVia { path, via, messages, ticket });
    }

    fn schedule(&mut self) {
        let due = self.now + 1 + self.rng.below(4_000);
        let (name, fixed) = self.one_of(&SCHEDULES);
        let group = self.model.new_send_group();
        let count = 1 + self.rng.below(2);
        let messages = self.new_messages(group, fixed, count, Some(due), None);
        let ticket = self.ticket(PendingRequest::Schedule(group));
        self.scheduled.push((group, Vec::new(), name));
        self.commands.push(Command::Schedule { path: path(name), messages, ticket });
    }

    fn cancel(&mut self) {
        if let Some(number) = self.void.pop() {
            let ticket = self.ticket(PendingRequest::Never(ROLLED_BACK_IS_NEVER_SCHEDULED));
            let sequences = vec![number];
            return self.commands.push(Command::CancelScheduled { path: path("plain"), sequences, ticket });
        }
        let known = self.scheduled.iter().position(|(_, sequences, _)| !sequences.is_empty());
        let Some(index) = known else { return };
        let (group, sequences, name) = self.scheduled.swap_remove(index);
        self.model.cancelling(group);
        let ticket = self.ticket(PendingRequest::Cancel(group));
        self.commands.push(Command::CancelScheduled { path: path(name), sequences, ticket });
    }

    /// Sends, schedules, sends through other entities, and perhaps a completion, all or none of them. A transaction is one
    /// send group; one that is not told to commit is refused before it begins.
    fn transact(&mut self) {
        let transaction = TransactionId(self.next_transaction);
        self.next_transaction += 1;
        let group = self.model.new_send_group();
        let commits = self.rng.chance(70);
        if !commits {
            // Nothing of a new group was seen, so this contradicts nothing.
            drop(self.model.refused(group));
        }
        self.commands.push(Command::Declare { transaction, ticket: Ticket(0) });
        for _ in 0..=self.rng.below(3) {
            let command = self.operation(group, commits);
            self.commands.push(command.within(transaction));
        }
        if commits {
            self.complete_within(transaction, group);
            let ticket = Some(self.ticket(PendingRequest::Commit(group)));
            self.commands.push(Command::Discharge { transaction, fail: false, ticket });
        } else {
            // Left open it ends with the client.
            let fails = self.rng.chance(50);
            if fails {
                self.commands.push(Command::Discharge { transaction, fail: true, ticket: None });
            }
        }
    }

    /// Something that is sent in a transaction.
    fn operation(&mut self, group: u64, commits: bool) -> Command {
        let ticket = None;
        match self.rng.below(4) {
            0 => {
                let (name, fixed) = self.one_of(&VIA);
                let messages = self.new_messages(group, fixed, 1, None, None);
                Command::PublishVia { path: path(name), via: path("plain"), messages, ticket }
            }
            1 => {
                let due = Some(self.now + 1 + self.rng.below(4_000));
                let (name, fixed) = self.one_of(&SCHEDULES);
                let messages = self.new_messages(group, fixed, 1, due, None);
                let is_void = !commits && fixed == [PLAIN];
                let ticket = if is_void { self.ticket(PendingRequest::Void) } else { Ticket(0) };
                Command::Schedule { path: path(name), messages, ticket }
            }
            _ => {
                let (name, fixed) = self.one_of(&SCHEDULES);
                let messages = self.new_messages(group, fixed, 1, None, None);
                Command::PublishTo { path: path(name), messages, auto_create: false, ticket }
            }
        }
    }

    fn complete_within(&mut self, transaction: TransactionId, group: u64) {
        let completes = self.rng.chance(60);
        let Some(held) = completes.then(|| self.pick_held()).flatten() else { return };
        let HeldMessage { id, entity, queue, sequence, lock, .. } = held;
        let outcome = Outcome::Complete;
        let command = Box::new(Command::Settle { queue, sequence, lock, outcome, ticket: None });
        self.commands.push(Command::Enlist { transaction, command, settled: true });
        self.model.completes(group, id, entity);
    }
}

/// The message named `id`, with a number for rules to look at and a body of `length` bytes.
fn write(id: Id, number: u64, length: u64) -> Bytes {
    let number = u32::try_from(number).unwrap_or(0);
    let mut body = id.to_be_bytes().to_vec();
    body.resize(8 + usize::try_from(length).unwrap_or(0), 0x5a);
    message(&[properties(&id.to_string()), application_properties(&[("number", number)]), data(&body)])
}
