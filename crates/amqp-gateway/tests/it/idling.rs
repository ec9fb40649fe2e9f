//! Idle links: the service detaches none for being idle, and this broker only where the operator configures it.

use std::{collections::BTreeMap, time::Duration};

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, DeliveryState, Performative, Source, Target, Transfer},
    raw::{AnnotationValue, RawMap},
    sections::{PropertyField, Sections},
    types::{ReceiverSettleMode, Role},
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::EntitySettings;
use testkit::Script;

use crate::harness::{World, text, texts};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);
/// How long a link may be idle here.
const TIME_OUT: Duration = Duration::from_secs(600);
/// Just before that.
const JUST_BEFORE: Duration = Duration::from_millis(599_999);
/// After this long it is gone: the links are looked at now and then.
const AT_MOST: Duration = Duration::from_secs(750);

fn world(link_idle_time_out: Option<Duration>) -> World {
    let idle_time_out = Duration::from_secs(86_400);
    let config = GatewayConfig { link_idle_time_out, idle_time_out, ..GatewayConfig::default() };
    World::with(config, Anonymous::Deny)
}

/// Links that were attached, by the broker's handles, and links that were detached, by their names.
#[derive(Default)]
struct Seen {
    names: BTreeMap<u32, String>,
    gone: Vec<String>,
    deliveries: Vec<u32>,
}

impl Seen {
    /// Takes in what a client has received; each detach must be the one of an idle link.
    fn look(&mut self, world: &mut World, client: usize) {
        for frame in world.frames(client) {
            match frame.performative {
                Performative::Attach(attach) => drop(self.names.insert(attach.handle, attach.name)),
                Performative::Transfer(transfer) => self.deliveries.extend(transfer.delivery_id),
                Performative::Detach(detach) => {
                    let error = detach.error.unwrap();
                    assert!(detach.closed);
                    assert_eq!(error.condition, "amqp:link:detach-forced");
                    let text = error.description.unwrap();
                    assert!(text.starts_with("Nothing has happened on the link for 600s."), "{text}");
                    self.gone.push(self.names[&detach.handle].clone());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn without_a_time_out_no_link_goes_for_being_idle() {
    let mut world = world(None);
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
    world.pass(Duration::from_secs(80_000));
    assert!(world.link_frames(client).1.is_empty());
    world.transfer(client, 1, false, &MessageBuilder::new().data(b"m").build());
    world.run();
    let answer = world.dispositions(client).pop().unwrap();
    assert_eq!(answer.state, Some(DeliveryState::Accepted));
}

#[test]
fn a_link_to_an_entity_goes_when_nothing_has_happened_for_its_time() {
    let mut world = world(Some(TIME_OUT));
    let client = world.service_bus();
    world.management(client, "q");
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
    world.run();
    // Whoever only waits is idle as well.
    world.credit(client, 0, 2, 0, 10, false);
    let mut seen = Seen::default();
    world.pass(JUST_BEFORE);
    seen.look(&mut world, client);
    assert_eq!(seen.gone, [""; 0], "not before its time");
    world.pass(AT_MOST.checked_sub(JUST_BEFORE).unwrap());
    seen.look(&mut world, client);
    assert_eq!(seen.gone, ["s", "r"]);
    // The links to nodes stay, and so does the connection.
    let peek = RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(1)),
        ("message-count", AnnotationValue::Int(1)),
    ]);
    world.request(client, "com.microsoft:peek-message", &peek);
    world.script(client).detach(0, 1, true).detach(0, 2, true);
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(client);
    world.transfer(client, 1, false, &MessageBuilder::new().data(b"m").build());
    world.run();
    assert_eq!(world.dispositions(client).pop().unwrap().state, Some(DeliveryState::Accepted));
}

/// What happens on a link again and again, and whether that keeps it.
type Happens = (&'static str, fn(&mut World, usize, u32), &'static str, bool);

const HAPPENS: [Happens; 7] = [
    ("nothing", |_, _, _| {}, "s", false),
    (
        "a message is sent",
        |world, client, _| {
            world.transfer(client, 1, false, &MessageBuilder::new().data(b"m").build());
        },
        "s",
        true,
    ),
    (
        "a piece of a message is sent",
        |world, client, round| {
            let id = if round == 0 { world.next_delivery(client) } else { 1 };
            let first = Script::transfer_frame(1, id, false);
            let more = Transfer { more: true, ..first };
            world.script(client).transfer_with(0, more, b"\0Sw\xa1\x01m");
        },
        "s",
        true,
    ),
    ("credit is given", |world, client, round| world.credit(client, 0, 2, 0, round + 1, false), "r", true),
    ("the same credit is given", |world, client, _| world.credit(client, 0, 2, 0, 0, false), "r", false),
    (
        "a message is received",
        |world, client, round| {
            let other = world.clients.len() - 1;
            assert_ne!(client, other);
            world.transfer(other, 9, true, &MessageBuilder::new().data(b"m").build());
            world.credit(client, 0, 2, round, 1, false);
        },
        "r",
        true,
    ),
    (
        "messages are settled one by one",
        |world, client, round| {
            world.script(client).disposition(0, round, round, false, Some(DeliveryState::Accepted));
        },
        "k",
        true,
    ),
];

#[test]
fn whatever_moves_on_a_link_begins_its_time_anew() {
    for (what, happens, link, kept) in HAPPENS {
        let mut world = world(Some(TIME_OUT));
        let client = world.service_bus();
        let other = world.plain();
        world.script(other).attach_sender(0, 9, "o", Some("q"));
        world.run();
        if link == "k" {
            for _ in 0..20 {
                world.transfer(other, 9, true, &MessageBuilder::new().data(b"m").build());
            }
            world.script(client).attach_receiver(0, 3, "k", "q", SECOND);
            world.credit(client, 0, 3, 0, 20, false);
        } else {
            world.script(client).attach_sender(0, 1, "s", Some("q"));
            world.script(client).attach_receiver(0, 2, "r", "q", SECOND);
        }
        world.run();
        let mut seen = Seen::default();
        seen.look(&mut world, client);
        let first = seen.deliveries.first().copied().unwrap_or(0);
        for round in 0..8 {
            happens(&mut world, client, first + round);
            world.run();
            world.pass(TIME_OUT / 2);
        }
        seen.look(&mut world, client);
        assert_eq!(seen.gone.iter().any(|gone| gone == link), !kept, "{what}");
    }
}

/// A world with the queue `s`, which has sessions, and a client that sends to it on handle 9.
fn with_sessions(time_out: Duration) -> (World, usize) {
    let mut world = world(Some(time_out));
    let lock_duration = Duration::from_secs(300);
    world.create("s", EntitySettings { requires_session: true, lock_duration, ..EntitySettings::default() });
    let other = world.plain();
    world.script(other).attach_sender(0, 9, "o", Some("s"));
    world.run();
    (world, other)
}

fn send_to_session(world: &mut World, sender: usize) {
    let message = MessageBuilder::new().property(PropertyField::GroupId, AnnotationValue::Str("a"));
    world.transfer(sender, 9, true, &message.data(b"m").build());
    world.run();
}

/// An attach that waits for the next session.
fn next_session() -> Attach {
    let mut attach = Attach::new("r", 2, Role::Receiver);
    let mut source = Source::new("s");
    source.filter =
        Some(RawMap::with_symbol_keys(&[("com.microsoft:session-filter", AnnotationValue::Null)]));
    (attach.source, attach.target) = (Some(source), Some(Target::new("t")));
    attach.rcv_settle_mode = SECOND;
    let patience = AnnotationValue::Uint(3_000_000);
    attach.properties = Some(RawMap::with_symbol_keys(&[("com.microsoft:timeout", patience)]));
    attach
}

#[test]
fn who_waits_for_a_session_is_not_idle() {
    let (mut world, _) = with_sessions(TIME_OUT);
    let client = world.service_bus();
    world.script(client).attach(0, next_session());
    world.pass(AT_MOST * 3);
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!((attaches.len(), detaches.len()), (0, 0), "it waits for a session, not for a message");
    // The sender was idle meanwhile.
    let other = world.plain();
    world.script(other).attach_sender(0, 9, "o", Some("s"));
    world.run();
    send_to_session(&mut world, other);
    assert_eq!(world.link_frames(client).0.len(), 1);
    world.credit(client, 0, 2, 0, 1, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["m"]);
}

#[test]
fn a_session_is_free_when_its_link_was_idle() {
    let (mut world, sender) = with_sessions(Duration::from_secs(60));
    send_to_session(&mut world, sender);
    let (client, other) = (world.service_bus(), world.service_bus());
    world.script(client).attach(0, next_session());
    world.run();
    world.credit(client, 0, 2, 0, 1, false);
    world.run();
    assert_eq!(texts(&world.transfers(client)), ["m"]);
    world.pass(Duration::from_secs(80));
    assert_eq!(world.link_frames(client).1.len(), 1, "long before the session's lock ends");
    world.script(other).attach(0, next_session());
    world.credit(other, 0, 2, 0, 1, false);
    world.run();
    let (_, payload) = world.transfers(other).pop().unwrap();
    let header = Sections::scan(&payload).unwrap().read_header(&payload).unwrap();
    assert_eq!((text(&payload), header.delivery_count), ("m".into(), 0), "given up, and so not counted");
}

#[test]
fn a_lock_outlives_its_idle_link_and_its_settlement_is_heard() {
    let mut world = world(Some(Duration::from_secs(60)));
    let lock_duration = Duration::from_secs(300);
    world.create("long", EntitySettings { lock_duration, ..EntitySettings::default() });
    let client = world.service_bus();
    world.send(client, "long", &["m"]);
    let (transfer, _) = world.receive(client, "long", 1).pop().unwrap();
    world.pass(Duration::from_secs(80));
    assert_eq!(world.link_frames(client).1.len(), 1);
    let id = transfer.delivery_id.unwrap();
    world.script(client).disposition(0, id, id, false, Some(DeliveryState::Accepted));
    world.run();
    assert_eq!(world.dispositions(client).pop().unwrap().state, Some(DeliveryState::Accepted));
    world.script(client).detach(0, 2, true);
    world.run();
    assert!(world.receive(client, "long", 1).is_empty());
}
