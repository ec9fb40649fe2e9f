//! Scanning, reading and rewriting a payload.
#![no_main]

use amqp_codec::message::{
    AnnotationValue, PropertyChanges, application_properties_with, batch_messages, properties_with,
    write_message_annotations,
};
use amqp_codec::sections::Sections;
use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let payload = Bytes::copy_from_slice(data);
    let tolerant = Sections::scan_tolerant(data);
    let Ok(found) = Sections::scan(data) else { return };
    assert_eq!(tolerant, Ok(found), "what is in order is found in any order");
    let bare = found.bare().of(data);
    assert!(data.ends_with(bare), "the bare message is the end of the payload");
    let _ = (found.read_header(data), found.properties_view(data).to_array(), batch_messages(&payload));
    let _ = (found.application_properties_view(data).get("key"), found.body_value(data));
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
});
