//! Bytes of one namespace that wait for the disk.
//!
//! Invariant: the bytes of a round count until the disk has confirmed all records of that round.

use std::collections::VecDeque;

use broker_log::Position;

/// The account of one namespace.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenBytes {
    bytes: u64,
    /// Ends of the rounds in which it appended, and the bytes of each.
    rounds: VecDeque<(Position, u64)>,
}

impl UnwrittenBytes {
    /// A round has ended at `end`, and the namespace has appended so much in it.
    pub(crate) fn add(&mut self, end: Position, bytes: u64) {
        if bytes > 0 {
            self.bytes += bytes;
            self.rounds.push_back((end, bytes));
        }
    }

    /// The disk has confirmed everything before `durable`.
    pub(crate) fn settle(&mut self, durable: Position) {
        while let Some((end, bytes)) = self.rounds.front().copied()
            && end <= durable
        {
            self.bytes -= bytes;
            self.rounds.pop_front();
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_their_round_is_confirmed_whole() {
        let mut unwritten = UnwrittenBytes::default();
        unwritten.add(Position(100), 40);
        unwritten.add(Position(200), 0);
        unwritten.add(Position(300), 50);
        assert_eq!(unwritten.bytes(), 90);
        unwritten.settle(Position(99));
        assert_eq!(unwritten.bytes(), 90);
        unwritten.settle(Position(100));
        assert_eq!(unwritten.bytes(), 50);
        unwritten.settle(Position(1_000));
        assert_eq!(unwritten.bytes(), 0);
    }
}
