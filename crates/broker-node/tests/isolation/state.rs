//! State of a namespace: its entities, their messages, and the digest of its core.

use broker_core::{
    Batch, ClientId, Command, Core, EntityPath, EntityView, QueueId, SequenceNumber, SubQueue, Ticket,
};
use broker_node::NamespaceId;

use crate::{answers::Answers, broker::Broker, tenant::QUEUES};

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
        let messages = id.map(|id| messages(broker, id, now)).unwrap_or_default();
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
    let EntityView { oldest, next_sequence, links, .. } = view;
    format!(
        "{name} {settings:?} {active} {deferred} {dead_letter} {damaged} {bytes} {oldest:?} {next_sequence} {links}"
    )
}

/// All messages of all queues.
fn messages(broker: &mut Broker, id: NamespaceId, now: u64) -> Answers {
    let queues =
        QUEUES.into_iter().flat_map(|queue| [SubQueue::Main, SubQueue::DeadLetter].map(|sub| (queue, sub)));
    let peeks = (1..).zip(queues).map(|(ticket, (queue, sub_queue))| Command::Peek {
        path: EntityPath { entity: queue.into(), sub_queue },
        session: None,
        from: SequenceNumber(0),
        count: 1_000,
        bytes: u64::MAX,
        ticket: Ticket(ticket),
    });
    let commands = std::iter::once(Command::Connect).chain(peeks).collect();
    broker.ask(now, id, Batch { client: WATCHER, commands });
    let mut shown = Vec::new();
    broker.run(now, &mut shown).expect("nothing kills it");
    broker.ask(now, id, Batch { client: WATCHER, commands: vec![Command::Disconnect] });
    broker.run(now, &mut Vec::new()).expect("nothing kills it");
    Answers::of(&Broker::shown_to(&shown, id, WATCHER))
}
