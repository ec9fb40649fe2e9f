//! Properties that a settlement, an expiry or a forward adds to a stored message.
//!
//! Invariant: the record is there whenever properties are, since they can only be written together with it.

use crate::{Properties, record::OpenRecord};

/// Properties that a settlement adds to a message, and the record to write them to. The record is present whenever
/// properties are.
#[derive(Debug, Default)]
pub(crate) struct PropertyPatch {
    pub(crate) properties: Properties,
    pub(crate) record: Option<OpenRecord>,
}
