//! Reference model of the simulation without connections: the messages of each request, the entities that each must reach,
//! and the deliveries seen.
//!
//! Invariant: a send group arrives whole or not at all: its messages at their entities, and the completion that went with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Broken, EntityIndex, Id, RollbackEffect, SendGroupId, SendGroups, broken};

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
    group: SendGroupId,
    /// It must not arrive before.
    due: u64,
    entities: BTreeMap<EntityIndex, Arrival>,
}

/// All that was sent and seen.
#[derive(Debug, Default)]
pub(crate) struct CoreModel {
    messages: BTreeMap<Id, Message>,
    send_groups: SendGroups,
    /// Send groups whose answer went with a crash.
    unanswered: BTreeSet<SendGroupId>,
    /// Highest number first seen in each session.
    sessions: BTreeMap<String, u64>,
    /// A message of a session was hidden, and others have passed it.
    has_passed_hidden: bool,
    next: Id,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
}

impl CoreModel {
    /// A new send group, still empty.
    pub(crate) fn new_send_group(&mut self) -> SendGroupId {
        // A group takes a name too: the names of messages, which travel, are those of every recorded digest.
        self.next += 1;
        self.send_groups.begin()
    }

    /// One more message of a send group, to arrive at all of these entities and not before it is due; its name.
    pub(crate) fn put(&mut self, group: SendGroupId, entities: &[EntityIndex], due: u64) -> Id {
        self.next += 1;
        for entity in entities {
            self.send_groups.add_message(group, (self.next, *entity));
        }
        let entities = entities.iter().map(|entity| (*entity, Arrival::default())).collect();
        self.messages.insert(self.next, Message { group, due, entities });
        self.next
    }

    /// The send group's transaction completes this message as well.
    pub(crate) fn completes(&mut self, group: SendGroupId, id: Id, entity: EntityIndex) {
        if let Some(arrival) = self.arrival(id, entity) {
            arrival.tried |= arrival.enlisted;
            arrival.enlisted = true;
        }
        self.send_groups.add_completion(group, (id, entity), RollbackEffect::Returned);
    }

    pub(crate) fn accepted(&mut self, group: SendGroupId) {
        let (_, completes) = self.send_groups.accept(group);
        self.unanswered.remove(&group);
        self.accepted += 1;
        for (id, entity) in completes {
            self.completed(id, entity);
        }
    }

    /// The broker refused it, or it was never asked to commit.
    pub(crate) fn refused(&mut self, group: SendGroupId) -> Result<(), Broken> {
        self.send_groups.refuse(group).map(drop)
    }

    /// The same message is about to be sent once more.
    pub(crate) fn sending_again(&mut self, group: SendGroupId) {
        self.send_groups.sending_again(group);
    }

    /// The answer went with a crash.
    pub(crate) fn unanswered(&mut self, group: SendGroupId) {
        let Some(known) = self.send_groups.get(group) else { return };
        if known.is_unknown() {
            self.unanswered.insert(group);
        }
        for (id, entity) in known.completes.clone() {
            if let Some(arrival) = self.arrival(id, entity) {
                arrival.completing = true;
            }
        }
    }

    pub(crate) fn cancelling(&mut self, group: SendGroupId) {
        self.send_groups.cancelling(group);
    }

    /// The broker said that a schedule is cancelled: it never fires.
    pub(crate) fn cancelled(&mut self, group: SendGroupId) -> Result<(), Broken> {
        self.send_groups.cancelled(group)
    }

    /// The broker said that there is nothing to cancel: it has fired.
    pub(crate) fn not_cancelled(&mut self, group: SendGroupId) {
        self.send_groups.not_cancelled(group);
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
        let Some(arrival) = message.entities.get_mut(&entity) else {
            return broken(id, "a message arrives where it belongs", &entity);
        };
        if now < message.due {
            return broken(id, "nothing arrives before it is due", &entity);
        }
        if self.send_groups.on_observed(message.group, id, now)? {
            self.send_groups.accept(message.group);
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

    /// A message of a session is hidden until the next start: those behind it come first.
    pub(crate) fn passing_hidden(&mut self) {
        self.has_passed_hidden = true;
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
        if sequence <= *last && !self.has_passed_hidden {
            return broken(id, "a session keeps its order", &entity);
        }
        *last = sequence.max(*last);
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
        for (group, known) in self.send_groups.iter() {
            let observed = |(id, entity): &(Id, EntityIndex)| {
                self.messages.get(id)?.entities.get(entity).map(|arrival| arrival.observed)
            };
            let missing = known.messages.iter().find(|copy| observed(copy) == Some(false));
            if let Some((id, entity)) = missing.filter(|_| self.send_groups.must_arrive(group)) {
                let arrived = known.messages.iter().any(|copy| observed(copy) == Some(true));
                let promise = if arrived && self.unanswered.contains(&group) {
                    "a send group arrives whole or not at all"
                } else {
                    "what was accepted arrives at each of its places"
                };
                return broken(*id, promise, entity);
            }
            if self.unanswered.contains(&group) {
                let arrived = known.messages.iter().any(|copy| observed(copy) == Some(true));
                known.completes.iter().try_for_each(|copy| self.check_completion(*copy, arrived))?;
            }
        }
        Ok(())
    }

    /// A completion in a transaction whose answer went with a crash happened exactly if the transaction's messages arrived.
    fn check_completion(&self, (id, entity): (Id, EntityIndex), arrived: bool) -> Result<(), Broken> {
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
