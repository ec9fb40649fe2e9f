//! Builds whole messages: the replies of management nodes, and messages of our own clients.
//!
//! Invariant: sections come out in the order of the specification, whatever order they were asked
//! for in.

use bytes::{BufMut, Bytes, BytesMut};

use crate::raw::{AnnotationValue, RawMap, RawValue};
use crate::sections::{Header, PropertyField, Section};
use crate::types::{write_binary, write_descriptor, write_list, write_map, write_null, write_str};
use crate::value::{Value, write_value};

/// Collects the parts of a message and writes it.
#[derive(Clone, Debug, Default)]
pub struct MessageBuilder {
    header: Option<Header>,
    delivery_annotations: Option<RawMap>,
    message_annotations: Option<RawMap>,
    properties: [Option<Bytes>; 13],
    application_properties: Vec<(String, Bytes)>,
    body: BytesMut,
}

impl MessageBuilder {
    /// A message without any section.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the header.
    #[must_use]
    pub fn header(mut self, header: Header) -> Self {
        self.header = Some(header);
        self
    }

    /// Sets the delivery annotations.
    #[must_use]
    pub fn delivery_annotations(mut self, annotations: RawMap) -> Self {
        self.delivery_annotations = Some(annotations);
        self
    }

    /// Sets the message annotations.
    #[must_use]
    pub fn message_annotations(mut self, annotations: RawMap) -> Self {
        self.message_annotations = Some(annotations);
        self
    }

    /// Sets one of the properties.
    #[must_use]
    pub fn property(mut self, field: PropertyField, value: AnnotationValue<'_>) -> Self {
        if let Some(place) = self.properties.get_mut(field.index()) {
            *place = Some(encoded(value));
        }
        self
    }

    /// Sets the message-id.
    #[must_use]
    pub fn message_id(self, id: &str) -> Self {
        self.property(PropertyField::MessageId, AnnotationValue::Str(id))
    }

    /// Sets the correlation-id: the message-id of a request, with its type.
    #[must_use]
    pub fn correlation_id(self, id: RawValue<'_>) -> Self {
        self.property(PropertyField::CorrelationId, AnnotationValue::Raw(id))
    }

    /// Sets the address it is for.
    #[must_use]
    pub fn to(self, address: &str) -> Self {
        self.property(PropertyField::To, AnnotationValue::Str(address))
    }

    /// Sets the address that replies go to.
    #[must_use]
    pub fn reply_to(self, address: &str) -> Self {
        self.property(PropertyField::ReplyTo, AnnotationValue::Str(address))
    }

    /// Sets what it is about.
    #[must_use]
    pub fn subject(self, subject: &str) -> Self {
        self.property(PropertyField::Subject, AnnotationValue::Str(subject))
    }

    /// Adds an application property.
    #[must_use]
    pub fn application_property(mut self, key: &str, value: AnnotationValue<'_>) -> Self {
        self.application_properties.push((key.to_owned(), encoded(value)));
        self
    }

    /// Adds an application property that is a tree.
    #[must_use]
    pub fn application_property_value(mut self, key: &str, value: &Value) -> Self {
        self.application_properties.push((key.to_owned(), encoded_value(value)));
        self
    }

    /// Sets an amqp-value body.
    #[must_use]
    pub fn body_value(mut self, value: &Value) -> Self {
        self.body.clear();
        write_descriptor(&mut self.body, Section::AmqpValue.code().into());
        write_value(&mut self.body, value);
        self
    }

    /// Sets an amqp-value body from an encoded value.
    #[must_use]
    pub fn body_raw(mut self, value: RawValue<'_>) -> Self {
        self.body.clear();
        write_descriptor(&mut self.body, Section::AmqpValue.code().into());
        self.body.put_slice(value.bytes());
        self
    }

    /// Sets an amqp-value body of null.
    #[must_use]
    pub fn body_null(mut self) -> Self {
        self.body.clear();
        write_descriptor(&mut self.body, Section::AmqpValue.code().into());
        write_null(&mut self.body);
        self
    }

    /// Adds a data section to the body.
    #[must_use]
    pub fn data(mut self, data: &[u8]) -> Self {
        write_descriptor(&mut self.body, Section::Data.code().into());
        write_binary(&mut self.body, data);
        self
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut BytesMut) {
        if let Some(header) = &self.header {
            header.encode(out);
        }
        write_map_section(out, Section::DeliveryAnnotations, self.delivery_annotations.as_ref());
        write_map_section(out, Section::MessageAnnotations, self.message_annotations.as_ref());
        self.write_properties(out);
        if !self.application_properties.is_empty() {
            write_descriptor(out, Section::ApplicationProperties.code().into());
            write_map(out, self.application_properties.len() * 2, |out| {
                for (key, value) in &self.application_properties {
                    write_str(out, key);
                    out.put_slice(value);
                }
            });
        }
        out.put_slice(&self.body);
    }

    /// The message as bytes of its own.
    pub fn build(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.encode(&mut out);
        out.freeze()
    }

    fn write_properties(&self, out: &mut BytesMut) {
        let Some(last) = self.properties.iter().rposition(Option::is_some) else { return };
        write_descriptor(out, Section::Properties.code().into());
        write_list(out, last + 1, |out| {
            for field in self.properties.iter().take(last + 1) {
                match field {
                    Some(value) => out.put_slice(value),
                    None => write_null(out),
                }
            }
        });
    }
}

fn write_map_section(out: &mut BytesMut, section: Section, map: Option<&RawMap>) {
    if let Some(map) = map {
        write_descriptor(out, section.code().into());
        out.put_slice(map.bytes());
    }
}

fn encoded(value: AnnotationValue<'_>) -> Bytes {
    let mut out = BytesMut::new();
    value.write(&mut out);
    out.freeze()
}

fn encoded_value(value: &Value) -> Bytes {
    let mut out = BytesMut::new();
    write_value(&mut out, value);
    out.freeze()
}
