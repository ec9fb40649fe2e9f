//! Work that is due: locks end, messages expire, scheduled messages are activated.
//!
//! Invariant: nothing is polled: one table has the next deadline of each store, and the work for one store is bounded.

use std::hint::black_box;

use crate::{
    Output, Position, QueueId, Timestamp,
    call::{Cx, cost},
    disk_waits::DiskWaiter,
    namespace::Namespace,
    publish::publisher::Publisher,
    record::OpenRecord,
    session::holders::SessionHolders,
    settle::{dead_letter::DeadLetters, disposer::Disposer, property_patch::PropertyPatch},
    store::{
        deadlines::{Deadlines, Run},
        load_message::Unread,
        slot::{Slot, State},
        slots::PREFETCH_MAX,
    },
};

/// Purpose of a timer.
#[derive(Clone, Copy, Debug)]
enum DueKind {
    Lock,
    Expiry,
    Schedule,
}

/// Does what is due in one store.
#[derive(Debug)]
pub(crate) struct DueWork<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> DueWork<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl DueWork<'_> {
    pub(crate) fn handle_due(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, mut left: u32) -> u32 {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else {
            self.state.messages.entities.agenda.drop_first_timer();
            return left;
        };
        store.due_reads.begin();
        // The caller arms the store again after the work.
        self.state.messages.entities.agenda.disarm(store);
        for kind in [DueKind::Lock, DueKind::Expiry, DueKind::Schedule] {
            while left > 0 && !self.waits(queue) {
                let due = self.pop_due(cx.now, queue, kind, left);
                if due.is_empty() {
                    break;
                }
                self.prefetch(queue, kind, &due, cx.out);
                for run in due {
                    left = left.saturating_sub(1 + self.run(cx, queue, kind, run, left));
                }
            }
        }
        if left > 0 && self.state.store(queue).is_some_and(|store| store.sessions.is_some()) {
            left = SessionHolders::of(self.state).run_sessions(cx, queue, left);
        }
        self.state.messages.forget_ids(cx, queue, left)
    }

    /// Whether the store waits for the disk.
    fn waits(&self, queue: QueueId) -> bool {
        self.state.store(queue).is_some_and(|store| store.due_work_waits)
    }

    /// Takes at most `left` due runs. The caller puts back the part of a run that it does not handle.
    fn pop_due(&mut self, now: Timestamp, queue: QueueId, kind: DueKind, left: u32) -> Vec<Run> {
        let mut due = Vec::new();
        let Some(deadlines) = self.deadlines(queue, kind) else { return due };
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PREFETCH_MAX);
        while due.len() < most
            && let Some(run) = deadlines.pop_due(now)
        {
            due.reserve_exact(if due.is_empty() { most } else { 0 });
            due.push(run);
        }
        due
    }

    /// Prefetches the slots of due messages, and the records that will be read. Messages come due in another order than
    /// they arrived, so among a million almost every slot is a cache miss. The processor waits for several misses at
    /// once hardly longer than for one, but only if few instructions lie between the loads: so the addresses are
    /// computed first, and a loop without other work loads them.
    fn prefetch(&self, queue: QueueId, kind: DueKind, due: &[Run], out: &mut impl Output) {
        let Some(store) = self.state.store(queue).filter(|_| due.len() > 1) else {
            return;
        };
        let mut slots = [None; PREFETCH_MAX];
        store.slots.prefetch(due.iter().map(|run| run.first), &mut slots);
        let mut records = [(Position::default(), 0); PREFETCH_MAX];
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
            DueKind::Lock => false,
            DueKind::Expiry => self.state.messages.entities.keeps_expired(queue),
            DueKind::Schedule => true,
        };
        if are_read {
            out.prefetch(records);
        }
    }

    fn deadlines(&mut self, queue: QueueId, kind: DueKind) -> Option<&mut Deadlines> {
        let store = self.state.store_mut(queue)?;
        Some(match kind {
            DueKind::Lock => &mut store.timers.locks,
            DueKind::Expiry => &mut store.timers.expiries,
            DueKind::Schedule => &mut store.timers.schedule,
        })
    }

    /// Handles one run, until `left` is used up; returns how much of that it used: one for each message, and more for a
    /// large one that had to be copied.
    fn run(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        kind: DueKind,
        run: Run,
        left: u32,
    ) -> u32 {
        let mut touched: u32 = 0;
        let mut from = run.first;
        while let Some(store) = self.state.store(queue)
            && let Some(sequence) = store.slots.next_before(from, run.sequences().end)
        {
            let slot = store.slots.get(sequence).copied();
            from = sequence + 1;
            let Some(slot) = slot.filter(|slot| kind.is_due(slot, cx.now)) else { continue };
            let record = if touched < left { self.read(cx, queue, sequence, kind) } else { Err(PutOff) };
            let Ok(record) = record else {
                if let Some(deadlines) = self.deadlines(queue, kind) {
                    deadlines.put_back(run, sequence);
                }
                return touched;
            };
            match kind {
                DueKind::Lock => {
                    self.state.messages.entities.was_used_until(queue, slot.lock_time().unwrap_or(cx.now));
                    Disposer::of(&mut self.state.messages).return_message(
                        cx,
                        queue,
                        sequence,
                        true,
                        PropertyPatch::default(),
                    );
                }
                DueKind::Expiry => {
                    let patch = PropertyPatch { record, ..PropertyPatch::default() };
                    DeadLetters::of(&mut self.state.messages).expire(cx, queue, sequence, patch);
                }
                DueKind::Schedule => {
                    Publisher::of(&mut self.state.messages).activate(cx, queue, sequence, record);
                }
            }
            let moved = self.state.store(queue).is_none_or(|store| store.slots.get(sequence).is_none());
            // A topic's message has at most a copy for each rule.
            let copies = u32::try_from(self.state.messages.rules.count(queue)).unwrap_or(u32::MAX);
            let copies = copies.saturating_add(cx.changes_cost());
            touched = touched.saturating_add(cost(moved, slot.length)).saturating_add(copies);
        }
        touched
    }

    /// Reads a message that is moved now; `None`: it stays, is removed, or cannot be read.
    fn read(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        kind: DueKind,
    ) -> Result<Option<OpenRecord>, PutOff> {
        let is_moved = match kind {
            DueKind::Lock => {
                Disposer::of(&mut self.state.messages).becomes_dead_letter(cx.now, queue, sequence, true)
            }
            DueKind::Expiry => self.state.messages.entities.keeps_expired(queue),
            DueKind::Schedule => true,
        };
        let Some(store) = self.state.store(queue).filter(|_| is_moved) else { return Ok(None) };
        if store.due_work_waits {
            return Err(PutOff);
        }
        let disk = store.due_reads.disk_access();
        let read = self.state.messages.entities.read_message(queue, sequence, disk, cx.out);
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return Ok(None) };
        match read {
            Ok(record) => {
                store.due_reads.found();
                Ok(Some(record))
            }
            Err(Unread::Pending(read)) => {
                store.due_work_waits = true;
                self.state.messages.disk_waits.add(read, DiskWaiter::DueWork(queue));
                Err(PutOff)
            }
            Err(Unread::Damaged(_)) => Ok(None),
        }
    }
}

/// A message whose due work is put off to a later call, because this one has done all that it may, or because the message is read from
/// the disk first.
struct PutOff;

impl DueKind {
    /// Whether it is time for that.
    fn is_due(self, slot: &Slot, now: Timestamp) -> bool {
        match self {
            Self::Lock => slot.is_lock_over(now),
            Self::Expiry => slot.state == State::Active && !slot.is_locked() && slot.is_expired(now),
            Self::Schedule => slot.due().is_some_and(|due| due <= now),
        }
    }
}
