//! Bytes that a namespace uses.
//!
//! Invariant: the live bytes are the lengths of the records that its core and its definition have, and no others.

use broker_core::NamespaceLimits;

/// The account of one namespace.
#[derive(Debug, Default)]
pub(crate) struct NamespaceUsage {
    pub(crate) limits: NamespaceLimits,
    /// Bytes of its records that are alive.
    live_bytes: u64,
    /// Bytes that it appended, and bytes of its large answers, since the round began.
    of_round: u64,
    /// Bytes that it ever appended in this process.
    appended: u64,
}

impl NamespaceUsage {
    /// A namespace with these limits that has recovered so many bytes.
    pub(crate) fn new(limits: NamespaceLimits, live_bytes: u64) -> Self {
        Self { limits, live_bytes, of_round: 0, appended: 0 }
    }

    /// A record was appended.
    #[inline]
    pub(crate) fn append(&mut self, length: u32) {
        let bytes = u64::from(length);
        self.live_bytes += bytes;
        self.of_round += bytes;
        self.appended += bytes;
    }

    /// An answer is much larger than its question.
    #[inline]
    pub(crate) fn answer(&mut self, bytes: u64) {
        self.of_round += bytes;
    }

    /// A record is dead.
    #[inline]
    pub(crate) fn release(&mut self, length: u32) {
        self.live_bytes = self.live_bytes.saturating_sub(length.into());
    }

    /// A round begins.
    pub(crate) fn begin_round(&mut self) {
        self.of_round = 0;
    }

    pub(crate) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) const fn of_round(&self) -> u64 {
        self.of_round
    }

    pub(crate) const fn appended(&self) -> u64 {
        self.appended
    }
}
