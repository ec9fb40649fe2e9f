//! Time passes: locks end, messages expire, schedules come due.
//!
//! Invariant: nothing is polled; one table says when to look next, and each look at a store is bounded.

use std::hint::black_box;

use super::{Core, settle::Addition};
use crate::{
    Output, Position, QueueId, Timestamp,
    deadlines::{Deadlines, Run},
    slot::{Slot, State},
    slots::TOGETHER,
};

/// Copying so many bytes counts as much as one more message, so that one call appends about as many bytes as it may
/// treat kilobyte messages.
pub(super) const BYTES_LIKE_A_MESSAGE: u32 = 1 << 10;

/// What an instant was kept for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Lock,
    Expiry,
    Schedule,
}

impl Core {
    /// When `handle_deadline` wants to be called next. It may find nothing to do then.
    pub fn deadline(&self) -> Option<Timestamp> {
        if !self.leaving.is_empty() || !self.remains.is_empty() {
            return Some(Timestamp::from_millis(0));
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let others = [self.transactions.deadline(), self.active.deadline(), self.idle.deadline()];
        timer.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Does what is due. Says whether more is due already: the work of one call is bounded.
    pub fn handle_deadline(&mut self, now: Timestamp, out: &mut impl Output) -> bool {
        self.now = now;
        self.begin_room();
        // What is forwarded must not hold up what others wait for.
        let (half, rest) =
            (self.config.pump_messages_max.max(2) / 2, self.config.pump_messages_max.max(2).div_ceil(2));
        let left = rest.saturating_add(self.work_off_forwards(now, half, out));
        let left = self.time_out_transactions(now, left);
        let left = self.work_off_leaving(now, left, out);
        let mut left = self.work_off_remains(left, out);
        while let Some((at, queue)) = self.timers.first().copied()
            && at <= now
            && left > 0
        {
            left = self.run_store(now, queue, left, out);
            self.rearm(queue);
        }
        // Last: a lock that has run out keeps no entity, and says until when it was used.
        self.delete_idle(now, left, out);
        self.finish_call(out);
        self.deadline().is_some_and(|at| at <= now)
    }

    fn run_store(&mut self, now: Timestamp, queue: QueueId, mut left: u32, out: &mut impl Output) -> u32 {
        let Some(store) = self.stores.get_mut(&queue) else {
            self.timers.pop_first();
            return left;
        };
        store.disarm(&mut self.timers);
        for kind in [Kind::Lock, Kind::Expiry, Kind::Schedule] {
            while left > 0 {
                let due = self.pop_due(now, queue, kind, left);
                if due.is_empty() {
                    break;
                }
                self.approach(queue, kind, &due, out);
                for run in due {
                    left = left.saturating_sub(1 + self.run(now, queue, kind, run, left, out));
                }
            }
        }
        if left > 0 && self.stores.get(&queue).is_some_and(|store| store.sessions.is_some()) {
            left = self.run_sessions(now, queue, left, out);
        }
        self.forget_ids(now, queue, left, out)
    }

    /// Some of what is due, at most `left` runs. What is not treated of them is to be put back.
    fn pop_due(&mut self, now: Timestamp, queue: QueueId, kind: Kind, left: u32) -> Vec<Run> {
        let mut due = Vec::new();
        let waits = matches!(kind, Kind::Expiry) && self.stores.get(&queue).is_some_and(|s| !s.expires_now());
        let Some(reminders) = self.reminders(queue, kind).filter(|_| !waits) else { return due };
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(TOGETHER);
        while due.len() < most
            && let Some(run) = reminders.pop_due(now)
        {
            due.reserve_exact(if due.is_empty() { most } else { 0 });
            due.push(run);
        }
        due
    }

    /// Looks at the slots of what is due, all at once, and has the records fetched that will be read. Messages come due
    /// in another order than they came in, so among a million each has memory of its own that is far away: the processor
    /// waits for several of them side by side hardly longer than for one. How many it takes side by side is limited by
    /// the steps in between, so first it is found out where they lie, and then they are looked at in a loop without any.
    fn approach(&self, queue: QueueId, kind: Kind, due: &[Run], out: &mut impl Output) {
        let Some(store) = self.stores.get(&queue).filter(|_| due.len() > 1) else { return };
        let mut slots = [None; TOGETHER];
        store.slots.look_for(due.iter().map(|run| run.first), &mut slots);
        let mut records = [(Position::default(), 0); TOGETHER];
        // A slot may lie on two lines of memory: its state is on the last.
        let mut states = 0;
        for (record, slot) in records.iter_mut().zip(slots.iter().flatten()) {
            *record = (slot.position, slot.length);
            states ^= slot.state as u8;
        }
        black_box(states);
        let found = slots.iter().flatten().count();
        let records = black_box(&records).get(..found).unwrap_or_default();
        let are_read = match kind {
            Kind::Lock => false,
            Kind::Expiry => self.keeps_expired(queue),
            Kind::Schedule => true,
        };
        if are_read {
            out.announce(records);
        }
    }

    fn reminders(&mut self, queue: QueueId, kind: Kind) -> Option<&mut Deadlines> {
        let store = self.stores.get_mut(&queue)?;
        Some(match kind {
            Kind::Lock => &mut store.locks,
            Kind::Expiry => &mut store.expiries,
            Kind::Schedule => &mut store.schedule,
        })
    }

    /// Treats one run, until `left` is used up; says how much of that it used: one for each message, and more for a
    /// large one that had to be copied.
    fn run(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        kind: Kind,
        run: Run,
        left: u32,
        out: &mut impl Output,
    ) -> u32 {
        let mut touched: u32 = 0;
        let mut from = run.first;
        while let Some(store) = self.stores.get(&queue)
            && let Some(sequence) = store.slots.next_before(from, run.sequences().end)
        {
            if touched >= left {
                if let Some(reminders) = self.reminders(queue, kind) {
                    reminders.put_back(run, sequence);
                }
                return touched;
            }
            from = sequence + 1;
            let Some(slot) = store.slots.get(sequence) else { continue };
            let length = slot.length;
            match kind {
                Kind::Lock if slot.is_lock_over(now) => {
                    self.was_used_until(queue, slot.until);
                    self.give_back(now, queue, sequence, true, Addition::default(), out);
                }
                Kind::Expiry if slot.state == State::Active && !slot.is_locked() && slot.is_expired(now) => {
                    self.expire(queue, sequence, Addition::default(), out);
                }
                Kind::Schedule if slot.state == State::Scheduled && slot.until <= now => {
                    self.activate(now, queue, sequence, out);
                }
                _ => continue,
            }
            let moved = self.stores.get(&queue).is_none_or(|store| store.slots.get(sequence).is_none());
            // A topic's message has at most a copy for each rule.
            let copies = u32::try_from(self.rules.count(queue)).unwrap_or(u32::MAX);
            let copies = copies.saturating_add(self.changes_cost());
            touched = touched.saturating_add(cost(moved, length)).saturating_add(copies);
        }
        touched
    }
}

/// What treating a message counts, when it was perhaps moved, with the bytes that it has.
pub(super) fn cost(moved: bool, length: u32) -> u32 {
    1 + if moved { length / BYTES_LIKE_A_MESSAGE } else { 0 }
}

impl Core {
    /// Whether a message may not be handed out: its time is over, and its deadline will treat it.
    pub(super) fn is_over(slot: &Slot, is_dead_letter: bool, now: Timestamp) -> bool {
        !is_dead_letter && slot.is_expired(now)
    }
}
