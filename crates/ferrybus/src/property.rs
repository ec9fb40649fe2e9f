//! Texts of properties of entities, for people and in the API.
//!
//! Invariant: a value that was read from the API and not changed is written back to it as it came.

use std::time::Duration;

use broker_admin::client::Described;
use broker_core::{EntityKind, EntityProperty, EntityStatus, LockLifetime, PropertyRow, PropertyType};
use serde_json::{Value, json};

use crate::{
    size_and_duration::{Bytes, Span},
    suggest::suggest,
};

/// The row of a property.
pub(crate) type Property = PropertyRow;

/// Writing of a property's values, for people and in the API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// A length of time, or for ever.
    Span,
    /// Yes or no.
    Flag,
    Count,
    /// Bytes, in the API in units of this many.
    Bytes(u64),
    /// One of the words of a status.
    Status,
    /// One of the words of a lock lifetime.
    LockLifetime,
    /// A text; empty: none.
    Text,
    /// The name of an entity; empty: none.
    Entity,
}

/// Texts of a property.
pub(crate) trait PropertyText {
    fn form(&self) -> Form;
    /// Its text in the description of an entity.
    fn text<'d>(&self, entity: &'d Described) -> Option<&'d str>;
}

impl PropertyText for Property {
    fn form(&self) -> Form {
        match self.value_type {
            PropertyType::Time | PropertyType::TimeOrForever => Form::Span,
            PropertyType::Flag | PropertyType::Kept(_) => Form::Flag,
            PropertyType::Count(_) => Form::Count,
            PropertyType::Bytes(unit) => Form::Bytes(unit),
            PropertyType::Status => Form::Status,
            PropertyType::LockLifetime => Form::LockLifetime,
            PropertyType::Text => Form::Text,
            PropertyType::Entity => Form::Entity,
        }
    }

    fn text<'d>(&self, entity: &'d Described) -> Option<&'d str> {
        // The broker leaves out the default, which the parsers of SDKs do not know.
        let unless_shown =
            (self.value_type == PropertyType::LockLifetime).then(|| LockLifetime::default().word());
        entity.text(self.element).or(unless_shown)
    }
}

/// The properties of such an entity.
pub(crate) fn of(kind: EntityKind) -> impl Iterator<Item = &'static Property> {
    EntityProperty::of(kind)
}

/// A value to set: the text of its element, `None` to take the element away.
pub(crate) type Wanted = Option<String>;

impl Form {
    /// The words that there are, if it is one of some words.
    pub(crate) fn words(self) -> Vec<&'static str> {
        match self {
            Self::Status => EntityStatus::ALL.map(EntityStatus::word).to_vec(),
            Self::LockLifetime => LockLifetime::ALL.map(LockLifetime::word).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Reads what a person wrote.
    pub(crate) fn read(self, text: &str) -> Result<Wanted, String> {
        let text = text.trim();
        match self {
            Self::Span => read_span(text),
            Self::Flag => read_flag(text),
            Self::Count => {
                let number = text.parse::<u32>();
                number.map(|number| Some(number.to_string())).map_err(|_| "expected a whole number".into())
            }
            Self::Bytes(unit) => read_bytes(text, unit),
            Self::Status | Self::LockLifetime => read_word(text, &self.words()),
            Self::Text | Self::Entity => Ok((!text.is_empty()).then(|| text.to_owned())),
        }
    }

    /// As JSON: lengths of time are ISO 8601, `null` is for ever or none, sizes are in bytes.
    pub(crate) fn json(self, text: &str) -> Value {
        let number =
            |unit: u64| text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number * unit));
        match self {
            Self::Span => match text.parse() {
                Ok(Span::Of(duration)) => json!(broker_admin::iso_8601(Some(duration))),
                Ok(Span::Forever) => Value::Null,
                Err(_) => json!(text),
            },
            Self::Flag => json!(text == "true"),
            Self::Count => number(1),
            Self::Bytes(unit) => number(unit),
            Self::Status | Self::LockLifetime | Self::Text | Self::Entity => json!(text),
        }
    }

    /// For people.
    pub(crate) fn told(self, text: &str) -> String {
        match self {
            Self::Span => match text.parse() {
                Ok(Span::Of(duration)) => human_time(duration),
                Ok(Span::Forever) => "never".into(),
                Err(_) => text.into(),
            },
            Self::Flag => if text == "true" { "yes" } else { "no" }.into(),
            Self::Bytes(unit) => text
                .parse::<u64>()
                .map_or_else(|_| text.into(), |number| human_bytes(number.saturating_mul(unit))),
            Self::Count | Self::Status | Self::LockLifetime | Self::Text | Self::Entity => text.into(),
        }
    }

    /// Whether two texts of elements mean the same.
    pub(crate) fn same(self, one: Option<&str>, other: Option<&str>) -> bool {
        match (self, one, other) {
            (_, None, None) => true,
            (Self::Span, Some(one), Some(other)) => {
                one == other || one.parse::<Span>().ok().is_some_and(|span| other.parse() == Ok(span))
            }
            (Self::Entity, Some(one), Some(other)) => entity(one).eq_ignore_ascii_case(entity(other)),
            (_, one, other) => one == other,
        }
    }
}

/// The name in a URI, or the name itself.
fn entity(text: &str) -> &str {
    let path =
        text.split_once("://").map_or(text, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    path.trim_matches('/')
}

fn read_span(text: &str) -> Result<Wanted, String> {
    let lower = text.to_ascii_lowercase();
    if matches!(&*lower, "never" | "forever" | "infinite") {
        return Ok(Some(broker_admin::iso_8601(None)));
    }
    let span: Span =
        text.parse().map_err(|_| "expected a length of time such as `30s`, `14d` or `PT1H`, or `never`")?;
    Ok(Some(broker_admin::iso_8601(span.finite())))
}

fn read_flag(text: &str) -> Result<Wanted, String> {
    match &*text.to_ascii_lowercase() {
        "true" | "yes" | "on" => Ok(Some("true".into())),
        "false" | "no" | "off" => Ok(Some("false".into())),
        _ => Err("expected `true` or `false`".into()),
    }
}

fn read_bytes(text: &str, unit: u64) -> Result<Wanted, String> {
    let Bytes(bytes) = text.parse().map_err(|_| "expected a size such as `1 GiB`")?;
    if bytes == 0 || !bytes.is_multiple_of(unit) {
        return Err(format!("expected a multiple of {}", human_bytes(unit)));
    }
    Ok(Some((bytes / unit).to_string()))
}

fn read_word(text: &str, words: &[&'static str]) -> Result<Wanted, String> {
    let plain = text.replace(['-', '_'], "");
    if let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(&plain)) {
        return Ok(Some((*word).to_owned()));
    }
    Err(match suggest(&plain, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected `{}`", words.join("`, `")),
    })
}

/// `1d 2h 30m`, as [`Span`] reads it.
pub(crate) fn human_time(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let mut left = millis;
    let mut parts = Vec::new();
    for (size, unit) in units {
        let count = left / size;
        left %= size;
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        }
    }
    if parts.is_empty() { "0s".into() } else { parts.join(" ") }
}

/// `80 GiB`: in the largest unit that makes it a whole number, or, above 10,000, nearly one.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes;
    for unit in units {
        if !number.is_multiple_of(1_024) && number < 10_000 || number == 0 || unit == "TiB" {
            return format!("{number} {unit}");
        }
        number /= 1_024;
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests;
