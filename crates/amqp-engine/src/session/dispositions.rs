//! The dispositions a session has to send.
//!
//! Invariant: what is written says of each delivery what was pushed last, and consecutive equal
//! ones are one frame.

use amqp_codec::frame::{FrameKind, write_frame};
use amqp_codec::performative::{DeliveryState, Disposition, Error};
use amqp_codec::types::Role;
use bytes::BytesMut;

use crate::output::shorten;

/// Runs of deliveries of equal state, in the order they were pushed.
#[derive(Debug, Default)]
pub(crate) struct Dispositions {
    runs: Vec<Disposition>,
    /// About what the frames of all runs take, in bytes.
    bytes: usize,
}

/// About what a run's frame takes, in bytes, without what its state says in words.
const RUN_BYTES: usize = 32;

/// Room for this many runs is kept.
const KEEP_RUNS: usize = 256;

impl Dispositions {
    /// Adds deliveries `first` to `last`. True when there was none before.
    #[inline]
    pub(crate) fn push(
        &mut self,
        role: Role,
        (first, last): (u32, u32),
        settled: bool,
        state: Option<DeliveryState>,
    ) -> bool {
        if let Some(run) = self.runs.last_mut()
            && run.role == role
            && run.settled == settled
            && run.last.unwrap_or(run.first).wrapping_add(1) == first
            && run.state == state
        {
            run.last = Some(last);
            return false;
        }
        let was_empty = self.runs.is_empty();
        self.bytes += RUN_BYTES + state.as_ref().map_or(0, words_of);
        self.runs.push(Disposition { role, first, last: Some(last), settled, state, batchable: false });
        was_empty
    }

    /// About what the frames of all of them take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back room that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.runs.shrink_to_fit();
    }

    /// Appends all of them to `out` as frames of at most `max_frame` bytes.
    #[inline]
    pub(crate) fn write(&mut self, channel: u16, max_frame: u32, out: &mut BytesMut) {
        for run in &self.runs {
            let start = out.len();
            write_frame(out, FrameKind::Amqp, channel, |out| run.encode(out));
            if out.len() - start > max_frame as usize {
                out.truncate(start);
                write_shortened(run, channel, out);
            }
        }
        self.bytes = 0;
        if self.runs.capacity() > KEEP_RUNS {
            self.runs = Vec::new();
        } else {
            self.runs.clear();
        }
    }
}

/// Bytes of the words in a state.
fn words_of(state: &DeliveryState) -> usize {
    match state {
        DeliveryState::Rejected(Some(error)) => RUN_BYTES + error.description.as_ref().map_or(0, String::len),
        _ => 0,
    }
}

/// Writes a disposition whose state is too long for the peer's frames, with the state cut to what
/// it cannot do without.
#[cold]
fn write_shortened(run: &Disposition, channel: u16, out: &mut BytesMut) {
    let short = Disposition { state: run.state.as_ref().map(shorten_state), ..run.clone() };
    write_frame(out, FrameKind::Amqp, channel, |out| short.encode(out));
}

fn shorten_state(state: &DeliveryState) -> DeliveryState {
    match state {
        DeliveryState::Rejected(error) => DeliveryState::Rejected(error.as_deref().map(short_box)),
        DeliveryState::Modified(modified) => {
            let mut modified = modified.clone();
            modified.message_annotations = None;
            DeliveryState::Modified(modified)
        }
        DeliveryState::Transactional { txn_id, outcome } => DeliveryState::Transactional {
            txn_id: txn_id.clone(),
            outcome: outcome.as_deref().map(|outcome| Box::new(shorten_state(outcome))),
        },
        other => other.clone(),
    }
}

fn short_box(error: &Error) -> Box<Error> {
    Box::new(shorten(error))
}

#[cfg(test)]
mod tests;
