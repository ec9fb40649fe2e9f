//! The record of a namespace's definition.
//!
//! Invariant: it is all index, so that a full segment's summary has it.

use super::{
    VERSION,
    definition::{put_rule, put_text, take_rule, take_text},
    head::Head,
    kind,
    reader::Reader,
};
use crate::{
    NamespaceDefinition, NamespaceLimit, NamespaceLimits, NamespaceSettings, NamespaceSlot, NamespaceState,
    QueueId, RecordError, Timestamp,
};

/// Stands for a limit that is not set.
const NONE: u64 = u64::MAX;

/// Flag: no client may connect.
const HELD: u8 = 1;

/// Tags of extensions.
mod tag {
    pub(super) const HOSTNAME: u8 = 1;
    pub(super) const KEY: u8 = 2;
}

/// The record of a namespace, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceRecord;

impl NamespaceRecord {
    /// The record of `definition`.
    pub fn encode(definition: &NamespaceDefinition) -> Vec<u8> {
        let NamespaceDefinition { slot, uid, name, state, settings, keys, created_at, updated_at } =
            definition;
        let mut record = Head::encode(kind::NAMESPACE, QueueId(0)).to_vec();
        slot.write_into(&mut record);
        record.extend_from_slice(&[*state as u8, if settings.held { HELD } else { 0 }]);
        record.extend_from_slice(&settings.weight.to_le_bytes());
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&uid.to_le_bytes());
        for time in [created_at, updated_at] {
            record.extend_from_slice(&time.as_millis().to_le_bytes());
        }
        for limit in NamespaceLimit::ALL {
            record.extend_from_slice(&settings.limits.get(limit).unwrap_or(NONE).to_le_bytes());
        }
        put_text(&mut record, name);
        for hostname in &settings.hostnames {
            record.push(tag::HOSTNAME);
            put_text(&mut record, hostname);
        }
        for key in keys {
            record.push(tag::KEY);
            put_rule(&mut record, key);
        }
        record
    }

    /// Reads the record of a namespace.
    pub fn decode(record: &[u8]) -> Result<NamespaceDefinition, RecordError> {
        let mut reader = Reader::new(record);
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(RecordError::Version { version });
        }
        let kind = reader.u8("kind")?;
        if kind != kind::NAMESPACE {
            return Err(RecordError::Kind { kind });
        }
        let slot = NamespaceSlot(reader.u16("namespace")?);
        reader.u32("store")?;
        let state = decode_state(reader.u8("state")?)?;
        let flags = reader.u8("flags")?;
        if flags & !HELD != 0 {
            return Err(RecordError::Value { field: "flags", value: flags.into() });
        }
        let weight = reader.u16("weight")?;
        reader.u32("reserved")?;
        let uid = u128::from_le_bytes(reader.array("uid")?);
        let created_at = Timestamp::from_millis(reader.u64("created_at")?);
        let updated_at = Timestamp::from_millis(reader.u64("updated_at")?);
        let mut limits = NamespaceLimits::default();
        for limit in NamespaceLimit::ALL {
            limits.set(limit, Some(reader.u64(limit.key())?).filter(|number| *number != NONE));
        }
        let name = take_text(&mut reader, "name")?;
        let (mut hostnames, mut keys) = (Vec::new(), Vec::new());
        while !reader.rest().is_empty() {
            match reader.u8("extension tag")? {
                tag::HOSTNAME => hostnames.push(take_text(&mut reader, "hostname")?),
                tag::KEY => {
                    let name = take_text(&mut reader, "key name")?;
                    keys.push(take_rule(name, &mut reader)?);
                }
                tag => return Err(RecordError::Value { field: "extension tag", value: tag.into() }),
            }
        }
        let settings = NamespaceSettings { hostnames, weight, held: flags & HELD != 0, limits };
        Ok(NamespaceDefinition { slot, uid, name, state, settings, keys, created_at, updated_at })
    }
}

fn decode_state(state: u8) -> Result<NamespaceState, RecordError> {
    let all = [NamespaceState::Active, NamespaceState::Deleting, NamespaceState::Deleted];
    let found = all.into_iter().find(|candidate| *candidate as u8 == state);
    found.ok_or(RecordError::Value { field: "state", value: state.into() })
}

#[cfg(test)]
mod tests;
