//! The tables of `docs/features/settlement.md` on the wire: every mode, every word, both dialects.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Disposition, Error, Modified, Source, Target, TargetTerminus},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::Sections,
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use bytes::Bytes;

use crate::harness::{World, status};

/// What became of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// Neither delivered again nor seen by a peek.
    Gone,
    /// Delivered again, with this delivery-count.
    Again(u32),
    /// Among the dead letters.
    Dead,
    /// Seen by a peek only.
    Deferred,
}

const RECEIVER_MODES: [Option<ReceiverSettleMode>; 3] =
    [None, Some(ReceiverSettleMode::First), Some(ReceiverSettleMode::Second)];

fn modified(delivery_failed: Option<bool>, undeliverable_here: Option<bool>) -> DeliveryState {
    let message_annotations = None;
    DeliveryState::Modified(Box::new(Modified { delivery_failed, undeliverable_here, message_annotations }))
}

/// A message on `handle`, as the link's modes have it.
fn delivered(world: &mut World, client: usize, handle: u32, address: &str) -> Vec<Bytes> {
    world.script(client).attach_receiver(0, handle, &format!("r{handle}"), address, RECEIVER_MODES[1]);
    world.credit(client, 0, handle, 0, 1, true);
    world.run();
    world.transfers(client).into_iter().map(|(_, payload)| payload).collect()
}

fn fate(world: &mut World, client: usize) -> Fate {
    if let Some(payload) = delivered(world, client, 10, "q").pop() {
        return Fate::Again(Sections::scan(&payload).unwrap().read_header(&payload).unwrap().delivery_count);
    }
    if !delivered(world, client, 11, "q/$DeadLetterQueue").is_empty() {
        return Fate::Dead;
    }
    world.management(client, "q");
    let peek = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(1)),
    ]);
    match status(&world.request(client, "com.microsoft:peek-message", &peek), "statusCode") {
        204 => Fate::Gone,
        _ => Fate::Deferred,
    }
}

#[test]
fn a_receiver_is_answered_and_obeyed_in_every_mode() {
    let rejected = DeliveryState::Rejected(Some(Box::new(Error::new("a:reason", "why"))));
    let cases = [
        // said, the state that is answered, fate for Service Bus and plain AMQP
        (DeliveryState::Accepted, DeliveryState::Accepted, Fate::Gone, Fate::Gone),
        (DeliveryState::Released, DeliveryState::Released, Fate::Again(0), Fate::Again(0)),
        (rejected, DeliveryState::Rejected(None), Fate::Dead, Fate::Dead),
        (modified(None, None), modified(None, None), Fate::Again(1), Fate::Again(0)),
        (modified(Some(false), None), modified(Some(false), None), Fate::Again(1), Fate::Again(0)),
        (modified(Some(true), None), modified(Some(true), None), Fate::Again(1), Fate::Again(1)),
        (modified(None, Some(true)), modified(None, Some(true)), Fate::Deferred, Fate::Dead),
    ];
    for (said, answered, service_bus, plain) in cases {
        for (is_plain, expected) in [(false, service_bus), (true, plain)] {
            for rcv_settle_mode in RECEIVER_MODES {
                for snd_settle_mode in [None, Some(SenderSettleMode::Unsettled)] {
                    for settled in [false, true] {
                        let case = format!(
                            "{said:?} plain={is_plain} {snd_settle_mode:?} {rcv_settle_mode:?} settled={settled}"
                        );
                        let mut world = World::new();
                        let client = if is_plain { world.plain() } else { world.service_bus() };
                        world.send(client, "q", &["m"]);
                        let mut attach = Attach::new("r", 2, Role::Receiver);
                        (attach.source, attach.target) = (Some(Source::new("q")), Some(Target::new("t")));
                        (attach.snd_settle_mode, attach.rcv_settle_mode) = (snd_settle_mode, rcv_settle_mode);
                        world.script(client).attach(0, attach);
                        world.credit(client, 0, 2, 0, 1, false);
                        world.run();
                        let (transfer, _) = world.transfers(client).remove(0);
                        assert_eq!(transfer.settled, Some(false), "{case}");
                        let id = transfer.delivery_id.unwrap();
                        world.script(client).disposition(0, id, id, settled, Some(said.clone()));
                        world.run();
                        let answer = Disposition {
                            role: Role::Sender,
                            first: id,
                            last: None,
                            settled: true,
                            state: Some(answered.clone()),
                            batchable: false,
                        };
                        let mut answers = world.dispositions(client);
                        for answer in &mut answers {
                            answer.last = answer.last.filter(|last| *last != answer.first);
                        }
                        let expected_answers = if settled { vec![] } else { vec![answer] };
                        assert_eq!(answers, expected_answers, "{case}");
                        assert_eq!(fate(&mut world, client), expected, "{case}");
                    }
                }
            }
        }
    }
}

/// What a sender is told of one message.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Told {
    Nothing,
    Accepted,
    /// `rejected` with an error of this condition.
    Rejected(String),
    /// The link is detached with it.
    Detached(String),
}

/// Sends one message on a link with these terms, and says what came of it. A plain client in mode second settles it last.
fn told(
    world: &mut World,
    (client, is_plain): (usize, bool),
    attach: Attach,
    settled: bool,
    payload: &[u8],
) -> Told {
    let handle = attach.handle;
    let settles = !is_plain || attach.rcv_settle_mode != Some(ReceiverSettleMode::Second);
    world.script(client).attach(0, attach);
    world.run();
    world.received(client);
    let id = world.transfer(client, handle, settled, payload);
    world.run();
    let mut told = Told::Nothing;
    for frame in world.frames(client) {
        match frame.performative {
            amqp_codec::performative::Performative::Disposition(answer) => {
                assert_eq!((answer.role, answer.settled, answer.first), (Role::Receiver, settles, id));
                told = match answer.state {
                    Some(DeliveryState::Accepted) => Told::Accepted,
                    Some(DeliveryState::Rejected(Some(error))) => Told::Rejected(error.condition.to_string()),
                    other => panic!("never said to a sender: {other:?}"),
                };
            }
            amqp_codec::performative::Performative::Detach(detach) => {
                assert!(detach.closed);
                told = Told::Detached(detach.error.unwrap().condition.to_string());
            }
            _ => {}
        }
    }
    told
}

#[test]
fn a_sender_is_answered_as_the_table_says_in_every_mode() {
    const FULL: &str = "amqp:resource-limit-exceeded";
    const GARBAGE: &str = "amqp:decode-error";
    let stored = |to: Option<&str>| {
        let builder = MessageBuilder::new().message_id("m").data(b"m");
        to.map_or_else(|| builder.clone().build(), |to| builder.clone().to(to).build())
    };
    let twice = [stored(None), stored(None)].concat();
    let rejected = |condition: &str| Told::Rejected(condition.to_owned());
    let detached = |condition: &str| Told::Detached(condition.to_owned());
    let all = ["amqp:accepted:list", "amqp:rejected:list"];
    // Told with all outcomes, and told where `rejected` is not among them; each for settled=false and settled=true.
    let cases = [
        // to a queue, disk full, payload
        (true, false, stored(None), [Told::Accepted, Told::Nothing], [Told::Accepted, Told::Nothing]),
        (true, true, stored(None), [rejected(FULL), Told::Nothing], [detached(FULL), detached(FULL)]),
        (
            true,
            false,
            Bytes::from(twice),
            [detached(GARBAGE), detached(GARBAGE)],
            [detached(GARBAGE), detached(GARBAGE)],
        ),
        (false, false, stored(Some("q")), [Told::Accepted, Told::Nothing], [Told::Accepted, Told::Nothing]),
        (
            false,
            false,
            stored(Some("missing")),
            [rejected("amqp:not-found"), detached("amqp:not-found")],
            [detached("amqp:not-found"), detached("amqp:not-found")],
        ),
    ];
    for (to_queue, full, payload, with, without) in cases {
        for rcv_settle_mode in RECEIVER_MODES {
            for (outcomes, expected) in [(&all[..], &with), (&all[..1], &without), (&[], &with)] {
                for (settled, expected) in [(false, &expected[0]), (true, &expected[1])] {
                    for is_plain in [false, true] {
                        let mut world = World::new();
                        let client = if is_plain { world.plain() } else { world.service_bus() };
                        if full {
                            world.fill_disk();
                        }
                        let mut attach = Attach::new("s", 1, Role::Sender);
                        attach.initial_delivery_count = Some(0);
                        attach.rcv_settle_mode = rcv_settle_mode;
                        let outcomes = outcomes.iter().map(|name| (*name).into()).collect();
                        attach.source = Some(Source { outcomes, ..Source::new("here") });
                        let anonymous = || Target::Terminus(TargetTerminus::default());
                        attach.target = Some(if to_queue { Target::new("q") } else { anonymous() });
                        let case = format!("{attach:?} settled={settled} plain={is_plain} full={full}");
                        let told = told(&mut world, (client, is_plain), attach, settled, &payload);
                        assert_eq!(told, *expected, "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_disposition_settles_what_came_over_several_links_from_several_queues() {
    for is_plain in [false, true] {
        let mut world = World::new();
        world.create("other", broker_core::EntitySettings::default());
        let client = if is_plain { world.plain() } else { world.service_bus() };
        let mut ids = Vec::new();
        for (handle, queue) in [(20, "q"), (21, "other"), (22, "q")] {
            world.send(client, queue, &["m"]);
            world.script(client).attach_receiver(0, handle, &format!("r{handle}"), queue, RECEIVER_MODES[2]);
            world.credit(client, 0, handle, 0, 1, false);
            world.run();
            ids.extend(world.transfers(client).iter().map(|(transfer, _)| transfer.delivery_id.unwrap()));
        }
        assert_eq!(ids.len(), 3);
        // Names that no delivery has are passed over.
        let (first, last) = (ids[0].wrapping_sub(5), ids[2].wrapping_add(5));
        world.script(client).disposition(0, first, last, false, Some(DeliveryState::Accepted));
        world.run();
        let answers = world.dispositions(client);
        let answered: u32 = answers.iter().map(|it| it.last.unwrap_or(it.first) - it.first + 1).sum();
        assert_eq!(answered, 3, "{answers:?}");
        assert!(answers.iter().all(|it| it.settled && it.state == Some(DeliveryState::Accepted)));
        world.script(client).detach(0, 20, true).detach(0, 21, true).detach(0, 22, true);
        world.pass(std::time::Duration::from_secs(61));
        for (handle, queue) in [(30, "q"), (31, "other")] {
            assert!(delivered(&mut world, client, handle, queue).is_empty(), "{queue}");
        }
    }
}

#[test]
fn what_is_received_and_deleted_is_lost_with_a_connection_that_did_not_read_it() {
    for (mode, left) in [(RECEIVER_MODES[0], 0), (RECEIVER_MODES[1], 1), (RECEIVER_MODES[2], 1)] {
        let mut world = World::new();
        let reader = world.plain();
        world.script(reader).attach_receiver(0, 1, "r", "q", mode);
        world.run();
        world.clients[reader].reads = false;
        world.credit(reader, 0, 1, 0, 5, false);
        let sender = world.plain();
        world.send(sender, "q", &["a"]);
        world.lose(reader);
        assert_eq!(delivered(&mut world, sender, 10, "q").len(), left, "{mode:?}");
    }
}

/// Settles ten deliveries by one disposition that modifies `entries` short properties; says the most memory of the settlements.
fn modify_ten(world: &mut World, client: usize, entries: usize, undeliverable_here: bool) -> usize {
    world.send(client, "q", &["m"; 10]);
    world.script(client).attach_receiver(0, 20, "r", "q", RECEIVER_MODES[1]);
    world.credit(client, 0, 20, 0, 10, false);
    world.run();
    let ids: Vec<u32> =
        world.transfers(client).iter().map(|(transfer, _)| transfer.delivery_id.unwrap()).collect();
    assert_eq!(ids.len(), 10);
    let names: Vec<String> = (0..entries).map(|number| format!("{number:05}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (&**name, AnnotationValue::Bool(true))).collect();
    let state = DeliveryState::Modified(Box::new(Modified {
        delivery_failed: Some(true),
        undeliverable_here: Some(undeliverable_here),
        message_annotations: Some(RawMap::with_symbol_keys(&entries)),
    }));
    world.most_settlement_bytes = 0;
    world.script(client).disposition(0, ids[0], ids[9], true, Some(state));
    world.run();
    world.most_settlement_bytes
}

#[test]
fn the_deliveries_of_one_disposition_share_its_properties() {
    for undeliverable_here in [false, true] {
        let mut world = World::new();
        let client = world.service_bus();
        let bytes = modify_ten(&mut world, client, 1000, undeliverable_here);
        // Of one delivery: a name, a value and their places in the list, and no more than two lists in ten.
        let one = 1000 * (5 + 1 + size_of::<(Box<str>, broker_core::PropertyValue)>());
        assert!((one..2 * one).contains(&bytes), "{bytes} bytes");
    }
}

#[test]
fn properties_beyond_the_limit_make_dead_letters() {
    let mut world = World::new();
    let client = world.service_bus();
    modify_ten(&mut world, client, 4500, false);
    assert!(delivered(&mut world, client, 10, "q").is_empty());
    let dead = delivered(&mut world, client, 11, "q/$DeadLetterQueue");
    let properties = Sections::scan(&dead[0]).unwrap().application_properties_view(&dead[0]);
    let reason = properties.get("DeadLetterReason").and_then(RawValue::as_str);
    assert_eq!((reason, properties.iter().count()), (Some("HeaderSizeExceeded"), 2));
}
