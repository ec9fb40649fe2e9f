//! XML of entity descriptions (`QueueDescription`, `TopicDescription`, `SubscriptionDescription`), both ways.
//!
//! Invariant: every property that a client set is shown again, in the order of elements of the service, except those
//! that the broker corrects: sizes are cut to a tier's, and an entity that forwards has no idle deletion.

use std::{collections::BTreeSet, time::Duration};

use broker_core::{
    EntityKind, EntityProperty, EntityReport, EntitySettings, EntityStatus, LockLifetime, PropertyRow,
    PropertyType, SettingValue,
};
use roxmltree::{Document, Node};

use crate::{
    duration::{self, IsoDuration},
    xml,
};

mod authorization;
mod elements;
mod write;

pub(crate) use elements::{Element, elements};
pub(crate) use write::{Shown, write};

/// A description as a client sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    pub(crate) kind: EntityKind,
    pub(crate) settings: EntitySettings,
    /// The properties that it has.
    given: BTreeSet<EntityProperty>,
    /// A size in it is that of each partition, where there are partitions.
    is_size_of_partition: bool,
}

impl Description {
    /// The size of an entity with partitions is that of each of the sixteen, as in the service, and shown is that of all. One
    /// that no partition can have is that of all: a client sends back what was shown.
    pub(crate) const fn take_size_as_of_partition(&mut self) {
        self.is_size_of_partition = true;
    }

    /// Settings of an entity that is created.
    pub(crate) fn created(mut self) -> EntitySettings {
        self.multiply_size();
        self.settings
    }

    fn multiply_size(&mut self) {
        if self.is_size_of_partition && self.settings.enable_partitioning {
            let of_partition =
                self.settings.max_size_bytes.as_mut().filter(|bytes| **bytes <= PARTITION_SIZE_MAX << 20);
            if let Some(bytes) = of_partition {
                *bytes *= PARTITIONS;
            }
        }
    }

    /// Sizes are set in steps, up to a largest one.
    fn check_size(&self) -> Result<(), String> {
        match self.settings.max_size_bytes.map(|bytes| bytes >> 20) {
            Some(size) if size % SIZE_STEP != 0 || size > SIZE_MAX => Err(bad_size(size)),
            _ => Ok(()),
        }
    }

    /// Settings of an entity after an update of these earlier ones.
    pub(crate) fn over(mut self, before: &EntityReport) -> Result<EntitySettings, String> {
        self.keep_fixed(&before.settings);
        self.keep_sizes(before)?;
        if self.settings.default_time_to_live != before.settings.default_time_to_live {
            self.check_time_to_live()?;
        }
        Ok(self.settings)
    }

    /// Refuses a default time to live that is shorter than the shortest of the service.
    fn check_time_to_live(&self) -> Result<(), String> {
        match self.settings.default_time_to_live {
            Some(time) if time < TIME_TO_LIVE_MIN => {
                let time = duration::format(Some(time));
                Err(Reader::bad("DefaultMessageTimeToLive", &time, "at least PT1S"))
            }
            _ => Ok(()),
        }
    }

    /// A size that comes back as it was shown means no change of it: a configuration file can set none, one between the steps
    /// or one beyond them, and the broker's own limit may cap that of messages.
    fn keep_sizes(&mut self, before: &EntityReport) -> Result<(), String> {
        let settings = &mut self.settings;
        if settings.max_message_bytes == Some(shown_message_kilobytes(before) << 10) {
            settings.max_message_bytes = before.settings.max_message_bytes;
        }
        if settings.max_size_bytes == Some(shown_megabytes(&before.settings) << 20) {
            settings.max_size_bytes = before.settings.max_size_bytes;
            return Ok(());
        }
        self.check_size()?;
        self.multiply_size();
        Ok(())
    }

    /// An update that leaves out what is fixed, or what clients do not know, means no change of it.
    fn keep_fixed(&mut self, before: &EntitySettings) {
        // SDKs do not know `Hold`, and leave it out when they change others.
        let stays = |row: &&PropertyRow| row.is_fixed || row.property == EntityProperty::LockLifetime;
        for row in EntityProperty::rows().filter(stays).filter(|row| !self.given.contains(&row.property)) {
            row.set(&mut self.settings, row.get(before)).expect("both values are of the property's type");
        }
    }
}

/// The size of an entity in megabytes, as it is shown.
fn shown_megabytes(settings: &EntitySettings) -> u64 {
    settings.max_size_bytes.map_or(SIZE_UNLIMITED, |bytes| bytes.div_ceil(1 << 20))
}

/// The largest message of an entity in kilobytes, as it is shown.
fn shown_message_kilobytes(report: &EntityReport) -> u64 {
    (report.max_message_bytes >> 10).max(1)
}

/// Megabytes shown for an entity without a limit.
const SIZE_UNLIMITED: u64 = 81_920;

/// The element that a body is about, and its name.
pub(crate) fn described<'a>(document: &'a Document<'_>) -> Option<Node<'a, 'a>> {
    let is_content = |node: &Node<'_, '_>| node.has_tag_name((xml::ATOM, "content"));
    let content = document.root_element().children().find(is_content)?;
    content.children().find(Node::is_element)
}

/// Reads the description of a queue, topic or subscription that is to be created.
pub(crate) fn read(node: Node<'_, '_>) -> Result<Description, String> {
    let description = read_update(node)?;
    description.check_size()?;
    description.check_time_to_live()?;
    Ok(description)
}

/// Reads the description of an existing entity: every property that was shown may come back, also one that cannot be
/// set here.
pub(crate) fn read_update(node: Node<'_, '_>) -> Result<Description, String> {
    let kind = kind_of(node).ok_or_else(|| {
        let name = node.tag_name().name();
        format!("the element `{name}` is no description of a queue, topic or subscription")
    })?;
    let reader = Reader { node };
    let mut settings = EntitySettings::default();
    let mut given = BTreeSet::new();
    for row in EntityProperty::of(kind) {
        if let Some(value) = reader.property(row, &mut settings)? {
            row.set(&mut settings, value).expect("a value is read with the type of its property");
            given.insert(row.property);
        }
    }
    if kind != EntityKind::Subscription {
        settings.authorization = authorization::read(node)?;
    }
    Ok(Description { kind, settings, given, is_size_of_partition: false })
}

fn kind_of(node: Node<'_, '_>) -> Option<EntityKind> {
    let kinds = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];
    kinds.into_iter().find(|kind| node.has_tag_name((xml::SERVICE_BUS, element_name(*kind))))
}

/// The element that describes such an entity.
pub(crate) fn element_name(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Queue => "QueueDescription",
        EntityKind::Topic => "TopicDescription",
        EntityKind::Subscription => "SubscriptionDescription",
    }
}

struct Reader<'a, 'input> {
    node: Node<'a, 'input>,
}

impl Reader<'_, '_> {
    /// Reads a property; `None`: it is not there, and has its default.
    fn property(
        &self,
        row: &PropertyRow,
        settings: &mut EntitySettings,
    ) -> Result<Option<SettingValue>, String> {
        let name = row.element;
        Ok(match row.value_type {
            PropertyType::Time => {
                let time = self.duration(name)?;
                time.map(|time| SettingValue::Time(Some(time.finite().unwrap_or(Duration::MAX))))
            }
            PropertyType::TimeOrForever => self.duration(name)?.map(|time| SettingValue::Time(time.finite())),
            PropertyType::Flag | PropertyType::Kept(_) => self.flag(name)?.map(SettingValue::Flag),
            PropertyType::Count(_) => {
                let count = self.number(name)?;
                count.map(|count| SettingValue::Count(u32::try_from(count).unwrap_or(u32::MAX)))
            }
            // A size that is not there is that of the service's default.
            PropertyType::Bytes(_) if row.property == EntityProperty::MaxSizeBytes => {
                Some(SettingValue::Bytes(Some(self.size()?)))
            }
            PropertyType::Bytes(_) => self.message_size()?.map(|size| SettingValue::Bytes(Some(size))),
            PropertyType::Status => self.status()?.map(SettingValue::Status),
            PropertyType::LockLifetime => self.lock_lifetime(name)?.map(SettingValue::LockLifetime),
            PropertyType::Text => {
                xml::whole_text_of(self.node, name).map(|text| SettingValue::Text(Some(text.into())))
            }
            PropertyType::Entity => {
                let target = self.target(name)?;
                // Answers have the text as it was written.
                let text = xml::text_of(self.node, name).filter(|_| target.is_some());
                settings.other.extend(text.map(|text| (name.into(), text.into())));
                target.map(|target| SettingValue::Text(Some(target)))
            }
        })
    }

    fn lock_lifetime(&self, name: &str) -> Result<Option<LockLifetime>, String> {
        let Some(text) = xml::text_of(self.node, name) else { return Ok(None) };
        let known = LockLifetime::ALL.into_iter().find(|lifetime| lifetime.word() == text);
        known.map(Some).ok_or_else(|| Self::bad(name, text, "Link or Lock"))
    }

    fn bad(name: &str, value: &str, expected: &str) -> String {
        format!("`{name}` is '{value}', expected {expected}")
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        let Some(text) = xml::text_of(self.node, name) else { return Ok(None) };
        flag(text).map(Some).ok_or_else(|| Self::bad(name, text, "true or false"))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = xml::text_of(self.node, name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Self::bad(name, text, "a whole number, not negative"))
    }

    fn duration(&self, name: &str) -> Result<Option<IsoDuration>, String> {
        let Some(text) = xml::text_of(self.node, name) else { return Ok(None) };
        let read = duration::parse(text);
        read.map(Some).ok_or_else(|| Self::bad(name, text, "an ISO 8601 duration, like PT5M"))
    }

    /// In bytes. One that is too large to be set may be that of the entity already.
    fn size(&self) -> Result<u64, String> {
        let size = self.number("MaxSizeInMegabytes")?.unwrap_or(SIZE_STEP);
        size.checked_mul(1 << 20).filter(|bytes| *bytes > 0).ok_or_else(|| bad_size(size))
    }

    /// In bytes.
    fn message_size(&self) -> Result<Option<u64>, String> {
        let Some(size) = self.number("MaxMessageSizeInKilobytes")? else { return Ok(None) };
        if size == 0 || size > MESSAGE_SIZE_MAX {
            let expected = format!("1 to {MESSAGE_SIZE_MAX}");
            return Err(Self::bad("MaxMessageSizeInKilobytes", &size.to_string(), &expected));
        }
        Ok(Some(size << 10))
    }

    fn status(&self) -> Result<Option<EntityStatus>, String> {
        let Some(text) = xml::text_of(self.node, "Status") else { return Ok(None) };
        let known = EntityStatus::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(text));
        let expected = "Active, Disabled, SendDisabled or ReceiveDisabled";
        known.map(Some).ok_or_else(|| Self::bad("Status", text, expected))
    }

    /// An entity's name, from a bare name or a URI with any host.
    fn target(&self, name: &str) -> Result<Option<Box<str>>, String> {
        let Some(text) = xml::text_of(self.node, name) else { return Ok(None) };
        let path = match text.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => text,
        };
        let decoded = percent_encoding::percent_decode_str(path.trim_matches('/')).decode_utf8();
        match decoded {
            Ok(path) if !path.is_empty() => Ok(Some(path.into())),
            _ => Err(Self::bad(name, text, "the name or URI of an entity")),
        }
    }
}

/// Value of a flag in XML.
fn flag(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || text == "1" {
        Some(true)
    } else if is("false") || text == "0" {
        Some(false)
    } else {
        None
    }
}

/// Text of a flag in XML.
const fn word(on: bool) -> &'static str {
    if on { "true" } else { "false" }
}

fn bad_size(megabytes: u64) -> String {
    let expected = format!("a multiple of {SIZE_STEP} from {SIZE_STEP} to {SIZE_MAX}");
    Reader::bad("MaxSizeInMegabytes", &megabytes.to_string(), &expected)
}

/// Shortest default time to live.
const TIME_TO_LIVE_MIN: Duration = Duration::from_secs(1);
/// Sizes of entities come in steps of so many megabytes.
const SIZE_STEP: u64 = 1_024;
/// Largest size of an entity in megabytes.
const SIZE_MAX: u64 = 81_920;
/// Partitions of an entity that has some.
const PARTITIONS: u64 = 16;
/// Largest size of one of them in megabytes.
const PARTITION_SIZE_MAX: u64 = SIZE_MAX / PARTITIONS;
/// Largest message that an entity can be set to take, in kilobytes.
const MESSAGE_SIZE_MAX: u64 = 102_400;

#[cfg(test)]
mod tests;
