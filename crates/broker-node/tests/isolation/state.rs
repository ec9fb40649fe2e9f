//! State of a namespace: its entities, their messages, sessions and rules, and the digest of its core.

use broker_core::{
    Batch, ClientId, Command, Core, EntityPath, EntityView, QueueId, SequenceNumber, SubQueue, Ticket,
};
use broker_node::NamespaceId;

use crate::{
    answers::Answers,
    broker::Broker,
    tenant::{NEWS_COPIES, SESSIONS, VISITS, path, session},
};

/// A client that only looks.
const WATCHER: ClientId = ClientId(80);

#[derive(Debug)]
pub(crate) struct State {
    digest: Option<u64>,
    queues: Vec<QueueId>,
    entities: Vec<String>,
    messages: Answers,
}

impl State {
    pub(crate) fn of(broker: &mut Broker, id: Option<NamespaceId>, now: u64) -> Self {
        let messages = id.map(|id| look(broker, id, now)).unwrap_or_default();
        let core = id.and_then(|id| broker.node.core_of(id));
        let views: Vec<EntityView<'_>> = core.iter().flat_map(|core| core.entities()).collect();
        Self {
            digest: core.map(Core::digest),
            queues: views.iter().map(|view| view.queue).collect(),
            entities: views.iter().map(text).collect(),
            messages,
        }
    }
}

impl PartialEq for State {
    /// The digest includes the ids of the queues (see `answers.rs`).
    fn eq(&self, other: &Self) -> bool {
        (&self.entities, &self.messages) == (&other.entities, &other.messages)
            && (self.queues != other.queues || self.digest == other.digest)
    }
}

fn text(view: &EntityView<'_>) -> String {
    let EntityView { name, settings, active, deferred, dead_letter, damaged, bytes, .. } = view;
    let EntityView { oldest, next_sequence, links, locked, scheduled, transfer_dead_letter, .. } = view;
    let EntityView { kind, created_at, updated_at, .. } = view;
    format!(
        "{kind:?} {name} {settings:?} {active} {deferred} {scheduled} {locked} {dead_letter} {transfer_dead_letter} {damaged} \
         {bytes} {oldest:?} {next_sequence} {links} {created_at:?} {updated_at:?}"
    )
}

/// Stores of an entity that have messages to be shown.
fn stores(view: &EntityView<'_>) -> Vec<EntityPath> {
    let own = view.active + view.locked + view.deferred + view.scheduled;
    let stores = [
        (SubQueue::Main, own),
        (SubQueue::DeadLetter, view.dead_letter),
        (SubQueue::TransferDeadLetter, view.transfer_dead_letter),
    ];
    let used = stores.into_iter().filter(|(_, messages)| *messages > 0);
    used.map(|(sub_queue, _)| EntityPath { entity: view.name.into(), sub_queue }).collect()
}

/// All messages of all entities, the sessions with their states, and the rules.
fn look(broker: &mut Broker, id: NamespaceId, now: u64) -> Answers {
    let core = broker.node.core_of(id);
    let stores: Vec<EntityPath> =
        core.into_iter().flat_map(Core::entities).flat_map(|view| stores(&view)).collect();
    let peeks = (10..).zip(stores).map(|(ticket, path)| Command::Peek {
        path,
        session: None,
        from: SequenceNumber(0),
        count: 1_000,
        bytes: u64::MAX,
        ticket: Ticket(ticket),
    });
    let (visits, reader) = (path(VISITS), path(NEWS_COPIES));
    let rules = Command::ListRules { path: reader, skip: 0, top: 99, ticket: Ticket(1) };
    let sessions = Command::ListSessions {
        path: visits,
        updated_after: None,
        after: None,
        skip: 0,
        top: 99,
        ticket: Ticket(2),
    };
    let states = (0..SESSIONS).map(|number| Command::GetSessionState {
        path: path(VISITS),
        session: session(number),
        looks_on: true,
        ticket: Ticket(3 + number as u64),
    });
    let commands = [Command::Connect, rules, sessions].into_iter().chain(states).chain(peeks).collect();
    broker.ask(now, id, Batch { client: WATCHER, commands });
    let mut shown = Vec::new();
    broker.run(now, &mut shown).expect("nothing kills it");
    broker.ask(now, id, Batch { client: WATCHER, commands: vec![Command::Disconnect] });
    broker.run(now, &mut Vec::new()).expect("nothing kills it");
    Answers::of(&Broker::shown_to(&shown, id, WATCHER))
}
