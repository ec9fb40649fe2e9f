//! Names of entities, as configuration files may have them.
//!
//! Invariant: a name that passes is one that the core takes.

use broker_core::{NAME_BYTES_MAX, is_service_bus_name, split_subscription};

use crate::failure::Failure;

/// Checks the name of a queue or topic.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    broker_core::check_name(name).map_err(|error| {
        let name = name.escape_debug();
        Failure::misuse(format_args!("`{name}` cannot be the name of a queue or topic: {error}")).hint(format_args!(
            "names are any text of 1 to {NAME_BYTES_MAX} bytes without control characters, with no `/` in front or behind, and \
             no part that begins with `$`"
        ))
    })
}

/// Checks the name of a queue or topic in a file of Service Bus.
pub(crate) fn check_service_bus_name(name: &str) -> Result<(), Failure> {
    if is_service_bus_name(name) && split_subscription(name).is_none() {
        return Ok(());
    }
    Err(Failure::misuse(format_args!("`{name}` cannot be the name of a queue or topic")).hint(
        "names have 1 to 260 letters, digits, `.`, `-`, `_`, `~` or `/`, with a letter or digit in front and no `.` or `/` behind",
    ))
}
