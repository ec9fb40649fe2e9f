//! Send group: the messages and completions of one request or transaction, with a copy of each message at each entity.
//!
//! Invariant: a send group is atomic, so proof of one part is proof of all of it.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::{Broken, CopyId, Id, SendGroupId, broken};

/// Outcome of a send, as the sender knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sent {
    /// No answer yet, or the connection was lost before it came: it may exist or not.
    Unknown,
    /// The broker said `accepted`, or part of it was seen: it exists.
    Accepted,
    /// The broker said `rejected`, was told to roll back or never to commit: it must not exist.
    Refused,
}

/// State of a lock after a rollback, for the client that completed its message in the transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RollbackEffect {
    /// Nothing, as soon as the transaction is undone: a plain client has settled.
    Returned,
    /// The lock until the end is asked for; then it may be used up, or run on: a client of Service Bus has settled.
    Uncertain,
    /// All: the client has not settled.
    Held,
}

/// Messages and completions of one request.
#[derive(Clone, Debug)]
pub(crate) struct SendGroup {
    pub(super) sent: Sent,
    pub(crate) messages: Vec<CopyId>,
    /// Completions in the same transaction.
    pub(crate) completes: Vec<CopyId>,
    /// Those of them that their client still holds after a rollback.
    keeps: BTreeSet<CopyId>,
    /// The end of the transaction was asked for.
    ending: bool,
    /// It must not arrive before, in milliseconds.
    due: u64,
    /// Cancelling was asked for, and may have happened.
    cancelling: bool,
    /// It was asked for more than once: a refusal says nothing of the other times.
    again: bool,
}

impl SendGroup {
    /// Whether no answer has come, and nothing of it was seen.
    pub(crate) fn is_unknown(&self) -> bool {
        self.sent == Sent::Unknown
    }
}

/// All send groups.
#[derive(Debug, Default)]
pub(crate) struct SendGroups {
    groups: BTreeMap<SendGroupId, SendGroup>,
    last: SendGroupId,
}

impl SendGroups {
    /// A request is about to be made.
    pub(crate) fn begin(&mut self) -> SendGroupId {
        self.last += 1;
        let group = SendGroup {
            sent: Sent::Unknown,
            messages: Vec::new(),
            completes: Vec::new(),
            keeps: BTreeSet::new(),
            ending: false,
            due: 0,
            cancelling: false,
            again: false,
        };
        self.groups.insert(self.last, group);
        self.last
    }

    pub(crate) fn get(&self, group: SendGroupId) -> Option<&SendGroup> {
        self.groups.get(&group)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SendGroupId, &SendGroup)> {
        self.groups.iter().map(|(group, known)| (*group, known))
    }

    /// A copy of a message is sent in a group.
    pub(crate) fn add_message(&mut self, group: SendGroupId, copy: CopyId) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.messages.push(copy);
        }
    }

    /// A group completes a message as well.
    pub(crate) fn add_completion(&mut self, group: SendGroupId, copy: CopyId, rollback: RollbackEffect) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.completes.push(copy);
            if rollback == RollbackEffect::Held {
                group.keeps.insert(copy);
            }
        }
    }

    /// The end of a transaction is asked for. Gives the completions whose locks may end with it.
    pub(super) fn end(&mut self, group: SendGroupId) -> Vec<CopyId> {
        let Some(known) = self.groups.get_mut(&group) else { return Vec::new() };
        known.ending = true;
        known.completes.iter().copied().filter(|copy| !known.keeps.contains(copy)).collect()
    }

    /// Whether the end of a transaction was asked for.
    pub(super) fn is_ending(&self, group: SendGroupId) -> bool {
        self.groups.get(&group).is_some_and(|known| known.ending)
    }

    /// It is known to exist. Gives its messages and its completions.
    pub(crate) fn accept(&mut self, group: SendGroupId) -> (Vec<CopyId>, Vec<CopyId>) {
        let Some(known) = self.groups.get_mut(&group) else { return Default::default() };
        known.sent = Sent::Accepted;
        (known.messages.clone(), known.completes.clone())
    }

    /// It is known not to exist. Gives the completions that it has undone.
    pub(crate) fn refuse(&mut self, group: SendGroupId) -> Result<Vec<CopyId>, Broken> {
        let Some(known) = self.groups.get_mut(&group).filter(|known| !known.again) else {
            return Ok(Vec::new());
        };
        if known.sent == Sent::Accepted {
            return broken(group, "what was seen was not refused", &known);
        }
        known.sent = Sent::Refused;
        Ok(known.completes.clone())
    }

    /// A message of it was seen. True when it is known to exist only now.
    pub(crate) fn on_observed(&mut self, group: SendGroupId, id: Id, now: u64) -> Result<bool, Broken> {
        let Some(known) = self.groups.get_mut(&group) else { return Ok(false) };
        if now < known.due {
            return broken(id, "nothing arrives before it is due", &(now, &known));
        }
        // All of a schedule are cancelled or none is.
        known.cancelling = false;
        match known.sent {
            Sent::Unknown => Ok(true),
            Sent::Accepted => Ok(false),
            Sent::Refused => broken(id, "what was refused, rolled back or cancelled does not exist", &known),
        }
    }

    /// It shall not arrive before then.
    pub(crate) fn scheduling(&mut self, group: SendGroupId, due: u64) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.due = due;
        }
    }

    /// Cancelling is asked for.
    pub(crate) fn cancelling(&mut self, group: SendGroupId) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.cancelling = true;
        }
    }

    /// The broker said that a schedule is cancelled: it never fires.
    pub(crate) fn cancelled(&mut self, group: SendGroupId) -> Result<(), Broken> {
        let Some(known) = self.groups.get_mut(&group) else { return Ok(()) };
        // Seeing a part of it has settled that it was not cancelled.
        if !known.cancelling {
            return broken(group, "what has fired cannot be cancelled", &known);
        }
        known.sent = Sent::Refused;
        Ok(())
    }

    /// The broker said that there was nothing to cancel any more: it has fired.
    pub(crate) fn not_cancelled(&mut self, group: SendGroupId) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.cancelling = false;
        }
    }

    /// The same bytes are about to be sent once more, to an entity that drops duplicates; not if they were refused.
    pub(crate) fn sending_again(&mut self, group: SendGroupId) -> bool {
        let Some(known) = self.groups.get_mut(&group).filter(|known| known.sent != Sent::Refused) else {
            return false;
        };
        known.again = true;
        true
    }

    /// Whether all of it must be there in the end.
    pub(crate) fn must_arrive(&self, group: SendGroupId) -> bool {
        self.groups.get(&group).is_some_and(|known| known.sent == Sent::Accepted && !known.cancelling)
    }
}
