//! Sessions, as their holders see them.
//!
//! Invariant: a session has one holder, one order and one state across lost connections and restarts.

use std::collections::BTreeMap;

use super::messages::{Messages, Removal};
use super::observed::{Broken, EntityIndex, Id, ObservedDelivery, Session, broken};

/// Holder, order and state of one session.
#[derive(Clone, Debug)]
struct SessionModel {
    /// The holding connection, and the end of its lock in milliseconds.
    holder: Option<(u64, u64)>,
    /// Counts the holders: what was seen by an earlier one comes first for the next.
    holding: u64,
    /// Highest number among messages when first seen.
    newest: u64,
    /// By number, what was seen and may still be there.
    observed: BTreeMap<u64, Id>,
    /// Possible session states: several after a set whose answer was lost.
    states: Vec<Option<u64>>,
}

impl SessionModel {
    fn is_held_by(&self, holder: u64) -> bool {
        self.holder.is_some_and(|(other, _)| other == holder)
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: BTreeMap<(EntityIndex, Session), SessionModel>,
    /// A message of a session was hidden, and others have passed it.
    has_passed_hidden: bool,
}

impl Sessions {
    fn get(&mut self, entity: EntityIndex, session: Session) -> &mut SessionModel {
        let new = || SessionModel {
            holder: None,
            holding: 0,
            newest: 0,
            observed: BTreeMap::new(),
            states: vec![None],
        };
        self.known.entry((entity, session)).or_insert_with(new)
    }

    /// Which holding of the session this holder's is, if it has it.
    pub(super) fn holding(&self, entity: EntityIndex, session: Session, holder: u64) -> Option<u64> {
        let known = self.known.get(&(entity, session))?;
        known.is_held_by(holder).then_some(known.holding)
    }

    /// A message of a session is hidden until the next start: those behind it come first, and it comes after them.
    pub(crate) fn passing_hidden(&mut self) {
        self.has_passed_hidden = true;
    }

    pub(super) fn restarted(&mut self) {
        self.known.values_mut().for_each(|known| known.holder = None);
    }

    /// A client is told that it holds a session until then.
    pub(crate) fn granted(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        until: u64,
        now: u64,
    ) -> Result<(), Broken> {
        let known = self.get(entity, session);
        if until <= now {
            // It was over before its holder heard of it; others may have had it since.
            return Ok(());
        }
        if known.holder.is_some_and(|(_, until)| until > now) {
            return broken(session, "a session has one holder", &(entity, holder, &known));
        }
        known.holder = Some((holder, until));
        known.holding += 1;
        Ok(())
    }

    /// The broker said that a session is held for longer. False: it was given up meanwhile, and stays so.
    pub(super) fn renewed(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        until: u64,
    ) -> bool {
        let known = self.get(entity, session);
        let Some((_, end)) = known.holder.as_mut().filter(|(other, _)| *other == holder) else {
            return false;
        };
        *end = until.max(*end);
        true
    }

    /// The holder gives a session back, or has lost it.
    pub(super) fn released(&mut self, (entity, session): (EntityIndex, Session), holder: u64) {
        self.get(entity, session).holder.take_if(|(other, _)| *other == holder);
    }

    /// Whether a message comes to the holder of its session, and in its turn.
    pub(super) fn check(
        &mut self,
        observed: &ObservedDelivery,
        session: Session,
        messages: &mut Messages,
    ) -> Result<(), Broken> {
        if observed.session != Some(session) {
            return broken(observed.id, "a message comes with its session", observed);
        }
        let first = messages.get(observed.copy()).is_some_and(|message| message.sequence.is_none());
        let is_ordered = !self.has_passed_hidden;
        let known = self.get(observed.entity, session);
        if known.holder.is_none_or(|(holder, _)| holder != observed.holder) {
            return broken(observed.id, "a message comes to the holder of its session", &(observed, &known));
        }
        if is_ordered && first && observed.sequence <= known.newest {
            return broken(observed.id, "a session keeps its order", &(observed, known.newest));
        }
        known.newest = known.newest.max(observed.sequence);
        let holding = known.holding;
        for id in known.observed.range(..observed.sequence).map(|(_, id)| *id) {
            let passed = messages.get((id, observed.entity)).filter(|message| {
                message.removal == Removal::Open && !message.aside && message.holding != holding
            });
            if let Some(passed) = passed.filter(|_| is_ordered) {
                return broken(
                    observed.id,
                    "a session keeps its order when messages come again",
                    &(observed, id, passed),
                );
            }
        }
        known.observed.insert(observed.sequence, observed.id);
        if let Some(message) = messages.get_mut(observed.copy()) {
            message.holding = holding;
        }
        Ok(())
    }

    /// The holder sets the state; 0 is never a state.
    pub(crate) fn setting_state(&mut self, (entity, session): (EntityIndex, Session), state: Option<u64>) {
        let states = &mut self.get(entity, session).states;
        if !states.contains(&state) {
            states.push(state);
        }
    }

    /// The broker says that the state is set. An answer that comes after its session was given up says nothing of now.
    pub(crate) fn state_set(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        state: Option<u64>,
    ) {
        let known = self.get(entity, session);
        if known.is_held_by(holder) {
            known.states = vec![state];
        }
    }

    /// The broker tells the state.
    pub(crate) fn state_told(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        state: Option<u64>,
    ) -> Result<(), Broken> {
        let known = self.get(entity, session);
        if !known.is_held_by(holder) {
            return Ok(());
        }
        if !known.states.contains(&state) {
            return broken(session, "the state of a session survives", &(entity, state, &known.states));
        }
        known.states = vec![state];
        Ok(())
    }
}
