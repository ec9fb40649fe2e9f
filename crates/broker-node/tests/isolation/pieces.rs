//! Requests that release many records or locks at once are done in pieces, and another namespace is served between them.

use std::time::Duration;

use broker_core::{
    Batch, ClientId, Command, Effect, EntityKind, EntitySettings, LinkId, Message, ReceiveMode,
    SessionWanted, Ticket, UnsettledPolicy,
};
use broker_node::NamespaceId;

use crate::{
    broker::Broker,
    tenant::{client, create, path, publish},
    world::create_two,
};

const NOW: u64 = 1_000_000;
/// Messages that are released at once.
const MESSAGES: u64 = 2_000;
/// Units of work of a round; each of the two namespaces has half of it.
const BUDGET: u64 = 600;
/// Work of one step beyond that: the request itself, and one message more than there was room for.
const STEP: u64 = 60;
/// Locks or records that are released in a round at most: each is three units.
const PIECE: u64 = (BUDGET / 2 + STEP) / 3;
const LATER: Duration = Duration::from_secs(3_600);

/// Something that releases much at once.
struct Release {
    name: &'static str,
    settings: fn() -> EntitySettings,
    /// The receiver that has locked all messages, if there is one.
    receiver: Option<UnsettledPolicy>,
    /// It ends everything; without it an hour passes.
    ask: Option<Command>,
    /// Units for each message that the request itself takes, beside those of the pieces: a lock that is to end is noted.
    noted: u64,
}

fn plain() -> EntitySettings {
    EntitySettings::default()
}

fn with_sessions() -> EntitySettings {
    EntitySettings { requires_session: true, ..plain() }
}

fn releases() -> [Release; 5] {
    let delete = Command::DeleteEntity { name: path(0).entity, expected: None, ticket: Ticket(7) };
    let close = || Command::CloseConsumer { consumer: LinkId(1) };
    [
        Release { name: "deletion", settings: plain, receiver: None, ask: Some(delete), noted: 0 },
        Release {
            name: "closed receiver",
            settings: plain,
            receiver: Some(UnsettledPolicy::Release),
            ask: Some(close()),
            noted: 2,
        },
        Release {
            name: "lost connection",
            settings: plain,
            receiver: Some(UnsettledPolicy::Fail),
            ask: Some(Command::Disconnect),
            noted: 2,
        },
        Release {
            name: "closed session",
            settings: with_sessions,
            receiver: Some(UnsettledPolicy::KeepLocks),
            ask: Some(close()),
            noted: 1,
        },
        Release {
            name: "end of a session's lock",
            settings: with_sessions,
            receiver: Some(UnsettledPolicy::KeepLocks),
            ask: None,
            noted: 1,
        },
    ]
}

impl Release {
    fn ask(broker: &mut Broker, now: u64, id: NamespaceId, commands: Vec<Command>) {
        broker.ask(now, id, Batch { client: client(0), commands });
    }

    /// A node with two namespaces, whose first one has all that is to be released.
    fn prepare(&self) -> (Broker, [NamespaceId; 2]) {
        let mut broker = Broker::new(4 << 20);
        let ids = create_two(&mut broker, NOW);
        let settings = (self.settings)();
        let session = settings.requires_session.then(|| Box::<str>::from("s"));
        let create_large = Command::CreateEntity {
            name: path(0).entity,
            kind: EntityKind::Queue,
            settings: Box::new(settings),
            ticket: Ticket(1),
        };
        let budget = Command::ByteBudget { limit: u64::MAX, min_bytes: 0 };
        let mut commands = vec![Command::Connect, budget, create_large];
        let message = Message { session_id: session.clone(), ..Message::default() };
        commands.extend((0..MESSAGES).map(|number| Command::PublishTo {
            path: path(0),
            messages: vec![message.clone()],
            auto_create: false,
            ticket: Some(Ticket(10 + number)),
        }));
        if let Some(unsettled) = self.receiver {
            commands.push(Command::OpenConsumer {
                consumer: LinkId(1),
                path: path(0),
                mode: ReceiveMode::PeekLock,
                unsettled,
                session: session.map(SessionWanted::Named),
                auto_create: false,
            });
            commands.push(Command::Credit { consumer: LinkId(1), limit: MESSAGES, drain: false });
        }
        Self::ask(&mut broker, NOW, ids[0], commands);
        Self::ask(&mut broker, NOW, ids[1], vec![Command::Connect, create(0, Ticket(1))]);
        broker.run(NOW, &mut Vec::new()).unwrap();
        assert!(self.left(&broker, ids[0]) >= MESSAGES, "{}", self.name);
        (broker.with_budgets(vec![BUDGET]), ids)
    }

    /// Locks that have not ended, or records that are not given back.
    fn left(&self, broker: &Broker, id: NamespaceId) -> u64 {
        let core = broker.node.core_of(id).unwrap();
        match self.receiver {
            Some(_) => core.entity(&path(0).entity).unwrap().locked,
            None => core.live_records().count() as u64,
        }
    }

    /// Releases everything and says in how many rounds; the other namespace is answered in each of them.
    fn play(&self) -> u64 {
        let (mut broker, [large, small]) = self.prepare();
        broker.run(NOW, &mut Vec::new()).unwrap();
        let now = if self.ask.is_some() { NOW } else { NOW + u64::try_from(LATER.as_millis()).unwrap() };
        let mut asked = self.ask.clone();
        let mut rounds = 0;
        loop {
            let (before, left) = (broker.node.namespace(large).unwrap().work, self.left(&broker, large));
            broker.node.expect_batch(large);
            broker.node.expect_batch(small);
            rounds += 1;
            Self::ask(&mut broker, now, large, asked.take().into_iter().collect());
            let ticket = Ticket(rounds);
            Self::ask(&mut broker, now, small, vec![publish(0, 1, 10, None, ticket)]);
            let more = broker.round(now);
            assert_answered(&mut broker, small, client(0), ticket, self.name);
            let work = broker.node.namespace(large).unwrap().work.0 - before.0;
            let released = left - self.left(&broker, large);
            assert!(released <= PIECE, "{}: {released} in round {rounds}", self.name);
            let noted = if rounds == 1 { self.noted * MESSAGES } else { 0 };
            assert!(work <= BUDGET / 2 + STEP + noted, "{}: {work} units in round {rounds}", self.name);
            if !more {
                break;
            }
        }
        assert_eq!(self.left(&broker, large), 0, "{}", self.name);
        broker.run(now, &mut Vec::new()).unwrap();
        broker.check_accounts();
        rounds
    }
}

/// The one send of this namespace was answered in this round.
fn assert_answered(broker: &mut Broker, id: NamespaceId, client: ClientId, ticket: Ticket, name: &str) {
    let shown: Vec<_> = std::iter::from_fn(|| broker.node.poll_effects()).collect();
    let effects = Broker::shown_to(&shown, id, client);
    assert!(
        matches!(effects.as_slice(), [Effect::Published { first, last }] if (*first, *last) == (ticket, ticket)),
        "{name}: {effects:?}"
    );
}

#[test]
fn another_namespace_is_answered_between_the_pieces_of_what_releases_much_at_once() {
    for release in releases() {
        let rounds = release.play();
        let least = MESSAGES / PIECE;
        assert!(rounds >= least, "{}: {rounds} rounds", release.name);
        assert!(rounds <= 6 * least, "{}: {rounds} rounds", release.name);
    }
}
