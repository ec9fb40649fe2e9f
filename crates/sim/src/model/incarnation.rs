//! Incarnations of an entity that is deleted and created again under one name.
//!
//! Invariant: a range of incarnations holds every incarnation that a client may have met.

/// Number of deletions of an entity before this incarnation of it was created.
pub(crate) type Incarnation = u32;

/// Requested and confirmed deletions of one entity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeletionState {
    /// Requested deletions: an upper bound.
    pub(super) requested: Incarnation,
    /// Confirmed deletions: a lower bound.
    pub(super) done: Incarnation,
    /// It is unknown whether the entity exists.
    pub(super) missing: bool,
}

/// Range of incarnations of one entity. It is a range because a client does not see when a requested deletion happens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Incarnations {
    /// Oldest possible incarnation.
    pub(crate) first: Incarnation,
    /// Newest possible incarnation; `None`: unbounded.
    pub(crate) last: Option<Incarnation>,
}

impl Incarnations {
    /// Incarnations that both ranges hold; `None` where there is none.
    pub(super) fn intersection(self, other: Self) -> Option<Self> {
        let first = self.first.max(other.first);
        let last = self.last.into_iter().chain(other.last).min();
        last.is_none_or(|last| first <= last).then_some(Self { first, last })
    }

    /// The incarnation, where the range holds one only.
    pub(super) fn single(self) -> Option<Incarnation> {
        self.last.filter(|last| *last == self.first)
    }
}

/// Properties of the path of a message that decide which incarnation it can reach.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendPath {
    /// Incarnations that a message can reach that is sent on a link.
    pub(crate) link: Option<Incarnations>,
    /// The message may arrive after the broker has accepted it.
    pub(crate) late: bool,
    /// Copies are made for the subscriptions that exist at the time.
    pub(crate) copies: bool,
}
