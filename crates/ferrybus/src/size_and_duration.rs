//! Sizes and times as people write them.
//!
//! Invariant: a number without a unit is bytes where a size is wanted and refused where a time is wanted.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// A number of bytes: `1048576`, `"1 MiB"`, `"64MB"`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A number of bytes, or `"off"`: no limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BytesOrOff(pub(crate) Option<u64>);

/// A length of time: `"30s"`, `"1m 30s"`, `"PT30S"`; [`Span::Forever`] for ISO 8601 durations that mean never.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Span {
    /// This long.
    Of(Duration),
    /// Without end.
    Forever,
}

/// A point in time: a date, or a length of time before now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moment {
    /// Milliseconds since 1970.
    At(i64),
    /// This long ago.
    Ago(Duration),
}

impl Moment {
    /// Milliseconds since 1970.
    pub(crate) fn millis(self, now: i64) -> i64 {
        match self {
            Self::At(millis) => millis,
            Self::Ago(span) => now.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        }
    }
}

impl std::str::FromStr for Moment {
    type Err = SizeOrDurationError;

    fn from_str(text: &str) -> Result<Self, SizeOrDurationError> {
        if let Some(millis) = broker_admin::date_time(text.trim()) {
            return Ok(Self::At(millis));
        }
        match text.parse() {
            Ok(Span::Of(span)) => Ok(Self::Ago(span)),
            Ok(Span::Forever) | Err(_) => Err(SizeOrDurationError::Moment(text.into())),
        }
    }
}

/// Text that is no size, duration or time.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum SizeOrDurationError {
    /// No size.
    #[error("`{0}` is not a size, expected a number of bytes such as `1048576` or a text such as `1 MiB`")]
    Size(String),
    /// No time.
    #[error("`{0}` is not a length of time, expected a text such as `30s`, `5m`, `1h` or `PT30S`")]
    Time(String),
    /// No point in time.
    #[error("`{0}` is no time, expected such as `2026-01-31T12:00:00Z`, or how long ago, such as `2h`")]
    Moment(String),
}

impl std::str::FromStr for Bytes {
    type Err = SizeOrDurationError;

    fn from_str(text: &str) -> Result<Self, SizeOrDurationError> {
        let error = || SizeOrDurationError::Size(text.into());
        let (number, unit) = split_number(text.trim()).ok_or_else(error)?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(error)
    }
}

impl std::str::FromStr for Span {
    type Err = SizeOrDurationError;

    fn from_str(text: &str) -> Result<Self, SizeOrDurationError> {
        let text = text.trim();
        let span = if text.starts_with(['P', 'p']) { iso_8601(text) } else { words(text).map(Span::Of) };
        span.ok_or_else(|| SizeOrDurationError::Time(text.into()))
    }
}

impl Span {
    /// `None` for ever.
    pub(crate) const fn finite(self) -> Option<Duration> {
        match self {
            Self::Of(duration) => Some(duration),
            Self::Forever => None,
        }
    }
}

/// `1h 30m`: numbers with units, largest or smallest first, separated or not.
fn words(mut text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    loop {
        let (number, rest) = split_number(text)?;
        let end = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at_checked(end)?;
        let millis = match unit.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "s" | "sec" | "second" | "seconds" => 1_000,
            "m" | "min" | "minute" | "minutes" => 60_000,
            "h" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
        text = rest.trim_start();
        if text.is_empty() {
            return Some(sum);
        }
    }
}

/// `P1DT2H3M4.5S`; a year has 365 days and a month 30, as in .NET.
fn iso_8601(text: &str) -> Option<Span> {
    broker_admin::read_iso_8601(text).map(|span| span.finite().map_or(Span::Forever, Span::Of))
}

/// The leading decimal digits, and the rest without leading space.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest.trim_start()))
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or a text such as `64 MiB`")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Bytes, E> {
                Ok(Bytes(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bytes, E> {
                u64::try_from(number)
                    .map(Bytes)
                    .map_err(|_| E::custom(SizeOrDurationError::Size(number.to_string())))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for BytesOrOff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(deserializer)?;
        if value.as_str() == Some("off") {
            return Ok(Self(None));
        }
        Bytes::deserialize(value).map(|bytes| Self(Some(bytes.0))).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time with its unit, in quotes, such as `\"30s\"`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests;
