//! The properties section (messaging 3.2.4), read field by field where it lies.
//!
//! Invariant: a field of the wrong type reads as absent; [`PropertiesView::check`] tells why.

use crate::raw::RawValue;
use crate::types::{Malformed, Reader, TypeKind};

/// The fields of the properties section, in order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PropertyField {
    MessageId,
    UserId,
    To,
    Subject,
    ReplyTo,
    CorrelationId,
    ContentType,
    ContentEncoding,
    AbsoluteExpiryTime,
    CreationTime,
    GroupId,
    GroupSequence,
    ReplyToGroupId,
}

impl PropertyField {
    /// All of them, in the order of the section.
    pub const ALL: [Self; 13] = [
        Self::MessageId,
        Self::UserId,
        Self::To,
        Self::Subject,
        Self::ReplyTo,
        Self::CorrelationId,
        Self::ContentType,
        Self::ContentEncoding,
        Self::AbsoluteExpiryTime,
        Self::CreationTime,
        Self::GroupId,
        Self::GroupSequence,
        Self::ReplyToGroupId,
    ];

    /// Its place in the section, from 0.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether a value may stand there. The type that is expected is told where there is one.
    fn check(self, value: RawValue<'_>) -> Result<(), Malformed> {
        let found = value.bytes().first().copied().unwrap_or(0);
        let kind = TypeKind::of(found).ok_or(Malformed::UnknownConstructor(found))?;
        let expected = match self {
            Self::MessageId | Self::CorrelationId => match kind {
                // uint is not in the specification, but the JavaScript SDK writes small numbers so.
                TypeKind::Ulong | TypeKind::Uint | TypeKind::Uuid | TypeKind::Binary | TypeKind::String => {
                    return Ok(());
                }
                _ => TypeKind::String,
            },
            // Any type may be an address.
            Self::To | Self::ReplyTo => return Ok(()),
            Self::UserId => TypeKind::Binary,
            Self::Subject | Self::GroupId | Self::ReplyToGroupId => TypeKind::String,
            Self::ContentType | Self::ContentEncoding => match kind {
                // Some clients write these as strings.
                TypeKind::String => return Ok(()),
                _ => TypeKind::Symbol,
            },
            Self::AbsoluteExpiryTime | Self::CreationTime => TypeKind::Timestamp,
            Self::GroupSequence => TypeKind::Uint,
        };
        if kind == expected { Ok(()) } else { Err(Malformed::Unexpected { expected, found }) }
    }
}

/// A properties section, borrowed. Each accessor walks to its field, which takes a few
/// nanoseconds; who needs many asks for [`PropertiesView::to_array`].
#[derive(Clone, Copy, Debug)]
pub struct PropertiesView<'a> {
    count: u32,
    fields: &'a [u8],
}

impl<'a> PropertiesView<'a> {
    /// Properties without any field.
    pub const EMPTY: Self = Self { count: 0, fields: &[] };

    /// Reads a section, descriptor included; an empty slice has no fields.
    #[inline]
    pub fn new(section: &'a [u8]) -> Result<Self, Malformed> {
        if section.is_empty() {
            return Ok(Self::EMPTY);
        }
        let mut reader = Reader::new(section);
        reader.descriptor()?;
        let fields = reader.list()?;
        Ok(Self { count: fields.left(), fields: fields.remaining().rest() })
    }

    /// Number of fields that the list declares, absent ones at its end not counted.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// The encoded fields without the list around them.
    pub(crate) const fn fields(&self) -> &'a [u8] {
        self.fields
    }

    /// One field; `None` when it is absent or null.
    #[inline]
    pub fn get(&self, field: PropertyField) -> Option<RawValue<'a>> {
        if field.index() >= self.count as usize {
            return None;
        }
        let mut reader = Reader::new(self.fields);
        for _ in 0..field.index() {
            reader.value().ok()?;
        }
        RawValue::read(&mut reader).ok().filter(|value| !value.is_null())
    }

    /// All fields in one walk, by [`PropertyField::index`].
    #[inline]
    pub fn to_array(&self) -> [Option<RawValue<'a>>; 13] {
        let mut reader = Reader::new(self.fields);
        let mut array = [None; 13];
        for (place, _) in array.iter_mut().zip(0..self.count) {
            let Ok(value) = RawValue::read(&mut reader) else { break };
            *place = Some(value).filter(|value| !value.is_null());
        }
        array
    }

    /// Checks that every field is of its type.
    pub fn check(&self) -> Result<(), Malformed> {
        let mut reader = Reader::new(self.fields);
        for (field, _) in PropertyField::ALL.into_iter().zip(0..self.count) {
            let value = RawValue::read(&mut reader)?;
            if !value.is_null() {
                field.check(value)?;
            }
        }
        Ok(())
    }

    /// Ulong, uuid, binary or string.
    pub fn message_id(&self) -> Option<RawValue<'a>> {
        self.get(PropertyField::MessageId)
    }

    /// The identity of who made the message.
    pub fn user_id(&self) -> Option<&'a [u8]> {
        self.get(PropertyField::UserId)?.as_binary()
    }

    /// The node it is for.
    pub fn to(&self) -> Option<RawValue<'a>> {
        self.get(PropertyField::To)
    }

    /// The field `subject`.
    pub fn subject(&self) -> Option<&'a str> {
        self.get(PropertyField::Subject)?.as_str()
    }

    /// The node that replies go to.
    pub fn reply_to(&self) -> Option<RawValue<'a>> {
        self.get(PropertyField::ReplyTo)
    }

    /// Ulong, uuid, binary or string.
    pub fn correlation_id(&self) -> Option<RawValue<'a>> {
        self.get(PropertyField::CorrelationId)
    }

    /// The media type of the body.
    pub fn content_type(&self) -> Option<&'a str> {
        self.get(PropertyField::ContentType)?.as_str()
    }

    /// The field `content-encoding`.
    pub fn content_encoding(&self) -> Option<&'a str> {
        self.get(PropertyField::ContentEncoding)?.as_str()
    }

    /// Expiry of the message, in milliseconds since 1970 UTC.
    pub fn absolute_expiry_time(&self) -> Option<i64> {
        self.get(PropertyField::AbsoluteExpiryTime)?.as_timestamp()
    }

    /// Creation of the message, in milliseconds since 1970 UTC.
    pub fn creation_time(&self) -> Option<i64> {
        self.get(PropertyField::CreationTime)?.as_timestamp()
    }

    /// The group (session) it belongs to.
    pub fn group_id(&self) -> Option<&'a str> {
        self.get(PropertyField::GroupId)?.as_str()
    }

    /// Its place in the group.
    pub fn group_sequence(&self) -> Option<u32> {
        self.get(PropertyField::GroupSequence)?.as_u64().and_then(|n| u32::try_from(n).ok())
    }

    /// The group that replies belong to.
    pub fn reply_to_group_id(&self) -> Option<&'a str> {
        self.get(PropertyField::ReplyToGroupId)?.as_str()
    }
}
