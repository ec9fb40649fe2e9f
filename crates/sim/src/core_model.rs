//! Reference model of the simulation without connections: the messages of each request, the entities that each must reach,
//! and the deliveries seen.
//!
//! Invariant: a send group arrives whole or not at all: its messages at their entities, and the completion that went with it.

use std::collections::BTreeMap;

use crate::model::{Broken, EntityIndex, Id, broken};

/// Outcome of a request, as its sender knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sent {
    /// Asked for, and no answer yet.
    PendingRequest,
    /// The answer went with a crash: it may have happened or not.
    Unknown,
    Yes,
    /// The broker said no, or was never asked to commit.
    No,
}

/// Deliveries and completions of one copy of a message.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that happened or not")]
struct Arrival {
    observed: bool,
    /// A completion was sent and not confirmed.
    completing: bool,
    /// The broker confirmed the completion.
    gone: bool,
    /// A transaction was to complete it.
    enlisted: bool,
    /// It was completed otherwise, too, or that was tried.
    tried: bool,
    sequence: u64,
}

#[derive(Clone, Debug)]
struct Message {
    group: u64,
    /// It must not arrive before.
    due: u64,
    entities: BTreeMap<EntityIndex, Arrival>,
}

/// The messages of one request.
#[derive(Clone, Debug)]
struct SendGroup {
    sent: Sent,
    /// Cancelling was asked for, and may have happened.
    cancelling: bool,
    messages: Vec<Id>,
    /// A completion in the same transaction.
    completes: Option<(Id, EntityIndex)>,
}

/// All that was sent and seen.
#[derive(Debug, Default)]
pub(crate) struct CoreModel {
    messages: BTreeMap<Id, Message>,
    sent: BTreeMap<u64, SendGroup>,
    /// Highest number first seen in each session.
    sessions: BTreeMap<String, u64>,
    next: u64,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
}

impl CoreModel {
    /// A new send group, still empty.
    pub(crate) fn new_send_group(&mut self) -> u64 {
        self.next += 1;
        let empty = SendGroup {
            sent: Sent::PendingRequest,
            cancelling: false,
            messages: Vec::new(),
            completes: None,
        };
        self.sent.insert(self.next, empty);
        self.next
    }

    /// One more message of a send group, to arrive at all of these entities and not before it is due; its name.
    pub(crate) fn put(&mut self, group: u64, entities: &[EntityIndex], due: u64) -> Id {
        self.next += 1;
        let entities = entities.iter().map(|entity| (*entity, Arrival::default())).collect();
        self.messages.insert(self.next, Message { group, due, entities });
        if let Some(group) = self.sent.get_mut(&group) {
            group.messages.push(self.next);
        }
        self.next
    }

    /// The send group's transaction completes this message as well.
    pub(crate) fn completes(&mut self, group: u64, id: Id, entity: EntityIndex) {
        if let Some(arrival) = self.arrival(id, entity) {
            arrival.tried |= arrival.enlisted;
            arrival.enlisted = true;
        }
        if let Some(group) = self.sent.get_mut(&group) {
            group.completes = Some((id, entity));
        }
    }

    pub(crate) fn accepted(&mut self, group: u64) {
        let Some(known) = self.sent.get_mut(&group) else { return };
        known.sent = Sent::Yes;
        self.accepted += 1;
        if let Some((id, entity)) = known.completes {
            self.completed(id, entity);
        }
    }

    /// A refusal of something that was asked for twice says nothing of the first time.
    pub(crate) fn refused(&mut self, group: u64) {
        if let Some(group) = self.sent.get_mut(&group)
            && group.sent == Sent::PendingRequest
        {
            group.sent = Sent::No;
        }
    }

    /// The answer went with a crash.
    pub(crate) fn unanswered(&mut self, group: u64) {
        let Some(known) = self.sent.get_mut(&group) else { return };
        if known.sent == Sent::PendingRequest {
            known.sent = Sent::Unknown;
        }
        if let Some((id, entity)) = known.completes
            && let Some(arrival) = self.arrival(id, entity)
        {
            arrival.completing = true;
        }
    }

    pub(crate) fn cancelling(&mut self, group: u64) {
        if let Some(group) = self.sent.get_mut(&group) {
            group.cancelling = true;
        }
    }

    /// The broker said that a schedule is cancelled: it never fires.
    pub(crate) fn cancelled(&mut self, group: u64) -> Result<(), Broken> {
        let Some(known) = self.sent.get_mut(&group) else { return Ok(()) };
        known.sent = Sent::No;
        let observed = known.messages.iter().find_map(|id| {
            let (entity, _) = self.messages.get(id)?.entities.iter().find(|(_, arrival)| arrival.observed)?;
            Some((*id, *entity))
        });
        observed.map_or(Ok(()), |(id, entity)| broken(id, "what has fired cannot be cancelled", &entity))
    }

    /// The broker said that there is nothing to cancel: it has fired.
    pub(crate) fn not_cancelled(&mut self, group: u64) {
        if let Some(group) = self.sent.get_mut(&group) {
            group.cancelling = false;
        }
    }

    /// A receiver sees a message.
    pub(crate) fn delivered(
        &mut self,
        id: Id,
        entity: EntityIndex,
        sequence: u64,
        now: u64,
    ) -> Result<(), Broken> {
        self.delivered += 1;
        let Some(message) = self.messages.get_mut(&id) else {
            return broken(id, "only what was sent is delivered", &entity);
        };
        let Some(group) = self.sent.get(&message.group) else { return Ok(()) };
        let Some(arrival) = message.entities.get_mut(&entity) else {
            return broken(id, "a message arrives where it belongs", &entity);
        };
        if group.sent == Sent::No {
            return broken(id, "what was refused, rolled back or cancelled never arrives", &entity);
        }
        if now < message.due {
            return broken(id, "nothing arrives before it is due", &entity);
        }
        if arrival.gone {
            return broken(id, "what was completed never comes back, nor its duplicate", &entity);
        }
        if arrival.observed && arrival.sequence != sequence {
            return broken(id, "there is one copy at each place", &entity);
        }
        *arrival = Arrival { observed: true, completing: false, gone: false, sequence, ..*arrival };
        Ok(())
    }

    /// Within a session, messages are seen for the first time in the order of their numbers.
    pub(crate) fn in_session(
        &mut self,
        session: &str,
        id: Id,
        entity: EntityIndex,
        sequence: u64,
    ) -> Result<(), Broken> {
        let observed = self.messages.get(&id).and_then(|message| message.entities.get(&entity));
        if observed.is_some_and(|arrival| arrival.observed) {
            return Ok(());
        }
        let last = self.sessions.entry(session.to_owned()).or_default();
        if sequence <= *last {
            return broken(id, "a session keeps its order", &entity);
        }
        *last = sequence;
        Ok(())
    }

    fn arrival(&mut self, id: Id, entity: EntityIndex) -> Option<&mut Arrival> {
        self.messages.get_mut(&id)?.entities.get_mut(&entity)
    }

    /// A completion is sent.
    pub(crate) fn completing(&mut self, id: Id, entity: EntityIndex) {
        if let Some(arrival) = self.arrival(id, entity) {
            (arrival.completing, arrival.tried) = (true, true);
        }
    }

    /// The broker confirmed a completion.
    pub(crate) fn completed(&mut self, id: Id, entity: EntityIndex) {
        if let Some(arrival) = self.arrival(id, entity) {
            (arrival.gone, arrival.completing) = (true, false);
        }
    }

    /// After everything was received and completed.
    pub(crate) fn check_drained(&self) -> Result<(), Broken> {
        for group in self.sent.values() {
            self.check_send_group(group)?;
        }
        Ok(())
    }

    fn check_send_group(&self, group: &SendGroup) -> Result<(), Broken> {
        let arrivals = group.messages.iter().filter_map(|id| Some((*id, self.messages.get(id)?)));
        let arrivals: Vec<(Id, EntityIndex, bool)> = arrivals
            .flat_map(|(id, message)| {
                message.entities.iter().map(move |(entity, arrival)| (id, *entity, arrival.observed))
            })
            .collect();
        let missing = arrivals.iter().find(|(.., observed)| !observed);
        let arrived = arrivals.iter().find(|(.., observed)| *observed);
        let must = group.sent == Sent::Yes && !group.cancelling;
        match (missing, arrived) {
            (Some((id, entity, _)), _) if must => {
                broken(*id, "what was accepted arrives at each of its places", &entity)
            }
            (Some((id, entity, _)), Some(_)) => {
                broken(*id, "a send group arrives whole or not at all", &entity)
            }
            _ => self.check_completion(group, arrived.is_some()),
        }
    }

    /// With a transaction whose end nobody saw, its completion happened exactly if its messages arrived.
    fn check_completion(&self, group: &SendGroup, arrived: bool) -> Result<(), Broken> {
        let Some((id, entity)) = group.completes.filter(|_| group.sent == Sent::Unknown) else {
            return Ok(());
        };
        let arrival = self.messages.get(&id).and_then(|message| message.entities.get(&entity));
        let Some(arrival) = arrival.filter(|arrival| !arrival.tried) else { return Ok(()) };
        match (arrived, !arrival.completing) {
            (true, true) => broken(id, "a transaction that committed has completed it", &entity),
            (false, false) => broken(id, "a transaction that did not commit has not completed it", &entity),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
