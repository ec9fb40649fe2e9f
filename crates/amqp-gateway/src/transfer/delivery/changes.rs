//! Changes of a copy by a rule's action, encoded in its sections.
//!
//! Invariant: what is not named stays the bytes it was; a whole number keeps the width that it had, where it fits.

use std::borrow::Cow;

use amqp_codec::{
    raw::{AnnotationValue, MapView, RawValue},
    sections::PropertyField,
    types::{self, Symbol, TypeKind},
};
use broker_core::{Properties, PropertyValue, SYSTEM};
use broker_filter::{SystemProperty, Value};
use bytes::{BufMut, BytesMut};

use crate::transfer::filter_properties::{ANNOTATIONS, FIELDS, TIME_SPAN};

/// The same properties with every value as the protocol encodes it.
pub(super) fn encoded<'a>(properties: &'a Properties, originals: MapView<'_>) -> Cow<'a, Properties> {
    if !properties.0.iter().any(|(_, value)| matches!(value, PropertyValue::Value(_))) {
        return Cow::Borrowed(properties);
    }
    let encoded = properties.0.iter().map(|(name, value)| match value {
        PropertyValue::Value(value) => {
            let mut out = BytesMut::new();
            if name.strip_prefix(SYSTEM) == Some(CONTENT_TYPE) {
                write_symbol(&mut out, value);
            } else {
                write_like(&mut out, value, originals.get(name));
            }
            (name.clone(), PropertyValue::Encoded(out.freeze()))
        }
        other => (name.clone(), other.clone()),
    });
    Cow::Owned(Properties(encoded.collect()))
}

const CONTENT_TYPE: &str = "ContentType";

/// The changed fields of the properties section.
pub(super) fn fields(properties: &Properties) -> Vec<(PropertyField, AnnotationValue<'_>)> {
    let field = |property| FIELDS.iter().find(|(known, _)| *known == property).map(|(_, field)| *field);
    system(properties).filter_map(|(property, value)| Some((field(property)?, value))).collect()
}

/// The changed message annotations. One that is gone is null.
pub(super) fn annotations(properties: &Properties) -> Vec<(&str, AnnotationValue<'_>)> {
    let key = |property| ANNOTATIONS.iter().find(|(known, _)| *known == property).map(|(_, key)| *key);
    system(properties).filter_map(|(property, value)| Some((key(property)?, value))).collect()
}

fn system(properties: &Properties) -> impl Iterator<Item = (SystemProperty, AnnotationValue<'_>)> {
    properties.0.iter().filter_map(|(name, value)| {
        let property = SystemProperty::named(name.strip_prefix(SYSTEM)?)?;
        Some((property, annotation(value).unwrap_or(AnnotationValue::Null)))
    })
}

/// A content type is a symbol.
fn write_symbol(out: &mut BytesMut, value: &Value) {
    match value.as_text().map(Symbol::new) {
        Some(Ok(symbol)) => types::write_symbol(out, &symbol),
        _ => write_value(out, value),
    }
}

/// Writes a value in the place of another.
fn write_like(out: &mut BytesMut, value: &Value, original: Option<RawValue<'_>>) {
    let kind = original.and_then(RawValue::kind);
    let Value::Int(number) = value else { return write_value(out, value) };
    let number = *number;
    match kind {
        Some(TypeKind::Ubyte) => fitting(out, number, types::write_ubyte),
        Some(TypeKind::Ushort) => fitting(out, number, types::write_ushort),
        Some(TypeKind::Uint) => fitting(out, number, types::write_uint),
        Some(TypeKind::Ulong) => fitting(out, number, types::write_ulong),
        Some(TypeKind::Byte) => fitting(out, number, types::write_byte),
        Some(TypeKind::Short) => fitting(out, number, types::write_short),
        Some(TypeKind::Int) => fitting(out, number, types::write_int),
        _ => types::write_long(out, number),
    }
}

fn fitting<T: TryFrom<i64>>(out: &mut BytesMut, number: i64, write: fn(&mut BytesMut, T)) {
    match T::try_from(number) {
        Ok(number) => write(out, number),
        Err(_) => types::write_long(out, number),
    }
}

/// Writes a value of a rule.
pub(crate) fn write_value(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Null => types::write_null(out),
        Value::Bool(value) => types::write_bool(out, *value),
        Value::Int(value) => types::write_long(out, *value),
        Value::Double(value) => types::write_double(out, *value),
        Value::Text(text) => types::write_str(out, text),
        Value::Timestamp(millis) => types::write_timestamp(out, *millis),
        Value::Uuid(uuid) => types::write_uuid(out, *uuid),
        Value::Binary(bytes) => types::write_binary(out, bytes),
        Value::Duration(ticks) => {
            out.put_u8(types::code::DESCRIBED);
            types::write_symbol(out, &Symbol::from_static(TIME_SPAN));
            types::write_long(out, *ticks);
        }
    }
}

/// A value to write; `None` for a property that is gone. Values of rules were encoded before.
pub(super) fn annotation(value: &PropertyValue) -> Option<AnnotationValue<'_>> {
    match value {
        PropertyValue::Text(text) => Some(AnnotationValue::Str(text)),
        PropertyValue::Encoded(bytes) => RawValue::first(bytes).ok().map(AnnotationValue::Raw),
        PropertyValue::Value(_) | PropertyValue::Removed => None,
    }
}
