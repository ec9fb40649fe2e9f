//! Addresses of entities on the wire and in tokens.
//!
//! Invariant: what Service Bus can spell is sent as it is, so that `ferrybus` serves other brokers too.

use std::borrow::Cow;

use broker_core::is_service_bus_name;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The address of an entity, of a sub-queue or of a node: its name, or, where Service Bus cannot spell that, the form of RabbitMQ, in which
/// each character can be escaped.
pub(super) fn wire_address(address: &str) -> Cow<'_, str> {
    if is_spelled(address) {
        return Cow::Borrowed(address);
    }
    Cow::Owned(format!("/queues/{}", utf8_percent_encode(address, IN_PATHS)))
}

/// The address as the path of a URL, for a token.
pub(super) fn url_path(address: &str) -> Cow<'_, str> {
    if is_spelled(address) {
        return Cow::Borrowed(address);
    }
    // Slashes that are not escaped do not count one by one.
    Cow::Owned(utf8_percent_encode(address, IN_SEGMENTS).to_string())
}

/// Whether Service Bus can spell the entity of an address, or it is a node of its own.
fn is_spelled(address: &str) -> bool {
    let entity = address.split("/$").next().unwrap_or_default();
    address.starts_with('$') || is_service_bus_name(entity)
}

/// Characters to escape in an address; separators stay.
const IN_PATHS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b'$');
/// The same, with the separators.
const IN_SEGMENTS: &AsciiSet = &IN_PATHS.add(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_service_bus_cannot_spell_are_escaped() {
        for (address, wire, path) in [
            ("orders/$DeadLetterQueue", "orders/$DeadLetterQueue", "orders/$DeadLetterQueue"),
            ("t/Subscriptions/s", "t/Subscriptions/s", "t/Subscriptions/s"),
            ("$cbs", "$cbs", "$cbs"),
            ("a b", "/queues/a%20b", "a%20b"),
            ("a//b/$management", "/queues/a//b/$management", "a%2F%2Fb%2F$management"),
            ("größe?#%", "/queues/gr%C3%B6%C3%9Fe%3F%23%25", "gr%C3%B6%C3%9Fe%3F%23%25"),
            ("queue://x", "/queues/queue%3A//x", "queue%3A%2F%2Fx"),
        ] {
            assert_eq!((&*wire_address(address), &*url_path(address)), (wire, path), "{address}");
        }
    }
}
