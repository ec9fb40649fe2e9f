//! Instants as RFC 3339 writes them.
//!
//! Invariant: years have four digits; other instants are written as the first or last one that has.

use broker_core::Timestamp;

use crate::xml;

/// Time with which the service writes "never accessed".
pub(crate) const NEVER: &str = "0001-01-01T00:00:00Z";
/// The first millisecond of the year 1, since 1970.
const FIRST: i64 = -62_135_596_800_000;
/// The last millisecond of the year 9999.
const LAST: i64 = 253_402_300_799_999;
const DAY: i64 = 86_400_000;

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
    let millis = millis.clamp(FIRST, LAST);
    let (year, month, day) = civil(millis.div_euclid(DAY));
    let of_day = millis.rem_euclid(DAY);
    let (hours, minutes, seconds) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    // None of them is negative: the year 1 is the first.
    xml::digits(out, year.unsigned_abs(), 4);
    for (mark, number) in [('-', month), ('-', day), ('T', hours), (':', minutes), (':', seconds)] {
        out.push(mark);
        xml::digits(out, number.unsigned_abs(), 2);
    }
    if of_day % 1_000 > 0 {
        out.push('.');
        xml::digits(out, (of_day % 1_000).unsigned_abs(), 3);
    }
    out.push('Z');
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
    let in_range = (1..=9_999).contains(&year) && (1..=12).contains(&month) && hours < 24 && minutes < 60;
    let last = days_before(year, month + 1) - days_before(year, month);
    if !in_range || day < 1 || day > last || seconds > 59 {
        return None;
    }
    let days = days_before(year, month) + day - 1;
    let minutes = (days * 24 + hours) * 60 + minutes - offset_minutes;
    Some((minutes * 60 + seconds) * 1_000 + millis)
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

/// Days from 1970-01-01 to the first of a month; month 13 is the next January.
fn days_before(year: i64, month: i64) -> i64 {
    let year = if month == 13 { year + 1 } else { year };
    let month = if month == 13 { 1 } else { month };
    // A year that begins in March has its leap day at its end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 - 719_468
}

/// Year, month and day of a day since 1970-01-01. A year is taken to begin in March, so that the day that leap years
/// add is its last; 400 years always have 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
