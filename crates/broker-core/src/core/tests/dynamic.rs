//! Dynamic nodes: their creation, their owner, and their end.

use std::collections::BTreeMap;

use broker_filter::Filter;
use proptest::prelude::*;

use super::harness::*;
use crate::{
    AttachError, ClientId, Command, Core, CoreConfig, DynamicNode, Effect, EntityKind, EntityPath,
    EntityQuery, EntitySettings, LifetimePolicy, LinkId, NameScope, NodeKind, Outcome, PageStart, Position,
    PublishError, ReceiveMode, Subscriber, UnsettledPolicy,
};

const POLICIES: [LifetimePolicy; 4] = LifetimePolicy::ALL;

fn producer(link: u32, name: &str) -> Command {
    Command::OpenProducer { producer: LinkId(link), path: main_path(name), auto_create: false }
}

fn consumer(link: u32, path: EntityPath) -> Command {
    Command::OpenConsumer {
        consumer: LinkId(link),
        path,
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::Release,
        session: None,
        auto_create: false,
    }
}

fn subscriber(link: u32, name: &str) -> Command {
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
        path: main_path(name),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::Release,
        subscriber: Box::new(subscriber),
        auto_create: false,
    }
}

fn close(link: u32) -> Command {
    Command::CloseConsumer { consumer: LinkId(link) }
}

fn release(node: &DynamicNode) -> Command {
    Command::ReleaseDynamicNode { name: node.name().into() }
}

/// Creates a node for a client with the link that the command opens, and demands that both are there.
fn ask(broker: &mut Broker, client: ClientId, node: &DynamicNode, open: Command) -> Vec<Effect> {
    broker.tell(client, Command::OpenDynamicNode { node: Box::new(node.clone()), open: Box::new(open) })
}

fn create(broker: &mut Broker, node: &DynamicNode, open: Command) {
    let told = ask(broker, ME, node, open);
    let opened = matches!(told.as_slice(), [Effect::ConsumerOpened { .. } | Effect::ProducerOpened { .. }]);
    assert!(opened, "{told:?}");
    assert!(broker.core.entity(node.name()).is_some());
}

fn send_to(broker: &mut Broker, client: ClientId, name: &str, auto_create: bool) -> Result<(), PublishError> {
    let ticket = broker.ticket();
    let (path, messages) = (main_path(name), vec![message("m")]);
    let command = Command::PublishTo { path, messages, auto_create, ticket: Some(ticket) };
    for effect in broker.tell(client, command) {
        match effect {
            Effect::Published { .. } => return Ok(()),
            Effect::PublishRefused { error, .. } => return Err(error),
            other => broker.journal.effects.push((client, other)),
        }
    }
    panic!("not answered")
}

fn is_gone(broker: &Broker, node: &DynamicNode) -> bool {
    broker.core.entity(node.name()).is_none()
}

/// Crash and restart, where recovery may write.
fn restart(broker: &mut Broker) {
    let mut core = Core::new(CoreConfig { token_key: [7; 16], ..CoreConfig::default() });
    for (at, (bytes, index)) in &broker.journal.records {
        core.replay(Position(*at), &bytes[..*index], size(bytes)).unwrap();
    }
    let live: BTreeMap<u64, u32> = core.live_records().map(|(at, length)| (at.0, length)).collect();
    // The journal believes what replay has found alive, and each release from then on.
    let all = broker.journal.records.iter().map(|(at, (bytes, _))| (*at, size(bytes)));
    broker.journal.released = all.filter(|(at, _)| !live.contains_key(at)).collect();
    core.recovered(&mut broker.journal);
    broker.core = core;
    assert!(broker.journal.effects.is_empty() || !broker.journal.effects.iter().any(|(_, it)| is_end(it)));
    broker.journal.effects.clear();
    for client in [ME, OTHER] {
        broker.tell(client, Command::Connect);
        broker.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
    }
    broker.run_deadlines();
    broker.check_liveness();
}

fn is_end(effect: &Effect) -> bool {
    matches!(effect, Effect::DynamicNodeGone { .. } | Effect::EntityDeleted { .. })
}

#[test]
fn each_policy_names_its_conditions() {
    // Rows: policy; whether the node ends while it has links, while it has messages.
    let table = [
        (LifetimePolicy::OnClose, true, true),
        (LifetimePolicy::OnNoLinks, false, true),
        (LifetimePolicy::OnNoMessages, true, false),
        (LifetimePolicy::OnNoLinksOrMessages, false, false),
    ];
    for (policy, with_links, with_messages) in table {
        for make in [DynamicNode::queue, DynamicNode::topic] {
            let node = make(1, policy);
            let mut broker = Broker::new();
            let open = |link| match node.kind {
                EntityKind::Topic => subscriber(link, node.name()),
                _ => consumer(link, main_path(node.name())),
            };
            // Another link and a message stay when the creating link closes, or one of them, or none.
            for (link, has_message) in [(true, false), (false, true), (true, true), (false, false)] {
                // A topic keeps messages only for its subscribers.
                let has_link = link || node.kind == EntityKind::Topic && has_message;
                let row = format!("{policy:?} {:?} link {has_link} message {has_message}", node.kind);
                create(&mut broker, &node, producer(1, node.name()));
                if has_link {
                    broker.tell(ME, open(2));
                }
                if has_message {
                    assert_eq!(send_to(&mut broker, OTHER, node.name(), false), Ok(()), "{row}");
                }
                broker.tell(ME, close(1));
                assert!(!is_gone(&broker, &node), "{row}: a link that is detached may come back");
                let told = broker.tell(ME, release(&node));
                let ends = (with_links || !has_link) && (with_messages || !has_message);
                assert_eq!(is_gone(&broker, &node), ends, "{row}");
                let is_told = told
                    .iter()
                    .any(|it| matches!(it, Effect::DynamicNodeGone { name } if **name == *node.name()));
                assert_eq!(is_told, ends, "{row}: {told:?}");
                broker.tell(ME, Command::Disconnect);
                assert!(is_gone(&broker, &node), "{row}: gone with its connection");
                broker.tell(ME, Command::Connect);
                broker.tell(ME, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
                broker.take(OTHER);
                broker.run_deadlines();
                broker.check_liveness();
            }
        }
    }
}

#[test]
fn a_node_without_its_link_ends_with_its_last_link_or_message() {
    for (policy, ends_with) in [
        (LifetimePolicy::OnNoLinks, "link"),
        (LifetimePolicy::OnNoMessages, "message"),
        (LifetimePolicy::OnNoLinksOrMessages, "both"),
    ] {
        for delete in [false, true] {
            let mut broker = Broker::new();
            let node = DynamicNode::queue(7, policy);
            create(&mut broker, &node, producer(1, node.name()));
            assert_eq!(send_to(&mut broker, ME, node.name(), false), Ok(()));
            let mode = if delete { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock };
            broker.open(ME, 2, main_path(node.name()), mode);
            broker.tell(ME, close(1));
            broker.tell(ME, release(&node));
            assert!(!is_gone(&broker, &node), "{policy:?}");
            let got = broker.credit(ME, 2, 1);
            if !delete {
                assert!(!is_gone(&broker, &node), "{policy:?}: a locked message is one");
                assert_eq!(broker.settle(&got[0], Outcome::Complete), Ok(()));
            }
            assert_eq!(is_gone(&broker, &node), ends_with == "message", "{policy:?} after the message");
            broker.tell(ME, close(2));
            assert!(is_gone(&broker, &node), "{policy:?} after the link");
            broker.run_deadlines();
            broker.check_liveness();
        }
    }
}

#[test]
fn links_of_others_keep_a_node_until_the_connection_of_its_owner_ends() {
    let mut broker = Broker::new();
    let node = DynamicNode::queue(1, LifetimePolicy::OnNoLinks);
    create(&mut broker, &node, consumer(1, main_path(node.name())));
    broker.tell(OTHER, producer(5, node.name()));
    broker.tell(ME, close(1));
    broker.tell(ME, release(&node));
    assert!(!is_gone(&broker, &node));
    broker.tell(ME, Command::Disconnect);
    assert!(is_gone(&broker, &node));
    let told = broker.take(OTHER);
    assert!(matches!(told.as_slice(), [Effect::EntityDeleted { link: LinkId(5) }]), "{told:?}");
}

#[test]
fn only_the_owner_receives_and_every_client_sends() {
    let mut broker = Broker::new();
    for (node, others) in [
        (
            DynamicNode::queue(1, LifetimePolicy::OnClose),
            vec![consumer(8, main_path("")), consumer(8, dead_letters(""))],
        ),
        (DynamicNode::topic(2, LifetimePolicy::OnClose), vec![subscriber(8, "")]),
    ] {
        let open = match node.kind {
            EntityKind::Topic => subscriber(1, node.name()),
            _ => consumer(1, main_path(node.name())),
        };
        create(&mut broker, &node, open);
        let entities = broker.core.entity_count();
        for other in others {
            let other = match other {
                Command::OpenConsumer { consumer: link, path, mode, unsettled, session, auto_create } => {
                    let path = EntityPath { entity: node.name().into(), ..path };
                    Command::OpenConsumer { consumer: link, path, mode, unsettled, session, auto_create }
                }
                _ => subscriber(8, node.name()),
            };
            let told = broker.tell(OTHER, other);
            let refused =
                matches!(told.as_slice(), [Effect::AttachRefused { error: AttachError::NotOwner(_), .. }]);
            assert!(refused, "{told:?}");
        }
        assert_eq!(
            broker.core.entity_count(),
            entities,
            "nothing was created for a receiver that is refused"
        );
        let told = broker.tell(OTHER, producer(9, node.name()));
        assert!(matches!(told.as_slice(), [Effect::ProducerOpened { .. }]), "{told:?}");
        assert_eq!(send_to(&mut broker, OTHER, node.name(), false), Ok(()));
        assert_eq!(texts(&broker.credit(ME, 1, 5)), ["m"]);
        broker.tell(OTHER, Command::CloseProducer { producer: LinkId(9) });
        broker.tell(ME, close(1));
    }
}

#[test]
fn the_subscriptions_of_a_dynamic_topic_belong_to_its_owner() {
    let mut broker = Broker::new();
    let node = DynamicNode::topic(1, LifetimePolicy::OnClose);
    create(&mut broker, &node, producer(1, node.name()));
    let name: Box<str> = format!("{}/Subscriptions/s", node.name()).into();
    let (settings, ticket) = (Box::new(EntitySettings::default()), broker.ticket());
    let subscription =
        Command::CreateEntity { name: name.clone(), kind: EntityKind::Subscription, settings, ticket };
    assert_eq!(broker.ask(subscription), Ok(()));
    let told = broker.tell(OTHER, consumer(3, main_path(&name)));
    assert!(
        matches!(told.as_slice(), [Effect::AttachRefused { error: AttachError::NotOwner(_), .. }]),
        "{told:?}"
    );
    let told = broker.tell(ME, consumer(3, main_path(&name)));
    assert!(matches!(told.as_slice(), [Effect::ConsumerOpened { .. }]), "{told:?}");
}

#[test]
fn a_refused_request_leaves_no_node() {
    let node = DynamicNode::topic(1, LifetimePolicy::OnClose);
    let mut broker = Broker::with(CoreConfig { max_entities: 1, ..CoreConfig::default() });
    // A receiver without a subscription of its own cannot do with a topic.
    let told = ask(&mut broker, ME, &node, consumer(1, main_path(node.name())));
    assert!(
        told.iter().any(|it| matches!(it, Effect::AttachRefused { error: AttachError::TopicReceive(_), .. })),
        "{told:?}"
    );
    assert_eq!(broker.core.entity_count(), 0);
    broker.create("q", EntitySettings::default());
    let told = ask(&mut broker, ME, &node, producer(1, node.name()));
    let limit = AttachError::LimitReached { what: "entities", limit: 1 };
    assert!(matches!(told.as_slice(), [Effect::AttachRefused { error, .. }] if *error == limit), "{told:?}");
    let stranger = ClientId(77);
    ask(&mut broker, stranger, &node, producer(1, node.name()));
    assert!(is_gone(&broker, &node), "a client that is not there owns nothing");
    let mut broker = Broker::new();
    broker.journal.memory_full = true;
    let told = ask(&mut broker, ME, &node, producer(1, node.name()));
    assert!(
        matches!(told.as_slice(), [Effect::AttachRefused { error: AttachError::NotCreated(_), .. }]),
        "{told:?}"
    );
    assert!(is_gone(&broker, &node));
    broker.check_liveness();
}

#[test]
fn no_request_of_a_client_creates_or_releases_the_node_of_another() {
    let mut broker = Broker::new();
    let node = DynamicNode::queue(1, LifetimePolicy::OnClose);
    for kind in [EntityKind::Queue, EntityKind::Topic] {
        let (settings, ticket) = (Box::default(), broker.ticket());
        let name = node.name().into();
        let refused = broker.ask(Command::CreateEntity { name, kind, settings, ticket });
        assert!(refused.is_err(), "{kind:?}");
    }
    let missing = Err(PublishError::NotFound(node.name().into()));
    assert_eq!(send_to(&mut broker, OTHER, node.name(), true), missing, "auto-create does not bring it back");
    let open = Command::OpenProducer { producer: LinkId(1), path: main_path(node.name()), auto_create: true };
    for open in [open.clone(), Command::OfKind(NodeKind::TemporaryQueue, Box::new(open))] {
        let told = broker.tell(OTHER, open);
        assert!(
            matches!(told.as_slice(), [Effect::AttachRefused { error: AttachError::NotFound(_), .. }]),
            "{told:?}"
        );
    }
    create(&mut broker, &node, producer(1, node.name()));
    broker.tell(OTHER, release(&node));
    broker.tell(OTHER, Command::Disconnect);
    assert!(!is_gone(&broker, &node));
}

#[test]
fn lists_leave_dynamic_nodes_out() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    let queue = DynamicNode::queue(1, LifetimePolicy::OnClose);
    create(&mut broker, &queue, producer(1, queue.name()));
    let topic = DynamicNode::topic(2, LifetimePolicy::OnClose);
    create(&mut broker, &topic, subscriber(2, topic.name()));
    let mut listed = Vec::new();
    let of_kind =
        |kind| EntityQuery::Kind { kind, names: NameScope::All, start: PageStart::Skip(0), top: 100 };
    let all = EntityQuery::All { after: "".into(), top: 100 };
    for query in [of_kind(EntityKind::Queue), of_kind(EntityKind::Topic), all] {
        let ticket = broker.ticket();
        for effect in broker.tell(ME, Command::Describe { query, ticket }) {
            let Effect::Described { entities, .. } = effect else { panic!("{effect:?}") };
            listed.extend(entities.into_iter().map(|entity| entity.name));
        }
    }
    assert_eq!(listed, ["q".into(), "q".into()]);
    assert_eq!(broker.core.entity_count(), 4, "they count as entities, the subscription of the topic too");
}

#[test]
fn after_a_crash_no_dynamic_node_is_left_and_other_messages_are_untouched() {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.publish_all(&["a", "b"]);
    let entities = broker.core.entity_count();
    let mut digest = broker.core.digest();
    for (number, policy) in (1..).zip(POLICIES) {
        let queue = DynamicNode::queue(number, policy);
        create(&mut broker, &queue, producer(1, queue.name()));
        send_to(&mut broker, OTHER, queue.name(), false).unwrap();
        let topic = DynamicNode::topic(100 + number, policy);
        create(&mut broker, &topic, subscriber(2, topic.name()));
        send_to(&mut broker, OTHER, topic.name(), false).unwrap();
    }
    broker.take(ME);
    for _ in 0..2 {
        restart(&mut broker);
        assert_eq!(broker.core.entity_count(), entities);
        assert_eq!(broker.core.digest(), digest);
        assert_eq!(texts(&broker.lock(5)), ["a", "b"]);
        // The locks end, which counts a failed delivery of each.
        broker.wait(60_000);
        digest = broker.core.digest();
    }
}

#[test]
fn an_administrator_can_delete_a_dynamic_node_by_its_name() {
    let mut broker = Broker::new();
    let node = DynamicNode::queue(1, LifetimePolicy::OnClose);
    create(&mut broker, &node, producer(1, node.name()));
    let ticket = broker.ticket();
    let told = broker.tell(OTHER, Command::DeleteEntity { name: node.name().into(), expected: None, ticket });
    assert!(matches!(told.as_slice(), [Effect::EntityDone { .. }]), "{told:?}");
    let told = broker.take(ME);
    assert_eq!(told.iter().filter(|it| is_end(it)).count(), 2, "{told:?}");
    // A later release by the client finds no node.
    assert!(broker.tell(ME, release(&node)).is_empty());
}

/// A step of a random run over a few nodes, links and two clients.
#[derive(Clone, Debug)]
enum Step {
    Create { client: u8, node: u8, policy: usize, topic: bool },
    Open { client: u8, node: u8, receives: bool },
    Close { client: u8, node: u8, receives: bool },
    Detach { node: u8 },
    Release { client: u8, node: u8 },
    Send { client: u8, node: u8 },
    TakeAll { node: u8 },
    Reconnect { client: u8 },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (client, node) = (0..2_u8, 0..3_u8);
    prop_oneof![
        4 => (client.clone(), node.clone(), 0..4_usize, any::<bool>())
            .prop_map(|(client, node, policy, topic)| Step::Create { client, node, policy, topic }),
        4 => (client.clone(), node.clone(), any::<bool>())
            .prop_map(|(client, node, receives)| Step::Open { client, node, receives }),
        4 => (client.clone(), node.clone(), any::<bool>())
            .prop_map(|(client, node, receives)| Step::Close { client, node, receives }),
        1 => node.clone().prop_map(|node| Step::Detach { node }),
        3 => (client.clone(), node.clone()).prop_map(|(client, node)| Step::Release { client, node }),
        4 => (client.clone(), node.clone()).prop_map(|(client, node)| Step::Send { client, node }),
        3 => node.prop_map(|node| Step::TakeAll { node }),
        1 => client.prop_map(|client| Step::Reconnect { client }),
        1 => Just(Step::Restart),
    ]
}

/// A node as the model knows it.
#[derive(Debug)]
struct Known {
    node: DynamicNode,
    owner: ClientId,
    /// The link that asked for it exists, attached or not.
    has_creator: bool,
    creator_is_attached: bool,
    /// By client and direction.
    links: BTreeMap<(ClientId, bool), u32>,
    messages: u64,
}

impl Known {
    fn is_over(&self) -> bool {
        let has_links = !self.links.is_empty() || self.creator_is_attached;
        !self.has_creator && self.node.lifetime.ends(has_links, self.messages > 0)
    }

    /// Receivers keep messages of a topic, each its own.
    fn receivers(&self) -> u64 {
        self.links.keys().filter(|(_, receives)| *receives).count() as u64
    }
}

const CLIENTS: [ClientId; 2] = [ME, OTHER];

fn link_of(client: u8, node: u8, receives: bool) -> u32 {
    10 + 4 * u32::from(node) + 2 * u32::from(client) + u32::from(receives)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_node_is_there_exactly_while_its_policy_and_its_connection_keep_it(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut broker = Broker::new();
        let mut known: BTreeMap<u8, Known> = BTreeMap::new();
        let mut next_chance = 1_u128;
        for step in steps {
            match step {
                Step::Create { client, node, policy, topic } => {
                    if known.contains_key(&node) {
                        continue;
                    }
                    let make = if topic { DynamicNode::topic } else { DynamicNode::queue };
                    let dynamic = make(next_chance, POLICIES[policy]);
                    next_chance += 1;
                    let owner = CLIENTS[usize::from(client)];
                    ask(&mut broker, owner, &dynamic, producer(1 + u32::from(node), dynamic.name()));
                    let entry = Known {
                        node: dynamic,
                        owner,
                        has_creator: true,
                        creator_is_attached: true,
                        links: BTreeMap::new(),
                        messages: 0,
                    };
                    known.insert(node, entry);
                }
                Step::Open { client, node, receives } => {
                    let Some(known) = known.get_mut(&node) else { continue };
                    let (number, who) = (link_of(client, node, receives), CLIENTS[usize::from(client)]);
                    if known.links.contains_key(&(who, receives)) {
                        continue;
                    }
                    let name = known.node.name();
                    let open = match (receives, known.node.kind) {
                        (false, _) => producer(number, name),
                        (true, EntityKind::Topic) => subscriber(number, name),
                        (true, _) => consumer(number, main_path(name)),
                    };
                    let told = broker.tell(who, open);
                    let refused = told.iter().any(|it| matches!(it, Effect::AttachRefused { error: AttachError::NotOwner(_), .. }));
                    prop_assert_eq!(refused, receives && who != known.owner, "{:?}", told);
                    if !refused {
                        known.links.insert((who, receives), number);
                    }
                }
                Step::Close { client, node, receives } => {
                    let Some(known) = known.get_mut(&node) else { continue };
                    let who = CLIENTS[usize::from(client)];
                    if let Some(number) = known.links.remove(&(who, receives)) {
                        broker.tell(who, close(number));
                        if receives && known.node.kind == EntityKind::Topic {
                            known.messages = 0;
                        }
                    }
                }
                Step::Detach { node } => {
                    let Some(known) = known.get_mut(&node) else { continue };
                    broker.tell(known.owner, close(1 + u32::from(node)));
                    known.creator_is_attached = false;
                }
                Step::Release { client, node } => {
                    let Some(known) = known.get_mut(&node) else { continue };
                    let who = CLIENTS[usize::from(client)];
                    if who == known.owner {
                        broker.tell(who, close(1 + u32::from(node)));
                        known.creator_is_attached = false;
                        known.has_creator = false;
                    }
                    broker.tell(who, release(&known.node));
                }
                Step::Send { client, node } => {
                    let Some(known) = known.get_mut(&node) else { continue };
                    let who = CLIENTS[usize::from(client)];
                    prop_assert_eq!(send_to(&mut broker, who, known.node.name(), false), Ok(()));
                    let is_topic = known.node.kind == EntityKind::Topic;
                    known.messages += if is_topic { known.receivers() } else { 1 };
                }
                Step::TakeAll { node } => {
                    let Some(known) = known.get_mut(&node) else { continue };
                    let Some(number) = known.links.get(&(known.owner, true)).copied() else { continue };
                    let owner = known.owner;
                    broker.take(owner);
                    let got = broker.tell(owner, Command::Credit { consumer: LinkId(number), limit: u64::MAX, drain: false });
                    let got = deliveries(got);
                    prop_assert_eq!(got.len() as u64, known.messages);
                    for delivery in got {
                        broker.tell(owner, Command::Settle {
                            queue: delivery.queue,
                            sequence: delivery.sequence,
                            lock: delivery.lock.unwrap().id,
                            outcome: Outcome::Complete,
                            ticket: None,
                        });
                    }
                    broker.tell(owner, Command::Credit { consumer: LinkId(number), limit: 0, drain: false });
                    known.messages = 0;
                }
                Step::Reconnect { client } => {
                    let who = CLIENTS[usize::from(client)];
                    broker.tell(who, Command::Disconnect);
                    broker.tell(who, Command::Connect);
                    broker.tell(who, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
                    known.retain(|_, known| known.owner != who);
                    for known in known.values_mut() {
                        known.links.retain(|(owner, _), _| *owner != who);
                    }
                }
                Step::Restart => {
                    broker.journal.effects.clear();
                    restart(&mut broker);
                    known.clear();
                }
            }
            known.retain(|_, known| !known.is_over());
            let expected: Vec<&str> = known.values().map(|known| known.node.name()).collect();
            let mut there: Vec<String> = broker
                .core
                .entities()
                .filter(|entity| entity.kind != EntityKind::Subscription)
                .map(|entity| entity.name.to_owned())
                .collect();
            there.sort_unstable();
            let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            expected.sort_unstable();
            prop_assert_eq!(there, expected);
            broker.run_deadlines();
            broker.check_liveness();
        }
    }
}
