//! Limits of entities in each Service Bus tier (`docs/features/configuration.md`, "Tiers").
//!
//! Invariant: no entity is created or changed beyond the limits of the profile. Entities of an earlier start stay as
//! they are.

use std::time::Duration;

use crate::{
    EntityError, EntityKind, EntitySettings,
    entity::settings::{EXPRESS, out_of_range},
};

/// Which features there are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Features {
    All,
    /// Queues alone, without sessions, duplicate detection, forwarding, idle deletion, partitions and express entities.
    Basic,
}

/// The bounds of a tier. The default is that of the Standard and Premium tiers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    name: &'static str,
    features: Features,
    /// Default and maximum of an entity's time to live, in words as well.
    time_to_live: Option<(Duration, &'static str)>,
    /// Most deliveries, in words as well.
    deliveries: Option<(u32, &'static str)>,
    /// Most bytes of an entity, and how many it has where it asks for none or for more.
    size: Option<u64>,
    subscriptions_per_topic: Option<u64>,
    /// The sizes that only the Premium tier has are refused.
    has_premium_sizes: bool,
}

const DAY: u64 = 86_400;
/// Largest message and largest entity of the tiers below Premium, in bytes (Microsoft Learn, "Service Bus quotas").
const MESSAGE_BYTES: u64 = 256 << 10;
const ENTITY_BYTES: u64 = 5 << 30;

impl Profile {
    /// Everything there is, within the limits of the configuration.
    pub const STANDARD: Self = Self {
        name: "Standard",
        features: Features::All,
        time_to_live: None,
        deliveries: None,
        size: None,
        subscriptions_per_topic: None,
        has_premium_sizes: true,
    };
    /// The Standard tier alone: what only Premium has is refused.
    pub const STANDARD_ONLY: Self =
        Self { name: "standard-only", has_premium_sizes: false, ..Self::STANDARD };
    /// The Basic tier.
    pub const BASIC: Self = Self {
        name: "Basic",
        features: Features::Basic,
        time_to_live: Some((Duration::from_secs(14 * DAY), "at most 14 days")),
        ..Self::STANDARD
    };
    /// The emulator that Microsoft offers.
    pub const EMULATOR: Self = Self {
        name: "emulator",
        time_to_live: Some((Duration::from_secs(3_600), "at most 1 hour")),
        deliveries: Some((10, "1 to 10")),
        size: Some(100 << 20),
        subscriptions_per_topic: Some(50),
        ..Self::STANDARD
    };

    /// Name of the tier.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::STANDARD, Self::STANDARD_ONLY, Self::BASIC, Self::EMULATOR];
        all.into_iter().find(|profile| profile.name == name)
    }

    /// Effective settings of an entity of that kind; the entities that the settings name are not checked.
    pub fn settled(self, kind: EntityKind, settings: EntitySettings) -> Result<EntitySettings, EntityError> {
        let mut settings = settings.check()?;
        self.check(kind, &mut settings)?;
        settings.end_idle_time_of(kind);
        Ok(settings)
    }

    /// The service's tier of this profile: the emulator's is taken for Standard.
    pub const fn tier(self) -> &'static str {
        match self.features {
            Features::All => "Standard",
            Features::Basic => "Basic",
        }
    }

    /// Whether there are transactions.
    pub(crate) fn has_transactions(self) -> bool {
        self.features == Features::All
    }

    /// Most subscriptions of a topic.
    pub(crate) fn max_subscriptions(self) -> u64 {
        self.subscriptions_per_topic.unwrap_or(u64::MAX)
    }

    /// Refuses properties beyond the limits, and sets the defaults of the tier.
    pub(crate) fn check(self, kind: EntityKind, settings: &mut EntitySettings) -> Result<(), EntityError> {
        if self.features == Features::Basic {
            self.check_basic(kind, settings)?;
        }
        if !self.has_premium_sizes {
            self.check_sizes(settings)?;
        }
        if let Some((most, allowed)) = self.time_to_live {
            let own = *settings.default_time_to_live.get_or_insert(most);
            if own > most {
                return out_of_range("DefaultMessageTimeToLive", format!("{own:?}"), allowed);
            }
        }
        if let Some((most, allowed)) = self.deliveries
            && settings.max_delivery_count > most
        {
            return out_of_range("MaxDeliveryCount", settings.max_delivery_count.to_string(), allowed);
        }
        if let Some(most) = self.size {
            // Not refused: administration clients ask for 1 GiB by default.
            settings.max_size_bytes = Some(settings.max_size_bytes.map_or(most, |own| own.min(most)));
        }
        Ok(())
    }

    /// Refuses sizes beyond the tier. Its message size is that of all entities, so a client may name only that one.
    fn check_sizes(self, settings: &EntitySettings) -> Result<(), EntityError> {
        if settings.max_message_bytes.is_some_and(|own| own != MESSAGE_BYTES) {
            let what = "MaxMessageSizeInKilobytes";
            return Err(EntityError::NotInProfile { what, profile: self.name });
        }
        let (most, allowed) = if settings.enable_partitioning {
            (ENTITY_BYTES * 16, "at most 5120 for each of 16 partitions")
        } else {
            (ENTITY_BYTES, "at most 5120")
        };
        match settings.max_size_bytes {
            Some(own) if own > most => {
                out_of_range("MaxSizeInMegabytes", own.div_ceil(1 << 20).to_string(), allowed)
            }
            _ => Ok(()),
        }
    }

    fn check_basic(self, kind: EntityKind, settings: &EntitySettings) -> Result<(), EntityError> {
        let forwards = settings.forward_dead_lettered_to.is_some();
        let asked = [
            ("topics", kind != EntityKind::Queue),
            ("RequiresSession", settings.requires_session),
            ("RequiresDuplicateDetection", settings.requires_duplicate_detection),
            ("AutoDeleteOnIdle", settings.auto_delete_on_idle.is_some()),
            ("ForwardTo", settings.forward_to.is_some()),
            ("ForwardDeadLetteredMessagesTo", forwards),
            ("EnablePartitioning", settings.enable_partitioning),
            (EXPRESS, settings.is_express()),
        ];
        match asked.into_iter().find(|(_, is_asked)| *is_asked) {
            Some((what, _)) => Err(EntityError::NotInProfile { what, profile: self.name }),
            None => Ok(()),
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::STANDARD
    }
}

#[cfg(test)]
mod tests;
