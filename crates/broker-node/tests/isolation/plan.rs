//! Requests of the clients and the administrator of each namespace in one round, before commands are made of them.

use proptest::prelude::*;

/// Number of namespaces beside the default one.
pub(crate) const NAMESPACES: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Complete,
    Abandon,
    DeadLetter,
    Defer,
}

/// One request of a client. It works with its own queue, and sends to both.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Create its queue, and receive from it.
    CreateQueue,
    /// Receive from it, in case it was created without this client.
    Open,
    Publish {
        queue: usize,
        count: usize,
        bytes: usize,
        ttl_ms: Option<u64>,
    },
    Settle {
        nth: usize,
        how: How,
    },
}

/// Requests to one namespace in one round.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    Nothing,
    /// One of the two clients asks for this, and for a look at its queue at the end.
    Ask {
        client: usize,
        ops: Vec<Op>,
        peek: bool,
    },
    /// It is a request of its own: how much of the queue is delivered before depends on the round.
    DeleteQueue {
        client: usize,
    },
    /// Create the namespace, or give it these settings.
    Put {
        entities: Option<u64>,
        bytes: Option<u64>,
        weight: u16,
        held: bool,
    },
    Delete,
}

/// The process is killed at one disk call, and perhaps again at one of the start after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    pub(crate) after: u64,
    pub(crate) again: Option<u64>,
    /// Decides what the disk keeps.
    pub(crate) seed: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) turns: [Turn; NAMESPACES],
    /// The namespace whose turn is handed in first.
    pub(crate) first: usize,
    /// Time that passes before it.
    pub(crate) pass_ms: u64,
    pub(crate) crash: Option<Crash>,
    /// A lock token of the first namespace is used in the second one.
    pub(crate) crossing: Option<(usize, usize, usize)>,
}

fn op() -> impl Strategy<Value = Op> {
    let how = prop_oneof![
        3 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::DeadLetter),
        1 => Just(How::Defer),
    ];
    let bytes = prop_oneof![3 => 0_usize..300, 1 => 300_usize..5_000];
    prop_oneof![
        2 => Just(Op::CreateQueue),
        1 => Just(Op::Open),
        5 => (0_usize..2, 1_usize..4, bytes, prop::option::weighted(0.2, 1_u64..60_000))
            .prop_map(|(queue, count, bytes, ttl_ms)| Op::Publish { queue, count, bytes, ttl_ms }),
        5 => (any::<usize>(), how).prop_map(|(nth, how)| Op::Settle { nth, how }),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        2 => Just(Turn::Nothing),
        12 => (0_usize..2, prop::collection::vec(op(), 1..10), any::<bool>())
            .prop_map(|(client, ops, peek)| Turn::Ask { client, ops, peek }),
        1 => (0_usize..2).prop_map(|client| Turn::DeleteQueue { client }),
        5 => (prop::option::weighted(0.2, 0_u64..3), prop::option::weighted(0.15, Just(1)), 1_u16..5, any::<bool>())
            .prop_map(|(entities, bytes, weight, held)| Turn::Put { entities, bytes, weight, held }),
        1 => Just(Turn::Delete),
    ]
}

fn crash() -> impl Strategy<Value = Crash> {
    (0_u64..24, prop::option::weighted(0.4, 0_u64..24), any::<u64>()).prop_map(|(after, again, seed)| Crash {
        after,
        again,
        seed,
    })
}

pub(crate) fn round() -> impl Strategy<Value = Round> {
    let pass = prop_oneof![3 => 0_u64..1_000, 1 => 1_000_u64..90_000];
    let crossing = (0..NAMESPACES, 1..NAMESPACES, any::<usize>())
        .prop_map(|(from, step, nth)| (from, (from + step) % NAMESPACES, nth));
    (
        [turn(), turn(), turn()],
        0..NAMESPACES,
        pass,
        prop::option::weighted(0.3, crash()),
        prop::option::weighted(0.4, crossing),
    )
        .prop_map(|(turns, first, pass_ms, crash, crossing)| Round {
            turns,
            first,
            pass_ms,
            crash,
            crossing,
        })
}
