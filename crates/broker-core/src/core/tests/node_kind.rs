//! Links and messages for a node of one kind.

use std::time::Duration;

use broker_filter::Filter;

use super::harness::*;
use crate::{
    AttachError, Command, CoreConfig, Effect, EntityError, EntityKind, EntityPath, EntitySettings, LinkId,
    NodeKind, Profile, PublishError, ReceiveMode, SubQueue, Subscriber, TransactionId, UnsettledPolicy,
};

const KINDS: [NodeKind; 4] =
    [NodeKind::Queue, NodeKind::Topic, NodeKind::TemporaryQueue, NodeKind::TemporaryTopic];
const LINK: LinkId = LinkId(1);

fn producer(path: EntityPath, auto_create: bool) -> Command {
    Command::OpenProducer { producer: LINK, path, auto_create }
}

fn receiver(path: EntityPath, auto_create: bool) -> Command {
    let (mode, unsettled) = (ReceiveMode::PeekLock, UnsettledPolicy::Release);
    Command::OpenConsumer { consumer: LINK, path, mode, unsettled, session: None, auto_create }
}

fn subscriber_of(link: u32, path: EntityPath, auto_create: bool) -> Command {
    let subscriber = Subscriber {
        container: format!("c{link}").into(),
        name: "s".into(),
        owner: "me".into(),
        filter: Filter::True,
        mode: ReceiveMode::PeekLock,
        shared: false,
        temporary: true,
    };
    Command::OpenSubscriber {
        consumer: LinkId(link),
        path,
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::Release,
        subscriber: Box::new(subscriber),
        auto_create,
    }
}

fn subscriber(path: EntityPath, auto_create: bool) -> Command {
    subscriber_of(1, path, auto_create)
}

fn message_to(broker: &mut Broker, path: EntityPath, auto_create: bool) -> Command {
    let ticket = Some(broker.ticket());
    Command::PublishTo { path, messages: vec![message("m")], auto_create, ticket }
}

fn ask(broker: &mut Broker, kind: NodeKind, command: Command) -> Result<(), String> {
    match broker.tell(ME, Command::OfKind(kind, Box::new(command))).pop() {
        Some(Effect::AttachRefused { link, error }) => {
            assert_eq!(link, LINK);
            Err(error.to_string())
        }
        Some(Effect::PublishRefused { error, .. }) => Err(error.to_string()),
        Some(_) => Ok(()),
        None => panic!("not answered"),
    }
}

fn kind_of(broker: &Broker, name: &str) -> Option<EntityKind> {
    broker.core.entity(name).map(|entity| entity.kind)
}

#[test]
fn a_missing_node_is_created_with_the_kind_that_was_asked_for() {
    for kind in KINDS {
        let mut broker = Broker::new();
        assert_eq!(ask(&mut broker, kind, producer(main_path("n"), true)), Ok(()));
        assert_eq!(kind_of(&broker, "n"), Some(kind.entity()), "{kind:?}");
        assert_eq!(ask(&mut broker, kind, subscriber(main_path("m"), true)), Ok(()));
        assert_eq!(kind_of(&broker, "m"), Some(kind.entity()), "{kind:?}");
        let command = message_to(&mut broker, main_path("o"), true);
        assert_eq!(ask(&mut broker, kind, command), Ok(()));
        assert_eq!(kind_of(&broker, "o"), Some(kind.entity()), "{kind:?}");
        let (held, expected) = (broker.core.entity("o").unwrap().active, kind.entity() == EntityKind::Queue);
        assert_eq!(held, u64::from(expected), "a topic without subscriptions keeps nothing");
        broker.check_liveness();
    }
}

#[test]
fn a_node_of_another_kind_is_refused_and_left_alone() {
    for (is, asked, matches) in [
        (EntityKind::Queue, NodeKind::Queue, true),
        (EntityKind::Queue, NodeKind::TemporaryQueue, true),
        (EntityKind::Queue, NodeKind::Topic, false),
        (EntityKind::Queue, NodeKind::TemporaryTopic, false),
        (EntityKind::Topic, NodeKind::Topic, true),
        (EntityKind::Topic, NodeKind::TemporaryTopic, true),
        (EntityKind::Topic, NodeKind::Queue, false),
        (EntityKind::Topic, NodeKind::TemporaryQueue, false),
    ] {
        for auto_create in [false, true] {
            let mut broker = Broker::new();
            broker.create_kind("N", is, EntitySettings::default());
            let to = message_to(&mut broker, main_path("n"), auto_create);
            for command in
                [producer(main_path("n"), auto_create), subscriber(main_path("n"), auto_create), to]
            {
                let answer = ask(&mut broker, asked, command);
                let expected = if matches {
                    Ok(())
                } else {
                    Err(format!("`n` is not {asked}, which the client asks for"))
                };
                assert_eq!(answer, expected, "{is:?} {asked:?}");
            }
            assert_eq!(kind_of(&broker, "n"), Some(is));
        }
    }
}

#[test]
fn a_receiver_that_cannot_subscribe_creates_no_topic() {
    let mut broker = Broker::new();
    let refused = Err(AttachError::TopicReceive("n".into()).to_string());
    assert_eq!(ask(&mut broker, NodeKind::Topic, receiver(main_path("n"), true)), refused);
    assert_eq!(kind_of(&broker, "n"), None);
    assert_eq!(ask(&mut broker, NodeKind::Queue, receiver(main_path("n"), true)), Ok(()));
    assert_eq!(kind_of(&broker, "n"), Some(EntityKind::Queue));
}

#[test]
fn without_auto_create_nothing_is_created() {
    for kind in KINDS {
        let mut broker = Broker::new();
        let to = message_to(&mut broker, main_path("n"), false);
        for command in [producer(main_path("n"), false), subscriber(main_path("n"), false), to] {
            let missing = Err(AttachError::NotFound("n".into()).to_string());
            assert_eq!(ask(&mut broker, kind, command), missing, "{kind:?}");
        }
        assert_eq!(kind_of(&broker, "n"), None);
    }
}

#[test]
fn subscriptions_and_sub_queues_have_their_own_kind_in_every_request() {
    for kind in KINDS {
        let mut broker = Broker::with_topic(EntitySettings::default());
        broker.subscribe("a", EntitySettings::default(), Vec::new());
        broker.create("q", EntitySettings::default());
        let dead = |name: &str| EntityPath { entity: name.into(), sub_queue: SubQueue::DeadLetter };
        for path in [main_path("t/Subscriptions/a"), dead("t/Subscriptions/a"), dead("q")] {
            assert_eq!(ask(&mut broker, kind, subscriber(path.clone(), true)), Ok(()), "{kind:?} {path:?}");
        }
        let missing = ask(&mut broker, kind, subscriber(main_path("t/Subscriptions/no"), true));
        assert_eq!(missing, Err(AttachError::NotFound("t/Subscriptions/no".into()).to_string()));
    }
}

#[test]
fn each_subscriber_of_a_topic_that_was_created_for_it_gets_each_message() {
    let mut broker = Broker::new();
    for link in [1, 2] {
        let open = subscriber_of(link, main_path("news"), true);
        let told = broker.tell(ME, Command::OfKind(NodeKind::Topic, Box::new(open)));
        assert!(matches!(told[..], [Effect::ConsumerOpened { .. }]), "{told:?}");
    }
    let to = message_to(&mut broker, main_path("news"), true);
    assert_eq!(ask(&mut broker, NodeKind::Topic, to), Ok(()));
    for link in [1, 2] {
        assert_eq!(texts(&broker.credit(ME, link, 5)), ["m"]);
    }
    broker.check_liveness();
}

#[test]
fn a_temporary_node_goes_when_nobody_has_used_it_for_five_minutes() {
    let five_minutes = 5 * 60 * 1_000;
    for kind in KINDS {
        let mut broker = Broker::new();
        assert_eq!(ask(&mut broker, kind, subscriber(main_path("n"), true)), Ok(()));
        broker.credit(ME, 1, 5);
        broker.wait(2 * five_minutes);
        assert!(kind_of(&broker, "n").is_some(), "{kind:?}: a receiver waits for messages");
        broker.tell(ME, Command::CloseConsumer { consumer: LINK });
        broker.wait(2 * five_minutes);
        let stays = matches!(kind, NodeKind::Queue | NodeKind::Topic);
        assert_eq!(kind_of(&broker, "n").is_some(), stays, "{kind:?}");
    }
}

#[test]
fn a_node_that_cannot_be_created_is_refused_with_the_reason() {
    let mut broker = Broker::with(CoreConfig { profile: Profile::BASIC, ..CoreConfig::default() });
    let basic = EntityError::NotInProfile { what: "topics", profile: "Basic" }.to_string();
    assert_eq!(ask(&mut broker, NodeKind::Topic, producer(main_path("n"), true)), Err(basic));
    let idle = EntityError::NotInProfile { what: "AutoDeleteOnIdle", profile: "Basic" }.to_string();
    assert_eq!(ask(&mut broker, NodeKind::TemporaryQueue, producer(main_path("n"), true)), Err(idle));
    assert_eq!(ask(&mut broker, NodeKind::Queue, producer(main_path("n"), true)), Ok(()));
    let bad = "x".repeat(1_025);
    let invalid = Err(AttachError::InvalidName(bad.clone().into()).to_string());
    assert_eq!(ask(&mut broker, NodeKind::Queue, producer(main_path(&bad), true)), invalid);
    let mut broker = Broker::with(CoreConfig { max_entities: 1, ..CoreConfig::default() });
    assert_eq!(ask(&mut broker, NodeKind::Topic, producer(main_path("n"), true)), Ok(()));
    let full = AttachError::LimitReached { what: "entities", limit: 1 }.to_string();
    assert_eq!(ask(&mut broker, NodeKind::Topic, producer(main_path("m"), true)), Err(full));
}

#[test]
fn a_message_for_another_kind_of_node_ends_its_transaction() {
    let mut broker = Broker::new();
    broker.create("q", EntitySettings::default());
    let (transaction, ticket) = (TransactionId(1), broker.ticket());
    broker.tell(ME, Command::Declare { transaction, ticket });
    let enlist = |broker: &mut Broker, kind: NodeKind| {
        let ticket = Some(broker.ticket());
        let path = main_path("q");
        let command = Command::PublishTo { path, messages: vec![message("m")], auto_create: true, ticket };
        let enlist = command.within(transaction);
        broker.tell(ME, Command::OfKind(kind, Box::new(enlist)))
    };
    let told = enlist(&mut broker, NodeKind::Queue);
    assert!(matches!(told[..], [Effect::Published { .. }]), "{told:?}");
    let told = enlist(&mut broker, NodeKind::Topic);
    let [Effect::PublishRefused { error: PublishError::WrongKind { .. }, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    let ticket = Some(broker.ticket());
    let told = broker.tell(ME, Command::Discharge { transaction, fail: false, ticket });
    assert!(matches!(told[..], [Effect::TransactionRefused { .. }]), "{told:?}");
    assert_eq!(broker.core.entity("q").unwrap().active, 0);
}

#[test]
fn nodes_created_on_demand_are_there_after_a_restart() {
    let mut broker = Broker::new();
    assert_eq!(ask(&mut broker, NodeKind::Topic, producer(main_path("t"), true)), Ok(()));
    assert_eq!(ask(&mut broker, NodeKind::TemporaryQueue, producer(main_path("q"), true)), Ok(()));
    broker.restart();
    assert_eq!(kind_of(&broker, "t"), Some(EntityKind::Topic));
    let settings = broker.core.entity("q").unwrap().settings.clone();
    assert_eq!(settings.auto_delete_on_idle, Some(Duration::from_secs(300)));
}
