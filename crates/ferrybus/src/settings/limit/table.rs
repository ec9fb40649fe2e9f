//! The rows of the table of limits, in the order of the reference file.
//!
//! Invariant: `ferrybus.toml` has each key once.

use broker_core::Profile;

use super::{Field, Limit, LimitField, Unit};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// One step is one batch of the journal, of less than 4 GiB; the errors of a topic's rules for a message that is due,
/// up to 1.5 KiB for each rule, come on top. At least a batch of 1 MiB, as clients make them, fits into a queue with
/// messages of any size.
const AT_ONCE: std::ops::RangeInclusive<u64> = 16 * MIB..=GIB;

/// The field of the configuration of the server that has this path.
macro_rules! field {
    ($($path:ident).+) => {
        Field {
            get: |config| LimitField::number(&config.$($path).+),
            set: |config, number| config.$($path).+ = LimitField::of(number),
        }
    };
}

/// Refused attempts in the audit log.
pub(crate) const REFUSED_ATTEMPTS: Limit = Limit::new(
    "log.refused_attempts_per_minute",
    Unit::Count("lines"),
    0..=60_000,
    field!(observe.refused_attempts_per_minute),
    "Refused attempts that the audit log tells in a minute, {range}: of those who are known, and as many of all others. The rest \
     is counted (docs/features/audit.md).",
);

/// Refusals in the log.
pub(crate) const REFUSALS: Limit = Limit::new(
    "log.refusals_per_minute",
    Unit::Count("lines"),
    0..=60_000,
    field!(observe.refusals_per_minute),
    "Refusals with a tracking id that are logged in a minute, {range}; the rest is logged at \"debug\".",
);

/// Entities in one scrape.
pub(crate) const METRICS_ENTITIES: Limit = Limit::new(
    "metrics.max_entities",
    Unit::Count("entities"),
    0..=1_000_000,
    field!(observe.max_entities),
    "Entities shown in one scrape, in order of name, {range}.",
);

/// Time between two looks at the files of TLS.
pub(crate) const TLS_CHECK_INTERVAL: Limit = Limit::new(
    "tls.check_interval",
    Unit::Time,
    SECOND..=HOUR,
    Field {
        get: |_| Some(10 * SECOND),
        // A reload takes it in too: it is part of the configuration of TLS.
        set: |_, _| {},
    },
    "How often the broker looks whether one of these files has changed, {range}. A change is taken in without a restart.",
);

/// Memory of the process.
pub(crate) const MAX_MEMORY: Limit = Limit::new(
    "limits.max_memory",
    Unit::BytesOrOff,
    64 * MIB..=16 * TIB,
    field!(memory.limit),
    "Memory of the process beyond which sends and new entities are refused while receives go on, {range}, or \"off\". Default: 80 % \
     of the memory limit of the control group in which the broker runs, as a container has one; else \"off\".",
)
.like(4 * GIB);

/// Shards of the process.
pub(crate) const SHARDS: Limit = Limit::new(
    "shards",
    Unit::Count("shards"),
    1..=64,
    field!(shards),
    "Shards, each with a journal and threads of its own, {range}. A namespace lives in one of them. It can be raised later; a shard \
     that has a journal is opened also where the number is lower.",
);

/// All limits of the file but those of namespaces.
pub(crate) static LIMITS: [Limit; 31] = [
    Limit::new(
        "limits.max_connections",
        Unit::Count("connections"),
        1..=1_000_000,
        field!(max_connections),
        "Connections at the same time, {range}.",
    )
    .in_profiles(&[(Profile::EMULATOR, 10)]),
    Limit::new(
        "limits.max_links_per_connection",
        Unit::Count("links"),
        2..=65_536,
        field!(core.max_links_per_client),
        "Links of one connection, {range}.",
    ),
    Limit::new(
        "limits.max_dynamic_nodes",
        Unit::Count("nodes"),
        0..=1_000_000,
        field!(max_dynamic_nodes),
        "Dynamic nodes of all connections together (docs/features/plain-amqp.md), {range}. They count as entities too.",
    ),
    Limit::new(
        "limits.max_dynamic_nodes_per_connection",
        Unit::Count("nodes"),
        0..=1_000_000,
        field!(max_dynamic_nodes_per_connection),
        "Dynamic nodes of one connection, {range}.",
    ),
    Limit::new(
        "limits.max_remembered_ids",
        Unit::Count("message ids"),
        0..=TIB,
        field!(core.max_history_ids),
        "Message-ids that all entities with duplicate detection remember together; each takes about 100 bytes of memory. Sends \
         that would exceed it are answered \"server busy\".",
    ),
    Limit::new(
        "limits.max_entities",
        Unit::Count("entities"),
        1..=1_000_000,
        field!(core.max_entities),
        "Queues, topics and subscriptions together, {range}.",
    )
    .in_profiles(&[(Profile::EMULATOR, 50)]),
    Limit::new(
        "limits.max_rules_per_topic",
        Unit::Count("rules"),
        1..=1_000_000,
        field!(core.max_rules_per_topic),
        "Rules of all subscriptions of a topic, {range}.",
    )
    .in_profiles(&[(Profile::EMULATOR, 1_000)]),
    Limit::new(
        "limits.max_receivers_per_entity",
        Unit::Count("receivers"),
        1..=1_000_000,
        field!(core.max_consumers_per_entity),
        "Receivers of one queue or subscription, {range}.",
    )
    .in_profiles(&[(Profile::EMULATOR, 200)]),
    Limit::new(
        "limits.max_transaction_messages",
        Unit::Count("messages"),
        1..=10_000,
        field!(core.max_transaction_messages),
        "Messages that a Service Bus client may send in one transaction, {range}. Those of other clients are bound by \
         `max_transaction_bytes` alone.",
    ),
    Limit::new(
        "limits.max_send_bytes",
        Unit::Bytes,
        AT_ONCE,
        field!(core.max_send_bytes),
        "Bytes that one send, or one transaction by its sends, may bring with all copies that topics make: {range}. A single \
         message to a queue fits in any case.",
    ),
    Limit::new(
        "limits.max_transaction_bytes",
        Unit::Bytes,
        AT_ONCE,
        field!(core.max_transaction_bytes),
        "Bytes that the open transactions of one connection may hold, {range}: their messages, and what their settlements write \
         anew.",
    ),
    Limit::new(
        "limits.transaction_time_out",
        Unit::Time,
        SECOND..=HOUR,
        field!(core.transaction_time_out),
        "Time from the first operation of a transaction until it is rolled back, {range}.",
    ),
    Limit::new(
        "limits.max_message_bytes",
        Unit::Bytes,
        KIB..=100 * MIB,
        field!(core.max_message_bytes),
        "Largest message, {range}. A queue may have a smaller limit of its own.",
    ),
    Limit::new(
        "limits.max_service_bus_message_bytes",
        Unit::Bytes,
        KIB..=100 * MIB,
        field!(core.tier_message_bytes),
        "Largest message that a Service Bus client may send to a queue without a limit of its own, {range}, and never more than \
         `max_message_bytes`. Default: `max_message_bytes` where that is set, else the size of the tier: 1 MiB, 256 KiB with the \
         profiles \"emulator\" and \"standard-only\".",
    )
    .following("limits.max_message_bytes")
    .in_profiles(&[(Profile::EMULATOR, 256 * KIB), (Profile::STANDARD_ONLY, 256 * KIB)]),
    // The protocol demands 512; a frame of more than 16 MiB would hold up every other link.
    Limit::new(
        "limits.max_frame_bytes",
        Unit::Bytes,
        512..=16 * MIB,
        field!(max_frame_bytes),
        "Largest frame that is accepted, {range}.",
    ),
    Limit::new(
        "limits.max_in_flight_bytes",
        Unit::Bytes,
        MIB..=16 * TIB,
        field!(max_in_flight_bytes),
        "Memory for what clients have sent and the broker has not got to, all connections together, {range}. While it is used up \
         no connection is read; nothing is refused or lost. Namespaces share the last tenth by `weight`.",
    ),
    MAX_MEMORY,
    Limit::new(
        "limits.idle_time_out",
        Unit::Time,
        5 * SECOND..=DAY,
        field!(idle_time_out),
        "Silence after which a client must show that it lives, {range}. It is dropped after twice that.",
    ),
    Limit::new(
        "limits.link_idle_time_out",
        Unit::TimeOrForever,
        SECOND..=DAY,
        field!(link_idle_time_out),
        "Time after which a link to an entity is detached on which no message, settlement or credit moves, as the service does \
         after \"10m\": {range}. Default: never (\"P10675199D\").",
    )
    .like(10 * MINUTE),
    Limit::new(
        "limits.handshake_time_out",
        Unit::Time,
        SECOND..=HOUR,
        field!(handshake_time_out),
        "Time for the TLS handshake, the log-in and `open`, {range}.",
    ),
    Limit::new(
        "limits.shutdown_time_out",
        Unit::Time,
        0..=HOUR,
        field!(shutdown_time_out),
        "Time for connections to say goodbye when the broker stops, {range}.",
    ),
    // Linux takes no others.
    Limit::new(
        "limits.tcp_max_segment",
        Unit::Count("bytes"),
        88..=32_767,
        field!(tcp_max_segment),
        "Largest segment of TCP in bytes, {range}, for all connections (docs/operations.md, \"Small receive buffers\"). Default: \
         that of the network interface.",
    )
    .like(16_384),
    Limit::new(
        "limits.io_threads",
        Unit::Count("threads"),
        1..=1_024,
        field!(io_threads),
        "Threads that serve connections, {range}. Default: one for each processor.",
    )
    .like(2),
    Limit::new(
        "journal.segment_bytes",
        Unit::Bytes,
        MIB..=GIB,
        field!(journal.segment_bytes),
        "Size of a file of the journal, {range}. A larger message gets a file of its own.",
    ),
    Limit::new(
        "journal.cache_bytes",
        Unit::Bytes,
        MIB..=16 * TIB,
        field!(journal.cache_bytes),
        "Memory for the bodies of recent messages, {range}. Older ones are read back from disk.",
    ),
    Limit::new(
        "journal.disk_reserve_bytes",
        Unit::Bytes,
        0..=16 * TIB,
        field!(journal.reserve_bytes),
        "Free disk space below which sends are refused while receives go on: at least the size of one file of the journal for \
         each shard. 0: no reserve.",
    ),
    REFUSED_ATTEMPTS,
    REFUSALS,
    METRICS_ENTITIES,
    TLS_CHECK_INTERVAL,
    SHARDS,
];

/// Keys that earlier versions had, in the order of the alphabet: they are ignored with a notice. docs/renamed.md lists
/// them.
pub(crate) const REMOVED: [&str; 6] = [
    "expiry",
    "limits.http_write_time_out",
    "limits.max_copies_per_send",
    "limits.max_rewritten_bytes",
    "limits.max_selectors_per_entity",
    "limits.max_subscribers_per_topic",
];
