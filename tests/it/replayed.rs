//! Recordings of .NET clients, played to the broker: `Microsoft.Azure.ServiceBus` 3.4.0 on `Microsoft.Azure.Amqp` 2.7.1, and
//! a driver on the same library that makes the calls of `Azure.Messaging.ServiceBus` 7.20.1 and is not that SDK.
//!
//! Each file of `replayed/` is what one connection said, and the answers for which its client waited. Where the broker of the
//! recording answered wrongly, the file says so and demands the right answer; what the client said only because of the wrong
//! one is left out.

use std::{
    io::{Read, Write},
    time::Duration,
};

use broker_auth::{
    Access, Anonymous, Authority, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, NamedKey, Right,
    Rights, Secret, sign_token,
};
use broker_core::{EntityKind, EntitySettings};
use broker_server::EntityPlan;
use testkit::{
    Wire,
    replay::{Environment, PlayError, Player, Recording},
};

use crate::{broker::Broker, http::connect, testing::advance, websocket::WebSocket};

mod tampered;

/// A key that may only send.
const SENDER_KEY: (&str, &str) = ("sender", "SENDKEY");

/// Entities of a recording by their paths: `/sessions` behind a path means that it requires sessions.
pub(crate) fn broker_with(paths: &[&str]) -> Broker {
    broker_limited(paths, None)
}

/// The same, where a message may have so many bytes.
fn broker_limited(paths: &[&str], max_message_bytes: Option<u64>) -> Broker {
    let plan = |path: &&str| {
        let (path, requires_session) = match path.strip_suffix("/sessions") {
            Some(path) => (path, true),
            None => (*path, false),
        };
        let kind = match path {
            path if path.contains("/Subscriptions/") => EntityKind::Subscription,
            path if path.starts_with('t') => EntityKind::Topic,
            _ => EntityKind::Queue,
        };
        let settings = EntitySettings { requires_session, ..EntitySettings::default() };
        EntityPlan { kind, ..EntityPlan::queue(path, settings) }
    };
    Broker::with(|config| {
        config.entities = paths.iter().map(plan).collect();
        config.auto_create = false;
        if let Some(bytes) = max_message_bytes {
            config.core.max_message_bytes = bytes;
        }
        let mut credentials = Credentials::development(Anonymous::Deny);
        credentials.keys.push(NamedKey {
            name: SENDER_KEY.0.to_owned(),
            primary: Secret::new(SENDER_KEY.1),
            secondary: None,
            access: Access::namespace(Rights::from_iter([Right::Send])),
        });
        config.authority = std::sync::Arc::new(Authority::new(credentials));
    })
}

/// The broker around a play.
pub(crate) struct Scene<'b> {
    pub(crate) broker: &'b Broker,
    /// The key that signs the tokens of the manager.
    pub(crate) key: &'static str,
}

impl<'b> Scene<'b> {
    pub(crate) fn of(broker: &'b Broker) -> Self {
        Self { broker, key: DEVELOPMENT_KEY }
    }
}

impl Environment for Scene<'_> {
    fn token(&mut self, key_name: &str, audience: &str) -> String {
        let key = if key_name == DEVELOPMENT_KEY_NAME { self.key } else { SENDER_KEY.1 };
        sign_token(audience, key_name, &Secret::new(key), u64::from(u32::MAX))
    }

    fn store(&mut self, entity: &str, message: &[u8]) {
        let mut client = self.broker.plain();
        client.sender(1, entity);
        client.send(1, false, message);
        let answer = client.wire.disposed().unwrap();
        assert_eq!(answer.state, Some(amqp_codec::performative::DeliveryState::Accepted));
        client.close();
    }

    fn advance(&mut self, millis: u64) {
        advance(self.broker.address, Duration::from_millis(millis));
    }
}

/// Plays a recording over a stream, to the end of the connection.
pub(crate) fn play_over(
    stream: impl Read + Write,
    scene: &mut Scene<'_>,
    text: &str,
) -> Result<(), PlayError> {
    let recording = Recording::read(text).unwrap();
    let mut player = Player::new(Wire::over(stream), "localhost", 1);
    player.play(&recording, scene)?;
    player.finish()
}

/// The same over TCP, to a broker with these entities; a failure is the test's.
fn replay(text: &str, paths: &[&str]) {
    let broker = broker_with(paths);
    play_over(connect(broker.address), &mut Scene::of(&broker), text)
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn replayed_sends_one_message() {
    replay(include_str!("replayed/01-send-one.replay"), &["q01"]);
}

#[test]
fn replayed_sends_and_receives_lists() {
    replay(include_str!("replayed/02-send-batch.replay"), &["q02"]);
}

#[test]
fn replayed_keeps_every_property_and_type() {
    replay(include_str!("replayed/03-properties.replay"), &["q03"]);
}

#[test]
fn replayed_settles_in_every_way() {
    replay(include_str!("replayed/04-settle.replay"), &["q04"]);
}

#[test]
fn replayed_receives_and_deletes() {
    replay(include_str!("replayed/05-receive-delete.replay"), &["q05"]);
}

#[test]
fn replayed_peeks() {
    replay(include_str!("replayed/06-peek.replay"), &["q06"]);
}

#[test]
fn replayed_schedules_and_cancels() {
    replay(include_str!("replayed/07-schedule-cancel.replay"), &["q07"]);
}

#[test]
fn replayed_receives_deferred_messages() {
    replay(include_str!("replayed/08-deferred.replay"), &["q08"]);
}

#[test]
fn replayed_renews_a_lock() {
    replay(include_str!("replayed/09-renew-lock.replay"), &["q09"]);
}

#[test]
fn replayed_keeps_a_session_and_its_state() {
    replay(include_str!("replayed/10-session.replay"), &["q10/sessions"]);
}

#[test]
fn replayed_waits_for_a_session() {
    replay(include_str!("replayed/11-no-session.replay"), &["q11/sessions"]);
}

#[test]
fn replayed_handles_messages() {
    replay(include_str!("replayed/13-handler.replay"), &["q13"]);
}

#[test]
fn replayed_handles_sessions() {
    replay(include_str!("replayed/14-session-handler.replay"), &["q14/sessions"]);
}

#[test]
fn replayed_manages_rules() {
    replay(include_str!("replayed/15-rules.replay"), &["t15", "t15/Subscriptions/sub"]);
}

#[test]
fn replayed_commits_a_transaction() {
    replay(include_str!("replayed/16-transaction-commit.replay"), &["q16"]);
}

#[test]
fn replayed_completes_after_a_rollback() {
    replay(include_str!("replayed/17b-rollback-unsettled.replay"), &["q17"]);
}

#[test]
fn replayed_sends_via_a_queue() {
    replay(include_str!("replayed/18-send-via.replay"), &["q18-in", "q18-out"]);
}

#[test]
fn replayed_reads_sub_queues() {
    replay(
        include_str!("replayed/19-sub-queues.replay"),
        &["q19", "t19", "t19/Subscriptions/sub", "q19-sessions/sessions"],
    );
}

#[test]
fn replayed_publishes_and_receives_copies() {
    replay(
        include_str!("replayed/20-topic.replay"),
        &["t20", "t20/Subscriptions/one", "t20/Subscriptions/two"],
    );
}

#[test]
fn replayed_is_told_that_an_entity_is_missing() {
    replay(include_str!("replayed/21a-missing-entity.replay"), &["t20"]);
}

#[test]
fn replayed_is_told_that_a_right_is_missing() {
    replay(include_str!("replayed/21c-missing-right.replay"), &["q21"]);
}

#[test]
fn replayed_sends_and_receives_over_two_queues_at_once() {
    replay(include_str!("replayed/24-two-by-two.replay"), &["q24-a", "q24-b"]);
}

#[test]
fn replayed_driver_sends() {
    replay(include_str!("replayed/50-driver-send.replay"), &["q50"]);
}

#[test]
fn replayed_driver_receives_and_settles_forty_at_once() {
    replay(include_str!("replayed/51-driver-receive.replay"), &["q51"]);
}

#[test]
fn replayed_driver_accepts_sessions() {
    replay(include_str!("replayed/52-driver-sessions.replay"), &["q52/sessions", "q52-empty/sessions"]);
}

#[test]
fn replayed_driver_manages_by_link_name() {
    replay(include_str!("replayed/53-driver-management.replay"), &["q53"]);
}

#[test]
fn replayed_driver_completes_after_a_rollback_over_two_entities() {
    replay(include_str!("replayed/54b-driver-unsettled.replay"), &["q54-a", "q54-b"]);
}

#[test]
fn replayed_driver_deletes_in_batches() {
    replay(include_str!("replayed/55-driver-batch-delete.replay"), &["q55"]);
}

#[test]
fn replayed_is_refused_with_a_wrong_key() {
    let broker = broker_with(&["q21"]);
    let mut scene = Scene { key: "another key", ..Scene::of(&broker) };
    let text = include_str!("replayed/21b-wrong-key.replay");
    play_over(connect(broker.address), &mut scene, text).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn replayed_is_told_of_sizes() {
    let broker = broker_limited(&["q22"], Some(131_072));
    let text = include_str!("replayed/22-too-large.replay");
    play_over(connect(broker.address), &mut Scene::of(&broker), text)
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn replayed_works_over_websocket() {
    let broker = broker_with(&["q23"]);
    let path = "/$servicebus/websocket";
    let stream = WebSocket::upgrade_at(connect(broker.address), path, "amqp", usize::MAX);
    let text = include_str!("replayed/23-websocket.replay");
    play_over(stream, &mut Scene::of(&broker), text).unwrap_or_else(|error| panic!("{error}"));
}
