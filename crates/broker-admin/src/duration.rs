//! Durations as ISO 8601 writes them, with the service's word for "never".
//!
//! Invariant: reading what was written gives the same duration, to 100 ns.

use std::time::Duration;

use crate::xml;

/// The largest number of ticks of 100 ns that 64 bits hold: what the service writes for "never".
pub(crate) const INFINITE: &str = "P10675199DT2H48M5.4775807S";
/// Durations of this many days or more mean "never", as in the service: its maximum is `TimeSpan.MaxValue` of .NET.
const INFINITE_DAYS: u64 = 10_675_199;
const DAY: u64 = 86_400;
const DATE: [(char, u64); 3] = [('Y', 365 * DAY), ('M', 30 * DAY), ('D', DAY)];
const DATE_WITH_WEEKS: [(char, u64); 4] = [('Y', 365 * DAY), ('M', 30 * DAY), ('W', 7 * DAY), ('D', DAY)];
/// Ticks of a second.
const TICKS: u64 = 10_000_000;

/// A duration or "never".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IsoDuration {
    /// This long.
    Of(Duration),
    /// Without end.
    Forever,
}

impl IsoDuration {
    /// The duration; `None` without end.
    pub fn finite(self) -> Option<Duration> {
        match self {
            Self::Of(duration) => Some(duration),
            Self::Forever => None,
        }
    }
}

/// Reads a duration. Years count 365 days and months 30, as .NET reads them.
pub(crate) fn parse(text: &str) -> Option<IsoDuration> {
    read(text.trim(), &DATE).map(of)
}

/// Reads a duration that a person wrote: in small letters too, and with weeks, which .NET does not know.
pub fn read_iso_8601(text: &str) -> Option<IsoDuration> {
    read(&text.to_ascii_uppercase(), &DATE_WITH_WEEKS).map(of)
}

fn of(whole: Duration) -> IsoDuration {
    if whole.as_secs() < INFINITE_DAYS * DAY { IsoDuration::Of(whole) } else { IsoDuration::Forever }
}

/// Reads a value, which may be negative, in ticks of 100 ns; the largest ones stand for what lies beyond them.
pub(crate) fn parse_ticks(text: &str) -> Option<i64> {
    let (text, sign) = text.trim().strip_prefix('-').map_or((text.trim(), 1), |text| (text, -1));
    let ticks = i128::try_from(read(text, &DATE)?.as_nanos() / 100).ok()? * sign;
    Some(i64::try_from(ticks).unwrap_or(if sign < 0 { i64::MIN } else { i64::MAX }))
}

fn read(text: &str, date_units: &[(char, u64)]) -> Option<Duration> {
    let rest = text.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let date = units(date, date_units)?;
    let time = units(time, &[('H', 3_600), ('M', 60), ('S', 1)])?;
    date.checked_add(time)
}

/// Reads numbers with their units, each unit at most once and in order.
fn units(mut text: &str, known: &[(char, u64)]) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for (letter, seconds) in known {
        let Some((number, rest)) = text.split_once(*letter) else { continue };
        text = rest;
        sum = sum.checked_add(amount(number, *seconds, *letter == 'S')?)?;
    }
    text.is_empty().then_some(sum)
}

fn amount(number: &str, seconds: u64, may_have_fraction: bool) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !has_digits(whole) || !has_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    if number.contains('.') && (!may_have_fraction || fraction.is_empty()) {
        return None;
    }
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(seconds)?;
    Some(Duration::new(whole, nanos))
}

/// Writes a duration as the service does: days, hours, minutes, seconds, without zeros; `None` is its word for never.
pub fn iso_8601(duration: Option<Duration>) -> String {
    format(duration)
}

/// Writes a span of time in ticks of 100 ns, which may be negative.
pub fn iso_8601_ticks(ticks: i64) -> String {
    format_ticks(ticks)
}

pub(crate) fn format(duration: Option<Duration>) -> String {
    let mut out = String::new();
    put(&mut out, duration);
    out
}

/// Writes a value in ticks of 100 ns, which may be negative.
pub(crate) fn format_ticks(ticks: i64) -> String {
    let mut out = String::from(if ticks < 0 { "-" } else { "" });
    let (seconds, rest) = (ticks.unsigned_abs() / TICKS, ticks.unsigned_abs() % TICKS);
    put_finite(&mut out, Duration::from_secs(seconds) + Duration::from_nanos(rest * 100));
    out
}

/// Appends it.
pub(crate) fn put(out: &mut String, duration: Option<Duration>) {
    match duration.filter(|duration| duration.as_secs() < INFINITE_DAYS * DAY) {
        Some(duration) => put_finite(out, duration),
        None => out.push_str(INFINITE),
    }
}

fn put_finite(out: &mut String, duration: Duration) {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / DAY, seconds / 3_600 % 24);
    let (minutes, seconds, ticks) = (seconds / 60 % 60, seconds % 60, duration.subsec_nanos() / 100);
    out.push('P');
    put_unit(out, days, 'D');
    if hours > 0 || minutes > 0 || seconds > 0 || ticks > 0 || days == 0 {
        out.push('T');
        put_unit(out, hours, 'H');
        put_unit(out, minutes, 'M');
        if ticks > 0 {
            xml::number(out, seconds);
            out.push('.');
            xml::digits(out, u64::from(ticks), 7);
            out.truncate(out.trim_end_matches('0').len());
            out.push('S');
        } else if seconds > 0 || out.ends_with('T') {
            xml::number(out, seconds);
            out.push('S');
        }
    }
}

fn put_unit(out: &mut String, number: u64, unit: char) {
    if number > 0 {
        xml::number(out, number);
        out.push(unit);
    }
}

#[cfg(test)]
mod tests;
