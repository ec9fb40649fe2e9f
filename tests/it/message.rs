//! Messages to send, and what came.

use amqp_codec::{
    message::MessageBuilder,
    performative::Transfer,
    raw::{AnnotationValue, RawMap, RawValue},
    sections::{Header, PropertyField, Sections},
    types::TypeKind,
};
use bytes::Bytes;

/// A message whose body is `text`, and whose id is its beginning.
pub(crate) fn message(text: &str) -> Bytes {
    MessageBuilder::new().message_id(text.get(..32).unwrap_or(text)).data(text.as_bytes()).build()
}

/// A text of so many bytes of which no two stretches are the same.
pub(crate) fn long_text(length: usize) -> String {
    (0..length.div_ceil(8)).map(|at| format!("{at:07} ")).collect::<Vec<_>>().concat()[..length].to_owned()
}

/// The same, of the session that its first letter names.
pub(crate) fn message_of_session(text: &str) -> Bytes {
    let session = AnnotationValue::Str(&text[..1]);
    MessageBuilder::new()
        .message_id(text)
        .property(PropertyField::GroupId, session)
        .data(text.as_bytes())
        .build()
}

/// A message for the anonymous terminus.
pub(crate) fn message_to(to: &str, text: &str) -> Bytes {
    MessageBuilder::new().message_id(text).to(to).data(text.as_bytes()).build()
}

/// A batch in the form of Service Bus: each message a data section.
pub(crate) fn batch(messages: &[Bytes]) -> Bytes {
    let envelope = MessageBuilder::new().message_id("envelope").build();
    let sections: Vec<Bytes> = messages.iter().map(|message| testkit::data(message)).collect();
    testkit::message(&[envelope, testkit::message(&sections)])
}

/// A delivery, put together from its frames.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// The first frame.
    pub(crate) transfer: Transfer,
    /// How many frames it took.
    pub(crate) frames: usize,
    /// The message.
    pub(crate) payload: Bytes,
}

impl Delivery {
    pub(crate) fn id(&self) -> u32 {
        self.transfer.delivery_id.expect("the first frame has a delivery-id")
    }

    pub(crate) fn tag(&self) -> &[u8] {
        self.transfer.delivery_tag.as_ref().expect("the first frame has a delivery-tag").as_slice()
    }

    fn sections(&self) -> Sections {
        Sections::scan(&self.payload).unwrap()
    }

    /// The header, which is never left away.
    pub(crate) fn header(&self) -> Header {
        assert!(!self.sections().header.is_empty(), "no header");
        self.sections().read_header(&self.payload).unwrap()
    }

    /// How long the message lives by its properties, in milliseconds: what .NET computes of them.
    pub(crate) fn lifetime(&self) -> Option<i64> {
        let sections = self.sections();
        let properties = sections.properties_view(&self.payload);
        Some(properties.absolute_expiry_time()? - properties.creation_time()?)
    }

    /// The body of one data section.
    pub(crate) fn text(&self) -> String {
        let data = RawValue::first(self.sections().body.of(&self.payload)).unwrap().described().unwrap().1;
        String::from_utf8(data.as_binary().unwrap().to_vec()).unwrap()
    }

    pub(crate) fn message_id(&self) -> RawValue<'_> {
        self.sections().properties_view(&self.payload).message_id().expect("a message-id")
    }

    pub(crate) fn correlation_id(&self) -> RawValue<'_> {
        self.sections().properties_view(&self.payload).correlation_id().expect("a correlation-id")
    }

    /// A message annotation, of which the type counts.
    pub(crate) fn annotation(&self, key: &str, kind: TypeKind) -> RawValue<'_> {
        let value = self.sections().message_annotations_view(&self.payload).get(key);
        let value = value.unwrap_or_else(|| panic!("no annotation {key}"));
        assert_eq!(value.kind(), Some(kind), "{key}");
        value
    }

    /// The number that it had first, where that is told.
    pub(crate) fn first_number(&self) -> Option<i64> {
        self.sections().message_annotations_view(&self.payload).get("x-opt-enqueue-sequence-number")?.as_i64()
    }

    pub(crate) fn sequence_number(&self) -> i64 {
        self.annotation("x-opt-sequence-number", TypeKind::Long).as_i64().unwrap()
    }

    /// The lock token from the delivery annotations, in network order.
    pub(crate) fn lock_token(&self) -> [u8; 16] {
        let view = self.sections().delivery_annotations_view(&self.payload);
        view.get("x-opt-lock-token").expect("a lock token").as_uuid().expect("as a uuid")
    }

    /// A text among the application properties.
    pub(crate) fn property(&self, key: &str) -> Option<String> {
        let value = self.sections().application_properties_view(&self.payload).get(key)?;
        assert_eq!(value.kind(), Some(TypeKind::String), "{key}");
        value.as_str().map(str::to_owned)
    }

    /// A `long` among the application properties.
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        let value = self.sections().application_properties_view(&self.payload).get(key)?;
        assert_eq!(value.kind(), Some(TypeKind::Long), "{key}");
        value.as_i64()
    }

    /// An `int` among the application properties.
    pub(crate) fn status(&self, key: &str) -> i64 {
        let value = self.sections().application_properties_view(&self.payload).get(key);
        let value = value.unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(value.kind(), Some(TypeKind::Int), "{key}");
        value.as_i64().unwrap()
    }

    /// The error condition of a management answer: a symbol, as .NET casts it.
    pub(crate) fn error_condition(&self) -> Option<String> {
        let value = self.sections().application_properties_view(&self.payload).get("errorCondition")?;
        assert_eq!(value.kind(), Some(TypeKind::Symbol));
        value.as_symbol().map(str::to_owned)
    }

    /// The map in the body.
    pub(crate) fn body(&self) -> RawMap {
        RawMap::copy_from_slice(self.sections().body_value(&self.payload).unwrap().bytes()).unwrap()
    }

    /// Checks all that the Service Bus SDKs read from a locked delivery, as they read it.
    pub(crate) fn is_locked_for_service_bus(&self, delivery_count: u32) {
        assert_eq!(self.transfer.message_format, Some(0), "go-amqp wants it said");
        assert_eq!(self.transfer.settled, Some(false));
        assert_eq!(self.header().delivery_count, delivery_count);
        let mut token = self.lock_token();
        // A .NET GUID: its first three fields are little-endian.
        token[..4].reverse();
        token[4..6].reverse();
        token[6..8].reverse();
        assert_eq!(self.tag(), token);
        self.annotation("x-opt-sequence-number", TypeKind::Long);
        self.annotation("x-opt-enqueued-time", TypeKind::Timestamp);
        self.annotation("x-opt-locked-until", TypeKind::Timestamp);
    }
}

/// An encoded array of uuids, as lock operations want it.
pub(crate) fn uuids(tokens: &[[u8; 16]]) -> Bytes {
    let mut array = vec![0xf0];
    array.extend_from_slice(&u32::try_from(tokens.len() * 16 + 5).unwrap().to_be_bytes());
    array.extend_from_slice(&u32::try_from(tokens.len()).unwrap().to_be_bytes());
    array.push(0x98);
    for token in tokens {
        array.extend_from_slice(token);
    }
    array.into()
}

/// The body of `renew-lock`.
pub(crate) fn renewal(tokens: &[[u8; 16]]) -> RawMap {
    let tokens = uuids(tokens);
    RawMap::with_string_keys(&[("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap()))])
}

/// The body of `update-disposition`.
pub(crate) fn update(token: [u8; 16], status: &str) -> RawMap {
    let tokens = uuids(&[token]);
    RawMap::with_string_keys(&[
        ("disposition-status", AnnotationValue::Str(status)),
        ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap())),
    ])
}

/// The body of `peek-message`.
pub(crate) fn peek(from: i64, count: i32) -> RawMap {
    RawMap::with_string_keys(&[
        ("from-sequence-number", AnnotationValue::Long(from)),
        ("message-count", AnnotationValue::Int(count)),
    ])
}
