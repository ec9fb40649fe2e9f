//! What a run is made of, drawn from its seed.
//!
//! Invariant: everything a run may vary stands here, so that two plans differ only in what they say.

mod more;
mod places;

use std::time::Duration;

use broker_core::{EntitySettings, Hold};

pub(crate) use places::{Entity, Fault, Interest, Kind, Places, Target};

use crate::rng::Rng;

/// What the journal promises in this run.
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
    /// The seed of everything.
    pub seed: u64,
    /// Steps of mischief before the broker is left in peace and drained.
    pub steps: u32,
    /// What the journal promises.
    pub durable: Durable,
    pub(crate) places: Places,
    pub(crate) publishers: usize,
    pub(crate) consumers: usize,
    /// Connections with a coordinator.
    pub(crate) transactors: usize,
    /// Connections that schedule, cancel, defer and receive by number.
    pub(crate) desks: usize,
    /// One message in a hundred so often has a time to live.
    pub(crate) mortal: u64,
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
        let places = places(&mut rng);
        let calm = rng.chance(20);
        let segment_bytes = 4096 << rng.below(5);
        // What is forwarded needs space before it gives space back: a full disk would hold it up for good.
        let small = rng.chance(25) && places.ways.is_empty();
        let max_disk_bytes = small.then(|| segment_bytes * (8 + rng.below(8)));
        let plan = Self {
            seed,
            steps: 300 + u32::try_from(rng.below(900)).unwrap_or(0),
            durable: Durable::Yes,
            places,
            publishers: 1 + usize::try_from(rng.below(2)).unwrap_or(0),
            consumers: 1 + usize::try_from(rng.below(3)).unwrap_or(0),
            transactors: usize::try_from(rng.below(3)).unwrap_or(0),
            desks: usize::try_from(rng.below(3)).unwrap_or(0),
            mortal: if rng.chance(30) { 30 } else { 0 },
            segment_bytes,
            cache_bytes: 2048 << rng.below(8),
            max_disk_bytes,
            crash: if calm { 0 } else { trouble(&mut rng) },
            cut: if calm { 0 } else { trouble(&mut rng) },
            disturb: 0,
            disk_fails: if rng.chance(30) { rng.below(60) } else { 0 },
            body_max: 1 << (4 + rng.below(10)),
            round_bytes: if rng.chance(50) { 1 << rng.below(14) } else { 4 << 20 },
            unwritten_bytes: if rng.chance(30) { 1 << rng.below(16) } else { 64 << 20 },
        };
        plan.with_more(seed)
    }
}

/// Much in some runs, and in others so little that clients get something done.
fn trouble(rng: &mut Rng) -> u64 {
    if rng.chance(40) { rng.below(15) } else { rng.below(80) }
}

/// A queue at least; the first has no sessions. Half of the runs have a topic.
fn places(rng: &mut Rng) -> Places {
    let mut places = vec![entity(Kind::Queue, settings(rng, false))];
    if rng.chance(60) {
        let sessions = rng.chance(70);
        places.push(entity(Kind::Queue, settings(rng, sessions)));
    }
    if rng.chance(50) {
        for _ in 0..=rng.below(3) {
            let interest = usize::try_from(rng.below(Interest::EACH.len() as u64)).unwrap_or(0);
            let interest = Interest::EACH.get(interest).copied().unwrap_or(Interest::All);
            let sessions = rng.chance(20);
            places.push(entity(Kind::Subscription(interest), settings(rng, sessions)));
        }
    }
    // A way leads to a queue, to the topic, or to another way.
    let mut places = Places { entities: places, ways: Vec::new(), parted_topic: false, fault: None };
    if rng.chance(30) {
        for _ in 0..=rng.below(2) {
            let onward = places.targets();
            let onward = onward.get(usize::try_from(rng.below(onward.len() as u64)).unwrap_or(0)).copied();
            places.ways.extend(onward);
        }
    }
    places
}

fn entity(kind: Kind, settings: EntitySettings) -> Entity {
    Entity { kind, settings, is_fleeting: false, grave: None }
}

fn settings(rng: &mut Rng, requires_session: bool) -> EntitySettings {
    let deliveries = 1 + u32::try_from(rng.below(6)).unwrap_or(0);
    EntitySettings {
        lock_duration: Duration::from_millis(5_000 + rng.below(20_000)),
        hold: if rng.chance(30) { Hold::Lock } else { Hold::Link },
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
