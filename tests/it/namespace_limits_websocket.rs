//! Limits of one namespace for clients of AMQP over WebSocket: the upgrade is granted, and the limit is told over AMQP.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use amqp_codec::{
    message::BATCH_FORMAT,
    performative::{DeliveryState, Error, Open, Performative},
    types::Role,
};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use serde_json::json;
use testkit::Wire;

use crate::{
    broker::{Broker, Folder},
    client::Client,
    dialect::{Dialect, Sdk},
    http::connect,
    message::{batch, long_text, message},
    namespace_limits::{
        Peer, REFUSED, Refused, attach,
        in_flight::{broker_on_disk, look_while_clients_send},
        link, of_error, refusal,
    },
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    team::{Team, broker, plain_response},
    websocket::WebSocket,
};

/// A client, with the path and the protocol of its upgrade.
struct Caller {
    name: &'static str,
    /// `None` is plain AMQP.
    dialect: Option<&'static Dialect>,
    path: &'static str,
    protocol: &'static str,
}

const CALLERS: [Caller; 4] = [
    Caller { name: "plain", dialect: None, path: "/", protocol: "amqp" },
    Caller { name: ".NET", dialect: Some(&DOTNET), path: "/$servicebus/websocket/", protocol: "amqp" },
    Caller { name: "Go", dialect: Some(&GO), path: "/$servicebus/websocket", protocol: "amqp" },
    Caller { name: "Java", dialect: Some(&JAVA), path: "/$servicebus/websocket", protocol: "AMQPWSB10" },
];

/// Bytes of one WebSocket message. The broker takes none of more than a MiB.
const MESSAGE_BYTES: usize = 32 << 10;

impl Caller {
    /// A WebSocket to the host of the namespace. It is an error of the test if the upgrade is refused.
    fn wire(&self, broker: &Broker, team: &Team<'_>) -> Wire<WebSocket<TcpStream>> {
        let stream = connect(broker.address);
        Wire::over(WebSocket::upgrade_for(&team.host(), stream, self.path, self.protocol, MESSAGE_BYTES))
    }

    /// The open of the client. Only the upgrade names the host.
    fn open(&self) -> Open {
        let open = self.dialect.map_or_else(|| Open::new("client"), |dialect| (dialect.open)());
        Open { hostname: None, ..open }
    }

    /// A client with links to the queue.
    fn enter(&self, broker: &Broker, team: &Team<'_>) -> Peer<'static, WebSocket<TcpStream>> {
        let mut wire = self.wire(broker, team);
        let Some(dialect) = self.dialect else {
            wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open_with(self.open()).begin(0);
            wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
            return Peer::plain(Client::on(wire));
        };
        Peer::sdk(Sdk::open_over(wire, dialect, Open { hostname: Some(team.host()), ..self.open() }))
    }

    /// The error of the close with which the client is answered.
    fn closed_with(&self, broker: &Broker, team: &Team<'_>) -> Error {
        let mut wire = self.wire(broker, team);
        let plain = plain_response(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY);
        let (mechanism, response) = self.dialect.map_or(("PLAIN", Some(&*plain)), |dialect| dialect.sasl);
        wire.script.sasl(mechanism, response).open_with(self.open());
        wire.closed().unwrap().error.expect("the connection is refused")
    }
}

#[test]
fn over_websocket_a_connection_beyond_the_limit_is_upgraded_and_closed_until_one_ends() {
    for caller in CALLERS {
        let case = caller.name;
        // Go takes a connection that is closed with another condition for open.
        let condition = if case == "Go" { "amqp:connection:forced" } else { REFUSED };
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        team.limit(&json!({ "max_connections": 2 }));
        // Connections over TCP count in the same limit.
        let (mut first, second) = (caller.enter(&broker, &team), Peer::new(&team, caller.dialect));
        for count in 1..=2 {
            let (told, text) = of_error(caller.closed_with(&broker, &team));
            assert_eq!(told, condition, "{case}: {text}");
            let expected =
                "ConnectionsQuotaExceeded for namespace: 'team-a' has 2 connections, as many as it may";
            assert!(text.contains(expected), "{case}: {text}");
            assert_eq!(team.metric("connections_refused_total"), Some(count), "{case}");
        }
        assert_eq!((team.metric("connections"), team.usage("connections")), (Some(2), 2), "{case}");
        assert_eq!(first.offer(0, &message("m")), Some(DeliveryState::Accepted), "{case}");
        drop(caller.enter(&broker, &other));
        assert_eq!(other.metric("connections_refused_total"), Some(0), "{case}");
        drop(second);
        team.uses_at_last("connections", 1);
        let mut third = caller.enter(&broker, &team);
        assert_eq!(third.offer(0, &message("m")), Some(DeliveryState::Accepted), "{case}");
        drop((first, third));
        team.uses_at_last("connections", 0);
    }
}

/// Has a client attach a link, which creates the entity.
fn create(peer: &mut Peer<'_, WebSocket<TcpStream>>, entity: &str) -> Result<(), Refused> {
    match peer {
        Peer::Plain(client) => {
            client.begin(1);
            let attached = attach(client, 1, link(Role::Sender, entity));
            client.wire.script.end(1);
            client.wire.ended().unwrap();
            attached
        }
        Peer::Sdk(sdk, ..) => {
            sdk.authorize(entity);
            let channel = sdk.session();
            let address = (sdk.dialect.address)(entity);
            attach(&mut sdk.client, channel, link(Role::Sender, &address))
        }
    }
}

#[test]
fn over_websocket_an_entity_beyond_the_limit_is_refused_until_another_is_deleted() {
    for caller in CALLERS {
        let case = caller.name;
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        let mut peer = caller.enter(&broker, &team);
        team.limit(&json!({ "max_entities": 2 }));
        assert_eq!(create(&mut peer, "last"), Ok(()), "{case}");
        for _ in 0..2 {
            let (told, text) = create(&mut peer, "beyond").expect_err(case);
            assert_eq!(told, REFUSED, "{case}: {text}");
            assert!(text.contains("limit of 2 entities is reached"), "{case}: {text}");
        }
        assert_eq!((team.usage("entities"), team.metric("entities")), (2, Some(2)), "{case}");
        assert_eq!(create(&mut caller.enter(&broker, &other), "beyond"), Ok(()), "{case}");
        assert_eq!(team.ask("DELETE /last", "").0, 200, "{case}");
        assert_eq!(create(&mut caller.enter(&broker, &team), "beyond"), Ok(()), "room again: {case}");
        assert_eq!(peer.offer(0, &message("m")), Some(DeliveryState::Accepted), "{case}");
    }
}

#[test]
fn over_websocket_sends_are_refused_once_the_bytes_are_reached_until_a_message_is_settled() {
    for caller in CALLERS {
        let case = caller.name;
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        let mut peer = caller.enter(&broker, &team);
        let large = message(&long_text(4_000));
        assert_eq!(peer.offer(0, &large), Some(DeliveryState::Accepted), "{case}");
        // One byte of room is room for one message.
        let limit = team.usage("bytes") + 1;
        team.limit(&json!({ "max_bytes": limit }));
        assert_eq!(peer.offer(0, &large), Some(DeliveryState::Accepted), "the last one: {case}");
        let used = team.usage("bytes");
        for (format, payload) in [(0, message("m")), (BATCH_FORMAT, batch(&[message("m")]))] {
            let (condition, text) = of_error(refusal(peer.offer(format, &payload)));
            assert_eq!(condition, REFUSED, "{case}: {text}");
            assert!(
                text.contains(&format!("holds {used} bytes and takes at most {limit}")),
                "{case}: {text}"
            );
        }
        assert_eq!(team.metric("live_bytes"), Some(used), "{case}");
        let sent = caller.enter(&broker, &other).offer(0, &large);
        assert_eq!(sent, Some(DeliveryState::Accepted), "another namespace: {case}");
        peer.settle(&[DeliveryState::Accepted]);
        assert_eq!(peer.offer(0, &message("m")), Some(DeliveryState::Accepted), "room again: {case}");
    }
}

#[test]
fn over_websocket_sends_beyond_the_rate_are_answered_later() {
    for caller in CALLERS {
        let case = caller.name;
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        let mut peer = caller.enter(&broker, &team);
        team.limit(&json!({ "max_sends_per_second": 1 }));
        assert_eq!(team.metric("send_waits_total"), Some(0), "{case}");
        let begun = Instant::now();
        let one = message("m");
        // Two messages at once are one second more than it allows.
        match &mut peer {
            Peer::Plain(client) => client.accepted(2, &["1", "2"]),
            Peer::Sdk(sdk, sender, _) => sdk.send(*sender, BATCH_FORMAT, &batch(&[one.clone(), one.clone()])),
        }
        assert_eq!(team.metric("send_waits_total"), Some(1), "{case}");
        assert_eq!(peer.offer(0, &one), Some(DeliveryState::Accepted), "{case}");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{case}: {:?}", begun.elapsed());
        let mut others = caller.enter(&broker, &other);
        for _ in 0..3 {
            assert_eq!(others.offer(0, &one), Some(DeliveryState::Accepted), "another namespace: {case}");
        }
        assert_eq!(other.metric("send_waits_total"), Some(0), "{case}");
    }
}

#[test]
fn over_websocket_what_is_more_than_may_be_in_flight_is_not_read_and_taken_in_its_turn() {
    let folder = Folder::new();
    let broker = broker_on_disk(&folder);
    let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
    look_while_clients_send((&team, &other), || {
        CALLERS.iter().chain(&CALLERS).map(|caller| caller.enter(&broker, &team)).collect()
    });
}
