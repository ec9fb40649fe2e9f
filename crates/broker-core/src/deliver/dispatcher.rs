//! Delivery of messages to consumers with credit whose client has byte budget, in turn.
//!
//! Consumers with a selector are served first, the others in round-robin order, browsers last; in a store with sessions, the
//! sessions that are held take turns.
//!
//! Invariant: messages leave in the retrieval order. A message of a receive-and-delete consumer is recorded as removed before it
//! is delivered.

use std::mem;

use super::budget::{DeliveryBudget, ROUND_MESSAGES_MAX};
use crate::{
    ClientId, Delivery, Describe, Effect, Lock, LockId, LockLifetime, Output, QueueId, ReceiveMode,
    SequenceNumber, Stored, Timestamp, UnsettledPolicy,
    call::Cx,
    disk_waits::{DiskWaiter, DiskWaits},
    id_map::IdMap,
    link::client::{Client, Consumer, WaitState},
    namespace::Namespace,
    output_coalescer::Removal,
    prefetch::{AHEAD, prefetch_holders},
    session::holders::SessionHolders,
    settle::token::LockTokenCipher,
    store::{
        Store,
        load_message::{Unread, read_stored},
        sessions::SessionNumber,
        shared_bodies::{release_reference, with_bodies},
        slot::{ConsumerNumber, Slot},
    },
};

/// Delivers messages.
#[derive(Debug)]
pub(crate) struct Dispatcher<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

/// Reason for which a store stopped delivering.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum StopReason {
    NoMessage,
    NoConsumer,
    Budget,
    /// The next message is read from the disk.
    Disk,
}

impl Dispatcher<'_> {
    pub(crate) fn deliver_from(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        budget: &mut DeliveryBudget,
    ) {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return };
        store.queued = false;
        if store.forwards.is_some() {
            return self.state.messages.entities.agenda.wake(store);
        }
        store.reads.begin();
        if store.sessions.is_some() {
            SessionHolders::of(self.state).serve_acceptors(cx, queue);
        }
        let Some((store, mut bodies)) = with_bodies(&mut self.state.messages.entities.stores, queue) else {
            return;
        };
        let mut context = DeliveryContext {
            clients: &mut self.state.links.clients,
            consumers: &mut self.state.links.consumers,
            tokens: &self.state.messages.tokens,
            next_lock: &mut self.state.next_lock,
            held: &mut self.state.held,
            disk_waits: &mut self.state.messages.disk_waits,
            describe: self.state.messages.config.describe,
        };
        // Consumers with a selector come first: those without one would take the messages that match.
        let selected = context.select(cx, store, bodies.as_deref_mut(), budget);
        let stop = if store.sessions.is_some() {
            context.deliver_in_sessions(cx, store, bodies.as_deref_mut(), budget)
        } else {
            context.deliver(cx, store, bodies.as_deref_mut(), budget)
        };
        // Browsing takes no message, so it gets what the deliveries leave of the budget.
        let browsed = context.browse(cx, store, bodies.as_deref(), budget);
        // The removals are recorded first: after a crash between record and delivery a message is lost, as at-most-once
        // delivery permits, and never delivered twice.
        cx.flush_removed();
        for (client, delivery) in context.held.drain(..) {
            cx.out.effect(client, Effect::Delivery(delivery));
        }
        // Last: a drain is complete only when no ready message is left for its credit.
        context.answer_drains(cx, store, stop);
        if stop == StopReason::Budget || !browsed || !selected {
            self.state.messages.entities.agenda.wake(store);
        }
        self.state.messages.entities.agenda.arm(store);
    }

    /// A store or session whose message was read goes on.
    pub(crate) fn on_read(&mut self, waiter: DiskWaiter) {
        let (DiskWaiter::Store(queue) | DiskWaiter::Session(queue, _) | DiskWaiter::DueWork(queue)) = waiter;
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return };
        if let DiskWaiter::DueWork(_) = waiter {
            store.due_reads.on_read();
            store.due_work_waits = false;
            return self.state.messages.entities.agenda.arm(store);
        }
        store.reads.on_read();
        if let (DiskWaiter::Session(_, session), Some(sessions)) = (waiter, &mut store.sessions) {
            sessions.call(session);
        }
        self.state.messages.entities.agenda.wake(store);
    }
}

/// The parts of the namespace that a delivery needs while a store is borrowed.
pub(crate) struct DeliveryContext<'a> {
    pub(crate) clients: &'a mut IdMap<ClientId, Client>,
    pub(crate) consumers: &'a mut IdMap<ConsumerNumber, Consumer>,
    tokens: &'a LockTokenCipher,
    next_lock: &'a mut u32,
    /// Deliveries that remove their messages: they wait for the record of the removal.
    held: &'a mut Vec<(ClientId, Delivery)>,
    disk_waits: &'a mut DiskWaits,
    pub(crate) describe: Describe,
}

impl DeliveryContext<'_> {
    /// Reads a message for a consumer. Where the disk has to be read, the store, or this session of it, goes on when that is done.
    #[inline]
    pub(crate) fn read(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        bodies: Option<&Store>,
        (sequence, slot): (u64, &Slot),
        session: Option<SessionNumber>,
    ) -> Result<Stored, Unread> {
        let read = read_stored(store, sequence, slot, bodies, store.reads.disk_access(), cx.out);
        match &read {
            Ok(_) => store.reads.found(),
            Err(Unread::Damaged(_)) => store.set_damaged(sequence),
            Err(Unread::Pending(read)) => {
                let waiter = match session {
                    Some(session) => DiskWaiter::Session(store.id, session),
                    None => DiskWaiter::Store(store.id),
                };
                self.disk_waits.add(*read, waiter);
            }
        }
        read
    }

    /// Gives messages to the consumers of the ring.
    fn deliver(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        budget: &mut DeliveryBudget,
    ) -> StopReason {
        for _ in 0..ROUND_MESSAGES_MAX {
            if budget.is_spent(cx.out) {
                return StopReason::Budget;
            }
            let Some(sequence) = store.next_ready() else { return StopReason::NoMessage };
            let Some(slot) = store.slots.get(sequence).copied() else { return StopReason::NoMessage };
            if slot.is_over(store.is_dead_letter(), cx.now) {
                // Its expiry timer removes it or dead-letters it. Here it only leaves the retrieval order.
                store.take(sequence);
                continue;
            }
            let Some(number) = self.next_consumer(store) else { return StopReason::NoConsumer };
            match self.read(cx, store, bodies.as_deref(), (sequence, &slot), None) {
                Ok(stored) => {
                    budget.spend(stored.payload.len(), cx.out);
                    self.deliver_one(cx, store, bodies.as_deref_mut(), number, sequence, stored);
                }
                Err(unread) => {
                    // The message is at fault, or not there yet, so the consumer keeps its turn.
                    store.links.ring.push_front(number);
                    if let Unread::Pending(_) = unread {
                        return StopReason::Disk;
                    }
                }
            }
        }
        StopReason::Budget
    }

    /// Gives messages to the holders of sessions: to each the next one of its session, in turn.
    fn deliver_in_sessions(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        budget: &mut DeliveryBudget,
    ) -> StopReason {
        for step in 0..ROUND_MESSAGES_MAX {
            if budget.is_spent(cx.out) {
                return StopReason::Budget;
            }
            if (step as usize).is_multiple_of(AHEAD) {
                prefetch_holders(store, self.consumers);
            }
            let next = store.sessions.as_mut().and_then(|sessions| sessions.next_in_turn(cx.now));
            let Some((session, number, sequence)) = next else { return StopReason::NoMessage };
            let Some(slot) = store.slots.get(sequence).copied() else { continue };
            if slot.is_over(store.is_dead_letter(), cx.now) {
                store.mark_unavailable(sequence);
                continue;
            }
            if !self.may_take(store, number) {
                continue;
            }
            // A session that waits for the disk has no turn before that.
            if let Ok(stored) = self.read(cx, store, bodies.as_deref(), (sequence, &slot), Some(session)) {
                budget.spend(stored.payload.len(), cx.out);
                self.deliver_one(cx, store, bodies.as_deref_mut(), number, sequence, stored);
            }
        }
        StopReason::Budget
    }

    /// Takes the consumer whose turn it is out of the ring. Those that cannot take anything leave it.
    fn next_consumer(&mut self, store: &mut Store) -> Option<ConsumerNumber> {
        while let Some(number) = store.links.ring.pop_front() {
            if self.may_take(store, number) {
                return Some(number);
            }
        }
        None
    }

    /// Whether a consumer just taken from a ring has credit and budget; if not, notes where it waits instead.
    pub(crate) fn may_take(&mut self, store: &mut Store, number: ConsumerNumber) -> bool {
        let Some(consumer) = self.consumers.get_mut(&number) else {
            store.links.stale_consumers = store.links.stale_consumers.saturating_sub(1);
            return false;
        };
        consumer.wait_state = WaitState::Idle;
        if !consumer.has_credit() {
            return false;
        }
        let Some(client) = self.clients.get_mut(&consumer.client) else { return false };
        if client.delivered_bytes >= client.budget {
            consumer.wait_state = WaitState::Blocked;
            client.blocked.push(number);
            return false;
        }
        consumer.wait_state = WaitState::Ring;
        true
    }

    #[inline]
    pub(crate) fn deliver_one(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        bodies: Option<&mut Store>,
        number: ConsumerNumber,
        sequence: u64,
        stored: Stored,
    ) {
        let Some(consumer) = self.consumers.get_mut(&number) else { return };
        let (client, link) = (consumer.client, consumer.link);
        store.touched_at = cx.now;
        store.traffic.outgoing += 1;
        consumer.count += 1;
        if let Some(client) = self.clients.get_mut(&client) {
            client.delivered_bytes += (stored.payload.len() as u64).max(u64::from(client.min_bytes));
        }
        let selects = consumer.selects();
        if consumer.session.is_none() && consumer.has_credit() {
            match &mut store.links.selectors {
                Some(selectors) if selects => selectors.ring.push_back(number),
                _ => store.links.ring.push_back(number),
            }
        } else {
            consumer.wait_state = WaitState::Idle;
        }
        let sequence_number = SequenceNumber(sequence);
        let queue = store.id;
        if consumer.mode == ReceiveMode::ReceiveAndDelete {
            store.traffic.completed += 1;
            if let Some((slot, body)) = store.remove(sequence) {
                // At most once: the delivery waits in `held` until the removal is recorded.
                cx.removed(store.id, sequence, Removal::Awaited);
                cx.out.release(slot.position, slot.length);
                if let Some((body, bodies)) = body.zip(bodies) {
                    release_reference(bodies, body.sequence, cx.out);
                }
            }
            let delivery = Delivery { consumer: link, queue, sequence: sequence_number, lock: None, stored };
            self.held.push((client, delivery));
            return;
        }
        consumer.took_locks = true;
        let id = LockId(*self.next_lock);
        *self.next_lock = self.next_lock.wrapping_add(1);
        let until = if consumer.session.is_some() {
            store.lock_in_session(sequence, id)
        } else {
            let is_timed =
                consumer.unsettled == UnsettledPolicy::KeepLocks || store.lock_lifetime == LockLifetime::Lock;
            if selects {
                store.take_any(sequence);
            } else {
                store.take(sequence);
            }
            if is_timed {
                let until = cx.now.after(store.lock_duration);
                store.lock(sequence, id, number, until);
                until
            } else {
                store.lock_untimed(sequence, id, number, cx.now);
                Timestamp::MAX
            }
        };
        let token = self.tokens.seal(store.id, id, sequence_number);
        let lock = Some(Lock { id, token, until });
        cx.out.effect(
            client,
            Effect::Delivery(Delivery { consumer: link, queue, sequence: sequence_number, lock, stored }),
        );
    }

    /// Answers those whose drain is complete: the credit is used, or there is nothing left to use it for.
    fn answer_drains(&mut self, cx: &mut Cx<'_, impl Output>, store: &mut Store, stop: StopReason) {
        let waiting = mem::take(&mut store.links.draining);
        for number in waiting {
            let Some(consumer) = self.consumers.get_mut(&number) else { continue };
            consumer.is_listed = false;
            if !consumer.drain {
                continue;
            }
            let selection = consumer.selection.as_ref().filter(|_| consumer.selects());
            let is_empty = match (consumer.mode, consumer.session, selection) {
                (_, Some(number), _) => {
                    store.session(number).is_none_or(|session| session.first_ready().is_none())
                }
                (_, _, Some(selection)) => store.was_looked_through(selection),
                (ReceiveMode::Browse, ..) => store.next_to_show(&consumer.browse_cursor).is_none(),
                (ReceiveMode::PeekLock | ReceiveMode::ReceiveAndDelete, ..) => stop == StopReason::NoMessage,
            };
            if consumer.has_credit() && !is_empty {
                consumer.is_listed = true;
                store.links.draining.push(number);
                continue;
            }
            consumer.drain = false;
            consumer.count = consumer.count.max(consumer.limit);
            let drained = Effect::Drained { consumer: consumer.link, count: consumer.count };
            cx.tell(consumer.client, drained);
        }
    }
}
