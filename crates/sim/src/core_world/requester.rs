//! A second client, which asks for dynamic nodes, sends to them, receives from them and leaves, at any time.
//!
//! Invariant: a node that it receives from gives it what was sent to that node and nothing else. No node is there once it has left and
//! the broker has nothing more to do, nor after a start.

use amqp_codec::message::MessageBuilder;
use broker_core::{
    Batch, ClientId, Command, Delivery, DynamicNode, Effect, EntityKind, EntityPath, LifetimePolicy, LinkId,
    Outcome, ReceiveMode, SubQueue, Subscriber, Timestamp, UnsettledPolicy,
};
use broker_filter::Filter;

use crate::rng::Rng;

/// Its clients have numbers far from those of the world.
const CLIENTS: u64 = 1 << 40;
/// Nodes at the same time.
const NODES_MAX: usize = 5;

/// Names under which its doings are counted.
pub(super) const RECEIVED: &str = "messages received from dynamic nodes";
pub(super) const LEFT: &str = "departures of an owner of dynamic nodes";
pub(super) const CRASHED: &str = "crashes with dynamic nodes";
pub(super) const GONE: &str = "dynamic nodes gone by their policy";

/// A node that it has asked for.
#[derive(Clone, Debug)]
struct Node {
    name: Box<str>,
    /// The link that asked for it.
    creator: LinkId,
    /// The link on which it receives, and its limit of deliveries.
    receiver: Option<(LinkId, u64)>,
}

/// A client with dynamic nodes.
pub(super) struct Requester {
    rng: Rng,
    /// Connections so far.
    connections: u64,
    is_connected: bool,
    nodes: Vec<Node>,
    next_link: u32,
    next_chance: u128,
}

impl Requester {
    /// One that has not connected.
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, connections: 0, is_connected: false, nodes: Vec::new(), next_link: 0, next_chance: 1 }
    }

    /// The client that it is now.
    pub(super) fn client(&self) -> ClientId {
        ClientId(CLIENTS + self.connections)
    }

    /// Whether it has no connection.
    pub(super) const fn is_away(&self) -> bool {
        !self.is_connected
    }

    /// The process has ended. Says whether it took nodes with it.
    pub(super) fn on_crash(&mut self) -> bool {
        self.is_connected = false;
        !std::mem::take(&mut self.nodes).is_empty()
    }

    /// Its next command, if there is one, and the kind of step that it counts as.
    pub(super) fn act(&mut self, now: u64) -> Option<(Batch, Option<&'static str>)> {
        if !self.rng.chance(25) {
            return None;
        }
        let mut counts = None;
        let mut commands = Vec::new();
        if self.is_connected {
            match self.rng.below(12) {
                0..=2 => self.open(&mut commands),
                3..=5 => self.send(now, &mut commands),
                6..=8 => self.ask(&mut commands),
                9 | 10 => self.close(&mut commands),
                _ => {
                    commands.push(Command::Disconnect);
                    self.is_connected = false;
                    counts = (!std::mem::take(&mut self.nodes).is_empty()).then_some(LEFT);
                }
            }
        } else {
            self.connections += 1;
            self.is_connected = true;
            commands = vec![Command::Connect, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 }];
        }
        Some((Batch { client: self.client(), commands }, counts))
    }

    /// Asks for a node, by a link that sends to it or receives from it.
    fn open(&mut self, commands: &mut Vec<Command>) {
        if self.nodes.len() >= NODES_MAX {
            return;
        }
        let policy = self.rng.below(LifetimePolicy::ALL.len() as u64);
        let Some(policy) = usize::try_from(policy).ok().and_then(|at| LifetimePolicy::ALL.get(at)) else {
            return;
        };
        let kind = if self.rng.chance(50) { EntityKind::Queue } else { EntityKind::Topic };
        let node = match kind {
            EntityKind::Topic => DynamicNode::topic(self.next_chance, *policy),
            EntityKind::Queue | EntityKind::Subscription => DynamicNode::queue(self.next_chance, *policy),
        };
        self.next_chance += 1;
        let creator = self.link();
        let sends = self.rng.chance(40);
        let open = if sends {
            let auto_create = false;
            Command::OpenProducer { producer: creator, path: path(node.name()), auto_create }
        } else {
            receiver(creator, node.name(), kind)
        };
        let mut receives = (!sends).then_some((creator, 0));
        let name = Box::<str>::from(node.name());
        commands.push(Command::OpenDynamicNode { node: Box::new(node), open: Box::new(open) });
        if sends && self.rng.chance(70) {
            let link = self.link();
            commands.push(receiver(link, &name, kind));
            receives = Some((link, 0));
        }
        self.nodes.push(Node { name, creator, receiver: receives });
    }

    /// Sends the name of a node to that node.
    fn send(&mut self, now: u64, commands: &mut Vec<Command>) {
        let Some(node) = self.pick() else { return };
        let Some(Node { name, .. }) = self.nodes.get(node) else { return };
        let payload = MessageBuilder::new().message_id("m").data(name.as_bytes()).build();
        let message = amqp_gateway::describe(Timestamp::from_millis(now), &payload);
        let messages = vec![message];
        commands.push(Command::PublishTo { path: path(name), messages, auto_create: false, ticket: None });
    }

    /// Grants credit.
    fn ask(&mut self, commands: &mut Vec<Command>) {
        let more = 1 + self.rng.below(4);
        let Some(node) = self.pick() else { return };
        if let Some(Node { receiver: Some((consumer, limit)), .. }) = self.nodes.get_mut(node) {
            *limit += more;
            commands.push(Command::Credit { consumer: *consumer, limit: *limit, drain: false });
        }
    }

    /// Closes the link that asked for a node, and with it perhaps the node; or detaches it.
    fn close(&mut self, commands: &mut Vec<Command>) {
        let Some(node) = self.pick() else { return };
        let is_closed = self.rng.chance(70);
        let Some(Node { name, creator, receiver }) = self.nodes.get_mut(node) else { return };
        commands.push(Command::CloseConsumer { consumer: *creator });
        if receiver.is_some_and(|(link, _)| link == *creator) {
            *receiver = None;
        }
        if is_closed {
            commands.push(Command::ReleaseDynamicNode { name: name.clone() });
        }
    }

    /// Takes in what the broker says; gives what follows, and what it counts as.
    pub(super) fn on_effect(&mut self, effect: Effect) -> Result<Option<(Batch, &'static str)>, String> {
        match effect {
            Effect::Delivery(delivery) => {
                let commands = self.on_delivery(&delivery)?;
                Ok(Some((Batch { client: self.client(), commands }, RECEIVED)))
            }
            Effect::DynamicNodeGone { name } => {
                self.nodes.retain(|node| node.name != name);
                Ok(Some((Batch { client: self.client(), commands: Vec::new() }, GONE)))
            }
            _ => Ok(None),
        }
    }

    fn on_delivery(&self, delivery: &Delivery) -> Result<Vec<Command>, String> {
        let is_of = |node: &&Node| node.receiver.is_some_and(|(link, _)| link == delivery.consumer);
        // It may have given the link up meanwhile.
        let Some(node) = self.nodes.iter().find(is_of) else { return Ok(Vec::new()) };
        let payload = &delivery.stored.payload;
        let holds_name = payload.windows(node.name.len()).any(|part| part == node.name.as_bytes());
        if !holds_name {
            return Err(format!("the dynamic node {} gives out what was not sent to it", node.name));
        }
        let settle = delivery.lock.map(|lock| Command::Settle {
            queue: delivery.queue,
            sequence: delivery.sequence,
            lock: lock.id,
            outcome: Outcome::Complete,
            ticket: None,
        });
        Ok(settle.into_iter().collect())
    }

    fn link(&mut self) -> LinkId {
        self.next_link += 1;
        LinkId(self.next_link)
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.nodes.len() as u64;
        if count == 0 {
            return None;
        }
        usize::try_from(self.rng.below(count)).ok()
    }
}

fn path(name: &str) -> EntityPath {
    EntityPath { entity: name.into(), sub_queue: SubQueue::Main }
}

/// Receives from a queue, or from a subscription of its own where the node is a topic.
fn receiver(consumer: LinkId, name: &str, kind: EntityKind) -> Command {
    let (path, mode) = (path(name), ReceiveMode::PeekLock);
    let (unsettled, auto_create) = (UnsettledPolicy::Release, false);
    if kind != EntityKind::Topic {
        return Command::OpenConsumer { consumer, path, mode, unsettled, session: None, auto_create };
    }
    let subscriber = Subscriber {
        container: format!("{name} {}", consumer.0).into(),
        name: "requester".into(),
        owner: "requester".into(),
        filter: Filter::True,
        mode,
        shared: false,
        temporary: true,
    };
    Command::OpenSubscriber { consumer, path, mode, unsettled, subscriber: Box::new(subscriber), auto_create }
}

/// A node that the planted fault leaves behind at a start.
pub(super) fn left_behind() -> Batch {
    let node = DynamicNode::queue(u128::MAX, LifetimePolicy::OnClose);
    let producer = LinkId(1);
    let open = Command::OpenProducer { producer, path: path(node.name()), auto_create: false };
    let open = Command::OpenDynamicNode { node: Box::new(node), open: Box::new(open) };
    Batch { client: ClientId(CLIENTS), commands: vec![Command::Connect, open] }
}
