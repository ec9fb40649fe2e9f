//! Deferred messages and messages with a time to live.
//!
//! Invariant: a deferred message is delivered by its sequence number only, and an expired message to no consumer.

use super::{Broken, EntityIndex, Id, Model, ObservedDelivery, Removal, broken};

/// Whether a message stands outside of the order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Deferral {
    /// It does not.
    #[default]
    No,
    /// That was asked for, and may have happened.
    Perhaps,
    /// The broker has confirmed it.
    Yes,
}

/// Time to live of a message, and its fate afterwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lifetime {
    /// Time of sending, in milliseconds; the broker counts from the arrival.
    pub(crate) since: u64,
    /// Its time to live, in milliseconds.
    pub(crate) ttl: u64,
    /// Whether it is dead-lettered in the end.
    pub(crate) dead_letters: bool,
}

impl Model {
    /// The broker confirmed that a message is deferred.
    pub(crate) fn deferred(&mut self, id: Id, entity: EntityIndex) {
        self.count("messages deferred");
        if let Some(message) = self.messages.get_mut(&(id, entity))
            && message.deferral == Deferral::Perhaps
        {
            message.deferral = Deferral::Yes;
        }
    }

    /// Deferred messages that a client may request, with their sequence numbers.
    pub(crate) fn to_fetch(&self, entity: EntityIndex) -> Vec<((Id, EntityIndex), u64)> {
        let here = self.messages.iter().filter(|((_, home), message)| {
            let is_there = message.received_at(*home) == entity && !self.may_be_deleted(*home, message);
            is_there && message.deferral != Deferral::No && message.removal != Removal::Gone
        });
        here.filter_map(|(copy, message)| Some((*copy, message.sequence?))).collect()
    }

    /// It is being received for good by number: the answer may be lost. Says how often it was seen or asked to go before.
    pub(crate) fn taking(&mut self, id: Id, entity: EntityIndex) -> Option<u32> {
        let message =
            self.messages.get_mut(&(id, entity)).filter(|message| message.removal == Removal::Open)?;
        message.removal = Removal::Completing(None);
        Some(message.visits)
    }

    /// There was nothing under its number, so that it was not received; whoever had it meanwhile may have completed it.
    pub(crate) fn not_taken(&mut self, id: Id, entity: EntityIndex, visits: u32) {
        let message = self.messages.get_mut(&(id, entity));
        if let Some(message) = message.filter(|message| message.visits == visits)
            && message.removal == Removal::Completing(None)
        {
            message.removal = Removal::Open;
        }
    }

    /// Whether a message comes in the way in which it may.
    pub(super) fn check_way(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(&(observed.id, observed.entity)) else { return Ok(()) };
        match (message.deferral, observed.by_number) {
            (Deferral::Yes, false) if !observed.dead_letter => {
                return broken(
                    observed.id,
                    "a deferred message comes by its number only",
                    &(observed, &message),
                );
            }
            (Deferral::No, true) => {
                return broken(
                    observed.id,
                    "only a deferred message comes by its number",
                    &(observed, &message),
                );
            }
            (_, false) => message.deferral = Deferral::No,
            (_, true) => message.deferral = Deferral::Yes,
        }
        Ok(())
    }

    /// Whether a message comes in its time.
    pub(super) fn check_life(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        if observed.expired {
            self.count("messages that expired");
        }
        let message = self.messages.get(&(observed.id, observed.entity));
        let Some((message, lifetime)) = message.and_then(|message| Some((message, message.lifetime?))) else {
            return Ok(());
        };
        if observed.expired && observed.now < lifetime.since + lifetime.ttl {
            return broken(observed.id, "nothing expires before its time", &(observed, message));
        }
        let in_order = !observed.dead_letter && !observed.by_number;
        if in_order && observed.handed_out.is_some_and(|at| at >= observed.enqueued + lifetime.ttl) {
            return broken(observed.id, "nothing comes after its time", &(observed, message));
        }
        Ok(())
    }
}
