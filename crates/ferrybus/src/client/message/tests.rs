use fe2o3_amqp_types::{
    messaging::{ApplicationProperties, Header, MessageAnnotations, Properties},
    primitives::{Binary, Timestamp},
};

use super::*;

fn message(body: &[u8]) -> Received {
    let data = Message::builder()
        .header(Header::builder().delivery_count(2).build())
        .message_annotations(
            MessageAnnotations::builder()
                .insert("x-opt-sequence-number", Value::Long(7))
                .insert("x-opt-enqueued-time", Value::Timestamp(Timestamp::from(0)))
                .build(),
        )
        .properties(Properties::builder().message_id("m1".to_owned()).subject("greeting").build())
        .application_properties(
            ApplicationProperties::builder().insert("color", "red").insert("n", 3_i32).build(),
        )
        .data(Binary::from(body.to_vec()))
        .build();
    data.map_body(|data| Body::Data(vec![data].into()))
}

#[test]
fn json_has_everything_that_is_set() {
    let expected = json!({
        "sequence_number": 7,
        "enqueued_at": "1970-01-01T00:00:00.000Z",
        "delivery_count": 2,
        "message_id": "m1",
        "subject": "greeting",
        "application_properties": { "color": "red", "n": 3 },
        "body": "hello",
    });
    assert_eq!(json(&message(b"hello")), expected);
}

#[test]
fn bytes_that_are_no_text_are_base64() {
    let json = json(&message(b"\xff\x00"));
    assert_eq!((json.get("body"), json.get("body_base64")), (None, Some(&Json::from("/wA="))));
    assert!(text(&message(b"\xff\x00")).contains("<2 bytes>"));
}

#[test]
fn people_get_two_lines() {
    assert_eq!(
        text(&message(b"hello")),
        "     7  hello\n        enqueued 1970-01-01T00:00:00.000Z · failed deliveries 2 · id m1 · subject greeting · \
         color=red · n=3"
    );
}

#[test]
fn a_message_cannot_steer_the_terminal() {
    let text = text(&message(b"a\x1b[2Jb\r\nc"));
    assert!(text.starts_with("     7  a\\u{1b}[2Jb\\r\\nc\n"), "{text}");
}

#[test]
fn values_become_the_nearest_json() {
    let cases = [
        (Value::Null, json!(null)),
        (Value::Bool(true), json!(true)),
        (Value::Ulong(u64::MAX), json!(u64::MAX)),
        (Value::Symbol(Symbol::from("s")), json!("s")),
        (Value::List(vec![Value::Int(-1), Value::String("x".into())]), json!([-1, "x"])),
    ];
    for (value, expected) in cases {
        assert_eq!(value_json(&value), expected, "{value:?}");
    }
}
