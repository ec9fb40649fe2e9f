//! Forms of addresses that are more than a name: URIs, and the paths of RabbitMQ.
//!
//! Invariant: a text of another form comes out as it went in.

/// Front of RabbitMQ's addresses of queues.
pub(super) const QUEUES: &str = "/queues/";
/// Front of those of exchanges.
pub(super) const EXCHANGES: &str = "/exchanges/";
/// Schemes of the URIs that a plain client may write for a name. To it the text of another one is a name.
const URI_SCHEMES: [&str; 3] = ["amqp", "amqps", "sb"];

/// Path of a URI with a scheme of this kind, after scheme and authority; any other text unchanged.
fn without_authority(address: &str, is_scheme: impl Fn(&str) -> bool) -> &str {
    let Some((scheme, rest)) = address.split_once("://") else { return address };
    if !is_scheme(scheme) {
        return address;
    }
    rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("")
}

/// Whether a text is the scheme of a URI (RFC 3986 3.1).
fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Path of an address that is a URI also to a plain client.
pub(super) fn uri_path(address: &str) -> Option<&str> {
    let is_known = |scheme: &str| URI_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    address
        .split_once("://")
        .filter(|(scheme, _)| is_known(scheme))
        .map(|_| without_authority(address, is_known))
}

/// Whether an address has the form of RabbitMQ.
pub(super) fn is_of_rabbit(address: &str) -> bool {
    address.starts_with(QUEUES) || address.starts_with(EXCHANGES)
}

/// Path of a URI of any scheme; any other text unchanged.
pub(super) fn path_of_any_uri(address: &str) -> &str {
    without_authority(address, is_scheme)
}
