//! Bodies of management requests and of their replies.
//!
//! Invariant: a field of the wrong type or outside of its range is refused by its name.

use amqp_codec::{
    raw::{RawMap, RawValue},
    types::{self, code},
};
use broker_core::{Command, LockToken, SequenceNumber, Stored, Ticket};
use bytes::{BufMut, Bytes, BytesMut};

use crate::condition::Refusal;

/// A command that waits for its ticket.
pub(super) type CommandBuilder = Box<dyn FnOnce(Ticket) -> Command>;

pub(super) fn bad(what: &'static str) -> Refusal {
    Refusal::BadRequest { what: what.into() }
}

pub(super) fn out_of_range(field: &'static str, value: i64, allowed: &'static str) -> Refusal {
    Refusal::OutOfRange { field, value, allowed }
}

/// A number of a request that is 1 at least and is cut to `most`.
pub(super) fn count_of(
    body: &RawMap,
    field: &'static str,
    what: &'static str,
    most: i64,
) -> Result<u32, Refusal> {
    let count = body.get(field).and_then(RawValue::as_i64).ok_or_else(|| bad(what))?;
    if count < 1 {
        return Err(out_of_range(field, count, "1 and more"));
    }
    Ok(u32::try_from(count.min(most)).unwrap_or(1))
}

/// Most lock tokens or sequence numbers of one request: what one request may schedule can be cancelled by one.
pub(super) const ITEMS_MAX: usize = 65_536;

/// The items of an array (or list), at most `most`. They are counted before one is copied.
fn items_of(
    body: &RawMap,
    field: &'static str,
    what: &'static str,
    (most, allowed): (usize, &'static str),
) -> Result<Vec<Bytes>, Refusal> {
    let items = body.get(field).ok_or_else(|| bad(what))?;
    let count = items.item_count().ok_or_else(|| bad(what))?;
    if count > most {
        return Err(out_of_range(field, i64::try_from(count).unwrap_or(i64::MAX), allowed));
    }
    items.to_items().ok_or_else(|| bad(what))
}

/// The tokens of a request: an array (or list) of uuids.
pub(super) fn lock_tokens(body: &RawMap) -> Result<Vec<LockToken>, Refusal> {
    let what = "'lock-tokens' must be an array of uuid, with one token at least";
    let items = items_of(body, "lock-tokens", what, (ITEMS_MAX, "1 to 65536 tokens"))?;
    let token = |item: &Bytes| RawValue::first(item).ok()?.as_uuid().map(u128::from_be_bytes).map(LockToken);
    let tokens: Option<Vec<_>> = items.iter().map(token).collect();
    tokens.filter(|tokens| !tokens.is_empty()).ok_or_else(|| bad(what))
}

/// The `sequence-numbers` of a request: an array (or list) of long, of so many as are `allowed`.
pub(super) fn sequence_numbers_of(
    body: &RawMap,
    allowed: (usize, &'static str),
) -> Result<Vec<SequenceNumber>, Refusal> {
    let what = "'sequence-numbers' must be an array of long, with one number at least";
    let items = items_of(body, "sequence-numbers", what, allowed)?;
    if items.is_empty() {
        return Err(bad(what));
    }
    let number = |item: &Bytes| {
        let number = RawValue::first(item).ok().and_then(RawValue::as_i64).ok_or_else(|| bad(what))?;
        let range = || out_of_range("sequence-numbers", number, "0 and more");
        u64::try_from(number).map(SequenceNumber).map_err(|_| range())
    };
    items.iter().map(number).collect()
}

/// An array of 64-bit values of one type, as the value of a map's only entry.
pub(super) fn one_array(key: &str, constructor: u8, values: impl ExactSizeIterator<Item = i64>) -> BytesMut {
    // The request was one message, which holds fewer than 2^29 values.
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    one_entry(key, 0, |out| {
        out.put_u8(code::ARRAY_32);
        out.put_u32(count.saturating_mul(8).saturating_add(5));
        out.put_u32(count);
        out.put_u8(constructor);
        values.for_each(|value| out.put_i64(value));
    })
}

/// Estimated size of these messages in a reply.
pub(super) fn bytes_of<'a>(messages: impl Iterator<Item = &'a Stored>) -> usize {
    messages.map(|stored| stored.payload.len() + SECTIONS_BYTES).sum()
}

/// Estimated size of the sections that the broker writes in front of a message, in bytes.
const SECTIONS_BYTES: usize = 512;

/// A map of one entry, whose value has `bytes` bytes or so.
pub(super) fn one_entry(key: &str, bytes: usize, write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::with_capacity(bytes);
    types::write_map(&mut out, 2, |out| {
        types::write_str(out, key);
        write(out);
    });
    out
}
