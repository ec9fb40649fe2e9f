//! Names of entities, as configuration files may have them.
//!
//! Invariant: a name that passes is one that the core and the SDKs take.

use crate::failure::Failure;

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

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 260;
