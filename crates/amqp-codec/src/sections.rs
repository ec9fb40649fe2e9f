//! Where the parts of a message are (messaging 3.2).
//!
//! A message is scanned, not decoded: the broker needs a few fields of a few sections, and the
//! rest travels as the bytes it arrived as.
//!
//! Invariant: the sections that were found cover the payload exactly, each once and in order.

mod header;
mod properties;

pub use header::Header;
pub use properties::{PropertiesView, PropertyField};

use std::fmt;
use std::ops::Range;

use crate::guard::{Guard, GuardError};
use crate::raw::MapView;
use crate::types::{Descriptor, Kind, Malformed, Reader, code};

/// A piece of a payload, in bytes from its start. Empty for what is absent.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// Whether nothing is there.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// How many bytes there are.
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

/// What the body of a message consists of.
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
    pub header: Span,
    /// Annotations for the next hop only.
    pub delivery_annotations: Span,
    /// Annotations that travel with the message.
    pub message_annotations: Span,
    /// The immutable properties.
    pub properties: Span,
    /// The application's own properties.
    pub application_properties: Span,
    /// The body: all of its sections together.
    pub body: Span,
    /// What follows the body.
    pub footer: Span,
    /// What the body is.
    pub body_kind: BodyKind,
}

/// One of the sections of the specification.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(missing_docs, reason = "each name is the specification's own")]
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
    const ALL: [Self; 9] = [
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
    fn of(descriptor: Descriptor<'_>) -> Option<Self> {
        match descriptor {
            Descriptor::Code(code) => Self::of_code(code),
            Descriptor::Name(name) => Self::ALL.into_iter().find(|it| it.symbol() == name),
        }
    }

    /// Its place in the order: the three kinds of body share one.
    const fn rank(self) -> u8 {
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

/// Why a payload is no message. The peer is to blame: `amqp:decode-error`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SectionError {
    /// What should be the next section is none.
    #[error("at byte {offset}: no message section ({problem})")]
    NotASection {
        /// Where it starts, in bytes from the start of the payload.
        offset: usize,
        /// What is wrong with it.
        problem: Malformed,
    },
    /// A section that cannot be read.
    #[error("{section}: {problem}")]
    Malformed {
        /// Which one.
        section: Section,
        /// What is wrong with it.
        problem: Malformed,
    },
    /// A section after one that it must precede.
    #[error("{section} comes too late")]
    OutOfOrder {
        /// Which one.
        section: Section,
    },
    /// A section that may be there only once.
    #[error("{section} is there twice")]
    Duplicate {
        /// Which one.
        section: Section,
    },
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
        Scan::new(payload)?.run::<true>()
    }

    /// Finds the sections of a message in any order, each still once. For requests to management
    /// nodes: one Python client writes delivery-annotations after the footer.
    pub fn scan_tolerant(payload: &[u8]) -> Result<Self, SectionError> {
        Scan::new(payload)?.run::<false>()
    }

    /// What must travel unchanged: properties to footer. Of a payload that was scanned tolerantly,
    /// the smallest piece that holds them all.
    #[inline]
    pub const fn bare(&self) -> Span {
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
    pub fn body_value<'a>(&self, payload: &'a [u8]) -> Option<crate::raw::RawValue<'a>> {
        if self.body_kind != BodyKind::Value {
            return None;
        }
        let mut reader = Reader::new(self.body.of(payload));
        reader.descriptor().ok()?;
        crate::raw::RawValue::read(&mut reader).ok()
    }
}

struct Scan<'a> {
    payload: &'a [u8],
    reader: Reader<'a>,
    found: Sections,
    /// The rank of the last section.
    rank: u8,
    /// A bit for each rank that was found.
    seen: u8,
}

impl<'a> Scan<'a> {
    #[inline]
    fn new(payload: &'a [u8]) -> Result<Self, SectionError> {
        // Spans are kept in 32 bits; no frame or message limit goes beyond.
        if u32::try_from(payload.len()).is_err() {
            return Err(SectionError::TooLong { len: payload.len() });
        }
        Ok(Self { payload, reader: Reader::new(payload), found: Sections::default(), rank: 0, seen: 0 })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "`new` has checked the length")]
    fn offset(&self) -> u32 {
        (self.payload.len() - self.reader.rest().len()) as u32
    }

    #[inline]
    fn run<const STRICT: bool>(mut self) -> Result<Sections, SectionError> {
        while !self.reader.is_empty() {
            let start = self.offset();
            let section = self.next_section()?;
            self.check_place::<STRICT>(section)?;
            self.skip_contents(section).map_err(|problem| SectionError::Malformed { section, problem })?;
            let span = Span { start, end: self.offset() };
            self.record(section, span);
        }
        Ok(self.found)
    }

    #[inline]
    fn next_section(&mut self) -> Result<Section, SectionError> {
        let offset = self.payload.len() - self.reader.rest().len();
        match self.reader.descriptor() {
            Ok(descriptor) => Section::of(descriptor)
                .ok_or(SectionError::NotASection { offset, problem: Malformed::UnexpectedDescriptor }),
            Err(problem) => Err(SectionError::NotASection { offset, problem }),
        }
    }

    /// Only data and amqp-sequence may repeat, and nothing may stand between their parts.
    #[inline]
    fn check_place<const STRICT: bool>(&mut self, section: Section) -> Result<(), SectionError> {
        let rank = section.rank();
        let seen = self.seen & (1 << rank) != 0;
        if seen {
            let kind = body_kind(section);
            if kind == BodyKind::None || self.rank != rank {
                return Err(SectionError::Duplicate { section });
            }
            if kind != self.found.body_kind {
                return Err(SectionError::MixedBody { section });
            }
            if kind == BodyKind::Value {
                return Err(SectionError::Duplicate { section });
            }
        } else if STRICT && rank < self.rank {
            return Err(SectionError::OutOfOrder { section });
        }
        self.rank = rank;
        self.seen |= 1 << rank;
        Ok(())
    }

    /// Passes over a section's value, which must be of the section's type.
    #[inline]
    fn skip_contents(&mut self, section: Section) -> Result<(), Malformed> {
        match section {
            Section::Header | Section::Properties | Section::AmqpSequence => self.reader.list().map(|_| ()),
            Section::Data => match self.reader.byte()? {
                code::BINARY_8 => self.reader.sized8().map(|_| ()),
                code::BINARY_32 => self.reader.sized32().map(|_| ()),
                found => Err(Malformed::Unexpected { expected: Kind::Binary, found }),
            },
            Section::AmqpValue => self.reader.out_of_line(Reader::value).map(|_| ()),
            Section::DeliveryAnnotations
            | Section::MessageAnnotations
            | Section::ApplicationProperties
            | Section::Footer => self.reader.map().map(|_| ()),
        }
    }

    #[inline]
    fn record(&mut self, section: Section, span: Span) {
        match section {
            Section::Header => self.found.header = span,
            Section::DeliveryAnnotations => self.found.delivery_annotations = span,
            Section::MessageAnnotations => self.found.message_annotations = span,
            Section::Properties => self.found.properties = span,
            Section::ApplicationProperties => self.found.application_properties = span,
            Section::Footer => self.found.footer = span,
            Section::Data | Section::AmqpSequence | Section::AmqpValue => {
                self.found.body_kind = body_kind(section);
                self.found.body = self.found.body.join(span);
            }
        }
    }
}

#[inline]
const fn body_kind(section: Section) -> BodyKind {
    match section {
        Section::Data => BodyKind::Data,
        Section::AmqpSequence => BodyKind::Sequence,
        Section::AmqpValue => BodyKind::Value,
        _ => BodyKind::None,
    }
}

#[cfg(test)]
mod tests;
