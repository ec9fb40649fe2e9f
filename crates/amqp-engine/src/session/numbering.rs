//! The ids of deliveries we send: as the layer above knows them, and as the wire has them.
//!
//! Invariant: ids on the wire run without gaps, and both directions of the translation undo each
//! other for every delivery that was sent and not forgotten.
//!
//! An id is given when a delivery is handed over. When its link goes, or its credit, before it is
//! sent, the deliveries behind it move up: some peers end a session whose ids have gaps. From then
//! on the two kinds of id differ. What is known of ids that were dropped goes when nobody can name
//! the deliveries before them any more.

use crate::config::MAX_ID_GAPS;
use crate::ids::serial_distance;

/// Gives ids and translates them.
#[derive(Debug)]
pub(crate) struct Numbering {
    /// The id of the next delivery to be handed over.
    next_local: u32,
    /// The id of the next delivery to be sent.
    next_wire: u32,
    /// Number of ids that were sent and are not forgotten, up to 2^31 - 1: older ids have no meaning.
    sent: u32,
    /// Number of forgotten ids that were never sent.
    forgotten: u32,
    /// Runs of other ids that were handed over and never sent, in order.
    gaps: Vec<Gap>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Gap {
    start: u32,
    len: u32,
}

impl Gap {
    const fn end(self) -> u32 {
        self.start.wrapping_add(self.len)
    }
}

/// Too many runs of ids were never sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TooManyGaps;

impl Numbering {
    pub(crate) const fn new(first: u32) -> Self {
        Self { next_local: first, next_wire: first, sent: 0, forgotten: 0, gaps: Vec::new() }
    }

    /// The id of a delivery that is handed over.
    #[inline]
    pub(crate) const fn hand_over(&mut self) -> u32 {
        let id = self.next_local;
        self.next_local = id.wrapping_add(1);
        id
    }

    /// The id of the next delivery to be handed over.
    pub(crate) const fn next_local(&self) -> u32 {
        self.next_local
    }

    /// The wire's id of the next delivery that is sent.
    #[inline]
    fn send(&mut self) -> u32 {
        let id = self.next_wire;
        self.next_wire = id.wrapping_add(1);
        self.sent = (self.sent + 1).min(i32::MAX.cast_unsigned());
        id
    }

    /// The wire's id of the foremost waiting delivery: of the one begun, or of a new one.
    #[inline]
    pub(crate) fn wire_id_of_front(&mut self, begun: bool) -> u32 {
        if begun { self.next_wire.wrapping_sub(1) } else { self.send() }
    }

    /// A delivery that was handed over will never be sent.
    pub(crate) fn drop_unsent(&mut self, local: u32) -> Result<(), TooManyGaps> {
        let at = self.gaps.partition_point(|gap| serial_distance(gap.start, local) >= 0);
        if let Some(before) = at.checked_sub(1)
            && let Some(gap) = self.gaps.get_mut(before).filter(|gap| gap.end() == local)
        {
            gap.len += 1;
            self.join(before);
            return Ok(());
        }
        if self.gaps.len() >= MAX_ID_GAPS {
            return Err(TooManyGaps);
        }
        self.gaps.insert(at, Gap { start: local, len: 1 });
        self.join(at);
        Ok(())
    }

    /// Joins the gap at `at` with the one behind it, when they touch.
    fn join(&mut self, at: usize) {
        if let (Some(&gap), Some(&next)) = (self.gaps.get(at), self.gaps.get(at + 1))
            && gap.end() == next.start
        {
            self.gaps.remove(at + 1);
            if let Some(gap) = self.gaps.get_mut(at) {
                gap.len += next.len;
            }
        }
    }

    /// Nobody will name a delivery before this one any more, and none of them waits unsettled.
    pub(crate) fn forget_before(&mut self, oldest: u32) {
        let before = self.gaps.partition_point(|gap| serial_distance(gap.end(), oldest) >= 0);
        self.forgotten = self.gaps.drain(..before).fold(self.forgotten, |sum, gap| sum.wrapping_add(gap.len));
        let named = serial_distance(self.wire_of(oldest), self.next_wire);
        self.sent = self.sent.min(u32::try_from(named).unwrap_or(0));
    }

    /// The id that the layer above knows for one of the wire.
    #[inline]
    pub(crate) fn local_of(&self, wire: u32) -> u32 {
        let mut local = wire.wrapping_add(self.forgotten);
        for gap in &self.gaps {
            if serial_distance(gap.start, local) < 0 {
                break;
            }
            local = local.wrapping_add(gap.len);
        }
        local
    }

    /// The wire's id for one that the layer above knows and that was sent.
    #[inline]
    pub(crate) fn wire_of(&self, local: u32) -> u32 {
        let before = self.gaps.iter().take_while(|gap| serial_distance(gap.start, local) > 0);
        before.fold(local.wrapping_sub(self.forgotten), |wire, gap| wire.wrapping_sub(gap.len))
    }

    /// Cuts a range of the wire down to deliveries that were sent.
    #[inline]
    pub(crate) fn sent_part(&self, first: u32, last: u32) -> Option<(u32, u32)> {
        let newest = self.next_wire.wrapping_sub(1);
        let oldest = self.next_wire.wrapping_sub(self.sent);
        if self.sent == 0 || serial_distance(first, last) < 0 {
            return None;
        }
        let first = if serial_distance(first, oldest) > 0 { oldest } else { first };
        let last = if serial_distance(newest, last) > 0 { newest } else { last };
        (serial_distance(first, last) >= 0).then_some((first, last))
    }

    /// Whether a delivery has been sent, or begun, rather than waiting or dropped.
    pub(crate) fn is_sent(&self, local: u32) -> bool {
        let dropped = self
            .gaps
            .iter()
            .any(|gap| serial_distance(gap.start, local) >= 0 && serial_distance(gap.end(), local) < 0);
        let wire = self.wire_of(local);
        !dropped && self.sent_part(wire, wire).is_some()
    }
}

#[cfg(test)]
mod tests;
