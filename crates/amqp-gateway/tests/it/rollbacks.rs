//! What transactions hold of what a receiver has not settled, and what is left of it after them.

use std::time::Duration;

use amqp_codec::{
    message::MessageBuilder,
    performative::{
        Attach, DeliveryState, Disposition, Modified, Performative, Source, Target, Transfer, TxnId,
    },
    raw::{AnnotationValue, RawMap, RawValue},
    sections::PropertyField,
    types::{ReceiverSettleMode, Role},
    value::Value,
};
use broker_core::{EntityKind, EntitySettings};
use bytes::Bytes;
use testkit::Script;

use crate::{
    harness::*,
    management::{binary, due, ids, longs, map, nested},
    sessions::lock_token,
    transactions::*,
};

const ROLLBACK: &str = "amqp:transaction:rollback";
const UNKNOWN: &str = "amqp:transaction:unknown-id";
const IN_USE: &str = "amqp:not-allowed";
/// After so long a lock of `q` has ended.
const LOCK_OVER: Duration = Duration::from_secs(61);

fn accepted(txn: &TxnId) -> DeliveryState {
    within(txn, DeliveryState::Accepted)
}

/// A client of either dialect that holds the only message of `q`, which is dead-lettered after three deliveries.
fn holding(service_bus: bool) -> (World, Peer, u32) {
    let (mut world, peer) = world(service_bus, &["m"]);
    world.update("q", EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
    let held = hold_one(&mut world, peer.client);
    (world, peer, held)
}

/// Receives one message, and wants no more.
fn hold_one(world: &mut World, client: usize) -> u32 {
    world.receive(client, "q", 1)[0].0.delivery_id.unwrap()
}

/// How many messages are in the queue and among its dead letters for somebody else.
fn free(world: &mut World) -> (usize, usize) {
    (left(world, "q").len(), left(world, "q/$DeadLetterQueue").len())
}

#[test]
fn fifty_rollbacks_leave_a_delivery_to_its_receiver() {
    for service_bus in [false, true] {
        let (mut world, mut peer, held) = holding(service_bus);
        for round in 0..50 {
            let txn = peer.declare(&mut world);
            let told = peer.settle(&mut world, held, false, accepted(&txn));
            assert_eq!(told, joined(&txn), "round {round}, service bus: {service_bus}");
            assert_eq!(peer.discharge(&mut world, &txn, true), done());
        }
        assert_eq!(peer.settled, [], "nothing is settled by a rollback");
        assert_eq!(free(&mut world), (0, 0), "service bus: {service_bus}");
        let modified = DeliveryState::Modified(Box::new(Modified {
            delivery_failed: Some(true),
            ..Modified::default()
        }));
        assert_eq!(peer.settle(&mut world, held, false, modified.clone()), Answer::State(modified));
        world.script(peer.client).detach(0, 2, true);
        assert_eq!(free(&mut world), (1, 0), "it was delivered for the first time");
    }
}

#[test]
fn a_receiver_that_settles_in_advance_has_its_message_dead_lettered_after_the_third_delivery() {
    for service_bus in [false, true] {
        let (mut world, mut peer, mut held) = holding(service_bus);
        for round in 1..=3 {
            let txn = peer.declare(&mut world);
            assert_eq!(peer.settle(&mut world, held, true, accepted(&txn)), Answer::Nothing);
            assert_eq!(peer.discharge(&mut world, &txn, true), done());
            if service_bus {
                // Its lock runs on, and ends as that of a failed delivery.
                world.pass(LOCK_OVER);
            }
            world.credit(peer.client, 0, 2, 1, round, false);
            world.run();
            let again = world.transfers(peer.client);
            assert_eq!(again.len(), usize::from(round < 3), "round {round}, service bus: {service_bus}");
            if let Some((transfer, _)) = again.first() {
                held = transfer.delivery_id.unwrap();
            }
        }
        world.script(peer.client).detach(0, 2, true);
        assert_eq!(free(&mut world), (0, 1), "service bus: {service_bus}");
    }
}

#[test]
fn after_a_rollback_a_delivery_is_settled_in_another_transaction_or_in_none() {
    let states = [DeliveryState::Accepted, DeliveryState::Released, DeliveryState::Rejected(None)];
    for service_bus in [false, true] {
        for (state, expected) in states.clone().into_iter().zip([(0, 0), (1, 0), (0, 1)]) {
            for inside in [false, true] {
                let case = format!("{state:?}, service bus: {service_bus}, inside: {inside}");
                let (mut world, mut peer, held) = holding(service_bus);
                let txn = peer.declare(&mut world);
                assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn));
                assert_eq!(peer.discharge(&mut world, &txn, true), done());
                if inside {
                    let txn = peer.declare(&mut world);
                    let state = within(&txn, state.clone());
                    let told = peer.settle(&mut world, held, false, state.clone());
                    assert_eq!(told, Answer::Unsettled(state.clone()), "{case}");
                    assert_eq!(peer.discharge(&mut world, &txn, false), done(), "{case}");
                    assert_eq!(peer.settled, [(held, state)], "{case}");
                } else {
                    let told = peer.settle(&mut world, held, false, state.clone());
                    assert_eq!(told, Answer::State(state.clone()), "{case}");
                }
                world.script(peer.client).detach(0, 2, true);
                assert_eq!(free(&mut world), expected, "{case}");
            }
        }
    }
}

#[test]
fn what_a_commit_settles_is_told_before_its_answer() {
    let (mut world, mut peer, held) = holding(false);
    let txn = peer.declare(&mut world);
    peer.settle(&mut world, held, false, accepted(&txn));
    peer.next += 1;
    let frame = Script::transfer_frame(CONTROL, peer.next, false);
    world.script(peer.client).transfer_with(0, frame, &discharge(&txn, false));
    world.run();
    let told: Vec<_> = world.dispositions(peer.client).iter().map(|it| (it.role, it.settled)).collect();
    assert_eq!(told, [(Role::Sender, true), (Role::Receiver, true)]);
}

#[test]
fn while_its_transaction_is_open_a_delivery_is_settled_in_no_other_way() {
    for service_bus in [false, true] {
        let (mut world, mut peer, held) = holding(service_bus);
        let (txn, other) = (peer.declare(&mut world), peer.declare(&mut world));
        assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn));
        for state in [DeliveryState::Released, accepted(&other)] {
            let refused = peer.settle(&mut world, held, false, state);
            assert!(matches!(refused, Answer::Unsettled(_)), "it is still its receiver's: {refused:?}");
            assert_eq!(refused.condition(), IN_USE);
        }
        assert_eq!(peer.discharge(&mut world, &other, false).condition(), ROLLBACK);
        let unknown = TxnId::from(&[7; 16][..]);
        assert_eq!(peer.settle(&mut world, held, false, accepted(&unknown)).condition(), UNKNOWN);
        assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn), "the same again");
        assert_eq!(peer.discharge(&mut world, &txn, false), done());
        assert_eq!(peer.settled, [(held, accepted(&txn))]);
        world.script(peer.client).detach(0, 2, true);
        assert_eq!(free(&mut world), (0, 0));
    }
}

#[test]
fn a_receiver_may_settle_what_its_transaction_has() {
    for service_bus in [false, true] {
        for fail in [false, true] {
            let (mut world, mut peer, held) = holding(service_bus);
            let txn = peer.declare(&mut world);
            assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn));
            assert_eq!(peer.settle(&mut world, held, true, accepted(&txn)), Answer::Nothing);
            assert_eq!(peer.discharge(&mut world, &txn, fail), done());
            assert_eq!(peer.settled, [], "it is not told what it knows");
            let again = usize::from(fail && !service_bus);
            assert_eq!(free(&mut world), (again, 0), "service bus: {service_bus}, fail: {fail}");
        }
    }
}

/// A client that does not wait for answers settles in a transaction, ends it, and settles again.
#[test]
fn a_receiver_may_settle_before_it_hears_how_its_transaction_ended() {
    for service_bus in [false, true] {
        for fail in [false, true] {
            let (mut world, mut peer, held) = holding(service_bus);
            let txn = peer.declare(&mut world);
            peer.next += 1;
            let frame = Script::transfer_frame(CONTROL, peer.next, false);
            let state = Some(accepted(&txn));
            world
                .script(peer.client)
                .disposition(0, held, held, false, state.clone())
                .transfer_with(0, frame, &discharge(&txn, fail))
                .disposition(0, held, held, true, state);
            world.run();
            let (attaches, detaches) = world.link_frames(peer.client);
            assert_eq!((attaches, detaches), (vec![], vec![]));
            let again = usize::from(fail && !service_bus);
            assert_eq!(free(&mut world), (again, 0), "service bus: {service_bus}, fail: {fail}");
            world.pass(LOCK_OVER);
            let later = usize::from(fail && service_bus);
            assert_eq!(free(&mut world), (later, 0), "service bus: {service_bus}, fail: {fail}");
        }
    }
}

#[test]
fn a_settlement_behind_a_rollback_need_not_wait_for_its_answer() {
    for service_bus in [false, true] {
        let (mut world, mut peer, held) = holding(service_bus);
        let txn = peer.declare(&mut world);
        peer.next += 1;
        let frame = Script::transfer_frame(CONTROL, peer.next, false);
        world
            .script(peer.client)
            .disposition(0, held, held, false, Some(accepted(&txn)))
            .transfer_with(0, frame, &discharge(&txn, true))
            .disposition(0, held, held, false, Some(DeliveryState::Accepted));
        world.run();
        let told = world.dispositions(peer.client);
        let told: Vec<_> = told.into_iter().map(|it| (it.role, it.settled, it.state.unwrap())).collect();
        assert!(told.contains(&(Role::Sender, true, DeliveryState::Accepted)), "{told:?}");
        world.script(peer.client).detach(0, 2, true);
        assert_eq!(free(&mut world), (0, 0), "service bus: {service_bus}");
    }
}

#[test]
fn what_a_receiver_settles_in_another_way_is_done_and_breaks_the_transaction_that_had_it() {
    for (settles_inside, service_bus) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut world, mut peer, held) = holding(service_bus);
        let (txn, other) = (peer.declare(&mut world), peer.declare(&mut world));
        assert_eq!(peer.send(&mut world, SENDER, &txn, "never"), accepted_within(&txn));
        assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn));
        let state = if settles_inside { accepted(&other) } else { DeliveryState::Accepted };
        assert_eq!(peer.settle(&mut world, held, true, state), Answer::Nothing);
        assert_eq!(peer.discharge(&mut world, &other, false), done());
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK);
        world.script(peer.client).detach(0, 2, true);
        world.pass(LOCK_OVER);
        assert_eq!(free(&mut world), (0, 0), "inside: {settles_inside}, service bus: {service_bus}");
    }
}

#[test]
fn an_outcome_that_comes_behind_its_receivers_detach_fails_the_transaction() {
    for service_bus in [false, true] {
        for closed in [false, true] {
            for settled in [false, true] {
                let (mut world, mut peer, held) = holding(service_bus);
                let txn = peer.declare(&mut world);
                assert_eq!(peer.send(&mut world, SENDER, &txn, "never"), accepted_within(&txn));
                world.script(peer.client).detach(0, 2, closed);
                assert_eq!(peer.settle(&mut world, held, settled, accepted(&txn)), Answer::Nothing);
                let case = format!("service bus: {service_bus}, closed: {closed}, settled: {settled}");
                assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK, "{case}");
                world.pass(LOCK_OVER);
                assert_eq!(left(&mut world, "q"), ["m"], "{case}");
            }
        }
    }
}

#[test]
fn what_joined_before_its_receivers_detach_is_done_at_the_commit() {
    for service_bus in [false, true] {
        for fail in [false, true] {
            let (mut world, mut peer, held) = holding(service_bus);
            let txn = peer.declare(&mut world);
            assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn));
            world.script(peer.client).detach(0, 2, false);
            assert_eq!(peer.discharge(&mut world, &txn, fail), done());
            assert_eq!(peer.settled, []);
            world.pass(LOCK_OVER);
            assert_eq!(free(&mut world), (usize::from(fail), 0), "service bus: {service_bus}, fail: {fail}");
        }
    }
}

#[test]
fn a_new_session_knows_nothing_of_what_an_ended_one_had_in_a_transaction() {
    let (mut world, mut peer) = world(false, &["a", "b"]);
    let attach = |world: &mut World, client: usize| {
        world.script(client).begin(1).attach_receiver(1, 20, "r", "q", Some(ReceiverSettleMode::First));
        world.run();
        world.received(client);
        world.credit(client, 1, 20, 0, 1, false);
        world.run();
        world.transfers(client).remove(0).0.delivery_id.unwrap()
    };
    let first = attach(&mut world, peer.client);
    let txn = peer.declare(&mut world);
    world.script(peer.client).disposition(1, first, first, false, Some(accepted(&txn)));
    world.run();
    assert_eq!(answer(&mut world, peer.client), joined(&txn));
    world.script(peer.client).end(1);
    world.run();
    let second = attach(&mut world, peer.client);
    assert_eq!(first, second, "another delivery of another session");
    assert_eq!(peer.discharge(&mut world, &txn, false), done());
    assert_eq!(peer.settled, []);
    world.script(peer.client).disposition(1, second, second, false, Some(DeliveryState::Accepted));
    world.run();
    assert_eq!(answer(&mut world, peer.client), done());
    assert_eq!(left(&mut world, "q"), [""; 0]);
}

#[test]
fn a_settled_outcome_of_an_unknown_transaction_costs_its_link() {
    for service_bus in [false, true] {
        let (mut world, mut peer, held) = holding(service_bus);
        let unknown = TxnId::from(&[7; 16][..]);
        let told = peer.settle(&mut world, held, true, accepted(&unknown));
        assert_eq!(told, Answer::Detached(UNKNOWN.to_owned()), "service bus: {service_bus}");
        let told = peer.settle(&mut world, held, true, accepted(&unknown));
        assert_eq!(told, Answer::Nothing, "the delivery is open no more");
        world.pass(LOCK_OVER);
        assert_eq!(left(&mut world, "q"), ["m"]);
    }
}

#[test]
fn a_message_that_its_transaction_refuses_is_refused_inside_of_it() {
    let large = message(&"x".repeat(2_000));
    for (handle, payload, condition) in
        [(42, &message("m"), "amqp:resource-limit-exceeded"), (43, &large, "amqp:link:message-size-exceeded")]
    {
        for service_bus in [false, true] {
            let (mut world, mut peer) = world(service_bus, &[]);
            let small = EntitySettings { max_message_bytes: Some(1_000), ..EntitySettings::default() };
            world.create("small", small);
            world.update("other", EntitySettings { max_size_bytes: Some(1), ..EntitySettings::default() });
            world.script(peer.client).attach_sender(0, 42, "one", Some("other"));
            world.script(peer.client).attach_sender(0, 43, "two", Some("small"));
            world.run();
            world.received(peer.client);
            let txn = peer.declare(&mut world);
            let state = Some(posting(&txn));
            let send = |frame: &mut Transfer| (frame.handle, frame.state) = (handle, state);
            let told = peer.transfer(&mut world, 0, send, payload);
            assert_eq!(told.condition(), condition, "service bus: {service_bus}");
            let Answer::State(DeliveryState::Transactional { txn_id, outcome: Some(outcome) }) = told else {
                panic!("{told:?}")
            };
            assert_eq!(txn_id, txn);
            assert!(matches!(*outcome, DeliveryState::Rejected(Some(_))), "{outcome:?}");
        }
    }
}

/// A sender in mode second, and what it is told of one message.
fn sent_in_mode_second(service_bus: bool, transacted: bool) -> Vec<(bool, bool)> {
    let (mut world, mut peer) = world(service_bus, &[]);
    let mut attach = Attach::new("second", 42, Role::Sender);
    attach.initial_delivery_count = Some(0);
    attach.rcv_settle_mode = Some(ReceiverSettleMode::Second);
    (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new("q")));
    world.script(peer.client).attach(0, attach);
    world.run();
    world.received(peer.client);
    let txn = peer.declare(&mut world);
    peer.next += 1;
    let mut frame = Script::transfer_frame(42, peer.next, false);
    frame.state = transacted.then(|| posting(&txn));
    world.script(peer.client).transfer_with(0, frame, &message("m"));
    world.run();
    let told = world.dispositions(peer.client);
    let settles = Disposition {
        role: Role::Sender,
        first: peer.next,
        last: None,
        settled: true,
        state: told[0].state.clone(),
        batchable: false,
    };
    world.script(peer.client).send(0, &Performative::Disposition(settles), b"");
    world.run();
    assert_eq!(world.dispositions(peer.client), [], "it has settled");
    assert_eq!(peer.discharge(&mut world, &txn, false), done());
    assert_eq!(left(&mut world, "q"), ["m"]);
    told.iter()
        .map(|it| (it.settled, matches!(it.state, Some(DeliveryState::Transactional { .. }))))
        .collect()
}

#[test]
fn a_plain_sender_in_mode_second_is_told_the_outcome_and_settles_it() {
    for transacted in [false, true] {
        assert_eq!(sent_in_mode_second(false, transacted), [(false, transacted)]);
        assert_eq!(
            sent_in_mode_second(true, transacted),
            [(true, transacted)],
            "SDKs wait for the settlement"
        );
    }
}

/// Asks a management node in a transaction: status and reply.
fn ask(world: &mut World, peer: &mut Peer, operation: &str, body: &RawMap, txn: &TxnId) -> (i64, Bytes) {
    let request = MessageBuilder::new()
        .message_id("request")
        .application_property("operation", AnnotationValue::Str(&format!("com.microsoft:{operation}")))
        .body_raw(RawValue::first(body.bytes()).unwrap())
        .build();
    peer.next += 1;
    let mut frame = Script::transfer_frame(3, peer.next, true);
    frame.state = Some(posting(txn));
    world.script(peer.client).transfer_with(0, frame, &request);
    world.run();
    let replies = world.frames(peer.client).into_iter();
    let replies = replies.filter(|frame| matches!(frame.performative, Performative::Transfer(_)));
    let reply = replies.last().expect("a reply").payload;
    (status(&reply, "statusCode"), reply)
}

#[test]
fn cancelling_a_schedule_is_part_of_its_transaction() {
    for fail in [false, true] {
        let (mut world, mut peer) = world(true, &[]);
        world.management(peer.client, "q");
        let later = due(&world, MessageBuilder::new().data(b"later"), Duration::from_secs(60));
        let list = Value::List(vec![nested(&[("message", binary(&later)), ("message-id", Value::Null)])]);
        let reply = world.request(peer.client, "com.microsoft:schedule-message", &map(&[("messages", list)]));
        let cancel = map(&[("sequence-numbers", longs(&ids(&reply)))]);
        peer.next = 2_000;
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "now"), accepted_within(&txn));
        assert_eq!(ask(&mut world, &mut peer, "cancel-scheduled-message", &cancel, &txn).0, 200);
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        world.pass(Duration::from_secs(60));
        assert_eq!(left(&mut world, "q"), if fail { ["later"] } else { ["now"] });
        let txn = peer.declare(&mut world);
        let (gone, reply) = ask(&mut world, &mut peer, "cancel-scheduled-message", &cancel, &txn);
        assert_eq!(
            (gone, property(&reply, "errorCondition").unwrap().as_str()),
            (404, "com.microsoft:message-not-found")
        );
        assert_eq!(peer.discharge(&mut world, &txn, false).condition(), ROLLBACK);
    }
}

#[test]
fn a_sessions_state_is_part_of_its_transaction_and_the_rest_of_its_requests_are_not() {
    for fail in [false, true] {
        let (mut world, mut peer) = world(true, &[]);
        world.create("s", EntitySettings { requires_session: true, ..EntitySettings::default() });
        let mut source = Source::new("s");
        let filter = ("com.microsoft:session-filter", AnnotationValue::Str("a"));
        source.filter = Some(RawMap::with_symbol_keys(&[filter]));
        let mut attach = Attach::new("session", 20, Role::Receiver);
        (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
        world.script(peer.client).attach(0, attach);
        world.management(peer.client, "s");
        let txn = peer.declare(&mut world);
        let session = ("session-id", AnnotationValue::Str("a"));
        let set = RawMap::with_string_keys(&[session, ("session-state", AnnotationValue::Binary(b"x"))]);
        let only = RawMap::with_string_keys(&[session]);
        let list = RawMap::with_string_keys(&[
            ("last-updated-time", AnnotationValue::Timestamp(0)),
            ("skip", AnnotationValue::Int(0)),
            ("top", AnnotationValue::Int(10)),
        ]);
        let state = |reply: &Bytes| {
            body_map(reply).get("session-state").and_then(RawValue::as_binary).map(<[u8]>::to_vec)
        };
        assert_eq!(ask(&mut world, &mut peer, "set-session-state", &set, &txn).0, 200);
        assert_eq!(ask(&mut world, &mut peer, "renew-session-lock", &only, &txn).0, 200);
        assert_eq!(ask(&mut world, &mut peer, "get-message-sessions", &list, &txn).0, 204);
        let (read, reply) = ask(&mut world, &mut peer, "get-session-state", &only, &txn);
        assert_eq!((read, state(&reply)), (200, None), "nobody sees it before the end");
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
        let txn = peer.declare(&mut world);
        let (_, reply) = ask(&mut world, &mut peer, "get-session-state", &only, &txn);
        assert_eq!(state(&reply), (!fail).then(|| b"x".to_vec()));
    }
}

#[test]
fn rules_and_renewals_in_a_transaction_are_done_at_once_whatever_becomes_of_it() {
    let (mut world, mut peer) = world(true, &["m"]);
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    world.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    world.management(peer.client, "t/Subscriptions/s");
    let expression = nested(&[("expression", Value::String("1=0".into()))]);
    let rule = map(&[
        ("rule-name", Value::String("none".into())),
        ("rule-description", nested(&[("sql-filter", expression)])),
    ]);
    let page = map(&[("top", Value::Int(9)), ("skip", Value::Int(0))]);
    let name = map(&[("rule-name", Value::String("$Default".into()))]);
    let txn = peer.declare(&mut world);
    assert_eq!(ask(&mut world, &mut peer, "add-rule", &rule, &txn).0, 200);
    assert_eq!(ask(&mut world, &mut peer, "remove-rule", &name, &txn).0, 200);
    assert_eq!(ask(&mut world, &mut peer, "enumerate-rules", &page, &txn).0, 200);
    assert_eq!(peer.discharge(&mut world, &txn, true), done());
    let txn = peer.declare(&mut world);
    assert_eq!(ask(&mut world, &mut peer, "add-rule", &rule, &txn).0, 409, "it is there");

    let payload = world.receive(peer.client, "q", 1).remove(0).1;
    let token = lock_token(&payload);
    world.script(peer.client).detach(0, 3, true).detach(0, 4, true);
    world.run();
    world.management(peer.client, "q");
    let token =
        RawMap::with_string_keys(&[("lock-tokens", AnnotationValue::Raw(RawValue::first(&token).unwrap()))]);
    world.pass(LOCK_OVER / 2);
    let txn = peer.declare(&mut world);
    assert_eq!(ask(&mut world, &mut peer, "renew-lock", &token, &txn).0, 200);
    assert_eq!(peer.discharge(&mut world, &txn, true), done());
    world.pass(LOCK_OVER / 2 + Duration::from_secs(5));
    assert_eq!(free(&mut world), (0, 0), "the renewed lock runs on");
    world.pass(LOCK_OVER / 2);
    assert_eq!(free(&mut world), (1, 0));
}

#[test]
fn a_request_that_cannot_be_part_of_a_transaction_is_refused_for_itself_alone() {
    let by_number = [("sequence-numbers", longs(&[1])), ("receiver-settle-mode", Value::Uint(0))];
    let all = [
        ("message-count", Value::Int(10)),
        ("enqueued-time-utc", Value::Timestamp(4_000_000_000_000_i64.into())),
    ];
    for (operation, body) in [("receive-by-sequence-number", by_number), ("batch-delete-messages", all)] {
        let (mut world, mut peer) = world(true, &["m"]);
        world.management(peer.client, "q");
        let txn = peer.declare(&mut world);
        assert_eq!(peer.send(&mut world, SENDER, &txn, "kept"), accepted_within(&txn));
        let (refused, reply) = ask(&mut world, &mut peer, operation, &map(&body), &txn);
        let condition = property(&reply, "errorCondition");
        assert_eq!((refused, condition.as_deref()), (400, Some("amqp:not-allowed")), "{operation}");
        assert_eq!(peer.discharge(&mut world, &txn, false), done(), "{operation}");
        assert_eq!(left(&mut world, "q"), ["m", "kept"], "{operation}");
    }
}

#[test]
fn deferred_messages_are_received_under_a_lock_while_a_transaction_is_open() {
    let (mut world, mut peer) = world(true, &["m"]);
    world.management(peer.client, "q");
    let held = hold_one(&mut world, peer.client);
    let defer =
        DeliveryState::Modified(Box::new(Modified { undeliverable_here: Some(true), ..Modified::default() }));
    peer.settle(&mut world, held, false, defer);
    let txn = peer.declare(&mut world);
    let body = map(&[("sequence-numbers", longs(&[1])), ("receiver-settle-mode", Value::Uint(1))]);
    assert_eq!(ask(&mut world, &mut peer, "receive-by-sequence-number", &body, &txn).0, 200);
    let again = ask(&mut world, &mut peer, "receive-by-sequence-number", &body, &txn);
    assert_eq!(again.0, 404, "it is locked; that is no part of the transaction");
    assert_eq!(peer.send(&mut world, SENDER, &txn, "kept"), accepted_within(&txn));
    assert_eq!(peer.discharge(&mut world, &txn, false), done());
    assert_eq!(left(&mut world, "q"), ["kept"]);
}

#[test]
fn messages_of_a_session_stay_with_its_holder_after_a_rollback() {
    let (mut world, mut peer) = world(true, &[]);
    world.create("s", EntitySettings { requires_session: true, ..EntitySettings::default() });
    let publisher = world.plain();
    world.script(publisher).attach_sender(0, 50, "sender", Some("s"));
    world.run();
    let body = MessageBuilder::new().property(PropertyField::GroupId, AnnotationValue::Str("a")).data(b"m");
    world.transfer(publisher, 50, true, &body.build());
    let mut source = Source::new("s");
    let filter = ("com.microsoft:session-filter", AnnotationValue::Str("a"));
    source.filter = Some(RawMap::with_symbol_keys(&[filter]));
    let mut attach = Attach::new("session", 20, Role::Receiver);
    (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
    world.script(peer.client).attach(0, attach);
    world.credit(peer.client, 0, 20, 0, 1, false);
    world.run();
    let held = world.transfers(peer.client)[0].0.delivery_id.unwrap();
    // Complete, roll back, and complete again on one link.
    for fail in [true, false] {
        let txn = peer.declare(&mut world);
        assert_eq!(peer.settle(&mut world, held, false, accepted(&txn)), joined(&txn));
        assert_eq!(peer.discharge(&mut world, &txn, fail), done());
    }
    assert_eq!(world.active("s"), 0);
}
