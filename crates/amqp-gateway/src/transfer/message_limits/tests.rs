use amqp_codec::{
    message::MessageBuilder,
    raw::{AnnotationValue, RawMap},
};

use super::*;

fn outcome(message: MessageBuilder, dialect: Dialect) -> Option<&'static str> {
    let message = message.data(b"body").build();
    let sections = Sections::scan(&message).unwrap();
    check(&message, &sections, dialect).err().map(|refusal| refusal.named().condition)
}

#[test]
fn ids_have_128_characters_at_most_however_many_bytes_those_take() {
    let range = Some("com.microsoft:argument-out-of-range");
    for (count, letter, refused) in [(128, "x", None), (129, "x", range), (128, "ü", None), (129, "ü", range)]
    {
        let text = letter.repeat(count);
        let value = AnnotationValue::Str(&text);
        let annotated =
            |key| MessageBuilder::new().message_annotations(RawMap::with_symbol_keys(&[(key, value)]));
        let cases = [
            // message, whether plain AMQP is held to it
            (MessageBuilder::new().property(PropertyField::MessageId, value), false),
            (MessageBuilder::new().property(PropertyField::GroupId, value), true),
            (annotated("x-opt-partition-key"), true),
            (annotated("x-opt-via-partition-key"), true),
            (MessageBuilder::new().property(PropertyField::CorrelationId, value), false),
        ];
        for (number, (message, plain)) in cases.into_iter().enumerate() {
            let expected = refused.filter(|_| number < 4);
            assert_eq!(outcome(message.clone(), Dialect::ServiceBus), expected, "{number} {count} {letter}");
            assert_eq!(
                outcome(message, Dialect::Plain),
                expected.filter(|_| plain),
                "{number} {count} {letter}"
            );
        }
    }
}

#[test]
fn one_property_and_all_together_have_their_limits() {
    let size = Some("amqp:link:message-size-exceeded");
    // A string of more than 255 bytes takes five more, its name `p` three.
    let one = |bytes: usize| vec![bytes - 8];
    // Around two properties there are three bytes of a descriptor and nine of a map.
    let two = |bytes: usize| vec![30_000, bytes - 12 - 30_008 - 8];
    let cases = [
        (one(PROPERTY_BYTES_MAX), None),
        (one(PROPERTY_BYTES_MAX + 1), size),
        (two(60_000), None),
        (vec![25_000, 25_000, PROPERTIES_BYTES_MAX - 12 - 2 * 25_008 - 8], None),
        (vec![25_000, 25_000, PROPERTIES_BYTES_MAX - 12 - 2 * 25_008 - 7], size),
    ];
    for (lengths, expected) in cases {
        let mut message = MessageBuilder::new();
        for (length, name) in lengths.iter().zip(["p", "q", "r"]) {
            message = message.application_property(name, AnnotationValue::Str(&"x".repeat(*length)));
        }
        assert_eq!(outcome(message.clone(), Dialect::ServiceBus), expected, "{lengths:?}");
        assert_eq!(outcome(message, Dialect::Plain), None, "{lengths:?}");
    }
}
