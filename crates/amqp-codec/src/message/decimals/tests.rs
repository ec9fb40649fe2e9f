use super::*;
use crate::message::{AnnotationValue, MessageBuilder};
use crate::sections::Sections;

fn decimal(front: [u8; 2], digits: u32) -> Vec<u8> {
    [&[code::DECIMAL128][..], &front, &[0; 10], &digits.to_be_bytes()].concat()
}

fn section(values: &[AnnotationValue<'_>]) -> Vec<u8> {
    let message = values.iter().enumerate().fold(MessageBuilder::new(), |message, (number, value)| {
        message.application_property(&format!("key-{number}"), *value)
    });
    let payload = message.data(b"x").build();
    Sections::scan(&payload).unwrap().application_properties.of(&payload).to_vec()
}

fn raw(bytes: &[u8]) -> AnnotationValue<'_> {
    AnnotationValue::Raw(RawValue::first(bytes).unwrap())
}

#[test]
fn a_decimal_gets_the_form_that_sdks_of_service_bus_read() {
    let cases = [
        // bytes of IEEE 754-2008, bytes that are given
        ([0x30, 0x38], Some([0x0c, 0x38])), // 1.2345, exponent -4
        ([0xb0, 0x38], Some([0x8c, 0x38])), // -1.2345
        ([0x30, 0x40], Some([0x0c, 0x40])), // exponent 0
        ([0x30, 0x08], Some([0x0c, 0x08])), // exponent -28
        ([0x30, 0x39], Some([0x0c, 0x39])), // the top bit of the digits
        ([0x30, 0x06], None),               // exponent -29
        ([0x30, 0x42], None),               // exponent 1
        ([0x0c, 0x38], None),               // in this form already
        ([0x78, 0x00], None),               // infinity
        ([0x7c, 0x00], None),               // not a number
    ];
    for (front, expected) in cases {
        let given = with_service_bus_decimals(&section(&[raw(&decimal(front, 12_345))]));
        let expected = expected.map(|front| section(&[raw(&decimal(front, 12_345))]));
        assert_eq!(given.as_deref(), expected.as_deref(), "{front:02x?}");
    }
}

#[test]
fn other_properties_stay_as_they_are() {
    let (sent, given) = (decimal([0x30, 0x38], 1), decimal([0x0c, 0x38], 1));
    let others = |decimal| {
        [
            AnnotationValue::Str("\u{94}"),
            AnnotationValue::Binary(&[0x94, 0x30, 0x38]),
            raw(decimal),
            AnnotationValue::Long(7),
        ]
    };
    let rewritten = with_service_bus_decimals(&section(&others(&sent))).unwrap();
    assert_eq!(rewritten, section(&others(&given)));
    assert_eq!(with_service_bus_decimals(&rewritten), None);
    let untouched = section(&[AnnotationValue::Binary(&sent)]);
    assert_eq!(with_service_bus_decimals(&untouched), None, "a decimal's bytes inside of a binary");
}

#[test]
fn a_section_that_is_cut_short_stays_as_it_is() {
    let whole = section(&[raw(&decimal([0x30, 0x38], 1))]);
    for length in 0..whole.len() {
        assert_eq!(with_service_bus_decimals(&whole[..length]), None, "{length}");
    }
}
