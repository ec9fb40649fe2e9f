//! Messages go out: to consumers with credit whose client has byte budget, one after the other.
//!
//! Invariant: messages leave in the retrieval order; each goes to the consumer that has waited longest. A message
//! that is received and deleted is recorded as gone before it is handed out.

use super::{Core, approach::AHEAD, reading::read_stored, wake};
use crate::{
    ClientId, CoreConfig, Delivery, Effect, Hold, Lock, LockId, Output, QueueId, ReceiveMode, SequenceNumber,
    Stored, Timestamp, UnsettledPolicy,
    client::{Client, Consumer, Place},
    config::Describe,
    id_map::IdMap,
    merge::{Merge, Removal},
    slot::ConsumerNumber,
    store::Store,
    token::Tokens,
};

/// Most messages that one store hands out before it is another store's turn.
pub(super) const TURN: u32 = 256;

/// What one call of `pump` may still do.
pub(super) struct Bound {
    pub(super) messages: u32,
    pub(super) bytes: u64,
}

impl Bound {
    pub(super) fn of(config: &CoreConfig) -> Self {
        Self { messages: config.pump_messages_max.max(1), bytes: config.pump_bytes_max.max(1) }
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.messages == 0 || self.bytes == 0
    }
}

/// Why a store stopped handing out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stop {
    NoMessage,
    NoConsumer,
    Bound,
}

impl Core {
    /// Hands messages to consumers and answers `Peek`, `ReceiveDeferred` and drain. Bounded; says whether there is more to do. Call it
    /// when the records of earlier calls can be read.
    pub fn pump(&mut self, now: Timestamp, out: &mut impl Output) -> bool {
        self.now = now;
        let mut bound = Bound::of(&self.config);
        self.answer_lookups(now, &mut bound, out);
        while !bound.is_spent()
            && let Some(queue) = self.active.hand_out.pop_front()
        {
            self.pump_store(now, queue, &mut bound, out);
        }
        self.finish_call(out);
        !self.active.hand_out.is_empty() || !self.lookups.is_empty()
    }

    fn pump_store(&mut self, now: Timestamp, queue: QueueId, bound: &mut Bound, out: &mut impl Output) {
        let Some(store) = self.stores.get_mut(&queue) else { return };
        store.queued = false;
        if store.forwards.is_some() {
            return wake(store, &mut self.active);
        }
        if store.sessions.is_some() {
            self.serve_acceptors(now, queue, out);
        }
        let Some((store, mut bodies)) = with_bodies(&mut self.stores, queue) else { return };
        let mut hand = Hand {
            now,
            clients: &mut self.clients,
            consumers: &mut self.consumers,
            tokens: &self.tokens,
            merge: &mut self.merge,
            next_lock: &mut self.next_lock,
            held: &mut self.held,
            describe: self.config.describe,
        };
        // First, or those that take anything would leave nothing.
        let selected = hand.select(store, bodies.as_deref_mut(), bound, out);
        let stop = if store.sessions.is_some() {
            hand.deliver_in_sessions(store, bodies.as_deref_mut(), bound, out)
        } else {
            hand.deliver(store, bodies.as_deref_mut(), bound, out)
        };
        let browsed = hand.browse(store, bodies.as_deref(), bound, out);
        // Gone before handed out.
        hand.merge.flush_removed(out);
        for (client, delivery) in hand.held.drain(..) {
            out.effect(client, Effect::Delivery(delivery));
        }
        hand.answer_drains(store, stop, out);
        if stop == Stop::Bound || !browsed || !selected {
            wake(store, &mut self.active);
        }
        store.arm(&mut self.timers);
    }
}

/// A store to change, and the topic's store where the bodies of its copies lie, if it has copies.
pub(super) fn with_bodies(
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
pub(super) fn release_reference(bodies: &mut Store, sequence: u64, out: &mut impl Output) {
    if let Some(body) = bodies.count_reference(sequence, false) {
        out.release(body.position, body.length);
    }
}

/// The parts of the core that handing out needs while a store is borrowed.
pub(super) struct Hand<'a> {
    pub(super) now: Timestamp,
    pub(super) clients: &'a mut IdMap<ClientId, Client>,
    pub(super) consumers: &'a mut IdMap<ConsumerNumber, Consumer>,
    tokens: &'a Tokens,
    merge: &'a mut Merge,
    next_lock: &'a mut u32,
    /// Deliveries of messages that are gone with them: they wait for the record of their removal.
    held: &'a mut Vec<(ClientId, Delivery)>,
    pub(super) describe: Describe,
}

impl Hand<'_> {
    /// Gives messages to the consumers of the ring.
    fn deliver(
        &mut self,
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        bound: &mut Bound,
        out: &mut impl Output,
    ) -> Stop {
        for _ in 0..TURN {
            if bound.is_spent() {
                return Stop::Bound;
            }
            let Some(sequence) = store.next_ready() else { return Stop::NoMessage };
            let Some(slot) = store.slots.get(sequence).copied() else { return Stop::NoMessage };
            if Core::is_over(&slot, store.is_dead_letter(), self.now) {
                store.take(sequence);
                continue;
            }
            let Some(number) = self.next_consumer(store) else { return Stop::NoConsumer };
            if let Ok(stored) = read_stored(store, sequence, &slot, bodies.as_deref(), out) {
                bound.spend(stored.payload.len());
                self.hand_out(store, bodies.as_deref_mut(), (number, sequence), stored, out);
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
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        bound: &mut Bound,
        out: &mut impl Output,
    ) -> Stop {
        for step in 0..TURN {
            if bound.is_spent() {
                return Stop::Bound;
            }
            if (step as usize).is_multiple_of(AHEAD) {
                Core::approach_holders(store, self.consumers);
            }
            let next = store.sessions.as_mut().and_then(|sessions| sessions.next_in_turn(self.now));
            let Some((_, number, sequence)) = next else { return Stop::NoMessage };
            let Some(slot) = store.slots.get(sequence).copied() else { continue };
            if Core::is_over(&slot, store.is_dead_letter(), self.now) {
                store.set_aside(sequence);
                continue;
            }
            if !self.may_take(store, number) {
                continue;
            }
            if let Ok(stored) = read_stored(store, sequence, &slot, bodies.as_deref(), out) {
                bound.spend(stored.payload.len());
                self.hand_out(store, bodies.as_deref_mut(), (number, sequence), stored, out);
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
    pub(super) fn may_take(&mut self, store: &mut Store, number: ConsumerNumber) -> bool {
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
    pub(super) fn hand_out(
        &mut self,
        store: &mut Store,
        bodies: Option<&mut Store>,
        (number, sequence): (ConsumerNumber, u64),
        stored: Stored,
        out: &mut impl Output,
    ) {
        let Some(consumer) = self.consumers.get_mut(&number) else { return };
        let (client, link) = (consumer.client, consumer.link);
        store.touched_at = self.now;
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
                // At most once: it is not handed out before it is surely gone.
                self.merge.removed(store.id, sequence, Removal::Awaited, out);
                out.release(slot.position, slot.length);
                if let Some((body, bodies)) = body.zip(bodies) {
                    release_reference(bodies, body.sequence, out);
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
            let is_timed = consumer.unsettled == UnsettledPolicy::KeepLocks || store.hold == Hold::Lock;
            if selects {
                store.take_any(sequence);
            } else {
                store.take(sequence);
            }
            if is_timed {
                let until = self.now.after(store.lock_duration);
                store.lock(sequence, id, number, until);
                until
            } else {
                store.lock_untimed(sequence, id, number, self.now);
                Timestamp::MAX
            }
        };
        let token = self.tokens.seal(store.id, id, sequence_number);
        let lock = Some(Lock { id, token, until });
        out.effect(
            client,
            Effect::Delivery(Delivery { consumer: link, queue, sequence: sequence_number, lock, stored }),
        );
    }

    /// Answers those whose drain is complete: the credit is used, or there is nothing left to use it for.
    fn answer_drains(&mut self, store: &mut Store, stop: Stop, out: &mut impl Output) {
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
            self.merge.effect(consumer.client, drained, out);
        }
    }
}
