//! What was sent with one request: a message with a copy at each of its places, or all of a transaction.
//!
//! Invariant: a parcel exists whole or not at all. What proves one part of it proves all of it.

use super::{Broken, Course, Fate, Id, Life, Message, Model, Place, Session, broken};

/// Names a parcel.
pub(crate) type ParcelId = u64;

/// What the sender knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sent {
    /// No answer yet, or the connection was lost before it came: it may exist or not.
    Unknown,
    /// The broker said `accepted`, or part of it was seen: it exists.
    Accepted,
    /// The broker said `rejected`, was told to roll back or never to commit: it must not exist.
    Refused,
}

/// What was asked with one request.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    sent: Sent,
    messages: Vec<(Id, Place)>,
    /// Completions in the same transaction.
    pub(super) completes: Vec<(Id, Place)>,
    /// It must not arrive before, in milliseconds.
    due: u64,
    /// Cancelling was asked for, and may have happened.
    cancelling: bool,
    /// It was asked for more than once: a refusal says nothing of the other times.
    again: bool,
}

impl Model {
    /// A request is about to be made.
    pub(crate) fn new_parcel(&mut self) -> ParcelId {
        self.next_parcel += 1;
        let parcel = Parcel {
            sent: Sent::Unknown,
            messages: Vec::new(),
            completes: Vec::new(),
            due: 0,
            cancelling: false,
            again: false,
        };
        self.parcels.insert(self.next_parcel, parcel);
        self.next_parcel
    }

    /// A new message goes into a parcel, with a copy for each of these places; its name is the answer.
    pub(crate) fn sending(
        &mut self,
        parcel: ParcelId,
        places: &[(Place, Option<Session>, Option<Life>)],
        course: Course,
    ) -> Id {
        self.next_id += 1;
        for (place, session, life) in places {
            let onward = self.graves.get(place).map(|grave| self.ground(*grave)).unwrap_or_default();
            let message = Message::new(parcel, *session, *life);
            let message = message.sent_on(course, self.ground(*place), onward);
            self.messages.insert((self.next_id, *place), message);
            if let Some(parcel) = self.parcels.get_mut(&parcel) {
                parcel.messages.push((self.next_id, *place));
            }
        }
        self.next_id
    }

    /// A transaction is told to complete a message as well. Without its lock it cannot commit any more.
    ///
    /// An operation that the broker refuses undoes all before it, and then a plain client's messages are free at once: from
    /// here on only the transaction says that nobody else has them, and whoever gets one proves that it cannot commit.
    pub(crate) fn enlisting(
        &mut self,
        parcel: ParcelId,
        (id, place): (Id, Place),
        holder: u64,
        is_plain: bool,
    ) -> Result<(), Broken> {
        let message = self.messages.get_mut(&(id, place));
        let locked = message.and_then(|Message { lock, fate, .. }| {
            let lock = lock.as_mut().filter(|lock| lock.holder == holder)?;
            Some((lock, fate))
        });
        let Some((lock, fate)) = locked else { return self.undone(parcel) };
        *fate = Fate::Completing(Some(parcel));
        lock.may_end |= is_plain;
        if let Some(parcel) = self.parcels.get_mut(&parcel) {
            parcel.completes.push((id, place));
        }
        Ok(())
    }

    /// A transaction is about to end: the locks of what it completes may end with it.
    pub(crate) fn ending(&mut self, parcel: ParcelId) {
        let completes = self.parcels.get(&parcel).map(|parcel| parcel.completes.clone()).unwrap_or_default();
        for copy in completes {
            // Somebody else may have it by now, whose lock that is.
            if let Some(message) = self.messages.get_mut(&copy)
                && message.fate == Fate::Completing(Some(parcel))
            {
                message.lock = None;
            }
        }
    }

    fn sent(&self, parcel: ParcelId) -> Option<Sent> {
        self.parcels.get(&parcel).map(|parcel| parcel.sent)
    }

    /// The broker said `accepted`.
    pub(crate) fn accepted(&mut self, parcel: ParcelId) -> Result<(), Broken> {
        if self.sent(parcel) == Some(Sent::Refused) {
            return broken(
                parcel,
                "a transaction that has lost a lock does not commit",
                &self.parcels.get(&parcel),
            );
        }
        self.exists(parcel);
        self.accepted += 1;
        Ok(())
    }

    /// The broker said `rejected`.
    pub(crate) fn refused(&mut self, parcel: ParcelId) -> Result<(), Broken> {
        self.refused += 1;
        self.undone(parcel)
    }

    /// It was rolled back, or never told to commit.
    pub(crate) fn undone(&mut self, parcel: ParcelId) -> Result<(), Broken> {
        let Some(known) = self.parcels.get_mut(&parcel) else { return Ok(()) };
        if known.again {
            return Ok(());
        }
        if known.sent == Sent::Accepted {
            return broken(parcel, "what was seen was not refused", &known);
        }
        known.sent = Sent::Refused;
        for copy in known.completes.clone() {
            if let Some(message) = self.messages.get_mut(&copy)
                && message.fate == Fate::Completing(Some(parcel))
            {
                message.fate = Fate::Open;
            }
        }
        Ok(())
    }

    /// It is known to exist: so do all of its messages, and nothing that it completes.
    fn exists(&mut self, parcel: ParcelId) {
        let Some(known) = self.parcels.get_mut(&parcel) else { return };
        known.sent = Sent::Accepted;
        for copy in known.completes.clone() {
            if let Some(message) = self.messages.get_mut(&copy) {
                (message.fate, message.lock) = (Fate::Gone, None);
            }
        }
        for copy in self.parcels.get(&parcel).map(|known| known.messages.clone()).unwrap_or_default() {
            self.arrived(copy);
        }
    }

    /// A message of it was seen.
    pub(super) fn found(&mut self, parcel: ParcelId, id: Id, now: u64) -> Result<(), Broken> {
        if let Some(known) = self.parcels.get_mut(&parcel) {
            if now < known.due {
                return broken(id, "nothing arrives before it is due", &(now, &known));
            }
            // All of a schedule are cancelled or none is.
            known.cancelling = false;
        }
        match self.sent(parcel) {
            Some(Sent::Unknown) => self.exists(parcel),
            Some(Sent::Refused) => {
                return broken(
                    id,
                    "what was refused, rolled back or cancelled does not exist",
                    &self.parcels.get(&parcel),
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// It shall not arrive before then.
    pub(crate) fn scheduling(&mut self, parcel: ParcelId, due: u64) {
        if let Some(parcel) = self.parcels.get_mut(&parcel) {
            parcel.due = due;
        }
    }

    /// Cancelling is asked for.
    pub(crate) fn cancelling(&mut self, parcel: ParcelId) {
        if let Some(parcel) = self.parcels.get_mut(&parcel) {
            parcel.cancelling = true;
        }
    }

    /// The broker said that a schedule is cancelled: it never fires.
    pub(crate) fn cancelled(&mut self, parcel: ParcelId) -> Result<(), Broken> {
        self.count("schedules cancelled");
        let Some(known) = self.parcels.get_mut(&parcel) else { return Ok(()) };
        // Seeing a part of it has settled that it was not cancelled.
        if !known.cancelling {
            return broken(parcel, "what has fired cannot be cancelled", &known);
        }
        known.sent = Sent::Refused;
        Ok(())
    }

    /// The broker said that there was nothing to cancel any more: it has fired.
    pub(crate) fn not_cancelled(&mut self, parcel: ParcelId) {
        self.count("schedules fired before they were cancelled");
        if let Some(parcel) = self.parcels.get_mut(&parcel) {
            parcel.cancelling = false;
        }
    }

    /// The same bytes are about to be sent once more, to an entity that drops duplicates; not if they were refused.
    pub(crate) fn sending_again(&mut self, parcel: ParcelId) -> bool {
        let Some(known) = self.parcels.get_mut(&parcel).filter(|known| known.sent != Sent::Refused) else {
            return false;
        };
        known.again = true;
        self.count("duplicates sent");
        true
    }

    /// Whether all of it must be there in the end.
    pub(super) fn must_arrive(&self, parcel: ParcelId) -> bool {
        self.parcels.get(&parcel).is_some_and(|known| known.sent == Sent::Accepted && !known.cancelling)
    }

    /// Whether a message is gone that only a transaction can have completed of which nothing was ever seen. Something
    /// of it would have been, but for what may have expired or gone with a connection that deletes.
    pub(super) fn half_done(&self, message: &Message, now: u64) -> bool {
        let Fate::Completing(Some(parcel)) = message.fate else { return false };
        let Some(known) = self.parcels.get(&parcel).filter(|known| known.sent == Sent::Unknown) else {
            return false;
        };
        known.messages.iter().any(|copy| {
            let lasts = |message: &Message| !message.has_faded(now) && !self.may_be_buried(copy.1, message);
            let lasts = self.messages.get(copy).is_some_and(lasts);
            let spots = [Some(&copy.1), self.graves.get(&copy.1)];
            lasts && !spots.into_iter().flatten().any(|spot| self.may_be_lost.contains_key(spot))
        })
    }
}
