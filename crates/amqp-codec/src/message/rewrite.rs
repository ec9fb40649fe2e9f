//! Rewriting for delivery: the sections that the broker writes in front of the bare message, and the two
//! sections of the bare message that the Service Bus dialect changes.
//!
//! Invariant: what the broker does not change is copied as the bytes it was.

use std::cmp::Ordering;

use bytes::{BufMut, BytesMut};

use crate::raw::{AnnotationValue, MapView, RawValue};
use crate::sections::{Header, PropertiesView, PropertyField, Section, SectionError};
use crate::types::{Malformed, Reader, code, wire_len, write_counted};

/// Appends a header section with all five fields.
#[inline]
pub fn write_header(out: &mut BytesMut, header: &Header) {
    header.encode(out);
}

/// Appends the delivery-annotations of a locked message: `x-opt-lock-token`, a uuid in network
/// order. (The delivery-tag carries the same token in the byte order of .NET.)
#[inline]
pub fn write_lock_token_annotations(out: &mut BytesMut, token: [u8; 16]) {
    const KEY: &[u8; 16] = b"x-opt-lock-token";
    let mut section = [0; 41];
    let (front, uuid) = section.split_at_mut(25);
    front.copy_from_slice(&LOCK_TOKEN_FRONT);
    uuid.copy_from_slice(&token);
    debug_assert!(front.get(8..24) == Some(KEY), "the front holds the key");
    out.extend_from_slice(&section);
}

/// Everything of the section before the uuid: descriptor, map8 of two items, key, constructor.
const LOCK_TOKEN_FRONT: [u8; 25] = *b"\x00\x53\x71\xc1\x24\x02\xa3\x10x-opt-lock-token\x98";

/// Appends a message-annotations section: the entries of `original` (a section, descriptor
/// included) without those that `broker` names too, then the entries of `broker`. Nothing is
/// written when there are none at all, or when `original` turns out malformed.
#[inline]
pub fn write_message_annotations(
    out: &mut BytesMut,
    original: Option<&[u8]>,
    broker: &[(&str, AnnotationValue<'_>)],
) -> Result<(), SectionError> {
    write_merged::<{ code::SYMBOL_8 }>(out, Section::MessageAnnotations, original, broker, &[])
}

/// As [`write_message_annotations`], and also leaves out the entries of `original` that `removed` names.
#[inline]
pub fn message_annotations_changed(
    out: &mut BytesMut,
    original: Option<&[u8]>,
    broker: &[(&str, AnnotationValue<'_>)],
    removed: &[&str],
) -> Result<(), SectionError> {
    write_merged::<{ code::SYMBOL_8 }>(out, Section::MessageAnnotations, original, broker, removed)
}

/// Appends a delivery-annotations section, as [`write_message_annotations`] does, without the entries of `original`
/// that `removed` names.
pub fn write_delivery_annotations(
    out: &mut BytesMut,
    original: Option<&[u8]>,
    broker: &[(&str, AnnotationValue<'_>)],
    removed: &[&str],
) -> Result<(), SectionError> {
    write_merged::<{ code::SYMBOL_8 }>(out, Section::DeliveryAnnotations, original, broker, removed)
}

/// Appends an application-properties section: the entries of `original` (a section, descriptor
/// included) without those that `additions` name too, then the entries of `additions`. Nothing is
/// written when there are none at all, or when `original` turns out malformed.
pub fn application_properties_with(
    out: &mut BytesMut,
    original: Option<&[u8]>,
    additions: &[(&str, AnnotationValue<'_>)],
) -> Result<(), SectionError> {
    application_properties_changed(out, original, additions, &[])
}

/// As [`application_properties_with`], and also leaves out the entries that `removed` names.
pub fn application_properties_changed(
    out: &mut BytesMut,
    original: Option<&[u8]>,
    additions: &[(&str, AnnotationValue<'_>)],
    removed: &[&str],
) -> Result<(), SectionError> {
    write_merged::<{ code::STRING_8 }>(out, Section::ApplicationProperties, original, additions, removed)
}

/// Writes a map section with keys of the type whose one-byte-length constructor is `KEY`.
#[inline]
fn write_merged<const KEY: u8>(
    out: &mut BytesMut,
    section: Section,
    original: Option<&[u8]>,
    additions: &[(&str, AnnotationValue<'_>)],
    removed: &[&str],
) -> Result<(), SectionError> {
    let original = MapView::of_section(original.unwrap_or(&[]))
        .map_err(|problem| SectionError::Malformed { section, problem })?;
    if original.is_empty() && additions.is_empty() {
        return Ok(());
    }
    let start = out.len();
    out.reserve(original.items().len() + additions_len(additions) + 12);
    out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, section.code()]);
    // The count is known only after the merge, so the size of the header is decided by the most
    // there can be.
    let most = original.items().len() + additions_len(additions);
    let merged = if most < 250 && original.len() + additions.len() < 120 {
        out.put_slice(&[code::MAP_8, 0, 0]);
        merge::<KEY>(out, original, additions, removed).map(|entries| patch_short(out, start + 4, entries))
    } else {
        out.put_slice(&[code::MAP_32, 0, 0, 0, 0, 0, 0, 0, 0]);
        merge::<KEY>(out, original, additions, removed).map(|entries| patch_long(out, start + 4, entries))
    };
    merged.map_err(|problem| {
        out.truncate(start);
        SectionError::Malformed { section, problem }
    })
}

/// The most bytes that the entries take.
#[inline]
fn additions_len(additions: &[(&str, AnnotationValue<'_>)]) -> usize {
    additions.iter().map(|(key, value)| key.len() + 5 + value.max_len()).sum()
}

/// Writes the entries and returns how many there are.
#[inline]
fn merge<const KEY: u8>(
    out: &mut BytesMut,
    original: MapView<'_>,
    additions: &[(&str, AnnotationValue<'_>)],
    removed: &[&str],
) -> Result<usize, Malformed> {
    let mut entries = additions.len();
    if !original.is_empty() {
        entries += copy_kept(out, original, additions, removed)?;
    }
    for (key, value) in additions {
        if let Ok(len) = u8::try_from(key.len()) {
            out.put_slice(&[KEY, len]);
        } else {
            // The constructors with a length of four bytes are the others plus 0x10.
            out.put_u8(KEY + 0x10);
            out.put_u32(wire_len(key.len()));
        }
        out.extend_from_slice(key.as_bytes());
        value.write(out);
    }
    Ok(entries)
}

/// Most names that are compared one after another with each key: the broker's own annotations are fewer.
const COMPARED_MAX: usize = 16;

/// The names of entries that are replaced or removed.
struct Names<'a> {
    additions: &'a [(&'a str, AnnotationValue<'a>)],
    removed: &'a [&'a str],
    /// All of them in order, where they are too many to be compared with each key.
    sorted: Vec<&'a [u8]>,
}

impl<'a> Names<'a> {
    #[inline]
    fn new(additions: &'a [(&'a str, AnnotationValue<'a>)], removed: &'a [&'a str]) -> Self {
        let mut sorted = Vec::new();
        if additions.len() + removed.len() > COMPARED_MAX {
            sorted.extend(additions.iter().map(|(name, _)| name.as_bytes()));
            sorted.extend(removed.iter().map(|name| name.as_bytes()));
            sorted.sort_unstable();
        }
        Self { additions, removed, sorted }
    }

    #[inline]
    fn contains(&self, key: &[u8]) -> bool {
        if !self.sorted.is_empty() {
            return self.sorted.binary_search_by(|name| compare(name, key)).is_ok();
        }
        self.additions.iter().any(|(name, _)| name.as_bytes() == key)
            || self.removed.iter().any(|name| name.as_bytes() == key)
    }
}

fn compare(name: &[u8], key: &[u8]) -> Ordering {
    #[cfg(test)]
    COMPARISONS.set(COMPARISONS.get() + 1);
    name.cmp(key)
}

#[cfg(test)]
thread_local! {
    /// Comparisons of a key with one of many names.
    pub(super) static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Copies the original entries whose keys are neither replaced nor removed, run by run.
fn copy_kept(
    out: &mut BytesMut,
    original: MapView<'_>,
    additions: &[(&str, AnnotationValue<'_>)],
    removed: &[&str],
) -> Result<usize, Malformed> {
    let mut kept = 0;
    let names = Names::new(additions, removed);
    let mut reader = Reader::new(original.items());
    let mut run = reader.rest();
    for _ in 0..original.len() {
        let before = reader.rest();
        let key = RawValue::read(&mut reader)?;
        reader.value()?;
        let replaced = key.text_bytes().is_some_and(|text| names.contains(text));
        if replaced {
            out.extend_from_slice(up_to(run, before));
            run = reader.rest();
        } else {
            kept += 1;
        }
    }
    if !reader.is_empty() {
        return Err(Malformed::SizeMismatch);
    }
    out.extend_from_slice(run);
    Ok(kept)
}

/// The part of `run` before its suffix `rest`.
#[inline]
fn up_to<'a>(run: &'a [u8], rest: &[u8]) -> &'a [u8] {
    run.get(..run.len() - rest.len()).unwrap_or(run)
}

/// Sets size and count of a map8 whose size is at `at`.
#[inline]
fn patch_short(out: &mut BytesMut, at: usize, entries: usize) {
    let size = out.len() - at - 1;
    if let (Ok(size), Ok(count)) = (u8::try_from(size), u8::try_from(entries * 2))
        && let Some([place_of_size, place_of_count]) = out.get_mut(at..at + 2)
    {
        *place_of_size = size;
        *place_of_count = count;
    }
}

/// Sets size and count of a map32 whose size is at `at`.
#[inline]
fn patch_long(out: &mut BytesMut, at: usize, entries: usize) {
    let size = wire_len(out.len() - at - 4).to_be_bytes();
    let count = wire_len(entries * 2).to_be_bytes();
    if let Some(place) = out.get_mut(at..at + 8) {
        let (place_of_size, place_of_count) = place.split_at_mut(4);
        place_of_size.copy_from_slice(&size);
        place_of_count.copy_from_slice(&count);
    }
}

/// Fields of the properties section to set. What is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PropertyChanges<'a> {
    pub message_id: Option<AnnotationValue<'a>>,
    /// The creation-time, in milliseconds since 1970 UTC.
    pub creation_time: Option<i64>,
    /// The absolute-expiry-time, in milliseconds since 1970 UTC.
    pub absolute_expiry_time: Option<i64>,
    /// Any field; the last entry of a field counts, and before what is said of it above.
    pub others: &'a [(PropertyField, AnnotationValue<'a>)],
}

impl<'a> PropertyChanges<'a> {
    #[inline]
    fn of(&self, index: usize) -> Option<AnnotationValue<'a>> {
        const MESSAGE_ID: usize = PropertyField::MessageId.index();
        const EXPIRY: usize = PropertyField::AbsoluteExpiryTime.index();
        const CREATION: usize = PropertyField::CreationTime.index();
        let other = self.others.iter().rev().find(|(field, _)| field.index() == index);
        if let Some((_, value)) = other {
            return Some(*value);
        }
        match index {
            MESSAGE_ID => self.message_id,
            EXPIRY => self.absolute_expiry_time.map(AnnotationValue::Timestamp),
            CREATION => self.creation_time.map(AnnotationValue::Timestamp),
            _ => None,
        }
    }

    /// Number of fields that the list needs to hold every changed field.
    #[inline]
    fn needed(&self) -> usize {
        (0..PropertyField::ALL.len()).rev().find(|&i| self.of(i).is_some()).map_or(0, |i| i + 1)
    }
}

/// Appends a properties section: the fields of `original` (a section, descriptor included) with
/// the changes. Without any change the original is copied as it is; without either, nothing is
/// written. Nothing is written when `original` turns out malformed.
pub fn properties_with(
    out: &mut BytesMut,
    original: Option<&[u8]>,
    changes: &PropertyChanges<'_>,
) -> Result<(), SectionError> {
    let section = Section::Properties;
    let needed = changes.needed();
    let bytes = original.unwrap_or(&[]);
    if needed == 0 {
        out.extend_from_slice(bytes);
        return Ok(());
    }
    let malformed = |problem| SectionError::Malformed { section, problem };
    let original = PropertiesView::new(bytes).map_err(malformed)?;
    let start = out.len();
    out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, section.code()]);
    let count = needed.max(original.count() as usize);
    let mut result = Ok(());
    write_counted(out, code::LIST_8, code::LIST_32, count, |out| {
        result = write_changed(out, original, changes, needed);
    });
    result.map_err(|problem| {
        out.truncate(start);
        malformed(problem)
    })
}

fn write_changed(
    out: &mut BytesMut,
    original: PropertiesView<'_>,
    changes: &PropertyChanges<'_>,
    needed: usize,
) -> Result<(), Malformed> {
    let mut reader = Reader::new(original.fields());
    let present = original.count() as usize;
    for index in 0..needed {
        let old: &[u8] = if index < present { reader.value()? } else { &[code::NULL] };
        match changes.of(index) {
            Some(new) => new.write(out),
            None => out.extend_from_slice(old),
        }
    }
    for _ in needed..present {
        out.extend_from_slice(reader.value()?);
    }
    if reader.is_empty() { Ok(()) } else { Err(Malformed::SizeMismatch) }
}
