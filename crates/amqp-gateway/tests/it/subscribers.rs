//! Receivers from a topic itself, as JMS and Proton clients are (interoperation document 2.1).

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Detach, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode, Symbol},
};
use broker_auth::Right;
use broker_core::{EntityKind, EntitySettings};

use crate::harness::{World, texts};

pub(crate) const NAMED: &[u8] = b"\x00\xa3\x21apache.org:selector-filter:string";
const NUMBERED: &[u8] = &[0x00, 0x80, 0, 0, 0x46, 0x8c, 0, 0, 0, 0x04];

/// How a link ends.
type Ending = (&'static str, fn(&mut World, usize));

/// What is there before anybody subscribes: a queue and a topic.
const BEFORE: usize = 2;

pub(crate) fn world() -> (World, usize) {
    let mut world = World::new();
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    let client = world.plain();
    (world, client)
}

pub(crate) fn volatile() -> Source {
    Source { expiry_policy: Some(Symbol::from("link-detach")), ..Source::new("t") }
}

fn durable() -> Source {
    Source { durable: 2, expiry_policy: Some(Symbol::from("never")), ..Source::new("t") }
}

fn shared(source: Source, more: &[&'static str]) -> Source {
    let capabilities = ["topic", "shared"].into_iter().chain(more.iter().copied());
    Source { capabilities: capabilities.map(Symbol::from).collect(), ..source }
}

/// A selector in the form of a client: its key, and the descriptor of its value.
pub(crate) fn selecting(source: Source, key: &str, descriptor: &[u8], selector: &str) -> Source {
    let text = [&[0xa1, u8::try_from(selector.len()).unwrap()], selector.as_bytes()].concat();
    let value = [descriptor, &text].concat();
    let value = AnnotationValue::Raw(RawValue::first(&value).unwrap());
    source.with_filter(Some(RawMap::with_symbol_keys(&[(key, value)])))
}

/// Attaches on a handle; says the source of the answer, or the error.
pub(crate) fn attach(
    world: &mut World,
    client: usize,
    handle: u32,
    name: &str,
    source: Option<Source>,
) -> Result<Source, String> {
    attach_with(world, client, handle, name, source, |_| {})
}

fn attach_with(
    world: &mut World,
    client: usize,
    handle: u32,
    name: &str,
    source: Option<Source>,
    change: impl FnOnce(&mut Attach),
) -> Result<Source, String> {
    let mut attach = Attach::new(name, handle, Role::Receiver);
    (attach.source, attach.target) = (source, Some(Target::new("here")));
    (attach.snd_settle_mode, attach.rcv_settle_mode) =
        (Some(SenderSettleMode::Unsettled), Some(ReceiverSettleMode::First));
    change(&mut attach);
    world.script(client).attach(0, attach);
    world.run();
    let (mut attaches, detaches) = world.link_frames(client);
    let source = attaches.pop().expect("an attach is answered").source;
    match detaches.first() {
        Some(Detach { error: Some(error), .. }) => {
            assert!(source.is_none(), "a refused receiver has no source");
            let condition = error.condition.to_string();
            world.script(client).detach(0, handle, true);
            world.run();
            world.received(client);
            Err(condition)
        }
        _ => Ok(source.expect("an accepted receiver has a source")),
    }
}

fn detach(world: &mut World, client: usize, handle: u32, closed: bool) {
    world.script(client).detach(0, handle, closed);
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!((detaches[0].closed, &detaches[0].error), (closed, &None));
}

/// What a receiver gets, which it settles.
pub(crate) fn take(world: &mut World, client: usize, handle: u32) -> Vec<String> {
    world.credit(client, 0, handle, 0, 100, false);
    world.run();
    let received = world.transfers(client);
    for (transfer, _) in &received {
        let id = transfer.delivery_id.unwrap();
        let accepted = Some(amqp_codec::performative::DeliveryState::Accepted);
        world.script(client).disposition(0, id, id, true, accepted);
    }
    world.run();
    world.received(client);
    texts(&received)
}

#[test]
fn a_volatile_subscriber_gets_what_comes_while_it_is_there() {
    let (mut world, client) = world();
    world.send(client, "t", &["early"]);
    let answered = attach(&mut world, client, 5, "r", Some(volatile())).unwrap();
    assert_eq!(answered.address.unwrap().as_str(), Some("t"), "clients compare the address");
    world.send(client, "t", &["1", "2"]);
    assert_eq!(take(&mut world, client, 5), ["1", "2"]);
    assert_eq!(world.entities(), BEFORE + 1);
    detach(&mut world, client, 5, false);
    assert_eq!(world.entities(), BEFORE);
    world.send(client, "t", &["late"]);
    attach(&mut world, client, 5, "r", Some(volatile())).unwrap();
    assert!(take(&mut world, client, 5).is_empty());
}

#[test]
fn volatile_subscribers_of_one_name_are_several() {
    let (mut world, client) = world();
    let other = world.plain();
    for client in [client, other] {
        attach(&mut world, client, 5, "r", Some(Source::new("t"))).unwrap();
    }
    world.send(client, "t", &["m"]);
    for client in [client, other] {
        assert_eq!(take(&mut world, client, 5), ["m"]);
    }
}

#[test]
fn a_volatile_subscription_goes_with_its_link_however_that_goes() {
    let ends: [Ending; 4] = [
        ("a detach that closes", |world, client| detach(world, client, 5, true)),
        ("the end of the session", |world, client| {
            world.script(client).end(0);
            world.run();
        }),
        ("the end of the connection", |world, client| {
            world.script(client).close(None);
            world.run();
        }),
        ("the loss of the connection", |world, client| world.lose(client)),
    ];
    for (case, end) in ends {
        let (mut world, client) = world();
        attach(&mut world, client, 5, "r", Some(volatile())).unwrap();
        assert_eq!(world.entities(), BEFORE + 1, "{case}");
        end(&mut world, client);
        assert_eq!(world.entities(), BEFORE, "{case}");
    }
}

#[test]
fn a_volatile_subscription_goes_with_a_link_that_goes_before_it_is_answered() {
    let (mut world, client) = world();
    let mut attach = Attach::new("r", 5, Role::Receiver);
    (attach.source, attach.target) = (Some(volatile()), Some(Target::new("here")));
    world.script(client).attach(0, attach).detach(0, 5, true);
    world.run();
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn what_comes_while_a_durable_subscriber_is_away_waits_for_it() {
    let away: [Ending; 3] = [
        ("detached", |world, client| detach(world, client, 5, false)),
        ("connection closed", |world, client| {
            world.script(client).close(None);
            world.run();
        }),
        ("connection lost", |world, client| world.lose(client)),
    ];
    for (case, leave) in away {
        let (mut world, client) = world();
        let answered = attach(&mut world, client, 5, "news", Some(durable())).unwrap();
        assert_eq!((answered.durable, answered.expiry_policy), (2, Some(Symbol::from("never"))), "{case}");
        leave(&mut world, client);
        let back = world.plain();
        world.send(back, "t", &["m"]);
        attach(&mut world, back, 5, "news", Some(durable())).unwrap();
        assert_eq!(take(&mut world, back, 5), ["m"], "{case}");
    }
}

#[test]
fn a_durable_subscriber_that_closes_its_link_is_none_any_more() {
    let (mut world, client) = world();
    attach(&mut world, client, 5, "news", Some(durable())).unwrap();
    detach(&mut world, client, 5, true);
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn a_subscription_is_looked_up_without_a_source_and_given_up_by_closing_the_link() {
    let (mut world, client) = world();
    attach(&mut world, client, 5, "news", Some(durable())).unwrap();
    detach(&mut world, client, 5, false);
    let found = attach(&mut world, client, 6, "news", None).unwrap();
    assert_eq!(found.address.unwrap().as_str(), Some("t"));
    assert_eq!((found.durable, found.expiry_policy), (2, Some(Symbol::from("never"))));
    detach(&mut world, client, 6, false);
    assert_eq!(world.entities(), BEFORE + 1, "looking is not deleting");
    attach(&mut world, client, 6, "news", None).unwrap();
    detach(&mut world, client, 6, true);
    assert_eq!(world.entities(), BEFORE);
    assert_eq!(attach(&mut world, client, 6, "news", None).unwrap_err(), "amqp:not-found");
}

#[test]
fn a_durable_subscription_that_is_in_use_is_neither_taken_nor_given_up_by_somebody_else() {
    let (mut world, other) = World::limited(Right::Listen);
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    let client = world.plain();
    attach(&mut world, client, 5, "news", Some(durable())).unwrap();
    assert_eq!(attach(&mut world, other, 5, "news", Some(durable())).unwrap_err(), "amqp:resource-locked");
    attach(&mut world, other, 6, "news", None).unwrap();
    detach(&mut world, other, 6, true);
    world.send(client, "t", &["m"]);
    assert_eq!(take(&mut world, client, 5), ["m"]);
}

#[test]
fn a_durable_subscriber_that_attaches_on_another_connection_steals_its_own_link() {
    let (mut world, client) = world();
    let back = world.plain();
    attach(&mut world, client, 5, "news", Some(durable())).unwrap();
    world.credit(client, 0, 5, 0, 1, false);
    world.send(back, "t", &["1", "2"]);
    assert_eq!(texts(&world.transfers(client)), ["1"]);
    attach(&mut world, back, 6, "news", Some(durable())).unwrap();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 1);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:link:stolen");
    // What the older link held comes again, and its end ends nothing.
    assert_eq!(take(&mut world, back, 6), ["1", "2"]);
    world.script(client).detach(0, 5, true);
    world.run();
    world.lose(client);
    let third = world.plain();
    world.send(third, "t", &["3"]);
    assert_eq!(texts(&world.transfers(back)), ["3"]);
    // A link of another name, or from another container, has its own.
    attach(&mut world, back, 7, "other", Some(durable())).unwrap();
    assert_eq!(world.entities(), BEFORE + 2);
}

#[test]
fn receivers_of_a_shared_subscription_share_what_comes() {
    let cases: [(&str, Source, [&str; 2], &[&'static str]); 4] = [
        ("durable", durable(), ["s", "s|2"], &[]),
        ("durable, of all clients", durable(), ["s|global", "s|global2"], &["global"]),
        ("volatile", volatile(), ["s|volatile1", "s|volatile2"], &[]),
        ("volatile, of all clients", volatile(), ["s|global-volatile1", "s|global-volatile2"], &["global"]),
    ];
    for (case, source, names, more) in cases {
        let (mut world, client) = world();
        let other = world.plain();
        attach(&mut world, client, 5, names[0], Some(shared(source.clone(), more))).expect(case);
        attach(&mut world, other, 5, names[1], Some(shared(source, more))).expect(case);
        assert_eq!(world.entities(), BEFORE + 1, "{case}");
        world.send(client, "t", &["m"]);
        let taken = [take(&mut world, client, 5), take(&mut world, other, 5)].concat();
        assert_eq!(taken, ["m"], "{case}");
        detach(&mut world, client, 5, false);
        assert_eq!(world.entities(), BEFORE + 1, "{case}: the other one is there");
        detach(&mut world, other, 5, false);
        let left = usize::from(case.starts_with("durable"));
        assert_eq!(world.entities(), BEFORE + left, "{case}");
    }
}

#[test]
fn a_subscription_of_all_clients_is_looked_up_with_its_capabilities() {
    let (mut world, client) = world();
    attach(&mut world, client, 5, "s|global", Some(shared(durable(), &["global"]))).unwrap();
    detach(&mut world, client, 5, false);
    assert_eq!(attach(&mut world, client, 6, "s", None).unwrap_err(), "amqp:not-found");
    let desired = |attach: &mut Attach| {
        attach.desired_capabilities = ["shared", "global"].into_iter().map(Symbol::from).collect();
    };
    attach_with(&mut world, client, 6, "s|global", None, desired).unwrap();
    detach(&mut world, client, 6, true);
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn a_selector_chooses_whatever_its_form_and_is_said_to_be_in_force() {
    let forms = [
        ("jms-selector", NAMED),
        ("selector", NUMBERED),
        ("apache.org:selector-filter:string", NAMED),
        ("apache.org:selector-filter:string", &[]),
    ];
    for (key, descriptor) in forms {
        let (mut world, client) = world();
        let source = selecting(durable(), key, descriptor, "JMSType = 'wanted' AND n BETWEEN 1 AND 3");
        let answered = attach(&mut world, client, 5, "r", Some(source.clone())).unwrap();
        let filters = answered.filter.expect("the filter is in force");
        assert_eq!(filters.get(key), source.filter.as_ref().unwrap().get(key));
        world.script(client).attach_sender(0, 1, "s", Some("t"));
        world.run();
        for (subject, n, id) in [("wanted", 2, "yes"), ("wanted", 4, "no"), ("other", 2, "neither")] {
            let message = MessageBuilder::new().message_id(id).subject(subject);
            let message = message.application_property("n", AnnotationValue::Int(n)).data(id.as_bytes());
            world.transfer(client, 1, true, &message.build());
        }
        world.run();
        world.received(client);
        assert_eq!(take(&mut world, client, 5), ["yes"], "{key}");
    }
}

#[test]
fn a_selector_that_cannot_be_used_is_refused_and_nothing_is_made() {
    for selector in ["JMSPriority > 4", "n =", "'"] {
        let (mut world, client) = world();
        let source = selecting(durable(), "jms-selector", NAMED, selector);
        let refused = attach(&mut world, client, 5, "r", Some(source));
        assert_eq!(refused.unwrap_err(), "amqp:invalid-field", "{selector}");
        assert_eq!(world.entities(), BEFORE);
    }
}

#[test]
fn a_filter_that_is_not_applied_is_not_claimed() {
    let (mut world, client) = world();
    let text: &[u8] = b"\xa1\x0fNoLocalFilter{}";
    let value = AnnotationValue::Raw(RawValue::first(text).unwrap());
    let source = volatile().with_filter(Some(RawMap::with_symbol_keys(&[("no-local", value)])));
    let answered = attach(&mut world, client, 5, "r", Some(source)).unwrap();
    assert!(answered.filter.is_none());
}

#[test]
fn the_right_to_listen_is_needed_and_is_enough() {
    for (right, expected) in
        [(Right::Listen, Ok(())), (Right::Send, Err("amqp:unauthorized-access".to_owned()))]
    {
        let (mut world, client) = World::limited(right);
        world.create_kind("t", EntityKind::Topic, EntitySettings::default());
        let attached = attach(&mut world, client, 5, "news", Some(durable()));
        assert_eq!(attached.map(drop), expected, "{right:?}");
    }
}

#[test]
fn looking_a_subscription_up_needs_the_right_to_listen() {
    let (mut world, client) = World::limited(Right::Send);
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    let owner = world.plain();
    attach(&mut world, owner, 5, "news", Some(durable())).unwrap();
    detach(&mut world, owner, 5, false);
    let refused = attach(&mut world, client, 6, "news", None);
    assert_eq!(refused.unwrap_err(), "amqp:unauthorized-access");
    assert_eq!(world.entities(), BEFORE + 1);
}

#[test]
fn clients_of_service_bus_name_their_subscriptions() {
    let (mut world, _) = world();
    let client = world.service_bus();
    assert_eq!(attach(&mut world, client, 5, "r", Some(Source::new("t"))).unwrap_err(), "amqp:not-allowed");
    assert_eq!(world.entities(), BEFORE);
}

#[test]
fn a_queue_is_received_from_as_ever_whatever_the_source_says() {
    let (mut world, client) = world();
    world.send(client, "q", &["m"]);
    let source = Source { address: Source::new("q").address, ..durable() };
    attach(&mut world, client, 5, "news", Some(source)).unwrap();
    assert_eq!(take(&mut world, client, 5), ["m"]);
    detach(&mut world, client, 5, true);
    assert_eq!(world.entities(), BEFORE);
}
