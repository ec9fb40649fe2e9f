//! Values in the words of recordings, for error messages.
//!
//! Invariant: what is shown is short: long binaries and texts are cut.

use amqp_codec::value::{Descriptor, Value};

use super::vocabulary::{composite_of, section_of};

/// Longest text or binary that is shown whole.
const WHOLE: usize = 120;

/// A value as a recording would write it.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Ubyte(number) => format!("{number}u8"),
        Value::Ushort(number) => format!("{number}u16"),
        Value::Uint(number) => number.to_string(),
        Value::Ulong(number) => format!("{number}u64"),
        Value::Byte(number) => format!("{number}i8"),
        Value::Short(number) => format!("{number}i16"),
        Value::Int(number) => format!("{number}i32"),
        Value::Long(number) => format!("{number}i64"),
        Value::Float(number) => format!("{number}f32"),
        Value::Double(number) => format!("{number}f64"),
        Value::Char(scalar) => format!("char({})", u32::from(*scalar)),
        Value::Timestamp(time) => format!("{}ms", time.milliseconds()),
        Value::Uuid(uuid) => format!("uuid(0x{})", hex(uuid.as_inner())),
        Value::String(text) => format!("\"{}\"", cut(text)),
        Value::Symbol(name) => format!("'{}'", cut(name.as_str())),
        Value::Binary(bytes) => format!("b\"{}\"", cut(&bytes.escape_ascii().to_string())),
        Value::List(items) => format!("[{}]", joined(items)),
        Value::Array(items) => format!("array[{}]", joined(&items.0)),
        Value::Map(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Described(described) => match &described.descriptor {
            Descriptor::Code(code) => show_described(*code, &described.value),
            Descriptor::Name(name) => format!("described('{}', {})", name.as_str(), show(&described.value)),
        },
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => "decimal".to_owned(),
    }
}

fn show_described(code: u64, value: &Value) -> String {
    if let Some(section) = section_of(code) {
        return format!("{section} {}", show(value));
    }
    match (composite_of(code), value) {
        (Some(composite), Value::List(items)) => {
            let named = composite.fields.iter().zip(items).filter(|(_, value)| **value != Value::Null);
            let fields: Vec<String> = named.map(|(name, value)| format!("{name}: {}", show(value))).collect();
            format!("{}({})", composite.name, fields.join(", "))
        }
        _ => format!("described({code}u64, {})", show(value)),
    }
}

fn joined(items: &[Value]) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= WHOLE {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(WHOLE).collect::<String>())
}

fn hex(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(half.into(), 16)).collect()
}
