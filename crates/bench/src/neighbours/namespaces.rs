//! The namespaces of the scenario, and the messages that go through them.
//!
//! Invariant: each measured namespace has a goal of its own.

/// Messages a second in the measured namespace, and bytes of each.
pub(super) const RATE: u32 = 1_000;
pub(super) const SIZE: usize = 1 << 10;
/// Bytes of a message in the full namespace.
pub(super) const FULL_SIZE: usize = 64 << 10;
/// Shard of the full namespace.
pub(super) const FULL_SHARD: u16 = 0;

/// The measured namespaces: the one in the shard of the full one, and the one in the other shard, each with the largest
/// allowed ratio of a send's 99th percentile to that of the same namespace alone.
pub(super) const MEASURED: [MeasuredNamespace; 2] = [
    MeasuredNamespace { name: "quiet", shard: FULL_SHARD, place: "the same shard", goal: 3.0 },
    MeasuredNamespace { name: "apart", shard: 1, place: "another shard", goal: 2.0 },
];
/// A namespace in which sends are measured.
pub(super) struct MeasuredNamespace {
    pub(super) name: &'static str,
    pub(super) shard: u16,
    pub(super) place: &'static str,
    pub(super) goal: f64,
}
