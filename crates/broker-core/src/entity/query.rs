//! Queries of entities.
//!
//! Invariant: the answer to every query has a bound.

use crate::{EntityKind, NameScope};

/// Which entities to show. At most 1,000 are shown at once. Dynamic nodes are shown by their name alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntityQuery {
    /// The one of this name, if there is one.
    One { name: Box<str> },
    /// The queues, or the topics, in the order of their names in lower case.
    Kind {
        kind: EntityKind,
        /// Which of them.
        names: NameScope,
        /// With which to begin.
        start: PageStart,
        /// Most to list.
        top: u64,
    },
    /// Those of all kinds, in the order of their names in lower case.
    All {
        /// The name, in lower case, behind which to begin; empty: with the first.
        after: Box<str>,
        /// Most to list.
        top: u64,
    },
    /// The subscriptions of a topic, in the order of their names in lower case.
    Subscriptions {
        topic: Box<str>,
        /// With which to begin.
        start: PageStart,
        /// Most to list.
        top: u64,
    },
}

/// Start of a page in a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PageStart {
    /// So many are left out in front.
    Skip(u64),
    /// With the first entity behind this name: entities that are created or deleted between two pages shift none of the
    /// others.
    Behind(Box<str>),
}
