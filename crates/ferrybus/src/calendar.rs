//! Dates of the proleptic Gregorian calendar, without a time zone library.
//!
//! Invariant: every number of milliseconds has exactly one text, and texts sort as the numbers do (years 0 to 9999).

/// `2026-01-31T23:59:59.123Z` for milliseconds since 1970-01-01 UTC.
pub(crate) fn rfc_3339(millis: i64) -> String {
    let (year, month, day) = civil(millis.div_euclid(86_400_000));
    let of_day = millis.rem_euclid(86_400_000);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1_000)
}

/// Year, month and day of a number of days since 1970-01-01.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day is the last of its year
/// (Howard Hinnant, "chrono-compatible low-level date algorithms").
pub(crate) fn civil(days: i64) -> (i64, u8, u8) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |number: i64| u8::try_from(number).expect("months and days are below 32");
    (year, small(month), small(day))
}

#[cfg(test)]
mod tests;
