//! Delivery to consumers that search the store: those with a selector (Jakarta Messaging 3.8.1), and those that browse.
//!
//! Invariant: a browsing consumer changes nothing. One with a selector gets the messages that match, in the order of
//! numbers; the others stay, and each is matched once for each time that it became ready. One turn visits a bounded
//! number of messages.

use broker_filter::PropertySet;

use super::{budget::DeliveryBudget, dispatcher::DeliveryContext};
use crate::{
    Delivery, Describe, Effect, Output, SequenceNumber, Stored, Timestamp,
    call::Cx,
    publish::topic_message::overlay,
    store::{
        Store,
        load_message::read_stored,
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
    /// All messages were visited.
    Nothing,
}

impl DeliveryContext<'_> {
    /// Delivers to the consumers with a selector, in turn. Returns whether all messages were matched for each of them.
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
                    Evaluated::Nothing => {
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
        let consumer = self.consumers.get_mut(&number);
        let Some(selection) = consumer.and_then(|consumer| consumer.selection.as_mut()) else {
            return Evaluated::Nothing;
        };
        let Some(sequence) = selection.next(store.has_partitions, &store.slots) else {
            return Evaluated::Nothing;
        };
        selection.pass(store.has_partitions, sequence);
        budget.spend(0, cx.out);
        let Some(slot) = store.slots.get(sequence).copied().filter(Slot::is_ready) else {
            return Evaluated::Other;
        };
        if slot.is_over(store.is_dead_letter(), cx.now) {
            return Evaluated::Other;
        }
        let Ok(found) = read_stored(store, sequence, &slot, bodies, cx.out) else {
            store.set_damaged(sequence);
            return Evaluated::Other;
        };
        budget.bytes = budget.bytes.saturating_sub(found.payload.len() as u64);
        if selection.wants(&facts(self.describe, cx.now, &found)) {
            Evaluated::Match(sequence, Box::new(found))
        } else {
            Evaluated::Other
        }
    }

    /// Shows messages to the browsing consumers. Says whether each got all that it could take.
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

    /// Shows one message; says no where there is none to show.
    fn show_next(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        store: &mut Store,
        bodies: Option<&Store>,
        number: ConsumerNumber,
        budget: &mut DeliveryBudget,
    ) -> bool {
        let Some(consumer) = self.consumers.get_mut(&number) else { return false };
        let Some(sequence) = store.next_to_show(&consumer.browse_cursor) else { return false };
        consumer.browse_cursor.pass(store.has_partitions, sequence);
        store.touched_at = cx.now;
        budget.messages = budget.messages.saturating_sub(1);
        let Some(slot) = store.slots.get(sequence).copied() else { return true };
        let is_over = slot.is_over(store.is_dead_letter(), cx.now);
        if slot.state != State::Active || slot.is_damaged() || is_over {
            return true;
        }
        let Ok(stored) = read_stored(store, sequence, &slot, bodies, cx.out) else {
            store.set_damaged(sequence);
            return true;
        };
        budget.bytes = budget.bytes.saturating_sub(stored.payload.len() as u64);
        let wanted = consumer
            .selection
            .as_ref()
            .is_none_or(|selection| selection.wants(&facts(self.describe, cx.now, &stored)));
        if !wanted {
            return true;
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
