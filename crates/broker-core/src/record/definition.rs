//! The record of an entity's definition.
//!
//! Invariant: durations keep whole milliseconds, so that a recovered entity equals the one that was created.

use std::time::Duration;

use super::{SEQUENCE_END, head::Head, kind, reader::Reader};
use crate::{
    AccessRight, AuthorizationRule, EntityKind, EntitySettings, EntityStatus, EntityVersion, KeyText,
    LockLifetime, PropertyRow, PropertyType, QueueId, RecordError, SettingValue, Timestamp,
    entity::property::{EntityProperty, NUMBERS, Stored},
    store::partition::Counters,
};

/// Stands for `None` where a number would be.
const NONE: u64 = u64::MAX;

/// Tags of extensions that are no properties; those of properties are in their table.
mod tag {
    pub(super) const OTHER: u8 = 4;
    pub(super) const PARTITIONS: u8 = 5;
    pub(super) const AUTHORIZATION: u8 = 6;
    pub(super) const ACCESSED_AT: u8 = 7;
}

/// [`LockLifetime::Lock`] in a record.
const HOLD_LOCK: u8 = 1;

/// The stores of one entity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stores {
    pub(crate) queue: QueueId,
    pub(crate) dead_letter: QueueId,
    /// Messages that could not be forwarded.
    pub(crate) transfer_dead_letter: QueueId,
}

impl Stores {
    /// All three.
    pub(crate) fn all(self) -> [QueueId; 3] {
        [self.queue, self.dead_letter, self.transfer_dead_letter]
    }

    /// All but the one that stands in the head of the record.
    pub(super) fn encode_others(self, record: &mut Vec<u8>) {
        for store in [self.dead_letter, self.transfer_dead_letter] {
            record.extend_from_slice(&store.0.to_le_bytes());
        }
    }

    pub(super) fn decode(queue: QueueId, reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let stores = Self {
            queue,
            dead_letter: QueueId(reader.u32("dead_letter")?),
            transfer_dead_letter: QueueId(reader.u32("transfer_dead_letter")?),
        };
        let Self { queue, dead_letter, transfer_dead_letter } = stores;
        let value = |field, id: QueueId| Err(RecordError::Value { field, value: u64::from(id.0) });
        if queue == dead_letter {
            return value("dead_letter", dead_letter);
        }
        if transfer_dead_letter == queue || transfer_dead_letter == dead_letter {
            return value("transfer_dead_letter", transfer_dead_letter);
        }
        Ok(stores)
    }
}

/// Kind of an entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) kind: EntityKind,
    pub(crate) stores: Stores,
    /// The main store of a subscription's topic.
    pub(crate) topic: Option<QueueId>,
    /// As first written.
    pub(crate) name: Box<str>,
    pub(crate) settings: EntitySettings,
    /// The number that the next message gets, where there are no partitions.
    pub(crate) next_sequence: u64,
    /// The numbers of its partitions; there exactly where the settings say that it has some.
    pub(crate) partitions: Option<Box<Counters>>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// When it was last accessed, at the time of writing; zero for never.
    pub(crate) accessed_at: Timestamp,
}

impl Definition {
    pub(crate) const fn version(&self) -> EntityVersion {
        EntityVersion::new(self.stores.queue, self.updated_at)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let settings = &self.settings;
        let mut record = Vec::with_capacity(160 + self.name.len());
        record.extend_from_slice(&Head::encode(kind::DEFINITION, self.stores.queue));
        record.extend_from_slice(&[self.kind as u8, settings.status as u8, 0, 0]);
        self.stores.encode_others(&mut record);
        record.extend_from_slice(&self.topic.map_or(u32::MAX, |topic| topic.0).to_le_bytes());
        let own = [self.next_sequence, self.created_at.as_millis(), self.updated_at.as_millis()];
        for number in own.into_iter().chain(numbers(settings)) {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend_from_slice(&settings.max_delivery_count.to_le_bytes());
        record.extend_from_slice(&flags(settings).to_le_bytes());
        put_text(&mut record, &self.name);
        let mut extensions = extensions(settings);
        if let Some(partitions) = &self.partitions {
            extensions.push(tag::PARTITIONS);
            let length = u16::try_from(Counters::BYTES).expect("a few numbers are less than 64 KiB");
            extensions.extend_from_slice(&length.to_le_bytes());
            partitions.counts().for_each(|count| extensions.extend_from_slice(&count.to_le_bytes()));
        }
        if self.accessed_at != Timestamp::default() {
            extensions.push(tag::ACCESSED_AT);
            extensions.extend_from_slice(&self.accessed_at.as_millis().to_le_bytes());
        }
        put_bytes(&mut extensions, settings);
        let length = u32::try_from(extensions.len()).expect("settings are limited to far less than 4 GiB");
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&extensions);
        record
    }

    /// The head is read already.
    pub(super) fn decode(queue: QueueId, reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let kind = decode_kind(reader.u8("entity kind")?)?;
        let status = decode_status(reader.u8("status")?)?;
        reader.u16("reserved")?;
        let stores = Stores::decode(queue, reader)?;
        let topic = Some(reader.u32("topic")?).filter(|topic| *topic != u32::MAX).map(QueueId);
        if topic.is_some() != (kind == EntityKind::Subscription) {
            return Err(RecordError::Value { field: "topic", value: topic.map_or(NONE, |id| id.0.into()) });
        }
        let next_sequence = reader.u64("next_sequence")?;
        if !(1..=SEQUENCE_END).contains(&next_sequence) {
            return Err(RecordError::Value { field: "next_sequence", value: next_sequence });
        }
        let created_at = Timestamp::from_millis(reader.u64("created_at")?);
        let updated_at = Timestamp::from_millis(reader.u64("updated_at")?);
        let mut settings = EntitySettings { status, ..EntitySettings::default() };
        for at in 0..NUMBERS {
            let row = stored_as(Stored::Number(at)).expect("each position has its property");
            set_number(row, &mut settings, reader.u64(row.key)?);
        }
        settings.max_delivery_count = reader.u32("max_delivery_count")?;
        set_flags(&mut settings, reader.u32("flags")?)?;
        let name = take_text(reader, "name")?;
        let length = reader.u32("extensions length")?;
        let mut extensions = Reader::new(reader.bytes(length as usize, "extensions")?);
        // Of a time before partitions had numbers, a definition has none.
        let mut partitions = settings.enable_partitioning.then(Box::default);
        let mut accessed_at = Timestamp::default();
        while !extensions.rest().is_empty() {
            match extensions.u8("extension tag")? {
                tag::ACCESSED_AT => accessed_at = Timestamp::from_millis(extensions.u64("accessed_at")?),
                tag => take_extension(tag, &mut settings, &mut partitions, &mut extensions)?,
            }
        }
        Ok(Self {
            kind,
            stores,
            topic,
            name,
            settings,
            next_sequence,
            partitions,
            created_at,
            updated_at,
            accessed_at,
        })
    }
}

fn stored_as(stored: Stored) -> Option<&'static PropertyRow> {
    EntityProperty::rows().find(|row| row.stored == stored)
}

/// The numbers of the properties, in the order of their positions.
fn numbers(settings: &EntitySettings) -> [u64; NUMBERS] {
    std::array::from_fn(|at| match stored_as(Stored::Number(at)).map(|row| row.get(settings)) {
        Some(SettingValue::Time(time)) => time.map_or(NONE, millis),
        Some(SettingValue::Bytes(bytes)) => bytes.unwrap_or(NONE),
        _ => NONE,
    })
}

fn set_number(row: &PropertyRow, settings: &mut EntitySettings, number: u64) {
    let value = match row.value_type {
        PropertyType::Time => SettingValue::Time(Some(Duration::from_millis(number))),
        PropertyType::TimeOrForever => SettingValue::Time(optional(number).map(Duration::from_millis)),
        _ => SettingValue::Bytes(optional(number)),
    };
    row.set(settings, value).expect("times and sizes are the properties with numbers");
}

/// The properties that are flags, with their bits.
fn flag_bits() -> impl Iterator<Item = (&'static PropertyRow, u32)> {
    EntityProperty::rows().filter_map(|row| match row.stored {
        Stored::Flag(bit) => Some((row, bit)),
        _ => None,
    })
}

fn flags(settings: &EntitySettings) -> u32 {
    let set = flag_bits().filter(|(row, _)| row.get(settings) == SettingValue::Flag(true));
    set.fold(0, |flags, (_, bit)| flags | bit)
}

fn set_flags(settings: &mut EntitySettings, flags: u32) -> Result<(), RecordError> {
    let known = flag_bits().fold(0, |known, (_, bit)| known | bit);
    if flags & !known != 0 {
        return Err(RecordError::Value { field: "flags", value: u64::from(flags) });
    }
    for (row, bit) in flag_bits() {
        row.set(settings, SettingValue::Flag(flags & bit != 0)).expect("the property is a flag");
    }
    Ok(())
}

/// Properties of one byte. The default is left out: such a definition has the bytes that it had before the property was
/// there.
fn put_bytes(bytes: &mut Vec<u8>, settings: &EntitySettings) {
    for row in EntityProperty::rows() {
        if let (Stored::Byte(tag), SettingValue::LockLifetime(LockLifetime::Lock)) =
            (row.stored, row.get(settings))
        {
            bytes.extend_from_slice(&[tag, HOLD_LOCK]);
        }
    }
}

/// Each a tag and its texts.
fn extensions(settings: &EntitySettings) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in EntityProperty::rows() {
        if let (Stored::Text(tag), SettingValue::Text(Some(text))) = (row.stored, row.get(settings)) {
            bytes.push(tag);
            put_text(&mut bytes, &text);
        }
    }
    for (key, value) in &settings.other {
        bytes.push(tag::OTHER);
        put_text(&mut bytes, key);
        put_text(&mut bytes, value);
    }
    for rule in &settings.authorization {
        bytes.push(tag::AUTHORIZATION);
        put_rule(&mut bytes, rule);
    }
    bytes
}

fn take_extension(
    tag: u8,
    settings: &mut EntitySettings,
    partitions: &mut Option<Box<Counters>>,
    reader: &mut Reader<'_>,
) -> Result<(), RecordError> {
    if tag == tag::PARTITIONS {
        let own =
            partitions.as_mut().ok_or(RecordError::Value { field: "extension tag", value: tag.into() })?;
        **own = take_counters(reader)?;
        return Ok(());
    }
    if let Some(row) = stored_as(Stored::Byte(tag)) {
        let lifetime = SettingValue::LockLifetime(decode_hold(reader.u8(row.key)?)?);
        row.set(settings, lifetime).expect("the property is a lock lifetime");
        return Ok(());
    }
    let text = take_text(reader, "extension")?;
    if tag == tag::AUTHORIZATION {
        settings.authorization.push(take_rule(text, reader)?);
        return Ok(());
    }
    if let Some(row) = stored_as(Stored::Text(tag)) {
        row.set(settings, SettingValue::Text(Some(text))).expect("the property is a text");
        return Ok(());
    }
    match tag {
        tag::OTHER => {
            let value = take_text(reader, "extension")?;
            settings.other.insert(text, value);
        }
        _ => return Err(RecordError::Value { field: "extension tag", value: u64::from(tag) }),
    }
    Ok(())
}

pub(super) fn put_rule(bytes: &mut Vec<u8>, rule: &AuthorizationRule) {
    put_text(bytes, &rule.name);
    put_text(bytes, rule.primary.reveal());
    // A key that is there has a text.
    put_text(bytes, rule.secondary.as_ref().map_or("", KeyText::reveal));
    for time in [rule.created_at, rule.modified_at] {
        bytes.extend_from_slice(&time.as_millis().to_le_bytes());
    }
    let count = u8::try_from(rule.rights.len()).expect("there are three rights, none twice");
    bytes.push(count);
    bytes.extend(rule.rights.iter().map(|right| *right as u8));
}

pub(super) fn take_rule(name: Box<str>, reader: &mut Reader<'_>) -> Result<AuthorizationRule, RecordError> {
    let primary = KeyText::new(take_text(reader, "key")?);
    let secondary = Some(take_text(reader, "key")?).filter(|key| !key.is_empty()).map(KeyText::new);
    let created_at = Timestamp::from_millis(reader.u64("key created_at")?);
    let modified_at = Timestamp::from_millis(reader.u64("key modified_at")?);
    let count = reader.u8("rights")?;
    let rights = reader.bytes(usize::from(count), "rights")?;
    let rights = rights.iter().map(|right| decode_right(*right)).collect::<Result<_, _>>()?;
    Ok(AuthorizationRule { name, rights, primary, secondary, created_at, modified_at })
}

fn decode_right(right: u8) -> Result<AccessRight, RecordError> {
    let all = [AccessRight::Manage, AccessRight::Send, AccessRight::Listen];
    let found = all.into_iter().find(|candidate| *candidate as u8 == right);
    found.ok_or(RecordError::Value { field: "right", value: u64::from(right) })
}

fn take_counters(reader: &mut Reader<'_>) -> Result<Counters, RecordError> {
    let length = reader.u16("partitions")?;
    let bytes = reader.bytes(usize::from(length), "partitions")?;
    let (counts, rest) = bytes.as_chunks::<8>();
    let counters = Counters::new(counts.iter().map(|count| u64::from_le_bytes(*count)));
    counters
        .filter(|_| rest.is_empty())
        .ok_or(RecordError::Value { field: "partitions", value: length.into() })
}

pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("names and settings are limited to less than 64 KiB");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

pub(super) fn take_text(reader: &mut Reader<'_>, field: &'static str) -> Result<Box<str>, RecordError> {
    let length = reader.u16(field)?;
    Ok(reader.text(usize::from(length), field)?.into())
}

fn decode_kind(kind: u8) -> Result<EntityKind, RecordError> {
    let kinds = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];
    let found = kinds.into_iter().find(|candidate| *candidate as u8 == kind);
    found.ok_or(RecordError::Value { field: "entity kind", value: u64::from(kind) })
}

fn decode_status(status: u8) -> Result<EntityStatus, RecordError> {
    let all = [
        EntityStatus::Active,
        EntityStatus::Disabled,
        EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled,
    ];
    let found = all.into_iter().find(|candidate| *candidate as u8 == status);
    found.ok_or(RecordError::Value { field: "status", value: u64::from(status) })
}

fn decode_hold(hold: u8) -> Result<LockLifetime, RecordError> {
    match hold {
        HOLD_LOCK => Ok(LockLifetime::Lock),
        _ => Err(RecordError::Value { field: "hold", value: u64::from(hold) }),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NONE)
}

fn optional(value: u64) -> Option<u64> {
    (value != NONE).then_some(value)
}
