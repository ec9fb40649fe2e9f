//! A decoded performative can be encoded, and its encoding decodes to the same one.

use amqp_codec::performative::{self, Declare, DeliveryState, Discharge, Performative, Source, Target};
use bytes::{Bytes, BytesMut};

fn encoded(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    write(&mut out);
    out.freeze()
}

/// Panics when the demand is not met.
pub(crate) fn demand(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    if let Ok((read, payload)) = performative::decode(&body) {
        assert!(data.ends_with(&payload));
        let (again, rest) =
            performative::decode(&encoded(|out| read.encode(out))).expect("what we write is readable");
        assert!(rest.is_empty());
        // Of a tag that is longer than the protocol allows only a part is kept, which is the whole of another.
        let is_too_long = |read: &Performative| matches!(read, Performative::Transfer(transfer) if transfer.delivery_tag.is_some_and(|tag| tag.is_too_long()));
        assert!(again == read || is_too_long(&read));
    }
    if let Ok(read) = performative::decode_sasl(&body) {
        assert_eq!(performative::decode_sasl(&encoded(|out| read.encode(out))), Ok(read));
    }
    if let Ok(read) = DeliveryState::decode(data) {
        assert_eq!(DeliveryState::decode(&encoded(|out| read.encode(out))), Ok(read));
    }
    if let Ok(read) = Source::decode(data) {
        assert!(data.starts_with(&encoded(|out| read.encode(out))), "an echo is exact");
    }
    if let Ok(read) = Target::decode(data) {
        assert_eq!(Target::decode(&encoded(|out| read.encode(out))), Ok(read));
    }
    drop((Declare::decode(data), Discharge::decode(data)));
}
