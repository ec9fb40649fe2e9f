//! Properties and names of entities within their bounds.
//!
//! Invariant: a value outside its bounds is named with its key, what it is, and what was expected.

use std::time::Duration;

use broker_core::{EntitySettings, EntityStatus};

use super::{QueueEntry, Status};
use crate::{failure::Failure, size_and_duration::Span};

/// One `[[queue]]`.
pub(super) fn queue(entry: &QueueEntry) -> Result<(String, EntitySettings), Failure> {
    check_name(&entry.name)?;
    entity("queue", entry)
}

/// A thousand years, in seconds: longer is a mistake.
const YEARS: u64 = 1_000 * 365 * 86_400;

/// A queue, or what is configured like one: `what` it is.
pub(super) fn entity(what: &str, entry: &QueueEntry) -> Result<(String, EntitySettings), Failure> {
    let key = |key: &str| format!("{what} `{}`: `{key}`", entry.name);
    let defaults = EntitySettings::default();
    let max_message_bytes = entry.max_message_bytes.map(|bytes| bytes.0);
    let lock_seconds = defaults.lock_duration.as_secs();
    Ok((
        entry.name.clone(),
        EntitySettings {
            lock_duration: time(&key("lock_duration"), entry.lock_duration, lock_seconds, 1, 300)?,
            hold: entry.hold.unwrap_or_default().into(),
            max_delivery_count: within(
                &key("max_delivery_count"),
                entry.max_delivery_count,
                defaults.max_delivery_count,
                1,
                i32::MAX.unsigned_abs(),
                "deliveries",
            )?,
            requires_session: entry.requires_session.unwrap_or_default(),
            enable_partitioning: entry.enable_partitioning.unwrap_or_default(),
            default_time_to_live: entry.default_time_to_live.and_then(Span::finite),
            dead_letter_on_expiration: entry.dead_letter_on_expiration.unwrap_or_default(),
            max_message_bytes: max_message_bytes
                .map(|bytes| message_bytes(&key("max_message_bytes"), Some(bytes)))
                .transpose()?,
            max_size_bytes: entry.max_size_bytes.map(|bytes| bytes.0),
            requires_duplicate_detection: entry.requires_duplicate_detection.unwrap_or_default(),
            duplicate_detection_window: time(
                &key("duplicate_detection_window"),
                entry.duplicate_detection_window,
                defaults.duplicate_detection_window.as_secs(),
                20,
                7 * 86_400,
            )?,
            forward_to: entry.forward_to.as_deref().map(Box::from),
            forward_dead_lettered_to: entry.forward_dead_lettered_to.as_deref().map(Box::from),
            auto_delete_on_idle: match entry.auto_delete_on_idle {
                Some(Span::Of(_)) => {
                    Some(time(&key("auto_delete_on_idle"), entry.auto_delete_on_idle, 300, 300, YEARS)?)
                }
                Some(Span::Forever) | None => None,
            },
            status: status(what, entry)?,
            user_metadata: user_metadata(&key("user_metadata"), entry)?,
            ..defaults
        },
    ))
}

/// A topic cannot be received from, nor a subscription sent to.
fn status(what: &str, entry: &QueueEntry) -> Result<EntityStatus, Failure> {
    let bad = |found: &str, expected: &str| {
        Err(Failure::misuse(format_args!(
            "{what} `{}`: `status` is `{found}`, expected `active`, `disabled` or `{expected}`",
            entry.name
        )))
    };
    match (what, entry.status.unwrap_or_default()) {
        ("topic", Status::ReceiveDisabled) => bad("receive-disabled", "send-disabled"),
        ("subscription", Status::SendDisabled) => bad("send-disabled", "receive-disabled"),
        (_, Status::Active) => Ok(EntityStatus::Active),
        (_, Status::Disabled) => Ok(EntityStatus::Disabled),
        (_, Status::SendDisabled) => Ok(EntityStatus::SendDisabled),
        (_, Status::ReceiveDisabled) => Ok(EntityStatus::ReceiveDisabled),
    }
}

fn user_metadata(key: &str, entry: &QueueEntry) -> Result<Option<Box<str>>, Failure> {
    let Some(text) = &entry.user_metadata else { return Ok(None) };
    match text.chars().count() {
        0..=USER_METADATA_CHARS_MAX => Ok(Some(text.as_str().into())),
        chars => Err(Failure::misuse(format_args!(
            "{key} has {chars} characters, expected at most {USER_METADATA_CHARS_MAX}"
        ))),
    }
}

/// Names as the broker allows them, those of the emulator's schema among them: letters, digits, `.`, `-`, `_`, `~`, and
/// `/` between; at most 260 bytes.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    let good = name.len() <= NAME_BYTES_MAX
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && !name.ends_with(['.', '/'])
        && name.bytes().all(inside);
    if good {
        return Ok(());
    }
    Err(Failure::misuse(format_args!("`{name}` cannot be the name of a queue or topic")).hint(format_args!(
        "names have 1 to {NAME_BYTES_MAX} letters, digits, `.`, `-`, `_`, `~` or `/`, with a letter or digit in front and no `.` or `/` behind"
    )))
}

pub(super) fn within<T>(
    key: &str,
    value: Option<T>,
    default: T,
    min: T,
    max: T,
    unit: &str,
) -> Result<T, Failure>
where
    T: Copy + PartialOrd + std::fmt::Display,
{
    let value = value.unwrap_or(default);
    if value < min || value > max {
        let key = if key.contains('`') { key.to_owned() } else { format!("`{key}`") };
        return Err(Failure::misuse(format_args!("{key} is {value}, expected {min} to {max} {unit}")));
    }
    Ok(value)
}

fn message_bytes(key: &str, value: Option<u64>) -> Result<u64, Failure> {
    within(key, value, 1 << 20, 1 << 10, 100 << 20, "bytes")
}

pub(super) fn time(
    key: &str,
    value: Option<Span>,
    default: u64,
    min: u64,
    max: u64,
) -> Result<Duration, Failure> {
    let Some(span) = value else { return Ok(Duration::from_secs(default)) };
    let (min, max) = (Duration::from_secs(min), Duration::from_secs(max));
    match span {
        Span::Of(duration) if (min..=max).contains(&duration) => Ok(duration),
        _ => {
            let key = if key.contains('`') { key.to_owned() } else { format!("`{key}`") };
            let value = span.finite().map_or("unlimited".to_owned(), |duration| format!("{duration:?}"));
            Err(Failure::misuse(format_args!("{key} is {value}, expected {min:?} to {max:?}")))
        }
    }
}

const NAME_BYTES_MAX: usize = 260;
const USER_METADATA_CHARS_MAX: usize = 1_024;
