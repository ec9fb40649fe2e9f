//! The properties of entities: their names for people and in the API, and how their values are written in each.
//!
//! Invariant: a value that was read from the API and not changed is written back to it as it came.

use std::time::Duration;

use broker_admin::client::Described;
use broker_core::EntityKind;
use serde_json::{Value, json};

use crate::{
    size_and_duration::{Bytes, Span},
    suggest::suggest,
};

/// A property that can be set.
#[derive(Debug)]
pub(crate) struct Property {
    /// In JSON, in `ferrybus.toml` and, with hyphens, as an option.
    pub(crate) key: &'static str,
    /// Element in the management API.
    pub(crate) element: &'static str,
    pub(crate) kinds: &'static [EntityKind],
    pub(crate) form: Form,
    /// Cannot be changed after creation.
    pub(crate) is_fixed: bool,
    /// Value of an absent element, where the broker leaves out the default.
    pub(crate) unless_shown: Option<&'static str>,
    /// For `--help`.
    pub(crate) help: &'static str,
}

/// Type of a property's values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// A length of time, or for ever.
    Span,
    /// Yes or no.
    Flag,
    Count,
    /// Bytes, in the API in units of this many.
    Bytes(u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text; empty: none.
    Text,
    /// The name of an entity; empty: none.
    Entity,
}

const QUEUE: &[EntityKind] = &[EntityKind::Queue];
const TOPIC: &[EntityKind] = &[EntityKind::Topic];
const SUBSCRIPTION: &[EntityKind] = &[EntityKind::Subscription];
const SENT_TO: &[EntityKind] = &[EntityKind::Queue, EntityKind::Topic];
const RECEIVED_FROM: &[EntityKind] = &[EntityKind::Queue, EntityKind::Subscription];
const ALL: &[EntityKind] = &[EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription];
const STATUS: Form = Form::Word(&["Active", "Disabled", "SendDisabled", "ReceiveDisabled"]);
const HOLD: Form = Form::Word(&["Link", "Lock"]);
const MEGABYTES: Form = Form::Bytes(1 << 20);
const KILOBYTES: Form = Form::Bytes(1 << 10);

/// All of them, the most wanted first.
pub(crate) static PROPERTIES: [Property; 23] = [
    row("status", "Status", ALL, STATUS, "What is allowed"),
    row("lock_duration", "LockDuration", RECEIVED_FROM, Form::Span, "How long a lock lasts, at most 5m"),
    Property {
        unless_shown: Some("Link"),
        ..row(
            "hold",
            "Hold",
            RECEIVED_FROM,
            HOLD,
            "How long plain AMQP receivers hold messages: until the `link` ends, or for the lock duration at most (`lock`)",
        )
    },
    row(
        "max_delivery_count",
        "MaxDeliveryCount",
        RECEIVED_FROM,
        Form::Count,
        "Deliveries before dead-lettering",
    ),
    row(
        "default_time_to_live",
        "DefaultMessageTimeToLive",
        ALL,
        Form::Span,
        "How long messages live, or `never` to let none end",
    ),
    row(
        "dead_letter_on_expiration",
        "DeadLetteringOnMessageExpiration",
        RECEIVED_FROM,
        Form::Flag,
        "Dead-letter messages whose time is over",
    ),
    row(
        "dead_letter_on_filter_error",
        "DeadLetteringOnFilterEvaluationExceptions",
        SUBSCRIPTION,
        Form::Flag,
        "Dead-letter messages on which a rule fails",
    ),
    fixed(
        "requires_session",
        "RequiresSession",
        RECEIVED_FROM,
        "Each message belongs to a session; fixed at creation",
    ),
    fixed(
        "requires_duplicate_detection",
        "RequiresDuplicateDetection",
        SENT_TO,
        "Drop messages whose id was seen before; fixed at creation",
    ),
    row(
        "duplicate_detection_window",
        "DuplicateDetectionHistoryTimeWindow",
        SENT_TO,
        Form::Span,
        "How long ids are remembered, 20s to 7d",
    ),
    row(
        "forward_to",
        "ForwardTo",
        RECEIVED_FROM,
        Form::Entity,
        "Entity that gets every message; an empty text ends that",
    ),
    row(
        "forward_dead_lettered_to",
        "ForwardDeadLetteredMessagesTo",
        RECEIVED_FROM,
        Form::Entity,
        "Entity that gets every dead letter; an empty text ends that",
    ),
    row(
        "auto_delete_on_idle",
        "AutoDeleteOnIdle",
        ALL,
        Form::Span,
        "Delete the entity when unused for so long, at least 5m, or `never`",
    ),
    row(
        "max_size_bytes",
        "MaxSizeInMegabytes",
        SENT_TO,
        MEGABYTES,
        "Largest total of stored messages, in steps of 1 GiB up to 80 GiB",
    ),
    row(
        "max_message_bytes",
        "MaxMessageSizeInKilobytes",
        SENT_TO,
        KILOBYTES,
        "Largest message, in steps of 1 KiB up to 100 MiB",
    ),
    row(
        "user_metadata",
        "UserMetadata",
        ALL,
        Form::Text,
        "A note of at most 1024 characters; an empty text removes it",
    ),
    fixed(
        "enable_partitioning",
        "EnablePartitioning",
        SENT_TO,
        "Sequence numbers name a partition; fixed at creation",
    ),
    row(
        "enable_batched_operations",
        "EnableBatchedOperations",
        ALL,
        Form::Flag,
        "Kept for clients that read it, without effect",
    ),
    row(
        "support_ordering",
        "SupportOrdering",
        SENT_TO,
        Form::Flag,
        "Kept for clients that read it, without effect",
    ),
    row(
        "enable_express",
        "EnableExpress",
        SENT_TO,
        Form::Flag,
        "Kept for clients that read it, without effect",
    ),
    row(
        "is_anonymous_accessible",
        "IsAnonymousAccessible",
        QUEUE,
        Form::Flag,
        "Kept for clients that read it, without effect",
    ),
    row(
        "filtering_messages_before_publishing",
        "FilteringMessagesBeforePublishing",
        TOPIC,
        Form::Flag,
        "Kept for clients that read it, without effect",
    ),
    row(
        "enable_subscription_partitioning",
        "EnableSubscriptionPartitioning",
        TOPIC,
        Form::Flag,
        "Kept for clients that read it, without effect",
    ),
];

const fn row(
    key: &'static str,
    element: &'static str,
    kinds: &'static [EntityKind],
    form: Form,
    help: &'static str,
) -> Property {
    Property { key, element, kinds, form, is_fixed: false, unless_shown: None, help }
}

const fn fixed(
    key: &'static str,
    element: &'static str,
    kinds: &'static [EntityKind],
    help: &'static str,
) -> Property {
    Property { key, element, kinds, form: Form::Flag, is_fixed: true, unless_shown: None, help }
}

impl Property {
    /// Its text in the description of an entity.
    pub(crate) fn text<'d>(&self, entity: &'d Described) -> Option<&'d str> {
        entity.text(self.element).or(self.unless_shown)
    }
}

/// The properties of such an entity.
pub(crate) fn of(kind: EntityKind) -> impl Iterator<Item = &'static Property> {
    PROPERTIES.iter().filter(move |property| property.kinds.contains(&kind))
}

/// The property of that name.
pub(crate) fn of_key(key: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.key == key)
}

/// A value to set: the text of its element, `None` to take the element away.
pub(crate) type Wanted = Option<String>;

impl Form {
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
            Self::Word(words) => read_word(text, words),
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
            Self::Word(_) | Self::Text | Self::Entity => json!(text),
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
            Self::Count | Self::Word(_) | Self::Text | Self::Entity => text.into(),
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

fn read_word(text: &str, words: &'static [&'static str]) -> Result<Wanted, String> {
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
