//! Turns of a namespace that always has more to deliver.
//!
//! Invariant: what was read from the disk for a delivery that nobody wants any more is kept for a bounded number of turns.

/// Turns in a row after which the namespace had more to deliver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusyTurns(u32);

impl BusyTurns {
    /// A turn is over. Says whether the windows that were read for the namespace need not be kept for it any longer: it has
    /// delivered all that it could, or was busy for so long that it has come to each of them. A delivery that still wants one
    /// asks for it again.
    pub(crate) fn end_turn(&mut self, has_more: bool) -> bool {
        self.0 = if has_more { self.0 + 1 } else { 0 };
        let is_over = !has_more || self.0 >= BUSY_TURNS_MAX;
        if is_over {
            self.0 = 0;
        }
        is_over
    }
}

/// A turn delivers from some stores; so many turns come to thousands.
const BUSY_TURNS_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_kept_while_there_is_more_to_deliver_and_no_longer_than_some_turns() {
        let mut turns = BusyTurns::default();
        assert!(turns.end_turn(false));
        for _ in 0..3 {
            for turn in 1..BUSY_TURNS_MAX {
                assert!(!turns.end_turn(true), "{turn}");
            }
            assert!(turns.end_turn(true));
        }
        assert!(!turns.end_turn(true));
        assert!(turns.end_turn(false));
    }
}
