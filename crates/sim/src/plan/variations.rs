//! Optional parts of a plan: recreated entities, forwarded dead letters, partitions, and faults during starts.
//!
//! Invariant: it is drawn from a sequence of its own, so that a run without it is what its seed always gave.

use broker_core::EntitySettings;

use super::{Entity, Interest, Plan, SendTarget, SourceKind, settings};
use crate::rng::Rng;

impl Plan {
    /// The plan, with what its seed adds to it.
    pub(super) fn with_variations(mut self, seed: u64) -> Self {
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
    fn add_fleeting(&mut self, rng: &mut Rng) {
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
