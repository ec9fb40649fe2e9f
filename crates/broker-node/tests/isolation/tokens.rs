//! No token, number or name of one namespace settles, renews, fetches or sets anything in another one, though both have the
//! same entities with the same messages in the same places.

use broker_core::{
    Batch, Command, Core, Effect, EntityPath, LinkId, LockToken, NamespaceSettings, Outcome, Properties,
    SequenceNumber, SessionWanted, SubQueue, Ticket, TransactionId,
};
use broker_node::{NamespaceCommand, NamespaceId, Released};
use bytes::Bytes;
use proptest::prelude::*;

use crate::{
    broker::Broker,
    plan::How,
    tenant::{
        DEAD_LETTER_LINK, SESSION_LINK, SESSIONS, VISITS, client, create, own_link, path, publish, receive,
        session,
    },
    world::{NAMES, id_of},
};

const NOW: u64 = 1_000_000;
/// The default namespace and two others.
const PLACES: usize = 3;
/// The first queue.
const QUEUE: usize = 0;
const TRANSACTION: TransactionId = TransactionId(1);

/// The lock that a token is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Main,
    DeadLetter,
    /// A deferred message that was fetched.
    Deferred,
    OfSession,
}

const KINDS: [Kind; 4] = [Kind::Main, Kind::DeadLetter, Kind::Deferred, Kind::OfSession];

impl Kind {
    /// The entity, with the store that the messages are in.
    fn path(self) -> EntityPath {
        match self {
            Self::Main | Self::Deferred => path(QUEUE),
            Self::DeadLetter => EntityPath { sub_queue: SubQueue::DeadLetter, ..path(QUEUE) },
            Self::OfSession => path(VISITS),
        }
    }
}

/// A request with what belongs to another namespace.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    Settle {
        kind: Kind,
        how: How,
        is_released: bool,
    },
    /// The management node of the queue takes the tokens of its dead letters, too.
    SettleInTransaction {
        kind: Kind,
        how: How,
    },
    Renew {
        kind: Kind,
    },
    RenewSession,
    SetState,
    GetState,
    FetchOfSession,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let kind = || prop::sample::select(KINDS.to_vec());
    let how = || prop::sample::select(vec![How::Complete, How::Abandon, How::DeadLetter, How::Defer]);
    prop_oneof![
        6 => (kind(), how(), any::<bool>())
            .prop_map(|(kind, how, is_released)| Attempt::Settle { kind, how, is_released }),
        3 => (kind(), how()).prop_map(|(kind, how)| Attempt::SettleInTransaction { kind, how }),
        3 => kind().prop_map(|kind| Attempt::Renew { kind }),
        1 => Just(Attempt::RenewSession),
        1 => Just(Attempt::SetState),
        1 => Just(Attempt::GetState),
        1 => Just(Attempt::FetchOfSession),
    ]
}

/// One namespace: its client holds one message of each kind under a lock, and a session whose number is that of the namespace.
struct Holder {
    id: NamespaceId,
    tokens: [LockToken; KINDS.len()],
    session: usize,
}

struct Neighbours {
    broker: Broker,
    holders: Vec<Holder>,
    tickets: u64,
}

impl Neighbours {
    fn new() -> Self {
        let mut broker = Broker::new(4 << 20);
        for (uid, name) in (1..).zip(&NAMES[..PLACES - 1]) {
            let settings = NamespaceSettings::default();
            let put = NamespaceCommand::Put { name: (*name).into(), settings, uid, only_create: true };
            broker.change(NOW, put, Ticket(1));
        }
        broker.run(NOW, &mut Vec::new()).unwrap();
        let others = NAMES[..PLACES - 1].iter().map(|name| id_of(&broker, name).unwrap());
        let ids: Vec<NamespaceId> = std::iter::once(NamespaceId::DEFAULT).chain(others).collect();
        let mut all = Self { broker, holders: Vec::new(), tickets: 0 };
        all.holders = ids.into_iter().enumerate().map(|(at, id)| all.prepare(at, id)).collect();
        all
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Asks a namespace, and gives its answers; nobody else is told anything.
    fn ask(&mut self, id: NamespaceId, commands: Vec<Command>) -> Vec<Effect> {
        self.broker.ask(NOW, id, Batch { client: client(0), commands });
        let mut shown = Vec::new();
        self.broker.run(NOW, &mut shown).unwrap();
        let is_asker = |released: &Released| (released.namespace, released.client) == (id, client(0));
        assert!(shown.iter().all(is_asker), "nobody else hears of it: {shown:?}");
        Broker::shown_to(&shown, id, client(0))
    }

    /// Each namespace has the same, but for the session that is held. The tickets, and so the sessions of the messages, are the
    /// same as well.
    fn prepare(&mut self, at: usize, id: NamespaceId) -> Holder {
        let budget = Command::ByteBudget { limit: u64::MAX, min_bytes: 0 };
        self.ask(id, vec![Command::Connect, budget, create(QUEUE, Ticket(1)), create(VISITS, Ticket(2))]);
        let sends = [publish(QUEUE, 3, 9, None, Ticket(3))];
        // Odd and even tickets are of the two sessions, so that both have a message.
        let of_sessions = (4..4 + SESSIONS as u64).map(|ticket| publish(VISITS, 1, 9, None, Ticket(ticket)));
        self.ask(id, sends.into_iter().chain(of_sessions).collect());
        let delivered = self.ask(id, receive(own_link(0), path(QUEUE), None).into());
        let held = deliveries(&delivered);
        let settle = |nth: usize, outcome: Outcome| {
            let (tokens, ticket) = (vec![held[nth]], Ticket(10 + nth as u64));
            Command::SettleByToken { path: path(QUEUE), session: None, tokens, outcome, ticket }
        };
        let commands = vec![settle(0, How::DeadLetter.outcome()), settle(1, How::Defer.outcome())];
        assert_eq!(self.ask(id, commands).len(), 1, "both are settled");
        let dead = self.ask(id, receive(DEAD_LETTER_LINK, Kind::DeadLetter.path(), None).into());
        let fetch = Command::ReceiveDeferred {
            path: path(QUEUE),
            session: None,
            sequences: vec![SequenceNumber(2)],
            delete: false,
            bytes: u64::MAX,
            ticket: Ticket(20),
        };
        let fetched = self.ask(id, vec![fetch]);
        let Some(Effect::Fetched { messages, .. }) = fetched.first() else { panic!("{fetched:?}") };
        let own = at % SESSIONS;
        let wanted = SessionWanted::Named(session(own));
        let of_session = self.ask(id, receive(SESSION_LINK, path(VISITS), Some(wanted)).into());
        let tokens =
            [held[2], deliveries(&dead)[0], messages[0].lock.unwrap().token, deliveries(&of_session)[0]];
        Holder { id, tokens, session: own }
    }

    /// All that can be seen of the namespaces.
    fn state(&self) -> Vec<(u64, String)> {
        let core = |holder: &Holder| self.broker.node.core_of(holder.id).unwrap();
        let text = |core: &Core| (core.digest(), format!("{:?}", core.entities().collect::<Vec<_>>()));
        self.holders.iter().map(|holder| text(core(holder))).collect()
    }

    fn token(&self, at: usize, kind: Kind) -> LockToken {
        let place = KINDS.iter().position(|other| *other == kind).unwrap();
        self.holders[at].tokens[place]
    }

    /// The commands of an attempt with what belongs to the namespace `from`.
    fn commands(&mut self, from: usize, attempt: Attempt) -> Vec<Command> {
        let (path, session, ticket) = (path(VISITS), session(self.holders[from].session), self.ticket());
        match attempt {
            Attempt::Settle { kind, how, is_released } => {
                let released = Outcome::Release(Properties::default());
                let outcome = if is_released { released } else { how.outcome() };
                vec![self.settle(from, kind, outcome, ticket)]
            }
            Attempt::SettleInTransaction { kind, how } => {
                let declare = Command::Declare { transaction: TRANSACTION, ticket };
                let (enlisted, end) = (self.ticket(), self.ticket());
                let settle = self.settle(from, kind, how.outcome(), enlisted).within(TRANSACTION);
                let (transaction, ticket) = (TRANSACTION, Some(end));
                vec![declare, settle, Command::Discharge { transaction, fail: false, ticket }]
            }
            Attempt::Renew { kind } => {
                let tokens = vec![self.token(from, kind)];
                vec![Command::RenewLocks { path: kind.path(), tokens, ticket }]
            }
            Attempt::RenewSession => vec![Command::RenewSession { path, session, ticket }],
            Attempt::SetState => {
                let state = Some(Bytes::from_static(b"foreign"));
                vec![Command::SetSessionState { path, session, state, ticket }]
            }
            Attempt::GetState => vec![Command::GetSessionState { path, session, looks_on: false, ticket }],
            Attempt::FetchOfSession => vec![Command::ReceiveDeferred {
                path,
                session: Some(session),
                sequences: vec![SequenceNumber(1)],
                delete: true,
                bytes: u64::MAX,
                ticket,
            }],
        }
    }

    fn settle(&self, from: usize, kind: Kind, outcome: Outcome, ticket: Ticket) -> Command {
        let session = (kind == Kind::OfSession).then(|| session(self.holders[from].session));
        let tokens = vec![self.token(from, kind)];
        Command::SettleByToken { path: kind.path(), session, tokens, outcome, ticket }
    }

    /// Another namespace refuses it, and nothing has changed anywhere.
    fn attempt(&mut self, from: usize, to: usize, attempt: Attempt) {
        let before = self.state();
        let commands = self.commands(from, attempt);
        let effects = self.ask(self.holders[to].id, commands);
        let refused = effects.iter().filter(|effect| is_refusal(effect)).count();
        // A transaction is declared before, and does not commit.
        let (answers, refusals) = match attempt {
            Attempt::SettleInTransaction { .. } => (3, 2),
            _ => (1, 1),
        };
        assert_eq!((effects.len(), refused), (answers, refusals), "{attempt:?}: {effects:?}");
        assert_eq!(self.state(), before, "{attempt:?}");
    }

    /// The same in its own namespace is done.
    fn own(&mut self, at: usize, attempt: Attempt) {
        let commands = self.commands(at, attempt);
        let effects = self.ask(self.holders[at].id, commands);
        assert!(!effects.is_empty() && !effects.iter().any(is_refusal), "{attempt:?}: {effects:?}");
    }
}

/// Tokens of what was delivered, in order.
fn deliveries(effects: &[Effect]) -> Vec<LockToken> {
    let token = |effect: &Effect| match effect {
        Effect::Delivery(delivery) => Some(delivery.lock?.token),
        _ => None,
    };
    effects.iter().filter_map(token).collect()
}

fn is_refusal(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::SettleRefused { .. }
            | Effect::RequestRefused { .. }
            | Effect::SessionRefused { .. }
            | Effect::TransactionRefused { .. }
    )
}

/// Namespaces that hold the same session are no attempt about sessions: there the name is that of an own one.
fn is_foreign(all: &Neighbours, from: usize, to: usize, attempt: Attempt) -> bool {
    let is_named = matches!(
        attempt,
        Attempt::RenewSession | Attempt::SetState | Attempt::GetState | Attempt::FetchOfSession
    );
    !is_named || all.holders[from].session != all.holders[to].session
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_that_is_held_in_one_namespace_is_settled_or_renewed_in_another_one(
        attempts in prop::collection::vec((0..PLACES, 1..PLACES, attempt()), 1..24),
    ) {
        let mut all = Neighbours::new();
        for (from, step, attempt) in attempts {
            let to = (from + step) % PLACES;
            if is_foreign(&all, from, to, attempt) {
                all.attempt(from, to, attempt);
            }
        }
        // All of it still works where it belongs.
        for at in 0..PLACES {
            all.own(at, Attempt::RenewSession);
            all.own(at, Attempt::SetState);
            all.own(at, Attempt::GetState);
            for kind in [Kind::Main, Kind::DeadLetter, Kind::Deferred] {
                all.own(at, Attempt::Renew { kind });
            }
            for kind in KINDS {
                all.own(at, Attempt::Settle { kind, how: How::Complete, is_released: false });
            }
        }
    }
}

#[test]
fn each_namespace_has_the_same_locks_and_another_one_has_other_tokens_for_them() {
    let all = Neighbours::new();
    let state = all.state();
    let digest = |at: usize| state[at].0;
    assert!((1..PLACES).all(|at| digest(at) == digest(0)), "{state:?}");
    for kind in KINDS {
        let tokens: Vec<u128> = (0..PLACES).map(|at| all.token(at, kind).0).collect();
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2] && tokens[0] != tokens[2], "{kind:?}");
    }
}

/// The same client and the same link of both are two.
#[test]
fn links_with_the_same_number_in_two_namespaces_are_two() {
    let mut all = Neighbours::new();
    let (first, second) = (all.holders[0].id, all.holders[1].id);
    let links = |all: &Neighbours, id| {
        let core = all.broker.node.core_of(id).unwrap();
        core.entities().map(|queue| queue.links).collect::<Vec<_>>()
    };
    let before = links(&all, second);
    for link in [own_link(0), DEAD_LETTER_LINK, SESSION_LINK, LinkId(99)] {
        all.ask(first, vec![Command::CloseConsumer { consumer: link }]);
    }
    assert_eq!(links(&all, first), [0, 0]);
    assert_eq!(links(&all, second), before);
    all.ask(first, vec![Command::Disconnect]);
    assert_eq!(links(&all, second), before);
    all.own(1, Attempt::RenewSession);
}
