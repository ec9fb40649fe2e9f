//! Sessions, as their holders see them.
//!
//! Invariant: a session has one holder, one order and one state across lost connections and restarts.

use std::collections::BTreeMap;

use super::{Broken, EntityIndex, Id, Model, ObservedDelivery, Removal, broken};

/// Names a session of an entity.
pub(crate) type Session = u64;

/// Holder, order and state of one session.
#[derive(Clone, Debug)]
struct SessionModel {
    /// Which connection, and until when in milliseconds.
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
pub(super) struct Sessions(BTreeMap<(EntityIndex, Session), SessionModel>);

impl Sessions {
    fn get(&mut self, entity: EntityIndex, session: Session) -> &mut SessionModel {
        let new = || SessionModel {
            holder: None,
            holding: 0,
            newest: 0,
            observed: BTreeMap::new(),
            states: vec![None],
        };
        self.0.entry((entity, session)).or_insert_with(new)
    }

    /// Which holding of the session this holder's is, if it has it.
    pub(super) fn holding(&self, entity: EntityIndex, session: Session, holder: u64) -> Option<u64> {
        let known = self.0.get(&(entity, session))?;
        known.is_held_by(holder).then_some(known.holding)
    }

    pub(super) fn restarted(&mut self) {
        self.0.values_mut().for_each(|known| known.holder = None);
    }
}

impl Model {
    /// A client is told that it holds a session until then.
    pub(crate) fn granted(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        until: u64,
        now: u64,
    ) -> Result<(), Broken> {
        self.count("sessions held");
        let known = self.sessions.get(entity, session);
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

    /// The broker said that a session is held for longer, with all messages that its holder has.
    pub(crate) fn session_renewed(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
        until: u64,
    ) {
        self.count("sessions renewed");
        let known = self.sessions.get(entity, session);
        // One that was given up meanwhile stays so.
        let Some((_, end)) = known.holder.as_mut().filter(|(other, _)| *other == holder) else { return };
        *end = until.max(*end);
        for ((_, other), message) in &mut self.messages {
            if *other == entity
                && message.session == Some(session)
                && let Some(lock) = message.lock.as_mut().filter(|lock| lock.holder == holder)
            {
                lock.until = lock.until.max(until);
            }
        }
    }

    /// The holder gives a session back, or has lost it. A transaction that would complete messages of it, and was not told to
    /// commit before, cannot do so any more.
    pub(crate) fn released(
        &mut self,
        (entity, session): (EntityIndex, Session),
        holder: u64,
    ) -> Result<(), Broken> {
        let known = self.sessions.get(entity, session);
        known.holder.take_if(|(other, _)| *other == holder);
        let mut lost = Vec::new();
        for ((_, other), message) in &mut self.messages {
            if *other == entity
                && message.session == Some(session)
                && message.lock.take_if(|lock| lock.holder == holder).is_some()
                && let Removal::Completing(Some(group)) = message.removal
            {
                lost.push(group);
            }
        }
        // A transaction whose commit was requested before may have committed.
        for group in lost.into_iter().filter(|group| !self.is_ending(*group)).collect::<Vec<_>>() {
            self.count("transactions that lost a session");
            self.undone(group)?;
        }
        Ok(())
    }

    /// Whether a message comes to the holder of its session, and in its turn.
    pub(super) fn check_session(
        &mut self,
        observed: &ObservedDelivery,
        session: Session,
    ) -> Result<(), Broken> {
        if observed.session != Some(session) {
            return broken(observed.id, "a message comes with its session", observed);
        }
        let first = self
            .messages
            .get(&(observed.id, observed.entity))
            .is_some_and(|message| message.sequence.is_none());
        let known = self.sessions.get(observed.entity, session);
        if known.holder.is_none_or(|(holder, _)| holder != observed.holder) {
            return broken(observed.id, "a message comes to the holder of its session", &(observed, &known));
        }
        if first && observed.sequence <= known.newest {
            return broken(observed.id, "a session keeps its order", &(observed, known.newest));
        }
        known.newest = known.newest.max(observed.sequence);
        let holding = known.holding;
        for id in known.observed.range(..observed.sequence).map(|(_, id)| id) {
            let passed = self.messages.get(&(*id, observed.entity)).filter(|message| {
                message.removal == Removal::Open && !message.aside && message.holding != holding
            });
            if let Some(passed) = passed {
                return broken(
                    observed.id,
                    "a session keeps its order when messages come again",
                    &(observed, id, passed),
                );
            }
        }
        known.observed.insert(observed.sequence, observed.id);
        if let Some(message) = self.messages.get_mut(&(observed.id, observed.entity)) {
            message.holding = holding;
        }
        Ok(())
    }

    /// The holder sets the state; 0 is never a state.
    pub(crate) fn setting_state(&mut self, (entity, session): (EntityIndex, Session), state: Option<u64>) {
        let states = &mut self.sessions.get(entity, session).states;
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
        self.count("session states set");
        let known = self.sessions.get(entity, session);
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
        self.count("session states read");
        let known = self.sessions.get(entity, session);
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
