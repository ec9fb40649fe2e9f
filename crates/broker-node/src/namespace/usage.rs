//! Bytes and work that a namespace uses.
//!
//! Invariant: the live bytes are the lengths of the records that its core and its definition have, and no others.

use broker_core::{NamespaceLimits, Work};
use broker_log::Position;

use super::unwritten::UnwrittenBytes;

/// The account of one namespace.
#[derive(Debug, Default)]
pub(crate) struct NamespaceUsage {
    pub(crate) limits: NamespaceLimits,
    /// Bytes of its records that are alive.
    live_bytes: u64,
    /// It has had work in this round.
    in_round: bool,
    /// Bytes that it appended, and bytes of its large answers, since the round began.
    of_round: u64,
    /// Work that was done for it since the round began.
    work_of_round: Work,
    /// Bytes that it ever appended in this process.
    appended: u64,
    /// The same at the end of the last round in which it had work.
    appended_before: u64,
    unwritten: UnwrittenBytes,
    /// Work of all rounds that have ended.
    work_before: Work,
    background_work: Work,
}

impl NamespaceUsage {
    /// A namespace with these limits that has recovered so many bytes.
    pub(crate) fn new(limits: NamespaceLimits, live_bytes: u64) -> Self {
        Self { limits, live_bytes, ..Self::default() }
    }

    /// A record was appended.
    #[inline]
    pub(crate) fn append(&mut self, length: u32) {
        let bytes = u64::from(length);
        self.live_bytes += bytes;
        self.of_round += bytes;
        self.appended += bytes;
        self.work_of_round += Work::of_bytes(bytes);
    }

    /// An answer is much larger than its question.
    #[inline]
    pub(crate) fn answer(&mut self, bytes: u64) {
        self.of_round += bytes;
    }

    /// So much work was done.
    #[inline]
    pub(crate) fn charge(&mut self, work: Work) {
        self.work_of_round += work;
    }

    /// All work since `before` in this round was asked for by no client.
    pub(crate) fn note_background(&mut self, before: Work) {
        self.background_work += Work(self.work_of_round.0.saturating_sub(before.0));
    }

    /// A record is dead.
    #[inline]
    pub(crate) fn release(&mut self, length: u32) {
        self.live_bytes = self.live_bytes.saturating_sub(length.into());
    }

    /// It has work in this round. Whether that is the first of the round.
    pub(crate) fn enter_round(&mut self) -> bool {
        !std::mem::replace(&mut self.in_round, true)
    }

    /// A round begins.
    pub(crate) fn begin_round(&mut self) {
        self.in_round = false;
        self.of_round = 0;
        self.work_before += std::mem::take(&mut self.work_of_round);
    }

    /// A round ends at `end`.
    pub(crate) fn end_round(&mut self, end: Position) {
        let before = std::mem::replace(&mut self.appended_before, self.appended);
        self.unwritten.add(end, self.appended - before);
    }

    /// The same where nobody shares the disk.
    pub(crate) fn end_round_alone(&mut self) {
        self.appended_before = self.appended;
        self.unwritten = UnwrittenBytes::default();
    }

    /// The disk has confirmed everything before `durable`.
    pub(crate) fn settle(&mut self, durable: Position) {
        self.unwritten.settle(durable);
    }

    /// Bytes that wait for the disk, those of this round among them.
    #[inline]
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.unwritten.bytes() + (self.appended - self.appended_before)
    }

    pub(crate) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) const fn of_round(&self) -> u64 {
        self.of_round
    }

    pub(crate) const fn work_of_round(&self) -> Work {
        self.work_of_round
    }

    pub(crate) const fn appended(&self) -> u64 {
        self.appended
    }

    /// Work that was ever done for it.
    pub(crate) fn work(&self) -> Work {
        self.work_before + self.work_of_round
    }

    pub(crate) const fn background_work(&self) -> Work {
        self.background_work
    }
}
