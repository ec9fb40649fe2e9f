//! Sections of a message, as byte ranges of its payload (messaging 3.2).
//!
//! A message is scanned, not decoded: the broker needs a few fields of a few sections, and the
//! rest travels as the bytes it arrived as.
//!
//! Invariant: the sections that were found cover the payload exactly, each once and in order.

mod header;
mod properties;
mod scan;
mod section;

pub use header::Header;
pub use properties::{PropertiesView, PropertyField};
pub use section::Section;

use std::ops::Range;

use crate::guard::{Guard, GuardError};
use crate::raw::{MapView, RawValue};
use crate::types::{Malformed, Reader};

/// A piece of a payload, in bytes from its start. Empty for what is absent.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl ByteRange {
    /// Whether nothing is there.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// As a range, to slice with.
    #[inline]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The bytes of the payload it was found in; nothing for another, shorter payload.
    #[inline]
    pub fn of(self, payload: &[u8]) -> &[u8] {
        payload.get(self.range()).unwrap_or(&[])
    }

    /// The smallest span over both, where an empty one does not count.
    const fn join(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self {
            start: if self.start < other.start { self.start } else { other.start },
            end: if self.end > other.end { self.end } else { other.end },
        }
    }
}

/// Kind of the body of a message.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum BodyKind {
    /// There is none. Not allowed by the specification, but sent by some clients.
    #[default]
    None,
    /// One or more data sections: bytes.
    Data,
    /// One or more amqp-sequence sections: lists.
    Sequence,
    /// One amqp-value section.
    Value,
}

/// The sections of a message. All spans include the section's descriptor.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sections {
    /// Transfer-related fields, rewritten on each hop.
    pub header: ByteRange,
    /// Annotations for the next hop only.
    pub delivery_annotations: ByteRange,
    /// Annotations that travel with the message.
    pub message_annotations: ByteRange,
    pub properties: ByteRange,
    /// The application's own properties.
    pub application_properties: ByteRange,
    /// The body: all of its sections together.
    pub body: ByteRange,
    pub footer: ByteRange,
    pub body_kind: BodyKind,
}

/// Malformed message. The peer is to blame: `amqp:decode-error`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SectionError {
    /// The bytes at this offset are no section.
    #[error("at byte {offset}: no message section ({problem})")]
    NotASection {
        /// Start of the section, in bytes from the start of the payload.
        offset: usize,
        problem: Malformed,
    },
    /// A section that cannot be read.
    #[error("{section}: {problem}")]
    Malformed { section: Section, problem: Malformed },
    /// A section after one that it must precede.
    #[error("{section} comes too late")]
    OutOfOrder { section: Section },
    /// A section that may be there only once.
    #[error("{section} is there twice")]
    Duplicate { section: Section },
    /// A body of more than one kind.
    #[error("{section} in a body of another kind")]
    MixedBody {
        /// The section that does not fit.
        section: Section,
    },
    /// Longer than a span can say.
    #[error("payload of {len} bytes is too long")]
    TooLong {
        /// Its length, in bytes.
        len: usize,
    },
    /// A batch whose body is not data sections.
    #[error("a batch needs data sections")]
    NotABatch,
}

impl Sections {
    /// Finds the sections of a message, in the order that the specification demands.
    #[inline]
    pub fn scan(payload: &[u8]) -> Result<Self, SectionError> {
        scan::scan::<true>(payload)
    }

    /// Finds the sections of a message in any order, each still once. For requests to management
    /// nodes: one Python client writes delivery-annotations after the footer.
    pub fn scan_tolerant(payload: &[u8]) -> Result<Self, SectionError> {
        scan::scan::<false>(payload)
    }

    /// Bare message, which must travel unchanged, with the footer. Of a payload that was scanned tolerantly,
    /// the smallest range that holds all of these sections.
    #[inline]
    pub const fn bare(&self) -> ByteRange {
        self.properties.join(self.application_properties).join(self.body).join(self.footer)
    }

    /// Checks what the scan has not looked at: every value inside of all sections but the body,
    /// and the types of header fields and properties. `payload` is what was scanned.
    pub fn check_contents(&self, payload: &[u8]) -> Result<(), SectionError> {
        let guarded = [
            (Section::Header, self.header),
            (Section::DeliveryAnnotations, self.delivery_annotations),
            (Section::MessageAnnotations, self.message_annotations),
            (Section::Properties, self.properties),
            (Section::ApplicationProperties, self.application_properties),
            (Section::Footer, self.footer),
        ];
        let mut guard = Guard::new();
        for (section, span) in guarded {
            if !span.is_empty() {
                guard
                    .check_whole_value(span.of(payload))
                    .map_err(|GuardError { problem, .. }| SectionError::Malformed { section, problem })?;
            }
        }
        let malformed = |section| move |problem| SectionError::Malformed { section, problem };
        Header::decode(self.header.of(payload)).map_err(malformed(Section::Header))?;
        PropertiesView::new(self.properties.of(payload))
            .and_then(|properties| properties.check())
            .map_err(malformed(Section::Properties))
    }

    /// The header, with its defaults when absent.
    pub fn read_header(&self, payload: &[u8]) -> Result<Header, SectionError> {
        Header::decode(self.header.of(payload))
            .map_err(|problem| SectionError::Malformed { section: Section::Header, problem })
    }

    /// The properties, to be read field by field.
    #[inline]
    pub fn properties_view<'a>(&self, payload: &'a [u8]) -> PropertiesView<'a> {
        PropertiesView::new(self.properties.of(payload)).unwrap_or(PropertiesView::EMPTY)
    }

    /// The message annotations, to be read entry by entry.
    #[inline]
    pub fn message_annotations_view<'a>(&self, payload: &'a [u8]) -> MapView<'a> {
        MapView::of_section(self.message_annotations.of(payload)).unwrap_or(MapView::EMPTY)
    }

    /// The delivery annotations, to be read entry by entry.
    #[inline]
    pub fn delivery_annotations_view<'a>(&self, payload: &'a [u8]) -> MapView<'a> {
        MapView::of_section(self.delivery_annotations.of(payload)).unwrap_or(MapView::EMPTY)
    }

    /// The application properties, to be read entry by entry.
    #[inline]
    pub fn application_properties_view<'a>(&self, payload: &'a [u8]) -> MapView<'a> {
        MapView::of_section(self.application_properties.of(payload)).unwrap_or(MapView::EMPTY)
    }

    /// The value of an amqp-value body, encoded; `None` for other bodies.
    pub fn body_value<'a>(&self, payload: &'a [u8]) -> Option<RawValue<'a>> {
        if self.body_kind != BodyKind::Value {
            return None;
        }
        let mut reader = Reader::new(self.body.of(payload));
        reader.descriptor().ok()?;
        RawValue::read(&mut reader).ok()
    }
}

#[cfg(test)]
mod tests;
