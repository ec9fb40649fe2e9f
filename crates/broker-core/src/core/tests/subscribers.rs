//! Receivers from a topic itself.

use broker_filter::{Filter, Parameters, SqlFilter, Value};

use super::harness::*;
use crate::{
    AttachError, ClientId, Command, CoreConfig, Effect, EntityKind, EntitySettings, LinkId, ReceiveMode,
    Subscriber, UnsettledPolicy,
};

const OTHER: ClientId = ClientId(9);

fn subscriber(name: &str) -> Subscriber {
    Subscriber {
        container: "c".into(),
        name: name.into(),
        owner: "me".into(),
        filter: Filter::True,
        mode: ReceiveMode::PeekLock,
        shared: false,
        temporary: false,
    }
}

fn shared(name: &str) -> Subscriber {
    Subscriber { shared: true, ..subscriber(name) }
}

fn choosy(name: &str, filter: &str) -> Subscriber {
    let filter = Filter::Sql(SqlFilter::parse(filter, Parameters::new()).unwrap());
    Subscriber { filter, ..subscriber(name) }
}

/// The name of the subscription that a subscriber gets.
fn open_as(
    broker: &mut Broker,
    client: ClientId,
    link: u32,
    topic: &str,
    subscriber: Subscriber,
) -> Result<String, AttachError> {
    let command = Command::OpenSubscriber {
        consumer: LinkId(link),
        path: main_path(topic),
        mode: ReceiveMode::Browse,
        unsettled: UnsettledPolicy::Release,
        subscriber: Box::new(subscriber),
        auto_create: false,
    };
    match broker.tell(client, command).pop() {
        Some(Effect::ConsumerOpened { queue, .. }) => Ok(queue.name.into()),
        Some(Effect::AttachRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn open(broker: &mut Broker, link: u32, subscriber: Subscriber) -> Result<String, AttachError> {
    open_as(broker, ME, link, "t", subscriber)
}

fn close(broker: &mut Broker, link: u32) {
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(link) });
}

fn unsubscribe(broker: &mut Broker, subscription: &str) {
    broker.tell(ME, Command::Unsubscribe { subscription: subscription.into() });
}

/// The subscription and the topic of a subscriber, if it has any.
fn find(broker: &mut Broker, name: &str) -> Option<(String, String)> {
    let command = Command::FindSubscriber { link: LinkId(77), container: "c".into(), name: name.into() };
    match broker.tell(ME, command).pop() {
        Some(Effect::SubscriberFound { subscription, topic, .. }) => {
            Some((subscription.into(), topic.into()))
        }
        Some(Effect::AttachRefused { error: AttachError::NotFound(_), .. }) => None,
        other => panic!("{other:?}"),
    }
}

fn with_topic() -> Broker {
    let mut broker = Broker::with_topic(EntitySettings::default());
    broker.tell_all(OTHER, vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }]);
    broker
}

#[test]
fn messages_for_an_absent_subscriber_wait_over_a_restart_too() {
    let mut broker = with_topic();
    let name = open(&mut broker, 1, subscriber("s")).unwrap();
    close(&mut broker, 1);
    broker.send(vec![message("m")]);
    broker.restart();
    assert_eq!(open(&mut broker, 1, subscriber("s")), Ok(name));
    assert_eq!(texts(&broker.credit(ME, 1, 5)), ["m"]);
    broker.check_liveness();
}

#[test]
fn subscribers_are_told_apart_by_container_and_name_to_the_letter() {
    let mut broker = with_topic();
    let of = |container: &str, name: &str| Subscriber { container: container.into(), ..subscriber(name) };
    let who = [of("c", "s"), of("c", "S"), of("", "cs"), of("d", "s"), of("c", "S\u{1f40e}")];
    let mut names: Vec<String> =
        (1..).zip(who).map(|(link, who)| open(&mut broker, link, who).unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5);
    assert!(names.iter().all(|name| name.starts_with("t/Subscriptions/amqp-")), "{names:?}");
}

#[test]
fn a_path_that_is_no_topic_is_received_from_as_ever() {
    let mut broker = with_topic();
    broker.create("q", EntitySettings::default());
    broker.create_kind("t/Subscriptions/a", EntityKind::Subscription, EntitySettings::default());
    assert_eq!(open_as(&mut broker, ME, 1, "q", subscriber("s")), Ok("q".into()));
    assert_eq!(
        open_as(&mut broker, ME, 2, "t/subscriptions/a", subscriber("s")),
        Ok("t/Subscriptions/a".into())
    );
    assert_eq!(
        open_as(&mut broker, ME, 3, "nothing", subscriber("s")),
        Err(AttachError::NotFound("nothing".into()))
    );
    assert_eq!(find(&mut broker, "s"), None);
}

#[test]
fn only_messages_that_match_reach_a_subscriber() {
    let mut broker = with_topic();
    open(&mut broker, 1, choosy("s", "n > 5")).unwrap();
    broker.send(vec![
        message_with("few", &[("n", Value::Int(5))]),
        message_with("many", &[("n", Value::Int(6))]),
        // The filter fails on it, and nothing is dead-lettered for a reader who knows no dead letters.
        message_with("odd", &[("n", Value::from("six"))]),
    ]);
    assert_eq!(texts(&broker.credit(ME, 1, 5)), ["many"]);
}

#[test]
fn a_subscriber_with_another_selector_begins_anew() {
    let mut broker = with_topic();
    broker.create_kind("u", EntityKind::Topic, EntitySettings::default());
    open(&mut broker, 1, choosy("s", "n > 5")).unwrap();
    close(&mut broker, 1);
    broker.send(vec![message_with("old", &[("n", Value::Int(6))])]);
    open(&mut broker, 1, choosy("s", "n > 0")).unwrap();
    assert!(broker.credit(ME, 1, 5).is_empty(), "another filter");
    close(&mut broker, 1);
    let name = open_as(&mut broker, ME, 1, "u", choosy("s", "n > 0")).unwrap();
    assert_eq!(
        find(&mut broker, "s"),
        Some((name, "u".into())),
        "another topic, and the old one is given up"
    );
}

#[test]
fn a_subscription_that_is_not_shared_has_one_receiver() {
    let in_use = |name: &str| Err(AttachError::SubscriptionInUse(name.into()));
    let mut broker = with_topic();
    open(&mut broker, 1, subscriber("s")).unwrap();
    let stranger = Subscriber { owner: "somebody else".into(), ..subscriber("s") };
    assert_eq!(open_as(&mut broker, OTHER, 1, "t", stranger), in_use("s"));
    assert_eq!(open_as(&mut broker, OTHER, 1, "t", choosy("s", "n > 0")), in_use("s"));
    assert_eq!(open_as(&mut broker, OTHER, 1, "t", shared("s")), in_use("s"));
    let name = open(&mut broker, 4, subscriber("by name")).unwrap();
    broker.tell(ME, Command::CloseConsumer { consumer: LinkId(4) });
    broker.open(ME, 4, main_path(&name), ReceiveMode::PeekLock);
    assert_eq!(open_as(&mut broker, OTHER, 1, "t", subscriber("by name")), in_use("by name"));
    let name = open(&mut broker, 2, shared("several")).unwrap();
    assert_eq!(open_as(&mut broker, OTHER, 2, "t", shared("several")), Ok(name.clone()));
    assert_eq!(open_as(&mut broker, OTHER, 3, "t", subscriber("several")), in_use("several"));
    let otherwise = Subscriber { shared: true, ..choosy("several", "n > 0") };
    assert_eq!(open_as(&mut broker, OTHER, 3, "t", otherwise), in_use("several"));
    // They share what comes.
    broker.send(vec![message("1"), message("2")]);
    assert_eq!(broker.credit(ME, 2, 1).len() + broker.credit(OTHER, 2, 1).len(), 2);
}

#[test]
fn a_link_of_the_same_durable_subscriber_takes_the_place_of_the_older_one() {
    let mut broker = with_topic();
    let name = open(&mut broker, 1, subscriber("s")).unwrap();
    broker.send(vec![message("1"), message("2")]);
    let held = broker.credit(ME, 1, 1);
    assert_eq!(texts(&held), ["1"]);
    assert_eq!(open_as(&mut broker, OTHER, 5, "t", subscriber("s")), Ok(name.clone()));
    let told = broker.take(ME);
    assert!(matches!(told[..], [Effect::LinkStolen { link: LinkId(1) }]), "{told:?}");
    // The newer link has the messages that it held, and it can settle nothing any more.
    assert!(broker.settle(&held[0], crate::Outcome::Complete).is_err());
    assert_eq!(texts(&broker.credit(OTHER, 5, 9)), ["1", "2"]);
    close(&mut broker, 1);
    unsubscribe(&mut broker, &name);
    assert!(find(&mut broker, "s").is_some(), "the older one's end is nothing to the newer one");
    // The older one may come back, too.
    assert_eq!(open(&mut broker, 2, subscriber("s")), Ok(name));
    assert!(broker.take(OTHER).iter().any(|told| matches!(told, Effect::LinkStolen { link: LinkId(5) })));
    broker.check_liveness();
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}

#[test]
fn a_link_that_is_opened_anew_does_not_stand_in_its_own_way() {
    let mut broker = with_topic();
    let name = open(&mut broker, 1, subscriber("s")).unwrap();
    assert_eq!(open(&mut broker, 1, subscriber("s")), Ok(name));
}

#[test]
fn unsubscribing_deletes_only_a_subscription_without_receivers() {
    let mut broker = with_topic();
    broker.create_kind("t/Subscriptions/a", EntityKind::Subscription, EntitySettings::default());
    unsubscribe(&mut broker, "t/Subscriptions/a");
    assert!(broker.core.entity("t/Subscriptions/a").is_some(), "not a subscriber's");
    unsubscribe(&mut broker, "t/Subscriptions/amqp-none");
    let name = open(&mut broker, 1, subscriber("s")).unwrap();
    unsubscribe(&mut broker, &name);
    assert!(find(&mut broker, "s").is_some(), "in use");
    close(&mut broker, 1);
    unsubscribe(&mut broker, &name);
    assert_eq!(find(&mut broker, "s"), None);
    broker.restart();
    assert_eq!(find(&mut broker, "s"), None);
}

#[test]
fn a_temporary_one_goes_with_the_last_link_that_receives_from_it() {
    let temporary = |name| Subscriber { temporary: true, ..shared(name) };
    let mut broker = with_topic();
    for (link, client) in [(1, ME), (2, ME), (3, OTHER)] {
        open_as(&mut broker, client, link, "t", temporary("s")).unwrap();
    }
    open_as(&mut broker, OTHER, 4, "t", Subscriber { temporary: true, ..subscriber("alone") }).unwrap();
    open_as(&mut broker, OTHER, 5, "t", subscriber("durable")).unwrap();
    close(&mut broker, 1);
    close(&mut broker, 2);
    assert!(find(&mut broker, "s").is_some());
    broker.tell(OTHER, Command::Disconnect);
    assert_eq!((find(&mut broker, "s"), find(&mut broker, "alone")), (None, None));
    assert!(find(&mut broker, "durable").is_some());
    // Another link of the same number is another one.
    open(&mut broker, 1, temporary("s")).unwrap();
    open(&mut broker, 1, subscriber("durable")).unwrap();
    assert_eq!(find(&mut broker, "s"), None);
}

#[test]
fn a_refused_subscriber_leaves_no_temporary_subscription() {
    let mut broker = Broker::with(CoreConfig { max_consumers_per_entity: 0, ..CoreConfig::default() });
    broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
    let refused = open(&mut broker, 1, Subscriber { temporary: true, ..subscriber("s") });
    assert!(matches!(refused, Err(AttachError::LimitReached { .. })), "{refused:?}");
    assert_eq!(find(&mut broker, "s"), None);
}

#[test]
fn a_temporary_subscription_left_by_a_crash_is_deleted_after_five_minutes() {
    let mut broker = with_topic();
    open(&mut broker, 1, Subscriber { temporary: true, ..subscriber("s") }).unwrap();
    open(&mut broker, 2, subscriber("durable")).unwrap();
    broker.restart();
    broker.wait(5 * 60_000 - 1);
    assert!(find(&mut broker, "s").is_some());
    broker.wait(60_000);
    assert_eq!(find(&mut broker, "s"), None);
    assert!(find(&mut broker, "durable").is_some());
}

#[test]
fn a_topic_has_so_many_subscribers_and_no_more() {
    let mut broker = Broker::with(CoreConfig { max_subscribers_per_topic: 2, ..CoreConfig::default() });
    broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
    broker.create_kind("t/Subscriptions/a", EntityKind::Subscription, EntitySettings::default());
    let first = open(&mut broker, 1, subscriber("1")).unwrap();
    open(&mut broker, 2, subscriber("2")).unwrap();
    let refused = Err(AttachError::LimitReached { what: "subscribers per topic", limit: 2 });
    assert_eq!(open(&mut broker, 3, subscriber("3")), refused);
    close(&mut broker, 1);
    unsubscribe(&mut broker, &first);
    assert!(open(&mut broker, 3, subscriber("3")).is_ok());
}

#[test]
fn a_list_of_subscriptions_names_their_subscribers() {
    let mut broker = with_topic();
    let name = open(&mut broker, 1, subscriber("news\u{1}")).unwrap();
    let id = broker.queue(&name);
    let settings = &broker.core.state.messages.entities.main_of(id).unwrap().definition.settings;
    assert_eq!(settings.user_metadata.as_deref(), Some("subscriber news  of c"));
    assert_eq!(settings.auto_delete_on_idle, None);
}
