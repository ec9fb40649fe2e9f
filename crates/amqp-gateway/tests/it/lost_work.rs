//! Transactions whose links the broker detaches: by the entity, by the right, for idleness, or for a mistake.
//!
//! Before a transaction may succeed its client must have heard what became of each message (transactions 4.4.1); and what
//! the client was told is in it, is.

use std::{sync::Arc, time::Duration};

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Transfer},
    types::ReceiverSettleMode,
};
use amqp_gateway::{Fault, FaultKind, Faults, GatewayConfig};
use broker_auth::{Anonymous, Scope};
use broker_core::{AccessRight, AuthorizationRule, EntitySettings, EntityStatus, KeyText, Timestamp};
use bytes::Bytes;
use testkit::Script;

use crate::{harness::World, transactions::*};

const ROLLBACK: &str = "amqp:transaction:rollback";
const RECEIVER: u32 = 42;
const IDLE: Duration = Duration::from_secs(60);

/// A client that has the key of the queue `q`, with a coordinator and a sender to `q`.
fn scene(service_bus: bool, texts: &[&str]) -> (World, Peer, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let config = GatewayConfig {
        faults: Some(Arc::clone(&faults)),
        link_idle_time_out: Some(IDLE),
        idle_time_out: Duration::from_secs(86_400),
        max_message_bytes: 1_000,
        ..GatewayConfig::default()
    };
    let mut world = World::with(config, Anonymous::Deny);
    // Far longer than any test: only what is tested ends a lock.
    let lock_duration = Duration::from_secs(300);
    world.update("q", EntitySettings { lock_duration, ..EntitySettings::default() });
    let publisher = world.plain();
    world.send(publisher, "q", texts);
    let key = AuthorizationRule {
        name: "till".into(),
        rights: vec![AccessRight::Send, AccessRight::Listen],
        primary: KeyText::new("secret"),
        secondary: None,
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    };
    world.give_keys("q", &[key]);
    let client = world.accept();
    world.script(client).sasl_plain("till", "secret").open("test").begin(0);
    if service_bus {
        // Who attaches to `$cbs` is a client of Service Bus.
        world.cbs_links(client);
    }
    world.run();
    let mut peer = Peer::new(client);
    peer.coordinate(&mut world, 0);
    world.script(client).attach_sender(0, SENDER, "sender", Some("q"));
    world.run();
    world.received(client);
    (world, peer, faults)
}

/// How the broker comes to detach a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// The entity is switched off, and on again.
    Status,
    /// The client's right ends.
    Key,
    /// Nothing happened on it.
    Idle,
    /// Somebody has ordered it.
    Fault,
    /// Another link has its name and direction.
    Stolen,
    /// Its peer sent a delivery without a tag.
    Mistake,
    /// Its peer sent something that is no message.
    Garbage,
}

use Way::{Fault as Ordered, Garbage, Idle, Key, Mistake, Status, Stolen};

impl Way {
    /// The client's sender, or its receiver, is detached, and the client is told.
    fn detach(self, world: &mut World, peer: &mut Peer, faults: &Faults, receiver: bool) {
        let client = peer.client;
        match self {
            Status => {
                let lock_duration = Duration::from_secs(300);
                let settings = EntitySettings { lock_duration, ..EntitySettings::default() };
                world.update("q", EntitySettings { status: EntityStatus::Disabled, ..settings.clone() });
                world.update("q", settings);
            }
            Key => world.give_keys("q", &[]),
            Idle => world.pass(IDLE + IDLE / 4),
            Ordered => {
                let (kind, scope) = (FaultKind::DropLink, Scope::of("q"));
                faults.order(Fault { kind, scope, left: None, until: None }, world.now.utc).unwrap();
                let now = world.now;
                world.clients[client].gateway.handle_faults(now);
                faults.clear(None, now.utc);
            }
            Stolen if receiver => drop(world.script(client).attach_receiver(0, 50, "receiver", "q", SECOND)),
            Stolen => drop(world.script(client).attach_sender(0, 50, "sender", Some("q"))),
            Mistake | Garbage => {
                peer.next += 1;
                let handle = if receiver { RECEIVER } else { SENDER };
                let mut frame = Script::transfer_frame(handle, peer.next, true);
                if self == Mistake {
                    frame.delivery_tag = None;
                }
                world.script(client).transfer_with(0, frame, b"no sections");
            }
        }
        world.run();
        let told = world.link_frames(client).1;
        assert!(!told.is_empty() && told.iter().all(|detach| detach.error.is_some()), "{self:?} {told:?}");
    }
}

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);
const WAYS: [Way; 7] = [Status, Key, Idle, Ordered, Stolen, Mistake, Garbage];

#[test]
fn what_comes_for_a_link_that_the_broker_has_detached_fails_its_transaction() {
    for way in WAYS {
        for service_bus in [false, true] {
            for settled in [false, true] {
                let case = format!("{way:?} service bus={service_bus} settled={settled}");
                let (mut world, mut peer, faults) = scene(service_bus, &[]);
                let txn = peer.declare(&mut world);
                assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn), "{case}");
                way.detach(&mut world, &mut peer, &faults, false);
                // It was on its way when the link was detached, and nothing answers it.
                let state = Some(posting(&txn));
                let send = |frame: &mut Transfer| {
                    (frame.handle, frame.state, frame.settled) = (SENDER, state, Some(settled));
                };
                assert_eq!(peer.transfer(&mut world, 0, send, &message("second")), Answer::Nothing, "{case}");
                assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK, "{case}");
                assert_eq!(left(&mut world, "q"), [""; 0], "{case}");
                // The next transaction has nothing to do with it.
                let next = peer.declare(&mut world);
                assert_eq!(peer.discharge(&mut world, &next, false), done(), "{case}");
            }
        }
    }
}

#[test]
fn what_a_link_has_taken_is_committed_when_the_broker_has_detached_it() {
    for way in WAYS {
        for service_bus in [false, true] {
            let (mut world, mut peer, faults) = scene(service_bus, &[]);
            let txn = peer.declare(&mut world);
            assert_eq!(peer.send(&mut world, SENDER, &txn, "m"), accepted_within(&txn), "{way:?}");
            way.detach(&mut world, &mut peer, &faults, false);
            // Outside of the transaction nothing that is lost matters to it.
            let send = |frame: &mut Transfer| frame.handle = SENDER;
            assert_eq!(peer.transfer(&mut world, 0, send, &message("lost")), Answer::Nothing, "{way:?}");
            assert_eq!(peer.discharge(&mut world, &txn, false), done(), "{way:?}");
            assert_eq!(left(&mut world, "q"), ["m"], "{way:?}");
        }
    }
}

#[test]
fn half_a_message_that_is_dropped_with_its_link_fails_its_transaction() {
    for way in [Status, Key, Idle, Ordered, Stolen] {
        let (mut world, mut peer, faults) = scene(false, &[]);
        let txn = peer.declare(&mut world);
        let state = Some(posting(&txn));
        let half = |frame: &mut Transfer| (frame.handle, frame.state, frame.more) = (SENDER, state, true);
        assert_eq!(peer.transfer(&mut world, 0, half, b"half"), Answer::Nothing);
        way.detach(&mut world, &mut peer, &faults, false);
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK, "{way:?}");
    }
    // One that its own peer gives up is none of the transaction.
    let (mut world, mut peer, _) = scene(false, &[]);
    let txn = peer.declare(&mut world);
    let state = Some(posting(&txn));
    let half = |frame: &mut Transfer| (frame.handle, frame.state, frame.more) = (SENDER, state, true);
    assert_eq!(peer.transfer(&mut world, 0, half, b"half"), Answer::Nothing);
    world.script(peer.client).detach(0, SENDER, true);
    assert_eq!(peer.discharge(&mut world, &txn, false), done());
}

#[test]
fn a_message_that_costs_its_link_fails_its_transaction() {
    type Case<'a> = (&'a str, fn(&mut Transfer), &'a [u8]);
    let large = MessageBuilder::new().data(&[0; 1_001]).build();
    let cases: [Case<'_>; 5] = [
        ("too large to be answered", |frame| frame.settled = Some(true), &large),
        ("no tag", |frame| frame.delivery_tag = None, b""),
        ("no message", |_| {}, b"no sections"),
        ("no message, settled", |frame| frame.settled = Some(true), b"no sections"),
        ("a mode that the link has not", |frame| frame.rcv_settle_mode = SECOND, b""),
    ];
    for (case, change, payload) in cases {
        let (mut world, mut peer, _) = scene(false, &[]);
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn), "{case}");
        let state = Some(posting(&txn));
        let send = |frame: &mut Transfer| {
            (frame.handle, frame.state) = (SENDER, state);
            change(frame);
        };
        let told = peer.transfer(&mut world, 0, send, payload);
        assert!(matches!(told, Answer::Detached(_)), "{case}: {told:?}");
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK, "{case}");
        assert_eq!(left(&mut world, "q"), [""; 0], "{case}");
    }
}

#[test]
fn a_request_that_is_none_fails_its_transaction() {
    let (mut world, mut peer) = world(true, &[]);
    world.management(peer.client, "q");
    let txn = peer.declare(&mut world);
    assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn));
    let state = Some(posting(&txn));
    let ask = |frame: &mut Transfer| (frame.handle, frame.state) = (3, state);
    let told = peer.transfer(&mut world, 0, ask, b"no sections");
    assert_eq!(told, Answer::Detached("amqp:decode-error".to_owned()));
    assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK);
    assert_eq!(left(&mut world, "q"), [""; 0]);
}

/// What the client has written is taken in, and the core has not heard of it yet.
fn take_in(world: &mut World, client: usize) {
    let input: Bytes = world.script(client).take_output();
    let now = world.now;
    world.clients[client].gateway.handle_input(now, input);
}

#[test]
fn what_is_not_answered_before_the_broker_detaches_its_link_fails_its_transaction() {
    let cases = [
        // who detaches, what the commit is told
        (true, Some(ROLLBACK)),
        // Who gives up its own link wants no answer.
        (false, None),
    ];
    for (by_broker, refused) in cases {
        let (mut world, mut peer, _) = scene(false, &[]);
        let txn = peer.declare(&mut world);
        let mut frame = Script::transfer_frame(SENDER, 2_000, false);
        frame.state = Some(posting(&txn));
        world.script(peer.client).transfer_with(0, frame, &message("m"));
        take_in(&mut world, peer.client);
        peer.next = 2_000;
        if by_broker {
            world.give_keys("q", &[]);
        } else {
            world.script(peer.client).detach(0, SENDER, true);
            take_in(&mut world, peer.client);
        }
        world.run();
        assert!(world.dispositions(peer.client).is_empty(), "by the broker: {by_broker}");
        let ended = peer.discharge(&mut world, &txn, false);
        match refused {
            Some(condition) => assert_eq!(ended.condition(), condition),
            None => assert_eq!(ended, done()),
        }
        assert_eq!(left(&mut world, "q").len(), usize::from(refused.is_none()));
    }
}

#[test]
fn what_was_answered_does_not_fail_its_transaction_later() {
    let (mut world, mut peer, _) = scene(false, &[]);
    let (one, two) = (peer.declare(&mut world), peer.declare(&mut world));
    for txn in [&one, &two, &one] {
        assert_eq!(peer.send(&mut world, SENDER, txn, "m"), accepted_within(txn));
    }
    // Of the second transaction one is under way.
    let mut frame = Script::transfer_frame(SENDER, 2_000, false);
    frame.state = Some(posting(&two));
    world.script(peer.client).transfer_with(0, frame, &message("under way"));
    take_in(&mut world, peer.client);
    peer.next = 2_000;
    world.give_keys("q", &[]);
    world.received(peer.client);
    assert_eq!(peer.discharge(&mut world, &one, false), done());
    assert_eq!(peer.discharge(&mut world, &two, false).condition(), ROLLBACK);
    assert_eq!(left(&mut world, "q"), ["m", "m"]);
}

#[test]
fn a_session_that_the_broker_ends_fails_the_transactions_of_what_it_drops() {
    for when in ["with it", "unanswered", "behind its end", "settled behind its end"] {
        let (mut world, mut peer, _) = scene(false, &["held"]);
        world.script(peer.client).begin(1).attach_sender(1, SENDER, "second", Some("q"));
        world.run();
        world.script(peer.client).attach_receiver(1, RECEIVER, "receiver", "q", SECOND);
        world.credit(peer.client, 1, RECEIVER, 0, 1, false);
        world.run();
        let held = world.transfers(peer.client)[0].0.delivery_id.unwrap();
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn));
        let frame = |handle| {
            let mut frame = Script::transfer_frame(handle, 7, false);
            frame.state = Some(posting(&txn));
            frame
        };
        if when == "unanswered" {
            world.script(peer.client).transfer_with(1, frame(SENDER), &message("second"));
        }
        // No link has this handle.
        let wrong = if when == "with it" { frame(99) } else { Script::transfer_frame(99, 8, false) };
        world.script(peer.client).transfer_with(1, wrong, &message("wrong"));
        take_in(&mut world, peer.client);
        world.run();
        if when == "behind its end" {
            world.script(peer.client).transfer_with(1, frame(SENDER), &message("second"));
        } else if when == "settled behind its end" {
            let state = within(&txn, DeliveryState::Accepted);
            world.script(peer.client).disposition(1, held, held, false, Some(state));
        }
        world.run();
        world.received(peer.client);
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK, "{when}");
        assert_eq!(left(&mut world, "q"), ["held"], "{when}");
    }
}

/// Receives the only message of `q` under a lock; gives its delivery-id.
fn hold(world: &mut World, peer: &Peer) -> u32 {
    world.script(peer.client).attach_receiver(0, RECEIVER, "receiver", "q", SECOND);
    world.credit(peer.client, 0, RECEIVER, 0, 1, false);
    world.run();
    world.transfers(peer.client)[0].0.delivery_id.unwrap()
}

#[test]
fn settling_on_a_link_that_the_broker_has_detached_joins_a_transaction_or_fails_it() {
    const LOST: &str = "com.microsoft:message-lock-lost";
    const DENIED: &str = "amqp:unauthorized-access";
    let cases = [
        // way, what the settlement is refused with: Service Bus, whose locks outlive the link, and plain AMQP
        (Status, None, Some(LOST)),
        (Key, Some(DENIED), Some(DENIED)),
        (Idle, None, Some(LOST)),
        (Ordered, None, Some(LOST)),
        (Stolen, None, Some(LOST)),
        (Mistake, None, Some(LOST)),
    ];
    for (way, service_bus, plain) in cases {
        for (is_plain, refused) in [(false, service_bus), (true, plain)] {
            let case = format!("{way:?} plain={is_plain}");
            let (mut world, mut peer, faults) = scene(!is_plain, &["work"]);
            let held = hold(&mut world, &peer);
            let txn = peer.declare(&mut world);
            way.detach(&mut world, &mut peer, &faults, true);
            let accepted = within(&txn, DeliveryState::Accepted);
            let told = peer.settle(&mut world, held, false, accepted);
            let ended = peer.discharge(&mut world, &txn, false);
            match refused {
                None => assert_eq!((told, ended), (joined(&txn), done()), "{case}"),
                Some(condition) => {
                    assert_eq!((told.condition(), ended.condition()), (condition, ROLLBACK), "{case}");
                }
            }
            world.pass(Duration::from_secs(301));
            assert_eq!(left(&mut world, "q").len(), usize::from(refused.is_some()), "{case}");
        }
    }
}

#[test]
fn what_was_settled_in_a_transaction_before_its_link_was_detached_is_done_at_the_commit() {
    for way in [Status, Key, Idle, Ordered, Stolen, Mistake] {
        for service_bus in [false, true] {
            for fail in [false, true] {
                let case = format!("{way:?} service bus={service_bus} fail={fail}");
                let (mut world, mut peer, faults) = scene(service_bus, &["work"]);
                let held = hold(&mut world, &peer);
                let txn = peer.declare(&mut world);
                let accepted = within(&txn, DeliveryState::Accepted);
                let told = peer.settle(&mut world, held, false, accepted);
                assert_eq!(told, joined(&txn), "{case}");
                way.detach(&mut world, &mut peer, &faults, true);
                assert_eq!(left(&mut world, "q"), [""; 0], "{case}: it waits for its transaction");
                assert_eq!(peer.discharge(&mut world, &txn, fail), done(), "{case}");
                let again = left(&mut world, "q").len();
                assert_eq!(again, usize::from(fail && !service_bus), "{case}");
                world.pass(Duration::from_secs(301));
                let again = again + left(&mut world, "q").len();
                assert_eq!(again, usize::from(fail), "{case}");
            }
        }
    }
}

#[test]
fn a_transaction_does_not_outlive_the_entity_of_its_settlement_or_message() {
    for settles in [false, true] {
        let (mut world, mut peer, _) = scene(false, &["work"]);
        let held = hold(&mut world, &peer);
        let txn = peer.declare(&mut world);
        if settles {
            let accepted = within(&txn, DeliveryState::Accepted);
            assert_eq!(peer.settle(&mut world, held, false, accepted), joined(&txn));
        } else {
            assert_eq!(peer.send(&mut world, SENDER, &txn, "m"), accepted_within(&txn));
        }
        world.delete("q");
        // Another one of its name is not the same.
        world.create("q", EntitySettings::default());
        world.run();
        world.received(peer.client);
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK, "settles: {settles}");
        assert_eq!(left(&mut world, "q"), [""; 0]);
    }
}

#[test]
fn an_outcome_that_nobody_knows_fails_its_transaction_and_costs_the_link() {
    let (mut world, mut peer, _) = scene(false, &["work"]);
    let held = hold(&mut world, &peer);
    let txn = peer.declare(&mut world);
    assert_eq!(peer.send(&mut world, SENDER, &txn, "first"), accepted_within(&txn));
    let declared = DeliveryState::Declared { txn_id: txn.clone() };
    let told = peer.settle(&mut world, held, false, within(&txn, declared));
    assert_eq!(told, Answer::Detached("amqp:invalid-field".to_owned()));
    assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK);
    assert_eq!(left(&mut world, "q"), ["work"]);
}
