//! What the client sends, and through which kind of entity.
//!
//! Invariant: every message is known to the parcels, with all of its places, before it is sent.

use broker_core::{Command, Message, Operation, Outcome, PublishTarget, Ticket, Timestamp, TransactionId};
use bytes::Bytes;
use testkit::{application_properties, data, message, properties};

use super::{ALL, Asked, END, Held, ODD, ONCE, PLAIN, Post, STEPS, entities::path};
use crate::parcel::{Id, Place};

impl Post<'_> {
    /// Sends something.
    pub(super) fn send(&mut self) {
        match self.rng.below(9) {
            0 => self.send_to("plain", &[PLAIN], None),
            1 => self.send_once(),
            2 => self.send_to("way", &[END], None),
            3 | 4 => self.send_to("news", &[], None),
            5 => {
                let session = format!("s{}", self.rng.below(3));
                self.send_to("steps", &[STEPS], Some(&session));
            }
            6 => self.schedule(),
            7 => self.cancel(),
            _ => self.transact(),
        }
    }

    /// One message's places: `fixed`, or those of the topic's subscriptions for its number.
    fn places(fixed: &[Place], number: u64) -> Vec<Place> {
        if !fixed.is_empty() {
            return fixed.to_vec();
        }
        let mut places = vec![ALL, END];
        if number % 2 == 1 {
            places.push(ODD);
        }
        places
    }

    /// A parcel of so many messages, and the messages.
    fn parcel(
        &mut self,
        fixed: &[Place],
        count: usize,
        due: u64,
        session: Option<&str>,
    ) -> (u64, Vec<Message>) {
        let numbers: Vec<u64> = (0..count).map(|_| self.rng.below(10)).collect();
        let places: Vec<Vec<Place>> = numbers.iter().map(|number| Self::places(fixed, *number)).collect();
        let (parcel, ids) = self.parcels.new_parcel(&places, due);
        let messages = ids.iter().zip(numbers).map(|(id, number)| {
            let payload = write(*id, number, self.rng.below(self.plan.body_max));
            let described = amqp_gateway::describe(Timestamp::from_millis(self.now), &payload);
            Message {
                session_id: session.map(Box::from),
                message_id: Some(id.to_string().into()),
                ..described
            }
        });
        (parcel, messages.collect())
    }

    fn send_to(&mut self, name: &str, fixed: &[Place], session: Option<&str>) {
        let count = 1 + usize::try_from(self.rng.below(3)).unwrap_or(0);
        let (parcel, messages) = self.parcel(fixed, count, 0, session);
        let ticket = Some(self.ticket(Asked::Send(parcel)));
        self.commands.push(Command::PublishTo { path: path(name), messages, auto_create: false, ticket });
    }

    /// To the queue that drops duplicates: something new, or something that was sent before.
    fn send_once(&mut self) {
        let again = !self.duplicates.is_empty() && self.rng.chance(50);
        let (parcel, message) = if again {
            let place = usize::try_from(self.rng.below(self.duplicates.len() as u64)).unwrap_or(0);
            match self.duplicates.get(place) {
                Some(known) => known.clone(),
                None => return,
            }
        } else {
            let (parcel, mut messages) = self.parcel(&[ONCE], 1, 0, None);
            let Some(message) = messages.pop() else { return };
            self.duplicates.push((parcel, message.clone()));
            (parcel, message)
        };
        let ticket = Some(self.ticket(Asked::Send(parcel)));
        let path = path("once");
        self.commands.push(Command::PublishTo { path, messages: vec![message], auto_create: false, ticket });
    }

    fn schedule(&mut self) {
        let due = self.now + 1 + self.rng.below(4_000);
        let (name, fixed): (&'static str, &[Place]) = match self.rng.below(3) {
            0 => ("plain", &[PLAIN]),
            1 => ("way", &[END]),
            _ => ("news", &[]),
        };
        let count = 1 + usize::try_from(self.rng.below(2)).unwrap_or(0);
        let (parcel, mut messages) = self.parcel(fixed, count, due, None);
        for message in &mut messages {
            message.scheduled_enqueue_time = Some(Timestamp::from_millis(due));
        }
        let ticket = self.ticket(Asked::Schedule(parcel));
        self.scheduled.push((parcel, Vec::new(), name));
        self.commands.push(Command::Schedule { path: path(name), messages, ticket });
    }

    fn cancel(&mut self) {
        let known = self.scheduled.iter().position(|(_, sequences, _)| !sequences.is_empty());
        let Some(place) = known else { return };
        let (parcel, sequences, name) = self.scheduled.swap_remove(place);
        self.parcels.cancelling(parcel);
        let ticket = self.ticket(Asked::Cancel(parcel));
        self.commands.push(Command::CancelScheduled { path: path(name), sequences, ticket });
    }

    /// Sends to several entities and perhaps completes a message, all in one transaction.
    fn transact(&mut self) {
        let transaction = TransactionId(self.next_transaction);
        self.next_transaction += 1;
        let (parcel, mut messages) = self.parcel(&[PLAIN], 2, 0, None);
        let ticket = Ticket(0);
        self.commands.push(Command::Declare { transaction, ticket });
        let rest = messages.split_off(1);
        for messages in [messages, rest] {
            let target = PublishTarget::Path { path: path("plain"), auto_create: false };
            let operation = Box::new(Operation::Publish { target, messages, ticket: None });
            self.commands.push(Command::Enlist { transaction, operation });
        }
        let commits = self.rng.chance(70);
        if commits
            && self.rng.chance(60)
            && let Some(held) = self.pick_held()
        {
            let Held { id, place, queue, sequence, lock, .. } = held;
            let outcome = Outcome::Complete;
            let operation = Box::new(Operation::Settle { queue, sequence, lock, outcome, ticket: None });
            self.commands.push(Command::Enlist { transaction, operation });
            self.parcels.completes(parcel, id, place);
        }
        if commits {
            let ticket = Some(self.ticket(Asked::Commit(parcel)));
            self.commands.push(Command::Discharge { transaction, fail: false, ticket });
        } else {
            self.parcels.refused(parcel);
            if self.rng.chance(50) {
                self.commands.push(Command::Discharge { transaction, fail: true, ticket: None });
            }
        }
    }
}

/// The message named `id`, with a number for rules to look at and a body of `length` bytes.
fn write(id: Id, number: u64, length: u64) -> Bytes {
    let number = u32::try_from(number).unwrap_or(0);
    let mut body = id.to_be_bytes().to_vec();
    body.resize(8 + usize::try_from(length).unwrap_or(0), 0x5a);
    message(&[properties(&id.to_string()), application_properties(&[("number", number)]), data(&body)])
}
