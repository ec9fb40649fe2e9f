//! Messages that were set aside, and those that have a time to live.
//!
//! Invariant: what is deferred comes by its number and in no other way; what has outlived its time comes to nobody.

use super::{Broken, Fate, Id, Model, Place, Seen, broken};

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

/// How long a message lives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Life {
    /// When it was sent, in milliseconds; the broker counts from when it came.
    pub(crate) since: u64,
    /// Its time to live, in milliseconds.
    pub(crate) ttl: u64,
    /// Whether it is dead-lettered in the end.
    pub(crate) dead_letters: bool,
}

impl Model {
    /// The broker confirmed that a message is deferred.
    pub(crate) fn deferred(&mut self, id: Id, place: Place) {
        self.count("messages deferred");
        if let Some(message) = self.messages.get_mut(&(id, place))
            && message.deferral == Deferral::Perhaps
        {
            message.deferral = Deferral::Yes;
        }
    }

    /// What may be received by number, and which number it has.
    pub(crate) fn to_fetch(&self, place: Place) -> Vec<((Id, Place), u64)> {
        let here = self.messages.iter().filter(|((_, home), message)| {
            let is_there = message.spot(*home) == place && !self.may_be_buried(*home, message);
            is_there && message.deferral != Deferral::No && message.fate != Fate::Gone
        });
        here.filter_map(|(copy, message)| Some((*copy, message.sequence?))).collect()
    }

    /// It is being received for good by number: the answer may be lost. Says how often it was seen or asked to go before.
    pub(crate) fn taking(&mut self, id: Id, place: Place) -> Option<u32> {
        let message = self.messages.get_mut(&(id, place)).filter(|message| message.fate == Fate::Open)?;
        message.fate = Fate::Completing(None);
        Some(message.visits)
    }

    /// There was nothing under its number, so that it was not received; whoever had it meanwhile may have completed it.
    pub(crate) fn not_taken(&mut self, id: Id, place: Place, visits: u32) {
        let message = self.messages.get_mut(&(id, place));
        if let Some(message) = message.filter(|message| message.visits == visits)
            && message.fate == Fate::Completing(None)
        {
            message.fate = Fate::Open;
        }
    }

    /// Whether a message comes in the way in which it may.
    pub(super) fn check_way(&mut self, seen: &Seen) -> Result<(), Broken> {
        let Some(message) = self.messages.get_mut(&(seen.id, seen.place)) else { return Ok(()) };
        match (message.deferral, seen.by_number) {
            (Deferral::Yes, false) if !seen.dead_letter => {
                return broken(seen.id, "a deferred message comes by its number only", &(seen, &message));
            }
            (Deferral::No, true) => {
                return broken(seen.id, "only a deferred message comes by its number", &(seen, &message));
            }
            (_, false) => message.deferral = Deferral::No,
            (_, true) => message.deferral = Deferral::Yes,
        }
        Ok(())
    }

    /// Whether a message comes in its time.
    pub(super) fn check_life(&mut self, seen: &Seen) -> Result<(), Broken> {
        if seen.expired {
            self.count("messages that expired");
        }
        let message = self.messages.get(&(seen.id, seen.place));
        let Some((message, life)) = message.and_then(|message| Some((message, message.life?))) else {
            return Ok(());
        };
        if seen.expired && seen.now < life.since + life.ttl {
            return broken(seen.id, "nothing expires before its time", &(seen, message));
        }
        let in_order = !seen.dead_letter && !seen.by_number;
        if in_order && seen.handed_out.is_some_and(|at| at >= seen.enqueued + life.ttl) {
            return broken(seen.id, "nothing comes after its time", &(seen, message));
        }
        Ok(())
    }
}
