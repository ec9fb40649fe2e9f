//! Output coalescing: consecutive answers become one effect, consecutive removals one record.
//!
//! Invariant: removals are recorded before the answers that depend on them are sent; nothing stays here after a
//! public call of the core has ended. One awaited removal makes the whole record awaited.

use std::mem;

use crate::{
    ClientId, Effect, Output, QueueId, Ticket,
    record::{REMOVED_RUNS_MAX, encode_removed},
};

/// Answers that come in runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Published,
    Settled,
}

#[derive(Clone, Copy, Debug)]
struct Answers {
    client: ClientId,
    answer: Answer,
    first: Ticket,
    last: Ticket,
}

/// Whether effects wait for the record of a removal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Removal {
    /// An effect tells of it, or must not be sent without it.
    Awaited,
    /// Its receiver asked for no answer: if a crash comes before the record is durable, the message comes again.
    Unawaited,
}

/// Replies that are being coalesced.
#[derive(Debug, Default)]
pub(crate) struct OutputCoalescer {
    answers: Option<Answers>,
    removed_from: Option<QueueId>,
    removed: Vec<(u64, u32)>,
    awaited: bool,
    record: Vec<u8>,
}

impl OutputCoalescer {
    /// Answers one ticket.
    pub(crate) fn answer(&mut self, client: ClientId, answer: Answer, ticket: Ticket, out: &mut impl Output) {
        if let Some(run) = &mut self.answers {
            if run.client == client && run.answer == answer && Some(ticket.0) == run.last.0.checked_add(1) {
                run.last = ticket;
                return;
            }
            self.flush(out);
        }
        self.answers = Some(Answers { client, answer, first: ticket, last: ticket });
    }

    /// Records the removal of a message.
    pub(crate) fn removed(&mut self, queue: QueueId, sequence: u64, removal: Removal, out: &mut impl Output) {
        if self.removed_from != Some(queue) || self.removed.len() == REMOVED_RUNS_MAX {
            self.flush_removed(out);
            self.removed_from = Some(queue);
        }
        self.awaited |= removal == Removal::Awaited;
        match self.removed.last_mut() {
            Some((first, count)) if *count < u32::MAX && *first + u64::from(*count) == sequence => {
                *count += 1;
            }
            _ => self.removed.push((sequence, 1)),
        }
    }

    /// Says anything else, after what was gathered.
    pub(crate) fn effect(&mut self, client: ClientId, effect: Effect, out: &mut impl Output) {
        self.flush(out);
        out.effect(client, effect);
    }

    /// Writes the removals.
    pub(crate) fn flush_removed(&mut self, out: &mut impl Output) {
        if let Some(queue) = self.removed_from.take().filter(|_| !self.removed.is_empty()) {
            encode_removed(&mut self.record, queue, &self.removed);
            let (position, length) = if mem::take(&mut self.awaited) {
                out.record(&self.record, &[])
            } else {
                out.record_unawaited(&self.record)
            };
            // Messages lie before their removal, and the journal drops the oldest segment first: compaction need not
            // keep this record.
            out.release(position, length);
            self.removed.clear();
        }
    }

    /// Writes the removals and gives the answers.
    pub(crate) fn flush(&mut self, out: &mut impl Output) {
        self.flush_removed(out);
        if let Some(Answers { client, answer, first, last }) = self.answers.take() {
            let effect = match answer {
                Answer::Published => Effect::Published { first, last },
                Answer::Settled => Effect::Settled { first, last },
            };
            out.effect(client, effect);
        }
    }
}
