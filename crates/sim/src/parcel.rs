//! What was sent with one request, where each part of it has to arrive, and whether it did.
//!
//! Invariant: a parcel arrives whole or not at all: its messages at their places, and the completion that went with it.

use std::collections::BTreeMap;

/// A message's name; it travels in the body.
pub(crate) type Id = u64;
/// Index of an entity from which messages are received.
pub(crate) type Place = usize;

/// What is known of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sent {
    /// Asked for, and no answer yet.
    Asked,
    /// The answer went with a crash: it may have happened or not.
    Unknown,
    /// The broker said yes.
    Yes,
    /// The broker said no, or was never asked to commit.
    No,
}

/// What receivers know of a message at one place.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that happened or not")]
struct Arrival {
    seen: bool,
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
    parcel: u64,
    /// It must not arrive before.
    due: u64,
    places: BTreeMap<Place, Arrival>,
}

/// The messages of one request.
#[derive(Clone, Debug)]
struct Parcel {
    sent: Sent,
    /// Cancelling was asked for, and may have happened.
    cancelling: bool,
    messages: Vec<Id>,
    /// A completion in the same transaction.
    completes: Option<(Id, Place)>,
}

/// A promise was broken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("message {id} at place {place}: {promise}")]
pub(crate) struct Broken {
    id: Id,
    place: Place,
    promise: &'static str,
}

/// All that was sent and seen.
#[derive(Debug, Default)]
pub(crate) struct Parcels {
    messages: BTreeMap<Id, Message>,
    sent: BTreeMap<u64, Parcel>,
    /// Highest number first seen in each session.
    sessions: BTreeMap<String, u64>,
    next: u64,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
}

impl Parcels {
    /// A new parcel, still empty.
    pub(crate) fn new_parcel(&mut self) -> u64 {
        self.next += 1;
        let empty = Parcel { sent: Sent::Asked, cancelling: false, messages: Vec::new(), completes: None };
        self.sent.insert(self.next, empty);
        self.next
    }

    /// One more message of a parcel, to arrive at all of these places and not before it is due; its name.
    pub(crate) fn put(&mut self, parcel: u64, places: &[Place], due: u64) -> Id {
        self.next += 1;
        let places = places.iter().map(|place| (*place, Arrival::default())).collect();
        self.messages.insert(self.next, Message { parcel, due, places });
        if let Some(parcel) = self.sent.get_mut(&parcel) {
            parcel.messages.push(self.next);
        }
        self.next
    }

    /// The parcel's transaction completes this message as well.
    pub(crate) fn completes(&mut self, parcel: u64, id: Id, place: Place) {
        if let Some(arrival) = self.arrival(id, place) {
            arrival.tried |= arrival.enlisted;
            arrival.enlisted = true;
        }
        if let Some(parcel) = self.sent.get_mut(&parcel) {
            parcel.completes = Some((id, place));
        }
    }

    pub(crate) fn accepted(&mut self, parcel: u64) {
        let Some(known) = self.sent.get_mut(&parcel) else { return };
        known.sent = Sent::Yes;
        self.accepted += 1;
        if let Some((id, place)) = known.completes {
            self.completed(id, place);
        }
    }

    /// A refusal of something that was asked for twice says nothing of the first time.
    pub(crate) fn refused(&mut self, parcel: u64) {
        if let Some(parcel) = self.sent.get_mut(&parcel)
            && parcel.sent == Sent::Asked
        {
            parcel.sent = Sent::No;
        }
    }

    /// The answer went with a crash.
    pub(crate) fn unanswered(&mut self, parcel: u64) {
        let Some(known) = self.sent.get_mut(&parcel) else { return };
        if known.sent == Sent::Asked {
            known.sent = Sent::Unknown;
        }
        if let Some((id, place)) = known.completes
            && let Some(arrival) = self.arrival(id, place)
        {
            arrival.completing = true;
        }
    }

    pub(crate) fn cancelling(&mut self, parcel: u64) {
        if let Some(parcel) = self.sent.get_mut(&parcel) {
            parcel.cancelling = true;
        }
    }

    /// The broker said that a schedule is cancelled: it never fires.
    pub(crate) fn cancelled(&mut self, parcel: u64) -> Result<(), Broken> {
        let Some(known) = self.sent.get_mut(&parcel) else { return Ok(()) };
        known.sent = Sent::No;
        let seen = known.messages.iter().find_map(|id| {
            let (place, _) = self.messages.get(id)?.places.iter().find(|(_, arrival)| arrival.seen)?;
            Some((*id, *place))
        });
        seen.map_or(Ok(()), |(id, place)| broken(id, place, "what has fired cannot be cancelled"))
    }

    /// The broker said that there is nothing to cancel: it has fired.
    pub(crate) fn not_cancelled(&mut self, parcel: u64) {
        if let Some(parcel) = self.sent.get_mut(&parcel) {
            parcel.cancelling = false;
        }
    }

    /// A receiver sees a message.
    pub(crate) fn delivered(&mut self, id: Id, place: Place, sequence: u64, now: u64) -> Result<(), Broken> {
        self.delivered += 1;
        let Some(message) = self.messages.get_mut(&id) else {
            return broken(id, place, "only what was sent is delivered");
        };
        let Some(parcel) = self.sent.get(&message.parcel) else { return Ok(()) };
        let Some(arrival) = message.places.get_mut(&place) else {
            return broken(id, place, "a message arrives where it belongs");
        };
        if parcel.sent == Sent::No {
            return broken(id, place, "what was refused, rolled back or cancelled never arrives");
        }
        if now < message.due {
            return broken(id, place, "nothing arrives before it is due");
        }
        if arrival.gone {
            return broken(id, place, "what was completed never comes back, nor its duplicate");
        }
        if arrival.seen && arrival.sequence != sequence {
            return broken(id, place, "there is one copy at each place");
        }
        *arrival = Arrival { seen: true, completing: false, gone: false, sequence, ..*arrival };
        Ok(())
    }

    /// Within a session, messages are seen for the first time in the order of their numbers.
    pub(crate) fn in_session(
        &mut self,
        session: &str,
        id: Id,
        place: Place,
        sequence: u64,
    ) -> Result<(), Broken> {
        let seen = self.messages.get(&id).and_then(|message| message.places.get(&place));
        if seen.is_some_and(|arrival| arrival.seen) {
            return Ok(());
        }
        let last = self.sessions.entry(session.to_owned()).or_default();
        if sequence <= *last {
            return broken(id, place, "a session keeps its order");
        }
        *last = sequence;
        Ok(())
    }

    fn arrival(&mut self, id: Id, place: Place) -> Option<&mut Arrival> {
        self.messages.get_mut(&id)?.places.get_mut(&place)
    }

    /// A completion is sent.
    pub(crate) fn completing(&mut self, id: Id, place: Place) {
        if let Some(arrival) = self.arrival(id, place) {
            (arrival.completing, arrival.tried) = (true, true);
        }
    }

    /// The broker confirmed a completion.
    pub(crate) fn completed(&mut self, id: Id, place: Place) {
        if let Some(arrival) = self.arrival(id, place) {
            (arrival.gone, arrival.completing) = (true, false);
        }
    }

    /// After everything was received and completed.
    pub(crate) fn check_drained(&self) -> Result<(), Broken> {
        for parcel in self.sent.values() {
            self.check_parcel(parcel)?;
        }
        Ok(())
    }

    fn check_parcel(&self, parcel: &Parcel) -> Result<(), Broken> {
        let arrivals = parcel.messages.iter().filter_map(|id| Some((*id, self.messages.get(id)?)));
        let arrivals: Vec<(Id, Place, bool)> = arrivals
            .flat_map(|(id, message)| {
                message.places.iter().map(move |(place, arrival)| (id, *place, arrival.seen))
            })
            .collect();
        let missing = arrivals.iter().find(|(.., seen)| !seen);
        let arrived = arrivals.iter().find(|(.., seen)| *seen);
        let must = parcel.sent == Sent::Yes && !parcel.cancelling;
        match (missing, arrived) {
            (Some((id, place, _)), _) if must => {
                broken(*id, *place, "what was accepted arrives at each of its places")
            }
            (Some((id, place, _)), Some(_)) => broken(*id, *place, "a parcel arrives whole or not at all"),
            _ => self.check_completion(parcel, arrived.is_some()),
        }
    }

    /// With a transaction whose end nobody saw, its completion happened exactly if its messages arrived.
    fn check_completion(&self, parcel: &Parcel, arrived: bool) -> Result<(), Broken> {
        let Some((id, place)) = parcel.completes.filter(|_| parcel.sent == Sent::Unknown) else {
            return Ok(());
        };
        let arrival = self.messages.get(&id).and_then(|message| message.places.get(&place));
        let Some(arrival) = arrival.filter(|arrival| !arrival.tried) else { return Ok(()) };
        match (arrived, !arrival.completing) {
            (true, true) => broken(id, place, "a transaction that committed has completed it"),
            (false, false) => broken(id, place, "a transaction that did not commit has not completed it"),
            _ => Ok(()),
        }
    }
}

fn broken(id: Id, place: Place, promise: &'static str) -> Result<(), Broken> {
    Err(Broken { id, place, promise })
}

#[cfg(test)]
mod tests;
