//! Requests whose results depend on what was delivered or forwarded before: each is the only one of its namespace in its round.

use std::time::Duration;

use broker_core::{
    Batch, Command, EntityPath, EntityQuery, EntitySettings, EntityStatus, Rule, SequenceNumber,
    SessionWanted, SubQueue, Ticket, Timestamp,
};
use proptest::prelude::*;

use crate::tenant::{
    COPIES_LINK, DEAD_LETTER_LINK, ENTITIES, NEWS_COPIES, SESSION_LINK, SESSIONS, TRANSIT, Tenant, VISITS,
    client, create, own_link, path, publish, receive, session, settings,
};

/// Most messages that one request names or deletes.
const MANY: usize = 4;

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create {
        place: usize,
    },
    Delete {
        place: usize,
    },
    Update {
        place: usize,
        update: Update,
    },
    OpenDeadLetters,
    /// Receive from the entity with sessions: from this one, or from the next one that is free.
    OpenSession {
        session: Option<usize>,
    },
    RenewSession {
        session: usize,
    },
    /// Close one of the receivers, in order or not.
    Close {
        receiver: usize,
        leaves: bool,
    },
    Drain {
        receiver: usize,
    },
    /// Fetch deferred messages, or some by numbers.
    Fetch {
        nth: usize,
        count: usize,
        deletes: bool,
    },
    FetchNumber {
        place: usize,
        number: u64,
        deletes: bool,
    },
    DeleteMessages {
        place: usize,
        dead: bool,
        session: Option<usize>,
        count: usize,
        ago_ms: u64,
    },
    Peek {
        place: usize,
        dead: bool,
        session: Option<usize>,
        from: u64,
        count: u32,
    },
    /// Send what is forwarded.
    Forward {
        count: usize,
        bytes: usize,
    },
    AddRule {
        rule: usize,
    },
    UpdateRule {
        rule: usize,
    },
    RemoveRule {
        rule: usize,
    },
    ShowRules {
        rule: Option<usize>,
    },
    ListSessions,
    GetState {
        session: usize,
        looks_on: bool,
    },
    Describe,
    Find {
        place: usize,
    },
}

/// A change of an entity's properties; the others become those that it was created with.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    Nothing,
    Status(EntityStatus),
    LockMillis(u64),
    Deliveries(u32),
    DeadLettersExpired,
    /// It keeps what it forwards otherwise.
    ForwardsNothing,
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    let place = || 0..ENTITIES.len();
    let rule = || 0_usize..3;
    let receiver = || 0_usize..3;
    let some_session = || prop::option::weighted(0.3, 0..SESSIONS);
    let deletion = (place(), any::<bool>(), some_session(), 0..MANY, prop_oneof![Just(0_u64), 0_u64..2_000]);
    let look = (place(), any::<bool>(), some_session(), 0_u64..6, 1_u32..20);
    prop_oneof![
        3 => place().prop_map(|place| Request::Create { place }),
        1 => (2..ENTITIES.len()).prop_map(|place| Request::Delete { place }),
        4 => (place(), update()).prop_map(|(place, update)| Request::Update { place, update }),
        2 => Just(Request::OpenDeadLetters),
        5 => prop::option::weighted(0.7, 0..SESSIONS).prop_map(|session| Request::OpenSession { session }),
        2 => (0..SESSIONS).prop_map(|session| Request::RenewSession { session }),
        1 => (receiver(), any::<bool>()).prop_map(|(receiver, leaves)| Request::Close { receiver, leaves }),
        1 => receiver().prop_map(|receiver| Request::Drain { receiver }),
        3 => (any::<usize>(), 1..MANY, any::<bool>())
            .prop_map(|(nth, count, deletes)| Request::Fetch { nth, count, deletes }),
        1 => (place(), 1_u64..9, any::<bool>())
            .prop_map(|(place, number, deletes)| Request::FetchNumber { place, number, deletes }),
        2 => deletion.prop_map(|(place, dead, session, count, ago_ms)| {
            Request::DeleteMessages { place, dead, session, count, ago_ms }
        }),
        1 => look.prop_map(|(place, dead, session, from, count)| {
            Request::Peek { place, dead, session, from, count }
        }),
        4 => (1..MANY, 0_usize..900).prop_map(|(count, bytes)| Request::Forward { count, bytes }),
        2 => rule().prop_map(|rule| Request::AddRule { rule }),
        1 => rule().prop_map(|rule| Request::UpdateRule { rule }),
        2 => rule().prop_map(|rule| Request::RemoveRule { rule }),
        1 => prop::option::of(rule()).prop_map(|rule| Request::ShowRules { rule }),
        1 => Just(Request::ListSessions),
        2 => (0..SESSIONS, any::<bool>())
            .prop_map(|(session, looks_on)| Request::GetState { session, looks_on }),
        1 => Just(Request::Describe),
        1 => place().prop_map(|place| Request::Find { place }),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let status = prop_oneof![
        Just(EntityStatus::Disabled),
        Just(EntityStatus::SendDisabled),
        Just(EntityStatus::ReceiveDisabled),
    ];
    prop_oneof![
        3 => Just(Update::Nothing),
        1 => status.prop_map(Update::Status),
        1 => (1_000_u64..90_000).prop_map(Update::LockMillis),
        1 => (1_u32..4).prop_map(Update::Deliveries),
        1 => Just(Update::DeadLettersExpired),
        1 => Just(Update::ForwardsNothing),
    ]
}

impl Update {
    fn apply(&self, settings: EntitySettings) -> EntitySettings {
        match self {
            Self::Nothing => settings,
            Self::Status(status) => EntitySettings { status: *status, ..settings },
            Self::LockMillis(millis) => {
                EntitySettings { lock_duration: Duration::from_millis(*millis), ..settings }
            }
            Self::Deliveries(most) => EntitySettings { max_delivery_count: *most, ..settings },
            Self::DeadLettersExpired => EntitySettings { dead_letter_on_expiration: true, ..settings },
            Self::ForwardsNothing => EntitySettings { forward_to: None, ..settings },
        }
    }
}

/// A rule that lets everything in; the first is the one that a subscription has from its beginning.
fn rule(number: usize) -> Rule {
    let all = Rule::default_rule();
    if number == 0 { all } else { Rule { name: format!("rule-{number}").into(), ..all } }
}

fn sub_path(place: usize, dead: bool) -> EntityPath {
    let sub_queue = if dead { SubQueue::DeadLetter } else { SubQueue::Main };
    EntityPath { sub_queue, ..path(place) }
}

fn of_rule(request: &Request, ticket: Ticket) -> Option<Command> {
    let path = path(NEWS_COPIES);
    Some(match *request {
        Request::AddRule { rule: which } => Command::AddRule { path, rule: Box::new(rule(which)), ticket },
        Request::UpdateRule { rule: which } => {
            Command::UpdateRule { path, rule: Box::new(rule(which)), expected: None, ticket }
        }
        Request::RemoveRule { rule: which } => {
            Command::RemoveRule { path, name: rule(which).name, expected: None, ticket }
        }
        Request::ShowRules { rule: None } => Command::ListRules { path, skip: 0, top: 9, ticket },
        Request::ShowRules { rule: Some(which) } => {
            Command::ShowRule { path, name: rule(which).name, ticket }
        }
        _ => return None,
    })
}

fn of_session(request: &Request, ticket: Ticket) -> Option<Command> {
    let path = path(VISITS);
    Some(match *request {
        Request::RenewSession { session: which } => {
            Command::RenewSession { path, session: session(which), ticket }
        }
        Request::GetState { session: which, looks_on } => {
            Command::GetSessionState { path, session: session(which), looks_on, ticket }
        }
        Request::ListSessions => {
            Command::ListSessions { path, updated_after: None, after: None, skip: 0, top: 9, ticket }
        }
        _ => return None,
    })
}

impl Tenant {
    /// The request of one client as commands of this namespace; most are one.
    pub(crate) fn request(&mut self, now: u64, number: usize, request: &Request, ticket: Ticket) -> Batch {
        let receivers = [own_link(number), SESSION_LINK, COPIES_LINK];
        let commands = match *request {
            Request::Create { place } => vec![create(place, ticket)],
            Request::Delete { place } => {
                vec![Command::DeleteEntity { name: ENTITIES[place].into(), expected: None, ticket }]
            }
            Request::Update { place, ref update } => {
                let settings = Box::new(update.apply(settings(place)));
                vec![Command::UpdateEntity { name: ENTITIES[place].into(), settings, expected: None, ticket }]
            }
            Request::OpenDeadLetters => receive(DEAD_LETTER_LINK, sub_path(number, true), None).into(),
            Request::OpenSession { session: which } => {
                let next = SessionWanted::Next { patience: Duration::ZERO };
                let wanted = which.map_or(next, |which| SessionWanted::Named(session(which)));
                receive(SESSION_LINK, path(VISITS), Some(wanted)).into()
            }
            Request::Close { receiver, leaves: true } => {
                vec![Command::LeaveConsumer { consumer: receivers[receiver] }]
            }
            Request::Close { receiver, leaves: false } => {
                vec![Command::CloseConsumer { consumer: receivers[receiver] }]
            }
            Request::Drain { receiver } => {
                vec![Command::Credit { consumer: receivers[receiver], limit: u64::MAX, drain: true }]
            }
            Request::Fetch { nth, count, deletes } => self.fetch(nth, count, deletes, ticket),
            Request::FetchNumber { place, number, deletes } => {
                vec![self.fetch_from(place, vec![SequenceNumber(number)], deletes, ticket)]
            }
            Request::DeleteMessages { place, dead, session: which, count, ago_ms } => {
                let (path, before) = (sub_path(place, dead), Timestamp::from_millis(now + 1 - ago_ms));
                let (session, count) = (which.map(session), u32::try_from(count).unwrap());
                vec![Command::DeleteMessages { path, session, count, before, ticket }]
            }
            Request::Peek { place, dead, session: which, from, count } => {
                let (path, session, from) = (sub_path(place, dead), which.map(session), SequenceNumber(from));
                vec![Command::Peek { path, session, from, count, bytes: u64::MAX, ticket }]
            }
            Request::Forward { count, bytes } => vec![publish(TRANSIT, count, bytes, None, ticket)],
            Request::AddRule { .. }
            | Request::UpdateRule { .. }
            | Request::RemoveRule { .. }
            | Request::ShowRules { .. } => of_rule(request, ticket).into_iter().collect(),
            Request::RenewSession { .. } | Request::ListSessions | Request::GetState { .. } => {
                of_session(request, ticket).into_iter().collect()
            }
            Request::Describe => {
                let query = EntityQuery::All { after: "".into(), top: 99 };
                vec![Command::Describe { query, ticket }]
            }
            Request::Find { place } => {
                let path = path(place);
                vec![Command::FindEntity { path, or_below: false, auto_create: false, ticket }]
            }
        };
        Batch { client: client(number), commands }
    }

    /// Fetches deferred messages of one entity.
    fn fetch(&mut self, nth: usize, count: usize, deletes: bool, ticket: Ticket) -> Vec<Command> {
        let Some(nth) = nth.checked_rem(self.deferred.len()) else { return Vec::new() };
        let place = self.deferred[nth].0;
        let own = self.deferred[nth..].iter().filter(|(other, _)| *other == place);
        let numbers = own.map(|(_, number)| *number).take(count).collect();
        vec![self.fetch_from(place, numbers, deletes, ticket)]
    }

    fn fetch_from(
        &mut self,
        place: usize,
        sequences: Vec<SequenceNumber>,
        delete: bool,
        ticket: Ticket,
    ) -> Command {
        self.asked.insert(ticket, place);
        // Those of an entity with sessions are of one of them.
        let session = (place == VISITS).then(|| session(usize::from(ticket.0 / 100 % 2 == 1)));
        Command::ReceiveDeferred { path: path(place), session, sequences, delete, bytes: u64::MAX, ticket }
    }
}
