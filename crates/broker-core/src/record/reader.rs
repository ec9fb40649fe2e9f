//! Takes little-endian numbers off the front of a slice.
//!
//! Invariant: never reads past the end; says which field was missing.

use crate::RecordError;

/// Cursor over the bytes that are left to read.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn bytes(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(RecordError::Short { field })?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(RecordError::Short { field })?;
        self.0 = rest;
        Ok(*taken)
    }

    #[inline]
    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, RecordError> {
        self.array(field).map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, RecordError> {
        self.array(field).map(u16::from_le_bytes)
    }

    #[inline]
    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        self.array(field).map(u32::from_le_bytes)
    }

    #[inline]
    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self, length: usize, field: &'static str) -> Result<&'a str, RecordError> {
        std::str::from_utf8(self.bytes(length, field)?).map_err(|_| RecordError::Text { field })
    }
}
