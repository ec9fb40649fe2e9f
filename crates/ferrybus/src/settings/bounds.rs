//! Properties and names of entities within their ranges.
//!
//! Invariant: a value outside of its range is named with its entity and key, what it is, and what was expected.

use std::time::Duration;

use broker_core::{EntityKind, EntitySettings, EntityStatus, PropertyRow, PropertyType, SettingValue};

use super::entries::{EntityTable, Entry, QueueEntry};
use crate::{entity_name::check_name, failure::Failure, size_and_duration::Span, words};

/// One `[[queue]]`.
pub(super) fn queue(entry: &QueueEntry) -> Result<(String, EntitySettings), Failure> {
    check_name(&entry.name)?;
    Ok((entry.name.clone(), settings(&entry.name, entry)?))
}

/// The properties of an entity that is called so.
pub(super) fn settings<T: EntityTable>(name: &str, entry: &Entry<T>) -> Result<EntitySettings, Failure> {
    let mut settings = EntitySettings::default();
    for (row, value) in &entry.given {
        let key = format!("{} `{name}`: `{}`", T::NAME, row.key);
        check(&key, T::KIND, row, value)?;
        row.set(&mut settings, value.clone()).expect("a value is read with the type of its property");
    }
    Ok(settings)
}

fn check(key: &str, kind: EntityKind, row: &PropertyRow, value: &SettingValue) -> Result<(), Failure> {
    let (least, most) = row.range.unwrap_or((0, u64::MAX));
    match (value, row.value_type) {
        (SettingValue::Time(None), PropertyType::TimeOrForever) => Ok(()),
        (SettingValue::Time(time), _) if row.range.is_some() => {
            let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
            within_times(key, time.map_or(Span::Forever, Span::Of), least, most).map(drop)
        }
        (SettingValue::Count(count), PropertyType::Count(things)) => {
            within(key, u64::from(*count), least, most, things)
        }
        (SettingValue::Bytes(Some(bytes)), _) => within(key, *bytes, least, most, "bytes"),
        (SettingValue::Status(status), _) => check_status(key, kind, *status),
        (SettingValue::Text(Some(text)), _) => match text.chars().count() as u64 {
            chars if chars <= most => Ok(()),
            chars => {
                Err(Failure::misuse(format_args!("{key} has {chars} characters, expected at most {most}")))
            }
        },
        _ => Ok(()),
    }
}

/// A topic cannot be received from, nor a subscription sent to.
fn check_status(key: &str, kind: EntityKind, status: EntityStatus) -> Result<(), Failure> {
    let other = match (kind, status) {
        (EntityKind::Topic, EntityStatus::ReceiveDisabled) => EntityStatus::SendDisabled,
        (EntityKind::Subscription, EntityStatus::SendDisabled) => EntityStatus::ReceiveDisabled,
        _ => return Ok(()),
    };
    let word = |status: EntityStatus| words::in_files(status.word());
    Err(Failure::misuse(format_args!(
        "{key} is `{}`, expected `active`, `disabled` or `{}`",
        word(status),
        word(other)
    )))
}

fn within(key: &str, value: u64, least: u64, most: u64, unit: &str) -> Result<(), Failure> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Failure::misuse(format_args!("{key} is {value}, expected {least} to {most} {unit}")))
}

/// The time, if it lies in this range. `key` names it as the error is to show it.
pub(super) fn within_times(
    key: &str,
    value: Span,
    least: Duration,
    most: Duration,
) -> Result<Duration, Failure> {
    match value {
        Span::Of(duration) if (least..=most).contains(&duration) => Ok(duration),
        _ => {
            let value = value.finite().map_or("unlimited".to_owned(), |duration| format!("{duration:?}"));
            Err(Failure::misuse(format_args!("{key} is {value}, expected {least:?} to {most:?}")))
        }
    }
}
