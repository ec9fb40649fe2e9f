//! The walk over a payload that finds its sections.
//!
//! Invariant: the walk is linear in the number of sections, whatever is inside of them.

use super::{BodyKind, ByteRange, Section, SectionError, Sections};
use crate::types::{Malformed, Reader, TypeKind, code};

/// Finds the sections of a payload; `STRICT` about their order.
#[inline]
pub(super) fn scan<const STRICT: bool>(payload: &[u8]) -> Result<Sections, SectionError> {
    Scan::new(payload)?.run::<STRICT>()
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
            let span = ByteRange { start, end: self.offset() };
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
            let kind = section.body_kind();
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
                found => Err(Malformed::Unexpected { expected: TypeKind::Binary, found }),
            },
            Section::AmqpValue => self.reader.out_of_line(Reader::value).map(|_| ()),
            Section::DeliveryAnnotations
            | Section::MessageAnnotations
            | Section::ApplicationProperties
            | Section::Footer => self.reader.map().map(|_| ()),
        }
    }

    #[inline]
    fn record(&mut self, section: Section, span: ByteRange) {
        match section {
            Section::Header => self.found.header = span,
            Section::DeliveryAnnotations => self.found.delivery_annotations = span,
            Section::MessageAnnotations => self.found.message_annotations = span,
            Section::Properties => self.found.properties = span,
            Section::ApplicationProperties => self.found.application_properties = span,
            Section::Footer => self.found.footer = span,
            Section::Data | Section::AmqpSequence | Section::AmqpValue => {
                self.found.body_kind = section.body_kind();
                self.found.body = self.found.body.join(span);
            }
        }
    }
}
