//! Instants as RFC 3339 writes them.
//!
//! Invariant: years have four digits; other instants are written as the first or last one that has.

use ::time::{Date, Month, Time, UtcDateTime};
use broker_core::Timestamp;

use crate::xml;

/// Time with which the service writes "never accessed".
pub(crate) const NEVER: &str = "0001-01-01T00:00:00Z";
/// The first millisecond of the year 1, since 1970.
const FIRST: i64 = -62_135_596_800_000;
/// The last millisecond of the year 9999.
const LAST: i64 = 253_402_300_799_999;

/// UTC, with milliseconds where there are any.
pub(crate) fn format(at: Timestamp) -> String {
    let mut out = String::new();
    put(&mut out, at);
    out
}

/// Appends it.
pub(crate) fn put(out: &mut String, at: Timestamp) {
    put_millis(out, i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
}

/// The same for milliseconds since 1970, or before.
pub(crate) fn format_millis(millis: i64) -> String {
    let mut out = String::new();
    put_millis(&mut out, millis);
    out
}

fn put_millis(out: &mut String, millis: i64) {
    let at = utc(millis);
    put_seconds(out, at);
    if at.millisecond() > 0 {
        out.push('.');
        xml::digits(out, at.millisecond().into(), 3);
    }
    out.push('Z');
}

/// `2026-01-31T23:59:59.123Z` for milliseconds since 1970: always with milliseconds, so that texts sort as instants do.
pub fn rfc_3339_millis(millis: i64) -> String {
    let at = utc(millis);
    let mut out = String::new();
    put_seconds(&mut out, at);
    out.push('.');
    xml::digits(&mut out, at.millisecond().into(), 3);
    out.push('Z');
    out
}

fn put_seconds(out: &mut String, at: UtcDateTime) {
    // The year 1 is the first, so none is negative.
    xml::digits(out, at.year().unsigned_abs().into(), 4);
    let parts =
        [('-', at.month().into()), ('-', at.day()), ('T', at.hour()), (':', at.minute()), (':', at.second())];
    for (mark, number) in parts {
        out.push(mark);
        xml::digits(out, number.into(), 2);
    }
}

/// The instant, or the first or last one of which the year has four digits.
fn utc(millis: i64) -> UtcDateTime {
    let nanos = i128::from(millis.clamp(FIRST, LAST)) * 1_000_000;
    UtcDateTime::from_unix_timestamp_nanos(nanos).expect("years of four digits are dates")
}

/// The same; zero is never.
pub(crate) fn format_or_never(at: Timestamp) -> String {
    if at == Timestamp::default() { NEVER.to_owned() } else { format(at) }
}

/// Ticks of 100 ns since the year 1, as .NET counts them.
pub(crate) fn ticks(at: Timestamp) -> u64 {
    at.as_millis().saturating_add(FIRST.unsigned_abs()).saturating_mul(10_000)
}

/// Reads a date and time, in UTC where no offset is given, in milliseconds since 1970; fractions of milliseconds are
/// cut off. `None` for what is none.
pub fn date_time(text: &str) -> Option<i64> {
    parse(text)
}

pub(crate) fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| digits(part, i64::from(u16::MAX)));
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, offset_minutes) = split_offset(time)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.splitn(3, ':').map(|part| digits(part, 60));
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    digits(fraction, i64::MAX)?;
    let millis = digits(format!("{fraction:0<3}").get(..3)?, 999)?;
    let small = |number: i64| u8::try_from(number).ok();
    let month = Month::try_from(small(month)?).ok()?;
    let date =
        Date::from_calendar_date(i32::try_from(year).ok().filter(|year| *year > 0)?, month, small(day)?)
            .ok()?;
    let time = Time::from_hms(small(hours)?, small(minutes)?, small(seconds)?).ok()?;
    let seconds = UtcDateTime::new(date, time).unix_timestamp() - offset_minutes * 60;
    Some(seconds * 1_000 + millis)
}

/// The time without its offset, and the offset in minutes.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = time.find(['+', '-']) else { return Some((time, 0)) };
    let (time, offset) = time.split_at_checked(at)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let minutes = digits(hours, 14)? * 60 + digits(minutes, 59)?;
    Some((time, if offset.starts_with('-') { -minutes } else { minutes }))
}

fn digits(text: &str, max: i64) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= max)
}

#[cfg(test)]
mod tests;
