//! Queues and links come and go (`service-bus-entities` 1, 2.1, 15, 23).

use std::time::Duration;

use super::harness::*;
use crate::{
    AttachError, Command, CoreConfig, Effect, EntityError, EntityPath, LinkId, Message, Outcome,
    QueueSettings, ReceiveMode, UnsettledPolicy,
};

fn create(broker: &mut Broker, name: &str, settings: QueueSettings) -> Result<(), EntityError> {
    let ticket = broker.ticket();
    match broker.tell(ME, Command::CreateQueue { name: name.into(), settings, ticket }).pop() {
        Some(Effect::EntityDone { .. }) => Ok(()),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn delete(broker: &mut Broker, name: &str) -> Vec<Effect> {
    let ticket = broker.ticket();
    broker.tell(ME, Command::DeleteQueue { name: name.into(), ticket })
}

fn attach(
    broker: &mut Broker,
    link: u32,
    path: EntityPath,
    auto_create: bool,
) -> Result<String, AttachError> {
    let command = Command::OpenConsumer {
        consumer: LinkId(link),
        path,
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        auto_create,
    };
    match broker.tell(ME, command).pop() {
        Some(Effect::ConsumerOpened { queue, .. }) => Ok(queue.name.into()),
        Some(Effect::AttachRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn produce(
    broker: &mut Broker,
    link: u32,
    path: EntityPath,
    auto_create: bool,
) -> Result<String, AttachError> {
    match broker.tell(ME, Command::OpenProducer { producer: LinkId(link), path, auto_create }).pop() {
        Some(Effect::ProducerOpened { queue, .. }) => Ok(queue.name.into()),
        Some(Effect::AttachRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_compare_without_case_and_are_kept_as_first_written() {
    let mut broker = Broker::new();
    assert_eq!(create(&mut broker, "Orders", QueueSettings::default()), Ok(()));
    let taken = Err(EntityError::AlreadyExists("oRDERS".into()));
    assert_eq!(create(&mut broker, "oRDERS", QueueSettings::default()), taken);
    assert_eq!(attach(&mut broker, 1, main_path("ORDERS"), false), Ok("Orders".into()));
    assert_eq!(attach(&mut broker, 2, dead_letters("orders"), false), Ok("Orders".into()));
    let invalid = Err(EntityError::InvalidName("a b".into()));
    assert_eq!(create(&mut broker, "a b", QueueSettings::default()), invalid);
}

#[test]
fn settings_are_checked_at_their_bounds() {
    let default = QueueSettings::default;
    let millis = Duration::from_millis;
    let lock = |lock_duration| QueueSettings { lock_duration, ..default() };
    let deliveries = |max_delivery_count| QueueSettings { max_delivery_count, ..default() };
    let cases = [
        (lock(millis(0)), Some("LockDuration")),
        (lock(Duration::from_nanos(999_999)), Some("LockDuration")),
        (lock(millis(1)), None),
        (lock(millis(300_000)), None),
        (lock(millis(300_001)), Some("LockDuration")),
        (deliveries(0), Some("MaxDeliveryCount")),
        (deliveries(1), None),
        (deliveries(2_147_483_647), None),
        (deliveries(2_147_483_648), Some("MaxDeliveryCount")),
        (QueueSettings { max_message_bytes: Some(0), ..default() }, Some("MaxMessageSizeInKilobytes")),
        (QueueSettings { max_message_bytes: Some(1), ..default() }, None),
        (QueueSettings { max_size_bytes: Some(0), ..default() }, Some("MaxSizeInMegabytes")),
        (QueueSettings { max_size_bytes: Some(1), ..default() }, None),
        (QueueSettings { default_time_to_live: Some(Duration::ZERO), ..default() }, None),
        (QueueSettings { default_time_to_live: Some(Duration::MAX), ..default() }, None),
    ];
    for (settings, refused) in cases {
        let mut broker = Broker::new();
        let property = match create(&mut broker, "q", settings.clone()) {
            Ok(()) => {
                assert_eq!(broker.replayed().digest(), broker.core.digest(), "{settings:?}");
                None
            }
            Err(EntityError::OutOfRange { property, .. }) => Some(property),
            other => panic!("{other:?}"),
        };
        assert_eq!(property, refused, "{settings:?}");
    }
}

#[test]
fn queues_are_limited() {
    let mut broker = Broker::with(CoreConfig { max_queues: 2, ..CoreConfig::default() });
    assert_eq!(create(&mut broker, "a", QueueSettings::default()), Ok(()));
    assert_eq!(create(&mut broker, "b", QueueSettings::default()), Ok(()));
    let full = EntityError::LimitReached { what: "queues", limit: 2 };
    assert_eq!(create(&mut broker, "c", QueueSettings::default()), Err(full));
    let full = AttachError::LimitReached { what: "queues", limit: 2 };
    assert_eq!(attach(&mut broker, 1, main_path("c"), true), Err(full));
    delete(&mut broker, "a");
    assert_eq!(create(&mut broker, "c", QueueSettings::default()), Ok(()));
}

#[test]
fn links_are_limited_per_client() {
    let mut broker = Broker::with(CoreConfig { max_links_per_client: 2, ..CoreConfig::default() });
    broker.create("q", QueueSettings::default());
    assert!(attach(&mut broker, 1, main_path("q"), false).is_ok());
    assert!(produce(&mut broker, 2, main_path("q"), false).is_ok());
    let full = AttachError::LimitReached { what: "links per connection", limit: 2 };
    assert_eq!(produce(&mut broker, 3, main_path("q"), false), Err(full));
    broker.tell(ME, Command::CloseProducer { producer: LinkId(2) });
    assert!(produce(&mut broker, 3, main_path("q"), false).is_ok());
}

#[test]
fn attaching_needs_a_queue_or_leave_to_make_one() {
    let mut broker = Broker::new();
    let missing = |name: &str| Err(AttachError::NotFound(name.into()));
    let invalid = |name: &str| Err(AttachError::InvalidName(name.into()));
    assert_eq!(attach(&mut broker, 1, main_path("a"), false), missing("a"));
    assert_eq!(attach(&mut broker, 1, main_path("$a"), false), missing("$a"));
    assert_eq!(attach(&mut broker, 1, main_path("$a"), true), invalid("$a"));
    assert_eq!(attach(&mut broker, 1, main_path("A"), true), Ok("A".into()));
    assert_eq!(produce(&mut broker, 2, main_path("b"), true), Ok("b".into()));
    assert_eq!(attach(&mut broker, 3, dead_letters("c"), true), Ok("c".into()));
    let sub_queue = Err(AttachError::SubQueueSend("c".into()));
    assert_eq!(produce(&mut broker, 4, dead_letters("c"), true), sub_queue);
    assert_eq!(broker.core.queues().map(|view| view.name.to_owned()).collect::<Vec<_>>(), ["A", "b", "c"]);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn deleting_a_queue_tells_its_links_and_frees_all_it_held() {
    let mut broker = Broker::with_queue(QueueSettings::default());
    let queue = broker.queue("q");
    produce(&mut broker, 1, main_path("q"), false).unwrap();
    broker.open(ME, 2, main_path("q"), ReceiveMode::PeekLock);
    broker.open(OTHER, 3, dead_letters("q"), ReceiveMode::PeekLock);
    broker.publish_all(&["a", "b", "c"]);
    let locked = broker.lock_one();
    let dead = broker.lock_one();
    broker.settle(&dead, Outcome::DeadLetter(properties(&[]))).unwrap();
    let told = delete(&mut broker, "Q");
    let gone =
        |effect: &Effect| if let Effect::EntityDeleted { link } = effect { Some(link.0) } else { None };
    assert_eq!(told.iter().filter_map(gone).collect::<Vec<_>>(), [1, 2]);
    assert!(matches!(told.last(), Some(Effect::EntityDone { .. })));
    assert!(matches!(broker.take(OTHER).as_slice(), [Effect::EntityDeleted { link: LinkId(3) }]));
    assert_eq!(broker.settle(&locked, Outcome::Complete), Err(crate::SettleError::EntityGone));
    assert!(broker.journal.live().is_empty(), "nothing of it is alive in the journal");
    assert_eq!(broker.core.deadline(), None);
    let again = delete(&mut broker, "q");
    assert!(matches!(again.as_slice(), [Effect::RequestRefused { error: EntityError::NotFound(_), .. }]));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
    // A queue of the same name is another one.
    broker.create("q", QueueSettings::default());
    assert_ne!(broker.queue("q"), queue);
    broker.publish(message("new"));
    assert_eq!(broker.lock_one().sequence.0, 1);
    broker.restart();
    assert_eq!(texts(&broker.lock(9)), ["new"]);
}

#[test]
fn a_link_opened_again_replaces_the_old_one() {
    let mut broker = Broker::with_queue(QueueSettings::default());
    broker.publish_all(&["a", "b"]);
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    assert_eq!(broker.credit(ME, 1, 1).len(), 1);
    broker.open(ME, 1, main_path("q"), ReceiveMode::ReceiveAndDelete);
    assert_eq!(texts(&broker.credit(ME, 1, 2)), ["a", "b"]);
    assert_eq!(broker.core.queue("q").unwrap().links, 1);
}

#[test]
fn views_count_what_is_there() {
    let mut broker = Broker::with_queue(QueueSettings::default());
    let first = broker.now;
    broker.publish_all(&["a", "b", "c", "d"]);
    broker.wait(10);
    let later = broker.now.after(Duration::from_secs(100));
    broker.publish(Message { scheduled_enqueue_time: Some(later), ..message("e") });
    let got = broker.lock(3);
    broker.settle(&got[0], Outcome::DeadLetter(properties(&[]))).unwrap();
    broker.settle(&got[1], Outcome::Defer(properties(&[]))).unwrap();
    let view = broker.core.queues().next().unwrap();
    assert_eq!((view.active, view.locked, view.deferred, view.scheduled, view.dead_letter), (2, 1, 1, 1, 1));
    assert_eq!((view.oldest, view.next_sequence, view.damaged), (Some(first), 6, 0));
    let stored: u64 = broker.core.live_records().map(|(_, length)| u64::from(length)).sum::<u64>()
        - definition_bytes(&broker);
    assert_eq!(view.bytes, stored);
}

fn definition_bytes(broker: &Broker) -> u64 {
    broker.journal.records.values().map(|(bytes, _)| bytes).find(|bytes| bytes[1] == 1).unwrap().len() as u64
}
