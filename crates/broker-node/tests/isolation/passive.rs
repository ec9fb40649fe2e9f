//! A namespace whose clients ask nothing shows the same, is told nothing, and goes on where it stood, whatever another one is
//! asked.

use std::collections::BTreeSet;

use broker_core::{
    Batch, Command, Delivery, Effect, EntityPath, EntityView, LifetimePolicy, LinkId, LockToken, Message,
    NamespaceLimit, NamespaceLimits, NamespaceSettings, Outcome, QueueId, ReceiveMode, SequenceNumber,
    SessionWanted, SubQueue, Ticket, Timestamp, UnsettledPolicy,
};
use broker_node::{NamespaceCommand, NamespaceId, Released};
use bytes::Bytes;
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use crate::{
    any_command::{Asked, TRANSACTION, any_command, dynamic, rule, subscriber},
    broker::{ADMIN, Broker},
    command_kind::{KINDS, kind},
    plan::How,
    state::State,
    tenant::{
        COPIES_LINK, ENTITIES, NEWS, NEWS_COPIES, SESSION_LINK, VISITS, client, create, own_link, path,
        publish, receive, schedule, session,
    },
    world::{NAMES, id_of},
};

const NOW: u64 = 1_000_000;
/// Longer than any test.
const LATER: u64 = NOW + 3_600_000;
const PRODUCER: LinkId = LinkId(6);
const DYNAMIC: LinkId = LinkId(7);
const SUBSCRIBER: LinkId = LinkId(8);

/// A request to the active namespace, or a change of it.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        client: usize,
        commands: Vec<Command>,
    },
    Pass {
        millis: u64,
    },
    Put {
        entities: Option<u64>,
        bytes: Option<u64>,
        weight: u16,
    },
    /// Delete it, and create it anew.
    Recreate,
}

fn step(command: Asked) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_usize..2, prop::collection::vec(command, 1..9))
            .prop_map(|(client, commands)| Step::Ask { client, commands }),
        3 => (0_u64..1_500).prop_map(|millis| Step::Pass { millis }),
        1 => (prop::option::of(0_u64..9), prop::option::of(0_u64..60_000), 1_u16..9)
            .prop_map(|(entities, bytes, weight)| Step::Put { entities, bytes, weight }),
        1 => Just(Step::Recreate),
    ]
}

/// A namespace with something of everything.
#[derive(Debug)]
struct Prepared {
    id: NamespaceId,
    /// Messages that the first client has locks on, the first of them in its transaction.
    held: Vec<Delivery>,
    fetched: LockToken,
    /// The queue of its producer.
    queue: QueueId,
}

struct Pair {
    broker: Broker,
    now: u64,
    /// The default namespace, and another one.
    all: Vec<Prepared>,
}

impl Pair {
    fn new(round_bytes: u64, budgets: Vec<u64>) -> Self {
        let mut broker = Broker::new(round_bytes).with_budgets(budgets);
        broker.change(NOW, put(None, None, 1, 1), Ticket(1));
        broker.run(NOW, &mut Vec::new()).unwrap();
        let ids = [NamespaceId::DEFAULT, id_of(&broker, NAMES[0]).unwrap()];
        let mut pair = Self { broker, now: NOW, all: Vec::new() };
        pair.all = ids.into_iter().map(|id| pair.prepare(id)).collect();
        pair
    }

    /// All lock tokens of both.
    fn tokens() -> Vec<LockToken> {
        let pair = Self::new(4 << 20, Vec::new());
        let tokens = pair.all.iter().flat_map(|one| {
            let held = one.held.iter().filter_map(|delivery| Some(delivery.lock?.token));
            held.chain([one.fetched])
        });
        tokens.collect()
    }

    fn ask(&mut self, id: NamespaceId, number: usize, commands: Vec<Command>) -> Vec<Released> {
        self.broker.ask(self.now, id, Batch { client: client(number), commands });
        let mut shown = Vec::new();
        self.broker.run(self.now, &mut shown).unwrap();
        shown
    }

    /// Effects for one client.
    fn answers(&mut self, id: NamespaceId, number: usize, commands: Vec<Command>) -> Vec<Effect> {
        Broker::shown_to(&self.ask(id, number, commands), id, client(number))
    }

    fn prepare(&mut self, id: NamespaceId) -> Prepared {
        let queue = self.fill(id);
        let (held, fetched) = self.hold(id);
        let subscribe = Command::OpenSubscriber {
            consumer: SUBSCRIBER,
            path: path(NEWS),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::Release,
            subscriber: Box::new(subscriber(false, false)),
            auto_create: false,
        };
        let credit = Command::Credit { consumer: SUBSCRIBER, limit: u64::MAX, drain: false };
        self.ask(id, 1, connect().into_iter().chain([subscribe, credit]).collect());
        Prepared { id, held, fetched, queue }
    }

    /// Entities with messages, and links of the first client that send. Gives the queue of one of them.
    fn fill(&mut self, id: NamespaceId) -> QueueId {
        let created = (0..ENTITIES.len()).map(|place| create(place, Ticket(1 + place as u64)));
        let ready = self.answers(id, 0, connect().into_iter().chain(created).collect());
        assert!(ready.iter().all(|effect| matches!(effect, Effect::EntityDone { .. })), "{ready:?}");
        let node = dynamic(LifetimePolicy::OnClose);
        let own = EntityPath { entity: node.name().into(), sub_queue: SubQueue::Main };
        let open = Command::OpenProducer { producer: DYNAMIC, path: own, auto_create: false };
        let others = vec![
            Command::WatchKeys,
            publish(0, 4, 9, None, Ticket(20)),
            publish(1, 2, 9, None, Ticket(21)),
            // Tickets of both sessions.
            publish(VISITS, 1, 9, None, Ticket(22)),
            publish(VISITS, 1, 9, None, Ticket(23)),
            schedule(1, 2, LATER, Ticket(24)),
            Command::AddRule { path: path(NEWS_COPIES), rule: Box::new(rule(1)), ticket: Ticket(25) },
            publish(NEWS, 2, 9, None, Ticket(26)),
            Command::OpenDynamicNode { node: Box::new(node), open: Box::new(open) },
        ];
        self.ask(id, 0, others);
        let producer = Command::OpenProducer { producer: PRODUCER, path: path(1), auto_create: false };
        let opened = self.answers(id, 0, vec![producer]);
        let [Effect::ProducerOpened { queue, .. }] = opened.as_slice() else { panic!("{opened:?}") };
        queue.queue
    }

    /// Everything that the first client can hold. Gives its locks, and the token of a deferred message.
    fn hold(&mut self, id: NamespaceId) -> (Vec<Delivery>, LockToken) {
        let mut held = deliveries(&self.answers(id, 0, receive(own_link(0), path(0), None).into()));
        assert_eq!(held.len(), 4);
        let (dead, deferred) = (held.remove(0), held.remove(0));
        let settled = vec![
            settle(&dead, How::DeadLetter.outcome(), Ticket(30)),
            settle(&deferred, How::Defer.outcome(), Ticket(31)),
            Command::Declare { transaction: TRANSACTION, ticket: Ticket(32) },
            publish(1, 1, 9, None, Ticket(33)).within(TRANSACTION),
            settle(&held[0], Outcome::Complete, Ticket(34)).within(TRANSACTION),
            Command::ReceiveDeferred {
                path: path(0),
                session: None,
                sequences: vec![deferred.sequence],
                delete: false,
                bytes: u64::MAX,
                ticket: Ticket(35),
            },
        ];
        let told = self.answers(id, 0, settled);
        let fetched = told.iter().find_map(|effect| match effect {
            Effect::Fetched { messages, .. } => Some(messages[0].lock?.token),
            _ => None,
        });
        let fetched = fetched.unwrap_or_else(|| panic!("{told:?}"));
        let wanted = SessionWanted::Named(session(0));
        let mut receivers = Vec::from(receive(SESSION_LINK, path(VISITS), Some(wanted)));
        receivers.extend(receive(COPIES_LINK, path(NEWS_COPIES), None));
        held.extend(deliveries(&self.answers(id, 0, receivers)));
        self.ask(id, 0, vec![set_state(b"own", Ticket(36))]);
        (held, fetched)
    }

    /// All that the namespace shows. A look is an access, which is left out.
    fn visible(&mut self, at: usize) -> (State, Vec<String>, (u64, u64)) {
        let id = self.all[at].id;
        let state = State::of(&mut self.broker, Some(id), self.now);
        let core = self.broker.node.core_of(id).unwrap();
        let text = |mut view: EntityView<'_>| {
            view.accessed_at = Timestamp::default();
            format!("{view:?}")
        };
        (state, core.entities().map(text).collect(), core.transactions())
    }

    /// Plays one step with one namespace; gives what is shown.
    fn take_step(&mut self, active: usize, number: u64, step: &Step) -> Vec<Released> {
        let is_default = self.all[active].id == NamespaceId::DEFAULT;
        let mut shown = Vec::new();
        match step {
            Step::Ask { client, commands } => {
                let id = self.all[active].id;
                return self.ask(id, *client, commands.clone());
            }
            Step::Pass { millis } => self.now += millis,
            Step::Put { .. } | Step::Recreate if is_default => {}
            Step::Put { entities, bytes, weight } => {
                let put = put(*entities, *bytes, *weight, 1);
                self.broker.change(self.now, put, Ticket(number));
            }
            Step::Recreate => {
                let delete = NamespaceCommand::Delete { name: NAMES[0].into() };
                self.broker.change(self.now, delete, Ticket(number));
                self.broker.run(self.now, &mut shown).unwrap();
                self.broker.change(self.now, put(None, None, 1, u128::from(number)), Ticket(number));
            }
        }
        self.broker.run(self.now, &mut shown).unwrap();
        self.all[active].id =
            if is_default { NamespaceId::DEFAULT } else { id_of(&self.broker, NAMES[0]).unwrap() };
        shown
    }

    /// The clients of a namespace go on with what they have.
    fn go_on(&mut self, at: usize) {
        let Prepared { id, ref held, fetched, queue } = self.all[at];
        let bills = |pair: &Self| pair.broker.node.core_of(id).unwrap().entity(ENTITIES[1]).unwrap().active;
        let mut commands: Vec<Command> = held[1..]
            .iter()
            .zip(100..)
            .map(|(delivery, ticket)| settle(delivery, Outcome::Complete, Ticket(ticket)))
            .collect();
        let settled = commands.len();
        let before = bills(self);
        let message = Message { payload: Bytes::from(vec![1; 16]), ..Message::default() };
        commands.extend([
            Command::SettleByToken {
                path: path(0),
                session: None,
                tokens: vec![fetched],
                outcome: Outcome::Complete,
                ticket: Ticket(200),
            },
            Command::RenewSession { path: path(VISITS), session: session(0), ticket: Ticket(210) },
            Command::GetSessionState {
                path: path(VISITS),
                session: session(0),
                looks_on: false,
                ticket: Ticket(220),
            },
            Command::Discharge { transaction: TRANSACTION, fail: false, ticket: Some(Ticket(230)) },
            Command::Publish { queue, message, ticket: Some(Ticket(240)) },
            publish(NEWS, 1, 9, None, Ticket(250)),
        ]);
        let shown = self.ask(id, 0, commands);
        let told = Broker::shown_to(&shown, id, client(0));
        let has = |is_it: &dyn Fn(&Effect) -> bool| assert!(told.iter().any(is_it), "{told:?}");
        let count = |first: &Ticket, last: &Ticket| usize::try_from(last.0 - first.0).unwrap() + 1;
        has(&|told| matches!(told, Effect::Settled { first, last } if count(first, last) == settled));
        has(&|told| matches!(told, Effect::Settled { first: Ticket(200), .. }));
        has(&|told| matches!(told, Effect::SessionRenewed { .. }));
        has(&|told| matches!(told, Effect::SessionState { state: Some(state), .. } if &**state == b"own"));
        has(&|told| matches!(told, Effect::TransactionDone { ticket: Ticket(230) }));
        has(&|told| matches!(told, Effect::Published { first: Ticket(240), .. }));
        // That of the transaction, and the one of the producer.
        assert_eq!(bills(self), before + 2);
        let subscribed = Broker::shown_to(&shown, id, client(1));
        assert_eq!(deliveries(&subscribed).len(), 1, "{subscribed:?}");
    }
}

fn connect() -> [Command; 2] {
    [Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }]
}

fn put(entities: Option<u64>, bytes: Option<u64>, weight: u16, uid: u128) -> NamespaceCommand {
    let limits = NamespaceLimits::default()
        .with(NamespaceLimit::Entities, entities)
        .with(NamespaceLimit::Bytes, bytes);
    let settings = NamespaceSettings { weight, limits, ..NamespaceSettings::default() };
    NamespaceCommand::Put { name: NAMES[0].into(), settings, uid, only_create: false }
}

fn set_state(state: &'static [u8], ticket: Ticket) -> Command {
    let (path, session) = (path(VISITS), session(0));
    Command::SetSessionState { path, session, state: Some(Bytes::from_static(state)), ticket }
}

fn settle(delivery: &Delivery, outcome: Outcome, ticket: Ticket) -> Command {
    let Delivery { queue, sequence, lock, .. } = delivery;
    let (queue, sequence): (QueueId, SequenceNumber) = (*queue, *sequence);
    Command::Settle { queue, sequence, lock: lock.unwrap().id, outcome, ticket: Some(ticket) }
}

fn deliveries(effects: &[Effect]) -> Vec<Delivery> {
    let delivery = |effect: &Effect| match effect {
        Effect::Delivery(delivery) => Some(delivery.clone()),
        _ => None,
    };
    effects.iter().filter_map(delivery).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_commands_in_one_namespace_leave_another_one_as_it_was(
        steps in prop::collection::vec(step(any_command(Pair::tokens())), 1..24),
        active in 0_usize..2,
        round_bytes in 500_u64..20_000,
        budgets in prop::collection::vec(prop_oneof![20_u64..400, Just(u64::MAX)], 0..4),
    ) {
        let mut pair = Pair::new(round_bytes, budgets);
        let passive = 1 - active;
        let before = pair.visible(passive);
        for (number, step) in (2..).zip(&steps) {
            let shown = pair.take_step(active, number, step);
            let id = pair.all[passive].id;
            let is_told = |released: &Released| released.namespace == id && released.client != ADMIN;
            prop_assert!(!shown.iter().any(is_told), "{shown:?}");
            prop_assert_eq!(&pair.visible(passive), &before);
        }
        pair.go_on(passive);
    }
}

#[test]
fn the_clients_of_a_namespace_go_on_beside_one_that_is_asked_nothing() {
    let mut pair = Pair::new(4 << 20, Vec::new());
    pair.go_on(0);
    pair.go_on(1);
}

#[test]
fn every_kind_of_command_is_asked() {
    let mut runner = TestRunner::deterministic();
    let commands = any_command(vec![LockToken(7)]);
    let mut seen = BTreeSet::new();
    for _ in 0..20_000 {
        seen.insert(kind(&commands.new_tree(&mut runner).unwrap().current()));
    }
    let missing: Vec<usize> = (0..KINDS).filter(|number| !seen.contains(number)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(
        kind(&Command::DeleteEntity { name: "".into(), expected: None, ticket: Ticket(1) }) + 1,
        KINDS
    );
}
