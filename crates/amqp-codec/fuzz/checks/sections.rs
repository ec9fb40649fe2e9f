//! Scanning, reading and rewriting a payload.

use amqp_codec::message::{
    AnnotationValue, PropertyChanges, application_properties_with, batch_messages, properties_with,
    with_service_bus_decimals, write_message_annotations,
};
use amqp_codec::sections::Sections;
use bytes::{Bytes, BytesMut};

/// Panics when the demand is not met.
pub(crate) fn demand(data: &[u8]) {
    let payload = Bytes::copy_from_slice(data);
    let tolerant = Sections::scan_tolerant(data);
    let Ok(found) = Sections::scan(data) else { return };
    assert_eq!(tolerant, Ok(found), "what is in order is found in any order");
    let bare = found.bare().of(data);
    assert!(data.ends_with(bare), "the bare message is the end of the payload");
    drop((found.read_header(data), found.properties_view(data).to_array(), batch_messages(&payload)));
    let value = found.application_properties_view(data).get("key");
    assert!(value.is_none_or(|value| value.bytes().len() < data.len()));
    let _body = found.body_value(data);
    if let Some(decimals) = with_service_bus_decimals(found.application_properties.of(data)) {
        assert!(
            decimals.len() <= data.len() && with_service_bus_decimals(&decimals).is_none(),
            "once is enough"
        );
    }
    let clean = found.check_contents(data).is_ok();

    let additions = [("key", AnnotationValue::Long(1)), ("x-opt-other", AnnotationValue::Null)];
    let changes = PropertyChanges { creation_time: Some(1), ..PropertyChanges::default() };
    let mut out = BytesMut::new();
    let written = [
        write_message_annotations(&mut out, Some(found.message_annotations.of(data)), &additions),
        properties_with(&mut out, Some(found.properties.of(data)), &changes),
        application_properties_with(&mut out, Some(found.application_properties.of(data)), &additions),
    ];
    assert!(!clean || written.iter().all(Result::is_ok), "clean sections can be rewritten");
    out.extend_from_slice(found.body.of(data));
    let again = Sections::scan(&out).expect("what we write is a message");
    if clean {
        assert_eq!(again.check_contents(&out), Ok(()));
    }
}
