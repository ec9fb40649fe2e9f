//! Receiver of the sequence numbers that stored messages get.
//!
//! Invariant: it gets one number for each message of a send, in order; zero for a duplicate that was dropped.

use crate::SequenceNumber;

/// Receiver of the numbers that messages get.
pub(crate) enum SequenceSink<'a> {
    Discard,
    Collect(&'a mut Vec<SequenceNumber>),
}

impl SequenceSink<'_> {
    pub(crate) fn push(&mut self, number: u64) {
        if let Self::Collect(numbers) = self {
            numbers.push(SequenceNumber(number));
        }
    }
}
