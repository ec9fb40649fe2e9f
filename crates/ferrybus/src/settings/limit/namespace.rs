//! The rows of the limits of one namespace, in the order of the reference file.
//!
//! Invariant: each [`NamespaceLimit`] has one row, whose key is its key.

use broker_core::{NAMESPACE_WEIGHTS, NamespaceLimit};

use super::{
    Field, Limit, Unit,
    table::{GIB, MIB},
};
use crate::size_and_duration::Bytes;

/// A namespace has its numbers itself, and by default none.
const NO_FIELD: Field = Field { get: |_| None, set: |_, _| {} };

/// The limits of a namespace.
pub(crate) static NAMESPACE_LIMITS: [Limit; NamespaceLimit::ALL.len()] = [
    Limit::new(
        "namespace.max_entities",
        Unit::Count("entities"),
        NamespaceLimit::Entities.range(),
        NO_FIELD,
        "Queues, topics and subscriptions together, {range}.",
    )
    .like(1_000),
    Limit::new(
        "namespace.max_bytes",
        Unit::Bytes,
        NamespaceLimit::Bytes.range(),
        NO_FIELD,
        "Bytes that are stored: messages with their properties, definitions of entities, states of sessions and remembered message \
         ids, {range}. Sends beyond it are refused.",
    )
    .like(10 * GIB),
    Limit::new(
        "namespace.max_connections",
        Unit::Count("connections"),
        NamespaceLimit::Connections.range(),
        NO_FIELD,
        "Connections at the same time, {range}.",
    )
    .like(500),
    Limit::new(
        "namespace.max_in_flight_bytes",
        Unit::Bytes,
        NamespaceLimit::InFlightBytes.range(),
        NO_FIELD,
        "Memory for what its clients have sent and the broker has not got to, {range}. While it is used up its connections are not \
         read; nothing is refused or lost.",
    )
    .like(64 * MIB),
    Limit::new(
        "namespace.max_remembered_ids",
        Unit::Count("message ids"),
        NamespaceLimit::RememberedIds.range(),
        NO_FIELD,
        "Message-ids that its entities with duplicate detection remember together. Sends that would exceed it are answered \"server \
         busy\".",
    )
    .like(1_000_000),
    Limit::new(
        "namespace.max_sends_per_second",
        Unit::Count("messages"),
        NamespaceLimit::SendsPerSecond.range(),
        NO_FIELD,
        "Messages that its clients may send in a second, {range}.",
    )
    .like(5_000),
];

/// Weight of a namespace.
pub(crate) static NAMESPACE_WEIGHT: Limit = Limit::new(
    "namespace.weight",
    Unit::Count("shares"),
    *NAMESPACE_WEIGHTS.start() as u64..=*NAMESPACE_WEIGHTS.end() as u64,
    NO_FIELD,
    "Its share of the shard's work where several namespaces want more than there is, {range}.",
)
.like(1);

/// The row of this limit of a namespace.
pub(crate) fn namespace_limit(limit: NamespaceLimit) -> &'static Limit {
    let row = NAMESPACE_LIMITS.iter().find(|row| row.path().1 == limit.key());
    row.expect("each limit of a namespace has a row")
}

/// The number of a limit as an argument has it; `None`: no limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LimitNumber(pub(crate) Option<u64>);

impl LimitNumber {
    /// A number in the range of this limit.
    pub(crate) fn read(limit: &Limit, text: &str) -> Result<Self, String> {
        let number = match limit.unit {
            Unit::Bytes => text.parse::<Bytes>().map(|bytes| bytes.0).map_err(|error| error.to_string())?,
            _ => text.parse().map_err(|_| "expected a number".to_owned())?,
        };
        if limit.contains(number) {
            Ok(Self(Some(number)))
        } else {
            Err(format!("expected {}", limit.expected()))
        }
    }

    /// The same, or `none`.
    pub(crate) fn read_or_none(limit: &Limit, text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self(None)) } else { Self::read(limit, text) }
    }
}
