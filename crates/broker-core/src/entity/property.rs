//! The table of the properties of entities: names, kinds, type, range, and place in the record.
//!
//! Invariant: a property has one row. The configuration, `Config.json`, the administration API, the command line and the
//! record find its names, its type and its field there.

use std::time::Duration;

use super::settings::{EntityKind, EntitySettings, EntityStatus, LockLifetime};

/// Value of a property.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SettingValue {
    /// `None`: for ever.
    Time(Option<Duration>),
    Flag(bool),
    Count(u32),
    /// `None`: no limit of its own.
    Bytes(Option<u64>),
    Status(EntityStatus),
    LockLifetime(LockLifetime),
    /// `None`: there is no text.
    Text(Option<Box<str>>),
}

/// Type of the values of a property.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PropertyType {
    Time,
    TimeOrForever,
    Flag,
    /// A flag that is kept for clients and has no effect here, with its default. Configuration files do not have it.
    Kept(bool),
    /// A number of things of this name.
    Count(&'static str),
    /// In the administration API in units of this many bytes.
    Bytes(u64),
    Status,
    LockLifetime,
    Text,
    /// The name of an entity.
    Entity,
}

/// Place of a property in the record of a definition. Positions, bits and tags are part of the disk format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stored {
    /// The byte of the status.
    Status,
    /// The number at this position behind those of the entity.
    Number(usize),
    /// The number of 32 bits.
    Count,
    /// This bit of the flags.
    Flag(u32),
    /// An extension with this tag and a text.
    Text(u8),
    /// An extension with this tag and a byte, unless it has its default.
    Byte(u8),
    /// One of the texts beside the settings, under the name of its element.
    Other,
}

/// Numbers of properties in a record.
pub(crate) const NUMBERS: usize = 6;

/// Access to the field of a property. The value of a setter comes back where it is of another type than the field.
#[derive(Clone, Copy, Debug)]
struct Field {
    get: fn(&EntitySettings) -> SettingValue,
    set: fn(&mut EntitySettings, SettingValue) -> Result<(), SettingValue>,
}

/// The row of a property.
#[derive(Debug)]
pub struct PropertyRow {
    pub property: EntityProperty,
    /// Name in `ferrybus.toml`, in JSON and, with hyphens, as an option of the command line.
    pub key: &'static str,
    /// Name in the administration API and in `Config.json`.
    pub element: &'static str,
    /// Kinds of entities that have it.
    pub kinds: &'static [EntityKind],
    /// Kinds of entities for which the schema of `Config.json` has it.
    pub config_json: &'static [EntityKind],
    pub value_type: PropertyType,
    /// Least and largest value in a configuration file: milliseconds, things, bytes or characters.
    pub range: Option<(u64, u64)>,
    /// Cannot be changed after creation.
    pub is_fixed: bool,
    /// For the help of the command line.
    pub help: &'static str,
    pub(crate) stored: Stored,
    field: Field,
}

impl PropertyRow {
    const fn in_config_json(self, config_json: &'static [EntityKind]) -> Self {
        Self { config_json, ..self }
    }

    const fn range(self, least: u64, most: u64) -> Self {
        Self { range: Some((least, most)), ..self }
    }

    const fn fixed(self) -> Self {
        Self { is_fixed: true, ..self }
    }

    /// Whether a configuration file can have it.
    pub fn is_in_files(&self) -> bool {
        !matches!(self.value_type, PropertyType::Kept(_))
    }

    /// The value in these settings.
    pub fn get(&self, settings: &EntitySettings) -> SettingValue {
        (self.field.get)(settings)
    }

    /// Sets the value; gives it back where it is of another type.
    pub fn set(&self, settings: &mut EntitySettings, value: SettingValue) -> Result<(), SettingValue> {
        (self.field.set)(settings, value)
    }
}

/// There is one row for each property.
impl PartialEq for PropertyRow {
    fn eq(&self, other: &Self) -> bool {
        self.property == other.property
    }
}

impl Eq for PropertyRow {}

/// A type of a field of [`EntitySettings`].
trait PropertyField {
    fn value(&self) -> SettingValue;
    fn set(&mut self, value: SettingValue) -> Result<(), SettingValue>;
}

macro_rules! property_fields {
    ($($type:ty: $pattern:pat => $new:expr, $field:ident => $value:expr;)+) => {$(
        impl PropertyField for $type {
            fn value(&self) -> SettingValue {
                let $field = self;
                $value
            }

            fn set(&mut self, value: SettingValue) -> Result<(), SettingValue> {
                match value {
                    $pattern => *self = $new,
                    other => return Err(other),
                }
                Ok(())
            }
        }
    )+};
}

property_fields! {
    Duration: SettingValue::Time(Some(time)) => time, field => SettingValue::Time(Some(*field));
    Option<Duration>: SettingValue::Time(time) => time, field => SettingValue::Time(*field);
    bool: SettingValue::Flag(on) => on, field => SettingValue::Flag(*field);
    u32: SettingValue::Count(count) => count, field => SettingValue::Count(*field);
    Option<u64>: SettingValue::Bytes(bytes) => bytes, field => SettingValue::Bytes(*field);
    EntityStatus: SettingValue::Status(status) => status, field => SettingValue::Status(*field);
    LockLifetime: SettingValue::LockLifetime(lifetime) => lifetime, field => SettingValue::LockLifetime(*field);
    Option<Box<str>>: SettingValue::Text(text) => text, field => SettingValue::Text(field.clone());
}

/// The field of [`EntitySettings`] of this name.
macro_rules! field {
    ($field:ident) => {
        Field {
            get: |settings| PropertyField::value(&settings.$field),
            set: |settings, value| PropertyField::set(&mut settings.$field, value),
        }
    };
}

/// The row of a flag that is kept under its element.
macro_rules! kept {
    ($property:ident, $key:literal, $element:literal, $kinds:expr, $default:literal) => {
        row(
            EntityProperty::$property,
            ($key, $element),
            $kinds,
            PropertyType::Kept($default),
            Stored::Other,
            Field {
                get: |settings| {
                    SettingValue::Flag(
                        settings.other.get($element).and_then(|text| text.parse().ok()).unwrap_or($default),
                    )
                },
                set: |settings, value| match value {
                    SettingValue::Flag(on) => {
                        settings.other.insert($element.into(), on.to_string().into());
                        Ok(())
                    }
                    other => Err(other),
                },
            },
            "Kept for clients that read it, without effect",
        )
    };
}

/// Declares the properties, each with its row.
macro_rules! properties {
    ($($property:ident => $row:expr;)+) => {
        /// A property of entities that can be set.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum EntityProperty { $($property),+ }

        impl EntityProperty {
            /// All of them, the most wanted first.
            pub const ALL: &'static [Self] = &[$(Self::$property),+];

            /// Its row.
            pub fn row(self) -> &'static PropertyRow {
                match self {
                    $(Self::$property => {
                        static ROW: PropertyRow = $row;
                        &ROW
                    })+
                }
            }
        }
    };
}

impl EntityProperty {
    /// The rows of all properties, the most wanted first.
    pub fn rows() -> impl Iterator<Item = &'static PropertyRow> {
        Self::ALL.iter().map(|property| property.row())
    }

    /// The rows of the properties of such an entity.
    pub fn of(kind: EntityKind) -> impl Iterator<Item = &'static PropertyRow> {
        Self::rows().filter(move |row| row.kinds.contains(&kind))
    }

    /// The row of the property with this key.
    pub fn of_key(key: &str) -> Option<&'static PropertyRow> {
        Self::rows().find(|row| row.key == key)
    }
}

const TOPIC: &[EntityKind] = &[EntityKind::Topic];
const SUBSCRIPTION: &[EntityKind] = &[EntityKind::Subscription];
const SENT_TO: &[EntityKind] = &[EntityKind::Queue, EntityKind::Topic];
const RECEIVED_FROM: &[EntityKind] = &[EntityKind::Queue, EntityKind::Subscription];
const ALL: &[EntityKind] = &[EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];

const SECOND: u64 = 1_000;
const DAY: u64 = 86_400 * SECOND;
/// A thousand years: longer is a mistake.
const MILLENNIUM: u64 = 1_000 * 365 * DAY;

const fn row(
    property: EntityProperty,
    (key, element): (&'static str, &'static str),
    kinds: &'static [EntityKind],
    value_type: PropertyType,
    stored: Stored,
    field: Field,
    help: &'static str,
) -> PropertyRow {
    PropertyRow {
        property,
        key,
        element,
        kinds,
        config_json: &[],
        value_type,
        range: None,
        is_fixed: false,
        help,
        stored,
        field,
    }
}

properties! {
    Status => row(
        EntityProperty::Status,
        ("status", "Status"),
        ALL,
        PropertyType::Status,
        Stored::Status,
        field!(status),
        "What is allowed",
    );
    LockDuration => row(
        EntityProperty::LockDuration,
        ("lock_duration", "LockDuration"),
        RECEIVED_FROM,
        PropertyType::Time,
        Stored::Number(0),
        field!(lock_duration),
        "How long a lock lasts, at most 5m",
    )
    .range(SECOND, 300 * SECOND)
    .in_config_json(RECEIVED_FROM);
    LockLifetime => row(
        EntityProperty::LockLifetime,
        ("hold", "Hold"),
        RECEIVED_FROM,
        PropertyType::LockLifetime,
        Stored::Byte(8),
        field!(hold),
        "How long plain AMQP receivers hold messages: until the `link` ends, or for the lock duration at most (`lock`)",
    );
    MaxDeliveryCount => row(
        EntityProperty::MaxDeliveryCount,
        ("max_delivery_count", "MaxDeliveryCount"),
        RECEIVED_FROM,
        PropertyType::Count("deliveries"),
        Stored::Count,
        field!(max_delivery_count),
        "Deliveries before dead-lettering",
    )
    .range(1, 2_147_483_647)
    .in_config_json(RECEIVED_FROM);
    DefaultTimeToLive => row(
        EntityProperty::DefaultTimeToLive,
        ("default_time_to_live", "DefaultMessageTimeToLive"),
        ALL,
        PropertyType::TimeOrForever,
        Stored::Number(1),
        field!(default_time_to_live),
        "How long messages live, or `never` to let none end",
    )
    .in_config_json(ALL);
    DeadLetterOnExpiration => row(
        EntityProperty::DeadLetterOnExpiration,
        ("dead_letter_on_expiration", "DeadLetteringOnMessageExpiration"),
        RECEIVED_FROM,
        PropertyType::Flag,
        Stored::Flag(1),
        field!(dead_letter_on_expiration),
        "Dead-letter messages whose time is over",
    )
    .in_config_json(RECEIVED_FROM);
    DeadLetterOnFilterError => row(
        EntityProperty::DeadLetterOnFilterError,
        ("dead_letter_on_filter_error", "DeadLetteringOnFilterEvaluationExceptions"),
        SUBSCRIPTION,
        PropertyType::Flag,
        Stored::Flag(2),
        field!(dead_letter_on_filter_error),
        "Dead-letter messages on which a rule fails",
    );
    RequiresSession => row(
        EntityProperty::RequiresSession,
        ("requires_session", "RequiresSession"),
        RECEIVED_FROM,
        PropertyType::Flag,
        Stored::Flag(4),
        field!(requires_session),
        "Each message belongs to a session; fixed at creation",
    )
    .fixed()
    .in_config_json(RECEIVED_FROM);
    RequiresDuplicateDetection => row(
        EntityProperty::RequiresDuplicateDetection,
        ("requires_duplicate_detection", "RequiresDuplicateDetection"),
        SENT_TO,
        PropertyType::Flag,
        Stored::Flag(8),
        field!(requires_duplicate_detection),
        "Drop messages whose id was seen before; fixed at creation",
    )
    .fixed()
    .in_config_json(SENT_TO);
    DuplicateDetectionWindow => row(
        EntityProperty::DuplicateDetectionWindow,
        ("duplicate_detection_window", "DuplicateDetectionHistoryTimeWindow"),
        SENT_TO,
        PropertyType::Time,
        Stored::Number(4),
        field!(duplicate_detection_window),
        "How long ids are remembered, 20s to 7d",
    )
    .range(20 * SECOND, 7 * DAY)
    .in_config_json(SENT_TO);
    ForwardTo => row(
        EntityProperty::ForwardTo,
        ("forward_to", "ForwardTo"),
        RECEIVED_FROM,
        PropertyType::Entity,
        Stored::Text(1),
        field!(forward_to),
        "Entity that gets every message; an empty text ends that",
    )
    .in_config_json(RECEIVED_FROM);
    ForwardDeadLetteredTo => row(
        EntityProperty::ForwardDeadLetteredTo,
        ("forward_dead_lettered_to", "ForwardDeadLetteredMessagesTo"),
        RECEIVED_FROM,
        PropertyType::Entity,
        Stored::Text(2),
        field!(forward_dead_lettered_to),
        "Entity that gets every dead letter; an empty text ends that",
    )
    .in_config_json(RECEIVED_FROM);
    AutoDeleteOnIdle => row(
        EntityProperty::AutoDeleteOnIdle,
        ("auto_delete_on_idle", "AutoDeleteOnIdle"),
        ALL,
        PropertyType::TimeOrForever,
        Stored::Number(5),
        field!(auto_delete_on_idle),
        "Delete the entity when unused for so long, at least 5m, or `never`",
    )
    .range(300 * SECOND, MILLENNIUM);
    MaxSizeBytes => row(
        EntityProperty::MaxSizeBytes,
        ("max_size_bytes", "MaxSizeInMegabytes"),
        SENT_TO,
        PropertyType::Bytes(1 << 20),
        Stored::Number(3),
        field!(max_size_bytes),
        "Largest total of stored messages, in steps of 1 GiB up to 80 GiB",
    );
    MaxMessageBytes => row(
        EntityProperty::MaxMessageBytes,
        ("max_message_bytes", "MaxMessageSizeInKilobytes"),
        SENT_TO,
        PropertyType::Bytes(1 << 10),
        Stored::Number(2),
        field!(max_message_bytes),
        "Largest message, in steps of 1 KiB up to 100 MiB",
    )
    .range(1 << 10, 100 << 20);
    UserMetadata => row(
        EntityProperty::UserMetadata,
        ("user_metadata", "UserMetadata"),
        ALL,
        PropertyType::Text,
        Stored::Text(3),
        field!(user_metadata),
        "A note of at most 1024 characters; an empty text removes it",
    )
    .range(0, 1_024);
    EnablePartitioning => row(
        EntityProperty::EnablePartitioning,
        ("enable_partitioning", "EnablePartitioning"),
        SENT_TO,
        PropertyType::Flag,
        Stored::Flag(16),
        field!(enable_partitioning),
        "Sequence numbers name a partition; fixed at creation",
    )
    .fixed();
    EnableBatchedOperations =>
        kept!(EnableBatchedOperations, "enable_batched_operations", "EnableBatchedOperations", ALL, true);
    SupportOrdering => kept!(SupportOrdering, "support_ordering", "SupportOrdering", SENT_TO, true);
    EnableExpress => kept!(EnableExpress, "enable_express", "EnableExpress", SENT_TO, false);
    IsAnonymousAccessible =>
        kept!(IsAnonymousAccessible, "is_anonymous_accessible", "IsAnonymousAccessible", SENT_TO, false);
    FilteringMessagesBeforePublishing => kept!(
        FilteringMessagesBeforePublishing,
        "filtering_messages_before_publishing",
        "FilteringMessagesBeforePublishing",
        TOPIC,
        false
    );
    EnableSubscriptionPartitioning => kept!(
        EnableSubscriptionPartitioning,
        "enable_subscription_partitioning",
        "EnableSubscriptionPartitioning",
        TOPIC,
        false
    );
    IsClientAffine => kept!(IsClientAffine, "is_client_affine", "IsClientAffine", SUBSCRIPTION, false);
}

/// A new field of the settings needs a row above, and a name here.
const _: fn(EntitySettings) = |settings| {
    let EntitySettings {
        lock_duration: _,
        hold: _,
        max_delivery_count: _,
        default_time_to_live: _,
        dead_letter_on_expiration: _,
        dead_letter_on_filter_error: _,
        max_message_bytes: _,
        max_size_bytes: _,
        requires_session: _,
        requires_duplicate_detection: _,
        duplicate_detection_window: _,
        enable_partitioning: _,
        status: _,
        forward_to: _,
        forward_dead_lettered_to: _,
        auto_delete_on_idle: _,
        user_metadata: _,
        // Keys, which have a request of their own, and the texts of kept properties.
        authorization: _,
        other: _,
    } = settings;
};

impl EntityStatus {
    pub const ALL: [Self; 4] = [Self::Active, Self::Disabled, Self::SendDisabled, Self::ReceiveDisabled];

    /// Its word in the administration API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Disabled => "Disabled",
            Self::SendDisabled => "SendDisabled",
            Self::ReceiveDisabled => "ReceiveDisabled",
        }
    }
}

impl LockLifetime {
    pub const ALL: [Self; 2] = [Self::Link, Self::Lock];

    /// Its word in the administration API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Link => "Link",
            Self::Lock => "Lock",
        }
    }
}

#[cfg(test)]
mod tests;
