//! Delivery to consumers that search the store: those with a selector (Jakarta Messaging 3.8.1), and those that browse.
//!
//! Invariant: a browsing consumer changes nothing. One with a selector gets the messages that match, in the order of
//! numbers; the others stay, and each is matched once for each time that it became ready. One turn visits a bounded
//! number of messages.

use broker_filter::PropertySet;

use super::{budget::DeliveryBudget, dispatcher::DeliveryContext};
use crate::{
    Delivery, Describe, Effect, Output, SequenceNumber, Stored, Timestamp, Work,
    call::Cx,
    publish::topic_message::overlay,
    store::{
        Store,
        load_message::Unread,
        selection::Selection,
        slot::{ConsumerNumber, Slot, State},
    },
};

/// Most messages that are matched for the consumers with a selector before the others of the store have their turn.
const EVALUATIONS_MAX: u32 = 64;

/// Result of the match of one message.
enum Evaluated {
    /// It is wanted.
    Match(u64, Box<Stored>),
    /// It is not, or cannot be had.
    Other,
    /// It is read from the disk.
    Pending,
    /// All messages were visited.
    Nothing,
}

impl DeliveryContext<'_> {
    /// Delivers to the consumers with a selector, in turn. Returns whether all messages were matched for each of them, but for
    /// those that are read from the disk and those behind them.
    pub(crate) fn select(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        mut bodies: Option<&mut Store>,
        budget: &mut DeliveryBudget,
    ) -> bool {
        if store.links.selectors.is_none() {
            return true;
        }
        let mut satisfied = Vec::new();
        let mut left = EVALUATIONS_MAX;
        while let Some(number) =
            store.links.selectors.as_mut().and_then(|selectors| selectors.ring.pop_front())
        {
            if !self.may_take(store, number) {
                continue;
            }
            self.catch_up(number, store);
            loop {
                if left == 0 || budget.is_spent(cx.out) {
                    satisfied.push(number);
                    break;
                }
                match self.evaluate_next(cx, store, bodies.as_deref(), number, budget) {
                    Evaluated::Match(sequence, stored) => {
                        left -= 1;
                        self.deliver_one(cx, store, bodies.as_deref_mut(), number, sequence, *stored);
                        break;
                    }
                    Evaluated::Other => left -= 1,
                    Evaluated::Nothing | Evaluated::Pending => {
                        satisfied.push(number);
                        break;
                    }
                }
            }
            if left == 0 || budget.is_spent(cx.out) {
                break;
            }
        }
        let is_done = left > 0 && !budget.is_spent(cx.out);
        if let Some(selectors) = &mut store.links.selectors {
            selectors.ring.extend(satisfied);
        }
        is_done
    }

    fn selection(&self, number: ConsumerNumber) -> Option<&Selection> {
        self.consumers.get(&number)?.selection.as_deref()
    }

    /// Adds the messages that returned since a consumer's last turn.
    fn catch_up(&mut self, number: ConsumerNumber, store: &Store) {
        let consumer = self.consumers.get_mut(&number);
        let selection = consumer.and_then(|consumer| consumer.selection.as_mut());
        if let Some((selection, selectors)) = selection.zip(store.links.selectors.as_ref()) {
            selection.catch_up(selectors, store.has_partitions);
        }
    }

    /// Looks at one message for a consumer.
    fn evaluate_next(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        bodies: Option<&Store>,
        number: ConsumerNumber,
        budget: &mut DeliveryBudget,
    ) -> Evaluated {
        let Some(sequence) =
            self.selection(number).and_then(|selection| selection.next(store.has_partitions, &store.slots))
        else {
            return Evaluated::Nothing;
        };
        let (is_dead_letter, now) = (store.is_dead_letter(), cx.now);
        let wanted = |slot: &Slot| slot.is_ready() && !slot.is_over(is_dead_letter, now);
        let slot = store.slots.get(sequence).copied().filter(wanted);
        let found = slot.map(|slot| self.read(cx, store, bodies, (sequence, &slot), None));
        if let Some(Err(Unread::Pending(_))) = found {
            return Evaluated::Pending;
        }
        budget.spend(0, cx.out);
        let Some(selection) =
            self.consumers.get_mut(&number).and_then(|consumer| consumer.selection.as_mut())
        else {
            return Evaluated::Nothing;
        };
        selection.pass(store.has_partitions, sequence);
        let Some(Ok(found)) = found else { return Evaluated::Other };
        budget.bytes = budget.bytes.saturating_sub(found.payload.len() as u64);
        let (is_wanted, steps) = selection.wants(&facts(self.describe, cx.now, &found));
        cx.out.charge(Work::of_steps(steps));
        if is_wanted { Evaluated::Match(sequence, Box::new(found)) } else { Evaluated::Other }
    }

    /// Shows messages to the browsing consumers. Says whether each got all that it could take, but for what is read from the disk
    /// and what is behind that.
    pub(crate) fn browse(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        bodies: Option<&Store>,
        budget: &mut DeliveryBudget,
    ) -> bool {
        for _ in 0..store.links.browsers.len() {
            let Some(number) = store.links.browsers.pop_front() else { break };
            while self.may_take(store, number) {
                if budget.is_spent(cx.out) {
                    store.links.browsers.push_front(number);
                    return false;
                }
                if !self.show_next(cx, store, bodies, number, budget) {
                    store.links.browsers.push_back(number);
                    break;
                }
            }
        }
        true
    }

    /// Shows one message; says no where there is none to show, or none before the disk was read.
    fn show_next(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        bodies: Option<&Store>,
        number: ConsumerNumber,
        budget: &mut DeliveryBudget,
    ) -> bool {
        let Some(consumer) = self.consumers.get(&number) else { return false };
        let Some(sequence) = store.next_to_show(&consumer.browse_cursor) else { return false };
        let (is_dead_letter, now) = (store.is_dead_letter(), cx.now);
        let is_shown = |slot: &Slot| {
            slot.state == State::Active && !slot.is_damaged() && !slot.is_over(is_dead_letter, now)
        };
        let slot = store.slots.get(sequence).copied().filter(is_shown);
        let found = slot.map(|slot| self.read(cx, store, bodies, (sequence, &slot), None));
        if let Some(Err(Unread::Pending(_))) = found {
            return false;
        }
        let Some(consumer) = self.consumers.get_mut(&number) else { return false };
        consumer.browse_cursor.pass(store.has_partitions, sequence);
        store.touched_at = cx.now;
        budget.messages = budget.messages.saturating_sub(1);
        let Some(Ok(stored)) = found else { return true };
        budget.bytes = budget.bytes.saturating_sub(stored.payload.len() as u64);
        if let Some(selection) = &consumer.selection {
            let (is_wanted, steps) = selection.wants(&facts(self.describe, cx.now, &stored));
            cx.out.charge(Work::of_steps(steps));
            if !is_wanted {
                return true;
            }
        }
        consumer.count += 1;
        if let Some(client) = self.clients.get_mut(&consumer.client) {
            client.delivered_bytes += (stored.payload.len() as u64).max(u64::from(client.min_bytes));
        }
        let sequence = SequenceNumber(sequence);
        let delivery = Delivery { consumer: consumer.link, queue: store.id, sequence, lock: None, stored };
        cx.out.effect(consumer.client, Effect::Delivery(delivery));
        true
    }
}

/// Properties of a stored message that a filter reads.
pub(crate) fn facts(describe: Describe, now: Timestamp, stored: &Stored) -> PropertySet {
    let mut facts = describe(now, &stored.payload).properties.map(|facts| *facts).unwrap_or_default();
    overlay(&mut facts, &stored.properties);
    facts
}
