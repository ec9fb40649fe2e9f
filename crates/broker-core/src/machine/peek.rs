//! Looking without touching (`service-bus-entities` 19).
//!
//! Invariant: showing a message changes nothing about it.

use std::time::Duration;

use super::{
    Core,
    deferred::FetchRequest,
    pump::{Bound, read_message, stored, with_bodies},
    status::Use,
};
use crate::{
    ClientId, Effect, EntityError, EntityPath, Output, Peeked, SequenceNumber, Ticket, Timestamp,
    record::{MessageIndex, OWN_TTL},
    slot::{Slot, State},
};

/// A question that waits for the next pump, when all that was recorded can be read.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) client: ClientId,
    pub(super) ticket: Ticket,
    pub(super) what: What,
}

/// What is asked.
#[derive(Debug)]
pub(super) enum What {
    Peek(PeekRequest),
    Fetch(FetchRequest),
}

/// The fields of a `Peek`.
#[derive(Debug)]
pub(super) struct PeekRequest {
    pub(super) path: EntityPath,
    pub(super) session: Option<Box<str>>,
    pub(super) from: SequenceNumber,
    pub(super) count: u32,
    pub(super) bytes: u64,
}

impl Core {
    pub(super) fn answer_lookups(&mut self, now: Timestamp, bound: &mut Bound, out: &mut impl Output) {
        while !bound.is_spent()
            && let Some(Lookup { client, ticket, what }) = self.lookups.pop_front()
        {
            let answer = match &what {
                What::Peek(request) => {
                    self.peek(request, bound, out).map(|messages| Effect::Peeked { ticket, messages })
                }
                What::Fetch(request) => self
                    .fetch(now, client, request, bound, out)
                    .map(|messages| Effect::Fetched { ticket, messages }),
            };
            let effect = answer.unwrap_or_else(|error| Effect::RequestRefused { ticket, error });
            self.merge.effect(client, effect, out);
        }
    }

    fn peek(
        &mut self,
        request: &PeekRequest,
        bound: &mut Bound,
        out: &mut impl Output,
    ) -> Result<Vec<Peeked>, EntityError> {
        let missing = || EntityError::NotFound(request.path.entity.clone());
        let queue = self.resolve(&request.path).ok_or_else(missing)?;
        self.check_use(queue, Use::Receive)?;
        self.touch(queue);
        let default = self.main_of(queue).and_then(|entity| entity.definition.settings.default_time_to_live);
        let (store, bodies) = with_bodies(&mut self.stores, queue).ok_or_else(missing)?;
        // What others used up of this pump's bound must not cut an answer short.
        let mut own = Bound::of(&self.config);
        let mut messages = Vec::new();
        let mut bytes = 0;
        let session = request.session.as_deref();
        let mut next = store.next_of_session(session, request.from.0);
        while let Some(sequence) = next
            && messages.len() < request.count as usize
            && !own.is_spent()
        {
            next = store.next_of_session(session, sequence + 1);
            let shown = |slot: &Slot| !slot.is_damaged() && slot.state != State::Body;
            let Some(slot) = store.slots.get(sequence).copied().filter(shown) else { continue };
            let read = read_message(store, sequence, &slot, bodies.as_deref(), out)
                .and_then(|record| Ok((own_expiry(&slot, &record.index, default), stored(&slot, record)?)));
            let Ok((expires_at, mut stored)) = read else {
                store.set_damaged(sequence);
                continue;
            };
            bytes += stored.payload.len() as u64;
            if bytes > request.bytes && !messages.is_empty() {
                break;
            }
            bound.spend(stored.payload.len());
            own.spend(stored.payload.len());
            stored.expires_at = expires_at;
            messages.push(Peeked { sequence: SequenceNumber(sequence), stored });
        }
        Ok(messages)
    }
}

/// When a message expires that brought a time to live of its own. That of a scheduled one begins when it is due.
fn own_expiry(slot: &Slot, index: &MessageIndex, default: Option<Duration>) -> Option<Timestamp> {
    if let (Some(due), Some(own)) = (index.due, index.own_ttl.map(Duration::from_millis)) {
        let end = due.after(default.map_or(own, |default| own.min(default)));
        return (end != Timestamp::MAX).then_some(end);
    }
    (index.flags & OWN_TTL != 0 && slot.expires_at != Timestamp::MAX).then_some(slot.expires_at)
}
