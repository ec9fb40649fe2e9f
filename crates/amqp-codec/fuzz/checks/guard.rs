//! Bytes that the guard passes decode to a value, and the encoded value decodes to the same one.

use amqp_codec::guard;
use amqp_codec::raw::RawValue;
use amqp_codec::value::{decode_value, write_value};
use bytes::BytesMut;

/// Panics when the demand is not met.
pub(crate) fn demand(data: &[u8]) {
    let Ok(len) = guard::check_value(data) else { return };
    let whole = &data[..len];
    let raw = RawValue::first(data).expect("what the guard passed is one value");
    assert_eq!(raw.bytes(), whole, "guard and reader disagree about the length");
    drop((raw.as_str(), raw.as_i64(), raw.as_u64(), raw.as_uuid(), raw.to_items()));
    if let Some(map) = raw.as_map() {
        assert_eq!(map.iter().count(), map.len(), "a guarded map has all its entries");
    }
    // Descriptors that are neither numbers nor names pass the guard and have no place in a tree.
    let Ok(tree) = decode_value(whole) else { return };
    let mut out = BytesMut::new();
    write_value(&mut out, &tree);
    // An array whose elements turned out of different types is written as a list, which may nest
    // or count differently; everything else comes back the same.
    if let Ok(again) = decode_value(&out) {
        assert_eq!(again, tree);
    }
}
