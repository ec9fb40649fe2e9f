//! Length of session ids, and which of them are the same session (decision 57).
//!
//! Invariant: no entity has a session whose id is longer than [`SESSION_ID_CHARS_MAX`]. Two ids have one key exactly if
//! .NET's `StringComparison.OrdinalIgnoreCase` holds them equal.

use std::borrow::Cow;

/// Longest id of a session, in characters (Microsoft Learn, "Service Bus quotas").
pub(crate) const SESSION_ID_CHARS_MAX: usize = 128;

/// Whether an id is longer than a session's may be; says by how much.
pub(crate) fn check_session_id(id: &str) -> Result<(), usize> {
    // Shorter texts need no counting.
    let chars = if id.len() <= SESSION_ID_CHARS_MAX { 0 } else { id.chars().count() };
    if chars > SESSION_ID_CHARS_MAX { Err(chars) } else { Ok(()) }
}

/// The spelling that stands for all spellings of a session's id, which Service Bus does not tell apart.
///
/// ASCII letters are folded to the lower case, so that most ids are their own keys and cost no copy, and all others to
/// the upper case, as .NET compares. No letter outside of ASCII becomes one inside, so both together tell the same ids
/// apart as the upper case alone.
pub(crate) fn session_key(id: &str) -> Cow<'_, str> {
    if id.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(id);
    }
    if id.is_ascii() {
        return Cow::Owned(id.to_ascii_lowercase());
    }
    Cow::Owned(
        id.chars()
            .map(|char| if char.is_ascii() { char.to_ascii_lowercase() } else { upper(char) })
            .collect(),
    )
}

/// Simple upper case of a character that is not ASCII, as .NET's ordinal comparison maps it: to one character or not at
/// all, and to no ASCII letter (the dotless `ı` and the long `ſ` stay as they are).
fn upper(char: char) -> char {
    let mut mapped = char.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) if !one.is_ascii() => one,
        // Their full mapping is two characters, their simple one the letter with a small iota below (Unicode Character
        // Database, field 12).
        _ => match char {
            '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => offset(char, 8),
            '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => offset(char, 9),
            _ => char,
        },
    }
}

fn offset(char: char, by: u32) -> char {
    char::from_u32(u32::from(char) + by).unwrap_or(char)
}

#[cfg(test)]
mod tests;
