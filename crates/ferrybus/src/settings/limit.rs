//! The table of limits: from it the file is read and checked, and its part of the reference file is written.
//!
//! Invariant: a limit has one row, which names its key, unit, range and field; its default is that of the field's owner.

use std::{ops::RangeInclusive, time::Duration};

use broker_core::Profile;
use broker_server::ServerConfig;

use crate::{failure::Failure, size_and_duration::Span};

mod given;
mod namespace;
mod table;

pub(crate) use given::{AmountSeed, Given, JournalTable, LimitsTable};
pub(crate) use namespace::{LimitNumber, NAMESPACE_LIMITS, NAMESPACE_WEIGHT, namespace_limit};
pub(crate) use table::{LIMITS, MAX_MEMORY, REMOVED};
pub(super) use table::{METRICS_ENTITIES, REFUSALS, REFUSED_ATTEMPTS, SHARDS, TLS_CHECK_INTERVAL};

/// Unit of a limit; its numbers count in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// Things of this name.
    Count(&'static str),
    Bytes,
    /// Written with a unit of time; the number counts milliseconds.
    Time,
    /// The same, and "for ever" stands for no limit.
    TimeOrForever,
    /// Bytes, and "off" stands for no limit.
    BytesOrOff,
}

/// Access to the number of a limit in the configuration of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// `None`: the default is no limit, or what the system says.
    get: fn(&ServerConfig) -> Option<u64>,
    set: fn(&mut ServerConfig, u64),
}

/// One limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Its table and its key there, with a point between.
    pub(crate) key: &'static str,
    pub(super) unit: Unit,
    range: (u64, u64),
    field: Field,
    /// Key of the limit whose number is the default where the file gives it.
    follows: Option<&'static str>,
    /// Defaults of profiles that have one of their own.
    profiles: &'static [(Profile, u64)],
    /// Example for the reference file, where there is no default.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test writes and compares the reference file"))]
    example: Option<u64>,
    /// Text of the reference file, with `{range}` for the range.
    text: &'static str,
}

impl Limit {
    const fn new(
        key: &'static str,
        unit: Unit,
        range: RangeInclusive<u64>,
        field: Field,
        text: &'static str,
    ) -> Self {
        let range = (*range.start(), *range.end());
        Self { key, unit, range, field, follows: None, profiles: &[], example: None, text }
    }

    const fn in_profiles(self, profiles: &'static [(Profile, u64)]) -> Self {
        Self { profiles, ..self }
    }

    const fn following(self, key: &'static str) -> Self {
        Self { follows: Some(key), ..self }
    }

    const fn like(self, example: u64) -> Self {
        Self { example: Some(example), ..self }
    }

    /// Its meaning and range, in a sentence.
    pub(crate) fn help(&self) -> String {
        let (least, most) = self.range;
        self.text.replace("{range}", &format!("{} to {}", self.written(least), self.written(most)))
    }

    /// Its table and its key there.
    pub(crate) fn path(&self) -> (&'static str, &'static str) {
        self.key.split_once('.').unwrap_or(("", self.key))
    }

    /// The default for this profile; `None`: no limit, or what the system says.
    fn default(&self, profile: Profile) -> Option<u64> {
        let own = self.profiles.iter().find(|(candidate, _)| *candidate == profile);
        own.map(|(_, number)| *number).or_else(|| (self.field.get)(&ServerConfig::default()))
    }

    /// Refuses a number outside of the range.
    fn checked(&self, number: u64) -> Result<u64, Failure> {
        if self.contains(number) { Ok(number) } else { Err(self.refused(&self.number_text(number))) }
    }

    /// Whether the number lies in the range.
    const fn contains(&self, number: u64) -> bool {
        let (least, most) = self.range;
        least <= number && number <= most
    }

    /// The failure about this value.
    fn refused(&self, value: &str) -> Failure {
        Failure::misuse(format_args!("`{}` is {value}, expected {}", self.key, self.expected()))
    }

    /// The range, for errors.
    fn expected(&self) -> String {
        let (least, most) = self.range;
        let unit = match self.unit {
            Unit::Count(things) => format!(" {things}"),
            Unit::Bytes => " bytes".to_owned(),
            Unit::BytesOrOff => " bytes, or `off`".to_owned(),
            Unit::Time | Unit::TimeOrForever => String::new(),
        };
        format!("{} to {}{unit}", self.number_text(least), self.number_text(most))
    }

    /// The number of a limit that `owner` has, in the table of the file about it.
    pub(super) fn check_of(&self, owner: &str, amount: Amount) -> Result<u64, Failure> {
        let text = match amount {
            Amount::Number(number) if self.contains(number) => return Ok(number),
            Amount::Number(number) => self.number_text(number),
            Amount::Unlimited => "unlimited".to_owned(),
        };
        let key = self.path().1;
        Err(Failure::misuse(format_args!("{owner}: `{key}` is {text}, expected {}", self.expected())))
    }

    fn number_text(&self, number: u64) -> String {
        match self.unit {
            Unit::Count(_) | Unit::Bytes | Unit::BytesOrOff => number.to_string(),
            Unit::Time | Unit::TimeOrForever => format!("{:?}", Duration::from_millis(number)),
        }
    }

    /// The checked number, or the default of the profile; `None`: no limit, or what the system says.
    pub(crate) fn resolve(&self, given: Option<Amount>, profile: Profile) -> Result<Option<u64>, Failure> {
        match given {
            Some(Amount::Unlimited) if matches!(self.unit, Unit::TimeOrForever | Unit::BytesOrOff) => {
                Ok(None)
            }
            Some(Amount::Unlimited) => Err(self.refused("unlimited")),
            Some(Amount::Number(number)) => self.checked(number).map(Some),
            None => Ok(self.default(profile)),
        }
    }

    /// Sets the field to the checked number, or to the default of the profile.
    pub(crate) fn apply(&self, given: Option<Amount>, config: &mut ServerConfig) -> Result<(), Failure> {
        if let Some(number) = self.resolve(given, config.core.profile)? {
            (self.field.set)(config, number);
        }
        Ok(())
    }

    /// The number as the reference file has it.
    fn written(&self, number: u64) -> String {
        match self.unit {
            Unit::Count(_) => number.to_string(),
            Unit::Bytes | Unit::BytesOrOff => crate::property::human_bytes(number),
            Unit::Time | Unit::TimeOrForever => crate::property::human_time(Duration::from_millis(number)),
        }
    }

    /// Its comment and its key for the reference file.
    #[cfg(test)]
    fn reference(&self) -> String {
        let text = self.help();
        let (least, _) = self.range;
        let shown = self.example.or_else(|| self.default(Profile::STANDARD)).unwrap_or(least);
        let written = self.written(shown);
        // One that is no number of the file stands in quotes.
        let written = if written.parse::<u64>().is_ok() { written } else { format!("\"{written}\"") };
        let mut lines = String::new();
        let mut line = "#".to_owned();
        for word in text.split_whitespace() {
            if line.len() + word.len() >= 124 {
                lines.push_str(&line);
                lines.push('\n');
                "#".clone_into(&mut line);
            }
            line.push(' ');
            line.push_str(word);
        }
        format!("{lines}{line}\n# {} = {written}\n", self.path().1)
    }
}

/// The number of a limit in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Amount {
    /// In the limit's unit.
    Number(u64),
    /// A time without end, or a limit that is switched off.
    Unlimited,
}

impl From<Span> for Amount {
    fn from(span: Span) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        span.finite().map_or(Self::Unlimited, |time| Self::Number(millis(time)))
    }
}

/// A type in which the configuration of the server holds a limit. A number was checked before, so it fits.
trait LimitField: Sized {
    fn number(&self) -> Option<u64>;
    fn of(number: u64) -> Self;
}

macro_rules! limit_fields {
    ($($type:ty),*) => {$(
        impl LimitField for $type {
            fn number(&self) -> Option<u64> {
                u64::try_from(*self).ok()
            }

            fn of(number: u64) -> Self {
                Self::try_from(number).unwrap_or(Self::MAX)
            }
        }
    )*};
}

limit_fields!(u16, u32, u64, usize);

impl LimitField for Duration {
    fn number(&self) -> Option<u64> {
        u64::try_from(self.as_millis()).ok()
    }

    fn of(number: u64) -> Self {
        Self::from_millis(number)
    }
}

impl<T: LimitField> LimitField for Option<T> {
    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(T::number)
    }

    fn of(number: u64) -> Self {
        Some(T::of(number))
    }
}

#[cfg(test)]
mod tests;
