//! Parameters of one run, drawn from its seed.
//!
//! Invariant: everything a run may vary stands here, so that two plans differ only in what they say.

mod topology;

use std::time::Duration;

use broker_core::{EntitySettings, LockLifetime};
use broker_node::NodeLimits;

pub(crate) use topology::{Entity, Interest, PlantedFault, SETUP, SendTarget, SourceKind, Topology};

use crate::rng::Rng;

/// Durability of the journal in this run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durable {
    /// Everything acknowledged: the oracle demands it.
    Yes,
    /// Nothing: the journal is memory. A crash then loses messages, and the oracle must see it.
    No,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Steps with faults, after which the broker runs without faults and is drained.
    pub steps: u32,
    pub durable: Durable,
    /// Namespaces, each with the entities of the topology. All but the first one are deleted and created again.
    pub(crate) namespaces: usize,
    /// Most shards of the process: it begins with fewer in some runs.
    pub(crate) shards: usize,
    /// Chance in 10,000 of each step that the node of a shard panics.
    pub(crate) panic: u64,
    /// Whether namespaces are held and let go again, and have limits, now and then.
    pub(crate) changes_settings: bool,
    /// Most batches and changes that one round of a node takes in.
    pub(crate) inputs_per_round: u64,
    /// Largest budget of work of one round, each drawn by itself; `None`: no round has one.
    pub(crate) round_work: Option<u64>,
    /// Largest budget of work of one turn of a connection, each drawn by itself; `None`: no turn has one.
    pub(crate) turn_work: Option<u64>,
    /// Bytes of all namespaces that may wait for the disk, shared by weight.
    pub(crate) unwritten_shared: u64,
    pub(crate) topology: Topology,
    pub(crate) publishers: usize,
    pub(crate) consumers: usize,
    /// Connections with a coordinator.
    pub(crate) transactors: usize,
    /// Connections that schedule, cancel, defer and receive by number.
    pub(crate) management_clients: usize,
    /// One message in a hundred so often has a time to live.
    pub(crate) ttl_percent: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) cache_bytes: u64,
    /// Disk space for the journal; a small one fills up, and sends are refused until it is drained.
    pub(crate) max_disk_bytes: Option<u64>,
    /// Chances in 10,000 for each step.
    pub(crate) crash: u64,
    pub(crate) cut: u64,
    /// Chance in 100 that something happens to a start, and to the one after it.
    pub(crate) disturb: u64,
    /// Chance in 10,000 of each disk call to fail.
    pub(crate) disk_fails: u64,
    pub(crate) body_max: u64,
    /// Bytes after which one round of the node handles no more commands.
    pub(crate) round_bytes: u64,
    /// Bytes that may wait for the disk before no more commands are handled.
    pub(crate) unwritten_bytes: u64,
}

impl Plan {
    /// The plan of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0050_1A4E);
        let topology = draw_topology(&mut rng);
        let calm = rng.chance(20);
        let segment_bytes = 4096 << rng.below(5);
        // Forwarding writes the copy before it frees the original: a full disk would block it for good.
        let small = rng.chance(25) && topology.forwarders.is_empty();
        let max_disk_bytes = small.then(|| segment_bytes * (8 + rng.below(8)));
        let plan = Self {
            seed,
            steps: 300 + u32::try_from(rng.below(900)).unwrap_or(0),
            durable: Durable::Yes,
            namespaces: 1,
            shards: 1,
            panic: 0,
            changes_settings: false,
            inputs_per_round: 1,
            round_work: None,
            turn_work: None,
            unwritten_shared: NodeLimits::default().unwritten_bytes_shared,
            topology,
            publishers: 1 + usize::try_from(rng.below(2)).unwrap_or(0),
            consumers: 1 + usize::try_from(rng.below(3)).unwrap_or(0),
            transactors: usize::try_from(rng.below(3)).unwrap_or(0),
            management_clients: usize::try_from(rng.below(3)).unwrap_or(0),
            ttl_percent: if rng.chance(30) { 30 } else { 0 },
            segment_bytes,
            cache_bytes: 2048 << rng.below(8),
            max_disk_bytes,
            crash: if calm { 0 } else { fault_rate(&mut rng) },
            cut: if calm { 0 } else { fault_rate(&mut rng) },
            disturb: 0,
            disk_fails: if rng.chance(30) { rng.below(60) } else { 0 },
            body_max: 1 << (4 + rng.below(10)),
            round_bytes: if rng.chance(50) { 1 << rng.below(14) } else { 4 << 20 },
            unwritten_bytes: if rng.chance(30) { 1 << rng.below(16) } else { 64 << 20 },
        };
        plan.with_variations(seed)
    }

    /// The plan with its optional parts: recreated entities, forwarded dead letters, partitions, and faults during starts.
    /// They are drawn from a sequence of their own, so that the rest of a run does not depend on them.
    fn with_variations(mut self, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x4D0_5E7);
        if rng.chance(40) {
            self.add_recreated(&mut rng);
        }
        if rng.chance(40) {
            self.add_dead_letter_target(&mut rng);
        }
        if rng.chance(35) {
            self.add_partitions(&mut rng);
        }
        if rng.chance(50) {
            self.disturb = 10 + rng.below(60);
        }
        self.add_namespaces(&mut Rng::new(seed ^ 0x7E4A_2715));
        self.add_turns(&mut Rng::new(seed ^ 0x6A11_0C57));
        self
    }

    /// A queue to which dead letters are forwarded; sometimes it is deleted now and then.
    fn add_dead_letter_target(&mut self, rng: &mut Rng) {
        let settings = EntitySettings { requires_duplicate_detection: false, ..settings(rng, false) };
        let dead_letter_target = self.topology.count();
        // By which way a copy came can be told of one subscription only.
        let mut may_be_copies = true;
        for entity in &mut self.topology.entities {
            let is_copy = matches!(entity.kind, SourceKind::Subscription(_));
            if (may_be_copies || !is_copy) && rng.chance(70) {
                entity.dead_letter_target = Some(dead_letter_target);
                may_be_copies &= !is_copy;
            }
        }
        let is_recreated = rng.chance(50);
        self.topology.entities.push(Entity {
            kind: SourceKind::Queue,
            settings,
            is_recreated,
            dead_letter_target: None,
        });
        // Forwarding writes the copy before it frees the original: a full disk would block it for good.
        self.max_disk_bytes = None;
        self.steps += self.steps / 2;
    }

    /// One or two more namespaces in a third of the runs, and in half of these several shards. The namespaces are held and
    /// have limits in some, and rounds take in several batches, and have budgets, very small ones too.
    fn add_namespaces(&mut self, rng: &mut Rng) {
        if !rng.chance(33) {
            return;
        }
        self.namespaces = if rng.chance(70) { 2 } else { 3 };
        // A full disk would refuse the entities of a new namespace.
        self.max_disk_bytes = None;
        if rng.chance(50) {
            self.shards = 2 + usize::from(rng.chance(40));
            self.panic = if rng.chance(50) { fault_rate(rng) } else { 0 };
        }
        self.changes_settings = rng.chance(60);
        self.inputs_per_round = if rng.chance(50) { 4 } else { 1 };
        self.round_work = match rng.below(4) {
            0 => Some(1 + rng.below(8)),
            1 => Some(1 << rng.below(16)),
            _ => None,
        };
        if rng.chance(30) {
            self.unwritten_shared = 1 << rng.below(16);
        }
    }

    /// In a third of the runs a connection handles a part of what it has read in each turn: a few frames, or many.
    fn add_turns(&mut self, rng: &mut Rng) {
        if rng.chance(33) {
            self.turn_work = Some(1 << rng.below(10));
        }
    }

    /// Some of the entities have partitions; subscriptions have them with their topic.
    fn add_partitions(&mut self, rng: &mut Rng) {
        self.topology.partitioned_topic = rng.chance(50);
        for entity in &mut self.topology.entities {
            entity.settings.enable_partitioning = match entity.kind {
                SourceKind::Queue => rng.chance(60),
                SourceKind::Subscription(_) => self.topology.partitioned_topic,
            };
        }
    }

    /// A queue that is deleted now and then, perhaps a queue that forwards to it, and perhaps a subscription.
    fn add_recreated(&mut self, rng: &mut Rng) {
        let has_topic = self.topology.targets().contains(&SendTarget::Topic);
        let queue = self.topology.count();
        let recreated =
            |kind, settings| Entity { kind, settings, is_recreated: true, dead_letter_target: None };
        // A repeated send would be no duplicate for an entity that was deleted and created again.
        let plain =
            |rng: &mut Rng| EntitySettings { requires_duplicate_detection: false, ..settings(rng, false) };
        self.topology.entities.push(recreated(SourceKind::Queue, plain(rng)));
        if has_topic && rng.chance(60) {
            self.topology.entities.push(recreated(SourceKind::Subscription(Interest::All), plain(rng)));
        }
        if rng.chance(60) {
            self.topology.forwarders.push(SendTarget::Queue(queue));
            // Forwarding writes the copy before it frees the original: a full disk would block it for good.
            self.max_disk_bytes = None;
        }
        // As many crashes, with as much done by everybody between them.
        self.steps *= 3;
        (self.crash, self.cut) = (self.crash.div_ceil(3), self.cut.div_ceil(3));
    }
}

/// Chance of a fault in 10,000 steps: high in some runs, and low enough for progress in others.
fn fault_rate(rng: &mut Rng) -> u64 {
    if rng.chance(40) { rng.below(15) } else { rng.below(80) }
}

/// Draws the entities: one queue at least, the first one without sessions, and a topic in half of the runs.
fn draw_topology(rng: &mut Rng) -> Topology {
    let mut entities = vec![entity(SourceKind::Queue, settings(rng, false))];
    if rng.chance(60) {
        let sessions = rng.chance(70);
        entities.push(entity(SourceKind::Queue, settings(rng, sessions)));
    }
    if rng.chance(50) {
        for _ in 0..=rng.below(3) {
            let interest = usize::try_from(rng.below(Interest::EACH.len() as u64)).unwrap_or(0);
            let interest = Interest::EACH.get(interest).copied().unwrap_or(Interest::All);
            let sessions = rng.chance(20);
            entities.push(entity(SourceKind::Subscription(interest), settings(rng, sessions)));
        }
    }
    // A forwarding queue leads to a queue, to the topic, or to another forwarding queue.
    let mut topology = Topology { entities, forwarders: Vec::new(), partitioned_topic: false, fault: None };
    if rng.chance(30) {
        for _ in 0..=rng.below(2) {
            let targets = topology.targets();
            let target = targets.get(usize::try_from(rng.below(targets.len() as u64)).unwrap_or(0)).copied();
            topology.forwarders.extend(target);
        }
    }
    topology
}

fn entity(kind: SourceKind, settings: EntitySettings) -> Entity {
    Entity { kind, settings, is_recreated: false, dead_letter_target: None }
}

/// Shortest lock of an entity, in milliseconds.
pub(crate) const LOCK_DURATION_MIN_MS: u64 = 5_000;

fn settings(rng: &mut Rng, requires_session: bool) -> EntitySettings {
    let deliveries = 1 + u32::try_from(rng.below(6)).unwrap_or(0);
    EntitySettings {
        lock_duration: Duration::from_millis(LOCK_DURATION_MIN_MS + rng.below(20_000)),
        hold: if rng.chance(30) { LockLifetime::Lock } else { LockLifetime::Link },
        // A message that leaves its session unseen would look like one that others have passed.
        max_delivery_count: if requires_session { 1_000_000 } else { deliveries },
        requires_session,
        requires_duplicate_detection: rng.chance(25),
        // Longer than any run.
        duplicate_detection_window: Duration::from_secs(7 * 24 * 3600),
        dead_letter_on_expiration: rng.chance(50),
        ..EntitySettings::default()
    }
}
