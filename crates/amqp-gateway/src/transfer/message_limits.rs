//! Limits of the parts of a message that the broker reads (Microsoft Learn, "Service Bus quotas": message properties).
//!
//! Invariant: a message within the limits costs no look into its properties: the sections' lengths tell.

use amqp_codec::{
    raw::{MapView, RawValue},
    sections::{PropertyField, Sections},
};

use crate::{condition::Refusal, dialect::Dialect};

/// Bytes of one application property, name and value encoded.
const PROPERTY_BYTES_MAX: usize = 32 << 10;
/// Bytes of header, annotations, properties and application properties together.
const PROPERTIES_BYTES_MAX: usize = 64 << 10;
/// Characters of a message-id, a session id and a partition key.
const ID_CHARS_MAX: usize = 128;

/// Refuses what is too large. Plain AMQP knows no such limits, but that a session id must fit where it is kept.
pub(crate) fn check(payload: &[u8], sections: &Sections, dialect: Dialect) -> Result<(), Refusal> {
    if sections.properties.len() > ID_CHARS_MAX {
        let properties = sections.properties_view(payload);
        id("group-id", properties.get(PropertyField::GroupId))?;
        if dialect == Dialect::ServiceBus {
            id("message-id", properties.get(PropertyField::MessageId))?;
        }
    }
    if sections.message_annotations.len() > ID_CHARS_MAX {
        let annotations = sections.message_annotations_view(payload);
        id("x-opt-partition-key", annotations.get("x-opt-partition-key"))?;
        id("x-opt-via-partition-key", annotations.get("x-opt-via-partition-key"))?;
    }
    if dialect == Dialect::Plain {
        return Ok(());
    }
    let spans =
        [sections.header, sections.message_annotations, sections.properties, sections.application_properties];
    let bytes = spans.iter().map(|span| span.len()).sum();
    if bytes > PROPERTIES_BYTES_MAX {
        return Err(Refusal::PropertiesTooLarge { bytes, limit: PROPERTIES_BYTES_MAX });
    }
    if sections.application_properties.len() > PROPERTY_BYTES_MAX {
        each_property(sections.application_properties_view(payload))?;
    }
    Ok(())
}

/// Refuses an id that is too long.
pub(crate) fn id(field: &'static str, value: Option<RawValue<'_>>) -> Result<(), Refusal> {
    let chars = value.and_then(RawValue::as_str).map_or(0, |text| text.chars().count());
    if chars > ID_CHARS_MAX {
        return Err(Refusal::TooLong { field, chars, limit: ID_CHARS_MAX });
    }
    Ok(())
}

fn each_property(properties: MapView<'_>) -> Result<(), Refusal> {
    for (name, value) in properties {
        let bytes = name.bytes().len() + value.bytes().len();
        if bytes > PROPERTY_BYTES_MAX {
            let name = name.as_str().unwrap_or_default().chars().take(ID_CHARS_MAX).collect();
            return Err(Refusal::PropertyTooLarge { name, bytes, limit: PROPERTY_BYTES_MAX });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
