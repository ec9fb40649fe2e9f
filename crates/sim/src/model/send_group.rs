//! Send group: the messages and completions of one request or transaction, with a copy of each message at each entity.
//!
//! Invariant: a send group is atomic, so proof of one part is proof of all of it.

use std::collections::BTreeSet;

use super::{Broken, EntityIndex, Id, Lifetime, Message, Model, Removal, SendPath, Session, broken};

/// Names a send group.
pub(crate) type SendGroupId = u64;

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
pub(super) struct SendGroup {
    sent: Sent,
    messages: Vec<(Id, EntityIndex)>,
    /// Completions in the same transaction.
    pub(super) completes: Vec<(Id, EntityIndex)>,
    /// Those of them that their client still holds after a rollback.
    keeps: BTreeSet<(Id, EntityIndex)>,
    /// The end of the transaction was asked for.
    ending: bool,
    /// It must not arrive before, in milliseconds.
    due: u64,
    /// Cancelling was asked for, and may have happened.
    cancelling: bool,
    /// It was asked for more than once: a refusal says nothing of the other times.
    again: bool,
}

impl Model {
    /// A request is about to be made.
    pub(crate) fn new_send_group(&mut self) -> SendGroupId {
        self.next_send_group += 1;
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
        self.groups.insert(self.next_send_group, group);
        self.next_send_group
    }

    /// A new message goes into a send group, with a copy for each of these entities; its name is the answer.
    pub(crate) fn sending(
        &mut self,
        group: SendGroupId,
        entities: &[(EntityIndex, Option<Session>, Option<Lifetime>)],
        send_path: SendPath,
    ) -> Id {
        self.next_id += 1;
        for (entity, session, lifetime) in entities {
            let onward = self
                .dead_letter_targets
                .get(entity)
                .map(|dead_letter_target| self.deletion_state(*dead_letter_target))
                .unwrap_or_default();
            let message = Message::new(group, *session, *lifetime);
            let message = message.sent_on(send_path, self.deletion_state(*entity), onward);
            self.messages.insert((self.next_id, *entity), message);
            if let Some(group) = self.groups.get_mut(&group) {
                group.messages.push((self.next_id, *entity));
            }
        }
        self.next_id
    }

    /// A transaction is told to complete a message as well. Without its lock it cannot commit any more.
    ///
    /// An operation that the broker refuses undoes all before it, and then what a plain client has settled is free at once:
    /// from here on only the transaction says that nobody else has them, and whoever gets one proves that it cannot commit.
    pub(crate) fn enlisting(
        &mut self,
        group: SendGroupId,
        (id, entity): (Id, EntityIndex),
        holder: u64,
        rollback: RollbackEffect,
    ) -> Result<(), Broken> {
        let message = self.messages.get_mut(&(id, entity));
        let locked = message.and_then(|Message { lock, removal, .. }| {
            let lock = lock.as_mut().filter(|lock| lock.holder == holder)?;
            Some((lock, removal))
        });
        let Some((lock, removal)) = locked else { return self.undone(group) };
        *removal = Removal::Completing(Some(group));
        lock.may_end |= rollback == RollbackEffect::Returned;
        if let Some(group) = self.groups.get_mut(&group) {
            group.completes.push((id, entity));
            if rollback == RollbackEffect::Held {
                group.keeps.insert((id, entity));
            }
        }
        Ok(())
    }

    /// A transaction is about to end: the locks of what it completes may end with it, but of what was not settled they end
    /// with a commit alone.
    pub(crate) fn ending(&mut self, group: SendGroupId) {
        let Some(known) = self.groups.get_mut(&group) else { return };
        known.ending = true;
        let ends: Vec<_> =
            known.completes.iter().copied().filter(|copy| !known.keeps.contains(copy)).collect();
        for copy in ends {
            // Somebody else may have it by now, whose lock that is.
            if let Some(message) = self.messages.get_mut(&copy)
                && message.removal == Removal::Completing(Some(group))
            {
                message.lock = None;
            }
        }
    }

    /// Whether the end of a transaction was asked for.
    pub(super) fn is_ending(&self, group: SendGroupId) -> bool {
        self.groups.get(&group).is_some_and(|known| known.ending)
    }

    fn sent(&self, group: SendGroupId) -> Option<Sent> {
        self.groups.get(&group).map(|group| group.sent)
    }

    /// The broker said `accepted`.
    pub(crate) fn accepted(&mut self, group: SendGroupId) -> Result<(), Broken> {
        if self.sent(group) == Some(Sent::Refused) {
            return broken(
                group,
                "a transaction that has lost a lock does not commit",
                &self.groups.get(&group),
            );
        }
        self.exists(group);
        self.accepted += 1;
        Ok(())
    }

    /// The broker said `rejected`.
    pub(crate) fn refused(&mut self, group: SendGroupId) -> Result<(), Broken> {
        self.refused += 1;
        self.undone(group)
    }

    /// It was rolled back, or never told to commit.
    pub(crate) fn undone(&mut self, group: SendGroupId) -> Result<(), Broken> {
        let Some(known) = self.groups.get_mut(&group) else { return Ok(()) };
        if known.again {
            return Ok(());
        }
        if known.sent == Sent::Accepted {
            return broken(group, "what was seen was not refused", &known);
        }
        known.sent = Sent::Refused;
        for copy in known.completes.clone() {
            if let Some(message) = self.messages.get_mut(&copy)
                && message.removal == Removal::Completing(Some(group))
            {
                message.removal = Removal::Open;
            }
        }
        Ok(())
    }

    /// It is known to exist: so do all of its messages, and nothing that it completes.
    fn exists(&mut self, group: SendGroupId) {
        let Some(known) = self.groups.get_mut(&group) else { return };
        known.sent = Sent::Accepted;
        for copy in known.completes.clone() {
            if let Some(message) = self.messages.get_mut(&copy) {
                (message.removal, message.lock) = (Removal::Gone, None);
            }
        }
        for copy in self.groups.get(&group).map(|known| known.messages.clone()).unwrap_or_default() {
            self.arrived(copy);
        }
    }

    /// A message of it was seen.
    pub(super) fn found(&mut self, group: SendGroupId, id: Id, now: u64) -> Result<(), Broken> {
        if let Some(known) = self.groups.get_mut(&group) {
            if now < known.due {
                return broken(id, "nothing arrives before it is due", &(now, &known));
            }
            // All of a schedule are cancelled or none is.
            known.cancelling = false;
        }
        match self.sent(group) {
            Some(Sent::Unknown) => self.exists(group),
            Some(Sent::Refused) => {
                return broken(
                    id,
                    "what was refused, rolled back or cancelled does not exist",
                    &self.groups.get(&group),
                );
            }
            _ => {}
        }
        Ok(())
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
        self.count("schedules cancelled");
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
        self.count("schedules fired before they were cancelled");
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
        self.count("duplicates sent");
        true
    }

    /// Whether all of it must be there in the end.
    pub(super) fn must_arrive(&self, group: SendGroupId) -> bool {
        self.groups.get(&group).is_some_and(|known| known.sent == Sent::Accepted && !known.cancelling)
    }

    /// Whether a message is gone that only a transaction can have completed of which nothing was ever seen. Something
    /// of it would have been, but for what may have expired or gone with a connection that deletes.
    pub(super) fn half_done(&self, message: &Message, now: u64) -> bool {
        let Removal::Completing(Some(group)) = message.removal else { return false };
        let Some(known) = self.groups.get(&group).filter(|known| known.sent == Sent::Unknown) else {
            return false;
        };
        known.messages.iter().any(|copy| {
            let lasts = |message: &Message| !message.has_faded(now) && !self.may_be_deleted(copy.1, message);
            let lasts = self.messages.get(copy).is_some_and(lasts);
            let locations = [Some(&copy.1), self.dead_letter_targets.get(&copy.1)];
            lasts
                && !locations
                    .into_iter()
                    .flatten()
                    .any(|received_at| self.may_be_lost.contains_key(received_at))
        })
    }
}
