//! What the client sends, and through which kind of entity.
//!
//! Invariant: every message is known to the parcels, with all of its places, before it is sent.

use broker_core::{Command, Message, Timestamp};
use bytes::Bytes;
use testkit::{application_properties, data, message, properties};

use super::{
    ALL, Asked, END, ODD, ONCE, PLAIN, Post, ROLLED_BACK_IS_NEVER_SCHEDULED, STEPS, TRANSFER, entities::path,
};
use crate::parcel::{Id, Place};

/// A name to send to, and where that arrives; without places those of the topic's subscriptions.
pub(super) type Address = (&'static str, &'static [Place]);

/// What can be sent to through another queue; the last one is closed.
pub(super) const THROUGH: [Address; 3] = [("end", &[END]), ("news", &[]), ("closed", &[TRANSFER])];
/// What can be scheduled on.
pub(super) const SCHEDULES: [Address; 3] = [("plain", &[PLAIN]), ("way", &[END]), ("news", &[])];

impl Post<'_> {
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
            8 => self.send_through(),
            _ => self.transact(),
        }
    }

    /// One of three.
    pub(super) fn one_of(&mut self, addresses: &[Address; 3]) -> Address {
        let [first, second, third] = *addresses;
        match self.rng.below(3) {
            0 => first,
            1 => second,
            _ => third,
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

    /// So many more messages of a parcel.
    pub(super) fn letters(
        &mut self,
        parcel: u64,
        fixed: &[Place],
        count: u64,
        due: Option<u64>,
        session: Option<&str>,
    ) -> Vec<Message> {
        let mut messages = Vec::new();
        for _ in 0..count {
            let number = self.rng.below(10);
            let id = self.parcels.put(parcel, &Self::places(fixed, number), due.unwrap_or(0));
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
        let parcel = self.parcels.new_parcel();
        let count = 1 + self.rng.below(3);
        let messages = self.letters(parcel, fixed, count, None, session);
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
            let parcel = self.parcels.new_parcel();
            let Some(message) = self.letters(parcel, &[ONCE], 1, None, None).pop() else { return };
            self.duplicates.push((parcel, message.clone()));
            (parcel, message)
        };
        let ticket = Some(self.ticket(Asked::Send(parcel)));
        let path = path("once");
        self.commands.push(Command::PublishTo { path, messages: vec![message], auto_create: false, ticket });
    }

    /// Through the plain queue, where it must not show.
    fn send_through(&mut self) {
        let (name, fixed) = self.one_of(&THROUGH);
        let parcel = self.parcels.new_parcel();
        let count = 1 + self.rng.below(2);
        let messages = self.letters(parcel, fixed, count, None, None);
        let ticket = Some(self.ticket(Asked::Send(parcel)));
        let (path, through) = (path(name), path("plain"));
        self.commands.push(Command::PublishThrough { path, through, messages, ticket });
    }

    fn schedule(&mut self) {
        let due = self.now + 1 + self.rng.below(4_000);
        let (name, fixed) = self.one_of(&SCHEDULES);
        let parcel = self.parcels.new_parcel();
        let count = 1 + self.rng.below(2);
        let messages = self.letters(parcel, fixed, count, Some(due), None);
        let ticket = self.ticket(Asked::Schedule(parcel));
        self.scheduled.push((parcel, Vec::new(), name));
        self.commands.push(Command::Schedule { path: path(name), messages, ticket });
    }

    fn cancel(&mut self) {
        if let Some(number) = self.void.pop() {
            let ticket = self.ticket(Asked::Never(ROLLED_BACK_IS_NEVER_SCHEDULED));
            let sequences = vec![number];
            return self.commands.push(Command::CancelScheduled { path: path("plain"), sequences, ticket });
        }
        let known = self.scheduled.iter().position(|(_, sequences, _)| !sequences.is_empty());
        let Some(place) = known else { return };
        let (parcel, sequences, name) = self.scheduled.swap_remove(place);
        self.parcels.cancelling(parcel);
        let ticket = self.ticket(Asked::Cancel(parcel));
        self.commands.push(Command::CancelScheduled { path: path(name), sequences, ticket });
    }
}

/// The message named `id`, with a number for rules to look at and a body of `length` bytes.
fn write(id: Id, number: u64, length: u64) -> Bytes {
    let number = u32::try_from(number).unwrap_or(0);
    let mut body = id.to_be_bytes().to_vec();
    body.resize(8 + usize::try_from(length).unwrap_or(0), 0x5a);
    message(&[properties(&id.to_string()), application_properties(&[("number", number)]), data(&body)])
}
