//! Our sections against those of `fe2o3-amqp-types`, both ways: we must find and read what it writes, and it must read
//! what we write anew for a delivery, to the same meaning.

#![expect(clippy::disallowed_methods, reason = "`serde_amqp` is the oracle here")]

use fe2o3_amqp_types::messaging as m;
use fe2o3_amqp_types::messaging::message::__private::{Deserializable, Serializable};
use fe2o3_amqp_types::primitives::SimpleValue;
use proptest::collection::vec;
use serde_amqp::primitives::{Binary, OrderedMap, Symbol};
use serde_amqp::serde::de::DeserializeOwned;
use serde_amqp::{from_slice, to_vec};

use super::*;
use crate::message::{write_header, write_lock_token_annotations, write_message_annotations};
use crate::raw::{MapView, RawMap};
use crate::value::{Value, decode_value};

type Message = m::Message<m::Body<Value>>;

fn word() -> impl Strategy<Value = String> {
    "[a-z][a-z:-]{0,11}"
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<i64>().prop_map(|ms| Value::Timestamp(ms.into())),
        any::<[u8; 16]>().prop_map(|id| Value::Uuid(id.into())),
        vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Binary(bytes.into())),
        "\\PC{0,100}".prop_map(Value::String),
        word().prop_map(|word| Value::Symbol(word.into())),
    ]
}

/// The same as an application property.
fn simple(value: Value) -> SimpleValue {
    match value {
        Value::Bool(it) => SimpleValue::Bool(it),
        Value::Ubyte(it) => SimpleValue::Ubyte(it),
        Value::Uint(it) => SimpleValue::Uint(it),
        Value::Ulong(it) => SimpleValue::Ulong(it),
        Value::Int(it) => SimpleValue::Int(it),
        Value::Long(it) => SimpleValue::Long(it),
        Value::Timestamp(it) => SimpleValue::Timestamp(it),
        Value::Uuid(it) => SimpleValue::Uuid(it),
        Value::Binary(it) => SimpleValue::Binary(it),
        Value::String(it) => SimpleValue::String(it),
        Value::Symbol(it) => SimpleValue::Symbol(it),
        _ => SimpleValue::Null,
    }
}

fn annotations() -> impl Strategy<Value = m::Annotations> {
    vec((word(), value()), 0..12).prop_map(|entries| {
        let mut map = OrderedMap::new();
        for (key, value) in entries {
            map.insert(Symbol::from(key).into(), value);
        }
        map
    })
}

fn header() -> impl Strategy<Value = m::Header> {
    (any::<bool>(), any::<u8>(), any::<Option<u32>>(), any::<bool>(), any::<u32>()).prop_map(
        |(durable, priority, ttl, first_acquirer, delivery_count)| {
            let priority = m::Priority(priority);
            m::Header { durable, priority, ttl, first_acquirer, delivery_count }
        },
    )
}

fn id() -> impl Strategy<Value = m::MessageId> {
    prop_oneof![
        any::<u64>().prop_map(m::MessageId::Ulong),
        any::<[u8; 16]>().prop_map(|id| m::MessageId::Uuid(id.into())),
        vec(any::<u8>(), 0..40).prop_map(|bytes| m::MessageId::Binary(bytes.into())),
        "\\PC{0,40}".prop_map(m::MessageId::String),
    ]
}

fn properties() -> impl Strategy<Value = m::Properties> {
    let texts = vec(proptest::option::of("\\PC{0,40}"), 5);
    let words = vec(proptest::option::of(word()), 2);
    let ids = vec(proptest::option::of(id()), 2);
    let numbers = (any::<Option<i64>>(), any::<Option<i64>>(), any::<Option<u32>>());
    (texts, words, ids, numbers, any::<Option<Vec<u8>>>()).prop_map(|(texts, words, ids, numbers, user)| {
        let symbol = |index: usize| words[index].clone().map(Symbol::from);
        m::Properties {
            message_id: ids[0].clone(),
            user_id: user.map(Binary::from),
            to: texts[0].clone(),
            subject: texts[1].clone(),
            reply_to: texts[2].clone(),
            correlation_id: ids[1].clone(),
            content_type: symbol(0),
            content_encoding: symbol(1),
            absolute_expiry_time: numbers.0.map(Into::into),
            creation_time: numbers.1.map(Into::into),
            group_id: texts[3].clone(),
            group_sequence: numbers.2,
            reply_to_group_id: texts[4].clone(),
        }
    })
}

fn body() -> impl Strategy<Value = m::Body<Value>> {
    let data = vec(vec(any::<u8>(), 0..400), 1..4).prop_map(|sections| {
        let sections: Vec<_> = sections.into_iter().map(|bytes| m::Data(bytes.into())).collect();
        m::Body::Data(sections.into())
    });
    let sequence = vec(vec(value(), 0..4), 1..4).prop_map(|sections| {
        let sections: Vec<_> = sections.into_iter().map(m::AmqpSequence).collect();
        m::Body::Sequence(sections.into())
    });
    prop_oneof![data, sequence, value().prop_map(|value| m::Body::Value(m::AmqpValue(value)))]
}

fn message() -> impl Strategy<Value = Message> {
    use proptest::option::of;
    let of_application = vec((word(), value()), 0..12).prop_map(|entries| {
        let mut map = OrderedMap::new();
        for (key, value) in entries {
            map.insert(key, simple(value));
        }
        m::ApplicationProperties(map)
    });
    let annotated = (of(annotations()), of(annotations()), of(annotations()));
    (of(header()), annotated, of(properties()), of(of_application), body()).prop_map(
        |(header, (delivery, annotations, footer), properties, application_properties, body)| m::Message {
            header,
            delivery_annotations: delivery.map(m::DeliveryAnnotations),
            message_annotations: annotations.map(m::MessageAnnotations),
            properties,
            application_properties,
            body,
            footer: footer.map(m::Footer),
        },
    )
}

/// A section that we have found, as the oracle reads it.
fn read<T: DeserializeOwned>(span: ByteRange, payload: &[u8]) -> Option<T> {
    (!span.is_empty()).then(|| from_slice(span.of(payload)).unwrap())
}

/// A section of annotations, as we read it.
fn entries(view: MapView<'_>) -> m::Annotations {
    let mut map = OrderedMap::new();
    for (key, value) in view {
        let key = Symbol::from(key.as_symbol().unwrap());
        map.insert(key.into(), decode_value(value.bytes()).unwrap());
    }
    map
}

fn ours(header: &m::Header) -> Header {
    Header {
        durable: Some(header.durable),
        priority: Some(header.priority.0),
        ttl: header.ttl,
        first_acquirer: Some(header.first_acquirer),
        delivery_count: header.delivery_count,
    }
}

fn id_of(value: RawValue<'_>) -> m::MessageId {
    match decode_value(value.bytes()).unwrap() {
        Value::Ulong(it) => m::MessageId::Ulong(it),
        Value::Uuid(it) => m::MessageId::Uuid(it),
        Value::Binary(it) => m::MessageId::Binary(it),
        Value::String(it) => m::MessageId::String(it),
        other => panic!("no id: {other:?}"),
    }
}

/// The properties, as we read them.
fn fields(view: &PropertiesView<'_>) -> m::Properties {
    let text = |value: Option<&str>| value.map(str::to_owned);
    let word = |value: Option<&str>| value.map(|it| Symbol::from(it.to_owned()));
    m::Properties {
        message_id: view.message_id().map(id_of),
        user_id: view.user_id().map(|bytes| Binary::from(bytes.to_vec())),
        to: text(view.to().and_then(RawValue::as_string)),
        subject: text(view.subject()),
        reply_to: text(view.reply_to().and_then(RawValue::as_string)),
        correlation_id: view.correlation_id().map(id_of),
        content_type: word(view.content_type()),
        content_encoding: word(view.content_encoding()),
        absolute_expiry_time: view.absolute_expiry_time().map(Into::into),
        creation_time: view.creation_time().map(Into::into),
        group_id: text(view.group_id()),
        group_sequence: view.group_sequence(),
        reply_to_group_id: text(view.reply_to_group_id()),
    }
}

proptest! {
    #[test]
    fn sections_of_the_oracle_are_found_and_read_one_by_one(message in message()) {
        let payload = to_vec(&Serializable(&message)).unwrap();
        let found = Sections::scan(&payload).unwrap();
        prop_assert_eq!(found.check_contents(&payload), Ok(()));
        // Each piece is the whole section and nothing else: they read it by itself.
        prop_assert_eq!(read(found.header, &payload), message.header.clone());
        prop_assert_eq!(read(found.delivery_annotations, &payload), message.delivery_annotations.clone());
        prop_assert_eq!(read(found.message_annotations, &payload), message.message_annotations.clone());
        prop_assert_eq!(read(found.properties, &payload), message.properties.clone());
        prop_assert_eq!(read(found.application_properties, &payload), message.application_properties.clone());
        prop_assert_eq!(read(found.footer, &payload), message.footer.clone());
        let kind = match message.body {
            m::Body::Data(_) => BodyKind::Data,
            m::Body::Sequence(_) => BodyKind::Sequence,
            m::Body::Value(_) => BodyKind::Value,
            m::Body::Empty => BodyKind::None,
        };
        prop_assert_eq!(found.body_kind, kind);
        // And what we read in it is what they meant.
        let wanted = ours(&message.header.clone().unwrap_or_default());
        prop_assert_eq!(found.read_header(&payload).unwrap().priority_or_default(), wanted.priority_or_default());
        // The oracle leaves out what has its default.
        let read = found.read_header(&payload).unwrap();
        let read = Header {
            durable: Some(read.is_durable()),
            first_acquirer: Some(read.is_first_acquirer()),
            priority: wanted.priority,
            ..read
        };
        prop_assert_eq!(read, wanted);
        prop_assert_eq!(
            entries(found.delivery_annotations_view(&payload)),
            message.delivery_annotations.unwrap_or_default().0
        );
        prop_assert_eq!(
            entries(found.message_annotations_view(&payload)),
            message.message_annotations.unwrap_or_default().0
        );
        prop_assert_eq!(fields(&found.properties_view(&payload)), message.properties.unwrap_or_default());
        let mut wanted = message.application_properties.unwrap_or_default().0;
        for (key, value) in found.application_properties_view(&payload) {
            let expected = wanted.swap_remove(key.as_string().unwrap()).unwrap();
            prop_assert_eq!(simple(decode_value(value.bytes()).unwrap()), expected);
        }
        prop_assert!(wanted.is_empty());
    }

    #[test]
    fn the_oracle_reads_sections_rewritten_for_a_delivery(
        message in message(),
        header in header(),
        token: [u8; 16],
        number: i64,
    ) {
        let payload = to_vec(&Serializable(&message)).unwrap();
        let found = Sections::scan(&payload).unwrap();
        let mut out = BytesMut::new();
        write_header(&mut out, &ours(&header));
        write_lock_token_annotations(&mut out, token);
        let broker = [("x-opt-sequence-number", AnnotationValue::Long(number))];
        let original = found.message_annotations.of(&payload);
        write_message_annotations(&mut out, Some(original), &broker).unwrap();
        out.extend_from_slice(found.bare().of(&payload));

        let Deserializable(read) = from_slice::<Deserializable<Message>>(&out).unwrap();
        let mut annotations = message.message_annotations.unwrap_or_default();
        annotations.0.insert(Symbol::from("x-opt-sequence-number").into(), Value::Long(number));
        let mut delivery = m::DeliveryAnnotations::default();
        delivery.0.insert(Symbol::from("x-opt-lock-token").into(), Value::Uuid(token.into()));
        let wanted = m::Message {
            header: Some(header),
            delivery_annotations: Some(delivery),
            message_annotations: Some(annotations),
            ..message
        };
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn the_oracle_reads_the_messages_that_we_build(
        header in header(),
        entries in vec((word(), any::<i64>()), 0..8),
        subject in "\\PC{0,300}",
        data in vec(vec(any::<u8>(), 0..400), 1..3),
    ) {
        let values: Vec<_> =
            entries.iter().map(|(key, value)| (key.as_str(), AnnotationValue::Long(*value))).collect();
        let mut annotations = m::MessageAnnotations::default();
        let mut application = m::ApplicationProperties::default();
        let mut builder = MessageBuilder::new().header(ours(&header)).message_id("id").subject(&subject);
        let mut distinct: Vec<(&str, AnnotationValue<'_>)> = Vec::new();
        for (key, value) in values {
            if distinct.iter().any(|(known, _)| *known == key) {
                continue;
            }
            let AnnotationValue::Long(number) = value else { unreachable!() };
            annotations.0.insert(Symbol::from(key).into(), Value::Long(number));
            application.0.insert(key.to_owned(), SimpleValue::Long(number));
            builder = builder.application_property(key, value);
            distinct.push((key, value));
        }
        builder = builder.message_annotations(RawMap::with_symbol_keys(&distinct));
        for section in &data {
            builder = builder.data(section);
        }
        let Deserializable(read) = from_slice::<Deserializable<Message>>(&builder.build()).unwrap();
        prop_assert_eq!(read.header, Some(header));
        prop_assert_eq!(read.message_annotations.unwrap_or_default(), annotations);
        let properties = read.properties.unwrap();
        prop_assert_eq!(properties.message_id, Some(m::MessageId::String("id".to_owned())));
        prop_assert_eq!(properties.subject, Some(subject));
        prop_assert_eq!(read.application_properties.unwrap_or_default(), application);
        let data: Vec<_> = data.into_iter().map(|bytes| m::Data(bytes.into())).collect();
        prop_assert_eq!(read.body, m::Body::Data(data.into()));
    }
}
