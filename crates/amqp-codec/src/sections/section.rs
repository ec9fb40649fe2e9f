//! The kinds of sections and their names (messaging 3.2).
//!
//! Invariant: number and name of a section mean the same.

use std::fmt;

use super::BodyKind;
use crate::types::Descriptor;

/// One of the sections of the specification.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Section {
    Header,
    DeliveryAnnotations,
    MessageAnnotations,
    Properties,
    ApplicationProperties,
    Data,
    AmqpSequence,
    AmqpValue,
    Footer,
}

impl Section {
    /// All of them, in the order of the specification.
    pub const ALL: [Self; 9] = [
        Self::Header,
        Self::DeliveryAnnotations,
        Self::MessageAnnotations,
        Self::Properties,
        Self::ApplicationProperties,
        Self::Data,
        Self::AmqpSequence,
        Self::AmqpValue,
        Self::Footer,
    ];

    const fn of_code(code: u64) -> Option<Self> {
        Some(match code {
            0x70 => Self::Header,
            0x71 => Self::DeliveryAnnotations,
            0x72 => Self::MessageAnnotations,
            0x73 => Self::Properties,
            0x74 => Self::ApplicationProperties,
            0x75 => Self::Data,
            0x76 => Self::AmqpSequence,
            0x77 => Self::AmqpValue,
            0x78 => Self::Footer,
            _ => return None,
        })
    }

    /// The numeric descriptor.
    pub const fn code(self) -> u8 {
        match self {
            Self::Header => 0x70,
            Self::DeliveryAnnotations => 0x71,
            Self::MessageAnnotations => 0x72,
            Self::Properties => 0x73,
            Self::ApplicationProperties => 0x74,
            Self::Data => 0x75,
            Self::AmqpSequence => 0x76,
            Self::AmqpValue => 0x77,
            Self::Footer => 0x78,
        }
    }

    /// The symbolic descriptor.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Header => "amqp:header:list",
            Self::DeliveryAnnotations => "amqp:delivery-annotations:map",
            Self::MessageAnnotations => "amqp:message-annotations:map",
            Self::Properties => "amqp:properties:list",
            Self::ApplicationProperties => "amqp:application-properties:map",
            Self::Data => "amqp:data:binary",
            Self::AmqpSequence => "amqp:amqp-sequence:list",
            Self::AmqpValue => "amqp:amqp-value:*",
            Self::Footer => "amqp:footer:map",
        }
    }

    #[inline]
    pub(super) fn of(descriptor: Descriptor<'_>) -> Option<Self> {
        match descriptor {
            Descriptor::Code(code) => Self::of_code(code),
            Descriptor::Name(name) => Self::ALL.into_iter().find(|it| it.symbol() == name),
        }
    }

    /// The kind of body that it is a part of.
    #[inline]
    pub(super) const fn body_kind(self) -> BodyKind {
        match self {
            Self::Data => BodyKind::Data,
            Self::AmqpSequence => BodyKind::Sequence,
            Self::AmqpValue => BodyKind::Value,
            _ => BodyKind::None,
        }
    }

    /// Its place in the order: the three kinds of body share one.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::Header => 1,
            Self::DeliveryAnnotations => 2,
            Self::MessageAnnotations => 3,
            Self::Properties => 4,
            Self::ApplicationProperties => 5,
            Self::Data | Self::AmqpSequence | Self::AmqpValue => 6,
            Self::Footer => 7,
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::DeliveryAnnotations => "delivery-annotations",
            Self::MessageAnnotations => "message-annotations",
            Self::Properties => "properties",
            Self::ApplicationProperties => "application-properties",
            Self::Data => "data",
            Self::AmqpSequence => "amqp-sequence",
            Self::AmqpValue => "amqp-value",
            Self::Footer => "footer",
        })
    }
}
