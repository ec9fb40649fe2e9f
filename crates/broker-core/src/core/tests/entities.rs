//! Queues and links are created and deleted (`docs/features/queues.md`, "Names" to "Properties").

use std::time::Duration;

use super::harness::*;
use crate::{
    AttachError, Command, CoreConfig, Effect, EntityError, EntityKind, EntityPath, EntityQuery,
    EntitySettings, LinkId, Message, Outcome, ReceiveMode, SubQueue, UnsettledPolicy,
    admin::snapshot::AdminSnapshot,
};

fn create(broker: &mut Broker, name: &str, settings: EntitySettings) -> Result<(), EntityError> {
    let ticket = broker.ticket();
    match broker
        .tell(
            ME,
            Command::CreateEntity {
                name: name.into(),
                kind: EntityKind::Queue,
                settings: Box::new(settings),
                ticket,
            },
        )
        .pop()
    {
        Some(Effect::EntityDone { .. }) => Ok(()),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn delete(broker: &mut Broker, name: &str) -> Vec<Effect> {
    let ticket = broker.ticket();
    broker.tell(ME, Command::DeleteEntity { name: name.into(), expected: None, ticket })
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
        session: None,
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
    assert_eq!(create(&mut broker, "Orders", EntitySettings::default()), Ok(()));
    let taken = Err(EntityError::AlreadyExists("oRDERS".into()));
    assert_eq!(create(&mut broker, "oRDERS", EntitySettings::default()), taken);
    assert_eq!(attach(&mut broker, 1, main_path("ORDERS"), false), Ok("Orders".into()));
    assert_eq!(attach(&mut broker, 2, dead_letters("orders"), false), Ok("Orders".into()));
    let invalid = Err(EntityError::InvalidName("a\tb".into()));
    assert_eq!(create(&mut broker, "a\tb", EntitySettings::default()), invalid);
}

#[test]
fn settings_are_checked_at_their_bounds() {
    let default = EntitySettings::default;
    let millis = Duration::from_millis;
    let lock = |lock_duration| EntitySettings { lock_duration, ..default() };
    let deliveries = |max_delivery_count| EntitySettings { max_delivery_count, ..default() };
    let window = |duplicate_detection_window| EntitySettings { duplicate_detection_window, ..default() };
    let idle = |idle| EntitySettings { auto_delete_on_idle: Some(idle), ..default() };
    let note = |chars| EntitySettings { user_metadata: Some("ä".repeat(chars).into()), ..default() };
    let other = |bytes: usize| EntitySettings {
        other: [("k".into(), "v".repeat(bytes - 1).into())].into(),
        ..default()
    };
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
        (EntitySettings { max_message_bytes: Some(0), ..default() }, Some("MaxMessageSizeInKilobytes")),
        (EntitySettings { max_message_bytes: Some(1), ..default() }, None),
        (EntitySettings { max_size_bytes: Some(0), ..default() }, Some("MaxSizeInMegabytes")),
        (EntitySettings { max_size_bytes: Some(1), ..default() }, None),
        (EntitySettings { default_time_to_live: Some(Duration::ZERO), ..default() }, None),
        (EntitySettings { default_time_to_live: Some(Duration::MAX), ..default() }, None),
        (window(millis(19_999)), Some("DuplicateDetectionHistoryTimeWindow")),
        (window(millis(20_000)), None),
        (window(millis(604_800_000)), None),
        (window(millis(604_800_001)), Some("DuplicateDetectionHistoryTimeWindow")),
        (idle(millis(299_999)), Some("AutoDeleteOnIdle")),
        (idle(millis(300_000)), None),
        (idle(Duration::MAX), None),
        (note(1_024), None),
        (note(1_025), Some("UserMetadata")),
        (other(32 << 10), None),
        (other((32 << 10) + 1), Some("Description")),
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
    let mut broker = Broker::with(CoreConfig { max_entities: 2, ..CoreConfig::default() });
    assert_eq!(create(&mut broker, "a", EntitySettings::default()), Ok(()));
    assert_eq!(create(&mut broker, "b", EntitySettings::default()), Ok(()));
    let full = EntityError::LimitReached { what: "entities", limit: 2 };
    assert_eq!(create(&mut broker, "c", EntitySettings::default()), Err(full));
    let full = AttachError::LimitReached { what: "entities", limit: 2 };
    assert_eq!(attach(&mut broker, 1, main_path("c"), true), Err(full));
    delete(&mut broker, "a");
    assert_eq!(create(&mut broker, "c", EntitySettings::default()), Ok(()));
}

#[test]
fn links_are_limited_per_client() {
    let mut broker = Broker::with(CoreConfig { max_links_per_client: 2, ..CoreConfig::default() });
    broker.create("q", EntitySettings::default());
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
    assert_eq!(broker.core.entities().map(|view| view.name.to_owned()).collect::<Vec<_>>(), ["A", "b", "c"]);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn deleting_a_queue_tells_its_links_and_frees_all_it_held() {
    let mut broker = Broker::with_queue(EntitySettings::default());
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
    broker.create("q", EntitySettings::default());
    assert_ne!(broker.queue("q"), queue);
    broker.publish(message("new"));
    assert_eq!(broker.lock_one().sequence.0, 1);
    broker.restart();
    assert_eq!(texts(&broker.lock(9)), ["new"]);
}

#[test]
fn a_link_opened_again_replaces_the_old_one() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    broker.open_with(ME, 1, main_path("q"), ReceiveMode::PeekLock, UnsettledPolicy::Release);
    assert_eq!(broker.credit(ME, 1, 1).len(), 1);
    broker.open(ME, 1, main_path("q"), ReceiveMode::ReceiveAndDelete);
    assert_eq!(texts(&broker.credit(ME, 1, 2)), ["a", "b"]);
    assert_eq!(broker.core.entity("q").unwrap().links, 1);
}

#[test]
fn snapshots_count_the_stored_messages() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let first = broker.now;
    broker.publish_all(&["a", "b", "c", "d"]);
    broker.wait(10);
    let later = broker.now.after(Duration::from_secs(100));
    broker.publish(Message { scheduled_enqueue_time: Some(later), ..message("e") });
    let got = broker.lock(3);
    broker.settle(&got[0], Outcome::DeadLetter(properties(&[]))).unwrap();
    broker.settle(&got[1], Outcome::Defer(properties(&[]))).unwrap();
    let view = broker.core.entities().next().unwrap();
    assert_eq!((view.active, view.locked, view.deferred, view.scheduled, view.dead_letter), (2, 1, 1, 1, 1));
    assert_eq!((view.oldest, view.next_sequence, view.damaged), (Some(first), 6, 0));
    let stored: u64 = broker.core.live_records().map(|(_, length)| u64::from(length)).sum::<u64>()
        - definition_bytes(&broker);
    assert_eq!(view.bytes, stored);
}

fn definition_bytes(broker: &Broker) -> u64 {
    broker.journal.records.values().map(|(bytes, _)| bytes).find(|bytes| bytes[1] == 1).unwrap().len() as u64
}

fn entity(broker: &mut Broker, name: &str, kind: EntityKind) -> Result<(), EntityError> {
    let (ticket, settings) = (broker.ticket(), Box::default());
    answer(broker.tell(ME, Command::CreateEntity { name: name.into(), kind, settings, ticket }))
}

fn update(broker: &mut Broker, name: &str, settings: EntitySettings) -> Result<(), EntityError> {
    let (ticket, settings) = (broker.ticket(), Box::new(settings));
    answer(broker.tell(ME, Command::UpdateEntity { name: name.into(), settings, expected: None, ticket }))
}

fn answer(mut effects: Vec<Effect>) -> Result<(), EntityError> {
    match effects.pop() {
        Some(Effect::EntityDone { .. }) => Ok(()),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entities_of_all_kinds_share_one_namespace_of_names() {
    let invalid = |name: &str| Err(EntityError::InvalidName(name.into()));
    let taken = |name: &str| Err(EntityError::AlreadyExists(name.into()));
    let missing = |name: &str| Err(EntityError::NotFound(name.into()));
    let long = "s".repeat(51);
    let cases = [
        ("T", EntityKind::Topic, Ok(())),
        ("t", EntityKind::Queue, taken("t")),
        ("t/subscriptions/S", EntityKind::Subscription, Ok(())),
        ("T/Subscriptions/s", EntityKind::Subscription, taken("T/Subscriptions/s")),
        ("t/x", EntityKind::Queue, Ok(())),
        ("t/Subscriptions/q", EntityKind::Queue, invalid("t/Subscriptions/q")),
        ("t/Subscriptions/q", EntityKind::Topic, invalid("t/Subscriptions/q")),
        ("plain", EntityKind::Subscription, invalid("plain")),
        ("t/Subscriptions/a/b", EntityKind::Subscription, invalid("t/Subscriptions/a/b")),
        ("t/Subscriptions/", EntityKind::Subscription, invalid("t/Subscriptions/")),
        ("none/Subscriptions/s", EntityKind::Subscription, missing("none")),
        ("t/x/Subscriptions/s", EntityKind::Subscription, missing("t/x")),
    ];
    let mut broker = Broker::new();
    for (name, kind, expected) in cases {
        assert_eq!(entity(&mut broker, name, kind), expected, "{name} {kind:?}");
    }
    let too_long = format!("t/Subscriptions/{long}");
    assert_eq!(entity(&mut broker, &too_long, EntityKind::Subscription), invalid(&too_long));
    let names: Vec<String> = broker.core.entities().map(|view| view.name.into()).collect();
    assert_eq!(names, ["T", "T/Subscriptions/S", "t/x"]);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn a_topic_goes_with_its_subscriptions() {
    let mut broker = Broker::new();
    let made = [
        ("t", EntityKind::Topic),
        ("t/Subscriptions/a", EntityKind::Subscription),
        ("t/Subscriptions/b", EntityKind::Subscription),
        ("t-2", EntityKind::Topic),
        ("t-2/Subscriptions/a", EntityKind::Subscription),
    ];
    for (name, kind) in made {
        assert_eq!(entity(&mut broker, name, kind), Ok(()));
    }
    assert_eq!(attach(&mut broker, 1, main_path("T/subscriptions/A"), false), Ok("t/Subscriptions/a".into()));
    let told = delete(&mut broker, "t");
    assert!(
        matches!(told[..], [Effect::EntityDeleted { link: LinkId(1) }, Effect::EntityDone { .. }]),
        "{told:?}"
    );
    let names: Vec<String> = broker.core.entities().map(|view| view.name.into()).collect();
    assert_eq!(names, ["t-2", "t-2/Subscriptions/a"]);
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn a_queue_named_below_a_topic_stays_when_the_topic_is_deleted() {
    let mut broker = Broker::new();
    assert_eq!(entity(&mut broker, "t", EntityKind::Topic), Ok(()));
    assert_eq!(entity(&mut broker, "t/Subscriptions/s", EntityKind::Subscription), Ok(()));
    assert_eq!(entity(&mut broker, "t/subscriptions/x/y", EntityKind::Queue), Ok(()));
    delete(&mut broker, "t");
    let names: Vec<String> = broker.core.entities().map(|view| view.name.into()).collect();
    assert_eq!(names, ["t/subscriptions/x/y"]);
}

#[test]
fn a_send_has_a_limited_number_of_copies() {
    let mut broker = Broker::with(CoreConfig { max_copies_per_send: 4, ..CoreConfig::default() });
    assert_eq!(entity(&mut broker, "t", EntityKind::Topic), Ok(()));
    for name in ["t/Subscriptions/a", "t/Subscriptions/b"] {
        assert_eq!(entity(&mut broker, name, EntityKind::Subscription), Ok(()));
    }
    for (count, fits) in [(2, true), (3, false)] {
        let (messages, ticket) = (vec![message("m"); count], Some(broker.ticket()));
        let path = main_path("t");
        let told = broker.tell(ME, Command::PublishTo { path, messages, auto_create: false, ticket });
        assert_eq!(matches!(told[..], [Effect::Published { .. }]), fits, "{count}: {told:?}");
    }
}

#[test]
fn topics_take_and_subscriptions_give() {
    let mut broker = Broker::new();
    assert_eq!(entity(&mut broker, "t", EntityKind::Topic), Ok(()));
    assert_eq!(entity(&mut broker, "t/Subscriptions/s", EntityKind::Subscription), Ok(()));
    let subscription = || main_path("t/Subscriptions/s");
    let receive = Err(AttachError::TopicReceive("t".into()));
    assert_eq!(attach(&mut broker, 1, main_path("t"), false), receive);
    assert_eq!(attach(&mut broker, 1, subscription(), false), Ok("t/Subscriptions/s".into()));
    let send = Err(AttachError::SubscriptionSend("t/Subscriptions/s".into()));
    assert_eq!(produce(&mut broker, 2, subscription(), false), send);
    assert_eq!(produce(&mut broker, 2, main_path("t"), false), Ok("t".into()));
    let missing = Err(AttachError::NotFound("t/Subscriptions/none".into()));
    assert_eq!(attach(&mut broker, 3, main_path("t/Subscriptions/none"), true), missing);
}

#[test]
fn properties_change_except_those_fixed_at_creation() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let default = EntitySettings::default;
    let cases = [
        (EntitySettings { max_delivery_count: 3, ..default() }, Ok(())),
        (EntitySettings { requires_session: true, ..default() }, Err("RequiresSession")),
        (
            EntitySettings { requires_duplicate_detection: true, ..default() },
            Err("RequiresDuplicateDetection"),
        ),
        (EntitySettings { enable_partitioning: true, ..default() }, Err("EnablePartitioning")),
        (EntitySettings { lock_duration: Duration::from_secs(7), ..default() }, Ok(())),
    ];
    for (settings, expected) in cases {
        broker.now = broker.now.after(Duration::from_secs(1));
        let before = broker.core.entity("q").unwrap().settings.clone();
        let expected =
            expected.map_err(|property| EntityError::Immutable { property, kind: EntityKind::Queue });
        assert_eq!(update(&mut broker, "Q", settings.clone()), expected);
        let view = broker.core.entity("q").unwrap();
        assert_eq!(*view.settings, if expected.is_ok() { settings } else { before });
        assert_eq!(broker.replayed().digest(), broker.core.digest());
    }
    assert_eq!(broker.core.entity("q").unwrap().updated_at, broker.now);
    let missing = Err(EntityError::NotFound("none".into()));
    assert_eq!(update(&mut broker, "none", default()), missing);
    let invalid = update(&mut broker, "q", EntitySettings { max_delivery_count: 0, ..default() });
    assert!(
        matches!(invalid, Err(EntityError::OutOfRange { property: "MaxDeliveryCount", .. })),
        "{invalid:?}"
    );
}

#[test]
fn an_express_queue_detects_no_duplicates() {
    let mut broker = Broker::new();
    let express = |requires_duplicate_detection| EntitySettings {
        requires_duplicate_detection,
        other: [("EnableExpress".into(), "true".into())].into(),
        ..EntitySettings::default()
    };
    broker.create("plain", express(false));
    let (ticket, settings) = (broker.ticket(), Box::new(express(true)));
    let refused =
        broker.ask(Command::CreateEntity { name: "both".into(), kind: EntityKind::Queue, settings, ticket });
    assert!(matches!(refused, Err(EntityError::OutOfRange { property: "EnableExpress", .. })), "{refused:?}");
}

#[test]
fn a_deletion_for_another_state_changes_nothing() {
    let mut broker = Broker::new();
    broker.create("q", EntitySettings::default());
    let seen = |broker: &Broker| {
        AdminSnapshot::of(&broker.core.state.messages)
            .describe(&EntityQuery::One { name: "q".into() })
            .remove(0)
            .version
    };
    let delete = |broker: &mut Broker, expected| {
        let ticket = broker.ticket();
        broker.ask(Command::DeleteEntity { name: "q".into(), expected: Some(expected), ticket })
    };
    let first = seen(&broker);
    update(&mut broker, "q", EntitySettings::default()).unwrap();
    let before = broker.core.digest();
    assert_eq!(delete(&mut broker, first), Err(EntityError::Changed("q".into())));
    assert_eq!(broker.core.digest(), before);
    let second = seen(&broker);
    // Another entity of that name is another one.
    self::delete(&mut broker, "q");
    broker.create("q", EntitySettings::default());
    assert_eq!(delete(&mut broker, second), Err(EntityError::Changed("q".into())));
    let third = seen(&broker);
    assert_eq!(delete(&mut broker, third), Ok(()));
    assert_eq!(delete(&mut broker, third), Err(EntityError::NotFound("q".into())));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn an_update_for_another_state_changes_nothing() {
    let mut broker = Broker::new();
    broker.create("q", EntitySettings::default());
    let seen = |broker: &Broker| {
        AdminSnapshot::of(&broker.core.state.messages)
            .describe(&EntityQuery::One { name: "q".into() })
            .remove(0)
    };
    let change = |broker: &mut Broker, expected, max_delivery_count| {
        let settings = Box::new(EntitySettings { max_delivery_count, ..EntitySettings::default() });
        let ticket = broker.ticket();
        broker.ask(Command::UpdateEntity { name: "q".into(), settings, expected, ticket })
    };
    let first = seen(&broker);
    assert_eq!(change(&mut broker, Some(first.version), 2), Ok(()));
    let second = seen(&broker);
    // At one and the same time, and yet told apart.
    assert!(second.updated_at > first.updated_at && second.version != first.version);
    let digest = broker.core.digest();
    assert_eq!(change(&mut broker, Some(first.version), 3), Err(EntityError::Changed("q".into())));
    assert_eq!(broker.core.digest(), digest);
    assert_eq!(change(&mut broker, None, 4), Ok(()));
    // The version is kept with the entity.
    let before = seen(&broker);
    broker.restart();
    assert_eq!(seen(&broker).version, before.version);
    // Another entity of that name is not meant, even at the same time.
    let (ticket, again) = (broker.ticket(), broker.ticket());
    assert_eq!(broker.ask(Command::DeleteEntity { name: "q".into(), expected: None, ticket }), Ok(()));
    let settings = Box::default();
    let kind = EntityKind::Queue;
    assert_eq!(broker.ask(Command::CreateEntity { name: "q".into(), kind, settings, ticket: again }), Ok(()));
    assert_ne!(seen(&broker).version, before.version);
    assert_eq!(change(&mut broker, Some(before.version), 5), Err(EntityError::Changed("q".into())));
}

#[test]
fn an_entity_is_found_with_its_sub_queues_and_the_entities_below_its_name() {
    let sub = |name: &str, sub_queue| EntityPath { entity: name.into(), sub_queue };
    let mut broker = Broker::new();
    for (name, kind) in [
        ("Shop/orders", EntityKind::Queue),
        ("shop-2", EntityKind::Queue),
        ("t", EntityKind::Topic),
        ("t/Subscriptions/s", EntityKind::Subscription),
    ] {
        assert_eq!(entity(&mut broker, name, kind), Ok(()));
    }
    let cases = [
        // path, or_below, auto_create, found
        (main_path("SHOP/orders"), false, false, true),
        (sub("shop/orders", SubQueue::DeadLetter), false, false, true),
        (sub("t/subscriptions/S", SubQueue::TransferDeadLetter), false, false, true),
        (main_path("t/Subscriptions/none"), false, false, false),
        (main_path("none"), true, false, false),
        (sub("none", SubQueue::DeadLetter), true, false, false),
        // A prefix ends where a segment ends.
        (main_path("shop"), false, false, false),
        (main_path("shop"), true, false, true),
        (main_path("SHO"), true, false, false),
        (main_path("t/Subscriptions"), true, false, true),
        (main_path("shop-2"), true, false, true),
        (main_path("shop-2/orders"), true, false, false),
        // A queue is made on demand; a subscription is not, nor is what is no name.
        (main_path("none"), false, true, true),
        (sub("none", SubQueue::DeadLetter), false, true, true),
        (main_path("t/Subscriptions/none"), false, true, false),
        (main_path("a b"), false, true, false),
    ];
    let before = broker.core.entities().count();
    for (path, or_below, auto_create, found) in cases {
        let ticket = broker.ticket();
        let command = Command::FindEntity { path: path.clone(), or_below, auto_create, ticket };
        match broker.tell(ME, command).pop().unwrap() {
            Effect::EntityDone { ticket: told } => assert!(found && told == ticket, "{path:?}"),
            Effect::RequestRefused { ticket: told, error: EntityError::NotFound(name) } => {
                assert!(!found && told == ticket && name == path.entity, "{path:?} {or_below} {auto_create}");
            }
            other => panic!("{path:?} {or_below} {auto_create}: {other:?}"),
        }
    }
    assert_eq!(broker.core.entities().count(), before, "looking makes nothing");
}
