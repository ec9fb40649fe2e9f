//! Messages go out: to consumers with credit whose client has byte budget, one after the other.
//!
//! Invariant: messages leave in the retrieval order; each goes to the consumer that has waited longest. A message
//! that is received and deleted is recorded as gone before it is handed out.

use super::{
    namespace::Namespace, prefetch::AHEAD, prefetch::prefetch_holders, reading::read_stored,
    sessions::SessionHolders,
};
use crate::{
    ClientId, CoreConfig, Delivery, Effect, Lock, LockId, LockLifetime, Output, QueueId, ReceiveMode,
    SequenceNumber, Stored, Timestamp, UnsettledPolicy,
    call::Cx,
    client::{Client, Consumer, Place},
    config::Describe,
    id_map::IdMap,
    merge::Removal,
    slot::ConsumerNumber,
    store::Store,
    token::Tokens,
};

/// Most messages that one store hands out before it is another store's turn.
pub(crate) const TURN: u32 = 256;

/// Work that one call of `deliver` may still do.
pub(crate) struct Bound {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

/// Hands messages out.
#[derive(Debug)]
pub(crate) struct Dispatcher<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl Bound {
    pub(crate) fn of(config: &CoreConfig) -> Self {
        Self { messages: config.deliver_messages_max.max(1), bytes: config.deliver_bytes_max.max(1) }
    }

    pub(crate) fn spend(&mut self, bytes: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.messages == 0 || self.bytes == 0
    }
}

/// Reason for which a store stopped delivering.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stop {
    NoMessage,
    NoConsumer,
    Bound,
}

impl Dispatcher<'_> {
    pub(crate) fn pump_store(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, bound: &mut Bound) {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return };
        store.queued = false;
        if store.forwards.is_some() {
            return self.state.messages.entities.agenda.wake(store);
        }
        if store.sessions.is_some() {
            SessionHolders::of(self.state).serve_acceptors(cx, queue);
        }
        let Some((store, mut bodies)) = with_bodies(&mut self.state.messages.entities.stores, queue) else {
            return;
        };
        let mut hand = Hand {
            clients: &mut self.state.links.clients,
            consumers: &mut self.state.links.consumers,
            tokens: &self.state.messages.tokens,
            next_lock: &mut self.state.next_lock,
            held: &mut self.state.held,
            describe: self.state.messages.config.describe,
        };
        // First, or those that take anything would leave nothing.
        let selected = hand.select(cx, store, bodies.as_deref_mut(), bound);
        let stop = if store.sessions.is_some() {
            hand.deliver_in_sessions(cx, store, bodies.as_deref_mut(), bound)
        } else {
            hand.deliver(cx, store, bodies.as_deref_mut(), bound)
        };
        let browsed = hand.browse(cx, store, bodies.as_deref(), bound);
        // Gone before handed cx.out.
        cx.flush_removed();
        for (client, delivery) in hand.held.drain(..) {
            cx.out.effect(client, Effect::Delivery(delivery));
        }
        hand.answer_drains(cx, store, stop);
        if stop == Stop::Bound || !browsed || !selected {
            self.state.messages.entities.agenda.wake(store);
        }
        self.state.messages.entities.agenda.arm(store);
    }
}

/// A store to change, and the topic's store where the bodies of its copies lie, if it has copies.
pub(crate) fn with_bodies(
    stores: &mut IdMap<QueueId, Box<Store>>,
    queue: QueueId,
) -> Option<(&mut Store, Option<&mut Store>)> {
    let topic = stores.get(&queue)?.copies.as_ref().map(|copies| copies.topic);
    let Some(topic) = topic.filter(|topic| *topic != queue) else {
        return Some((stores.get_mut(&queue)?, None));
    };
    let [store, topic] = stores.get_disjoint_mut([&queue, &topic]);
    Some((store?, topic.map(|topic| &mut **topic)))
}

/// One copy less refers to a body of this store; without any it goes. It needs no record: replay counts again.
pub(crate) fn release_reference(bodies: &mut Store, sequence: u64, out: &mut impl Output) {
    if let Some(body) = bodies.count_reference(sequence, false) {
        out.release(body.position, body.length);
    }
}

/// The parts of the core that handing out needs while a store is borrowed.
pub(crate) struct Hand<'a> {
    pub(crate) clients: &'a mut IdMap<ClientId, Client>,
    pub(crate) consumers: &'a mut IdMap<ConsumerNumber, Consumer>,
    tokens: &'a Tokens,
    next_lock: &'a mut u32,
    /// Deliveries of messages that are gone with them: they wait for the record of their removal.
    held: &'a mut Vec<(ClientId, Delivery)>,
    pub(crate) describe: Describe,
}

impl Hand<'_> {
    /// Gives messages to the consumers of the ring.
    fn deliver(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        bound: &mut Bound,
    ) -> Stop {
        for _ in 0..TURN {
            if bound.is_spent() {
                return Stop::Bound;
            }
            let Some(sequence) = store.next_ready() else { return Stop::NoMessage };
            let Some(slot) = store.slots.get(sequence).copied() else { return Stop::NoMessage };
            if slot.is_over(store.is_dead_letter(), cx.now) {
                store.take(sequence);
                continue;
            }
            let Some(number) = self.next_consumer(store) else { return Stop::NoConsumer };
            if let Ok(stored) = read_stored(store, sequence, &slot, bodies.as_deref(), cx.out) {
                bound.spend(stored.payload.len());
                self.hand_out(cx, store, bodies.as_deref_mut(), number, sequence, stored);
            } else {
                store.set_damaged(sequence);
                store.ring.push_front(number);
            }
        }
        Stop::Bound
    }

    /// Gives messages to the holders of sessions: to each the next one of its session, in turn.
    fn deliver_in_sessions(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        bound: &mut Bound,
    ) -> Stop {
        for step in 0..TURN {
            if bound.is_spent() {
                return Stop::Bound;
            }
            if (step as usize).is_multiple_of(AHEAD) {
                prefetch_holders(store, self.consumers);
            }
            let next = store.sessions.as_mut().and_then(|sessions| sessions.next_in_turn(cx.now));
            let Some((_, number, sequence)) = next else { return Stop::NoMessage };
            let Some(slot) = store.slots.get(sequence).copied() else { continue };
            if slot.is_over(store.is_dead_letter(), cx.now) {
                store.set_aside(sequence);
                continue;
            }
            if !self.may_take(store, number) {
                continue;
            }
            if let Ok(stored) = read_stored(store, sequence, &slot, bodies.as_deref(), cx.out) {
                bound.spend(stored.payload.len());
                self.hand_out(cx, store, bodies.as_deref_mut(), number, sequence, stored);
            } else {
                store.set_damaged(sequence);
            }
        }
        Stop::Bound
    }

    /// Takes the consumer whose turn it is out of the ring. Those that cannot take anything leave it.
    fn next_consumer(&mut self, store: &mut Store) -> Option<ConsumerNumber> {
        while let Some(number) = store.ring.pop_front() {
            if self.may_take(store, number) {
                return Some(number);
            }
        }
        None
    }

    /// Whether a consumer just taken from a ring has credit and budget; if not, notes where it waits instead.
    pub(crate) fn may_take(&mut self, store: &mut Store, number: ConsumerNumber) -> bool {
        let Some(consumer) = self.consumers.get_mut(&number) else {
            store.gone = store.gone.saturating_sub(1);
            return false;
        };
        consumer.place = Place::Idle;
        if !consumer.has_credit() {
            return false;
        }
        let Some(client) = self.clients.get_mut(&consumer.client) else { return false };
        if client.handed >= client.budget {
            consumer.place = Place::Blocked;
            client.blocked.push(number);
            return false;
        }
        consumer.place = Place::Ring;
        true
    }

    #[inline]
    pub(crate) fn hand_out(
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
            client.handed += (stored.payload.len() as u64).max(u64::from(client.least));
        }
        let selects = consumer.selects();
        if consumer.session.is_none() && consumer.has_credit() {
            match &mut store.selectors {
                Some(selectors) if selects => selectors.ring.push_back(number),
                _ => store.ring.push_back(number),
            }
        } else {
            consumer.place = Place::Idle;
        }
        let sequence_number = SequenceNumber(sequence);
        let queue = store.id;
        if consumer.mode == ReceiveMode::ReceiveAndDelete {
            store.traffic.completed += 1;
            if let Some((slot, body)) = store.remove(sequence) {
                // At most once: it is not handed cx.out before it is surely gone.
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
                consumer.unsettled == UnsettledPolicy::KeepLocks || store.hold == LockLifetime::Lock;
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
    fn answer_drains(&mut self, cx: &mut Cx<'_, impl Output>, store: &mut Store, stop: Stop) {
        let waiting = std::mem::take(&mut store.draining);
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
                (ReceiveMode::Browse, ..) => store.next_to_show(&consumer.browsed).is_none(),
                (ReceiveMode::PeekLock | ReceiveMode::ReceiveAndDelete, ..) => stop == Stop::NoMessage,
            };
            if consumer.has_credit() && !is_empty {
                consumer.is_listed = true;
                store.draining.push(number);
                continue;
            }
            consumer.drain = false;
            consumer.count = consumer.count.max(consumer.limit);
            let drained = Effect::Drained { consumer: consumer.link, count: consumer.count };
            cx.tell(consumer.client, drained);
        }
    }
}
