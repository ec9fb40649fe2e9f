//! What some runs have besides: entities that are deleted now and then, forwarded dead letters, partitions, and
//! starts that something happens to.
//!
//! Invariant: it is drawn from a sequence of its own, so that a run without it is what its seed always gave.

use broker_core::EntitySettings;

use super::{Entity, Interest, Kind, Plan, Target, settings};
use crate::rng::Rng;

impl Plan {
    /// The plan, with what its seed adds to it.
    pub(super) fn with_more(mut self, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x4D0_5E7);
        if rng.chance(40) {
            self.add_fleeting(&mut rng);
        }
        if rng.chance(40) {
            self.add_grave(&mut rng);
        }
        if rng.chance(35) {
            self.add_partitions(&mut rng);
        }
        if rng.chance(50) {
            self.disturb = 10 + rng.below(60);
        }
        self
    }

    /// A queue to which dead letters are forwarded; sometimes it is deleted now and then.
    fn add_grave(&mut self, rng: &mut Rng) {
        let settings = EntitySettings { requires_duplicate_detection: false, ..settings(rng, false) };
        let grave = self.places.count();
        // By which way a copy came can be told of one subscription only.
        let mut may_be_copies = true;
        for entity in &mut self.places.entities {
            let is_copy = matches!(entity.kind, Kind::Subscription(_));
            if (may_be_copies || !is_copy) && rng.chance(70) {
                entity.grave = Some(grave);
                may_be_copies &= !is_copy;
            }
        }
        let is_fleeting = rng.chance(50);
        self.places.entities.push(Entity { kind: Kind::Queue, settings, is_fleeting, grave: None });
        // What is forwarded needs space before it gives space back: a full disk would hold it up for good.
        self.max_disk_bytes = None;
        self.steps += self.steps / 2;
    }

    /// Some of the entities have partitions; subscriptions have them with their topic.
    fn add_partitions(&mut self, rng: &mut Rng) {
        self.places.parted_topic = rng.chance(50);
        for entity in &mut self.places.entities {
            entity.settings.enable_partitioning = match entity.kind {
                Kind::Queue => rng.chance(60),
                Kind::Subscription(_) => self.places.parted_topic,
            };
        }
    }

    /// A queue that is deleted now and then, perhaps a queue that forwards to it, and perhaps a subscription.
    fn add_fleeting(&mut self, rng: &mut Rng) {
        let has_topic = self.places.targets().contains(&Target::Topic);
        let queue = self.places.count();
        let fleeting = |kind, settings| Entity { kind, settings, is_fleeting: true, grave: None };
        // What is sent once more would be new to the one that is made again.
        let plain =
            |rng: &mut Rng| EntitySettings { requires_duplicate_detection: false, ..settings(rng, false) };
        self.places.entities.push(fleeting(Kind::Queue, plain(rng)));
        if has_topic && rng.chance(60) {
            self.places.entities.push(fleeting(Kind::Subscription(Interest::All), plain(rng)));
        }
        if rng.chance(60) {
            self.places.ways.push(Target::Queue(queue));
            // What is forwarded needs space before it gives space back: a full disk would hold it up for good.
            self.max_disk_bytes = None;
        }
        // As many crashes, with as much done by everybody between them.
        self.steps *= 3;
        (self.crash, self.cut) = (self.crash.div_ceil(3), self.cut.div_ceil(3));
    }
}
