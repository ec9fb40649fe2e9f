//! Requests of the clients and the administrator of each namespace in one round, before commands are made of them.

use proptest::prelude::*;

use crate::{
    requests::{Request, request},
    tenant::{SESSIONS, TAKING},
};

/// Number of namespaces beside the default one.
pub(crate) const NAMESPACES: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Complete,
    Abandon,
    DeadLetter,
    Defer,
}

/// One request of a client. It works with its own queue and with what both share, and sends to all of it. None of them depends
/// on what was delivered before, for that depends on the places at which rounds end.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Create its queue, and receive from it.
    CreateQueue,
    /// Receive from it, in case it was created without this client.
    Open,
    /// Create the entities that its own queue works with.
    CreateOthers,
    Publish {
        /// One of those that take messages.
        queue: usize,
        count: usize,
        bytes: usize,
        ttl_ms: Option<u64>,
    },
    Settle {
        nth: usize,
        how: How,
    },
    /// Settle one of the deferred messages that it has fetched.
    SettleFetched {
        nth: usize,
        how: How,
    },
    RenewLock {
        nth: usize,
    },
    Schedule {
        queue: usize,
        count: usize,
        in_ms: u64,
    },
    CancelScheduled {
        nth: usize,
    },
    SetState {
        session: usize,
        bytes: Option<usize>,
    },
    Declare,
    /// The same in its transaction.
    EnlistPublish {
        queue: usize,
        count: usize,
        bytes: usize,
    },
    EnlistSettle {
        nth: usize,
        how: How,
        settled: bool,
    },
    Discharge {
        fail: bool,
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
    /// Another one of which the same is true.
    Request {
        client: usize,
        request: Request,
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
    pub(crate) crossing: Option<Crossing>,
}

/// A lock token of one namespace is used in another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) nth: usize,
    pub(crate) how: How,
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        3 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::DeadLetter),
        1 => Just(How::Defer),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = || prop_oneof![3 => 0_usize..300, 1 => 300_usize..5_000];
    let count = || 1_usize..4;
    // Often one of the two queues.
    let queue = || prop_oneof![2 => 0_usize..2, 1 => 0..TAKING];
    // A topic takes scheduled messages as well, but what comes of them depends on its rules at that time.
    let schedule = (0_usize..3, count(), prop_oneof![Just(0_u64), 1_u64..2_000, 2_000_u64..90_000]);
    let enlisted = (queue(), count(), bytes());
    prop_oneof![
        2 => Just(Op::CreateQueue),
        1 => Just(Op::Open),
        1 => Just(Op::CreateOthers),
        6 => (queue(), count(), bytes(), prop::option::weighted(0.2, 1_u64..60_000))
            .prop_map(|(queue, count, bytes, ttl_ms)| Op::Publish { queue, count, bytes, ttl_ms }),
        5 => (any::<usize>(), how()).prop_map(|(nth, how)| Op::Settle { nth, how }),
        1 => (any::<usize>(), how()).prop_map(|(nth, how)| Op::SettleFetched { nth, how }),
        1 => any::<usize>().prop_map(|nth| Op::RenewLock { nth }),
        2 => schedule.prop_map(|(queue, count, in_ms)| Op::Schedule { queue, count, in_ms }),
        1 => any::<usize>().prop_map(|nth| Op::CancelScheduled { nth }),
        1 => (0..SESSIONS, prop::option::weighted(0.8, bytes()))
            .prop_map(|(session, bytes)| Op::SetState { session, bytes }),
        2 => Just(Op::Declare),
        2 => enlisted.prop_map(|(queue, count, bytes)| Op::EnlistPublish { queue, count, bytes }),
        2 => (any::<usize>(), how(), any::<bool>())
            .prop_map(|(nth, how, settled)| Op::EnlistSettle { nth, how, settled }),
        2 => prop::bool::weighted(0.2).prop_map(|fail| Op::Discharge { fail }),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        2 => Just(Turn::Nothing),
        12 => (0_usize..2, prop::collection::vec(op(), 1..10), any::<bool>())
            .prop_map(|(client, ops, peek)| Turn::Ask { client, ops, peek }),
        1 => (0_usize..2).prop_map(|client| Turn::DeleteQueue { client }),
        8 => (0_usize..2, request()).prop_map(|(client, request)| Turn::Request { client, request }),
        5 => (prop::option::weighted(0.2, 0_u64..3), prop::option::weighted(0.15, Just(1)), 1_u16..5, any::<bool>())
            .prop_map(|(entities, bytes, weight, held)| Turn::Put { entities, bytes, weight, held }),
        1 => Just(Turn::Delete),
    ]
}

/// Rounds after which each namespace has all entities.
pub(crate) fn all_entities() -> [Round; 3] {
    let round = |turn: Turn| Round {
        turns: [turn.clone(), turn.clone(), turn],
        first: 0,
        pass_ms: 1,
        crash: None,
        crossing: None,
    };
    let ask = |client| Turn::Ask { client, ops: vec![Op::CreateQueue, Op::CreateOthers], peek: false };
    let put = Turn::Put { entities: None, bytes: None, weight: 1, held: false };
    [round(put), round(ask(0)), round(ask(1))]
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
    let crossing = (0..NAMESPACES, 1..NAMESPACES, any::<usize>(), how())
        .prop_map(|(from, step, nth, how)| Crossing { from, to: (from + step) % NAMESPACES, nth, how });
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
