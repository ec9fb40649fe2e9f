//! Limits of one namespace over the wire: the last thing that is allowed, the first that is refused, and that there is room again.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use amqp_codec::{
    message::{BATCH_FORMAT, MessageBuilder},
    performative::{Attach, DeliveryState, Error, Open, Source, Target, TargetTerminus, Transfer},
    raw::AnnotationValue,
    sections::PropertyField,
    types::{ReceiverSettleMode, Role},
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use bytes::Bytes;
use serde_json::json;
use testkit::Script;

use crate::{
    broker::QUEUE,
    client::Client,
    dialect::{Dialect, Sdk, modified},
    message::{batch, long_text, message, renewal},
    numbers::{outcome, schedule},
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    team::{Team, broker, plain_response},
    testing::advance,
    transactions::{coordinate, declare, discharge, refusal_within, within},
};

mod dynamic_nodes;
pub(crate) mod in_flight;
mod session_states;

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);
const SERVICE_BUS: [(&str, &Dialect); 3] = [(".NET", &DOTNET), ("Go", &GO), ("Java", &JAVA)];

/// The error of a message that was refused.
pub(crate) fn refusal(state: Option<DeliveryState>) -> Error {
    match state {
        Some(DeliveryState::Rejected(Some(error))) => *error,
        other => panic!("not refused: {other:?}"),
    }
}

/// Condition or status of a refusal, and its text.
pub(crate) type Refused = (String, String);

pub(crate) fn of_error(error: Error) -> Refused {
    (error.condition.to_string(), error.description.unwrap_or_default())
}

/// Attaches a link, and says with which error it was refused, if it was.
pub(crate) fn attach<S: Read + Write>(
    client: &mut Client<S>,
    channel: u16,
    attach: Attach,
) -> Result<(), Refused> {
    client.wire.script.attach(channel, attach);
    let answer = client.wire.attached().unwrap();
    if answer.source.is_some() && answer.target.is_some() {
        return Ok(());
    }
    Err(of_error(client.wire.detached().unwrap().error.unwrap()))
}

pub(crate) fn link(role: Role, entity: &str) -> Attach {
    let mut attach = Attach::new("link", 9, role);
    let (source, target) = if role == Role::Sender { ("here", entity) } else { (entity, "here") };
    (attach.source, attach.target) = (Some(Source::new(source)), Some(Target::new(target)));
    attach.initial_delivery_count = (role == Role::Sender).then_some(0);
    attach
}

fn plain_attach(team: &Team<'_>, role: Role, entity: &str) -> Result<(), Refused> {
    attach(&mut team.plain(), 0, link(role, entity))
}

fn sdk_attach(team: &Team<'_>, dialect: &Dialect, entity: &str) -> Result<(), Refused> {
    let mut sdk = team.sdk(dialect);
    sdk.authorize(entity);
    let channel = sdk.session();
    attach(&mut sdk.client, channel, link(Role::Sender, &(dialect.address)(entity)))
}

fn put(team: &Team<'_>, element: &str, path: &str) -> Result<(), Refused> {
    match team.create_entity(path, element) {
        (201, _) => Ok(()),
        (status, text) => Err((status.to_string(), text)),
    }
}

/// A way in which a client creates the entity of this name.
type Way = fn(&Team<'_>, &str) -> Result<(), Refused>;

pub(crate) const REFUSED: &str = "amqp:resource-limit-exceeded";

#[test]
fn an_entity_beyond_the_limit_is_refused_however_it_is_created_until_another_is_deleted() {
    let ways: [(&str, Way, &str); 8] = [
        ("a queue over HTTP", |team, name| put(team, "QueueDescription", name), "403"),
        ("a topic over HTTP", |team, name| put(team, "TopicDescription", name), "403"),
        (
            "a subscription over HTTP",
            |team, name| put(team, "SubscriptionDescription", &format!("news/Subscriptions/{name}")),
            "403",
        ),
        ("a plain sender", |team, name| plain_attach(team, Role::Sender, name), REFUSED),
        ("a plain receiver", |team, name| plain_attach(team, Role::Receiver, name), REFUSED),
        (".NET", |team, name| sdk_attach(team, &DOTNET, name), REFUSED),
        ("Go", |team, name| sdk_attach(team, &GO, name), REFUSED),
        ("Java", |team, name| sdk_attach(team, &JAVA, name), REFUSED),
    ];
    let broker = broker();
    let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
    assert_eq!(put(&team, "TopicDescription", "news"), Ok(()));
    assert_eq!(put(&other, "TopicDescription", "news"), Ok(()));
    team.limit(&json!({ "max_entities": 2 }));
    assert_eq!(team.limit_metric("max_entities"), Some(2));
    assert_eq!(other.limit_metric("max_entities"), None);
    for (case, way, status) in ways {
        assert_eq!(way(&team, "last"), Ok(()), "{case}");
        for _ in 0..2 {
            let (told, text) = way(&team, "beyond").expect_err(case);
            assert!(
                told == status && text.contains("limit of 2 entities is reached"),
                "{case}: {told} {text}"
            );
            assert!(status != "403" || text.contains("SubCode=40300"), "{case}: {text}");
        }
        assert_eq!((team.usage("entities"), team.metric("entities")), (2, Some(2)), "{case}");
        assert_eq!(way(&other, "beyond"), Ok(()), "another namespace has no limit: {case}");
        let path = if case.contains("subscription") { "news/Subscriptions/" } else { "" };
        assert_eq!(team.ask(&format!("DELETE /{path}last"), "").0, 200, "{case}");
        assert_eq!(way(&team, "beyond"), Ok(()), "there is room again: {case}");
        for team in [&team, &other] {
            assert_eq!(team.ask(&format!("DELETE /{path}beyond"), "").0, 200, "{case}");
        }
    }
}

/// A client that sends and receives messages of a queue.
pub(crate) enum Peer<'d, S = TcpStream> {
    Plain(Client<S>),
    /// With the channels of sender and receiver.
    Sdk(Box<Sdk<'d, S>>, u16, u16),
}

impl<'d> Peer<'d> {
    pub(crate) fn new(team: &Team<'_>, dialect: Option<&'d Dialect>) -> Self {
        match dialect {
            None => Self::plain(team.plain()),
            Some(dialect) => Self::sdk(team.sdk(dialect)),
        }
    }
}

impl<'d, S: Read + Write> Peer<'d, S> {
    /// A plain client with a session on channel 0.
    pub(crate) fn plain(mut client: Client<S>) -> Self {
        client.sender(2, QUEUE);
        client.receiver(3, QUEUE, SECOND);
        Self::Plain(client)
    }

    /// A client of Service Bus.
    pub(crate) fn sdk(sdk: Sdk<'d, S>) -> Self {
        let mut sdk = Box::new(sdk);
        let sender = sdk.sender(QUEUE);
        let receiver = sdk.receiver(QUEUE, 3, sdk.dialect.locking);
        Self::Sdk(sdk, sender, receiver)
    }

    pub(crate) fn offer(&mut self, format: u32, payload: &Bytes) -> Option<DeliveryState> {
        match self {
            Self::Plain(client) => {
                client.send(2, false, payload);
                client.wire.disposed().unwrap().state
            }
            Self::Sdk(sdk, sender, _) => sdk.offer(*sender, format, payload),
        }
    }

    /// Receives as many messages, and settles each with one of these outcomes.
    pub(crate) fn settle(&mut self, outcomes: &[DeliveryState]) {
        let count = u32::try_from(outcomes.len()).unwrap();
        let (client, channel) = match self {
            Self::Plain(client) => (client, 0),
            Self::Sdk(sdk, _, receiver) => (&mut sdk.client, *receiver),
        };
        client.credit_on(channel, 3, count, false);
        let deliveries: Vec<_> = (0..count).map(|_| client.delivery(3)).collect();
        for (delivery, outcome) in deliveries.iter().zip(outcomes) {
            let answer = client.outcome(channel, delivery.id(), outcome.clone());
            let same =
                std::mem::discriminant(answer.state.as_ref().unwrap()) == std::mem::discriminant(outcome);
            let is_error = matches!(answer.state, Some(DeliveryState::Rejected(Some(_))));
            assert!(same && !is_error, "{outcome:?}: {answer:?}");
        }
    }
}

/// All dialects: `None` is plain AMQP.
fn dialects() -> impl Iterator<Item = (&'static str, Option<&'static Dialect>)> {
    [("plain", None)].into_iter().chain(SERVICE_BUS.map(|(name, dialect)| (name, Some(dialect))))
}

#[test]
fn sends_are_refused_once_the_bytes_are_reached_until_a_message_is_settled() {
    for (case, dialect) in dialects() {
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        let mut peer = Peer::new(&team, dialect);
        let large = message(&long_text(4_000));
        assert_eq!(peer.offer(0, &large), Some(DeliveryState::Accepted), "{case}");
        // One byte of room is room for one message.
        let limit = team.usage("bytes") + 1;
        team.limit(&json!({ "max_bytes": limit }));
        assert_eq!(team.limit_metric("max_bytes"), Some(limit));
        assert_eq!(peer.offer(0, &large), Some(DeliveryState::Accepted), "the last one: {case}");
        for (format, payload) in [(0, message("m")), (BATCH_FORMAT, batch(&[message("m")]))] {
            let (condition, text) = of_error(refusal(peer.offer(format, &payload)));
            assert_eq!(condition, REFUSED, "{case}: {text}");
            let expected = format!("holds {} bytes and takes at most {limit}", team.usage("bytes"));
            assert!(text.contains(&expected), "{case}: {text}");
        }
        assert_eq!(team.metric("live_bytes"), Some(team.usage("bytes")), "{case}");
        assert!(team.usage("bytes") > limit, "{case}");
        let mut others = Peer::new(&other, dialect);
        assert_eq!(others.offer(0, &large), Some(DeliveryState::Accepted), "another namespace: {case}");
        peer.settle(&[DeliveryState::Accepted]);
        assert_eq!(peer.offer(0, &message("m")), Some(DeliveryState::Accepted), "room again: {case}");
        // Not a byte of room.
        team.limit(&json!({ "max_bytes": team.usage("bytes") }));
        assert_eq!(refusal(peer.offer(0, &message("m"))).condition, REFUSED, "{case}");
        team.limit(&json!({ "max_bytes": team.usage("bytes") + 1 }));
        assert_eq!(peer.offer(0, &message("m")), Some(DeliveryState::Accepted), "{case}");
        team.limit(&json!({}));
        assert_eq!(peer.offer(0, &large), Some(DeliveryState::Accepted), "no limit any more: {case}");
    }
}

#[test]
fn at_the_limit_of_bytes_a_topic_refuses_as_a_queue_does_and_a_transaction_is_rolled_back() {
    for (case, dialect) in [("plain", None), (".NET", Some(&DOTNET))] {
        let broker = broker();
        let team = Team::create(&broker, "team-a");
        assert_eq!(put(&team, "TopicDescription", "news"), Ok(()));
        assert_eq!(put(&team, "SubscriptionDescription", "news/Subscriptions/all"), Ok(()));
        let mut peer = Peer::new(&team, dialect);
        assert_eq!(peer.offer(0, &message(&long_text(2_000))), Some(DeliveryState::Accepted), "{case}");
        let publish = |payload: &Bytes| match dialect {
            None => {
                let mut client = team.plain();
                client.sender(1, "news");
                client.send(1, false, payload);
                client.wire.disposed().unwrap().state
            }
            Some(dialect) => {
                let mut sdk = team.sdk(dialect);
                let channel = sdk.sender("news");
                sdk.offer(channel, 0, payload)
            }
        };
        let mut writer = team.plain();
        coordinate(&mut writer, 0, Source::new("me"));
        writer.sender(1, QUEUE);
        team.limit(&json!({ "max_bytes": team.usage("bytes") }));
        assert_eq!(refusal(publish(&message("m"))).condition, REFUSED, "{case}");
        let txn = declare(&mut writer, 0);
        let transfer =
            |id| Transfer { state: Some(within(&txn, None)), ..Script::transfer_frame(1, id, false) };
        writer.send_with(0, transfer, &message("m"));
        let told = writer.wire.disposed().unwrap().state;
        assert_eq!(refusal_within(&txn, told).condition, REFUSED, "{case}");
        let told = refusal(Some(discharge(&mut writer, 0, &txn, false)));
        assert_eq!(told.condition, "amqp:transaction:rollback", "{case}");
        peer.settle(&[DeliveryState::Accepted]);
        assert_eq!(publish(&message("m")), Some(DeliveryState::Accepted), "room again: {case}");
    }
}

#[test]
fn a_connection_beyond_the_limit_is_refused_until_one_ends() {
    let plain = plain_response(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY);
    for (case, dialect) in dialects() {
        // Go takes a connection that is closed with another condition for open.
        let condition = if case == "Go" { "amqp:connection:forced" } else { REFUSED };
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        team.limit(&json!({ "max_connections": 2 }));
        let enter = || Peer::new(&team, dialect);
        let (mut first, second) = (enter(), enter());
        for count in 1..=2 {
            let (sasl, open) = dialect
                .map_or_else(|| (("PLAIN", Some(&*plain)), Open::new("c")), |it| (it.sasl, (it.open)()));
            let (told, text) = of_error(team.closed_with(sasl, open));
            assert_eq!(told, condition, "{case}: {text}");
            let expected =
                "ConnectionsQuotaExceeded for namespace: 'team-a' has 2 connections, as many as it may";
            assert!(text.contains(expected), "{case}: {text}");
            assert_eq!(team.metric("connections_refused_total"), Some(count), "{case}");
        }
        assert_eq!(team.metric("connections"), Some(2), "{case}");
        assert_eq!(team.limit_metric("max_connections"), Some(2), "{case}");
        // Open connections go on, and so do HTTP and the other namespace.
        assert_eq!(first.offer(0, &message("m")), Some(DeliveryState::Accepted), "{case}");
        assert_eq!(team.ask(&format!("GET /{QUEUE}"), "").0, 200, "{case}");
        drop(Peer::new(&other, dialect));
        assert_eq!(other.metric("connections_refused_total"), Some(0), "{case}");
        drop(second);
        team.uses_at_last("connections", 1);
        let mut third = enter();
        assert_eq!(third.offer(0, &message("m")), Some(DeliveryState::Accepted), "{case}");
    }
}

#[test]
fn sends_beyond_the_rate_are_answered_later_and_none_is_refused() {
    for (case, dialect) in dialects() {
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        team.limit(&json!({ "max_sends_per_second": 2 }));
        assert_eq!(team.limit_metric("max_sends_per_second"), Some(2));
        let mut peer = Peer::new(&team, dialect);
        let one = message("m");
        // Messages of one second may come at once.
        for _ in 0..2 {
            assert_eq!(peer.offer(0, &one), Some(DeliveryState::Accepted), "{case}");
        }
        assert_eq!(team.metric("send_waits_total"), Some(0), "{case}");
        // The rate begins anew with the limit. Two messages at once are one second more than it allows.
        team.limit(&json!({ "max_sends_per_second": 1 }));
        let begun = Instant::now();
        match &mut peer {
            Peer::Plain(client) => client.accepted(2, &["1", "2"]),
            Peer::Sdk(sdk, sender, _) => sdk.send(*sender, BATCH_FORMAT, &batch(&[one.clone(), one.clone()])),
        }
        assert_eq!(team.metric("send_waits_total"), Some(1), "{case}");
        assert_eq!(peer.offer(0, &one), Some(DeliveryState::Accepted), "{case}");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{case}: {:?}", begun.elapsed());
        let mut others = Peer::new(&other, dialect);
        for _ in 0..3 {
            assert_eq!(others.offer(0, &one), Some(DeliveryState::Accepted), "another namespace: {case}");
        }
        assert_eq!(other.metric("send_waits_total"), Some(0), "{case}");
    }
}

fn with_id(id: &str) -> Bytes {
    MessageBuilder::new().property(PropertyField::MessageId, AnnotationValue::Str(id)).data(b"m").build()
}

#[test]
fn an_id_beyond_those_that_are_remembered_is_refused_until_one_is_forgotten() {
    let detecting = "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><QueueDescription \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">\
         <RequiresDuplicateDetection>true</RequiresDuplicateDetection>\
         <DuplicateDetectionHistoryTimeWindow>PT1M</DuplicateDetectionHistoryTimeWindow>\
         </QueueDescription></content></entry>";
    for (case, dialect) in dialects() {
        let broker = broker();
        let team = Team::create(&broker, "team-a");
        let created = team.ask(&format!("PUT /{QUEUE}?api-version=2021-05"), detecting);
        assert_eq!(created.0, 201, "{}", created.1);
        team.limit(&json!({ "max_remembered_ids": 2 }));
        assert_eq!(team.limit_metric("max_remembered_ids"), Some(2));
        let mut peer = Peer::new(&team, dialect);
        for id in ["1", "2", "2"] {
            assert_eq!(peer.offer(0, &with_id(id)), Some(DeliveryState::Accepted), "{id}: {case}");
        }
        let (condition, text) = of_error(refusal(peer.offer(0, &with_id("3"))));
        assert_eq!(condition, "com.microsoft:server-busy", "{case}: {text}");
        assert!(text.contains('2'), "{case}: {text}");
        peer.settle(&[DeliveryState::Accepted, DeliveryState::Accepted]);
        assert!(matches!(peer.offer(0, &with_id("3")), Some(DeliveryState::Rejected(_))), "ids stay: {case}");
        advance(broker.address, Duration::from_secs(120));
        assert_eq!(peer.offer(0, &with_id("3")), Some(DeliveryState::Accepted), "{case}");
    }
}

#[test]
fn limits_below_what_is_there_refuse_what_is_new_and_disturb_nothing_else() {
    for (case, dialect) in dialects() {
        let broker = broker();
        let team = Team::create(&broker, "team-a");
        let mut peer = Peer::new(&team, dialect);
        let mut other = Peer::new(&team, Some(&DOTNET));
        let mut manager = team.sdk(&GO);
        let node = manager.management();
        for name in ["second", "third"] {
            assert_eq!(put(&team, "QueueDescription", name), Ok(()));
        }
        for number in 0..6 {
            let sent = peer.offer(0, &message(&format!("{number}{}", long_text(500))));
            assert_eq!(sent, Some(DeliveryState::Accepted), "{case}");
        }
        team.limit(&json!({
            "max_entities": 1, "max_bytes": 1_024, "max_connections": 1, "max_in_flight_bytes": 1 << 20,
            "max_remembered_ids": 0, "max_sends_per_second": 1_000,
        }));
        assert_eq!((team.usage("entities"), team.usage("connections")), (3, 3), "{case}");
        assert!(team.usage("bytes") > 1_024, "{case}");
        // Nothing new of any kind.
        let open = Open::new("new");
        let response = plain_response(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY);
        assert_eq!(team.closed_with(("PLAIN", Some(&response)), open).condition, REFUSED, "{case}");
        let (told, text) = put(&team, "QueueDescription", "fourth").unwrap_err();
        assert!(told == "403" && text.contains("limit of 1 entities"), "{case}: {told} {text}");
        for peer in [&mut peer, &mut other] {
            assert_eq!(refusal(peer.offer(0, &message("new"))).condition, REFUSED, "{case}");
        }
        let later = schedule(&["new"], Duration::from_secs(3_600));
        let scheduled = outcome(&manager.manage(node, "com.microsoft:schedule-message", &later));
        assert_eq!(scheduled, (403, Some(REFUSED.to_owned())), "{case}");
        // Stored messages are received, settled in each way and locked on; entities are changed and deleted.
        let outcomes = match dialect {
            None => [modified(Some(true), None), DeliveryState::Released, DeliveryState::Rejected(None)],
            Some(dialect) => [(dialect.abandon)(), (dialect.defer)(), (dialect.dead_letter)()],
        };
        peer.settle(&outcomes);
        let Peer::Sdk(sdk, _, receiver) = &mut other else { unreachable!("it is .NET") };
        let locked = sdk.receive(*receiver, 3, 1).remove(0);
        let renewed = manager.manage(node, "com.microsoft:renew-lock", &renewal(&[locked.lock_token()]));
        assert_eq!(outcome(&renewed).0, 200, "{case}");
        sdk.settle(*receiver, &locked, DeliveryState::Accepted);
        let element = "QueueDescription";
        let request = "PUT /third?api-version=2021-05 HTTP/1.1\r\nIf-Match: *\r\nX-Rest:";
        let (status, text) = team.ask(request, &crate::team::description(element));
        assert_eq!(status, 200, "{case}: {text}");
        for name in ["second", "third"] {
            assert_eq!(team.ask(&format!("DELETE /{name}"), "").0, 200, "{case}");
        }
        // One entity is as many as there may be.
        assert!(put(&team, element, "fourth").is_err(), "{case}");
        // Of six messages one is a dead letter and one is completed; of Service Bus one is deferred.
        peer.settle(&vec![DeliveryState::Accepted; if dialect.is_some() { 3 } else { 4 }]);
        drop((other, manager));
        team.uses_at_last("connections", 1);
        team.limit(&json!({}));
        assert_eq!(peer.offer(0, &message("new")), Some(DeliveryState::Accepted), "{case}");
        assert_eq!(put(&team, element, "fourth"), Ok(()), "{case}");
    }
}
