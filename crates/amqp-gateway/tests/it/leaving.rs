//! Links and connections that end: what is settled, or sent, before the other side knows of it.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Disposition, Source, Target},
    raw::{AnnotationValue, RawMap},
    sections::PropertyField,
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use broker_core::{AccessRight, AuthorizationRule, EntitySettings, EntityStatus, KeyText, Timestamp};

use crate::harness::World;

/// The lock of the queues here.
const LOCK: Duration = Duration::from_secs(30);
const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

fn settings(requires_session: bool) -> EntitySettings {
    EntitySettings { requires_session, lock_duration: LOCK, ..EntitySettings::default() }
}

fn send(world: &mut World, client: usize, queue: &str, count: usize) {
    world.script(client).attach_sender(0, 50, "sender", Some(queue));
    world.run();
    for _ in 0..count {
        let group = (PropertyField::GroupId, AnnotationValue::Str("a"));
        world.transfer(
            client,
            50,
            true,
            &MessageBuilder::new().property(group.0, group.1).data(b"x").build(),
        );
    }
    world.script(client).detach(0, 50, true);
    world.run();
    world.received(client);
}

/// A receiver of the session `a` with `count` messages; gives their ids.
fn in_session(world: &mut World, client: usize, handle: u32, count: u32) -> Vec<u32> {
    let mut source = Source::new("s");
    let filter = [("com.microsoft:session-filter", AnnotationValue::Str("a"))];
    source.filter = Some(RawMap::with_symbol_keys(&filter));
    let mut attach = Attach::new(format!("r{handle}"), handle, Role::Receiver);
    (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
    attach.rcv_settle_mode = SECOND;
    world.script(client).attach(0, attach);
    world.run();
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!((attaches.len(), detaches), (1, vec![]));
    taken(world, client, handle, count)
}

fn taken(world: &mut World, client: usize, handle: u32, count: u32) -> Vec<u32> {
    world.credit(client, 0, handle, 0, count, false);
    world.run();
    world.transfers(client).iter().map(|(transfer, _)| transfer.delivery_id.unwrap()).collect()
}

/// Accepts deliveries and says what is answered: how many, settled or not, and with which condition.
fn accept(world: &mut World, client: usize, ids: &[u32], settled: bool) -> Vec<(u32, bool, String)> {
    for id in ids {
        world.script(client).disposition(0, *id, *id, settled, Some(DeliveryState::Accepted));
    }
    world.run();
    world.dispositions(client).iter().map(told).collect()
}

fn told(answer: &Disposition) -> (u32, bool, String) {
    let condition = match &answer.state {
        Some(DeliveryState::Rejected(Some(error))) => error.condition.as_str().to_owned(),
        Some(state) => format!("{state:?}"),
        None => String::new(),
    };
    (answer.last.unwrap_or(answer.first) - answer.first + 1, answer.settled, condition)
}

/// How many messages a new receiver on a connection of its own gets.
fn left(world: &mut World, queue: &str) -> usize {
    let other = world.plain();
    world.receive(other, queue, 10).len()
}

#[test]
fn who_has_lost_its_session_is_answered_so_until_it_detaches() {
    let mut world = World::new();
    world.create("s", settings(true));
    let client = world.service_bus();
    send(&mut world, client, "s", 3);
    let ids = in_session(&mut world, client, 1, 3);
    world.pass(LOCK);
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "com.microsoft:session-lock-lost");
    let lost = || (1, true, "com.microsoft:session-lock-lost".to_owned());
    assert_eq!(accept(&mut world, client, &ids[..1], false), [lost()]);
    assert_eq!(accept(&mut world, client, &ids[..1], false), [], "it is answered once");
    assert_eq!(accept(&mut world, client, &ids[1..2], true), [], "no answer is asked for");
    // Another receiver of the connection has the session now, and the answer is the same.
    let again = in_session(&mut world, client, 2, 3);
    assert_eq!(again.len(), 3);
    assert_eq!(accept(&mut world, client, &ids[2..], false), [lost()]);
    assert_eq!(accept(&mut world, client, &again, false), [(3, true, "Accepted".to_owned())]);
}

#[test]
fn behind_the_peers_detach_nothing_is_known() {
    let mut world = World::new();
    world.create("s", settings(true));
    let client = world.service_bus();
    send(&mut world, client, "s", 2);
    let ids = in_session(&mut world, client, 1, 2);
    world.pass(LOCK);
    let links = world.clients[client].gateway.about().links;
    world.script(client).detach(0, 1, true);
    world.run();
    assert_eq!(world.clients[client].gateway.about().links, links, "it was not counted any more");
    world.received(client);
    assert_eq!(accept(&mut world, client, &ids, false), []);
    // Handle and name are free.
    assert_eq!(in_session(&mut world, client, 1, 2).len(), 2);
}

#[test]
fn how_a_link_went_decides_what_its_deliveries_are_answered() {
    enum By {
        Deletion,
        Status,
        Key,
        Mistake,
    }
    let accepted = "Accepted";
    let lost = "com.microsoft:message-lock-lost";
    let cases = [
        // by, Service Bus: its locks outlive the link, plain AMQP: they end with it
        (By::Deletion, ("amqp:not-found", 0), ("amqp:not-found", 0)),
        (By::Status, (accepted, 0), (lost, 1)),
        (By::Key, ("amqp:unauthorized-access", 0), ("amqp:unauthorized-access", 1)),
        (By::Mistake, (accepted, 0), (lost, 1)),
    ];
    for (by, service_bus, plain) in cases {
        for (is_plain, (expected, remain)) in [(false, service_bus), (true, plain)] {
            let mut world = World::new();
            world.create("p", settings(false));
            let key = AuthorizationRule {
                name: "till".into(),
                rights: vec![AccessRight::Send, AccessRight::Listen],
                primary: KeyText::new("secret"),
                secondary: None,
                created_at: Timestamp::default(),
                modified_at: Timestamp::default(),
            };
            world.give_keys("p", std::slice::from_ref(&key));
            let client = world.accept();
            world.script(client).sasl_plain("till", "secret").open("test").begin(0);
            if !is_plain {
                // Who attaches to `$cbs` is a client of Service Bus.
                world.cbs_links(client);
            }
            world.run();
            world.received(client);
            send(&mut world, client, "p", 1);
            world.script(client).attach_receiver(0, 1, "r", "p", SECOND);
            let ids = taken(&mut world, client, 1, 1);
            match by {
                By::Deletion => world.delete("p"),
                By::Status => {
                    let status = EntityStatus::ReceiveDisabled;
                    world.update("p", EntitySettings { status, ..settings(false) });
                }
                By::Key => world.give_keys("p", &[]),
                // A transfer on a link that the broker sends on.
                By::Mistake => {
                    world.transfer(client, 1, true, b"x");
                    world.run();
                }
            }
            let (_, detaches) = world.link_frames(client);
            let case = format!("{:?} plain={is_plain}", detaches[0].error.as_ref().unwrap().condition);
            assert_eq!(accept(&mut world, client, &ids, false), [(1, true, expected.to_owned())], "{case}");
            if matches!(by, By::Deletion) {
                continue;
            }
            world.update("p", settings(false));
            assert_eq!(left(&mut world, "p"), remain, "{case}");
        }
    }
}

#[test]
fn what_the_peer_was_not_shown_returns_when_its_link_is_detached() {
    let mut world = World::new();
    world.create("p", settings(false));
    let client = world.service_bus();
    send(&mut world, client, "p", 2);
    world.script(client).attach_receiver(0, 1, "r", "p", SECOND);
    world.run();
    world.received(client);
    world.clients[client].reads = false;
    world.script(client).credit(0, 1, 0, 2, false);
    world.run();
    world.update("p", EntitySettings { status: EntityStatus::ReceiveDisabled, ..settings(false) });
    world.update("p", settings(false));
    world.clients[client].reads = true;
    world.script(client).heartbeat();
    world.run();
    assert!(world.transfers(client).is_empty(), "they were taken back");
    assert_eq!(left(&mut world, "p"), 2);
}

#[test]
fn a_connection_that_the_broker_closes_takes_no_messages_in_place_of_those_that_did_not_go_out() {
    let mut world = World::new();
    world.create("q", settings(false));
    let (sender, client) = (world.plain(), world.plain());
    send(&mut world, sender, "q", 5);
    let mut attach = Attach::new("r", 1, Role::Receiver);
    attach.snd_settle_mode = Some(SenderSettleMode::Settled);
    (attach.source, attach.target) = (Some(Source::new("q")), Some(Target::new("here")));
    world.script(client).attach(0, attach);
    world.credit(client, 0, 1, 0, 2, false);
    world.clients[client].reads = false;
    world.run();
    assert_eq!(world.active("q"), 3, "two are on their way");
    let now = world.now;
    world.clients[client].gateway.close(now, amqp_gateway::CloseReason::NamespaceHeld);
    world.run();
    assert_eq!(world.active("q"), 3, "nobody has asked for a third one");
}

#[test]
fn a_receiver_that_never_detaches_holds_no_more_links_than_it_may() {
    let config = amqp_gateway::GatewayConfig { max_links: 4, ..amqp_gateway::GatewayConfig::default() };
    let mut world = World::with(config, broker_auth::Anonymous::Deny);
    world.create("p", settings(false));
    let client = world.plain();
    let mut refused = 0;
    for handle in 0..4 {
        send_one(&mut world);
        world.script(client).attach_receiver(0, handle, &format!("r{handle}"), "p", SECOND);
        world.run();
        refused += world.link_frames(client).1.len();
        taken(&mut world, client, handle, 1);
        world.update("p", EntitySettings { status: EntityStatus::ReceiveDisabled, ..settings(false) });
        world.update("p", settings(false));
        assert_eq!(world.link_frames(client).1.len(), 1, "{handle}");
    }
    assert_eq!(refused, 0);
    assert_eq!(world.clients[client].gateway.about().links, 0);
    world.script(client).detach(0, 0, true).detach(0, 1, true).detach(0, 2, true);
    world.run();
    world.received(client);
    world.script(client).attach_receiver(0, 0, "r0", "p", SECOND).attach_receiver(0, 1, "r1", "p", SECOND);
    world.run();
    assert!(world.link_frames(client).1.is_empty());
    assert_eq!(world.clients[client].gateway.about().links, 2);
}

fn send_one(world: &mut World) {
    let sender = world.plain();
    send(world, sender, "p", 1);
    world.lose(sender);
}

#[test]
fn a_message_in_front_of_a_close_is_stored_and_its_sender_is_answered_by_the_close() {
    let mut world = World::new();
    let client = world.plain();
    let message = MessageBuilder::new().data(b"m").build();
    let script = world.script(client).attach_sender(0, 1, "s", Some("q"));
    script.transfer(0, 1, 1, false, &message).close(None);
    world.run();
    let names: Vec<_> = world.frames(client).iter().map(|frame| frame.performative.kind().name()).collect();
    assert_eq!(names, ["close"]);
    assert_eq!(left(&mut world, "q"), 1);
}
