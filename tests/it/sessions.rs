//! Sessions, through the real server, in the dialect of each SDK.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp_codec::{
    performative::{Attach, DeliveryState, Source, Target},
    raw::{AnnotationValue, RawMap},
    types::{Role, TypeKind},
    value::{OrderedMap, Value},
};
use broker_core::EntitySettings;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    message::{Delivery, message_of_session, update},
    numbers::outcome,
    testing::advance,
};

const FILTER: &str = "com.microsoft:session-filter";
pub(crate) const LOCK: Duration = Duration::from_secs(60);

/// A broker whose queue has sessions, with these messages: `a1` is of session `a`.
fn filled(dialect: &Dialect, texts: &[&str]) -> Broker {
    let settings =
        EntitySettings { requires_session: true, lock_duration: LOCK, ..EntitySettings::default() };
    let broker = Broker::with_queue(settings);
    send(&broker, dialect, texts);
    broker
}

fn send(broker: &Broker, dialect: &Dialect, texts: &[&str]) {
    let mut sdk = Sdk::connect(broker, dialect);
    let channel = sdk.sender(QUEUE);
    for text in texts {
        sdk.send(channel, 0, &message_of_session(text));
    }
    sdk.client.close();
}

/// A receiver of this session of the queue, or of any, as the SDK asks for it.
fn asking(sdk: &Sdk<'_>, handle: u32, session: Option<&str>) -> Attach {
    asking_of(sdk, QUEUE, handle, session)
}

/// The same of any entity.
pub(crate) fn asking_of(sdk: &Sdk<'_>, entity: &str, handle: u32, session: Option<&str>) -> Attach {
    let dialect = sdk.dialect;
    let mut attach = Attach::new(format!("session-{handle}"), handle, Role::Receiver);
    let filter = OrderedMap::from_iter([(Value::Symbol(FILTER.into()), (dialect.session_filter)(session))]);
    let filter = RawMap::from_value(&Value::Map(filter));
    attach.source = Some(Source::new((dialect.address)(entity)).with_filter(filter));
    attach.target = Some(Target::new("identifier"));
    (attach.snd_settle_mode, attach.rcv_settle_mode) = dialect.locking;
    let is_bare = dialect.bare_receivers && session.is_some();
    attach.properties = if is_bare { None } else { (dialect.properties)(Role::Receiver) };
    attach
}

/// The session that an answer names, after a look at the end of its lock.
fn told(answer: &Attach) -> String {
    let properties = answer.properties.as_ref().expect("properties");
    let ticks = properties.get("com.microsoft:locked-until-utc").expect("the end of the lock");
    assert_eq!(ticks.kind(), Some(TypeKind::Long), ".NET ticks");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let until = u128::try_from(ticks.as_i64().unwrap() / 10_000 - 62_135_596_800_000).unwrap();
    // The broker has a clock of its own, which may be a little ahead.
    assert!((now..=now + LOCK.as_millis() + 5_000).contains(&until), "{now} {until}");
    let filter = answer.source.as_ref().unwrap().filter.as_ref().expect("a filter");
    // In the form of the question: the clients for Go and Rust describe it, the others take a bare string.
    filter.get(FILTER).expect("the session").undescribed().as_string().expect("a string").to_owned()
}

/// Accepts a session on an AMQP session of its own.
fn accept(sdk: &mut Sdk<'_>, handle: u32, session: Option<&str>) -> (u16, String) {
    accept_of(sdk, QUEUE, handle, session)
}

/// The same of any entity.
pub(crate) fn accept_of(
    sdk: &mut Sdk<'_>,
    entity: &str,
    handle: u32,
    session: Option<&str>,
) -> (u16, String) {
    sdk.authorize(entity);
    let channel = sdk.session();
    let attach = asking_of(sdk, entity, handle, session);
    let session = told(&sdk.client.attach(channel, attach));
    (channel, session)
}

pub(crate) fn is_refused(sdk: &mut Sdk<'_>, attach: Attach) -> String {
    sdk.authorize(QUEUE);
    let channel = sdk.session();
    sdk.client.refused(channel, attach).condition.to_string()
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(Delivery::text).collect()
}

/// The next session is that of the oldest message; a session has one holder, who gets its messages in order.
pub(crate) fn accepts(dialect: &Dialect) {
    let broker = filled(dialect, &["b1", "a2", "b3", "b4"]);
    let (mut one, mut other) = (Sdk::connect(&broker, dialect), Sdk::connect(&broker, dialect));
    let (channel, session) = accept(&mut one, RECEIVER, None);
    assert_eq!(session, "b");
    let taken = asking(&other, RECEIVER, Some("b"));
    assert_eq!(is_refused(&mut other, taken), "com.microsoft:session-cannot-be-locked");
    let (free, session) = accept(&mut other, RECEIVER + 10, Some("a"));
    assert_eq!(session, "a");
    assert_eq!(texts(&other.receive(free, RECEIVER + 10, 1)), ["a2"]);
    let (_, empty) = accept(&mut other, RECEIVER + 20, Some(""));
    assert_eq!(empty, "", "an id like any other, and a session without messages");

    let received = one.receive(channel, RECEIVER, 2);
    assert_eq!(texts(&received), ["b1", "b3"]);
    one.settle(channel, &received[0], DeliveryState::Accepted);
    one.settle(channel, &received[1], (dialect.abandon)());
    let again = one.receive(channel, RECEIVER, 2);
    assert_eq!(texts(&again), ["b3", "b4"]);
    assert_eq!(again[0].header().delivery_count, 1);
    one.settle(channel, &again[0], DeliveryState::Accepted);
    one.client.wire.script.detach(channel, RECEIVER, true);
    one.client.wire.detached().unwrap();
    // The session is free at once, and so is what was not settled.
    let (channel, _) = accept(&mut other, RECEIVER + 30, Some("b"));
    let last = other.receive(channel, RECEIVER + 30, 1).remove(0);
    assert_eq!((last.text().as_str(), last.header().delivery_count), ("b4", 0));
    let mut without = asking(&other, RECEIVER + 40, None);
    without.source = Some(Source::new((dialect.address)(QUEUE)));
    assert_eq!(is_refused(&mut other, without), "amqp:not-allowed");
    one.client.close();
    other.client.close();
}

/// Who asks for any session waits until there is one, and no longer than a minute.
pub(crate) fn waits_for_the_next(dialect: &Dialect) {
    let broker = filled(dialect, &[]);
    let mut sdk = Sdk::connect(&broker, dialect);
    sdk.authorize(QUEUE);
    let channel = sdk.session();
    for handle in [RECEIVER, RECEIVER + 10] {
        let attach = asking(&sdk, handle, None);
        sdk.client.wire.script.attach(channel, attach);
    }
    // An AMQP session begins after it: both wait.
    sdk.session();
    send(&broker, dialect, &["z1"]);
    let answer = sdk.client.wire.attached().unwrap();
    assert_eq!(
        (answer.name.as_str(), told(&answer).as_str()),
        ("session-3", "z"),
        "first come, first served"
    );
    assert_eq!(texts(&sdk.receive(channel, RECEIVER, 1)), ["z1"]);
    advance(broker.address, Duration::from_secs(61));
    let mut conditions = Vec::new();
    while conditions.len() < 2 {
        let detach = sdk.client.wire.detached().unwrap();
        conditions.push((detach.closed, detach.error.unwrap().condition.to_string()));
    }
    conditions.sort();
    let lost = (true, "com.microsoft:session-lock-lost".to_owned());
    assert_eq!(conditions, [lost, (true, "com.microsoft:timeout".to_owned())]);
}

/// The holder renews its lock and keeps a state; who has lost it is told so.
pub(crate) fn keeps(dialect: &Dialect) {
    let broker = filled(dialect, &["a1"]);
    let (mut sdk, mut other) = (Sdk::connect(&broker, dialect), Sdk::connect(&broker, dialect));
    let (channel, _) = accept(&mut sdk, RECEIVER, Some("a"));
    let delivery = sdk.receive(channel, RECEIVER, 1).remove(0);
    let (node, others) = (sdk.management(), other.management());
    let id = [("session-id", AnnotationValue::Str("a"))];
    let only = RawMap::with_string_keys(&id);
    advance(broker.address, LOCK / 2);
    let renewed = sdk.manage(node, "com.microsoft:renew-session-lock", &only);
    assert_eq!(outcome(&renewed), (200, None));
    assert_eq!(renewed.body().get("expiration").unwrap().kind(), Some(TypeKind::Timestamp));
    for state in [AnnotationValue::Null, AnnotationValue::Binary(b"\x00state"), AnnotationValue::Null] {
        let set = RawMap::with_string_keys(&[id[0], ("session-state", state)]);
        assert_eq!(outcome(&sdk.manage(node, "com.microsoft:set-session-state", &set)), (200, None));
        let got = sdk.manage(node, "com.microsoft:get-session-state", &only);
        let kept = (state != AnnotationValue::Null).then_some(&b"\x00state"[..]);
        assert_eq!(got.body().get("session-state").unwrap().as_binary(), kept);
    }
    let lost = (410, Some("com.microsoft:session-lock-lost".to_owned()));
    for operation in ["renew-session-lock", "get-session-state", "set-session-state"] {
        let refused = other.manage(others, &format!("com.microsoft:{operation}"), &only);
        assert_eq!(outcome(&refused), lost, "{operation} of another's session");
    }
    // The renewal holds longer than the first lock did; then the link is told that it is over.
    advance(broker.address, LOCK / 4 * 3);
    sdk.settle(channel, &delivery, DeliveryState::Accepted);
    advance(broker.address, LOCK);
    let detach = sdk.client.wire.detached().unwrap();
    assert!(detach.closed);
    assert_eq!(detach.error.unwrap().condition, "com.microsoft:session-lock-lost");
    let late =
        sdk.manage(node, "com.microsoft:update-disposition", &update(delivery.lock_token(), "completed"));
    assert_eq!(outcome(&late).0, 410);
}

/// What a receiver settles between the broker's detach and its own is answered: its session's lock is lost.
pub(crate) fn settles_too_late(dialect: &Dialect) {
    let broker = filled(dialect, &["a1", "a2"]);
    let mut sdk = Sdk::connect(&broker, dialect);
    let (channel, _) = accept(&mut sdk, RECEIVER, Some("a"));
    let received = sdk.receive(channel, RECEIVER, 2);
    advance(broker.address, LOCK + Duration::from_secs(1));
    let detach = sdk.client.wire.detached().unwrap();
    assert_eq!(detach.error.unwrap().condition, "com.microsoft:session-lock-lost");
    for (delivery, state) in received.iter().zip([DeliveryState::Accepted, (dialect.abandon)()]) {
        let answer = sdk.client.outcome(channel, delivery.id(), state);
        let Some(DeliveryState::Rejected(Some(error))) = answer.state else { panic!("{answer:?}") };
        assert_eq!(error.condition, "com.microsoft:session-lock-lost");
    }
    sdk.client.wire.script.detach(channel, RECEIVER, true);
    let again = asking(&sdk, RECEIVER + 10, Some("a"));
    sdk.client.attach(channel, again);
    let again = sdk.receive(channel, RECEIVER + 10, 2);
    assert_eq!(texts(&again), ["a1", "a2"]);
    assert_eq!(again[0].header().delivery_count, 1);
    sdk.client.close();
}
