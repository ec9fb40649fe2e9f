//! Peek: messages are read without a lock (`docs/features/service-bus.md`, "Management operations").
//!
//! Invariant: a peek changes nothing. One call of `deliver` looks at a bounded number of messages, and the next one
//! continues there: the answer is the same as if all had been looked at in one call.

use std::time::Duration;

use super::{
    budget::DeliveryBudget,
    deferred::DeferredReceiver,
    pending_read::{Answer, PeekRequest, PendingRead, ReadRequest},
};
use crate::{
    Effect, EntityError, Output, Peeked, SequenceNumber, Timestamp, Work,
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    record::{MessageIndex, OWN_TTL},
    store::{
        load_message::{DiskAccess, Unread, read_open, stored},
        reads_in_vain::READS_IN_VAIN_MAX,
        shared_bodies::with_bodies,
        slot::{Slot, State},
    },
};

/// Most messages that one call of `deliver` passes over for one request.
const PASSED_MAX: u32 = 10_000;

/// Shows messages, and hands out deferred ones.
#[derive(Debug)]
pub(crate) struct ReadRequests<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> ReadRequests<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl ReadRequests<'_> {
    pub(crate) fn answer_reads(&mut self, cx: &mut Cx<'_, impl Output>, budget: &mut DeliveryBudget) {
        while !budget.is_spent(cx.out)
            && !self.state.messages.disk_waits.has_requests()
            && let Some(mut read) = self.state.pending_reads.pop_front()
        {
            match self.answer(cx, &mut read, budget) {
                Answer::Whole(effect) => cx.reply(effect),
                // It continues at the next `deliver`, so that it does not delay other clients.
                Answer::Unfinished => return self.state.pending_reads.push_front(read),
                Answer::Disk(done) => {
                    read.disk_waits = read.disk_waits.saturating_add(1);
                    self.state.messages.disk_waits.add_requests(done);
                    self.state.pending_reads.push_front(read);
                }
            }
        }
    }

    fn answer(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        read: &mut PendingRead,
        budget: &mut DeliveryBudget,
    ) -> Answer<Effect> {
        let ticket = read.ticket;
        cx.client = read.client;
        let waits = read.disk_waits >= READS_IN_VAIN_MAX;
        let disk = if waits { DiskAccess::Wait } else { DiskAccess::Later };
        let before = read.request.messages_so_far();
        let answer = match &mut read.request {
            ReadRequest::Peek(request) => self
                .peek(cx, request, disk, budget)
                .map(|found| found.map(|messages| Effect::Peeked { ticket, messages })),
            ReadRequest::Fetch(request) => DeferredReceiver::of(self.state)
                .fetch(cx, request, disk, budget)
                .map(|fetched| fetched.map(|messages| Effect::Fetched { ticket, messages })),
        };
        if read.request.messages_so_far() > before {
            read.disk_waits = 0;
        }
        answer.unwrap_or_else(|error| Answer::Whole(Effect::RequestRefused { ticket, error }))
    }

    /// Finds messages from where the last call for this request ended.
    pub(crate) fn peek(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        request: &mut PeekRequest,
        disk: DiskAccess,
        budget: &mut DeliveryBudget,
    ) -> Result<Answer<Vec<Peeked>>, EntityError> {
        let missing = || EntityError::NotFound(request.path.entity.clone());
        let queue = self.state.resolve(&request.path).ok_or_else(missing)?;
        self.state.messages.entities.check_use(queue, Use::Receive)?;
        self.state.messages.entities.touch(cx, queue);
        let default =
            self.state.main_of(queue).and_then(|entity| entity.definition.settings.default_time_to_live);
        let (store, bodies) =
            with_bodies(&mut self.state.messages.entities.stores, queue).ok_or_else(missing)?;
        // Bounds of its own: messages handed out to others in this call must not cut the answer short.
        let config = &self.state.messages.config;
        let (most, bytes_max) =
            (config.deliver_messages_max.max(1).min(request.count), config.deliver_bytes_max.max(1));
        let mut messages = std::mem::take(&mut request.found);
        let mut bytes =
            messages.iter().map(|peeked: &Peeked| peeked.stored.payload.len() as u64).sum::<u64>();
        let mut passed = 0;
        let session = request.session.as_deref();
        let mut next = store.next_of_session(session, request.from.0);
        while let Some(sequence) = next
            && messages.len() < most as usize
            && bytes < bytes_max
        {
            if cx.out.work_left() == Work(0) {
                request.from = SequenceNumber(sequence);
                request.found = messages;
                return Ok(Answer::Unfinished);
            }
            if passed >= PASSED_MAX {
                if messages.is_empty() {
                    request.from = SequenceNumber(sequence);
                    return Ok(Answer::Unfinished);
                }
                break;
            }
            next = store.next_of_session(session, sequence + 1);
            cx.out.charge(Work::MESSAGE);
            let shown = |slot: &Slot| !slot.is_damaged() && slot.state != State::Body;
            let Some(slot) = store.slots.get(sequence).copied().filter(shown) else {
                passed += 1;
                continue;
            };
            let read = read_open(store, sequence, &slot, bodies.as_deref(), disk, cx.out)
                .and_then(|record| Ok((own_expiry(&slot, &record.index, default), stored(&slot, record)?)));
            let (expires_at, mut stored) = match read {
                Ok(found) => found,
                Err(Unread::Pending(read)) => {
                    request.from = SequenceNumber(sequence);
                    request.found = messages;
                    return Ok(Answer::Disk(read));
                }
                Err(Unread::Damaged(_)) => {
                    store.set_damaged(sequence);
                    continue;
                }
            };
            bytes += stored.payload.len() as u64;
            if bytes > request.bytes && !messages.is_empty() {
                break;
            }
            budget.spend(stored.payload.len(), cx.out);
            stored.expires_at = expires_at;
            let due = slot.due();
            messages.push(Peeked { sequence: SequenceNumber(sequence), stored, due });
        }
        Ok(Answer::Whole(messages))
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
