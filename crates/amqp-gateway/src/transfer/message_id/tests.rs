use amqp_codec::raw::RawValue;

use super::*;

#[test]
fn every_type_of_message_id_has_its_text() {
    let cases: [(&[u8], Option<&str>); 12] = [
        // What came, its text.
        (b"\xA1\x03abc", Some("abc")),
        (b"\xB1\x00\x00\x00\x03abc", Some("abc")),
        (b"\xA1\x00", Some("")),
        (b"\x44", Some("0")),
        (b"\x53\x05", Some("5")),
        (b"\x80\x00\x00\x00\x00\x00\x00\x00\x05", Some("5")),
        (b"\x52\x05", Some("5")),
        (b"\x80\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", Some("18446744073709551615")),
        (
            b"\x98\x90\x3a\x17\x3c\x50\xb2\x46\xdf\xa7\xd2\x16\x2f\x15\x12\x5c\xba",
            Some("903a173c-50b2-46df-a7d2-162f15125cba"),
        ),
        (b"\xA0\x03\x00\xAB\x7f", Some("00ab7f")),
        (b"\xA0\x00", Some("")),
        (b"\x40", None),
    ];
    for case @ (bytes, expected) in cases {
        let value = RawValue::first(bytes).unwrap();
        assert_eq!(canonical(value).as_deref(), expected, "{case:?}");
    }
}
